/* SPDX-License-Identifier: MIT
 * rapt/softmax.h: softmax and its relatives as calls of their own, and the ways to mask it
 * (Raschka, sections 3.3.1, 3.5.1 and 3.5.2). */
#ifndef RAPT_SOFTMAX_H
#define RAPT_SOFTMAX_H

#include "attention.h"
#include "export.h"
#include "status.h"
#include "tensor.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out[.., j] = exp(in[.., j] - m) / sum_j exp(in[.., j] - m), m the row's maximum, over the last
 * axis.
 *
 * Shapes    f32 of rank 1 to RAPT_MAX_RANK, in and out of the same sizes.
 * Memory    any strides; fast when the last is 1, or another axis is contiguous. `out` may be the
 *           same memory as `in` (same strides); otherwise they share no element. Scratch is
 *           O(threads x row), for rows of up to 2^17 elements.
 * Numerics  exp is SLEEF's (1 ulp); the sum is f32, in an order that depends on the row's size
 *           alone. A row of -inf only (or of size 0) gives zeros; NaN or +inf in a row makes all of
 *           it NaN, but for entries of -inf, which stay 0.
 * Threads   over rows, and inside long ones; bitwise the same for any thread count, any strides,
 *           and whatever other rows there are.
 * Errors    RAPT_ERR_ARGUMENT, RAPT_ERR_DTYPE, RAPT_ERR_SHAPE, RAPT_ERR_OVERLAP,
 *           RAPT_ERR_MEMORY. */
RAPT_API rapt_status rapt_softmax(rapt_context *context, const rapt_tensor *in,
                                  const rapt_tensor *out);

/* The same over another axis: 0 .. rank - 1, or counted from the end: -1 .. -rank. Normalising
 * attention scores over the query axis instead of the key axis is a mistake that shapes do not
 * show. */
RAPT_API rapt_status rapt_softmax_axis(rapt_context *context, const rapt_tensor *in, int32_t axis,
                                       const rapt_tensor *out);

/* exp(x) / sum exp(x) without subtracting the maximum: for teaching (section 3.3.1). Entries above
 * 88.7 overflow and become NaN, as the text says; so does a row whose entries are all below -104,
 * by 0 / 0. Memory, threads and errors as above. */
RAPT_API rapt_status rapt_softmax_naive(rapt_context *context, const rapt_tensor *in,
                                        const rapt_tensor *out);

/* out[..] = ln sum_j exp(in[.., j]) over the last axis, f32; out has the leading sizes. -inf for a
 * row of -inf or of size 0; NaN for one that holds NaN, else +inf for one that holds that. Memory,
 * threads and errors as above, but that out and in share no element. */
RAPT_API rapt_status rapt_log_sum_exp(rapt_context *context, const rapt_tensor *in,
                                      const rapt_tensor *out);

/* Checks that rows of weights, f32 of any strides, sum to 1: *worst = the largest
 * |sum_j in[.., j] - 1| (in double precision); rows that are 0 throughout (nothing to attend to)
 * count as right; NaN if any entry is. Errors: RAPT_ERR_ARGUMENT, RAPT_ERR_DTYPE,
 * RAPT_ERR_SHAPE; *worst is not written then. */
RAPT_API rapt_status rapt_row_sum_error(rapt_context *context, const rapt_tensor *in,
                                        double *worst);

/* ---- Two masking routes (section 3.5.1), step by step. Tensors f32 [.., Tq, Tk], in place. ----
 *   A   softmax, then rapt_mask_fill(.., 0), then rapt_normalise_rows
 *   B   rapt_mask_fill(.., -inf), then softmax
 * Both give the same weights. Without the last step of A the rows do not sum to 1, and each kept
 * weight still carries the hidden scores in its denominator: information leaks. */

/* Writes `value` where causal order hides the key: j > position(i) (rapt_causal in attention.h).
 * Any number will do for `value`. Errors of both: RAPT_ERR_ARGUMENT (null pointer, unknown enum),
 * RAPT_ERR_DTYPE, RAPT_ERR_SHAPE (rank below 2, ...), RAPT_ERR_OVERLAP. */
