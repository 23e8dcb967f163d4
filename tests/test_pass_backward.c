/* SPDX-License-Identifier: MIT
 * test_pass_backward.c: the gradient of the pass over scores (rapt_attention_softmax_backward)
 * against the formula in double precision, which central differences check in turn.
 *
 *   RAPT_TEST_CASES   number of random cases
 *   RAPT_TEST_SEED    seed of the first one; the others follow by adding 1 */
#include "compare.h"
#include "counter.h"
#include "guarded.h"
#include "harness.h"
#include "message.h"
#include "oracle_dropout.h"

#include <criterion/criterion.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define U 0x1p-24

static char why[512];

enum { WEIGHTS, KEEP, DWEIGHTS, DLSE, DSCORES, DBIAS, TENSORS };
static const char *const names[TENSORS] = {"weights", "keep",    "dweights",
                                           "dlse",    "dscores", "dbias"};

typedef struct call {
    guarded g[TENSORS];
    rapt_attention what;
    int32_t accumulate, threads;
    bool in_place; /* dscores is dweights */
} call;

static void call_free(call *c) { guarded_free(c->g, TENSORS); }

static void place(call *c, int id, layout l, guard_side side, int32_t rank, const int64_t *size) {
    guarded_place(&c->g[id], names[id], id >= DSCORES, l, side, id == KEEP ? RAPT_BOOL : RAPT_F32,
                  rank, size);
}

static const rapt_tensor *dscores_of(const call *c) {
    return &c->g[c->in_place ? DWEIGHTS : DSCORES].t;
}

static rapt_status run(const call *c) {
    const rapt_attention_softmax_backward_operands o = {.weights = &c->g[WEIGHTS].t,
                                                        .keep = guarded_tensor(&c->g[KEEP]),
                                                        .dweights = &c->g[DWEIGHTS].t,
                                                        .dlse = guarded_tensor(&c->g[DLSE]),
                                                        .dscores = dscores_of(c),
                                                        .dbias = guarded_tensor(&c->g[DBIAS]),
                                                        .accumulate = c->accumulate};
    return rapt_attention_softmax_backward(harness_context(c->threads ? c->threads : 1), &c->what,
                                           &o);
}

/* ---- Oracle ---- */

typedef struct truth {
    double *scores, *scores_tol; /* row-major */
    double *bias, *bias_tol;
} truth;

static truth truth_make(const call *c) {
    const size_t n = (size_t)guarded_count(&c->g[WEIGHTS].t) + 1;
    const size_t m = c->g[DBIAS].t.rank ? (size_t)guarded_count(&c->g[DBIAS].t) + 1 : 1;
    const truth t = {calloc(n, sizeof(double)), calloc(n, sizeof(double)),
                     calloc(m, sizeof(double)), calloc(m, sizeof(double))};
    REQUIRE(t.scores && t.scores_tol && t.bias && t.bias_tol, "out of memory");
    return t;
}

static void truth_free(truth *t) {
    free(t->scores);
    free(t->scores_tol);
    free(t->bias);
    free(t->bias_tol);
}

/* Row-major number of dbias's element for [b, h, i, j]. */
static int64_t bias_element(const rapt_tensor *t, const int64_t index[4]) {
    int64_t at = 0;
    for (int32_t axis = 0; axis < t->rank; axis++) {
        at = at * t->size[axis] + (t->size[axis] == 1 ? 0 : index[axis + 4 - t->rank]);
    }
    return at;
}

static double kept(const call *c, const int64_t index[4]) {
    return oracle_drops(&c->what)
               ? oracle_kept(&c->what, guarded_tensor(&c->g[KEEP]), c->g[WEIGHTS].t.size[1],
                             index[0], index[1], index[2], index[3])
               : 1.0;
}

/* One row. The sum's terms are rounded twice and added one after the other (at most n times); then
 * the factor 1 / (1 - p) with its own rounding, dlse, the difference, the product and the scale. */
