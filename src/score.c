/* SPDX-License-Identifier: MIT
 * score.c: scores as calls of their own. The dot products are matrix products over heads that share
 * a key head; the additive score is in score_additive.c. */
#include "score_call.h"

#include "operand.h"

#include <math.h>
#include <string.h>

rapt_status rapt_score_kind_from_name(const char *name, rapt_score_kind *kind) {
    static const char *const names[] = {"scaled_dot", "dot", "additive"};
    if (!name || !kind) { return RAPT_ERR_ARGUMENT; }
    for (int n = 0; n <= RAPT_SCORE_ADDITIVE; n++) {
        if (strcmp(name, names[n]) == 0) {
            *kind = (rapt_score_kind)n;
            return RAPT_OK;
        }
    }
    return RAPT_ERR_ARGUMENT;
}

/* ---- Checks ---- */

static rapt_status check_input(rapt_context *context, const char *name, const rapt_tensor *t,
                               int32_t rank, const int64_t *size) {
    rapt_status status = rapti_operand_check(context, name, t, RAPT_F32, rank, rank);
    if (status == RAPT_OK) { status = rapti_operand_sizes(context, name, t, rank, size); }
    return status;
}

static rapt_status check_parameters(rapt_context *context, const rapt_score *score,
                                    const rapt_tensor *q, const rapt_tensor *k) {
    const int64_t query_size[2] = {-1, q->size[3]};
    rapt_status status = check_input(context, "w_query", score->w_query, 2, query_size);
    if (status != RAPT_OK) { return status; }
    const int64_t key_size[2] = {score->w_query->size[0], k->size[3]};
    status = check_input(context, "w_key", score->w_key, 2, key_size);
    if (status != RAPT_OK) { return status; }
    return check_input(context, "score.v", score->v, 1, key_size);
}

/* The written tensor, and every input that the kind has. */
static rapt_status check_apart(rapt_context *context, const rapt_score *score, const rapt_tensor *q,
                               const rapt_tensor *k, const rapt_tensor *scores) {
    const struct {
        const char *name;
        const rapt_tensor *tensor;
    } read[] = {{"q", q},
                {"k", k},
                {"w_query", score->w_query},
                {"w_key", score->w_key},
                {"score.v", score->v}};
    const size_t inputs = score->kind == RAPT_SCORE_ADDITIVE ? 5 : 2;
    rapt_status status = rapti_operand_written(context, "scores", scores);
    for (size_t n = 0; n < inputs && status == RAPT_OK; n++) {
        status = rapti_operand_apart(context, "scores", scores, read[n].name, read[n].tensor);
    }
    return status;
}

rapt_status rapti_score_check(rapt_context *context, const rapt_score *score, const rapt_tensor *q,
                              const rapt_tensor *k, const char *scores_name,
                              const rapt_tensor *scores) {
    rapt_status status = rapti_operand_context(context);
    if (status != RAPT_OK) { return status; }
    if (!score) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "score: null pointer"); }
    if ((int)score->kind < RAPT_SCORE_SCALED_DOT || (int)score->kind > RAPT_SCORE_ADDITIVE) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "score.kind: unknown value %d",
                          (int)score->kind);
    }
    const int additive = score->kind == RAPT_SCORE_ADDITIVE;
    const int64_t any[4] = {-1, -1, -1, -1};
    status = check_input(context, "q", q, 4, any);
    if (status != RAPT_OK) { return status; }
    const int64_t k_size[4] = {q->size[0], -1, -1, additive ? -1 : q->size[3]};
    status = check_input(context, "k", k, 4, k_size);
    if (status != RAPT_OK) { return status; }
    const int64_t heads = q->size[1], kv_heads = k->size[1];
    if (kv_heads == 0 ? heads != 0 : heads % kv_heads != 0) {
        return rapti_fail(context, RAPT_ERR_SHAPE,
                          "q: %lld heads are not a multiple of the %lld heads of k",
                          (long long)heads, (long long)kv_heads);
    }
    const int64_t s_size[4] = {q->size[0], heads, q->size[2], k->size[2]};
    status = check_input(context, scores_name, scores, 4, s_size);
    return status == RAPT_OK && additive ? check_parameters(context, score, q, k) : status;
}

/* ---- Dot products ---- */

rapt_tensor rapti_score_group_heads(const rapt_tensor *t, int64_t kv_heads) {
    const rapt_tensor flat = rapti_tensor_normal(t);
    const int64_t group = flat.size[1] / kv_heads;
    const int64_t size[5] = {flat.size[0], kv_heads, group, flat.size[2], flat.size[3]};
    const int64_t stride[5] = {flat.stride[0], kv_heads > 1 ? group * flat.stride[1] : 0,
                               flat.stride[1], flat.stride[2], flat.stride[3]};
    return rapt_tensor_strided(RAPT_F32, flat.data, 5, size, stride);
}

rapt_scale rapti_score_scale(rapt_score_kind kind, int64_t dim) {
    if (kind != RAPT_SCORE_SCALED_DOT || dim == 0) { return (rapt_scale){0}; }
    return (rapt_scale){1, (float)(1.0 / sqrt((double)dim))};
}

static rapt_status dot_scores(rapt_context *context, rapt_score_kind kind, const rapt_tensor *q,
                              const rapt_tensor *k, const rapt_tensor *scores) {
    const rapt_tensor a = rapti_score_group_heads(q, k->size[1]),
                      c = rapti_score_group_heads(scores, k->size[1]);
    /* keys are in groups of one, which serve all of a group of queries */
    const rapt_tensor b = rapt_tensor_transpose(rapti_score_group_heads(k, k->size[1]));
    const rapt_matmul what = {.alpha = rapti_score_scale(kind, q->size[3])};
    return rapt_matmul_run(context, &what, &(rapt_matmul_operands){.a = &a, .b = &b, .c = &c});
}

rapt_status rapt_scores(rapt_context *context, const rapt_score *score, const rapt_tensor *q,
                        const rapt_tensor *k, const rapt_tensor *scores) {
    rapt_status status = rapti_score_check(context, score, q, k, "scores", scores);
    if (status == RAPT_OK) { status = check_apart(context, score, q, k, scores); }
    if (status != RAPT_OK || rapti_tensor_empty(scores)) { return status; }
    if (score->kind == RAPT_SCORE_ADDITIVE) {
        return rapti_score_additive(context, score, q, k, scores);
    }
    return dot_scores(context, score->kind, q, k, scores);
}
