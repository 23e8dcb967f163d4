/* SPDX-License-Identifier: MIT
 * module_simple.c: section 3.3, self-attention without anything to train: scores x x^T, weights
 * softmax(scores), out = weights x, for one query or for all; and its gradient. */
#include "module.h"

#include "operand.h"
#include "walk.h"

/* The tensors of a call as [B, 1, Tq or T, ..]; data null and `has` 0 = not asked for. */
typedef struct simple {
    rapt_tensor x, query, scores, weights, out;
    int has_scores, has_weights, has_out;
} simple;

static rapt_status run_steps(rapti_steps *steps, const simple *s) {
    rapt_status status = RAPT_OK;
    if (s->has_scores) {
        const rapt_tensor keys = rapt_tensor_transpose(s->x);
        status =
            rapti_step_matmul(steps, &(rapt_matmul){0},
                              (rapt_matmul_operands){.a = &s->query, .b = &keys, .c = &s->scores});
    }
    if (status != RAPT_OK || !(s->has_weights || s->has_out)) { return status; }
    const rapt_attention what = {.scale = {1, 1.0f}};
    /* Without `out`, values of no features: attention then gives the weights alone. */
    const rapt_tensor values = s->has_out ? s->x : rapt_tensor_slice(s->x, 3, 0, 0);
    const rapt_tensor nothing = rapt_tensor_slice(s->query, 3, 0, 0);
    return rapti_step_attention(
        steps, &what,
        (rapt_attention_operands){.q = &s->query,
                                  .k = &s->x,
                                  .v = &values,
                                  .weights = s->has_weights ? &s->weights : NULL,
                                  .out = s->has_out ? &s->out : &nothing});
}

static rapt_status run(rapt_context *context, const simple *s) {
    rapti_steps steps = {.context = context, .counting = 1};
    rapti_arena arena = {0};
    rapt_status status = run_steps(&steps, s);
    if (status == RAPT_OK) { status = rapti_steps_begin(&steps, &arena); }
    return status == RAPT_OK ? run_steps(&steps, s) : status;
}

/* An optional output of the given sizes. */
static rapt_status check_output(rapt_context *context, const char *name, const rapt_tensor *t,
                                int32_t rank, const int64_t *size, const rapt_tensor *x) {
    if (!t) { return RAPT_OK; }
    rapt_status status = rapti_operand_check(context, name, t, RAPT_F32, 1, 3);
    if (status == RAPT_OK) { status = rapti_operand_sizes(context, name, t, rank, size); }
    if (status == RAPT_OK) { status = rapti_operand_written(context, name, t); }
    return status == RAPT_OK ? rapti_operand_apart(context, name, t, "x", x) : status;
}

static rapt_status check_apart(rapt_context *context, const rapt_tensor *scores,
                               const rapt_tensor *weights, const rapt_tensor *out) {
    rapt_status status = RAPT_OK;
    if (scores && weights) {
        status = rapti_operand_apart(context, "scores", scores, "weights", weights);
    }
    if (status == RAPT_OK && scores && out) {
        status = rapti_operand_apart(context, "scores", scores, "out", out);
    }
    if (status == RAPT_OK && weights && out) {
        status = rapti_operand_apart(context, "weights", weights, "out", out);
    }
    return status;
}

/* [d], [T, d] or [B, T, d] as [B, 1, T, d]. */
static rapt_tensor as_head(const rapt_tensor *t) {
    if (!t) { return (rapt_tensor){0}; }
    const rapt_tensor from = rapti_tensor_normal(t);
    rapt_tensor head = {.data = from.data, .dtype = from.dtype, .rank = 4, .size = {1, 1, 1, 1}};
    for (int32_t axis = from.rank - 1, to = 3; axis >= 0; axis--, to -= to == 2 ? 2 : 1) {
        head.size[to] = from.size[axis];
        head.stride[to] = from.stride[axis];
    }
    return head;
}

static simple describe(const rapt_tensor *x, const rapt_tensor *scores, const rapt_tensor *weights,
                       const rapt_tensor *out) {
    return (simple){.x = as_head(x),
                    .query = as_head(x),
                    .scores = as_head(scores),
                    .weights = as_head(weights),
                    .out = as_head(out),
                    .has_scores = scores != NULL,
                    .has_weights = weights != NULL,
                    .has_out = out != NULL};
}

rapt_status rapt_simple_attention_query(rapt_context *context, const rapt_tensor *x, int64_t query,
                                        const rapt_tensor *scores, const rapt_tensor *weights,
                                        const rapt_tensor *out) {
    rapt_status status = rapti_operand_context(context);
    if (status == RAPT_OK) { status = rapti_operand_check(context, "x", x, RAPT_F32, 2, 2); }
    if (status != RAPT_OK) { return status; }
    const int64_t tokens = x->size[0];
    if (query < 0 || query >= tokens) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "query: %lld, expected 0 .. %lld",
                          (long long)query, (long long)tokens - 1);
    }
    status = check_output(context, "scores", scores, 1, x->size, x);
    if (status == RAPT_OK) { status = check_output(context, "weights", weights, 1, x->size, x); }
    if (status == RAPT_OK) { status = check_output(context, "out", out, 1, x->size + 1, x); }
    if (status == RAPT_OK) { status = check_apart(context, scores, weights, out); }
    if (status != RAPT_OK) { return status; }
    simple s = describe(x, scores, weights, out);
    s.query = rapt_tensor_slice(s.x, 2, query, 1);
    return run(context, &s);
}