static void expect_row(const call *c, int64_t index[4], truth *t, int64_t *at) {
    const rapt_tensor *w = &c->g[WEIGHTS].t, *d = &c->g[DWEIGHTS].t, *l = &c->g[DLSE].t,
                      *bias = &c->g[DBIAS].t;
    const int64_t n = w->size[3];
    const double scale = c->what.scale.on ? (double)c->what.scale.value : 1.0;
    double dot = 0, magnitude = 0;
    for (index[3] = 0; index[3] < n; index[3]++) {
        const double p = (double)*tensor_f32(w, index[0], index[1], index[2], index[3]);
        const double z = kept(c, index);
        if (p == 0 || z == 0) { continue; }
        const double term = z * p * (double)*tensor_f32(d, index[0], index[1], index[2], index[3]);
        dot += term;
        magnitude += fabs(term);
    }
    const double dlse =
        l->rank
            ? (double)((const float *)l->data)[index[0] * l->stride[0] + index[1] * l->stride[1] +
                                               index[2] * l->stride[2]]
            : 0.0;
    for (index[3] = 0; index[3] < n; index[3]++, ++*at) {
        const double p = (double)*tensor_f32(w, index[0], index[1], index[2], index[3]);
        const double z = kept(c, index);
        const double g =
            z == 0 ? 0 : z * (double)*tensor_f32(d, index[0], index[1], index[2], index[3]);
        const double ds = p == 0 ? 0 : p * (g - dot + dlse);
        const double tol =
            p == 0
                ? 0
                : 1.01 * U * fabs(p) * (((double)n + 8) * magnitude + 5 * fabs(g) + 4 * fabs(dlse));
        t->scores[*at] = p == 0 ? 0 : scale * ds;
        t->scores_tol[*at] = fabs(scale) * tol + 2 * U * fabs(scale * ds) + 0x1p-147;
        if (!bias->rank) { continue; }
        const int64_t to = bias_element(bias, index);
        t->bias[to] += ds;
        t->bias_tol[to] += tol + 0x1p-147;
    }
}

/* Errors of the sum itself: as many additions as there are terms, each off by half a unit of a
 * partial sum, which the sum of |ds| bounds; that is summed here by the first loop's values. */
static void expect(const call *c, truth *t) {
    const rapt_tensor *w = &c->g[WEIGHTS].t, *bias = &c->g[DBIAS].t;
    int64_t index[4], at = 0;
    for (index[0] = 0; index[0] < w->size[0]; index[0]++) {
        for (index[1] = 0; index[1] < w->size[1]; index[1]++) {
            for (index[2] = 0; index[2] < w->size[2]; index[2]++) { expect_row(c, index, t, &at); }
        }
    }
    const double scale = c->what.scale.on ? (double)c->what.scale.value : 1.0;
    const int64_t elements = bias->rank ? guarded_count(bias) : 0;
    const double terms = elements ? (double)guarded_count(w) / (double)elements + 4 : 0;
    int64_t n = 0;
    for (walk x = walk_begin(w); elements && scale != 0 && !x.done; walk_next(&x), n++) {
        t->bias_tol[bias_element(bias, x.index)] += terms * U * fabs(t->scores[n] / scale);
    }
    n = 0;
    const rapt_tensor *s = dscores_of(c);
    for (walk x = walk_begin(s); c->accumulate && !x.done; walk_next(&x), n++) {
        t->scores[n] += (double)*walk_f32(&x);
        t->scores_tol[n] += U * fabs(t->scores[n]) * 1.01;
    }
    n = 0;
    for (walk x = walk_begin(bias); bias->rank && c->accumulate && !x.done; walk_next(&x), n++) {
        t->bias[n] += (double)*walk_f32(&x);
        t->bias_tol[n] += U * fabs(t->bias[n]) * 1.01;
    }
}

static bool try(call *c) {
    truth t = truth_make(c);
    if (!c->accumulate) {
        if (!c->in_place) { guarded_set(&c->g[DSCORES], NAN); }
        guarded_set(&c->g[DBIAS], NAN);
    }
    expect(c, &t);
    c->g[DWEIGHTS].output = c->in_place;
    guarded_seal(c->g, TENSORS);
    const rapt_status status = run(c);
    bool good = guarded_intact(c->g, TENSORS, status != RAPT_OK, why, sizeof why);
    if (good && status != RAPT_OK) {
        snprintf(why, sizeof why, "%s: %s", rapt_status_name(status),
                 rapt_context_message(harness_context(c->threads ? c->threads : 1)));
        good = false;
    }
    good = good && guarded_matches(&c->g[c->in_place ? DWEIGHTS : DSCORES], t.scores, t.scores_tol,
                                   why, sizeof why);
    if (good && c->g[DBIAS].t.rank) {
        good = guarded_matches(&c->g[DBIAS], t.bias, t.bias_tol, why, sizeof why);
    }
    truth_free(&t);
    return good;
}

/* ---- Random cases ---- */

