/* SPDX-License-Identifier: MIT
 * oracle_score.h: which query-key pairs are visible, and the score of one. */
#ifndef RAPT_TESTS_ORACLE_SCORE_H
#define RAPT_TESTS_ORACLE_SCORE_H

#include <rapt/rapt.h>

#include <stdbool.h>
#include <stdint.h>

/* Half an ulp of f32, and what an underflowing product may lose. */
#define ORACLE_U 0x1p-24
#define ORACLE_TINY_PRODUCT 0x1p-149

/* Where scores come from. q, k, v of the operands give the sizes in any case. */
typedef struct oracle_source {
    const rapt_attention *what;
    const rapt_attention_operands *ops;
    const rapt_score *score;   /* null: the scaled dot product */
    const rapt_tensor *scores; /* null; or given scores [B, Hq, Tq, Tk], for the pass */
} oracle_source;

/* Whether query i sees key j, by the limits (causal, window, key length) alone ... */
bool oracle_within(const rapt_attention *what, const rapt_attention_operands *ops, int64_t b,
                   int64_t i, int64_t j);
/* ... and by limits, mask and bias. */
bool oracle_visible(const rapt_attention *what, const rapt_attention_operands *ops, int64_t b,
                    int64_t h, int64_t i, int64_t j);

/* The score of a visible pair: scale, then bias. *error: bound of an f32 computation's error. */
double oracle_score(const oracle_source *s, int64_t b, int64_t h, int64_t i, int64_t j,
                    double *error);

/* The scale: as given, or the default of the source. */
double oracle_scale(const oracle_source *s);

/* The key/value head of query head h. */
int64_t oracle_kv_head(const rapt_attention_operands *ops, int64_t h);

/* Element (b, h, i, j) of a tensor of rank 1 to 4 that broadcasts to [B, Hq, Tq, Tk], as an offset
 * in elements. */
int64_t oracle_broadcast_offset(const rapt_tensor *t, int64_t b, int64_t h, int64_t i, int64_t j);

/* Row (b, h, i) of a rank-4 f32 tensor. */
const float *oracle_element(const rapt_tensor *t, int64_t b, int64_t h, int64_t i);

#endif