rapt_status rapt_simple_attention(rapt_context *context, const rapt_tensor *x,
                                  const rapt_tensor *scores, const rapt_tensor *weights,
                                  const rapt_tensor *out) {
    rapt_status status = rapti_operand_context(context);
    if (status == RAPT_OK) { status = rapti_operand_check(context, "x", x, RAPT_F32, 2, 3); }
    if (status != RAPT_OK) { return status; }
    const int32_t rank = x->rank;
    const int64_t tokens = x->size[rank - 2];
    const int64_t square[3] = {x->size[0], tokens, tokens}; /* [B,] T, T */
    const int64_t *size = square + 3 - rank;
    status = check_output(context, "scores", scores, rank, size, x);
    if (status == RAPT_OK) { status = check_output(context, "weights", weights, rank, size, x); }
    if (status == RAPT_OK) { status = check_output(context, "out", out, rank, x->size, x); }
    if (status == RAPT_OK) { status = check_apart(context, scores, weights, out); }
    if (status != RAPT_OK) { return status; }
    const simple s = describe(x, scores, weights, out);
    return run(context, &s);
}

/* ---- Backward: x is query, key and value at once, so its gradient is the sum of theirs. ---- */

typedef struct simple_backward {
    rapt_tensor x, dout, dx;      /* [B, 1, T, d] */
    rapt_tensor out, lse, dk, dv; /* scratch: forward computed again, two of the gradients */
} simple_backward;

static void lay_out_backward(simple_backward *s, rapti_arena *arena) {
    s->out = rapti_arena_tensor(arena, RAPT_F32, 4, s->x.size, RAPTI_ALIGNMENT);
    s->lse = rapti_arena_tensor(arena, RAPT_F32, 3, s->x.size, RAPTI_ALIGNMENT);
    s->dk = rapti_arena_tensor(arena, RAPT_F32, 4, s->x.size, RAPTI_ALIGNMENT);
    s->dv = rapti_arena_tensor(arena, RAPT_F32, 4, s->x.size, RAPTI_ALIGNMENT);
}

static rapt_status run_backward_steps(rapti_steps *steps, const simple_backward *s,
                                      int32_t accumulate) {
    const rapt_attention what = {.scale = {1, 1.0f}};
    const rapt_status status = rapti_step_attention(
        steps, &what,
        (rapt_attention_operands){
            .q = &s->x, .k = &s->x, .v = &s->x, .out = &s->out, .lse = &s->lse});
    if (status != RAPT_OK) { return status; }
    rapt_attention_backward_operands operands = {.q = &s->x,
                                                 .k = &s->x,
                                                 .v = &s->x,
                                                 .out = &s->out,
                                                 .lse = &s->lse,
                                                 .dout = &s->dout,
                                                 .dk = &s->dk,
                                                 .dv = &s->dv};
    const rapt_status both = rapti_step_attention_backward(steps, &what, operands);
    if (both != RAPT_OK) { return both; }
    operands.dk = operands.dv = NULL;
    operands.dq = &s->dx;
    operands.accumulate = accumulate;
    return rapti_step_attention_backward(steps, &what, operands);
}

/* to += a + b */
static void add(const rapt_tensor *to, const rapt_tensor *a, const rapt_tensor *b) {
    const int64_t count = rapti_walk_count(to, to->rank);
    if (count == 0) { return; }
    rapti_walk at = rapti_walk_start(to, to->rank, 0);
    for (int64_t n = 0; n < count; n++, rapti_walk_next(&at)) {
        ((float *)to->data)[at.offset] += ((const float *)a->data)[n] + ((const float *)b->data)[n];
    }
}

rapt_status rapt_simple_attention_backward(rapt_context *context, const rapt_tensor *x,
                                           const rapt_tensor *dout, const rapt_tensor *dx,
                                           int32_t accumulate) {
    rapt_status status = rapti_operand_context(context);
    if (status == RAPT_OK) { status = rapti_operand_check(context, "x", x, RAPT_F32, 2, 3); }
    if (status == RAPT_OK) { status = rapti_operand_check(context, "dout", dout, RAPT_F32, 2, 3); }
    if (status == RAPT_OK) {
        status = rapti_operand_sizes(context, "dout", dout, x->rank, x->size);
    }
    if (status == RAPT_OK && !dx) {
        status = rapti_fail(context, RAPT_ERR_ARGUMENT, "dx: null pointer");
    }
    if (status == RAPT_OK) { status = check_output(context, "dx", dx, x->rank, x->size, x); }
    if (status == RAPT_OK) { status = rapti_operand_apart(context, "dx", dx, "dout", dout); }
    if (status == RAPT_OK) { status = rapti_flag_check(context, "accumulate", accumulate); }
    if (status != RAPT_OK) { return status; }
    simple_backward s = {.x = as_head(x), .dout = as_head(dout), .dx = as_head(dx)};
    rapti_steps steps = {.context = context, .counting = 1};
    rapti_arena arena = {0};
    lay_out_backward(&s, &arena);
    if (!arena.too_large) { status = run_backward_steps(&steps, &s, accumulate); }
    if (status == RAPT_OK) { status = rapti_steps_begin(&steps, &arena); }
    if (status != RAPT_OK) { return status; }
    lay_out_backward(&s, &arena);
    status = run_backward_steps(&steps, &s, accumulate);
    if (status == RAPT_OK) { add(&s.dx, &s.dk, &s.dv); }
    return status;
}