RAPT_API rapt_status rapt_mask_fill(rapt_context *context, rapt_causal causal, float value,
                                    const rapt_tensor *in_out);

/* Divides each row by its sum (taken in double precision); a row that sums to 0 becomes zeros. Rank
 * 1 to RAPT_MAX_RANK. */
RAPT_API rapt_status rapt_normalise_rows(rapt_context *context, const rapt_tensor *in_out);

/* ---- The fused pass: scale, mask, softmax, dropout, in place over scores. ----
 *
 *   scores[b,h,i,:] -> weights as in attention.h, with s[i,j] = scale * scores[i,j] + bias[i,j]
 *
 * One read and one write of memory. `what` as for attention, but that the default scale is 1.
 * Numerics, visibility, empty rows, dropout and errors are those of rapt_attention_forward. */
typedef struct rapt_attention_softmax_operands {
    const rapt_tensor *scores;      /* in and out, f32 [B, H, Tq, Tk] */
    const rapt_tensor *mask;        /* as in rapt_attention_operands */
    const rapt_tensor *bias;        /* ditto */
    const rapt_tensor *key_lengths; /* ditto */
    const rapt_tensor *keep;        /* ditto */
    const rapt_tensor *lse;         /* ditto */
    void *scratch;                  /* ditto */
    size_t scratch_bytes;
} rapt_attention_softmax_operands;

RAPT_API rapt_status rapt_attention_softmax(rapt_context *context, const rapt_attention *what,
                                            const rapt_attention_softmax_operands *operands);

/* Bytes of scratch that the call would need, with the same checks. */
RAPT_API rapt_status rapt_attention_softmax_scratch(rapt_context *context,
                                                    const rapt_attention *what,
                                                    const rapt_attention_softmax_operands *operands,
                                                    int64_t *bytes);

/* ---- Backward. ---- */

/* Gradient of rapt_softmax: din[.., j] = out[.., j] (dout[.., j] - sum_j dout[.., j] out[.., j]),
 * from the softmax's own result. Where out is 0, din is 0 and dout is not used. din may be the same
 * memory as dout (same strides). Otherwise as rapt_softmax. */
RAPT_API rapt_status rapt_softmax_backward(rapt_context *context, const rapt_tensor *out,
                                           const rapt_tensor *dout, const rapt_tensor *din);
RAPT_API rapt_status rapt_softmax_axis_backward(rapt_context *context, const rapt_tensor *out,
                                                const rapt_tensor *dout, int32_t axis,
                                                const rapt_tensor *din);

/* Gradient of rapt_attention_softmax. With p the weights before dropout and z = keep / (1 -
 * dropout):
 *
 *   ds[i,j]      = p[i,j] (z[i,j] dweights[i,j] - sum_j z p dweights + dlse[i])
 *   dscores      = scale ds;     dbias = ds, summed over every axis along which dbias has size 1
 *
 * Masks need not be given again: where the weight is 0, the gradient is 0 and dweights is not
 * used. */
typedef struct rapt_attention_softmax_backward_operands {
    const rapt_tensor *weights;  /* in, f32 [B, H, Tq, Tk], before dropout */
    const rapt_tensor *keep;     /* in, bool, optional, as in the forward call */
    const rapt_tensor *dweights; /* in, f32 [B, H, Tq, Tk] */
    const rapt_tensor *dlse;     /* in, f32 [B, H, Tq], optional */
    const rapt_tensor *dscores;  /* out, f32 [B, H, Tq, Tk]; may be the memory of dweights */
    const rapt_tensor *dbias;    /* out, f32, optional: broadcasts to [B, H, Tq, Tk] */
    int32_t accumulate;          /* 0: overwritten; 1: added to (dscores then not in place) */
} rapt_attention_softmax_backward_operands;

RAPT_API rapt_status
rapt_attention_softmax_backward(rapt_context *context, const rapt_attention *what,
                                const rapt_attention_softmax_backward_operands *operands);

#ifdef __cplusplus
}
#endif
#endif
