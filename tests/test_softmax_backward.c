/* SPDX-License-Identifier: MIT
 * test_softmax_backward.c: the gradient of softmax against the formula in double precision, which
 * central differences check in turn: sizes, axes, layouts, zeros, long rows, threads, misuse.
 *
 *   RAPT_TEST_CASES   number of random cases
 *   RAPT_TEST_SEED    seed of the first one; the others follow by adding 1 */
#include "compare.h"
#include "counter.h"
#include "guarded.h"
#include "harness.h"
#include "message.h"

#include <criterion/criterion.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define U 0x1p-24

static char why[512];

enum { OUT, DOUT, DIN, TENSORS };
static const char *const names[TENSORS] = {"out", "dout", "din"};

typedef struct call {
    guarded g[TENSORS];
    int32_t axis, threads;
    bool in_place; /* din is dout */
} call;

static void call_free(call *c) { guarded_free(c->g, TENSORS); }

static void place(call *c, int id, layout l, guard_side side, int32_t rank, const int64_t *size) {
    guarded_place(&c->g[id], names[id], id != OUT, l, side, RAPT_F32, rank, size);
}

/* Weights along the axis (not normalised: the formula does not mind), `zeros` of 100 exactly 0. */
static void fill(call *c, rng *r, int zeros, float poison) {
    const int64_t size = c->g[OUT].t.size[c->axis < 0 ? c->axis + c->g[OUT].t.rank : c->axis];
    walk d = walk_begin(&c->g[DOUT].t);
    for (walk w = walk_begin(&c->g[OUT].t); !w.done; walk_next(&w), walk_next(&d)) {
        *walk_f32(&w) = rng_chance(r, zeros) ? 0.0f : (float)(rng_uniform(r, 0, 2) / (double)size);
        *walk_f32(&d) = *walk_f32(&w) == 0.0f && poison != 0.0f ? poison : (float)rng_normal(r);
    }
}

/* ---- Oracle ---- */

/* Additions that follow one another in a sum of n: 64 vectors, lanes, 64 blocks, chunks. */
static double chain(int64_t n) {
    const double most = 64.0 + 5.0 + 64.0 + (double)n / 16384.0 + 2.0;
    return (double)n < most ? (double)n : most;
}

/* One row, from its first elements. A product and its addition are two roundings, where they are
 * not one; the difference and the last product two more. */
static void expect_row(const float *y, int64_t y_step, const float *dy, int64_t dy_step, int64_t n,
                       double *want, double *tol) {
    double dot = 0, magnitude = 0;
    for (int64_t j = 0; j < n; j++) {
        if (y[j * y_step] == 0.0f) { continue; }
        const double term = (double)y[j * y_step] * (double)dy[j * dy_step];
        dot += term;
        magnitude += fabs(term);
    }
    for (int64_t j = 0; j < n; j++) {
        const double p = (double)y[j * y_step], g = (double)dy[j * dy_step];
        want[j] = p == 0 ? 0 : p * (g - dot);
        tol[j] =
            p == 0 ? 0 : 1.01 * U * fabs(p) * ((chain(n) + 3) * magnitude + 2 * fabs(g)) + 0x1p-147;
    }
}

/* In the order of a walk whose last axis is that of the softmax. */
static bool matches(const call *c, const rapt_tensor *dout, const rapt_tensor *din) {
    rapt_tensor t[TENSORS] = {c->g[OUT].t, *dout, *din};
    const int32_t last = t[OUT].rank - 1;
    for (int i = 0; i < TENSORS; i++) {
        t[i] = rapt_tensor_swap_axes(t[i], c->axis < 0 ? c->axis + t[i].rank : c->axis, last);
    }
    const int64_t n = t[OUT].size[last];
    double *want = calloc((size_t)(2 * n + 1), sizeof(double)), *tol = want + n;
    bool good = true;
    for (int i = 0; i < TENSORS; i++) { t[i].size[last] = n ? 1 : 0; }
    walk d = walk_begin(&t[DOUT]), x = walk_begin(&t[DIN]);
    for (walk w = walk_begin(&t[OUT]); good && !w.done; walk_next(&w)) {
        expect_row(walk_f32(&w), t[OUT].stride[last], walk_f32(&d), t[DOUT].stride[last], n, want,
                   tol);
        for (int64_t j = 0; good && j < n; j++) {
            const double got = (double)walk_f32(&x)[j * t[DIN].stride[last]];
            good = compare_value(got, want[j], tol[j]);
            if (!good) {
                snprintf(why, sizeof why, "element %lld of a row: %.9g, want %.9g +- %.3g",
                         (long long)j, got, want[j], tol[j]);
            }
        }
        walk_next(&d);
        walk_next(&x);
    }
    free(want);
    return good;
}

