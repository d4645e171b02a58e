/* Texts -> the terms of their three lanes: what headwater/scanning.py does with numpy, character by character.
 *
 * A Scanner has the tables of headwater/characters.py. A Scan has texts that were folded and classed once, and is asked
 * for what they hold. Scanning and stemming hold the interpreter's lock, for the memory of stems is shared and the stemmer
 * is Python's to call (so places in that memory are looked up again afterwards). Everything else about the lanes, above
 * all Chinese words (words.c), is done without it: a Scan does not change once it is made. */

#include "words.h"
#include <string.h>

/* As in characters.py, which says what they mean. */
enum { GRAM = 1, HAN_TEXT = 2, WORD_TEXT = 4, WORD_CHAR = 8, CODE_SEED = 16, CODE_CHAR = 32, SCRIPT_CHAR = 64, HAN_CHAR = 128 };
enum { KINDS = 16, USES = KINDS * KINDS * KINDS };
/* Longer codes are keys and encoded data, which nobody types; longer words are not worth remembering. */
enum { MAX_CODE_CHARS = 100, MAX_KEPT_CHARS = 64, MAX_STEMS = 100000, STEM_SLOTS = 1 << 18 };
static const Py_UCS4 GAP = ' ';

/* ------------------------------------------------------------------------------------------------ text that grows */

typedef struct {
    Py_UCS4 *at;
    Py_ssize_t size, room;
} Text;

/* -1 where there is no memory: whoever holds the interpreter's lock says so. */
static int reserve(Text *text, Py_ssize_t more) {
    if (text->room - text->size >= more) return 0;
    Py_ssize_t room = text->room ? text->room : 256;
    while (room - text->size < more) room *= 2;
    Py_UCS4 *at = PyMem_RawRealloc(text->at, (size_t)room * sizeof(Py_UCS4));
    if (!at) return -1;
    text->at = at;
    text->room = room;
    return 0;
}

static int put_run(Text *text, const Py_UCS4 *run, Py_ssize_t size) {
    if (reserve(text, size + 1) < 0) return -1;
    memcpy(text->at + text->size, run, (size_t)size * sizeof(Py_UCS4));
    text->size += size;
    text->at[text->size++] = GAP;
    return 0;
}

static PyObject *as_str(const Py_UCS4 *at, Py_ssize_t size) {
    return PyUnicode_FromKindAndData(PyUnicode_4BYTE_KIND, at ? at : &GAP, size);
}

/* What was put from one place to another, without the space behind the last of it. */
static PyObject *put_between(const Text *text, Py_ssize_t start, Py_ssize_t end) {
    return as_str(text->at ? text->at + start : NULL, end > start ? end - start - 1 : 0);
}

/* ---------------------------------------------------------------------------------------------------- the scanner */

typedef struct {
    uint64_t hash;
    uint32_t word, stem; /* places in the memory */
    uint16_t word_size, stem_size;
} Stem;

typedef struct {
    PyObject_HEAD
    int32_t *folded; /* by code point */
    uint8_t *kind;   /* by code point, of what it folds to */
    Py_ssize_t size;
    uint8_t uses[USES];
    PyObject *stemmer, *load; /* what gives the dictionary */
    PyObject *dictionary;     /* NULL before the first Chinese character */
    PyTypeObject *term;
    Stem *stems;
    Py_ssize_t stem_count;
    Text memory;
} Scanner;

typedef struct {
    PyObject_HEAD
    Scanner *scanner;
    Py_ssize_t count;
    Py_ssize_t *starts; /* of each text, and the end of the last */
    Py_UCS4 *points;    /* folded */
    uint8_t *uses;      /* of each place */
} Scan;

static PyTypeObject ScannerType, ScanType;

static int buffer_of(PyObject *given, Py_buffer *view, Py_ssize_t size, const char *name) {
    if (PyObject_GetBuffer(given, view, PyBUF_C_CONTIGUOUS) < 0) return -1;
    if (size >= 0 && view->len != size) {
        PyErr_Format(PyExc_ValueError, "%s has %zd bytes, wanted %zd", name, view->len, size);
        PyBuffer_Release(view);
        return -1;
    }
    return 0;
}

