/* SPDX-License-Identifier: MIT
 * pairs.c: compares every vector with every other and keeps the best in order. */
#include "pairs.h"

static float dot(const float *a, const float *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) { sum += (double)a[i] * (double)b[i]; }
    return (float)sum;
}

/* Puts p in its place among best[count], which is full at `most`. Returns the new count. */
static int64_t insert(pair *best, int64_t count, int64_t most, pair p) {
    int64_t place = count;
    while (place > 0 && best[place - 1].cosine < p.cosine) { place--; }
    if (place == most) { return count; }
    for (int64_t i = count < most ? count : most - 1; i > place; i--) { best[i] = best[i - 1]; }
    best[place] = p;
    return count < most ? count + 1 : most;
}

int64_t pairs_find(const float *vectors, int64_t count, int64_t width, pair *best, int64_t most) {
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = i + 1; j < count; j++) {
            const float cosine = dot(vectors + i * width, vectors + j * width, width);
            found = insert(best, found, most, (pair){i, j, cosine});
        }
    }
    return found;
}
