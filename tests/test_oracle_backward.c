/* SPDX-License-Identifier: MIT
 * test_oracle_backward.c: the oracle's gradients are those of its own forward values: central
 * differences of a loss on out and lse, for every feature alone and for all together; and closed
 * forms. The library is not called. */
#include "compare.h"
#include "harness.h"
#include "oracle_backward.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>

typedef enum feature {
    TOP_LEFT = 1 << 0,
    BOTTOM_RIGHT = 1 << 1,
    WINDOW = 1 << 2,
    MASK = 1 << 3,
    BIAS = 1 << 4,
    BIAS_BROADCAST = 1 << 5, /* [Hq, 1, Tk] */
    LENGTHS = 1 << 6,
    DROPOUT = 1 << 7,
    KEEP = 1 << 8,
    SCALE = 1 << 9,
    DLSE = 1 << 10,
    STRIDES = 1 << 11,
    FEATURES = 12
} feature;

static const char *const feature_names[FEATURES] = {
    "top-left",    "bottom-right", "window", "mask",  "bias", "broadcast-bias",
    "key-lengths", "dropout",      "keep",   "scale", "dlse", "strides"};

/* A problem with its loss: sum dout * out + sum dlse * lse over rows that see something. */
typedef struct loss {
    problem p;
    rapt_tensor dout, dlse;
    float dout_data[512], dlse_data[128];
    oracle values;
    oracle_gradients gradients;
    bool with_dlse;
} loss;

static loss the_loss;

/* Numbers on a grid, so that a step of the difference is exact in f32. */
static float on_grid(rng *r) { return (float)rint(rng_normal(r) * 512.0) / 512.0f; }

static void fill_grid(problem *p, operand_id id, rng *r) {
    for (walk w = walk_begin(&p->op[id].t); !w.done; walk_next(&w)) *walk_f32(&w) = on_grid(r);
}

static void add_features(problem *p, unsigned features, rng *r) {
    const shape s = p->s;
    if (features & TOP_LEFT) p->what.causal = RAPT_CAUSAL_TOP_LEFT;
    if (features & BOTTOM_RIGHT) p->what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
    if (features & WINDOW) p->what.window = (rapt_window){1, 2, 1};
    if (features & SCALE) p->what.scale = (rapt_scale){1, -0.75f};
    if (features & (DROPOUT | KEEP)) p->what.dropout = (rapt_dropout){1, 0.375, 11, 3};
    if (features & MASK) problem_full_mask(p);
    if (features & BIAS) problem_full_bias(p);
    if (features & BIAS_BROADCAST) {
        problem_bias(p, 3, (int64_t[]){s.hq, 1, s.tk}, LAYOUT_BACKWARDS);
    }
    if (features & LENGTHS) problem_lengths(p, RAPT_I32, s.b, (int64_t[]){s.tk - 1, 0});
    if (features & KEEP) problem_keep(p, 2, (int64_t[]){s.tq, s.tk}, LAYOUT_DENSE);
    for (operand_id id = OP_MASK; id <= OP_KEEP; id += OP_KEEP - OP_MASK) {
        if (!p->op[id].present) continue;
        for (walk w = walk_begin(&p->op[id].t); !w.done; walk_next(&w)) {
            *walk_byte(&w) = rng_chance(r, 70);
        }
    }
    if (!p->op[OP_BIAS].present) return;
    fill_grid(p, OP_BIAS, r);
    if (features & BIAS) *(float *)p->op[OP_BIAS].t.data = -INFINITY;
}

static void make(loss *x, shape s, unsigned features) {
    problem *p = &x->p;
    problem_init(p, s);
    rng r = rng_make(features, (uint64_t)s.tq);
    for (operand_id id = OP_Q; id <= OP_V; id++) {
        if (features & STRIDES) problem_layout(p, id, id == OP_K ? LAYOUT_BTHD : LAYOUT_BACKWARDS);
        fill_grid(p, id, &r);
    }
    add_features(p, features, &r);
    for (int n = 0; n < 512; n++) x->dout_data[n] = on_grid(&r);
    for (int n = 0; n < 128; n++) x->dlse_data[n] = on_grid(&r);
    x->dout = rapt_tensor_4d(RAPT_F32, x->dout_data, s.b, s.hq, s.tq, s.dv);
    x->dlse = rapt_tensor_3d(RAPT_F32, x->dlse_data, s.b, s.hq, s.tq);
    if (features & STRIDES) x->dout.stride[1] = x->dout.stride[3] = 0; /* as of a sum's gradient */
    x->with_dlse = (features & DLSE) != 0;
}

static void clean(loss *x) {
    problem_free(&x->p);
    oracle_free(&x->values);
    oracle_gradients_free(&x->gradients);
}

