/* SPDX-License-Identifier: MIT
 * test_pass.c: rapt_attention_softmax, the fused pass over given scores. test_random.c has it with
 * all features combined. */
#include "compare.h"
#include "harness.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static const shape shapes[] = {{2, 4, 4, 5, 7, 0, 0},
                               {1, 3, 3, 33, 129, 0, 0},
                               {1, 2, 2, 1, 300, 0, 0},
                               {2, 1, 1, 70, 3, 0, 0}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void with_scores(problem *p, shape s, uint64_t seed) {
    problem_init_pass(p, s);
    rng r = rng_make(seed, 0);
    fill_random(p, OP_WEIGHTS, &r, FILL_NORMAL);
}

static void expect_row(const problem *p, int64_t i, const double *want) {
    for (int64_t j = 0; j < p->s.tk; j++) {
        const double got = (double)*problem_at(p, OP_WEIGHTS, 0, 0, i, j);
        REQUIRE(compare_value(got, want[j], 1e-6 * want[j]), "[%lld,%lld] = %.9g, want %.9g",
                (long long)i, (long long)j, got, want[j]);
    }
}

Test(pass, closed_forms) {
    problem p;
    problem_init_pass(&p, (shape){1, 1, 1, 3, 3, 0, 0});
    const float scores[9] = {1000, 999, NAN, 5, 5, 5, -INFINITY, -INFINITY, -INFINITY};
    const double e = exp(-1.0), high = 1 / (1 + e), low = e / (1 + e), third = 1.0 / 3.0;
    problem_full_mask(&p);
    mask_set(&p, 0, 0, 0, 2, 0);
    memcpy(p.op[OP_WEIGHTS].t.data, scores, sizeof scores);
    expect_oracle(&p); /* the scale is 1 unless one is given */
    expect_row(&p, 0, (double[]){high, low, 0});
    expect_row(&p, 1, (double[]){third, third, third});
    expect_row(&p, 2, (double[]){0, 0, 0});
    expect_lse(&p, 0, 0, 0, 1000.31326168752);
    expect_lse(&p, 0, 0, 1, 5 + log(3));
    expect_lse(&p, 0, 0, 2, -INFINITY);
    memcpy(p.op[OP_WEIGHTS].t.data, scores, sizeof scores);
    p.what.scale = (rapt_scale){1, -2.0f};
    problem_bias(&p, 1, (int64_t[]){3}, LAYOUT_DENSE);
    *(float *)p.op[OP_BIAS].t.data = -1.0f; /* scores -2001, -1998: scale first, then bias */
    expect_oracle(&p);
    const double e3 = exp(-3.0);
    expect_row(&p, 0, (double[]){e3 / (1 + e3), 1 / (1 + e3), 0});
    problem_free(&p);
}

/* Scores q . k and the scale of attention give the weights of attention. */
Test(pass, gives_the_weights_of_attention) {
    char why[256];
    for (int n = 0; n < 4 * 3; n++) {
        const shape s = {2, 4, 2, 1 + 13 * (n / 3), 65, 8, 3};
        problem whole, p;
        problem_init(&whole, s);
        problem_layout(&whole, OP_WEIGHTS, LAYOUT_DENSE);
        fill_normal(&whole, 1);
        whole.what.causal = (rapt_causal)(n % 3);
        whole.what.dropout = (rapt_dropout){1, 0.2, 3, 4};
        expect_oracle(&whole);
        problem_init_pass(&p, s);
        p.what = whole.what;
        p.what.scale = (rapt_scale){1, (float)(1.0 / sqrt(8.0))};
        for (walk w = walk_begin(&p.op[OP_WEIGHTS].t); !w.done; walk_next(&w)) {
            const int64_t *x = w.index;
            double sum = 0.0;
            for (int64_t d = 0; d < 8; d++) {
                sum += (double)*problem_at(&whole, OP_Q, x[0], x[1], x[2], d) *
                       (double)*problem_at(&whole, OP_K, x[0], x[1] / 2, x[3], d);
            }
            *walk_f32(&w) = (float)sum;
        }
        expect_oracle(&p);
        REQUIRE(compare_weights(&p.op[OP_WEIGHTS].t, &whole.expected, NULL, why, sizeof why), "%s",
                why);
        REQUIRE(compare_oracle(NULL, &p.op[OP_LSE].t, &whole.expected, NULL, why, sizeof why), "%s",
                why);
        problem_free(&p);
        problem_free(&whole);
    }
}

