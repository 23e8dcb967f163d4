/* SPDX-License-Identifier: MIT
 * rapt/attention_backward.h: the gradients of rapt_attention_forward, one call, Tq x Tk never in
 * memory.
 *
 * Formula, for batch b, query head h, query i, key j; s, p and keep as in attention.h, `what` and
 * the inputs those of the forward call, whose out and lse are given back:
 *
 *   p[i,j]   = exp(s[i,j] - lse[i])                   the weights, computed again
 *   z[i,j]   = keep[i,j] / (1 - dropout)              1 outside training
 *   delta[i] = dout[i] . out[i] - dlse[i]
 *   ds[i,j]  = p[i,j] (z[i,j] (dout[i] . v[j]) - delta[i])
 *   dq[i]    = scale sum_j ds[i,j] k[j]
 *   dk[j]    = scale sum_i ds[i,j] q[i]               i over the queries of all heads that use k[j]
 *   dv[j]    = sum_i z[i,j] p[i,j] dout[i]
 *   dbias    = ds, summed over every axis along which dbias has size 1
 *
 * (dout . out is sum_j p z (dout . v): the term that the softmax's normalisation contributes;
 * Dao et al. 2022, appendix B.4.) */
#ifndef RAPT_ATTENTION_BACKWARD_H
#define RAPT_ATTENTION_BACKWARD_H

#include "attention.h"
#include "export.h"
#include "status.h"
#include "tensor.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Null = absent. Names of sizes as in attention.h. */
typedef struct rapt_attention_backward_operands {
    /* The forward call's inputs, with the same meaning and limits. */
    const rapt_tensor *q;           /* in, f32 [B, Hq, Tq, D] */
    const rapt_tensor *k;           /* in, f32 [B, Hkv, Tk, D] */
    const rapt_tensor *v;           /* in, f32 [B, Hkv, Tk, Dv] */
    const rapt_tensor *mask;        /* in, bool, optional */
    const rapt_tensor *bias;        /* in, f32, optional */
    const rapt_tensor *key_lengths; /* in, i32 or i64, optional */
    const rapt_tensor *keep;        /* in, bool, optional */

    /* Its results. */
    const rapt_tensor *out; /* in, f32 [B, Hq, Tq, Dv] */
    const rapt_tensor *lse; /* in, f32 [B, Hq, Tq] */

    /* The gradients of a loss with respect to them. */
    const rapt_tensor *dout; /* in, f32 [B, Hq, Tq, Dv] */
    const rapt_tensor *dlse; /* in, f32 [B, Hq, Tq], optional: absent = 0 */

    /* The gradients with respect to the inputs, any subset; what is not asked for costs no time. */
    const rapt_tensor *dq; /* out, f32 [B, Hq, Tq, D], optional */
    const rapt_tensor *dk; /* out, f32 [B, Hkv, Tk, D], optional */
    const rapt_tensor *dv; /* out, f32 [B, Hkv, Tk, Dv], optional */
    /* The bias's shape, or any other that broadcasts to [B, Hq, Tq, Tk]; the call may have no bias
     * (its gradient is then that of a bias of zeros). */
    const rapt_tensor *dbias; /* out, f32, optional */

    int32_t accumulate; /* 0: outputs are overwritten, whatever they held; 1: added to */

    void *scratch;        /* optional: memory for this call, 64-byte aligned, of at least */
    size_t scratch_bytes; /* rapt_attention_info.scratch_bytes; null = the context's own */
} rapt_attention_backward_operands;

/* rapt_attention_backward: computes the gradients that are asked for.
 *
 * Formula   at the top of this file; shapes beside each operand.
 * Visible   as in the forward call. What is not visible is never used and gets gradient 0: NaN or
 *           infinity there, in K, V, bias, or in q, out and dout of a query that sees no key,
 *           changes no bit of any gradient. A key that no query sees has dk = dv = 0.
 * Empty     a query that sees no key, and any with lse = -inf: dq = 0, and no part in dk, dv and
 *           dbias. Sizes of 0 are legal: sums over nothing are 0 (dk = dv = 0 for Tq = 0).
 * NaN       NaN and infinity in visible data reach the gradients that use them by the formula, and
 *           no others: so where visible infinities make lse = -inf, 0 times infinity is NaN. A
 *           score that they make -inf has p = ds = 0 in every row, as in the forward call.
 * Memory    any strides (tensor.h), 0 for inputs (dout of a sum), fastest when the last axes have
 *           stride 1 and D and Dv fill whole vectors. An output may share no element with any other
 *           operand (RAPT_ERR_OVERLAP). Scratch is O(threads x (D + Dv)) times the keys of a cell,
 *           at most 2047, plus 24 bytes per task; nothing is allocated when the context's scratch
 *           from an earlier call is large enough, or the caller gives some.
 * Numerics  f32 products as in the forward call; sums over blocks of some hundred queries or keys.
 *           lse must be that of these scores to rounding (any instruction set's, or the merge of
 *           several parts); where s - lse exceeds 88, p is meaningless. Where |lse| is 4096
 *           or more, p has the error of its rounding and is at most 1; of a row's only key it is 1
 *           if lse is from a forward call with the same rounding (not `scalar` with another set,
 *           not one that gave weights). p below 2^-100 counts as 0: denormal gradients would take
 *           many times as long. Relative RMS error of dq, dk and dv on standard normal input,
 *           1x12x1024x64, against double precision: below 5e-7 (`scalar`: 5.5e-7). In the default
 *           floating-point environment, bitwise the same for any thread count, on every call, and
 *           for a batch item whatever else is in the batch (dbias: unless it is summed over the
 *           batch).
 * Threads   one context, one call at a time (context.h). Heads of 2048 queries and keys or more are
 *           worked on in cells of 512 or more, in an order that lets one head use many threads. A
 *           dbias that is summed over batch or heads makes these take turns: only cells run side by
 *           side.
 * Errors    those of rapt_attention_forward, for the operands here; RAPT_ERR_ARGUMENT for
 *           accumulate other than 0 and 1. Nothing is written then. */
RAPT_API rapt_status rapt_attention_backward(rapt_context *context, const rapt_attention *what,
                                             const rapt_attention_backward_operands *operands);

/* Fills *info for the call rapt_attention_backward(context, what, operands), as
 * rapt_attention_forward_info does. path is "fused"; flops is 2.5 times the forward call's, what
 * the five products need. Outputs that are not null count as asked for, with null data, too. */
RAPT_API rapt_status rapt_attention_backward_info(rapt_context *context, const rapt_attention *what,
                                                  const rapt_attention_backward_operands *operands,
                                                  rapt_attention_info *info);

/* The scheduler's own list: costs of the tasks in the order in which threads take them, in units of
 * one multiply-add. Tasks of one step run side by side; a step begins when the one before it is
 * done. Writes the first min(capacity, tasks) to `costs`, and the number of their step, counted
 * from 0, to `steps` unless that is null. Errors as for rapt_attention_forward_tasks. */
RAPT_API rapt_status rapt_attention_backward_tasks(rapt_context *context,
                                                   const rapt_attention *what,
                                                   const rapt_attention_backward_operands *operands,
                                                   double *costs, int64_t *steps, int64_t capacity);

#ifdef __cplusplus
}
#endif
#endif
