/* SPDX-License-Identifier: MIT
 * softmax_call.h: a softmax call after its checks, and the ways to run it. */
#ifndef RAPTI_SOFTMAX_CALL_H
#define RAPTI_SOFTMAX_CALL_H

#include "context.h"

/* Rows of elements along the last axis of `in`. */
typedef struct rapti_softmax {
    const rapti_kernels *kernels;
    rapt_tensor in, out; /* normal (tensor.h), the axis of the rows last; no `out` for sums alone */
    int64_t rows, size;  /* how many, elements of each */
} rapti_softmax;

/* Normal views with `axis` moved to the end. out may be null. */
rapti_softmax rapti_softmax_make(const rapt_context *context, const rapt_tensor *in,
                                 const rapt_tensor *out, int32_t axis);

/* Threads for work on so many elements, each costing about an exponential. */
int32_t rapti_softmax_threads(const rapt_context *context, double elements);

/* Longer rows are cut into chunks, so that threads can share them. */
enum { RAPTI_SOFTMAX_LONG = 1 << 17 };

/* Calls row(s, in, out, scratch) for every row: its first elements in both tensors (of `out` the
 * leading axes count; a tensor of one axis less will do), and scratch_floats floats. */
typedef void rapti_row_fn(const rapti_softmax *s, const float *in, float *out, float *scratch);
rapt_status rapti_softmax_each_row(rapt_context *context, const rapti_softmax *s, rapti_row_fn *row,
                                   int64_t scratch_floats);

/* Rows of up to RAPTI_SOFTMAX_LONG elements, along the lanes. */
rapt_status rapti_softmax_run_rows(rapt_context *context, const rapti_softmax *s);

/* Rows of any length that lie side by side: the second last axis has stride 1 in both tensors. */
rapt_status rapti_softmax_run_columns(rapt_context *context, const rapti_softmax *s);

/* Longer rows, in chunks. For lse, `out` has the leading axes only, and gets
 * max + ln sum. */
rapt_status rapti_softmax_run_chunks(rapt_context *context, const rapti_softmax *s);
rapt_status rapti_softmax_lse_chunks(rapt_context *context, const rapti_softmax *s);

/* max + ln(sum); infinity for a maximum of that, whatever the sum. */
float rapti_softmax_lse(float max, float sum);

/* Strided elements to and from contiguous ones. */
void rapti_softmax_gather(const float *x, int64_t step, int64_t n, float *to);
void rapti_softmax_scatter(const float *from, int64_t n, float *x, int64_t step);

#endif
