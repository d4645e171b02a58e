/* Texts -> the likeliest pieces of the bundled model, and the sum of their vectors: what headwater/models/_pieces.py
 * and static.py do with `tokenizers` and numpy.
 *
 * Pieces is made once and only read afterwards. Texts are copied while the interpreter's lock is held, and the rest is
 * done without it. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* The vectors of x86-64 as everybody has it are half as wide as those of most machines: both are compiled. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__)
#define ON_WIDE_MACHINES __attribute__((target_clones("avx2", "default")))
#else
#define ON_WIDE_MACHINES
#endif

enum { PLANE = 0x10000 }; /* characters that tables have; others are rare */
enum { MUCH = 100000 };   /* characters, a few milliseconds of work */
enum { NOTHING, LETTERS, DIGITS, HAN, OTHERS };

typedef struct {
    PyObject_HEAD
    /* The pieces as a tree: an edge leads from a node by a character to another. Node 0 is the root. */
    uint64_t *edges; /* node and character, plus one; 0 is a free slot */
    uint32_t *leads;
    uint64_t mask;
    uint32_t *first; /* from the root by a character, or 0 */
    int32_t *piece;  /* of a node, or -1 */
    uint32_t nodes, room;
    int32_t *spelling; /* of a character wherever it stands, in the spelling the model knows; -1: it depends */
    Py_UCS4 *folded;   /* of a character of a text that `plain` made */
    PyObject *plain;
    uint8_t *group;
    double *likelihood;
    double unknown;
    Py_ssize_t count, width;
    Py_buffer table, scales; /* a row of `width` small numbers a piece, and what to multiply them by */
} Pieces;

typedef struct {
    int32_t *at;
    Py_ssize_t size, room;
} Numbers;

/* What one call works with, so that several threads can call at once. */
typedef struct {
    Py_UCS4 *points;
    Py_ssize_t room;
    Py_ssize_t *starts;
    Py_ssize_t count;
    Numbers found, came_from, last;
    double *best;
    Py_ssize_t best_room;
} Work;

/* --------------------------------------------------------------------------------------------------------- the tree */

static uint64_t edge_of(uint32_t node, Py_UCS4 point) { return ((uint64_t)node << 21 | point) + 1; }

static uint64_t slot_of(const Pieces *self, uint64_t edge) {
    uint64_t slot = (edge * 0x9e3779b97f4a7c15u >> 24) & self->mask;
    while (self->edges[slot] && self->edges[slot] != edge) slot = (slot + 1) & self->mask;
    return slot;
}

/* The node that a character leads to, or 0. */
static inline uint32_t step(const Pieces *self, uint32_t node, Py_UCS4 point) {
    if (!node && point < PLANE) return self->first[point];
    uint64_t slot = slot_of(self, edge_of(node, point));
    return self->edges[slot] ? self->leads[slot] : 0;
}

static uint32_t new_node(Pieces *self) {
    if (self->nodes == self->room) {
        uint32_t room = self->room * 2;
        int32_t *piece = PyMem_Realloc(self->piece, room * sizeof(int32_t));
        if (!piece) return 0;
        self->piece = piece;
        self->room = room;
    }
    self->piece[self->nodes] = -1;
    return self->nodes++;
}

/* The next character of UTF-8; the pieces are ours and whole. */
static Py_UCS4 read_point(const unsigned char **at) {
    const unsigned char *byte = *at;
    int more = *byte < 0x80 ? 0 : *byte < 0xe0 ? 1 : *byte < 0xf0 ? 2 : 3;
    Py_UCS4 point = more == 0 ? *byte : *byte & (0x3f >> more);
    for (int one = 1; one <= more; one++) point = point << 6 | (byte[one] & 0x3f);
    *at = byte + more + 1;
    return point;
}

