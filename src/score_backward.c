/* SPDX-License-Identifier: MIT
 * score_backward.c: gradients of scores: checks; the dot products, whose gradients are those of
 * matrix products over heads that share a key head. */
#include "operand.h"
#include "score_call.h"

enum { DQ, DK, DW_QUERY, DW_KEY, DV, GRADIENTS, INPUTS = 6 };
static const char *const names[GRADIENTS] = {"gradients.dq", "gradients.dk", "gradients.dw_query",
                                             "gradients.dw_key", "gradients.dv"};

/* ---- Checks ---- */

/* One gradient: of the sizes of `of`, apart from every input and the gradients after it. */
static rapt_status check_gradient(rapt_context *context, int id,
                                  const rapt_tensor *const *gradients,
                                  const rapt_tensor *const *inputs) {
    static const char *const input_names[INPUTS] = {"q",     "k",       "w_query",
                                                    "w_key", "score.v", "dscores"};
    const rapt_tensor *t = gradients[id], *of = inputs[id];
    rapt_status status = rapti_operand_check(context, names[id], t, RAPT_F32, of->rank, of->rank);
    if (status == RAPT_OK) {
        status = rapti_operand_sizes(context, names[id], t, of->rank, of->size);
    }
    if (status == RAPT_OK) { status = rapti_operand_written(context, names[id], t); }
    for (int n = 0; n < INPUTS && status == RAPT_OK; n++) {
        if (inputs[n]) {
            status = rapti_operand_apart(context, names[id], t, input_names[n], inputs[n]);
        }
    }
    for (int n = 0; n < id && status == RAPT_OK; n++) {
        if (gradients[n]) {
            status = rapti_operand_apart(context, names[id], t, names[n], gradients[n]);
        }
    }
    return status;
}

static rapt_status check(rapt_context *context, const rapt_score *score, const rapt_tensor *q,
                         const rapt_tensor *k, const rapt_tensor *dscores,
                         const rapt_scores_gradients *g) {
    rapt_status status = rapti_score_check(context, score, q, k, "dscores", dscores);
    if (status != RAPT_OK) { return status; }
    if (!g) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "gradients: null pointer"); }
    if (g->accumulate & ~1) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "gradients.accumulate: %d, expected 0 or 1",
                          g->accumulate);
    }
    const int additive = score->kind == RAPT_SCORE_ADDITIVE;
    const rapt_tensor *const gradients[GRADIENTS] = {g->dq, g->dk, g->dw_query, g->dw_key, g->dv};
    const rapt_tensor *const inputs[INPUTS] = {q,
                                               k,
                                               additive ? score->w_query : NULL,
                                               additive ? score->w_key : NULL,
                                               additive ? score->v : NULL,
                                               dscores};
    for (int id = 0; id < GRADIENTS && status == RAPT_OK; id++) {
        if (gradients[id] && !inputs[id]) {
            return rapti_fail(context, RAPT_ERR_ARGUMENT, "%s: this kind of score (%d) has none",
                              names[id], (int)score->kind);
        }
        if (gradients[id]) { status = check_gradient(context, id, gradients, inputs); }
    }
    return status;
}

/* ---- Dot products ---- */

static rapt_status dot_backward(rapt_context *context, rapt_score_kind kind, const rapt_tensor *q,
                                const rapt_tensor *k, const rapt_tensor *dscores,
                                const rapt_scores_gradients *g) {
    const int64_t kv_heads = k->size[1];
    if (kv_heads == 0) { return RAPT_OK; } /* nothing has elements */
    const rapt_tensor a = rapti_score_group_heads(q, kv_heads);
    const rapt_tensor b = rapt_tensor_transpose(rapti_score_group_heads(k, kv_heads));
    const rapt_tensor dc = rapti_score_group_heads(dscores, kv_heads);
    rapt_matmul_backward_operands o = {.a = &a, .b = &b, .dc = &dc, .accumulate = g->accumulate};
    rapt_tensor da, db;
    if (g->dq) {
        da = rapti_score_group_heads(g->dq, kv_heads);
        o.da = &da;
    }
    if (g->dk) {
        db = rapt_tensor_transpose(rapti_score_group_heads(g->dk, kv_heads));
        o.db = &db;
    }
    const rapt_matmul what = {.alpha = rapti_score_scale(kind, q->size[3])};
    return rapt_matmul_backward(context, &what, &o);
}

rapt_status rapt_scores_backward(rapt_context *context, const rapt_score *score,
                                 const rapt_tensor *q, const rapt_tensor *k,
                                 const rapt_tensor *dscores,
                                 const rapt_scores_gradients *gradients) {
    const rapt_status status = check(context, score, q, k, dscores, gradients);
    if (status != RAPT_OK) { return status; }
    if (score->kind == RAPT_SCORE_ADDITIVE) {
        return rapti_score_additive_backward(context, score, q, k, dscores, gradients);
    }
    return dot_backward(context, score->kind, q, k, dscores, gradients);
}
