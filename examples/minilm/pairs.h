/* SPDX-License-Identifier: MIT
 * pairs.h: which of a list of unit vectors are most alike. */
#ifndef MINILM_PAIRS_H
#define MINILM_PAIRS_H

#include <stdint.h>

typedef struct pair {
    int64_t first, second; /* first < second */
    float cosine;
} pair;

/* The `most` pairs of vectors[count][width] with the largest cosines, largest first. Returns how
 * many there are: min(most, count * (count - 1) / 2). */
int64_t pairs_find(const float *vectors, int64_t count, int64_t width, pair *best, int64_t most);

#endif