static int plant(Pieces *self, const unsigned char *spelled, const unsigned char *end, int32_t number) {
    uint32_t node = 0;
    while (spelled < end && *spelled) {
        Py_UCS4 point = read_point(&spelled);
        uint32_t next = step(self, node, point);
        if (!next) {
            if (!(next = new_node(self))) return -1;
            if (!node && point < PLANE) {
                self->first[point] = next;
            } else {
                uint64_t edge = edge_of(node, point), slot = slot_of(self, edge);
                self->edges[slot] = edge;
                self->leads[slot] = next;
            }
        }
        node = next;
    }
    if (node) self->piece[node] = number;
    return 0;
}

static uint8_t group_of(Py_UCS4 point) {
    if (point >= 'a' && point <= 'z') return LETTERS;
    if (point >= '0' && point <= '9') return DIGITS;
    if (point >= 0x3400 && point <= 0x9fff) return HAN;
    return Py_UNICODE_ISALNUM(point) ? OTHERS : NOTHING;
}

/* --------------------------------------------------------------------------------------------------------- making it */

static void pieces_dealloc(Pieces *self) {
    PyMem_Free(self->edges);
    PyMem_Free(self->leads);
    PyMem_Free(self->first);
    PyMem_Free(self->piece);
    PyMem_Free(self->spelling);
    PyMem_Free(self->folded);
    PyMem_Free(self->group);
    Py_XDECREF(self->plain);
    PyMem_Free(self->likelihood);
    if (self->table.obj) PyBuffer_Release(&self->table);
    if (self->scales.obj) PyBuffer_Release(&self->scales);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int is_off(Py_ssize_t got, Py_ssize_t wanted, const char *name) {
    if (got == wanted) return 0;
    PyErr_Format(PyExc_ValueError, "%s has %zd bytes, wanted %zd", name, got, wanted);
    return 1;
}

static int fill(Pieces *self, const Py_buffer *spelled, const Py_buffer *likelihood, const Py_buffer *spelling,
                PyObject *fold) {
    Py_ssize_t longest = spelled->len / self->count;
    uint64_t slots = 1;
    while (slots < (uint64_t)self->count * 4) slots *= 2; /* pieces share their beginnings */
    slots *= 2;
    self->mask = slots - 1;
    self->room = 1 << 16;
    self->edges = PyMem_Calloc(slots, sizeof(uint64_t));
    self->leads = PyMem_Malloc(slots * sizeof(uint32_t));
    self->first = PyMem_Calloc(PLANE, sizeof(uint32_t));
    self->piece = PyMem_Malloc(self->room * sizeof(int32_t));
    self->spelling = PyMem_Malloc(PLANE * sizeof(int32_t));
    self->folded = PyMem_Malloc(PLANE * sizeof(Py_UCS4));
    self->group = PyMem_Malloc(PLANE);
    self->likelihood = PyMem_Malloc((size_t)likelihood->len);
    if (!self->edges || !self->leads || !self->first || !self->piece || !self->spelling || !self->folded ||
        !self->group || !self->likelihood) {
        PyErr_NoMemory();
        return -1;
    }
    self->piece[0] = -1;
    self->nodes = 1;
    memcpy(self->likelihood, likelihood->buf, (size_t)likelihood->len);
    memcpy(self->spelling, spelling->buf, (size_t)spelling->len);
    for (Py_ssize_t number = 0; number < self->count; number++) {
        const unsigned char *at = (const unsigned char *)spelled->buf + number * longest;
        if (plant(self, at, at + longest, (int32_t)number) < 0) {
            PyErr_NoMemory();
            return -1;
        }
        if ((uint64_t)self->nodes * 2 > slots) {
            PyErr_SetString(PyExc_ValueError, "the pieces share too few of their beginnings");
            return -1;
        }
    }
    for (Py_UCS4 point = 0; point < PLANE; point++) self->folded[point] = point;
    PyObject *from, *to;
    Py_ssize_t place = 0;
    while (PyDict_Next(fold, &place, &from, &to)) {
        unsigned long point = PyLong_AsUnsignedLong(from);
        if (PyErr_Occurred()) return -1;
        if (!PyUnicode_Check(to) || PyUnicode_GET_LENGTH(to) != 1 || point >= PLANE) {
            PyErr_Format(PyExc_ValueError, "fold wants single characters, got %R: %R", from, to);
            return -1;
        }
        self->folded[point] = PyUnicode_READ_CHAR(to, 0);
    }
    for (Py_UCS4 point = 0; point < PLANE; point++) self->group[point] = group_of(point);
    return 0;
}

static PyObject *pieces_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    static char *names[] = {"spelled", "likelihoods", "unknown", "spelling", "plain", "fold", "table", "scales", NULL};
    Py_buffer spelled, likelihood, spelling;
    PyObject *plain, *fold, *table, *scales;
    double unknown;
    if (!PyArg_ParseTupleAndKeywords(args, named, "y*y*dy*OO!OO", names, &spelled, &likelihood, &unknown, &spelling, &plain,
                                     &PyDict_Type, &fold, &table, &scales))
        return NULL;
    Pieces *self = (Pieces *)type->tp_alloc(type, 0);
    int failed = !self;
    if (!failed) {
        self->unknown = unknown;
        self->plain = Py_NewRef(plain);
        self->count = likelihood.len / (Py_ssize_t)sizeof(double);
        failed = PyObject_GetBuffer(table, &self->table, PyBUF_C_CONTIGUOUS) < 0 ||
                 PyObject_GetBuffer(scales, &self->scales, PyBUF_C_CONTIGUOUS) < 0;
    }
    if (!failed && (self->count < 1 || spelled.len % self->count || self->table.len % self->count)) {
        PyErr_SetString(PyExc_ValueError, "spelled and table want as many rows as there are likelihoods");
        failed = 1;
    }
    failed = failed || is_off(self->scales.len, self->count * (Py_ssize_t)sizeof(float), "scales") ||
             is_off(spelling.len, PLANE * (Py_ssize_t)sizeof(int32_t), "spelling");
    if (!failed) {
        self->width = self->table.len / self->count;
        failed = fill(self, &spelled, &likelihood, &spelling, fold) < 0;
    }
    PyBuffer_Release(&spelled);
    PyBuffer_Release(&likelihood);
    PyBuffer_Release(&spelling);
    if (failed) Py_CLEAR(self);
    return (PyObject *)self;
}

