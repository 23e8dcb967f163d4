/* SPDX-License-Identifier: MIT
 * pass_gradient.c: the public call for the gradient of the pass over scores: check, cut, run. */
#include "pass_gradient.h"

#include "operand.h"
#include "parallel.h"

static const double THREAD_COST = 16384; /* elements worth a thread of their own */

/* ---- Checks ---- */

static rapt_status check_sizes(rapt_context *context, const rapt_attention *what,
                               const rapt_attention_softmax_backward_operands *o,
                               rapti_pass_gradient *w) {
    rapt_status status = rapti_operand_check(context, "weights", o->weights, RAPT_F32, 4, 4);
    if (status != RAPT_OK) { return status; }
    const int64_t *size = o->weights->size;
    const rapt_tensor q = rapt_tensor_4d(RAPT_F32, NULL, size[0], size[1], size[2], 0);
    const rapt_tensor k = rapt_tensor_4d(RAPT_F32, NULL, size[0], size[1], size[3], 0);
    const rapt_attention_operands all = {
        .q = &q, .k = &k, .v = &k, .out = &q, .weights = o->weights, .keep = o->keep};
    status = rapti_attention_check(context, what, &all, RAPTI_BACKWARD, &w->p);
    if (status == RAPT_OK) {
        status = rapti_attention_check_operand(context, "dweights", o->dweights, 4, size, 1);
    }
    if (status == RAPT_OK) {
        status = rapti_attention_check_operand(context, "dscores", o->dscores, 4, size, 1);
    }
    if (status == RAPT_OK && o->dlse) {
        status = rapti_attention_check_operand(context, "dlse", o->dlse, 3, size, 1);
    }
    if (status == RAPT_OK) {
        status = rapti_attention_check_broadcast(context, "dbias", o->dbias, RAPT_F32, &w->p, 1,
                                                 &w->bias);
    }
    return status;
}

/* What is written shares no element with anything, but dscores may be dweights. */
static rapt_status check_written(rapt_context *context,
                                 const rapt_attention_softmax_backward_operands *o) {
    const char *const name[] = {"dscores", "dbias", "weights", "keep", "dweights", "dlse"};
    const rapt_tensor *const t[] = {o->dscores, o->dbias,    o->weights,
                                    o->keep,    o->dweights, o->dlse};
    for (int i = 0; i < 2; i++) {
        if (!t[i]) { continue; }
        rapt_status status = rapti_operand_written(context, name[i], t[i]);
        for (int j = i + 1; j < 6 && status == RAPT_OK; j++) {
            const int in_place = i == 0 && t[j] == o->dweights && !o->accumulate &&
                                 rapti_tensors_equal(o->dscores, o->dweights);
            if (!t[j] || in_place) { continue; }
            status = rapti_operand_apart(context, name[i], t[i], name[j], t[j]);
        }
        if (status != RAPT_OK) { return status; }
    }
    return RAPT_OK;
}

static rapt_status check(rapt_context *context, const rapt_attention *what,
                         const rapt_attention_softmax_backward_operands *o,
                         rapti_pass_gradient *w) {
    rapt_status status = rapti_operand_context(context);
    if (status != RAPT_OK) { return status; }
    if (!o) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "operands: null pointer"); }
    if (o->accumulate & ~1) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "accumulate: %d, expected 0 or 1",
                          o->accumulate);
    }
    *w = (rapti_pass_gradient){.accumulate = o->accumulate};
    status = check_sizes(context, what, o, w);
    if (status == RAPT_OK) { status = check_written(context, o); }
    if (status != RAPT_OK) { return status; }
    w->dweights = rapti_tensor_normal(o->dweights);
    w->dscores = rapti_tensor_normal(o->dscores);
    if (o->dlse) { w->dlse = rapti_tensor_normal(o->dlse); }
    if (o->dbias) { w->dbias = rapti_tensor_normal(o->dbias); }
    return RAPT_OK;
}

/* ---- Cut ---- */