static PyObject *scanner_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    static char *names[] = {"shift", "kind", "uses", "stemmer", "dictionary", "term", NULL};
    PyObject *shift, *kind, *uses, *stemmer, *load, *term;
    if (!PyArg_ParseTupleAndKeywords(args, named, "OOOOOO!", names, &shift, &kind, &uses, &stemmer, &load, &PyType_Type, &term))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)term, &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "term must be a kind of tuple");
        return NULL;
    }
    Py_buffer shifts, kinds, use;
    if (buffer_of(shift, &shifts, -1, "shift") < 0) return NULL;
    Py_ssize_t size = shifts.len / (Py_ssize_t)sizeof(int32_t);
    if (buffer_of(kind, &kinds, size, "kind") < 0) {
        PyBuffer_Release(&shifts);
        return NULL;
    }
    if (buffer_of(uses, &use, USES, "uses") < 0) {
        PyBuffer_Release(&shifts);
        PyBuffer_Release(&kinds);
        return NULL;
    }
    Scanner *self = (Scanner *)type->tp_alloc(type, 0);
    if (self) {
        self->size = size;
        self->folded = PyMem_Malloc((size_t)size * sizeof(int32_t));
        self->kind = PyMem_Malloc((size_t)size);
        self->stems = PyMem_Calloc(STEM_SLOTS, sizeof(Stem));
        if (!self->folded || !self->kind || !self->stems || size < 1) {
            Py_DECREF(self);
            self = NULL;
            PyErr_NoMemory();
        }
    }
    if (self) {
        const int32_t *by = shifts.buf;
        const uint8_t *of = kinds.buf;
        for (Py_ssize_t point = 0; point < size; point++) {
            Py_ssize_t folded = point + by[point];
            self->folded[point] = (int32_t)folded;
            self->kind[point] = of[folded < 0 ? 0 : folded < size ? folded : size - 1];
        }
        memcpy(self->uses, use.buf, USES);
        self->stemmer = Py_NewRef(stemmer);
        self->load = Py_NewRef(load);
        self->term = (PyTypeObject *)Py_NewRef(term);
    }
    PyBuffer_Release(&shifts);
    PyBuffer_Release(&kinds);
    PyBuffer_Release(&use);
    return (PyObject *)self;
}

static void scanner_dealloc(Scanner *self) {
    PyMem_Free(self->folded);
    PyMem_Free(self->kind);
    PyMem_Free(self->stems);
    PyMem_RawFree(self->memory.at);
    Py_XDECREF(self->stemmer);
    Py_XDECREF(self->load);
    Py_XDECREF(self->dictionary);
    Py_XDECREF(self->term);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* Above the tables no character folds, and none is part of a word. */
static inline Py_UCS4 fold_point(const Scanner *self, Py_UCS4 point) {
    return point < (Py_UCS4)self->size ? (Py_UCS4)self->folded[point] : point;
}

static inline uint8_t kind_of(const Scanner *self, Py_UCS4 point) {
    return self->kind[point < (Py_UCS4)self->size ? point : (Py_UCS4)self->size - 1];
}

static PyObject *scanner_fold(Scanner *self, PyObject *text) {
    if (!PyUnicode_Check(text)) return PyErr_Format(PyExc_TypeError, "fold wants a str, got %R", text);
    Py_ssize_t size = PyUnicode_GET_LENGTH(text);
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    Text folded = {0};
    if (reserve(&folded, size + 1) < 0) return PyErr_NoMemory();
    for (Py_ssize_t at = 0; at < size; at++) folded.at[at] = fold_point(self, PyUnicode_READ(kind, data, at));
    PyObject *made = as_str(folded.at, size);
    PyMem_RawFree(folded.at);
    return made;
}

/* ----------------------------------------------------------------------------------------------------------- stems */

static uint64_t hash_of(const Py_UCS4 *word, Py_ssize_t size) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, then mixed */
    for (Py_ssize_t at = 0; at < size; at++) hash = (hash ^ word[at]) * 0x100000001b3u;
    hash ^= hash >> 29;
    return hash ? hash : 1;
}