/* ----------------------------------------------------------------------------------------------------------- cutting */

/* Everything up to `end_work` may be done without the interpreter's lock: it uses the plain allocator. */

static int grow(Numbers *numbers, Py_ssize_t size) {
    if (numbers->room >= size) return 0;
    Py_ssize_t room = numbers->room ? numbers->room : 256;
    while (room < size) room *= 2;
    int32_t *at = PyMem_RawRealloc(numbers->at, (size_t)room * sizeof(int32_t));
    if (!at) return -1;
    numbers->at = at;
    numbers->room = room;
    return 0;
}

static int append(Numbers *numbers, int32_t number) {
    if (grow(numbers, numbers->size + 1) < 0) return -1;
    numbers->at[numbers->size++] = number;
    return 0;
}

/* The likeliest pieces of a run, the first of equals; characters that are no piece are left out. */
static int cut_run(const Pieces *self, Work *work, const Py_UCS4 *run, Py_ssize_t size) {
    if (work->best_room < size + 1) {
        double *best = PyMem_RawRealloc(work->best, (size_t)(size + 1) * sizeof(double));
        if (!best) return -1;
        work->best = best;
        work->best_room = size + 1;
    }
    if (grow(&work->came_from, size + 1) < 0 || grow(&work->last, size + 1) < 0) return -1;
    double *best = work->best;
    int32_t *came_from = work->came_from.at, *last = work->last.at;
    best[0] = 0.0;
    for (Py_ssize_t at = 1; at <= size; at++) best[at] = -INFINITY;
    for (Py_ssize_t start = 0; start < size; start++) {
        double before = best[start];
        uint32_t node = 0;
        for (Py_ssize_t end = start + 1; end <= size; end++) {
            node = step(self, node, run[end - 1]);
            int32_t piece = node ? self->piece[node] : -1;
            if (piece >= 0 || end == start + 1) {
                double likelihood = before + (piece >= 0 ? self->likelihood[piece] : self->unknown);
                if (likelihood > best[end]) {
                    best[end] = likelihood;
                    came_from[end] = (int32_t)start;
                    last[end] = piece;
                }
            }
            if (!node) break;
        }
    }
    Py_ssize_t first = work->found.size;
    for (Py_ssize_t place = size; place; place = came_from[place])
        if (last[place] >= 0 && append(&work->found, last[place]) < 0) return -1;
    for (Py_ssize_t a = first, b = work->found.size - 1; a < b; a++, b--) {
        int32_t kept = work->found.at[a];
        work->found.at[a] = work->found.at[b];
        work->found.at[b] = kept;
    }
    return 0;
}