/* ---- Run ---- */

static rapt_status run(const call *c, const rapt_tensor *din) {
    rapt_context *context = harness_context(c->threads ? c->threads : 1);
    const rapt_tensor *y = &c->g[OUT].t, *dy = &c->g[DOUT].t;
    return c->axis == -1 ? rapt_softmax_backward(context, y, dy, din)
                         : rapt_softmax_axis_backward(context, y, dy, c->axis, din);
}

static bool try(call *c) {
    const rapt_tensor *din = c->in_place ? &c->g[DOUT].t : &c->g[DIN].t;
    guarded before = {0};
    rapt_tensor dout = c->g[DOUT].t;
    if (c->in_place) { /* the oracle keeps a copy */
        guarded_place(&before, "copy", true, LAYOUT_DENSE, GUARD_AFTER, RAPT_F32, dout.rank,
                      dout.size);
        walk to = walk_begin(&before.t);
        for (walk w = walk_begin(&dout); !w.done; walk_next(&w), walk_next(&to)) {
            *walk_f32(&to) = *walk_f32(&w);
        }
        dout = before.t;
    } else {
        guarded_set(&c->g[DIN], NAN);
    }
    c->g[DOUT].output = c->in_place;
    guarded_seal(c->g, TENSORS);
    const rapt_status status = run(c, din);
    bool good = guarded_intact(c->g, TENSORS, status != RAPT_OK, why, sizeof why);
    if (good && status != RAPT_OK) {
        snprintf(why, sizeof why, "%s", rapt_status_name(status));
        good = false;
    }
    good = good && matches(c, &dout, din);
    guarded_free(&before, 1);
    return good;
}

/* ---- Random cases ---- */

static void draw(call *c, uint64_t seed) {
    rng r = rng_make(seed, 27);
    *c = (call){.in_place = rng_chance(&r, 30)};
    const int32_t rank = (int32_t)rng_range(&r, 1, RAPT_MAX_RANK);
    int64_t size[RAPT_MAX_RANK];
    for (int32_t axis = 0; axis < rank; axis++) {
        size[axis] = rng_range(&r, rng_chance(&r, 4) ? 0 : 1, rank > 3 ? 4 : 9);
    }
    size[rng_range(&r, 0, rank - 1)] = rng_range(&r, 1, rng_chance(&r, 20) ? 1200 : 70);
    c->axis = rng_chance(&r, 40) ? -1 : (int32_t)rng_range(&r, -rank, rank - 1);
    const guard_side side = rng_chance(&r, 50) ? GUARD_AFTER : GUARD_BEFORE;
    const layout past[TENSORS] = {LAYOUT_COUNT, c->in_place ? LAYOUT_WRITABLE : LAYOUT_COUNT,
                                  LAYOUT_WRITABLE};
    const layout same = rng_chance(&r, 60) ? (layout)rng_range(&r, 0, LAYOUT_WRITABLE - 1) : 0;
    for (int id = 0; id < TENSORS; id++) {
        const layout own = rng_chance(&r, 70) ? same : (layout)rng_range(&r, 0, past[id] - 1);
        place(c, id, own, side, rank, size);
    }
    fill(c, &r, (int)rng_range(&r, 0, 3) * 25, 0.0f);
    const walk w = walk_begin(&c->g[DOUT].t);
    if (!w.done && rng_chance(&r, 5)) { *walk_f32(&w) = rng_chance(&r, 50) ? NAN : INFINITY; }
    c->threads = rng_chance(&r, 70) ? 1 : (int32_t)rng_range(&r, 2, 4);
}

Test(softmax_backward, random) {
    const uint64_t cases = number_from("RAPT_TEST_CASES", 100000) / 40;
    const uint64_t seed = number_from("RAPT_TEST_SEED", 1);
    for (uint64_t n = 0; n < cases; n++) {
        call c;
        draw(&c, seed + n);
        REQUIRE(try(&c), "RAPT_TEST_SEED=%" PRIu64 ": %s\naxis %d, in place %d%s", seed + n, why,
                c.axis, c.in_place, guarded_text(c.g, TENSORS));
        call_free(&c);
    }
}

/* ---- The oracle: d/dx of sum dy softmax(x), by central differences ---- */

static double loss(const double *x, const float *dy, int n) {
    double sum = 0, result = 0;
    for (int j = 0; j < n; j++) { sum += exp(x[j]); }
    for (int j = 0; j < n; j++) { result += (double)dy[j] * exp(x[j]) / sum; }
    return result;
}