Test(pass, every_layout_has_the_same_bits) {
    for (int n = 0; n < SHAPES; n++) {
        problem dense, p;
        with_scores(&dense, shapes[n], 2);
        dense.what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
        expect_oracle(&dense);
        for (layout l = 0; l < LAYOUT_WRITABLE; l++) {
            problem_init_pass(&p, shapes[n]);
            problem_layout(&p, OP_WEIGHTS, l);
            p.side = l % 2 ? GUARD_BEFORE : GUARD_AFTER;
            p.what = dense.what;
            rng r = rng_make(2, 0);
            fill_random(&p, OP_WEIGHTS, &r, FILL_NORMAL);
            expect_run(&p);
            expect_same_bits(&p, &dense);
            problem_free(&p);
        }
        problem_free(&dense);
    }
}

Test(pass, any_thread_count_has_the_same_bits) {
    problem one, many;
    const shape s = {2, 4, 4, 150, 260, 0, 0};
    with_scores(&one, s, 3);
    one.what.window = (rapt_window){1, 50, 20};
    expect_oracle(&one);
    for (int32_t threads = 2; threads <= 16; threads *= 2) {
        with_scores(&many, s, 3);
        many.what = one.what;
        many.threads = threads;
        many.caller_scratch = threads == 4;
        expect_run(&many);
        expect_same_bits(&many, &one);
        problem_free(&many);
    }
    problem_free(&one);
}

/* A batch item alone, and the first rows of causal scores alone, have the bits of the whole. */
Test(pass, parts_have_the_same_bits) {
    problem whole, part;
    const shape s = {3, 2, 2, 40, 60, 0, 0};
    with_scores(&whole, s, 4);
    whole.what.causal = RAPT_CAUSAL_TOP_LEFT;
    expect_run(&whole);
    for (int n = 0; n < 2; n++) {
        with_scores(&part, s, 4);
        const rapt_tensor *all = &part.op[OP_WEIGHTS].t;
        const rapt_tensor scores =
            n == 0 ? rapt_tensor_slice(*all, 0, 1, 1) : rapt_tensor_slice(*all, 2, 0, 11);
        const rapt_attention_softmax_operands ops = {.scores = &scores};
        REQUIRE(rapt_attention_softmax(harness_context(1), &whole.what, &ops) == RAPT_OK, "part");
        for (walk w = walk_begin(&scores); !w.done; walk_next(&w)) {
            const int64_t *x = w.index;
            const float want = *problem_at(&whole, OP_WEIGHTS, x[0] + (n == 0), x[1], x[2], x[3]);
            REQUIRE(*walk_f32(&w) == want, "part %d: %g, want %g", n, (double)*walk_f32(&w),
                    (double)want);
        }
        problem_free(&part);
    }
    problem_free(&whole);
}

Test(pass, hidden_scores_may_hold_anything) {
    const float poisons[] = {0.0f, NAN, INFINITY, -INFINITY, 1e38f};
    problem zeros, p;
    const shape s = {2, 2, 2, 30, 70, 0, 0};
    for (int n = 0; n < 5 * 4; n++) {
        problem *x = n % 5 ? &p : &zeros;
        with_scores(x, s, 5);
        snprintf(x->note, sizeof x->note, "%g behind limit %d", (double)poisons[n % 5], n / 5);
        rng r = rng_make(6, 0);
        if (n / 5 == 0) x->what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
        if (n / 5 == 1) problem_full_mask(x);
        if (n / 5 == 1) fill_bools(x, OP_MASK, &r, 50);
        if (n / 5 == 2) problem_lengths(x, RAPT_I32, 2, (int64_t[]){0, 33});
        if (n / 5 == 3) x->what.window = (rapt_window){1, 0, 5};
        for (walk w = walk_begin(&x->op[OP_WEIGHTS].t); !w.done; walk_next(&w)) {
            const int64_t *at = w.index;
            if (!problem_visible(x, at[0], at[1], at[2], at[3])) *walk_f32(&w) = poisons[n % 5];
        }
        expect_oracle(x);
        if (x == &p) {
            expect_same_bits(&p, &zeros);
            problem_free(&p);
        }
        if (n % 5 == 4) problem_free(&zeros);
    }
}