static Stem *stem_slot(Scanner *self, const Py_UCS4 *word, Py_ssize_t size, uint64_t hash) {
    for (uint64_t slot = hash * 0x9e3779b97f4a7c15u >> 46;; slot = (slot + 1) & (STEM_SLOTS - 1)) {
        Stem *found = self->stems + slot;
        if (!found->hash) return found;
        if (found->hash == hash && found->word_size == size &&
            !memcmp(self->memory.at + found->word, word, (size_t)size * sizeof(Py_UCS4)))
            return found;
    }
}

static int no_memory(void) {
    PyErr_NoMemory();
    return -1;
}

static int put_stem(Scanner *self, Text *out, const Py_UCS4 *word, Py_ssize_t size) {
    uint64_t hash = 0;
    if (size <= MAX_KEPT_CHARS) {
        hash = hash_of(word, size);
        Stem *known = stem_slot(self, word, size, hash);
        if (known->hash) return put_run(out, self->memory.at + known->stem, known->stem_size) < 0 ? no_memory() : 0;
    }
    PyObject *spelled = as_str(word, size);
    if (!spelled) return -1;
    PyObject *stem = PyObject_CallOneArg(self->stemmer, spelled);
    Py_DECREF(spelled);
    if (!stem) return -1;
    if (!PyUnicode_Check(stem)) {
        PyErr_Format(PyExc_TypeError, "the stemmer gave %R, wanted a str", stem);
        Py_DECREF(stem);
        return -1;
    }
    Py_ssize_t stem_size = PyUnicode_GET_LENGTH(stem);
    int failed = reserve(out, stem_size + 1) < 0 && no_memory();
    if (!failed) {
        Py_UCS4 *at = out->at + out->size;
        if (stem_size) failed = !PyUnicode_AsUCS4(stem, at, stem_size, 0);
        at[stem_size] = GAP;
        out->size += stem_size + 1;
    }
    Py_DECREF(stem);
    if (failed || !hash || stem_size > MAX_KEPT_CHARS) return failed ? -1 : 0;
    if (self->stem_count >= MAX_STEMS) {
        memset(self->stems, 0, STEM_SLOTS * sizeof(Stem));
        self->stem_count = self->memory.size = 0;
    }
    Stem *slot = stem_slot(self, word, size, hash);
    if (slot->hash) return 0;
    uint32_t word_at = (uint32_t)self->memory.size;
    if (put_run(&self->memory, word, size) < 0) return no_memory();
    uint32_t stem_at = (uint32_t)self->memory.size;
    if (put_run(&self->memory, out->at + out->size - stem_size - 1, stem_size) < 0) return no_memory();
    *slot = (Stem){hash, word_at, stem_at, (uint16_t)size, (uint16_t)stem_size};
    self->stem_count++;
    return 0;
}

/* -------------------------------------------------------------------------------------------------------- scanning */

/* The end of the run of places that are good for this, from `at` on, where one is. */
static inline Py_ssize_t run_end(const Scan *self, Py_ssize_t at, Py_ssize_t end, uint8_t use) {
    while (at < end && self->uses[at] & use) at++;
    return at;
}

/* At the first Chinese character, for it takes a while. */
static int load_dictionary(Scanner *self) {
    if (self->dictionary) return 0;
    PyObject *loaded = PyObject_CallNoArgs(self->load);
    if (!loaded) return -1;
    if (!PyObject_TypeCheck(loaded, &DictionaryType)) {
        PyErr_Format(PyExc_TypeError, "a Dictionary is wanted, got %R", loaded);
        Py_DECREF(loaded);
        return -1;
    }
    if (self->dictionary) /* another thread was quicker, and may be reading it */
        Py_DECREF(loaded);
    else
        self->dictionary = loaded;
    return 0;
}

