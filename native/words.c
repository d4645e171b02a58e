/* The likeliest words of a run of Chinese characters, and the shorter words inside them: jieba's search mode, to the word.
 *
 * Three steps, as jieba's authors describe them. Of all ways to cut a run into words of the dictionary, the one whose words
 * are the most frequent together. Where that leaves single characters side by side, a hidden Markov model says which of
 * them make a word that the dictionary does not have. Then every word of three characters and more also gives the words
 * of two and three inside it.
 *
 * The tables are made by training/dictionary.py and read where they are. The dictionary is a trie: a character that starts
 * words has its branch in `firsts`, every longer beginning of a word is found in `slots` by the number of what goes before
 * and the number of its last character. A branch has the number of what follows and the rank of the word's frequency, and
 * 0 stands for none of either. */

#include "words.h"
#include <math.h>
#include <string.h>

/* As in training/dictionary.py. */
enum { FIRST_CHAR = 0x3400, LAST_CHAR = 0x9fff, CHAR_BITS = 14, RANK_BITS = 13, RANKS = 1 << RANK_BITS };
static const uint32_t MIXER = 0x9e3779b1u;
enum { MAX_WORD_CHARS = 16 };
/* Whether a character begins, ends or is in the middle of a word, or is one alone. */
enum { BEGINS, ENDS, MIDDLE, ALONE, STATES };
/* The characters that the model of unknown words knows of. */
static const Py_UCS4 FIRST_KNOWN = 0x4e00, LAST_KNOWN = 0x9fd5;

enum { CHARS, FIRSTS, SLOTS, COUNTS, EMISSIONS, STEPS, TABLES };

typedef struct {
    PyObject_HEAD
    Py_buffer tables[TABLES];
    const uint16_t *chars;
    const uint32_t *firsts;
    const uint64_t *slots;
    uint32_t slot_count;
    const double (*emissions)[STATES];
    double steps[STATES + 1][STATES]; /* from the start, and from each state to each */
    double weights[RANKS];            /* of a word by the rank of its frequency; at 0 of a character that is no word */
} Dictionary;

typedef struct Step {
    double weight;   /* of the best way from here to the end */
    uint16_t number; /* of the character */
    uint16_t words;  /* a bit for each length of a word that starts here */
    uint8_t best;    /* the length of the first on the best way */
} Step;

/* ------------------------------------------------------------------------------------------------- the dictionary */

static int take_table(Dictionary *self, int which, PyObject *given, size_t item, Py_ssize_t count, const char *name) {
    Py_buffer *view = self->tables + which;
    if (PyObject_GetBuffer(given, view, PyBUF_C_CONTIGUOUS) < 0) return -1;
    if (view->len % (Py_ssize_t)item || !view->len || (count && view->len != count * (Py_ssize_t)item)) {
        PyErr_Format(PyExc_ValueError, "%s has %zd bytes, wanted %zd of %zu each", name, view->len, count, item);
        return -1;
    }
    return 0;
}

