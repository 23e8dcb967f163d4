/* SPDX-License-Identifier: MIT
 * case.h: a row's problem with its data: contiguous tensors of standard normal numbers, the same
 * on every machine and in every run. */
#ifndef BENCH_CASE_H
#define BENCH_CASE_H

#include "rows.h"

#include <rapt/rapt.h>

typedef struct bench_case {
    bench_problem problem;
    rapt_attention what;
    rapt_attention_operands operands; /* point at the tensors below: a case is not to be copied */
    rapt_tensor q, k, v, out;
    rapt_tensor mask, bias, key_lengths; /* those of the problem's form; data null otherwise */
} bench_case;

/* Allocates and fills all tensors. Returns 1, or 0 if memory ran out (nothing is kept then). */
int bench_case_create(bench_case *c, const bench_problem *problem);
void bench_case_destroy(bench_case *c);

/* Fills the output with NaN, so that what is verified next was written by this call. */
void bench_case_spoil_output(bench_case *c);

#endif