static PyObject *scanner_scan(Scanner *self, PyObject *given) {
    PyObject *texts = PySequence_Fast(given, "scan wants a sequence of texts");
    if (!texts) return NULL;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(texts), total = 0;
    for (Py_ssize_t text = 0; text < count; text++) {
        PyObject *one = PySequence_Fast_GET_ITEM(texts, text);
        if (!PyUnicode_Check(one)) {
            PyErr_Format(PyExc_TypeError, "scan wants texts, got %R", one);
            Py_DECREF(texts);
            return NULL;
        }
        total += PyUnicode_GET_LENGTH(one);
    }
    Scan *scan = PyObject_New(Scan, &ScanType);
    if (!scan) {
        Py_DECREF(texts);
        return NULL;
    }
    scan->scanner = (Scanner *)Py_NewRef(self);
    scan->count = count;
    scan->starts = PyMem_Malloc((size_t)(count + 1) * sizeof(Py_ssize_t));
    scan->points = PyMem_Malloc((size_t)(total + 1) * sizeof(Py_UCS4));
    scan->uses = PyMem_Malloc((size_t)(total + 1));
    if (!scan->starts || !scan->points || !scan->uses) {
        Py_DECREF(texts);
        Py_DECREF(scan);
        return PyErr_NoMemory();
    }
    Py_ssize_t to = 0;
    uint8_t any = 0;
    const uint8_t outside = kind_of(self, GAP);
    for (Py_ssize_t text = 0; text < count; text++) {
        PyObject *one = PySequence_Fast_GET_ITEM(texts, text);
        Py_ssize_t size = PyUnicode_GET_LENGTH(one);
        int kind = PyUnicode_KIND(one);
        const void *data = PyUnicode_DATA(one);
        scan->starts[text] = to;
        unsigned before = outside, middle = size ? kind_of(self, PyUnicode_READ(kind, data, 0)) : outside;
        for (Py_ssize_t at = 0; at < size; at++, to++) {
            Py_UCS4 point = PyUnicode_READ(kind, data, at);
            unsigned after = at + 1 < size ? kind_of(self, PyUnicode_READ(kind, data, at + 1)) : outside;
            scan->points[to] = fold_point(self, point);
            any |= scan->uses[to] = self->uses[before << 8 | middle << 4 | after];
            before = middle;
            middle = after;
        }
    }
    scan->starts[count] = to;
    Py_DECREF(texts);
    if (any & HAN_CHAR && load_dictionary(self) < 0) Py_CLEAR(scan);
    return (PyObject *)scan;
}

static void scan_dealloc(Scan *self) {
    Py_XDECREF(self->scanner);
    PyMem_Free(self->starts);
    PyMem_Free(self->points);
    PyMem_Free(self->uses);
    PyObject_Free(self);
}

/* ----------------------------------------------------------------------------------------------------------- codes */

static int is_one_of(Py_UCS4 point, const char *signs) { return point && point < 128 && strchr(signs, (int)point) != NULL; }

/* The next run with a seed in it, without the signs around it; 0 where there is none. */
static int next_code(const Scan *self, Py_ssize_t *at, Py_ssize_t end, Py_ssize_t *start, Py_ssize_t *stop) {
    while (*at < end) {
        if (!(self->uses[*at] & CODE_CHAR)) {
            ++*at;
            continue;
        }
        Py_ssize_t first = *at, last = first;
        int seed = 0;
        for (; last < end && self->uses[last] & CODE_CHAR; last++) seed |= self->uses[last] & CODE_SEED;
        *at = last;
        if (!seed) continue;
        Py_ssize_t body = first;
        while (body < last && is_one_of(self->points[body], "-_@&+#.")) body++;
        if (body == first + 1 && self->points[first] == '.' && body < last && Py_UNICODE_ISALPHA(self->points[body]))
            body = first; /* .NET */
        while (last > body && is_one_of(self->points[last - 1], "-_@&.")) last--;
        if (last - body > MAX_CODE_CHARS) continue;
        *start = body;
        *stop = last;
        return 1;
    }
    return 0;
}

/* ----------------------------------------------------------------------------------------------------------- lanes */

/* As in scanning.py, which says what they mean. */
enum { ALL_PAIRS, PAIRS_APART, PAIRS_ONCE };

/* Pairs of characters of one text: its words of two. A slot counts where its stamp is the text's. */
typedef struct {
    uint64_t *pairs;
    uint32_t *stamps;
    uint32_t stamp;
    Py_ssize_t room; /* a power of two */
} Pairs;

