/* SPDX-License-Identifier: MIT
 * oracle_backward.h: gradients of attention, naive and in double precision, with bounds for a
 * correct f32 computation that starts from f32 results of the forward call. */
#ifndef RAPT_TESTS_ORACLE_BACKWARD_H
#define RAPT_TESTS_ORACLE_BACKWARD_H

#include "oracle.h"

#include <rapt/rapt.h>

#include <stdint.h>

typedef struct oracle_gradient {
    double *value, *tol; /* row-major */
    int64_t count, capacity;
} oracle_gradient;

/* All zero = empty; the memory is kept from call to call. */
typedef struct oracle_gradients {
    oracle_gradient dq, dk, dv; /* shaped like q, k, v */
    oracle_gradient dbias;      /* [B, Hq, Tq, Tk] whatever the bias broadcasts, also without one */
    oracle forward;
} oracle_gradients;

/* Gradients of sum dout * out + sum dlse * lse, the second sum over rows that see something.
 * dout: f32 [B, Hq, Tq, Dv]; dlse: f32 [B, Hq, Tq] or null. Rows of dout and dlse whose query sees
 * nothing are not read. */
void oracle_backward(oracle_gradients *g, const rapt_attention *what,
                     const rapt_attention_operands *ops, const rapt_tensor *dout,
                     const rapt_tensor *dlse);

/* dbias summed over the axes that `bias` broadcasts: shaped like it. */
void oracle_reduce_bias(const oracle_gradients *g, const rapt_attention_operands *ops,
                        const rapt_tensor *bias, oracle_gradient *reduced);

void oracle_gradients_free(oracle_gradients *g);
void oracle_gradient_free(oracle_gradient *g);

#endif
