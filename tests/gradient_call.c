/* SPDX-License-Identifier: MIT
 * gradient_call.c: see gradient_call.h. */
#include "gradient_call.h"

#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char *const call_names[TENSORS] = {"a", "b", "dc", "da", "db", "dbias"};

void call_free(call *c) { guarded_free(c->g, TENSORS); }

void call_place(call *c, int id, layout l, int32_t rank, const int64_t *size) {
    guarded_place(&c->g[id], call_names[id], id >= DA, l, c->side, RAPT_F32, rank, size);
}

rapt_matmul_backward_operands call_operands(const call *c) {
    return (rapt_matmul_backward_operands){.a = guarded_tensor(&c->g[A]),
                                           .b = guarded_tensor(&c->g[B]),
                                           .dc = guarded_tensor(&c->g[DC]),
                                           .da = guarded_tensor(&c->g[DA]),
                                           .db = guarded_tensor(&c->g[DB]),
                                           .dbias = guarded_tensor(&c->g[DBIAS]),
                                           .accumulate = c->accumulate};
}

/* Gradients of parameters are always added to. */
static bool accumulates(const call *c, int id) { return c->accumulate || (c->linear && id != DA); }

rapt_linear call_layer(const call *c, int weight, int bias) {
    rapt_linear linear = {.weight = rapt_tensor_transpose(c->g[weight].t)};
    if (bias) { linear.bias = c->g[bias].t; }
    return linear;
}

static rapt_status run_linear(const call *c, rapt_context *context) {
    const rapt_linear linear = call_layer(c, B, 0);
    const bool trained = c->g[DB].t.rank > 0;
    const rapt_linear gradients = trained ? call_layer(c, DB, DBIAS) : (rapt_linear){0};
    return rapt_linear_backward(context, &linear, &c->g[A].t, &c->g[DC].t,
                                guarded_tensor(&c->g[DA]), c->accumulate,
                                trained ? &gradients : NULL);
}

/* ---- Oracle ---- */

sums sums_make(int64_t count) {
    const size_t n = (size_t)count + 1;
    const sums s = {calloc(n, sizeof(double)), calloc(n, sizeof(double)),
                    calloc(n, sizeof(double))};
    REQUIRE(s.value && s.magnitude && s.terms, "out of memory");
    return s;
}

void sums_free(sums *s) {
    free(s->value);
    free(s->magnitude);
    free(s->terms);
}

static void sums_add(sums *s, int64_t at, double term) {
    s->value[at] += term;
    s->magnitude[at] += fabs(term);
    s->terms[at] += 1;
}

/* Row-major number of the matrix of `t` that belongs to the leading index at `w` (of dc), and its
 * distance in memory. */
static int64_t matrix_of(const rapt_tensor *t, const walk *w, int64_t *offset) {
    int64_t number = 0;
    *offset = 0;
    for (int32_t axis = 0; axis < t->rank - 2; axis++) {
        const int64_t index = t->size[axis] == 1 ? 0 : w->index[axis + w->t->rank - t->rank];
        number = number * t->size[axis] + index;
        *offset += index * t->stride[axis];
    }
    return number;
}

/* Every product of the formulas, one element of dc after the other. */
void call_sums(const call *c, sums want[TENSORS]) {
    const rapt_tensor *a = &c->g[A].t, *b = &c->g[B].t, *dc = &c->g[DC].t;
    const int64_t m = dc->size[dc->rank - 2], n = dc->size[dc->rank - 1];
    const int64_t inner = a->size[a->rank - 1];
    for (walk w = walk_begin(dc); !w.done; walk_next(&w)) {
        const int64_t i = w.index[dc->rank - 2], j = w.index[dc->rank - 1];
        const double d = (double)*walk_f32(&w);
        int64_t a_at, b_at;
        const int64_t a_matrix = matrix_of(a, &w, &a_at), b_matrix = matrix_of(b, &w, &b_at);
        for (int64_t k = 0; k < inner; k++) {
            const float *x = (const float *)a->data + a_at + i * a->stride[a->rank - 2] +
                             k * a->stride[a->rank - 1];
            const float *y = (const float *)b->data + b_at + k * b->stride[b->rank - 2] +
                             j * b->stride[b->rank - 1];
            sums_add(&want[DA], (a_matrix * m + i) * inner + k, d * (double)*y);
            sums_add(&want[DB], (b_matrix * inner + k) * n + j, d * (double)*x);
        }
        sums_add(&want[DBIAS], j, d);
    }
}

/* Roundings on the way to an element: two per term of an unfused sum; up to three more where the
 * sum over the batch is made of products that add to the ones before (at most one per term); alpha
 * and the old value a few. Each is off by half a unit in the last place of a partial sum, which the
 * sum of all absolute terms bounds; or, below the normal range, by 2^-150. */
