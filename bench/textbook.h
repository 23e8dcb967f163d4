/* SPDX-License-Identifier: MIT
 * textbook.h: attention as a textbook writes it: the yardstick for a newcomer, and nothing else. */
#ifndef BENCH_TEXTBOOK_H
#define BENCH_TEXTBOOK_H

#include <stdint.h>

/* Scaled dot-product attention, heads one after the other.
 *   q, k, v, out [heads, T, D]      scores [T, T], scratch
 * Causal: query i sees keys j <= i. */
void bench_textbook(int64_t heads, int64_t T, int64_t D, int causal, const float *q, const float *k,
                    const float *v, float *scores, float *out);

#endif
