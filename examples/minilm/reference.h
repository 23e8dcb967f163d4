/* SPDX-License-Identifier: MIT
 * reference.h: what the reference implementation says, from data/reference.json (made by
 * data/make_reference.py), for the tests. */
#ifndef MINILM_REFERENCE_H
#define MINILM_REFERENCE_H

#include "vocab.h"

#include <jansson.h>
#include <stdint.h>

typedef struct reference {
    json_t *root;
    int64_t longest;             /* tokens that a text is cut to */
    json_t *strings, *sentences; /* arrays of {"text", "ids"}; sentences have "embedding" too */
    json_t *heads;               /* {"sentence", "layer", "weights": [heads][tokens][tokens]} */
} reference;

/* Returns 0, with a line on standard error, if the file cannot be read. */
int reference_load(reference *r, const char *path);
void reference_free(reference *r);

/* The part of the vocabulary that the strings and sentences use, under its own ids. */
int reference_vocab(const reference *r, vocab *v);

/* Encodes every string and sentence. Returns how many differ, with a line each. */
int reference_compare_ids(const reference *r, const vocab *v);

#endif
