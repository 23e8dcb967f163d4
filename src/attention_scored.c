/* SPDX-License-Identifier: MIT
 * attention_scored.c: attention with a score function by name. The dot products are what the engine
 * computes; other scores are written to the weights tensor first, and the materialised path goes on
 * from there, with head sizes of 0 for the queries and keys that it no longer needs. */
#include "attention.h"
#include "operand.h"

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

/* What only the score reads. */
typedef struct score_operand {
    const char *name;
    const rapt_tensor *tensor;
    int32_t rank;
} score_operand;

enum { SCORE_OPERANDS = 5 };

static rapt_status check_read(rapt_context *context, const score_operand *read) {
    rapt_status status = RAPT_OK;
    for (int i = 0; i < SCORE_OPERANDS && status == RAPT_OK; i++) {
        status = rapti_operand_check(context, read[i].name, read[i].tensor, RAPT_F32, read[i].rank,
                                     read[i].rank);
    }
    return status;
}

/* `written` may be `in_place`, seen the same way. */
static rapt_status check_apart(rapt_context *context, const char *name, const rapt_tensor *written,
                               const score_operand *read, const rapt_tensor *in_place) {
    rapt_status status = RAPT_OK;
    for (int i = 0; written && i < SCORE_OPERANDS && status == RAPT_OK; i++) {
        if (read[i].tensor == in_place && rapti_tensors_equal(in_place, written)) { continue; }
        status = rapti_operand_apart(context, name, written, read[i].name, read[i].tensor);
    }
    return status;
}

/* Memory for the second step is there before the first writes anything. */
static rapt_status attend_scores(rapt_context *context, const rapt_attention *what,
                                 const rapt_score *score, const rapt_attention_operands *operands) {
    const score_operand read[SCORE_OPERANDS] = {{"q", operands->q, 4},
                                                {"k", operands->k, 4},
                                                {"w_query", score->w_query, 2},
                                                {"w_key", score->w_key, 2},
                                                {"score.v", score->v, 1}};
    rapt_status status = check_read(context, read);
    if (status != RAPT_OK) { return status; }
    const rapt_tensor q = without_features(operands->q), k = without_features(operands->k);
    rapt_attention_operands rest = *operands;
    rest.q = &q;
    rest.k = &k;
    rapti_problem problem;
    rapti_plan plan;
    void *unused;
    status = rapti_attention_check(context, what, &rest, RAPTI_SCORES_GIVEN, &problem);
    if (status == RAPT_OK) {
        status = check_apart(context, "out", operands->out, read, read[0].tensor);
    }
    if (status == RAPT_OK) { status = check_apart(context, "lse", operands->lse, read, NULL); }
    if (status == RAPT_OK) {
        status = check_apart(context, "weights", operands->weights, read, NULL);
    }
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
    if (score->kind != RAPT_SCORE_ADDITIVE) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "score.kind: unknown value %d",
                          (int)score->kind);
    }
    return attend_scores(context, what, score, operands);
}