static PyObject *dictionary_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    static char *names[] = {"chars", "firsts", "slots", "counts", "emissions", "steps", NULL};
    PyObject *given[TABLES];
    if (!PyArg_ParseTupleAndKeywords(args, named, "OOOOOO", names, given, given + 1, given + 2, given + 3, given + 4, given + 5))
        return NULL;
    Dictionary *self = (Dictionary *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    Py_buffer *tables = self->tables;
    if (take_table(self, FIRSTS, given[FIRSTS], sizeof(uint32_t), 0, "firsts") < 0) goto failed;
    Py_ssize_t numbers = tables[FIRSTS].len / (Py_ssize_t)sizeof(uint32_t);
    if (take_table(self, CHARS, given[CHARS], sizeof(uint16_t), LAST_CHAR - FIRST_CHAR + 1, "chars") < 0 ||
        take_table(self, SLOTS, given[SLOTS], sizeof(uint64_t), 0, "slots") < 0 ||
        take_table(self, COUNTS, given[COUNTS], sizeof(double), 0, "counts") < 0 ||
        take_table(self, EMISSIONS, given[EMISSIONS], sizeof(double[STATES]), numbers, "emissions") < 0 ||
        take_table(self, STEPS, given[STEPS], sizeof(self->steps), 1, "steps") < 0)
        goto failed;
    self->chars = tables[CHARS].buf;
    self->firsts = tables[FIRSTS].buf;
    self->slots = tables[SLOTS].buf;
    self->emissions = tables[EMISSIONS].buf;
    memcpy(self->steps, tables[STEPS].buf, sizeof(self->steps));
    const double *counts = tables[COUNTS].buf;
    Py_ssize_t ranks = tables[COUNTS].len / (Py_ssize_t)sizeof(double);
    if (ranks > RANKS || tables[SLOTS].len / (Py_ssize_t)sizeof(uint64_t) > UINT32_MAX) {
        PyErr_Format(PyExc_ValueError, "counts and slots are too long: %zd and %zd bytes", tables[COUNTS].len, tables[SLOTS].len);
        goto failed;
    }
    self->slot_count = (uint32_t)(tables[SLOTS].len / (Py_ssize_t)sizeof(uint64_t));
    for (Py_ssize_t rank = 0; rank < RANKS; rank++) self->weights[rank] = -log(counts[0]);
    for (Py_ssize_t rank = 1; rank < ranks; rank++) self->weights[rank] = log(counts[rank]) - log(counts[0]);
    for (Py_ssize_t at = 0; at <= LAST_CHAR - FIRST_CHAR; at++) {
        if (self->chars[at] < numbers) continue;
        PyErr_Format(PyExc_ValueError, "chars has number %d, but there are %zd", self->chars[at], numbers);
        goto failed;
    }
    return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

static void dictionary_dealloc(Dictionary *self) {
    for (int which = 0; which < TABLES; which++) PyBuffer_Release(self->tables + which);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject DictionaryType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "headwater._native_lanes.Dictionary",
    .tp_basicsize = sizeof(Dictionary),
    .tp_dealloc = (destructor)dictionary_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Words and how frequent they are.",
    .tp_new = dictionary_new,
};

static inline uint32_t follow(const Dictionary *self, uint32_t branch, uint16_t number) {
    uint32_t key = branch >> RANK_BITS << CHAR_BITS | number;
    uint32_t slot = (uint32_t)((uint64_t)(key * MIXER) * self->slot_count >> 32);
    for (uint32_t tried = 0; tried < self->slot_count; tried++) {
        uint64_t found = self->slots[slot];
        if (found >> 32 == key) return (uint32_t)found;
        if (!found) return 0;
        if (++slot == self->slot_count) slot = 0;
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------------ the words found */

static int reserve_steps(Found *found, Py_ssize_t size) {
    if (size < found->room) return 0;
    Py_ssize_t room = found->room ? found->room : 256;
    while (room <= size) room *= 2;
    struct Step *steps = PyMem_RawRealloc(found->steps, (size_t)room * sizeof(struct Step));
    if (!steps) return -1;
    found->steps = steps;
    uint8_t *states = PyMem_RawRealloc(found->states, (size_t)room * STATES);
    if (!states) return -1;
    found->states = states;
    found->room = room;
    return 0;
}

/* Room for this many words more. */
static int reserve_spans(Found *found, Py_ssize_t more) {
    if (found->span_room - found->count >= more) return 0;
    Py_ssize_t room = found->span_room ? found->span_room : 256;
    while (room - found->count < more) room *= 2;
    Span *spans = PyMem_RawRealloc(found->spans, (size_t)room * sizeof(Span));
    if (!spans) return -1;
    found->spans = spans;
    found->span_room = room;
    return 0;
}

void free_found(Found *found) {
    PyMem_RawFree(found->spans);
    PyMem_RawFree(found->steps);
    PyMem_RawFree(found->states);
    memset(found, 0, sizeof(*found));
}

static inline int is_word(const struct Step *steps, Py_ssize_t at, Py_ssize_t size) {
    return size <= MAX_WORD_CHARS && steps[at].words >> (size - 1) & 1;
}

/* A word and those of two and three characters inside it. `steps` are those of the block, which starts at `base`. */
static int put_word(Found *found, const struct Step *steps, Py_ssize_t base, Py_ssize_t start, Py_ssize_t stop) {
    if (reserve_spans(found, 2 * (stop - start)) < 0) return -1;
    Span *to = found->spans + found->count;
    for (Py_ssize_t size = 2; size <= 3 && size < stop - start; size++)
        for (Py_ssize_t at = start; at + size <= stop; at++)
            if (is_word(steps, at, size)) *to++ = (Span){base + at, base + at + size};
    *to++ = (Span){base + start, base + stop};
    found->count = to - found->spans;
    return 0;
}

/* -------------------------------------------------------------------------------------------------- unknown words */

/* The words of single characters that the model knows of, by the likeliest row of states. */
static int put_likeliest(const Dictionary *self, Found *found, Py_ssize_t base, Py_ssize_t start, Py_ssize_t stop) {
    static const int before[STATES][2] = {{ENDS, ALONE}, {BEGINS, MIDDLE}, {BEGINS, MIDDLE}, {ENDS, ALONE}};
    const struct Step *steps = found->steps;
    uint8_t(*from)[STATES] = (uint8_t(*)[STATES])found->states;
    const double *says = self->emissions[steps[start].number];
    double now[STATES], next[STATES];
    for (int state = 0; state < STATES; state++) now[state] = self->steps[0][state] + says[state];
    for (Py_ssize_t at = start + 1; at < stop; at++) {
        says = self->emissions[steps[at].number];
        for (int state = 0; state < STATES; state++) {
            int one = before[state][0], other = before[state][1];
            double with_one = now[one] + self->steps[1 + one][state] + says[state];
            double with_other = now[other] + self->steps[1 + other][state] + says[state];
            int is_other = with_other >= with_one;
            next[state] = is_other ? with_other : with_one;
            from[at][state] = (uint8_t)(is_other ? other : one);
        }
        memcpy(now, next, sizeof(now));
    }
    int state = now[ALONE] >= now[ENDS] ? ALONE : ENDS;
    /* The way back says where each word starts: its first place is marked, then the words are put in order. */
    for (Py_ssize_t at = stop - 1; at > start; at--) {
        int earlier = from[at][state];
        from[at][0] = state == BEGINS || state == ALONE;
        state = earlier;
    }
    for (Py_ssize_t first = start, at = start + 1; at <= stop; at++) {
        if (at < stop && !from[at][0]) continue;
        if (put_word(found, steps, base, first, at) < 0) return -1;
        first = at;
    }
    return 0;
}

static int put_singles(const Dictionary *self, Found *found, const Py_UCS4 *run, Py_ssize_t base, Py_ssize_t start, Py_ssize_t stop) {
    if (is_word(found->steps, start, stop - start)) {
        for (Py_ssize_t at = start; at < stop; at++)
            if (put_word(found, found->steps, base, at, at + 1) < 0) return -1;
        return 0;
    }
    for (Py_ssize_t at = start; at < stop;) {
        Py_ssize_t end = at;
        int known = run[at] >= FIRST_KNOWN && run[at] <= LAST_KNOWN;
        while (end < stop && (run[end] >= FIRST_KNOWN && run[end] <= LAST_KNOWN) == known) end++;
        int failed = known ? put_likeliest(self, found, base, at, end) : put_word(found, found->steps, base, at, end);
        if (failed < 0) return -1;
        at = end;
    }
    return 0;
}

/* --------------------------------------------------------------------------------------------------------- a block */

/* Whether jieba cuts it with its neighbours; each other sign is a word. */
static inline int is_cut(Py_UCS4 point) {
    return (point >= 0x4e00 && point <= 0x9fff) || (point >= 0x3400 && point <= 0x4dbf) || (point >= 0xf900 && point <= 0xfaff) ||
           (point >= 0x20000 && point <= 0x2a6df) || (point >= 0x2a700 && point <= 0x2ebef) || (point >= 0x2f800 && point <= 0x2fa1f);
}

static void find_way(const Dictionary *self, const Py_UCS4 *block, Py_ssize_t size, struct Step *steps) {
    for (Py_ssize_t at = 0; at < size; at++)
        steps[at].number = block[at] >= FIRST_CHAR && block[at] <= LAST_CHAR ? self->chars[block[at] - FIRST_CHAR] : 0;
    steps[size].weight = 0.0;
    for (Py_ssize_t at = size - 1; at >= 0; at--) {
        struct Step *step = steps + at;
        step->words = 0;
        step->best = 0;
        uint32_t branch = self->firsts[step->number];
        for (Py_ssize_t length = 1;; length++) {
            uint32_t rank = branch & (RANKS - 1);
            if (rank) {
                double weight = self->weights[rank] + step[length].weight;
                if (!step->best || weight >= step->weight) {
                    step->weight = weight;
                    step->best = (uint8_t)length;
                }
                step->words |= (uint16_t)(1u << (length - 1));
            }
            if (!(branch >> RANK_BITS) || length == MAX_WORD_CHARS || at + length == size) break;
            branch = follow(self, branch, step[length].number);
        }
        if (step->best) continue;
        step->weight = self->weights[0] + step[1].weight;
        step->best = 1;
    }
}

static int put_block(const Dictionary *self, const Py_UCS4 *block, Py_ssize_t base, Py_ssize_t size, Found *found) {
    if (reserve_steps(found, size) < 0) return -1;
    const struct Step *steps = found->steps;
    find_way(self, block, size, found->steps);
    for (Py_ssize_t at = 0; at < size;) {
        Py_ssize_t single = at;
        while (single < size && steps[single].best == 1) single++;
        int failed = 0;
        if (single - at > 1) {
            failed = put_singles(self, found, block, base, at, single);
            at = single;
        } else {
            failed = put_word(found, steps, base, at, at + steps[at].best);
            at += steps[at].best;
        }
        if (failed < 0) return -1;
    }
    return 0;
}

int find_words(PyObject *dictionary, const Py_UCS4 *run, Py_ssize_t size, Found *found) {
    const Dictionary *self = (const Dictionary *)dictionary;
    found->count = 0;
    for (Py_ssize_t at = 0; at < size;) {
        Py_ssize_t stop = at;
        while (stop < size && is_cut(run[stop])) stop++;
        if (stop > at && put_block(self, run + at, at, stop - at, found) < 0) return -1;
        at = stop;
        if (at == size) break;
        if (reserve_spans(found, 1) < 0) return -1;
        found->spans[found->count++] = (Span){at, at + 1};
        at++;
    }
    return 0;
}