/* The piece that a run of letters or digits is as it is, or -1. */
static int32_t whole_piece(const Pieces *self, const Py_UCS4 *run, Py_ssize_t size) {
    uint32_t node = 0;
    for (Py_ssize_t at = 0; at < size; at++)
        if (!(node = step(self, node, run[at]))) return -1;
    return self->piece[node];
}

static int cut_text(const Pieces *self, Work *work, Py_ssize_t text) {
    const Py_UCS4 *points = work->points;
    Py_ssize_t at = work->starts[text], end = work->starts[text + 1];
    work->found.size = 0;
    while (at < end) {
        Py_ssize_t start = at;
        uint8_t group = points[at] < PLANE ? self->group[points[at]] : group_of(points[at]);
        while (++at < end && (points[at] < PLANE ? self->group[points[at]] : group_of(points[at])) == group) continue;
        if (group == NOTHING) continue;
        int32_t whole = group <= DIGITS ? whole_piece(self, points + start, at - start) : -1;
        if ((whole >= 0 ? append(&work->found, whole) : cut_run(self, work, points + start, at - start)) < 0) return -1;
    }
    return 0;
}

/* -------------------------------------------------------------------------------------------------------- summing up */

ON_WIDE_MACHINES
static void add_row(float *restrict out, const int8_t *restrict row, float weight, Py_ssize_t dim) {
    for (Py_ssize_t at = 0; at < dim; at++) out[at] += weight * (float)row[at];
}

/* The pieces of the last text, each counting as often as it is there to the power of `damping`, as a vector of length 1.
 * `came_from` and `last` serve as a table of those seen: places in `found`, and counts. */
static int add_up(const Pieces *self, Work *work, float damping, float *out, Py_ssize_t dim) {
    Py_ssize_t slots = 64, different = 0;
    while (slots < 2 * work->found.size) slots *= 2;
    if (grow(&work->came_from, slots) < 0 || grow(&work->last, work->found.size + 1) < 0) return -1;
    int32_t *seen = work->came_from.at, *counts = work->last.at, *pieces = work->found.at;
    memset(seen, 0xff, (size_t)slots * sizeof(int32_t));
    for (Py_ssize_t at = 0; at < work->found.size; at++) {
        int32_t piece = pieces[at];
        Py_ssize_t slot = (Py_ssize_t)((uint32_t)piece * 2654435769u >> 7) & (slots - 1);
        while (seen[slot] >= 0 && pieces[seen[slot]] != piece) slot = (slot + 1) & (slots - 1);
        if (seen[slot] < 0) {
            seen[slot] = (int32_t)different;
            pieces[different] = piece; /* at most where it is read */
            counts[different++] = 0;
        }
        counts[seen[slot]]++;
    }
    memset(out, 0, (size_t)dim * sizeof(float));
    for (Py_ssize_t at = 0; at < different; at++) {
        float weight = (counts[at] == 1 ? 1.0f : powf((float)counts[at], damping)) * ((float *)self->scales.buf)[pieces[at]];
        add_row(out, (int8_t *)self->table.buf + (Py_ssize_t)pieces[at] * self->width, weight, dim);
    }
    double square = 0.0;
    for (Py_ssize_t at = 0; at < dim; at++) square += (double)out[at] * out[at];
    if (square > 0) {
        float length = (float)sqrt(square);
        for (Py_ssize_t at = 0; at < dim; at++) out[at] /= length;
    }
    return 0;
}

