/* SPDX-License-Identifier: MIT
 * score_call.h: what the score calls and their backward share. */
#ifndef RAPTI_SCORE_CALL_H
#define RAPTI_SCORE_CALL_H

#include "steps.h"

/* Everything but overlap: scores goes by the given name. */
rapt_status rapti_score_check(rapt_context *context, const rapt_score *score, const rapt_tensor *q,
                              const rapt_tensor *k, const char *scores_name,
                              const rapt_tensor *scores);

/* [B, Hkv * G, T, n] as [B, Hkv, G, T, n]: G query heads share a key head. Hkv is not 0. */
rapt_tensor rapti_score_group_heads(const rapt_tensor *t, int64_t kv_heads);

/* What multiplies the dot product of a checked call. */
rapt_scale rapti_score_scale(rapt_score_kind kind, int64_t dim);

/* scores[b,h,i,j] = v . tanh(Wq q[b,h,i] + Wk k[b,g,j]); none of its sizes is 0, but perhaps those
 * of the features and units. */
rapt_status rapti_score_additive(rapt_context *context, const rapt_score *score,
                                 const rapt_tensor *q, const rapt_tensor *k,
                                 const rapt_tensor *scores);

/* Projections to units as two steps: queries to [B, Hq, Tq, U]; keys, turned, to [B, Hkv, U, Tk].
 */
rapt_status rapti_score_project(rapti_steps *steps, const rapt_score *score, const rapt_tensor *q,
                                const rapt_tensor *k, const rapt_tensor *q_units,
                                const rapt_tensor *k_units);

/* Threads for so many hyperbolic tangents. */
int32_t rapti_score_threads(const rapt_context *context, double count);

/* Gradients of the additive score of a checked call. */
rapt_status rapti_score_additive_backward(rapt_context *context, const rapt_score *score,
                                          const rapt_tensor *q, const rapt_tensor *k,
                                          const rapt_tensor *dscores,
                                          const rapt_scores_gradients *gradients);

#endif
