/* SPDX-License-Identifier: MIT
 * attention_scored.c: attention with a score function by name. The dot products are what the engine
 * computes; other scores are written to the weights tensor first, and the materialised path goes on
 * from there, with head sizes of 0 for the queries and keys that it no longer needs. */
#include "attention.h"

static rapt_status attend_dot(rapt_context *context, const rapt_attention *what,
                              rapt_score_kind kind, const rapt_attention_operands *operands) {
    rapt_attention dot = *what;
    if (kind == RAPT_SCORE_DOT && !dot.scale.on) { dot.scale = (rapt_scale){1, 1.0f}; }
    return rapt_attention_forward(context, &dot, operands);
}

/* The same rows without their features, which the score has used up. */
static rapt_tensor without_features(const rapt_tensor *t) {
    return rapt_tensor_4d(RAPT_F32, NULL, t->size[0], t->size[1], t->size[2], 0);
}

/* Memory for the second step is there before the first writes anything. */
static rapt_status attend_scores(rapt_context *context, const rapt_attention *what,
                                 const rapt_score *score, const rapt_attention_operands *operands) {
    const rapt_tensor q = without_features(operands->q), k = without_features(operands->k);
    rapt_attention_operands rest = *operands;
    rest.q = &q;
    rest.k = &k;
    rapti_problem problem;
    rapti_plan plan;
    void *unused;
    rapt_status status = rapti_attention_check(context, what, &rest, RAPTI_SCORES_GIVEN, &problem);
    if (status == RAPT_OK) { status = rapti_attention_plan(context, &problem, &plan); }
    if (status == RAPT_OK) {
        status = rapti_context_scratch(context, operands->scratch, operands->scratch_bytes,
                                       plan.scratch_bytes, &unused);
    }
    if (status == RAPT_OK) {
        status = rapt_scores(context, score, operands->q, operands->k, operands->weights);
    }
    if (status != RAPT_OK) { return status; }
    return rapti_attention_run(context, &problem, operands->scratch, operands->scratch_bytes);
}

static rapt_status check_rank(rapt_context *context, const char *name, const rapt_tensor *t) {
    if (!t) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "%s: null pointer", name); }
    if (t->rank != 4) {
        return rapti_fail(context, RAPT_ERR_SHAPE, "%s: rank %d, expected 4", name, t->rank);
    }
    return RAPT_OK;
}

rapt_status rapt_attention_scored(rapt_context *context, const rapt_attention *what,
                                  const rapt_score *score,
                                  const rapt_attention_operands *operands) {
    if (!context || !context->kernels) { return RAPT_ERR_ARGUMENT; }
    if (!what) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "what: null pointer"); }
    if (!score) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "score: null pointer"); }
    if (!operands) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "operands: null pointer"); }
    if (!operands->weights) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "weights: null pointer");
    }
    if (score->kind == RAPT_SCORE_SCALED_DOT || score->kind == RAPT_SCORE_DOT) {
        return attend_dot(context, what, score->kind, operands);
    }
    rapt_status status = check_rank(context, "q", operands->q);
    if (status == RAPT_OK) { status = check_rank(context, "k", operands->k); }
    if (status != RAPT_OK) { return status; }
    return attend_scores(context, what, score, operands);
}
