/* SPDX-License-Identifier: MIT
 * rapt/matmul.h: matrix product, one or a batch of them (Raschka, sections 3.4.1 and 3.6.2).
 *
 *   C[.., m, n] = alpha * sum_k A[.., m, k] * B[.., k, n] + beta * C[.., m, n] + bias[n]
 *
 * A transposed operand is a view: rapt_tensor_transpose(t) exchanges the last two strides, so
 * x W^T is written with b = rapt_tensor_transpose(w). */
#ifndef RAPT_MATMUL_H
#define RAPT_MATMUL_H

#include "attention.h"
#include "export.h"
#include "status.h"
#include "tensor.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rapt_matmul {
    rapt_scale alpha; /* 1 unless on is set (attention.h); NaN and infinities are refused */
    float beta;       /* finite; 0: C is not read and may hold anything */
} rapt_matmul;

typedef struct rapt_matmul_operands {
    const rapt_tensor *a;    /* in, f32 [.., M, K], rank 2 to RAPT_MAX_RANK */
    const rapt_tensor *b;    /* in, f32 [.., K, N] */
    const rapt_tensor *bias; /* in, f32 [N], optional */
    const rapt_tensor *c;    /* out (in as well if beta is not 0), f32 [.., M, N] */

    void *scratch;        /* optional: memory for this call, 64-byte aligned, of at least */
    size_t scratch_bytes; /* what rapt_matmul_scratch says; null = the context's own */
} rapt_matmul_operands;

/* Formula   at the top of this file. alpha multiplies the sum, not the bias.
 * Shapes    leading axes of A and B broadcast to those of C: aligned to the right, each of the same
 *           size or 1 (or absent). M, N, K and the batch may be 0; K = 0: C = beta C + bias.
 * Memory    any strides, 0 and negative ones included. Fastest when the last axis of C has stride
 *           1. C shares no element with A, B or bias (RAPT_ERR_OVERLAP). Scratch: at most 8 MB for
 *           packed parts of B, and 1 MB per thread.
 * Numerics  f32, fused multiply-add but for `scalar`; each element one sum over k in order, in even
 *           blocks of at most 1024 that are added up; bitwise the same for any thread count and
 *           inside a larger batch. NaN and infinity reach exactly the elements whose row of A or
 *           column of B holds them.
 * Threads   over tiles of C and the batch.
 * Errors    RAPT_ERR_ARGUMENT, RAPT_ERR_DTYPE, RAPT_ERR_SHAPE, RAPT_ERR_OVERLAP, RAPT_ERR_MEMORY,
 *           RAPT_ERR_SCRATCH. Nothing is written then. */
RAPT_API rapt_status rapt_matmul_run(rapt_context *context, const rapt_matmul *what,
                                     const rapt_matmul_operands *operands);

/* Bytes of scratch that the call would need, with the same checks; data pointers may be null. */
RAPT_API rapt_status rapt_matmul_scratch(rapt_context *context, const rapt_matmul *what,
                                         const rapt_matmul_operands *operands, int64_t *bytes);

/* ---- Backward: gradients of a loss with respect to A, B and bias, from that to C. ---- */
typedef struct rapt_matmul_backward_operands {
    const rapt_tensor *a;  /* in, f32 [.., M, K], as in the forward call */
    const rapt_tensor *b;  /* in, f32 [.., K, N], ditto */
    const rapt_tensor *dc; /* in, f32 [.., M, N] */

    const rapt_tensor *da;    /* out, f32, sizes of a, optional: alpha dC B^T */
    const rapt_tensor *db;    /* out, f32, sizes of b, optional: alpha A^T dC */
    const rapt_tensor *dbias; /* out, f32 [N], optional: dC summed over its rows and the batch */

    int32_t accumulate; /* 0: outputs are overwritten, whatever they held; 1: added to */

    void *scratch; /* as above; rapt_matmul_backward_scratch */
    size_t scratch_bytes;
} rapt_matmul_backward_operands;

/* da and db are summed over the leading axes along which a and b were broadcast. beta in `what` is
 * not looked at (the gradient of the old C is beta dC). Memory, numerics, threads, errors: as
 * rapt_matmul_run; a is needed for db alone, b for da alone (they may be null otherwise). An output
 * may share no element with any other operand. */
RAPT_API rapt_status rapt_matmul_backward(rapt_context *context, const rapt_matmul *what,
                                          const rapt_matmul_backward_operands *operands);

/* Bytes of scratch that rapt_matmul_backward would need, as rapt_matmul_scratch. */
RAPT_API rapt_status rapt_matmul_backward_scratch(rapt_context *context, const rapt_matmul *what,
                                                  const rapt_matmul_backward_operands *operands,
                                                  int64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