static int begin_pairs(Pairs *set, Py_ssize_t chars) {
    if (2 * chars + 2 > set->room) {
        Py_ssize_t room = 1024;
        while (room < 2 * chars + 2) room *= 2;
        PyMem_RawFree(set->pairs);
        PyMem_RawFree(set->stamps);
        set->pairs = PyMem_RawMalloc((size_t)room * sizeof(uint64_t));
        set->stamps = PyMem_RawCalloc((size_t)room, sizeof(uint32_t));
        set->room = set->pairs && set->stamps ? room : 0;
        set->stamp = 0;
        if (!set->room) return -1;
    }
    set->stamp++;
    return 0;
}

/* Whether it is among them; puts it there if asked to. There is always room: a text has fewer pairs than characters. */
static int pair_known(Pairs *set, Py_UCS4 one, Py_UCS4 other, int put) {
    uint64_t pair = (uint64_t)one << 32 | other;
    Py_ssize_t mask = set->room - 1, slot = (Py_ssize_t)(pair * 0x9e3779b97f4a7c15u >> 20) & mask;
    for (Py_ssize_t tried = 0; tried < set->room; tried++, slot = (slot + 1) & mask) {
        if (set->stamps[slot] != set->stamp) {
            if (put) {
                set->stamps[slot] = set->stamp;
                set->pairs[slot] = pair;
            }
            return 0;
        }
        if (set->pairs[slot] == pair) return 1;
    }
    return 0;
}

static int put_han_words(const Scan *self, Py_ssize_t text, Text *out, Pairs *set, Found *found) {
    Py_ssize_t end = self->starts[text + 1];
    for (Py_ssize_t at = self->starts[text]; at < end; at++) {
        if (!(self->uses[at] & HAN_CHAR)) continue;
        Py_ssize_t stop = run_end(self, at, end, HAN_CHAR);
        const Py_UCS4 *run = self->points + at;
        if (find_words(self->scanner->dictionary, run, stop - at, found) < 0) return -1;
        for (Py_ssize_t word = 0; word < found->count; word++) {
            Span span = found->spans[word];
            if (span.stop - span.start == 2) pair_known(set, run[span.start], run[span.start + 1], 1);
            if (put_run(out, run + span.start, span.stop - span.start) < 0) return -1;
        }
        at = stop;
    }
    return 0;
}

static int put_scripts(const Scan *self, Py_ssize_t text, Text *out, Pairs *set) {
    Py_ssize_t end = self->starts[text + 1];
    for (Py_ssize_t at = self->starts[text]; at < end; at++) {
        if (!(self->uses[at] & SCRIPT_CHAR)) continue;
        Py_ssize_t stop = run_end(self, at, end, SCRIPT_CHAR);
        if (stop - at == 2) pair_known(set, self->points[at], self->points[at + 1], 1);
        if (put_run(out, self->points + at, stop - at) < 0) return -1;
        at = stop;
    }
    return 0;
}

static int put_grams(const Scan *self, Py_ssize_t text, int pairs, Text *out, Pairs *set) {
    Py_ssize_t end = self->starts[text + 1];
    for (Py_ssize_t at = self->starts[text]; at < end; at++) {
        if (!(self->uses[at] & GRAM)) continue;
        Py_ssize_t size = at + 1 < end && self->uses[at + 1] & (HAN_CHAR | SCRIPT_CHAR) ? 2 : 1;
        /* A character that stands alone is no word of two, but may stand there again. */
        Py_UCS4 other = size == 2 ? self->points[at + 1] : GAP;
        if (pairs != ALL_PAIRS && pair_known(set, self->points[at], other, pairs == PAIRS_ONCE)) continue;
        if (put_run(out, self->points + at, size) < 0) return -1;
    }
    return 0;
}

static int put_codes(const Scan *self, Py_ssize_t text, Text *out) {
    Py_ssize_t at = self->starts[text], end = self->starts[text + 1], start, stop;
    while (next_code(self, &at, end, &start, &stop))
        if (put_run(out, self->points + start, stop - start) < 0) return -1;
    return 0;
}

/* The stems of all texts and where those of each end. */
static int put_stems(const Scan *self, Text *out, Py_ssize_t *ends) {
    for (Py_ssize_t text = 0; text < self->count; text++) {
        Py_ssize_t end = self->starts[text + 1];
        for (Py_ssize_t at = self->starts[text]; at < end; at++) {
            if (!(self->uses[at] & WORD_CHAR)) continue;
            Py_ssize_t stop = run_end(self, at, end, WORD_CHAR);
            if (put_stem(self->scanner, out, self->points + at, stop - at) < 0) return -1;
            at = stop;
        }
        ends[text] = out->size;
    }
    return 0;
}