static void find_gradients(loss *x) {
    const rapt_attention_operands ops = problem_operands(&x->p);
    oracle_backward(&x->gradients, &x->p.what, &ops, &x->dout, x->with_dlse ? &x->dlse : NULL);
}

static double value(loss *x) {
    const rapt_attention_operands ops = problem_operands(&x->p);
    double sum = 0.0;
    oracle_forward(&x->values, &x->p.what, &ops);
    int64_t n = 0;
    for (walk w = walk_begin(&x->dout); !w.done; walk_next(&w), n++) {
        sum += (double)*walk_f32(&w) * x->values.out[n];
    }
    for (n = 0; x->with_dlse && n < x->values.rows; n++) {
        if (isfinite(x->values.lse[n])) sum += (double)x->dlse_data[n] * x->values.lse[n];
    }
    return sum;
}

static double central(loss *x, float *at, float step) {
    const float middle = *at;
    *at = middle + step;
    const double up = value(x);
    *at = middle - step;
    const double down = value(x);
    *at = middle;
    return (up - down) / (2.0 * (double)step);
}

/* Two steps, extrapolated: the error is of the order step^4 = 2e-10. */
static void expect_gradient(loss *x, operand_id id, const double *gradient) {
    const float step = 0x1p-8f;
    int64_t n = 0;
    for (walk w = walk_begin(&x->p.op[id].t); !w.done; walk_next(&w), n++) {
        float *at = walk_f32(&w);
        if (isinf(*at)) {
            REQUIRE(gradient[n] == 0.0, "operand %d element %lld: %.17g where nothing is seen",
                    (int)id, (long long)n, gradient[n]);
            continue;
        }
        const double wide = central(x, at, step), narrow = central(x, at, step / 2);
        const double want = (4.0 * narrow - wide) / 3.0;
        REQUIRE(compare_value(gradient[n], want, 2e-8 * (1.0 + fabs(want))),
                "operand %d element %lld: %.12g, differences %.12g", (int)id, (long long)n,
                gradient[n], want);
    }
}

static void expect_all_gradients(shape s, unsigned features) {
    loss *x = &the_loss;
    make(x, s, features);
    int used = 0;
    for (int f = 0; f < FEATURES; f++) {
        if (!(features >> f & 1)) continue;
        used +=
            snprintf(x->p.note + used, sizeof x->p.note - (size_t)used, "%s ", feature_names[f]);
        if (used >= (int)sizeof x->p.note) used = sizeof x->p.note - 1;
    }
    find_gradients(x);
    oracle_gradient reduced = {0};
    expect_gradient(x, OP_Q, x->gradients.dq.value);
    expect_gradient(x, OP_K, x->gradients.dk.value);
    expect_gradient(x, OP_V, x->gradients.dv.value);
    if (x->p.op[OP_BIAS].present) {
        const rapt_attention_operands ops = problem_operands(&x->p);
        oracle_reduce_bias(&x->gradients, &ops, ops.bias, &reduced);
        expect_gradient(x, OP_BIAS, reduced.value);
    }
    oracle_gradient_free(&reduced);
    clean(x);
}

static const shape wide = {2, 4, 2, 3, 5, 3, 4}, tall = {2, 2, 1, 5, 3, 2, 3};

Test(oracle_backward, each_feature) {
    expect_all_gradients(wide, 0);
    for (int f = 0; f < FEATURES; f++) {
        expect_all_gradients(wide, 1u << f);
        expect_all_gradients(tall, 1u << f);
    }
}

Test(oracle_backward, features_together) {
    const unsigned all = (1u << FEATURES) - 1;
    for (int causal = 0; causal < 3; causal++) {
        const unsigned no_causal = causal == 0   ? TOP_LEFT | BOTTOM_RIGHT
                                   : causal == 1 ? TOP_LEFT
                                                 : BOTTOM_RIGHT;
        const unsigned others[] = {0, BIAS, BIAS_BROADCAST, KEEP, MASK, LENGTHS, WINDOW | LENGTHS};
        for (size_t n = 0; n < sizeof others / sizeof *others; n++) {
            expect_all_gradients(wide, all & ~no_causal & ~others[n]);
            expect_all_gradients(tall, all & ~no_causal & ~others[n]);
        }
    }
}

/* ---- Closed forms ---- */

Test(oracle_backward, one_key) {
    loss *x = &the_loss;
    make(x, (shape){1, 1, 1, 1, 1, 16, 16}, 0);
    find_gradients(x);
    for (int d = 0; d < 16; d++) {
        REQUIRE(x->gradients.dq.value[d] == 0.0 && x->gradients.dk.value[d] == 0.0, "%d", d);
        REQUIRE(x->gradients.dv.value[d] == (double)x->dout_data[d], "%d", d);
    }
    clean(x);
}