static void broadcast_size(rng *r, const int64_t full[4], int32_t *rank, int64_t size[4]) {
    *rank = (int32_t)rng_range(r, 1, 4);
    for (int32_t axis = 0; axis < *rank; axis++) {
        size[axis] = rng_chance(r, 50) ? full[axis + 4 - *rank] : 1;
    }
}

/* Weights: some rows and many elements are 0; what stands behind those is poison now and then. */
static void fill(call *c, rng *r) {
    for (int id = 0; id < TENSORS; id++) { guarded_fill(&c->g[id], r); }
    const int zeros = (int)rng_range(r, 0, 3) * 25;
    const float poison = rng_chance(r, 20) ? NAN : 1.0f;
    const rapt_tensor *d = &c->g[DWEIGHTS].t;
    for (walk w = walk_begin(&c->g[WEIGHTS].t); !w.done; walk_next(&w)) {
        *walk_f32(&w) = rng_chance(r, zeros) ? 0.0f : (float)rng_uniform(r, 0.0, 0.5);
    }
    int64_t shared = 0; /* stride 0: one element is behind several weights */
    for (int32_t axis = 0; axis < 4; axis++) {
        shared += d->size[axis] > 1 && d->stride[axis] == 0;
    }
    for (walk w = walk_begin(&c->g[WEIGHTS].t); !shared && !w.done; walk_next(&w)) {
        if (*walk_f32(&w) != 0.0f) { continue; }
        *tensor_f32(d, w.index[0], w.index[1], w.index[2], w.index[3]) = poison;
    }
}

static void draw(call *c, uint64_t seed) {
    rng r = rng_make(seed, 37);
    *c = (call){.accumulate = rng_chance(&r, 30)};
    const bool tall = rng_chance(&r, 4); /* more units than a task sums */
    const int64_t full[4] = {
        rng_range(&r, rng_chance(&r, 3) ? 0 : 1, 3), rng_range(&r, 1, 4),
        tall ? rng_range(&r, 300, 1100) : rng_range(&r, rng_chance(&r, 3) ? 0 : 1, 40),
        tall ? rng_range(&r, 1, 5) : rng_range(&r, rng_chance(&r, 3) ? 0 : 1, 60)};
    const guard_side side = rng_chance(&r, 50) ? GUARD_AFTER : GUARD_BEFORE;
    c->in_place = !c->accumulate && rng_chance(&r, 30);
    for (int id = WEIGHTS; id <= DSCORES; id++) {
        const int output = id == DSCORES || (id == DWEIGHTS && c->in_place);
        const layout past = output ? LAYOUT_WRITABLE : LAYOUT_COUNT;
        const layout l = rng_chance(&r, 50) ? LAYOUT_DENSE : (layout)rng_range(&r, 0, past - 1);
        if (id == KEEP || (id == DLSE && rng_chance(&r, 50))) { continue; }
        place(c, id, l, side, id == DLSE ? 3 : 4, full);
    }
    int64_t size[4];
    int32_t rank;
    if (rng_chance(&r, 30)) {
        broadcast_size(&r, full, &rank, size);
        place(c, KEEP, (layout)rng_range(&r, 0, LAYOUT_COUNT - 1), side, rank, size);
    }
    if (rng_chance(&r, 60)) {
        broadcast_size(&r, full, &rank, size);
        place(c, DBIAS, (layout)rng_range(&r, 0, LAYOUT_WRITABLE - 1), side, rank, size);
    }
    static const double chances[] = {0, 0.1, 0.5, 1};
    c->what.dropout = (rapt_dropout){rng_chance(&r, 60), chances[rng_range(&r, 0, 3)], seed, 3};
    c->what.scale = (rapt_scale){rng_chance(&r, 50), rng_chance(&r, 20) ? 0.0f : -0.37f};
    c->threads = rng_chance(&r, 70) ? 1 : (int32_t)rng_range(&r, 2, 4);
    fill(c, &r);
}

Test(pass_backward, random) {
    const uint64_t cases = number_from("RAPT_TEST_CASES", 100000) / 100;
    const uint64_t seed = number_from("RAPT_TEST_SEED", 1);
    for (uint64_t n = 0; n < cases; n++) {
        call c;
        draw(&c, seed + n);
        REQUIRE(try(&c), "RAPT_TEST_SEED=%" PRIu64 ": %s\naccumulate %d, in place %d%s", seed + n,
                why, c.accumulate, c.in_place, guarded_text(c.g, TENSORS));
        call_free(&c);
    }
}