static double tolerance(double terms, double magnitude, double alpha) {
    return 1.01 * (5.02 * terms + 16) * (0x1p-24 * magnitude + 0x1p-150 * (1 + fabs(alpha)));
}

static sums expect_one(const call *c, int id, sums *s) {
    const rapt_tensor *t = &c->g[id].t;
    const double alpha = id != DBIAS && c->what.alpha.on ? (double)c->what.alpha.value : 1.0;
    int64_t n = 0;
    for (walk w = walk_begin(t); t->rank && !w.done; walk_next(&w), n++) {
        const double old = accumulates(c, id) ? (double)*walk_f32(&w) : 0.0;
        s->value[n] = alpha * s->value[n] + old;
        s->magnitude[n] = fabs(alpha) * s->magnitude[n] + fabs(old);
        s->magnitude[n] = tolerance(s->terms[n], s->magnitude[n], alpha);
    }
    return *s;
}

/* ---- Run ---- */

bool call_run(call *c, rapt_status *status, char *why, size_t why_bytes) {
    rapt_context *context = harness_context(c->threads ? c->threads : 1);
    rapt_matmul_backward_operands o = call_operands(c);
    guard_block scratch = {0};
    int64_t bytes = 0;
    for (int id = DA; id < TENSORS; id++) {
        if (!accumulates(c, id)) { guarded_set(&c->g[id], NAN); }
    }
    guarded_seal(c->g, TENSORS);
    if (c->caller_scratch &&
        rapt_matmul_backward_scratch(context, &c->what, &o, &bytes) == RAPT_OK) {
        scratch = guard_take((size_t)bytes, 64, GUARD_AFTER, 0xff);
        o.scratch = scratch.data;
        o.scratch_bytes = (size_t)bytes;
    }
    *status = c->linear ? run_linear(c, context) : rapt_matmul_backward(context, &c->what, &o);
    guard_return(&scratch);
    return guarded_intact(c->g, TENSORS, *status != RAPT_OK, why, why_bytes);
}

bool call_try(call *c, char *why, size_t why_bytes) {
    sums want[TENSORS];
    for (int id = 0; id < TENSORS; id++) {
        const int from = id == DA ? A : id == DB ? B : id;
        want[id] = sums_make(id == DBIAS ? c->g[DC].t.size[c->g[DC].t.rank - 1]
                                         : guarded_count(&c->g[from].t));
    }
    call_sums(c, want);
    for (int id = DA; id < TENSORS; id++) { expect_one(c, id, &want[id]); }
    rapt_status status = RAPT_OK;
    bool good = call_run(c, &status, why, why_bytes);
    if (good && status != RAPT_OK) {
        snprintf(why, why_bytes, "%s: %s", rapt_status_name(status),
                 rapt_context_message(harness_context(c->threads ? c->threads : 1)));
        good = false;
    }
    for (int id = DA; id < TENSORS && good; id++) {
        if (!c->g[id].t.rank) { continue; }
        good = guarded_matches(&c->g[id], want[id].value, want[id].magnitude, why, why_bytes);
    }
    for (int id = 0; id < TENSORS; id++) { sums_free(&want[id]); }
    return good;
}

/* ---- Make ---- */

/* a [2,3,4], b [4,5], dc [2,3,5] and all gradients. */
void call_small(call *c) {
    *c = (call){.threads = 1};
    rng r = rng_make(8, 8);
    call_place(c, A, LAYOUT_DENSE, 3, (int64_t[]){2, 3, 4});
    call_place(c, B, LAYOUT_DENSE, 2, (int64_t[]){4, 5});
    call_place(c, DC, LAYOUT_DENSE, 3, (int64_t[]){2, 3, 5});
    call_place(c, DA, LAYOUT_DENSE, 3, (int64_t[]){2, 3, 4});
    call_place(c, DB, LAYOUT_DENSE, 2, (int64_t[]){4, 5});
    call_place(c, DBIAS, LAYOUT_DENSE, 1, (int64_t[]){5});
    for (int id = 0; id < TENSORS; id++) { guarded_fill(&c->g[id], &r); }
}

int64_t call_draw_size(rng *r) {
    static const int64_t edges[] = {4, 5, 8, 15, 16, 32, 48, 64};
    if (rng_chance(r, 70)) { return rng_range(r, 0, 20); }
    const int64_t edge = edges[rng_range(r, 0, 7)] * rng_range(r, 1, 2);
    return edge + rng_range(r, -1, 1);
}

layout call_draw_layout(rng *r, layout past) {
    return rng_chance(r, 50) ? LAYOUT_DENSE : (layout)rng_range(r, 0, past - 1);
}