Test(oracle_backward, rows_that_see_nothing) {
    loss *x = &the_loss;
    make(x, tall, BOTTOM_RIGHT | DLSE); /* queries 0 and 1 see nothing and may hold anything */
    for (int64_t n = 0; n < 2 * 2 * 2; n++) {
        *problem_at(&x->p, OP_Q, n / 4, n / 2 % 2, n % 2, 0) = NAN;
        *tensor_f32(&x->dout, n / 4, n / 2 % 2, n % 2, 0) = NAN;
        x->dlse_data[n / 2 * 5 + n % 2] = NAN;
    }
    find_gradients(x);
    for (int64_t n = 0; n < x->gradients.dq.count; n++) {
        const double got = x->gradients.dq.value[n];
        REQUIRE(n / 2 % 5 < 2 ? got == 0.0 : isfinite(got), "dq %lld: %g", (long long)n, got);
    }
    for (int64_t n = 0; n < x->gradients.dk.count; n++) {
        REQUIRE(isfinite(x->gradients.dk.value[n]), "dk %lld", (long long)n);
    }
    for (int64_t n = 0; n < x->gradients.dv.count; n++) {
        REQUIRE(isfinite(x->gradients.dv.value[n]), "dv %lld", (long long)n);
    }
    clean(x);
}

/* dout = identity shows the dropped weights of the forward call in dv. */
Test(oracle_backward, pattern_is_that_of_forward) {
    loss *x = &the_loss;
    make(x, (shape){1, 2, 2, 6, 7, 3, 6}, DROPOUT);
    for (walk w = walk_begin(&x->dout); !w.done; walk_next(&w)) {
        *walk_f32(&w) = w.index[2] == w.index[3] ? 1.0f : 0.0f;
    }
    problem_layout(&x->p, OP_WEIGHTS, LAYOUT_DENSE);
    find_gradients(x);
    int dropped = 0;
    for (int64_t n = 0; n < 2 * 7 * 6; n++) {
        const int64_t h = n / 42, j = n / 6 % 7, i = n % 6;
        const double weight = x->gradients.forward.weights[(h * 6 + i) * 7 + j];
        REQUIRE(x->gradients.dv.value[n] == weight, "%lld", (long long)n);
        dropped += weight == 0.0;
    }
    REQUIRE(dropped > 10 && dropped < 60, "%d of 84 dropped", dropped);
    clean(x);
}

Test(oracle_backward, everything_dropped) {
    loss *x = &the_loss;
    make(x, wide, DROPOUT | BIAS);
    x->p.what.dropout.p = 1.0;
    find_gradients(x);
    const oracle_gradients *g = &x->gradients;
    const oracle_gradient *const all[] = {&g->dq, &g->dk, &g->dv, &g->dbias};
    for (int a = 0; a < 4; a++) {
        for (int64_t n = 0; n < all[a]->count; n++) {
            REQUIRE(all[a]->value[n] == 0.0, "%d: element %lld is %g", a, (long long)n,
                    all[a]->value[n]);
        }
    }
    clean(x);
}

/* The formula once more in f32 stays within the bounds and uses some of them. */
Test(oracle_backward, bounds_hold_and_bite) {
    loss *x = &the_loss;
    const shape s = {1, 1, 1, 6, 40, 16, 12};
    make(x, s, 0);
    find_gradients(x);
    double worst = 0.0;
    for (int64_t i = 0; i < s.tq; i++) {
        float p[40], dp[40], l = 0.0f, d_row = 0.0f;
        for (int64_t j = 0; j < s.tk; j++) {
            float score = 0.0f;
            dp[j] = 0.0f;
            for (int64_t d = 0; d < s.d; d++) {
                score +=
                    *problem_at(&x->p, OP_Q, 0, 0, i, d) * *problem_at(&x->p, OP_K, 0, 0, j, d);
            }
            for (int64_t d = 0; d < s.dv; d++) {
                dp[j] += *tensor_f32(&x->dout, 0, 0, i, d) * *problem_at(&x->p, OP_V, 0, 0, j, d);
            }
            l += p[j] = expf(score * 0.25f);
        }
        for (int64_t j = 0; j < s.tk; j++) d_row += (p[j] /= l) * dp[j];
        for (int64_t d = 0; d < s.d; d++) {
            float sum = 0.0f;
            for (int64_t j = 0; j < s.tk; j++) {
                sum += p[j] * (dp[j] - d_row) * *problem_at(&x->p, OP_K, 0, 0, j, d);
            }
            const oracle_gradient *dq = &x->gradients.dq;
            const double error = fabs((double)(sum * 0.25f) - dq->value[i * s.d + d]);
            worst = fmax(worst, error / dq->tol[i * s.d + d]);
        }
    }
    REQUIRE(worst < 1.0 && worst > 1e-4, "worst share of a bound: %g", worst);
    clean(x);
}