/* The lanes of all texts, one behind the other, and where each of them ends: without the interpreter's lock. */
static int put_lanes(const Scan *self, int pairs, const Text *stems, const Py_ssize_t *stem_ends, Text *out, Py_ssize_t *ends) {
    Pairs set = {0};
    Found found = {0};
    int failed = 0;
    for (Py_ssize_t text = 0; !failed && text < self->count; text++) {
        Py_ssize_t stem = text ? stem_ends[text - 1] : 0, stemmed = stem_ends[text] - stem;
        failed = begin_pairs(&set, self->starts[text + 1] - self->starts[text]) < 0 ||
                 put_han_words(self, text, out, &set, &found) < 0 || reserve(out, stemmed) < 0;
        if (failed) break;
        if (stemmed) memcpy(out->at + out->size, stems->at + stem, (size_t)stemmed * sizeof(Py_UCS4));
        out->size += stemmed;
        failed = put_scripts(self, text, out, &set) < 0;
        ends[3 * text] = out->size;
        failed = failed || put_grams(self, text, pairs, out, &set) < 0;
        ends[3 * text + 1] = out->size;
        failed = failed || put_codes(self, text, out) < 0;
        ends[3 * text + 2] = out->size;
    }
    PyMem_RawFree(set.pairs);
    PyMem_RawFree(set.stamps);
    free_found(&found);
    return failed ? -1 : 0;
}

static PyObject *scan_lanes(Scan *self, PyObject *args, PyObject *named) {
    static char *names[] = {"pairs", NULL};
    int pairs = ALL_PAIRS, failed;
    if (!PyArg_ParseTupleAndKeywords(args, named, "|$i", names, &pairs)) return NULL;
    Text stems = {0}, lanes = {0};
    PyObject *made = NULL;
    Py_ssize_t *ends = PyMem_Malloc((size_t)(4 * self->count + 1) * sizeof(Py_ssize_t)), *stem_ends = ends + 3 * self->count;
    if (!ends) return PyErr_NoMemory();
    if (put_stems(self, &stems, stem_ends) < 0) goto done;
    Py_BEGIN_ALLOW_THREADS;
    failed = put_lanes(self, pairs, &stems, stem_ends, &lanes, ends) < 0;
    Py_END_ALLOW_THREADS;
    if (failed) {
        PyErr_NoMemory();
        goto done;
    }
    made = PyList_New(self->count);
    for (Py_ssize_t text = 0, start = 0; made && text < self->count; text++) {
        const Py_ssize_t *end = ends + 3 * text;
        PyObject *three = Py_BuildValue("(NNN)", put_between(&lanes, start, end[0]), put_between(&lanes, end[0], end[1]),
                                        put_between(&lanes, end[1], end[2]));
        start = end[2];
        if (three)
            PyList_SET_ITEM(made, text, three);
        else
            Py_CLEAR(made);
    }
done:
    PyMem_Free(ends);
    PyMem_RawFree(stems.at);
    PyMem_RawFree(lanes.at);
    return made;
}

/* ----------------------------------------------------------------------------------------------- terms with places */

static int append_term(const Scan *self, PyObject *found, Py_ssize_t start, Py_ssize_t stop, PyObject *spelled) {
    PyTypeObject *type = self->scanner->term;
    PyObject *term = spelled ? type->tp_alloc(type, 3) : NULL;
    if (!term) {
        Py_XDECREF(spelled);
        return -1;
    }
    PyObject *first = PyLong_FromSsize_t(start), *last = PyLong_FromSsize_t(stop);
    PyTuple_SET_ITEM(term, 0, first);
    PyTuple_SET_ITEM(term, 1, last);
    PyTuple_SET_ITEM(term, 2, spelled);
    int failed = !first || !last || PyList_Append(found, term) < 0;
    Py_DECREF(term);
    return failed ? -1 : 0;
}

