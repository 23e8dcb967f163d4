/* SPDX-License-Identifier: MIT
 * textbook.c: the formula in three steps, each three loops, as it stands in a book:
 *   scores[i,j] = q[i] . k[j] / sqrt(D);    weights = softmax over j;    out[i] = weights[i] v
 * Built with -O3 by the same compiler as the library, without any other help. */
#include "textbook.h"

#include <math.h>

static void score(int64_t T, int64_t D, int causal, const float *q, const float *k, float *s) {
    const float scale = 1.0f / sqrtf((float)D);
    for (int64_t i = 0; i < T; i++) {
        for (int64_t j = 0; j < (causal ? i + 1 : T); j++) {
            float dot = 0.0f;
            for (int64_t d = 0; d < D; d++) { dot += q[i * D + d] * k[j * D + d]; }
            s[i * T + j] = scale * dot;
        }
    }
}

static void softmax(int64_t T, int causal, float *s) {
    for (int64_t i = 0; i < T; i++) {
        const int64_t n = causal ? i + 1 : T;
        float most = s[i * T], sum = 0.0f;
        for (int64_t j = 1; j < n; j++) { most = fmaxf(most, s[i * T + j]); }
        for (int64_t j = 0; j < n; j++) {
            s[i * T + j] = expf(s[i * T + j] - most);
            sum += s[i * T + j];
        }
        for (int64_t j = 0; j < n; j++) { s[i * T + j] /= sum; }
    }
}

static void combine(int64_t T, int64_t D, int causal, const float *p, const float *v, float *out) {
    for (int64_t i = 0; i < T; i++) {
        for (int64_t d = 0; d < D; d++) { out[i * D + d] = 0.0f; }
        for (int64_t j = 0; j < (causal ? i + 1 : T); j++) {
            for (int64_t d = 0; d < D; d++) { out[i * D + d] += p[i * T + j] * v[j * D + d]; }
        }
    }
}

void bench_textbook(int64_t heads, int64_t T, int64_t D, int causal, const float *q, const float *k,
                    const float *v, float *scores, float *out) {
    for (int64_t h = 0; h < heads; h++) {
        const int64_t at = h * T * D;
        score(T, D, causal, q + at, k + at, scores);
        softmax(T, causal, scores);
        combine(T, D, causal, scores, v + at, out + at);
    }
}
