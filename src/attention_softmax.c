/* SPDX-License-Identifier: MIT
 * attention_softmax.c: the public pass over given scores: an attention call whose scores are there
 * already and whose head sizes are 0, so that nothing but the weights is left of it. */
#include "attention.h"
#include "tensor.h"

static rapt_status check(rapt_context *context, const rapt_attention *what,
                         const rapt_attention_softmax_operands *o, int kind, rapti_problem *p) {
    if (!context || !context->kernels) { return RAPT_ERR_ARGUMENT; }
    if (!o) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "operands: null pointer"); }
    const rapt_tensor *s = o->scores;
    const rapt_status status =
        rapti_tensor_check(context, "scores", s, 4, 4, !(kind & RAPTI_SIZES_ONLY));
    if (status != RAPT_OK) { return status; }
    if (s->dtype != RAPT_F32) {
        return rapti_fail(context, RAPT_ERR_DTYPE, "scores: dtype %d, expected RAPT_F32",
                          (int)s->dtype);
    }
    const rapt_tensor q = rapt_tensor_4d(RAPT_F32, NULL, s->size[0], s->size[1], s->size[2], 0);
    const rapt_tensor k = rapt_tensor_4d(RAPT_F32, NULL, s->size[0], s->size[1], s->size[3], 0);
    const rapt_attention_operands all = {
        .q = &q,
        .k = &k,
        .v = &k,
        .mask = o->mask,
        .bias = o->bias,
        .key_lengths = o->key_lengths,
        .out = &q,
        .lse = o->lse,
        .weights = s,
        .keep = o->keep,
    };
    return rapti_attention_check(context, what, &all,
                                 kind | RAPTI_SCORES_GIVEN | RAPTI_NAMED_SCORES, p);
}

rapt_status rapt_attention_softmax(rapt_context *context, const rapt_attention *what,
                                   const rapt_attention_softmax_operands *operands) {
    rapti_problem problem;
    const rapt_status status = check(context, what, operands, 0, &problem);
    if (status != RAPT_OK) { return status; }
    return rapti_attention_run(context, &problem, operands->scratch, operands->scratch_bytes);
}

rapt_status rapt_attention_softmax_scratch(rapt_context *context, const rapt_attention *what,
                                           const rapt_attention_softmax_operands *operands,
                                           int64_t *bytes) {
    rapti_problem problem;
    rapti_plan plan;
    rapt_status status = check(context, what, operands, RAPTI_SIZES_ONLY, &problem);
    if (status == RAPT_OK && !bytes) {
        status = rapti_fail(context, RAPT_ERR_ARGUMENT, "bytes: null pointer");
    }
    if (status == RAPT_OK) { status = rapti_attention_plan(context, &problem, &plan); }
    if (status == RAPT_OK) { *bytes = (int64_t)plan.scratch_bytes; }
    return status;
}
