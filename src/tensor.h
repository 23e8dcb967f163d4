/* SPDX-License-Identifier: MIT
 * tensor.h: checks of tensors that callers pass in. */
#ifndef RAPTI_TENSOR_H
#define RAPTI_TENSOR_H

#include "context.h"

/* Most bytes of elements, and largest span of addresses in bytes. */
#define RAPTI_MAX_BYTES (UINT64_C(1) << 62)

/* Rank, sizes >= 0, element count and span within RAPTI_MAX_BYTES, data present (unless it may
 * be null or there are no elements), all reported under `name`. */
rapt_status rapti_tensor_check(rapt_context *context, const char *name, const rapt_tensor *t,
                               int32_t min_rank, int32_t max_rank, int needs_data);

/* The same view in a form that is safe to compute with: stride 0 along axes of size 0 or 1,
 * whatever the caller left there; some valid address where there are no elements. */
rapt_tensor rapti_tensor_normal(const rapt_tensor *t);

/* 1 if some size is 0. */
int rapti_tensor_empty(const rapt_tensor *t);

/* 1 if axes `axis` and `axis + 1` of a normal tensor have one stride between their elements, so
 * that they can become one; and making them one. */
int rapti_tensor_joins(const rapt_tensor *t, int32_t axis);
void rapti_tensor_join(rapt_tensor *t, int32_t axis);

/* 1 if two elements share memory, or the strides do not nest (tensor.h of the public headers). */
int rapti_tensor_overlaps_itself(const rapt_tensor *t);

/* 1 if the tensors may share a byte. Exact for disjoint address ranges and for equal element sizes
 * with strides that nest; otherwise it may say 1 for tensors that interleave without touching. */
int rapti_tensors_overlap(const rapt_tensor *a, const rapt_tensor *b);

/* 1 if the memory of `count` elements from `at` on is all elements of the normal tensor. It knows
 * only tensors without gaps between their elements, and says 0 for others. */
int rapti_tensor_holds(const rapt_tensor *t, const void *at, int64_t count);

/* 1 if both are the same view of the same memory. */
int rapti_tensors_equal(const rapt_tensor *a, const rapt_tensor *b);

#endif
