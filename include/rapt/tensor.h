/* SPDX-License-Identifier: MIT
 * rapt/tensor.h: a tensor is a view: a pointer, an element type, sizes and strides.
 *
 * The library never owns, frees or keeps a caller's data. Element (i0, i1, ...) lies at
 * data + i0 * stride[0] + i1 * stride[1] + ..., strides counted in ELEMENTS and signed:
 *
 *   inputs    any stride: 0 repeats one element along an axis (broadcast), negative walks backwards
 *   outputs   no two elements may share memory, and strides must nest: sorted by absolute stride,
 *             each stride is larger than the whole extent of the axes below it. Anything else is
 *             RAPT_ERR_OVERLAP. Bytes between strided rows are never touched.
 *
 * Alignment: that of one element, nothing more. Sizes >= 0; with a size of 0 data may be null.
 * Elements and the span of addresses are limited to 2^62 bytes (RAPT_ERR_SHAPE beyond). */
#ifndef RAPT_TENSOR_H
#define RAPT_TENSOR_H

#include "export.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rapt_dtype {
    RAPT_F32 = 1,  /* IEEE binary32 */
    RAPT_BOOL = 2, /* one byte; any non-zero byte is true */
    RAPT_I32 = 3,  /* int32_t */
    RAPT_I64 = 4   /* int64_t */
} rapt_dtype;

enum { RAPT_MAX_RANK = 6 };

typedef struct rapt_tensor {
    void *data; /* owned by the caller; inputs are never written through it */
    rapt_dtype dtype;
    int32_t rank; /* 0 .. RAPT_MAX_RANK */
    int64_t size[RAPT_MAX_RANK];
    int64_t stride[RAPT_MAX_RANK]; /* in elements */
} rapt_tensor;

/* ---- Makers. They copy numbers and check nothing; every call checks what it is given. ---- */

/* Row-major contiguous tensor of `rank` sizes: the last axis has stride 1. */
RAPT_ALWAYS_INLINE rapt_tensor rapt_tensor_contiguous(rapt_dtype dtype, const void *data,
                                                      int32_t rank, const int64_t *size) {
    rapt_tensor t = {(void *)(uintptr_t)data, dtype, rank, {0}, {0}};
    int64_t stride = 1;
    for (int32_t axis = rank - 1; axis >= 0 && axis < RAPT_MAX_RANK; axis--) {
        t.size[axis] = size[axis];
        t.stride[axis] = stride;
        stride = (int64_t)((uint64_t)stride * (uint64_t)size[axis]); /* checked by the callee */
    }
    return t;
}

RAPT_ALWAYS_INLINE rapt_tensor rapt_tensor_1d(rapt_dtype dtype, const void *data, int64_t n) {
    return rapt_tensor_contiguous(dtype, data, 1, &n);
}

RAPT_ALWAYS_INLINE rapt_tensor rapt_tensor_2d(rapt_dtype dtype, const void *data, int64_t n0,
                                              int64_t n1) {
    const int64_t size[2] = {n0, n1};
    return rapt_tensor_contiguous(dtype, data, 2, size);
}

RAPT_ALWAYS_INLINE rapt_tensor rapt_tensor_3d(rapt_dtype dtype, const void *data, int64_t n0,
                                              int64_t n1, int64_t n2) {
    const int64_t size[3] = {n0, n1, n2};
    return rapt_tensor_contiguous(dtype, data, 3, size);
}

RAPT_ALWAYS_INLINE rapt_tensor rapt_tensor_4d(rapt_dtype dtype, const void *data, int64_t n0,
                                              int64_t n1, int64_t n2, int64_t n3) {
    const int64_t size[4] = {n0, n1, n2, n3};
    return rapt_tensor_contiguous(dtype, data, 4, size);
}

/* Any sizes and strides. */
static inline rapt_tensor rapt_tensor_strided(rapt_dtype dtype, const void *data, int32_t rank,
                                              const int64_t *size, const int64_t *stride) {
    rapt_tensor t = {(void *)(uintptr_t)data, dtype, rank, {0}, {0}};
    for (int32_t axis = 0; axis < rank && axis < RAPT_MAX_RANK; axis++) {
        t.size[axis] = size[axis];
        t.stride[axis] = stride[axis];
    }
    return t;
}

/* The same memory with axes a and b exchanged: (B, T, H, D) <-> (B, H, T, D). No copy.
 * Precondition: 0 <= a, b < t.rank. */
static inline rapt_tensor rapt_tensor_swap_axes(rapt_tensor t, int32_t a, int32_t b) {
    const int64_t size = t.size[a], stride = t.stride[a];
    t.size[a] = t.size[b];
    t.stride[a] = t.stride[b];
    t.size[b] = size;
    t.stride[b] = stride;
    return t;
}

/* The same memory as a transposed matrix, or a batch of them: the last two axes exchanged.
 * Precondition: t.rank >= 2. */
static inline rapt_tensor rapt_tensor_transpose(rapt_tensor t) {
    return rapt_tensor_swap_axes(t, t.rank - 2, t.rank - 1);
}

/* Bytes of one element; 0 for an unknown dtype. */
static inline int64_t rapt_dtype_bytes(rapt_dtype dtype) {
    switch (dtype) {
    case RAPT_F32: return 4;
    case RAPT_BOOL: return 1;
    case RAPT_I32: return 4;
    case RAPT_I64: return 8;
    }
    return 0;
}

/* Elements [begin, begin + n) of one axis. Precondition: the range lies inside the axis. */
static inline rapt_tensor rapt_tensor_slice(rapt_tensor t, int32_t axis, int64_t begin, int64_t n) {
    if (t.data) { t.data = (char *)t.data + begin * t.stride[axis] * rapt_dtype_bytes(t.dtype); }
    t.size[axis] = n;
    return t;
}

/* A feature axis seen as heads: (B, T, heads * D) -> (B, heads, T, D), the form that attention
 * takes. No copy. Precondition: t.rank is 3 and heads >= 1 divides the feature size. */
static inline rapt_tensor rapt_tensor_split_heads(rapt_tensor t, int64_t heads) {
    const int64_t head_dim = t.size[2] / heads, feature_stride = t.stride[2];
    t.rank = 4;
    t.size[3] = head_dim;
    t.stride[3] = feature_stride;
    t.size[2] = t.size[1];
    t.stride[2] = t.stride[1];
    t.size[1] = heads;
    t.stride[1] = head_dim * feature_stride;
    return t;
}

#ifdef __cplusplus
}
#endif
#endif