/* As rapt_softmax: entries of -inf stay 0 in a row with NaN or +inf. */
Test(pass, minus_infinity_stays_0_beside_nan) {
    const float poisons[] = {NAN, INFINITY};
    for (int n = 0; n < 4; n++) {
        problem p;
        with_scores(&p, (shape){1, 2, 2, 40, 150, 0, 0}, 8);
        p.what.dropout = (rapt_dropout){n > 1, 0.5, 1, 2};
        p.what.weights_before_dropout = n == 3;
        for (walk w = walk_begin(&p.op[OP_WEIGHTS].t); !w.done; walk_next(&w)) {
            const int64_t i = w.index[2], j = w.index[3];
            if ((i + j) % 3 == 0) *walk_f32(&w) = -INFINITY;
            if (i % 2 == 0 && j == i + 1) *walk_f32(&w) = poisons[n % 2];
        }
        expect_oracle(&p);
        for (walk w = walk_begin(&p.op[OP_WEIGHTS].t); !w.done; walk_next(&w)) {
            const int64_t i = w.index[2], j = w.index[3];
            const bool nan = i % 2 == 0 && ((i + j) % 3 != 0 || j == i + 1);
            const float got = *walk_f32(&w);
            REQUIRE(nan ? isnan(got) : (i + j) % 3 != 0 || got == 0.0f, "%lld %lld: %g",
                    (long long)i, (long long)j, (double)got);
        }
        problem_free(&p);
    }
}

Test(pass, zero_sizes) {
    const shape empty[] = {
        {0, 2, 2, 3, 4, 0, 0}, {2, 0, 0, 3, 4, 0, 0}, {2, 2, 2, 0, 4, 0, 0}, {2, 2, 2, 3, 0, 0, 0}};
    for (size_t n = 0; n < sizeof empty / sizeof *empty; n++) {
        problem p;
        problem_init_pass(&p, empty[n]);
        p.op[OP_WEIGHTS].t.data = NULL;
        expect_oracle(&p);
        problem_free(&p);
    }
}

/* Dropout by a keep pattern and by the generator; before dropout, nothing is dropped. */
Test(pass, dropout) {
    problem p, given, none;
    const shape s = {2, 3, 3, 20, 50, 0, 0};
    with_scores(&p, s, 7);
    p.what.dropout = (rapt_dropout){1, 0.4, 99, 1};
    expect_oracle(&p);
    with_scores(&given, s, 7);
    given.what.dropout = (rapt_dropout){1, 0.4, 0, 0};
    problem_full_keep(&given);
    for (walk w = walk_begin(&given.op[OP_KEEP].t); !w.done; walk_next(&w)) {
        const int64_t *x = w.index;
        *walk_byte(&w) = rapt_dropout_keep(&p.what.dropout, (uint32_t)(x[0] * 3 + x[1]),
                                           (uint32_t)x[2], x[3]) != 0;
    }
    expect_oracle(&given);
    expect_same_bits(&given, &p);
    problem_free(&given);
    with_scores(&none, s, 7);
    expect_oracle(&none);
    problem_free(&p);
    with_scores(&p, s, 7);
    p.what.dropout = (rapt_dropout){1, 0.4, 99, 1};
    p.what.weights_before_dropout = 1;
    expect_oracle(&p);
    expect_same_bits(&p, &none);
    problem_free(&p);
    problem_free(&none);
}
