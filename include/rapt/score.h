/* SPDX-License-Identifier: MIT
 * rapt/score.h: attention with a choice of score function, as its history went: Bahdanau et al.
 * 2015 (additive), Luong et al. 2015 (dot product), Vaswani et al. 2017 (scaled dot product). The
 * weights are always given out. For speed use rapt_attention_forward. */
#ifndef RAPT_SCORE_H
#define RAPT_SCORE_H

#include "attention.h"
#include "export.h"
#include "status.h"
#include "tensor.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rapt_score_kind {
    RAPT_SCORE_SCALED_DOT = 0, /* q . k / sqrt(D) */
    RAPT_SCORE_DOT = 1,        /* q . k */
    RAPT_SCORE_ADDITIVE = 2    /* v . tanh(Wq q + Wk k) */
} rapt_score_kind;

typedef struct rapt_score {
    rapt_score_kind kind;
    /* RAPT_SCORE_ADDITIVE only; U units. D and the size of a key may differ then. */
    const rapt_tensor *w_query; /* in, f32 [U, D] */
    const rapt_tensor *w_key;   /* in, f32 [U, Dk] */
    const rapt_tensor *v;       /* in, f32 [U] */
} rapt_score;

/* The kind named "scaled_dot", "dot" or "additive"; RAPT_ERR_ARGUMENT for another name or a null
 * pointer. */
RAPT_API rapt_status rapt_score_kind_from_name(const char *name, rapt_score_kind *kind);

/* scores[b,h,i,j] = score(q[b,h,i], k[b,h / (Hq/Hkv),j]), unmasked.
 *
 * Shapes    q f32 [B, Hq, Tq, D], k f32 [B, Hkv, Tk, D] (additive: [B, Hkv, Tk, Dk]), scores f32
 *           [B, Hq, Tq, Tk]; Hq a multiple of Hkv. D = 0 or U = 0: scores are 0.
 * Memory    any strides; fastest when the last one of scores is 1. scores shares no element with
 *           another operand. Scratch of the context's: what rapt_matmul_run needs; for the additive
 *           score, the projections of all queries and keys to U units as well.
 * Numerics  products as rapt_matmul_run; tanh is SLEEF's (1 ulp), its sum over units in order. NaN
 *           and infinity reach exactly the scores of their query or key. Bitwise the same for any
 *           thread count and inside a larger batch.
 * Errors    RAPT_ERR_ARGUMENT, RAPT_ERR_DTYPE, RAPT_ERR_SHAPE, RAPT_ERR_OVERLAP, RAPT_ERR_MEMORY.
 *           Nothing is written then. */
RAPT_API rapt_status rapt_scores(rapt_context *context, const rapt_score *score,
                                 const rapt_tensor *q, const rapt_tensor *k,
                                 const rapt_tensor *scores);

/* Attention with that score function: what and operands as for rapt_attention_forward, but that
 * operands.weights is required (the scores pass through it) and the scale, if `what` gives one,
 * multiplies the score (the default is the kind's own). No output may share an element with the
 * tensors of the score. A caller's scratch is of the size that rapt_attention_forward_info says;
 * for the additive score, says for q and k with D = 0, and the projections take memory of the
 * context's besides. */
RAPT_API rapt_status rapt_attention_scored(rapt_context *context, const rapt_attention *what,
                                           const rapt_score *score,
                                           const rapt_attention_operands *operands);

/* Gradients of rapt_scores, all optional, from that to the scores. The last three are for
 * RAPT_SCORE_ADDITIVE only (RAPT_ERR_ARGUMENT otherwise). Heads that share a key head add up. */
typedef struct rapt_scores_gradients {
    const rapt_tensor *dq, *dk;           /* out, f32, sizes of q and k */
    const rapt_tensor *dw_query, *dw_key; /* out, f32, sizes of w_query and w_key */
    const rapt_tensor *dv;                /* out, f32 [U] */
    int32_t accumulate;                   /* 0: overwritten; 1: added to */
} rapt_scores_gradients;

RAPT_API rapt_status rapt_scores_backward(rapt_context *context, const rapt_score *score,
                                          const rapt_tensor *q, const rapt_tensor *k,
                                          const rapt_tensor *dscores,
                                          const rapt_scores_gradients *gradients);

#ifdef __cplusplus
}
#endif
#endif