Test(softmax_backward, oracle_by_central_differences) {
    enum { N = 9 };
    rng r = rng_make(1, 1);
    double x[N], sum = 0, want[N], tol[N];
    float y[N], dy[N];
    for (int j = 0; j < N; j++) {
        x[j] = rng_normal(&r);
        dy[j] = (float)rng_normal(&r);
        sum += exp(x[j]);
    }
    for (int j = 0; j < N; j++) { y[j] = (float)(exp(x[j]) / sum); }
    expect_row(y, 1, dy, 1, N, want, tol);
    for (int j = 0; j < N; j++) {
        const double kept = x[j], step = 1e-4;
        x[j] = kept + step;
        const double above = loss(x, dy, N);
        x[j] = kept - step;
        const double below = loss(x, dy, N);
        x[j] = kept;
        /* y is rounded to float; the differences are off by step^2 and rounding / step */
        cr_expect_float_eq((above - below) / (2 * step), want[j], 1e-6);
    }
}

/* ---- Properties ---- */

/* Where out is 0, dout may hold anything. */
Test(softmax_backward, poison_behind_zeros_changes_no_bit) {
    static const float poison[] = {NAN, INFINITY, -INFINITY, 1e38f};
    for (int64_t n = 1; n < 90; n += 8) {
        call c[2] = {{.axis = -1}, {.axis = -1}};
        for (int i = 0; i < 4; i++) {
            for (int k = 0; k < 2; k++) {
                rng r = rng_make(3, (uint64_t)n);
                for (int id = 0; id < TENSORS; id++) {
                    place(&c[k], id, LAYOUT_DENSE, GUARD_AFTER, 2, (int64_t[]){7, n});
                }
                fill(&c[k], &r, 40, k ? poison[i] : 0.0f);
            }
            /* the same weights and visible gradients */
            walk d = walk_begin(&c[0].g[DOUT].t), e = walk_begin(&c[1].g[DOUT].t);
            walk v = walk_begin(&c[1].g[OUT].t);
            for (walk w = walk_begin(&c[0].g[OUT].t); !w.done; walk_next(&w)) {
                *walk_f32(&v) = *walk_f32(&w);
                *walk_f32(&e) = *walk_f32(&w) == 0.0f ? poison[i] : *walk_f32(&d);
                walk_next(&d);
                walk_next(&e);
                walk_next(&v);
            }
            REQUIRE(try(&c[0]) && run(&c[1], &c[1].g[DIN].t) == RAPT_OK, "%s", why);
            REQUIRE(compare_bits(&c[0].g[DIN].t, &c[1].g[DIN].t, why, sizeof why), "%s", why);
        }
        call_free(&c[0]);
        call_free(&c[1]);
    }
}

/* Rows along the lanes, strided, and down columns; one thread and several. */
Test(softmax_backward, every_way_gives_the_same_bits) {
    static const layout layouts[] = {LAYOUT_DENSE, LAYOUT_TRANSPOSED, LAYOUT_STEP2,
                                     LAYOUT_BACKWARDS};
    const int64_t sizes[][2] = {{70, 300}, {3, 140001}, {40, 4200}};
    for (int s = 0; s < 3; s++) {
        call first = {.axis = -1};
        for (int n = 0; n < 8; n++) {
            call c = {.axis = -1, .threads = 1 + n % 3};
            rng r = rng_make(4, 4);
            for (int id = 0; id < TENSORS; id++) {
                place(&c, id, layouts[n % 4], GUARD_AFTER, 2, sizes[s]);
            }
            fill(&c, &r, 10, 0.0f);
            REQUIRE(try(&c), "%s%s", why, guarded_text(c.g, TENSORS));
            if (n == 0) {
                first = c;
                continue;
            }
            REQUIRE(compare_bits(&first.g[DIN].t, &c.g[DIN].t, why, sizeof why), "%s", why);
            call_free(&c);
        }
        call_free(&first);
    }
}

/* Forward and backward together: gradients of a row sum to 0. */
Test(softmax_backward, after_forward_rows_sum_to_zero) {
    rapt_context *context = harness_context(1);
    float x[4 * 33], y[4 * 33], dy[4 * 33];
    rng r = rng_make(5, 5);
    for (int i = 0; i < 4 * 33; i++) {
        x[i] = (float)rng_normal(&r);
        dy[i] = (float)rng_normal(&r);
    }
    const rapt_tensor in = rapt_tensor_2d(RAPT_F32, x, 4, 33),
                      out = rapt_tensor_2d(RAPT_F32, y, 4, 33);
    const rapt_tensor gradient = rapt_tensor_2d(RAPT_F32, dy, 4, 33);
    cr_assert_eq(rapt_softmax(context, &in, &out), RAPT_OK);
    cr_assert_eq(rapt_softmax_backward(context, &out, &gradient, &gradient), RAPT_OK);
    for (int row = 0; row < 4; row++) {
        double sum = 0;
        for (int j = 0; j < 33; j++) { sum += (double)dy[row * 33 + j]; }
        cr_expect_float_eq(sum, 0, 1e-6);
    }
}