static void cut(const rapt_context *context, const rapt_tensor *dbias, rapti_pass_gradient *w) {
    const int64_t lanes = context->kernels->lanes;
    const int64_t full[4] = {w->p.batch, w->p.heads, w->p.queries, w->p.keys};
    w->plan.kernels = context->kernels;
    w->groups = rapti_divide_up(w->p.queries, lanes);
    const int64_t count[3] = {w->p.batch, w->p.heads, w->groups};
    int sums[4] = {0};
    for (int axis = 0; axis < 4 && dbias; axis++) {
        const int32_t own = axis - 4 + dbias->rank;
        sums[axis] = full[axis] != 1 && (own < 0 || dbias->size[own] == 1);
    }
    w->sums_queries = sums[2];
    w->sums_keys = sums[3];
    w->slice_count = w->slice_units = 1;
    for (int axis = 0; axis < 3; axis++) {
        w->slices[axis] = sums[axis] ? 1 : count[axis];
        w->summed[axis] = sums[axis] ? count[axis] : 1;
        w->slice_count *= w->slices[axis];
        w->slice_units *= w->summed[axis];
    }
    w->chunks = rapti_max(rapti_divide_up(w->slice_units, RAPTI_PASS_CHUNK), 1);
    const double worth =
        (double)full[0] * (double)full[1] * (double)full[2] * (double)full[3] / THREAD_COST;
    w->threads = rapti_threads_worth(context, worth);
}

/* Three tiles per thread; sums of tasks where a slice has several: a 64th of all elements. */
static rapt_status take_scratch(rapt_context *context, rapti_pass_gradient *w) {
    const int64_t lanes = w->plan.kernels->lanes;
    const int64_t parts = w->chunks > 1 ? w->slice_count * w->chunks : 0;
    int64_t bytes = 0, partial = 0;
    void *scratch = NULL;
    int too_large = __builtin_mul_overflow(w->p.keys, lanes, &w->tile_floats) ||
                    w->tile_floats > INT64_MAX / 64;
    w->sum_floats = w->sums_keys ? lanes : w->tile_floats;
    w->thread_floats = too_large ? 0 : rapti_round_up(3 * w->tile_floats + lanes, RAPTI_LINE);
    too_large |= __builtin_mul_overflow(w->thread_floats, (int64_t)w->threads, &bytes) ||
                 __builtin_mul_overflow(parts, w->sum_floats, &partial) ||
                 __builtin_add_overflow(bytes, partial, &bytes) ||
                 __builtin_mul_overflow(bytes, (int64_t)sizeof(float), &bytes);
    if (too_large) {
        return rapti_fail(context, RAPT_ERR_MEMORY, "scratch: %lld tiles of %lld keys",
                          (long long)(3 * w->threads + parts), (long long)w->p.keys);
    }
    const rapt_status status = rapti_context_scratch(context, NULL, 0, (size_t)bytes, &scratch);
    w->scratch = scratch;
    w->partial = status == RAPT_OK ? w->scratch + w->threads * w->thread_floats : NULL;
    return status;
}

rapt_status rapt_attention_softmax_backward(rapt_context *context, const rapt_attention *what,
                                            const rapt_attention_softmax_backward_operands *o) {
    rapti_pass_gradient w;
    rapt_status status = check(context, what, o, &w);
    if (status != RAPT_OK) { return status; }
    cut(context, o->dbias, &w);
    if (rapti_tensor_empty(o->dscores) && (!o->dbias || rapti_tensor_empty(o->dbias))) {
        return RAPT_OK;
    }
    status = take_scratch(context, &w);
    if (status != RAPT_OK) { return status; }
    rapti_parallel_run(w.threads, w.slice_count * w.chunks, rapti_pass_gradient_task, &w);
    if (w.dbias.data && w.chunks > 1) {
        rapti_parallel_run(w.threads, w.slice_count, rapti_pass_gradient_merge, &w);
    }
    return RAPT_OK;
}
