/* SPDX-License-Identifier: MIT
 * backward_call.h: a backward call on top of a problem (problem.h), whose tensors are its inputs
 * and whose results, from a forward call, are given back to it. Gradients lie in guarded memory and
 * any layout, as the problem's tensors do. */
#ifndef RAPT_TESTS_BACKWARD_CALL_H
#define RAPT_TESTS_BACKWARD_CALL_H

#include "fill.h"
#include "oracle_backward.h"
#include "problem.h"

#include <rapt/rapt.h>

#include <stdbool.h>
#include <stddef.h>

typedef enum gradient_id {
    GRAD_DOUT,
    GRAD_DLSE,
    GRAD_DQ, /* outputs from here */
    GRAD_DK,
    GRAD_DV,
    GRAD_DBIAS,
    GRAD_COUNT
} gradient_id;

typedef struct backward_call {
    problem *p; /* has been run forward */
    operand op[GRAD_COUNT];
    int32_t accumulate;
    int32_t threads;     /* of the context that runs it */
    bool caller_scratch; /* scratch of exactly the size asked for, in guarded memory */
    guard_block scratch;
    oracle_gradients expected;
    oracle_gradient expected_bias; /* shaped like dbias */
} backward_call;

/* Dense dout of zeros, dense dq, dk and dv; one thread. Runs the problem forward. */
void backward_init(backward_call *c, problem *p);
void backward_free(backward_call *c);

/* Lays a gradient out anew (dout, dlse: zeros); adds dlse. */
void backward_layout(backward_call *c, gradient_id id, layout l);
/* Adds dbias, of a shape that broadcasts to [B, Hq, Tq, Tk]. */
void backward_bias(backward_call *c, int32_t rank, const int64_t *size, layout l);
void backward_drop(backward_call *c, gradient_id id);

/* Every element of dout or dlse. */
void backward_fill(backward_call *c, gradient_id id, rng *r, fill_kind kind);
/* Standard normal dout, and dlse if there is one. */
void backward_fill_normal(backward_call *c, uint64_t seed);

rapt_attention_backward_operands backward_operands(const backward_call *c);

/* Calls the library; *status is what it returned. False, with the reason in `why`, if it crashed or
 * changed bytes that are not its own: on an error status, any byte. Outputs hold rubbish before, or
 * with `accumulate` backward_base(n) in their n-th element. */
bool backward_run(backward_call *c, rapt_status *status, char *why, size_t why_bytes);
double backward_base(int64_t n);

/* Computes what is expected; compares: true, or the reason in `why`. */
void backward_expect(backward_call *c);
bool backward_compare(const backward_call *c, char *why, size_t why_bytes);

/* ---- Expectations. Each ends the test if not met. ---- */
void expect_backward_run(backward_call *c);
void expect_backward(backward_call *c); /* run, then against the oracle */

/* All gradients that both have, bit by bit. */
void expect_same_gradients(const backward_call *a, const backward_call *b);

/* Row [b, h, i] of a gradient of rank 4 holds `value` in every column. */
void expect_gradient_row(const backward_call *c, gradient_id id, int64_t b, int64_t h, int64_t i,
                         float value);

float *backward_at(const backward_call *c, gradient_id id, int64_t i0, int64_t i1, int64_t i2,
                   int64_t i3);

#endif