/* ---- Misuse ---- */

static void refused(const call *c, const rapt_tensor *const t[TENSORS], int32_t axis,
                    rapt_status want, const char *words, int line) {
    rapt_context *context = harness_context(1);
    guarded_seal(c->g, TENSORS);
    const rapt_status status = rapt_softmax_axis_backward(context, t[OUT], t[DOUT], axis, t[DIN]);
    cr_expect_eq(status, want, "line %d: %s", line, rapt_status_name(status));
    expect_message(rapt_context_message(context), words, line);
    cr_expect(guarded_intact(c->g, TENSORS, true, why, sizeof why), "line %d: %s", line, why);
}

Test(softmax_backward, errors) {
    call c = {.axis = -1};
    for (int id = 0; id < TENSORS; id++) {
        place(&c, id, LAYOUT_DENSE, GUARD_AFTER, 2, (int64_t[]){3, 4});
    }
    const rapt_tensor *const good[TENSORS] = {&c.g[OUT].t, &c.g[DOUT].t, &c.g[DIN].t};
    cr_expect_eq(rapt_softmax_backward(NULL, good[0], good[1], good[2]), RAPT_ERR_ARGUMENT);
    refused(&c, good, 2, RAPT_ERR_ARGUMENT, "axis 2 1", __LINE__);
    refused(&c, good, -3, RAPT_ERR_ARGUMENT, "axis -3", __LINE__);
    for (int id = 0; id < TENSORS; id++) {
        const rapt_tensor *t[TENSORS] = {good[0], good[1], good[2]};
        rapt_tensor bad = *good[id];
        t[id] = NULL;
        refused(&c, t, -1, RAPT_ERR_ARGUMENT, names[id], id);
        t[id] = &bad;
        bad.data = NULL;
        refused(&c, t, -1, RAPT_ERR_ARGUMENT, names[id], id);
        bad = *good[id];
        bad.dtype = RAPT_I64;
        refused(&c, t, -1, RAPT_ERR_DTYPE, names[id], id);
        bad = *good[id];
        bad.rank = 0;
        refused(&c, t, -1, RAPT_ERR_SHAPE, names[id], id);
        bad = *good[id];
        bad.size[1] = 3;
        refused(&c, t, -1, RAPT_ERR_SHAPE, id ? names[id] : "dout", id);
    }
    const rapt_tensor *t[TENSORS] = {good[0], good[1], good[2]};
    rapt_tensor din = *good[DIN];
    t[DIN] = &din;
    din.stride[0] = 0;
    refused(&c, t, -1, RAPT_ERR_OVERLAP, "din", __LINE__);
    din = *good[OUT];
    refused(&c, t, -1, RAPT_ERR_OVERLAP, "din out", __LINE__);
    din = *good[DOUT];
    din.data = (float *)din.data + 1; /* not the same view */
    refused(&c, t, -1, RAPT_ERR_OVERLAP, "din dout", __LINE__);
    call_free(&c);
}

/* Strided rows, and parts of long ones, need memory. */
Test(softmax_backward, an_allocation_fails) {
    for (int n = 0; n < 2; n++) {
        call c = {.axis = -1};
        rng r = rng_make(6, 6);
        const int64_t size[2] = {2, n ? 140000 : 20};
        for (int id = 0; id < TENSORS; id++) {
            place(&c, id, n ? LAYOUT_DENSE : LAYOUT_STEP2, GUARD_AFTER, 2, size);
        }
        fill(&c, &r, 0, 0.0f);
        counter count = {.fail_at = 1};
        rapt_context *context = NULL;
        cr_assert_eq(counter_context(&context, &count, 2), RAPT_OK);
        guarded_seal(c.g, TENSORS);
        cr_expect_eq(rapt_softmax_backward(context, &c.g[OUT].t, &c.g[DOUT].t, &c.g[DIN].t),
                     RAPT_ERR_MEMORY);
        cr_expect(guarded_intact(c.g, TENSORS, true, why, sizeof why), "%s", why);
        cr_expect_eq(rapt_softmax_backward(context, &c.g[OUT].t, &c.g[DOUT].t, &c.g[DIN].t),
                     RAPT_OK);
        rapt_context_destroy(context);
        cr_expect_eq(count.live, 0);
        call_free(&c);
    }
}
