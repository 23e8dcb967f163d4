/* SPDX-License-Identifier: MIT
 * gradient_call.h: one backward call of the matrix product or of the linear layer, with its tensors
 * in guarded memory, and its oracle: the formulas of rapt/matmul.h in double precision. */
#ifndef RAPT_TESTS_GRADIENT_CALL_H
#define RAPT_TESTS_GRADIENT_CALL_H

#include "guarded.h"

enum { A, B, DC, DA, DB, DBIAS, TENSORS };
extern const char *const call_names[TENSORS];

typedef struct call {
    guarded g[TENSORS];
    rapt_matmul what;
    int32_t accumulate, threads;
    bool caller_scratch;
    bool linear; /* the linear layer's call: a is x, b is W transposed, dc is dout */
    guard_side side;
} call;

void call_place(call *c, int id, layout l, int32_t rank, const int64_t *size);
void call_free(call *c);

/* a [2,3,4], b [4,5], dc [2,3,5] and all gradients, filled. */
void call_small(call *c);

rapt_matmul_backward_operands call_operands(const call *c);

/* A transposed operand as a weight; bias 0 = none. */
rapt_linear call_layer(const call *c, int weight, int bias);

/* Small, or around a multiple of something that tiles and vectors are made of. */
int64_t call_draw_size(rng *r);
/* Dense, or any before `past`. */
layout call_draw_layout(rng *r, layout past);

/* ---- Oracle: sums of the products that make each element of a gradient, without alpha ---- */

typedef struct sums {
    double *value, *magnitude, *terms;
} sums;

sums sums_make(int64_t count);
void sums_free(sums *s);
void call_sums(const call *c, sums want[TENSORS]);

/* ---- Run ---- */

/* Calls the library; outputs that are overwritten hold NaN before. False, with the reason in `why`,
 * if anything changed that must not. */
bool call_run(call *c, rapt_status *status, char *why, size_t why_bytes);

/* All in one: oracle, call, RAPT_OK, every element within its bound. */
bool call_try(call *c, char *why, size_t why_bytes);

#endif