/* ----------------------------------------------------------------------------------------------------------- calling */

static void end_work(Work *work) {
    PyMem_RawFree(work->points);
    PyMem_RawFree(work->starts);
    PyMem_RawFree(work->found.at);
    PyMem_RawFree(work->came_from.at);
    PyMem_RawFree(work->last.at);
    PyMem_RawFree(work->best);
}

static int make_room(Work *work, Py_ssize_t size) {
    if (work->room >= size) return 0;
    Py_UCS4 *points = PyMem_RawRealloc(work->points, (size_t)size * sizeof(Py_UCS4));
    if (!points) {
        PyErr_NoMemory();
        return -1;
    }
    work->points = points;
    work->room = size;
    return 0;
}

/* Copy a text in the spelling the model knows to `start`; its size, or -1. */
static Py_ssize_t copy_text(const Pieces *self, Work *work, Py_ssize_t start, PyObject *text) {
    Py_ssize_t size = PyUnicode_GET_LENGTH(text), at = 0;
    if (make_room(work, start + size + 1) < 0) return -1;
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    for (; at < size; at++) {
        Py_UCS4 point = PyUnicode_READ(kind, data, at);
        if (point >= PLANE || self->spelling[point] < 0) break;
        work->points[start + at] = (Py_UCS4)self->spelling[point];
    }
    if (at == size) return size;
    /* A character whose spelling depends on those around it. */
    PyObject *plain = PyObject_CallOneArg(self->plain, text);
    if (plain && !PyUnicode_Check(plain)) {
        PyErr_Format(PyExc_TypeError, "plain gave %R, wanted a str", plain);
        Py_CLEAR(plain);
    }
    if (!plain) return -1;
    size = PyUnicode_GET_LENGTH(plain);
    if (make_room(work, start + size + 1) < 0 || (size && !PyUnicode_AsUCS4(plain, work->points + start, size, 0))) size = -1;
    Py_DECREF(plain);
    for (at = start; at < start + size; at++)
        if (work->points[at] < PLANE) work->points[at] = self->folded[work->points[at]];
    return size;
}

/* A copy of the texts' characters. */
static int begin_work(const Pieces *self, Work *work, PyObject *given) {
    PyObject *texts = PySequence_Fast(given, "a sequence of texts is wanted");
    if (!texts) return -1;
    Py_ssize_t total = 0;
    work->count = PySequence_Fast_GET_SIZE(texts);
    for (Py_ssize_t text = 0; text < work->count; text++) {
        PyObject *one = PySequence_Fast_GET_ITEM(texts, text);
        if (!PyUnicode_Check(one)) {
            PyErr_Format(PyExc_TypeError, "texts are wanted, got %R", one);
            Py_DECREF(texts);
            return -1;
        }
        total += PyUnicode_GET_LENGTH(one);
    }
    work->starts = PyMem_RawMalloc((size_t)(work->count + 1) * sizeof(Py_ssize_t));
    if (!work->starts) PyErr_NoMemory();
    int failed = !work->starts || make_room(work, total + 1) < 0;
    total = 0;
    for (Py_ssize_t text = 0; !failed && text < work->count; text++) {
        work->starts[text] = total;
        Py_ssize_t size = copy_text(self, work, total, PySequence_Fast_GET_ITEM(texts, text));
        failed = size < 0;
        total += size;
    }
    if (!failed) work->starts[work->count] = total;
    Py_DECREF(texts);
    return failed ? -1 : 0;
}

