/* A run of Chinese characters -> its words, by a dictionary. words.c says how. */

#ifndef HEADWATER_WORDS_H
#define HEADWATER_WORDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

extern PyTypeObject DictionaryType;

typedef struct {
    Py_ssize_t start, stop;
} Span;

/* The words found, and what finding them needs; all zero before the first run. It belongs to one thread. */
typedef struct {
    Span *spans;
    Py_ssize_t count, span_room;
    struct Step *steps; /* by character, and one behind the last */
    uint8_t *states;    /* four by character: the best state before each */
    Py_ssize_t room;
} Found;

/* Puts the words of the run into `found`, in the place of what it has, each behind the shorter words inside it: 0, or -1
 * where there is no memory. It needs no interpreter's lock; whoever calls keeps `dictionary` alive. */
int find_words(PyObject *dictionary, const Py_UCS4 *run, Py_ssize_t size, Found *found);

void free_found(Found *found);

#endif
