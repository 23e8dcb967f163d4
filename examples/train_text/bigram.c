/* SPDX-License-Identifier: MIT
 * bigram.c:  p(b | a) = (pairs ab + 1) / (pairs a. + symbols)
 *            p(b) = (times b + 1) / (characters + symbols) */
#include "bigram.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int bigram_count(bigram *b, const text *t) {
    const int64_t symbols = t->symbols, first = t->training;
    double *pair = calloc((size_t)(symbols * symbols), sizeof *pair);
    double before[256] = {0}, single[256] = {0};
    if (!pair) {
        fprintf(stderr, "no memory to count pairs of characters\n");
        return 0;
    }
    for (int64_t i = 0; i < first; i++) {
        single[t->id[i]]++;
        if (i == 0) { continue; }
        before[t->id[i - 1]]++;
        pair[t->id[i - 1] * symbols + t->id[i]]++;
    }
    /* The first held-out character is left out: the model does not see what is before it. */
    double pairs = 0, singles = 0;
    for (int64_t i = first + 1; i < t->count; i++) {
        const int64_t from = t->id[i - 1], to = t->id[i];
        pairs -= log((pair[from * symbols + to] + 1) / (before[from] + (double)symbols));
        singles -= log((single[to] + 1) / (double)(first + symbols));
    }
    const double predicted = (double)(t->count - first - 1);
    *b = (bigram){.pairs = pairs / predicted, .singles = singles / predicted};
    free(pair);
    return 1;
}
