/* SPDX-License-Identifier: MIT
 * softmax_masking.c: the two masking routes step by step, and the check of row sums. Plain C: these
 * serve to look at weights, not to compute attention fast (the fused pass does that). Sums are in
 * double precision, so that they measure the weights and not themselves. */
#include "operand.h"
#include "parallel.h"
#include "softmax_call.h"
#include "walk.h"

#include <math.h>

enum { SUMS = 8 };

/* The sum in double precision; *zero: whether all elements are 0. */
static double row_sum(const float *x, int64_t step, int64_t n, int *zero) {
    double sum[SUMS] = {0.0}, magnitude[SUMS] = {0.0};
    int64_t i = 0;
    for (; i + SUMS <= n; i += SUMS) {
        for (int j = 0; j < SUMS; j++) {
            const double term = (double)x[(i + j) * step];
            sum[j] += term;
            magnitude[j] += fabs(term);
        }
    }
    for (; i < n; i++) {
        sum[0] += (double)x[i * step];
        magnitude[0] += fabs((double)x[i * step]);
    }
    for (int j = 1; j < SUMS; j++) {
        sum[0] += sum[j];
        magnitude[0] += magnitude[j];
    }
    *zero = magnitude[0] == 0.0;
    return sum[0];
}

rapt_status rapt_row_sum_error(rapt_context *context, const rapt_tensor *in, double *worst) {
    rapt_status status = rapti_operand_context(context);
    if (status != RAPT_OK) { return status; }
    status = rapti_operand_check(context, "in", in, RAPT_F32, 1, RAPT_MAX_RANK);
    if (status == RAPT_OK && !worst) {
        status = rapti_fail(context, RAPT_ERR_ARGUMENT, "worst: null pointer");
    }
    if (status != RAPT_OK) { return status; }
    const rapti_softmax s = rapti_softmax_make(context, in, NULL, in->rank - 1);
    *worst = 0.0;
    if (s.rows == 0 || s.size == 0) { return RAPT_OK; }
    rapti_walk w = rapti_walk_start(&s.in, in->rank - 1, 0);
    for (int64_t row = 0; row < s.rows; row++, rapti_walk_next(&w)) {
        int zero;
        const double error = fabs(
            row_sum((const float *)s.in.data + w.offset, s.in.stride[in->rank - 1], s.size, &zero) -
            1.0);
        if (!zero && !(error <= *worst) && !isnan(*worst)) { *worst = error; }
    }
    return RAPT_OK;
}

static rapt_status check_weights(rapt_context *context, const rapt_tensor *t, int32_t min_rank) {
    rapt_status status = rapti_operand_context(context);
    if (status != RAPT_OK) { return status; }
    status = rapti_operand_check(context, "in_out", t, RAPT_F32, min_rank, RAPT_MAX_RANK);
    return status == RAPT_OK ? rapti_operand_written(context, "in_out", t) : status;
}

static void normalise_row(const rapti_softmax *s, const float *in, float *out, float *scratch) {
    (void)scratch;
    int zero;
    const int64_t step = s->in.stride[s->in.rank - 1];
    const double sum = row_sum(in, step, s->size, &zero);
    const double inverse = 1.0 / sum;
    for (int64_t j = 0; j < s->size; j++) {
        out[j * step] = sum == 0.0 ? 0.0f : (float)((double)in[j * step] * inverse);
    }
}

rapt_status rapt_normalise_rows(rapt_context *context, const rapt_tensor *in_out) {
    const rapt_status status = check_weights(context, in_out, 1);
    if (status != RAPT_OK) { return status; }
    const rapti_softmax s = rapti_softmax_make(context, in_out, in_out, in_out->rank - 1);
    return s.size == 0 ? RAPT_OK : rapti_softmax_each_row(context, &s, normalise_row, 0);
}

/* ---- Causal order ---- */

typedef struct fill_call {
    const rapti_softmax *s;
    int64_t shift; /* position(i) = i + shift */
    float value;
} fill_call;

static void fill_row(void *argument, int64_t row, int32_t thread) {
    (void)thread;
    const fill_call *call = argument;
    const rapt_tensor *t = &call->s->in;
    const int32_t axes = t->rank - 1;
    const rapti_walk w = rapti_walk_start(t, axes, row);
    const int64_t step = t->stride[axes], visible = w.index[axes - 1] + call->shift + 1;
    float *x = (float *)t->data + w.offset;
    for (int64_t j = visible > 0 ? visible : 0; j < call->s->size; j++) {
        x[j * step] = call->value;
    }
}

rapt_status rapt_mask_fill(rapt_context *context, rapt_causal causal, float value,
                           const rapt_tensor *in_out) {
    const rapt_status status = check_weights(context, in_out, 2);
    if (status != RAPT_OK) { return status; }
    if ((int)causal < RAPT_CAUSAL_NONE || (int)causal > RAPT_CAUSAL_BOTTOM_RIGHT) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "causal: unknown value %d", (int)causal);
    }
    const rapti_softmax s = rapti_softmax_make(context, in_out, in_out, in_out->rank - 1);
    if (causal == RAPT_CAUSAL_NONE || s.size == 0) { return RAPT_OK; }
    fill_call call = {.s = &s, .value = value};
    if (causal == RAPT_CAUSAL_BOTTOM_RIGHT) {
        call.shift = s.size - in_out->size[in_out->rank - 2];
    }
    const int32_t threads = rapti_softmax_threads(context, (double)s.rows * (double)s.size / 8.0);
    rapti_parallel_run(threads, s.rows, fill_row, &call);
    return RAPT_OK;
}
