/* SPDX-License-Identifier: MIT
 * corpus.h: texts as tokens. */
#ifndef MINILM_CORPUS_H
#define MINILM_CORPUS_H

#include "encoder.h"
#include "vocab.h"

typedef struct corpus {
    sentence *sentence; /* [count] */
    int64_t count, tokens;
    int32_t *ids; /* of all sentences */
} corpus;

/* Encodes `count` texts, each cut to `longest` tokens. Returns 0, with a line on standard error,
 * without memory. */
int corpus_make(corpus *c, const vocab *v, const char *const *texts, int64_t count,
                int64_t longest);
void corpus_free(corpus *c);

#endif