/* The lock is let go for long work only: who has let go of it may wait for milliseconds to have it again. */
static PyThreadState *let_go(const Work *work) {
    return work->starts[work->count] > MUCH ? PyEval_SaveThread() : NULL;
}

static void take_again(PyThreadState *state) {
    if (state) PyEval_RestoreThread(state);
}

static PyObject *pieces_cut(Pieces *self, PyObject *texts) {
    Work work = {0};
    Numbers all = {0}, ends = {0};
    int failed = begin_work(self, &work, texts) < 0;
    if (!failed) {
        PyThreadState *state = let_go(&work);
        for (Py_ssize_t text = 0; !failed && text < work.count; text++) {
            failed = cut_text(self, &work, text) < 0 || grow(&all, all.size + work.found.size + 1) < 0;
            if (failed) break;
            if (work.found.size) memcpy(all.at + all.size, work.found.at, (size_t)work.found.size * sizeof(int32_t));
            all.size += work.found.size;
            failed = append(&ends, (int32_t)all.size) < 0;
        }
        take_again(state);
        if (failed) PyErr_NoMemory();
    }
    PyObject *made = failed ? NULL : PyList_New(work.count);
    for (Py_ssize_t text = 0, start = 0; made && text < work.count; start = ends.at[text++]) {
        PyObject *found = PyBytes_FromStringAndSize((char *)(all.at + start),
                                                    (ends.at[text] - start) * (Py_ssize_t)sizeof(int32_t));
        if (found)
            PyList_SET_ITEM(made, text, found);
        else
            Py_CLEAR(made);
    }
    PyMem_RawFree(all.at);
    PyMem_RawFree(ends.at);
    end_work(&work);
    return made;
}

static PyObject *pieces_embed(Pieces *self, PyObject *args, PyObject *named) {
    static char *names[] = {"texts", "out", "dim", "damping", NULL};
    PyObject *texts;
    Py_buffer out;
    Py_ssize_t dim;
    float damping;
    if (!PyArg_ParseTupleAndKeywords(args, named, "Ow*nf", names, &texts, &out, &dim, &damping)) return NULL;
    Work work = {0};
    int failed = begin_work(self, &work, texts) < 0;
    if (!failed && (dim < 1 || dim > self->width)) {
        PyErr_Format(PyExc_ValueError, "dim must be 1 to %zd, got %zd", self->width, dim);
        failed = 1;
    }
    failed = failed || is_off(out.len, work.count * dim * (Py_ssize_t)sizeof(float), "out");
    if (!failed) {
        PyThreadState *state = let_go(&work);
        for (Py_ssize_t text = 0; !failed && text < work.count; text++)
            failed = cut_text(self, &work, text) < 0 || add_up(self, &work, damping, (float *)out.buf + text * dim, dim) < 0;
        take_again(state);
        if (failed) PyErr_NoMemory();
    }
    end_work(&work);
    PyBuffer_Release(&out);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef pieces_methods[] = {
    {"cut", (PyCFunction)pieces_cut, METH_O, "The numbers of each text's pieces, 32 bits each, as bytes."},
    {"embed", (PyCFunction)(void (*)(void))pieces_embed, METH_VARARGS | METH_KEYWORDS,
     "Write the vector of each text into the rows of `out`; a text without a known piece gets zeros."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject PiecesType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "headwater._native_pieces.Pieces",
    .tp_basicsize = sizeof(Pieces),
    .tp_dealloc = (destructor)pieces_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The pieces of a model, and their vectors.",
    .tp_methods = pieces_methods,
    .tp_new = pieces_new,
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "headwater._native_pieces",
    .m_doc = "Cutting into pieces and summing their vectors, in C.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit__native_pieces(void) {
    if (PyType_Ready(&PiecesType) < 0) return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made && PyModule_AddObjectRef(made, "Pieces", (PyObject *)&PiecesType) < 0) Py_CLEAR(made);
    return made;
}
