/* SPDX-License-Identifier: MIT
 * kind_backward.h: the data of a backward row. */
#ifndef BENCH_KIND_BACKWARD_H
#define BENCH_KIND_BACKWARD_H

#include "attention_case.h"

typedef struct bench_backward {
    bench_attention *forward;                  /* has been run: out holds its result */
    rapt_attention_backward_operands operands; /* point at the tensors here and there */
    rapt_tensor lse, dout, dq, dk, dv;
} bench_backward;

/* Compares some rows of each gradient with the formula (verify_backward.c): bench_kind.verify. */
double bench_backward_verify(const void *backward);

#endif
