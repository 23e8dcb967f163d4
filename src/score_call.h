/* SPDX-License-Identifier: MIT
 * score_call.h: the additive score of a checked call. */
#ifndef RAPTI_SCORE_CALL_H
#define RAPTI_SCORE_CALL_H

#include "context.h"

/* scores[b,h,i,j] = v . tanh(Wq q[b,h,i] + Wk k[b,g,j]); none of its sizes is 0, but perhaps those
 * of the features and units. */
rapt_status rapti_score_additive(rapt_context *context, const rapt_score *score,
                                 const rapt_tensor *q, const rapt_tensor *k,
                                 const rapt_tensor *scores);

#endif