/* ---- Through the forward call ---- */

/* Forward: scores to weights before dropout and lse; loss = sum dw (z p) + sum dlse lse. The
 * gradient is that of the formulas, by central differences in double precision. */
static double loss(const call *c, const double *scores, int64_t keys) {
    const double scale = (double)c->what.scale.value;
    double total = 0;
    for (int64_t i = 0; i < c->g[WEIGHTS].t.size[2]; i++) {
        double sum = 0;
        for (int64_t j = 0; j < keys; j++) { sum += exp(scale * scores[i * keys + j]); }
        total += log(sum) * (double)*tensor_f32(&c->g[DLSE].t, 0, 0, i, 0);
        for (int64_t j = 0; j < keys; j++) {
            total += kept(c, (int64_t[]){0, 0, i, j}) * exp(scale * scores[i * keys + j]) / sum *
                     (double)*tensor_f32(&c->g[DWEIGHTS].t, 0, 0, i, j);
        }
    }
    return total;
}

Test(pass_backward, central_differences_of_the_forward_pass) {
    enum { Q = 5, K = 9 };
    call c = {.what = {.scale = {1, 0.7f}, .dropout = {1, 0.3, 11, 2}}};
    rng r = rng_make(1, 1);
    const int64_t size[4] = {1, 1, Q, K};
    for (int id = WEIGHTS; id <= DSCORES; id++) {
        if (id != KEEP) { place(&c, id, LAYOUT_DENSE, GUARD_AFTER, id == DLSE ? 3 : 4, size); }
        guarded_fill(&c.g[id], &r);
    }
    double scores[Q * K];
    for (int n = 0; n < Q * K; n++) { scores[n] = (double)((float *)c.g[WEIGHTS].t.data)[n]; }
    rapt_attention what = c.what;
    what.weights_before_dropout = 1;
    const rapt_attention_softmax_operands forward = {.scores = &c.g[WEIGHTS].t};
    cr_assert_eq(rapt_attention_softmax(harness_context(1), &what, &forward), RAPT_OK);
    REQUIRE(try(&c), "%s", why);
    for (int n = 0; n < Q * K; n++) {
        const double held = scores[n], step = 1e-4;
        scores[n] = held + step;
        const double above = loss(&c, scores, K);
        scores[n] = held - step;
        const double below = loss(&c, scores, K);
        scores[n] = held;
        cr_expect_float_eq((above - below) / (2 * step), (double)((float *)c.g[DSCORES].t.data)[n],
                           2e-6);
    }
    call_free(&c);
}

Test(pass_backward, any_thread_count_gives_the_same_bits) {
    static const int64_t bias[][4] = {{1, 1, 200, 150}, {1, 1, 1, 150}, {1, 1, 200, 1},
                                      {1, 1, 1, 1},     {2, 1, 1, 150}, {1, 12, 200, 150}};
    for (int n = 0; n < 6; n++) {
        call first = {0};
        for (int32_t threads = 1; threads <= 4; threads++) {
            call c = {.threads = threads, .what = {.dropout = {1, 0.2, 5, 5}}};
            rng r = rng_make(2, 2);
            for (int id = WEIGHTS; id <= DSCORES; id++) {
                if (id == KEEP || id == DLSE) { continue; }
                place(&c, id, LAYOUT_DENSE, GUARD_AFTER, 4, (int64_t[]){2, 12, 200, 150});
            }
            place(&c, DBIAS, LAYOUT_DENSE, GUARD_AFTER, 4, bias[n]);
            fill(&c, &r);
            if (threads == 1) {
                REQUIRE(try(&c), "%s", why);
                first = c;
                continue;
            }
            cr_assert_eq(run(&c), RAPT_OK);
            for (int id = DSCORES; id <= DBIAS; id++) {
                REQUIRE(compare_bits(&first.g[id].t, &c.g[id].t, why, sizeof why), "%s", why);
            }
            call_free(&c);
        }
        call_free(&first);
    }
}

/* ---- Misuse ---- */

static void small(call *c, rapt_attention_softmax_backward_operands *o) {
    *c = (call){0};
    rng r = rng_make(3, 3);
    for (int id = 0; id < TENSORS; id++) {
        place(c, id, LAYOUT_DENSE, GUARD_AFTER, id == DLSE ? 3 : 4, (int64_t[]){2, 3, 4, 5});
    }
    fill(c, &r);
    *o = (rapt_attention_softmax_backward_operands){.weights = &c->g[WEIGHTS].t,
                                                    .keep = &c->g[KEEP].t,
                                                    .dweights = &c->g[DWEIGHTS].t,
                                                    .dlse = &c->g[DLSE].t,
                                                    .dscores = &c->g[DSCORES].t,
                                                    .dbias = &c->g[DBIAS].t};
}

