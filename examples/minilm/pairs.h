/* SPDX-License-Identifier: MIT
 * pairs.h: which of a list of unit vectors are most alike. */
#ifndef MINILM_PAIRS_H
#define MINILM_PAIRS_H

#include <rapt/rapt.h>

typedef struct pair {
    int64_t first, second; /* first < second */
    float cosine;
} pair;

/* The pairs of vectors[count][width] with the largest cosines, largest first. *found is how many
 * `best` has room for, and then how many there are: at most count * (count - 1) / 2. Errors: those
 * of rapt_matmul_run; the message is the context's. */
rapt_status pairs_find(rapt_context *context, const float *vectors, int64_t count, int64_t width,
                       pair *best, int64_t *found);

#endif
