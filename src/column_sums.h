/* SPDX-License-Identifier: MIT
 * column_sums.h: sums[n] = sum of t[.., n] over all leading axes: the gradient of a bias. Rows are
 * added in row-major order inside chunks of a fixed size, chunks in order, so that neither threads
 * nor strides touch a bit. */
#ifndef RAPTI_COLUMN_SUMS_H
#define RAPTI_COLUMN_SUMS_H

#include "context.h"

typedef struct rapti_column_sums {
    const rapti_kernels *kernels;
    rapt_tensor t;         /* normal, axes joined where strides allow it */
    int64_t rows, columns; /* rows: of all leading indices */
    int64_t chunks;        /* of rows; at least one */
    int64_t strip, strips; /* columns per task */
    int64_t ld;            /* of partial sums: whole vectors */
    int32_t threads;
    size_t partial_bytes, thread_bytes, scratch_bytes;
    float *partial; /* [chunks][ld] */
    char *scratch;  /* [threads][thread_bytes] */
    float *out;     /* [columns], `step` apart */
    int64_t step;
    int accumulate;
} rapti_column_sums;

/* For a checked tensor of rank >= 1. */
void rapti_column_sums_plan(const rapt_context *context, const rapt_tensor *t,
                            rapti_column_sums *sums);

/* Writes, or adds to, a checked vector. `scratch` holds sums->scratch_bytes, 64-byte aligned. */
void rapti_column_sums_run(rapti_column_sums *sums, const rapt_tensor *out, int accumulate,
                           void *scratch);

#endif