static void refused(const call *c, const rapt_attention_softmax_backward_operands *o,
                    rapt_status want, const char *words, int line) {
    rapt_context *context = harness_context(1);
    guarded_seal(c->g, TENSORS);
    const rapt_status status = rapt_attention_softmax_backward(context, &c->what, o);
    cr_expect_eq(status, want, "line %d: %s", line, rapt_status_name(status));
    expect_message(rapt_context_message(context), words, line);
    cr_expect(guarded_intact(c->g, TENSORS, true, why, sizeof why), "line %d: %s", line, why);
}

Test(pass_backward, errors) {
    call c;
    rapt_attention_softmax_backward_operands o;
    small(&c, &o);
    rapt_context *context = harness_context(1);
    cr_expect_eq(rapt_attention_softmax_backward(NULL, &c.what, &o), RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_attention_softmax_backward(context, NULL, &o), RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_attention_softmax_backward(context, &c.what, NULL), RAPT_ERR_ARGUMENT);
    o.accumulate = 3;
    refused(&c, &o, RAPT_ERR_ARGUMENT, "accumulate 3", __LINE__);
    o.accumulate = 0;
    c.what.dropout = (rapt_dropout){1, 1.5, 0, 0};
    refused(&c, &o, RAPT_ERR_ARGUMENT, "dropout 1.5", __LINE__);
    c.what.dropout.training = 0;
    c.what.scale = (rapt_scale){1, INFINITY};
    refused(&c, &o, RAPT_ERR_ARGUMENT, "scale inf", __LINE__);
    c.what.scale.on = 0;
    const rapt_tensor **const slot[TENSORS] = {&o.weights, &o.keep,    &o.dweights,
                                               &o.dlse,    &o.dscores, &o.dbias};
    for (int id = 0; id < TENSORS; id++) {
        rapt_tensor t = c.g[id].t;
        *slot[id] = &t;
        t.data = NULL;
        refused(&c, &o, RAPT_ERR_ARGUMENT, names[id], id);
        t = c.g[id].t;
        t.dtype = RAPT_I32;
        refused(&c, &o, RAPT_ERR_DTYPE, names[id], id);
        t = c.g[id].t;
        t.rank = 5;
        refused(&c, &o, RAPT_ERR_SHAPE, names[id], id);
        t = c.g[id].t;
        t.size[2] = 3;
        refused(&c, &o, RAPT_ERR_SHAPE, id == WEIGHTS ? "3" : names[id], id);
        t = c.g[id].t;
        for (int other = 0; id >= DSCORES && other < TENSORS; other++) {
            if (other == id || (id == DSCORES && other == DWEIGHTS)) { continue; }
            t.data = c.g[other].t.data;
            refused(&c, &o, RAPT_ERR_OVERLAP, names[id], id);
        }
        t = c.g[id].t;
        t.stride[1] = 0;
        if (id >= DSCORES) { refused(&c, &o, RAPT_ERR_OVERLAP, names[id], id); }
        *slot[id] = &c.g[id].t;
    }
    o.weights = o.dweights = o.dscores = NULL;
    refused(&c, &o, RAPT_ERR_ARGUMENT, "weights null", __LINE__);
    small(&c, &o);
    o.dscores = o.dweights;
    o.accumulate = 1;
    refused(&c, &o, RAPT_ERR_OVERLAP, "dscores dweights", __LINE__);
    call_free(&c);
}

Test(pass_backward, an_allocation_fails) {
    call c;
    rapt_attention_softmax_backward_operands o;
    small(&c, &o);
    counter count = {.fail_at = 1};
    rapt_context *context = NULL;
    cr_assert_eq(counter_context(&context, &count, 2), RAPT_OK);
    guarded_seal(c.g, TENSORS);
    cr_expect_eq(rapt_attention_softmax_backward(context, &c.what, &o), RAPT_ERR_MEMORY);
    cr_expect(guarded_intact(c.g, TENSORS, true, why, sizeof why), "%s", why);
    cr_expect_eq(rapt_attention_softmax_backward(context, &c.what, &o), RAPT_OK);
    rapt_context_destroy(context);
    cr_expect_eq(count.live, 0);
    call_free(&c);
}