static int append_runs(const Scan *self, PyObject *found, uint8_t use) {
    Py_ssize_t end = self->starts[self->count];
    Text stem = {0};
    int failed = 0;
    for (Py_ssize_t at = 0; !failed && at < end; at++) {
        if (!(self->uses[at] & use)) continue;
        Py_ssize_t stop = run_end(self, at, end, use);
        if (use == WORD_CHAR) {
            stem.size = 0;
            failed = put_stem(self->scanner, &stem, self->points + at, stop - at) < 0 ||
                     append_term(self, found, at, stop, put_between(&stem, 0, stem.size)) < 0;
        } else {
            failed = append_term(self, found, at, stop, as_str(self->points + at, stop - at)) < 0;
        }
        at = stop;
    }
    PyMem_RawFree(stem.at);
    return failed ? -1 : 0;
}

static int append_han_words(const Scan *self, PyObject *found) {
    Py_ssize_t end = self->starts[self->count];
    Found words = {0};
    int failed = 0;
    for (Py_ssize_t at = 0; !failed && at < end; at++) {
        if (!(self->uses[at] & HAN_CHAR)) continue;
        Py_ssize_t stop = run_end(self, at, end, HAN_CHAR);
        failed = find_words(self->scanner->dictionary, self->points + at, stop - at, &words) < 0 && no_memory();
        for (Py_ssize_t word = 0; !failed && word < words.count; word++) {
            Span span = words.spans[word];
            PyObject *spelled = as_str(self->points + at + span.start, span.stop - span.start);
            failed = append_term(self, found, at + span.start, at + span.stop, spelled) < 0;
        }
        at = stop;
    }
    free_found(&words);
    return failed ? -1 : 0;
}

static PyObject *scan_terms(Scan *self, PyObject *Py_UNUSED(ignored)) {
    PyObject *found = PyList_New(0);
    if (!found) return NULL;
    Py_ssize_t at = 0, end = self->starts[self->count], start, stop;
    while (next_code(self, &at, end, &start, &stop))
        if (append_term(self, found, start, stop, as_str(self->points + start, stop - start)) < 0) goto failed;
    if (append_runs(self, found, WORD_CHAR) < 0 || append_runs(self, found, SCRIPT_CHAR) < 0 ||
        append_han_words(self, found) < 0)
        goto failed;
    return found;
failed:
    Py_DECREF(found);
    return NULL;
}

static PyObject *scan_folded(Scan *self, void *Py_UNUSED(closure)) {
    return as_str(self->points, self->starts[self->count]);
}

/* ---------------------------------------------------------------------------------------------------------- module */

static PyMethodDef scanner_methods[] = {
    {"fold", (PyCFunction)scanner_fold, METH_O, "The text folded, every character in its place."},
    {"scan", (PyCFunction)scanner_scan, METH_O, "The texts with what each of their characters is good for."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef scan_methods[] = {
    {"lanes", (PyCFunction)(void (*)(void))scan_lanes, METH_VARARGS | METH_KEYWORDS,
     "The three lanes of each text."},
    {"terms", (PyCFunction)scan_terms, METH_NOARGS, "The terms of the only text with their places."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef scan_getters[] = {
    {"folded", (getter)scan_folded, NULL, "The only text folded.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject ScannerType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "headwater._native_lanes.Scanner",
    .tp_basicsize = sizeof(Scanner),
    .tp_dealloc = (destructor)scanner_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Folds and classes texts.",
    .tp_methods = scanner_methods,
    .tp_new = scanner_new,
};

static PyTypeObject ScanType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "headwater._native_lanes.Scan",
    .tp_basicsize = sizeof(Scan),
    .tp_dealloc = (destructor)scan_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "Texts that were folded and classed.",
    .tp_methods = scan_methods,
    .tp_getset = scan_getters,
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "headwater._native_lanes",
    .m_doc = "What headwater.scanning does, in C.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit__native_lanes(void) {
    if (PyType_Ready(&ScannerType) < 0 || PyType_Ready(&ScanType) < 0 || PyType_Ready(&DictionaryType) < 0) return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made && (PyModule_AddObjectRef(made, "Scanner", (PyObject *)&ScannerType) < 0 ||
                 PyModule_AddObjectRef(made, "Dictionary", (PyObject *)&DictionaryType) < 0))
        Py_CLEAR(made);
    return made;
}
