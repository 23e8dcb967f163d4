/* SPDX-License-Identifier: MIT
 * softmax.c: the public softmax calls: checks, then the way that suits the layout. All ways give
 * the same bits (simd/softmax_rows.h), so a row does not depend on the rows around it. */
#include "softmax_call.h"

#include "operand.h"
#include "walk.h"

static rapt_status check(rapt_context *context, const rapt_tensor *in, const rapt_tensor *out) {
    rapt_status status = rapti_operand_context(context);
    if (status != RAPT_OK) { return status; }
    status = rapti_operand_check(context, "in", in, RAPT_F32, 1, RAPT_MAX_RANK);
    if (status != RAPT_OK) { return status; }
    status = rapti_operand_check(context, "out", out, RAPT_F32, 1, RAPT_MAX_RANK);
    if (status == RAPT_OK) {
        status = rapti_operand_sizes(context, "out", out, in->rank, in->size);
    }
    if (status == RAPT_OK) { status = rapti_operand_written(context, "out", out); }
    if (status == RAPT_OK && !rapti_tensors_equal(in, out)) {
        status = rapti_operand_apart(context, "out", out, "in", in);
    }
    return status;
}

/* Moves an axis of both tensors to position `to`, keeping the others in order. */
static void move_axis(rapti_softmax *s, int32_t axis, int32_t to) {
    for (; axis < to; axis++) {
        s->in = rapt_tensor_swap_axes(s->in, axis, axis + 1);
        s->out = rapt_tensor_swap_axes(s->out, axis, axis + 1);
    }
}

rapti_softmax rapti_softmax_make(const rapt_context *context, const rapt_tensor *in,
                                 const rapt_tensor *out, int32_t axis) {
    rapti_softmax s = {.kernels = context->kernels, .in = rapti_tensor_normal(in)};
    s.out = out ? rapti_tensor_normal(out) : s.in;
    move_axis(&s, axis, in->rank - 1);
    s.rows = rapti_walk_count(&s.in, in->rank - 1);
    s.size = s.in.size[in->rank - 1];
    return s;
}

int32_t rapti_softmax_threads(const rapt_context *context, double elements) {
    const double per_thread = 32768.0; /* some 15 us */
    return rapti_threads_worth(context, elements / per_thread);
}

/* Where rows are not contiguous, but lie side by side: an axis of stride 1, long enough for the
 * lanes, is moved to the second last place. */
static int beside_each_other(rapti_softmax *s) {
    const int32_t last = s->in.rank - 1;
    if (s->size < 2 || (s->in.stride[last] == 1 && s->out.stride[last] == 1)) { return 0; }
    for (int32_t axis = 0; axis < last; axis++) {
        if (s->in.stride[axis] == 1 && s->out.stride[axis] == 1 &&
            2 * s->in.size[axis] > s->kernels->lanes) {
            move_axis(s, axis, last - 1);
            return 1;
        }
    }
    return 0;
}

rapt_status rapt_softmax_axis(rapt_context *context, const rapt_tensor *in, int32_t axis,
                              const rapt_tensor *out) {
    const rapt_status status = check(context, in, out);
    if (status != RAPT_OK) { return status; }
    if (axis < -in->rank || axis >= in->rank) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "axis: %d, expected %d .. %d", axis,
                          -in->rank, in->rank - 1);
    }
    rapti_softmax s = rapti_softmax_make(context, in, out, axis < 0 ? axis + in->rank : axis);
    if (s.rows == 0 || s.size == 0) { return RAPT_OK; }
    if (beside_each_other(&s)) { return rapti_softmax_run_columns(context, &s); }
    if (s.size > RAPTI_SOFTMAX_LONG) { return rapti_softmax_run_chunks(context, &s); }
    return rapti_softmax_run_rows(context, &s);
}

rapt_status rapt_softmax(rapt_context *context, const rapt_tensor *in, const rapt_tensor *out) {
    return rapt_softmax_axis(context, in, -1, out);
}

/* ---- Without the maximum ---- */

enum { PIECE = 256 };

/* The formula as it stands, with the division that overflow and underflow need to show. */
static void naive_row(const rapti_softmax *s, const float *in, float *out, float *scratch) {
    (void)scratch;
    const int32_t last = s->in.rank - 1;
    const int64_t in_step = s->in.stride[last], out_step = s->out.stride[last];
    float sum = 0.0f;
    for (int64_t from = 0; from < s->size; from += PIECE) {
        const int64_t n = s->size - from < PIECE ? s->size - from : PIECE;
        float x[PIECE], e[PIECE], part = 0.0f;
        rapti_softmax_gather(in + from * in_step, in_step, n, x);
        s->kernels->exp_any(x, e, n);
        for (int64_t i = 0; i < n; i++) { part += e[i]; }
        sum += part;
        rapti_softmax_scatter(e, n, out + from * out_step, out_step);
    }
    for (int64_t i = 0; i < s->size; i++) { out[i * out_step] /= sum; }
}

rapt_status rapt_softmax_naive(rapt_context *context, const rapt_tensor *in,
                               const rapt_tensor *out) {
    const rapt_status status = check(context, in, out);
    if (status != RAPT_OK) { return status; }
    const rapti_softmax s = rapti_softmax_make(context, in, out, in->rank - 1);
    return s.size == 0 ? RAPT_OK : rapti_softmax_each_row(context, &s, naive_row, 0);
}

/* ---- ln sum exp ---- */

static void lse_row(const rapti_softmax *s, const float *in, float *out, float *scratch) {
    const int64_t step = s->in.stride[s->in.rank - 1];
    if (step != 1) {
        rapti_softmax_gather(in, step, s->size, scratch);
        in = scratch;
    }
    const float max = s->kernels->row_max(in, s->size);
    *out = rapti_softmax_lse(max, s->kernels->row_sum_exp(in, s->size, max));
}

rapt_status rapt_log_sum_exp(rapt_context *context, const rapt_tensor *in, const rapt_tensor *out) {
    rapt_status status = rapti_operand_context(context);
    if (status != RAPT_OK) { return status; }
    status = rapti_operand_check(context, "in", in, RAPT_F32, 1, RAPT_MAX_RANK);
    if (status != RAPT_OK) { return status; }
    status = rapti_operand_check(context, "out", out, RAPT_F32, 0, RAPT_MAX_RANK);
    if (status == RAPT_OK) {
        status = rapti_operand_sizes(context, "out", out, in->rank - 1, in->size);
    }
    if (status == RAPT_OK) { status = rapti_operand_written(context, "out", out); }
    if (status == RAPT_OK) { status = rapti_operand_apart(context, "out", out, "in", in); }
    if (status != RAPT_OK) { return status; }
    rapti_softmax s = rapti_softmax_make(context, in, NULL, in->rank - 1);
    s.out = rapti_tensor_normal(out);
    if (s.size > RAPTI_SOFTMAX_LONG) { return rapti_softmax_lse_chunks(context, &s); }
    const int contiguous = s.in.stride[in->rank - 1] == 1;
    return rapti_softmax_each_row(context, &s, lse_row, contiguous ? 0 : s.size);
}
