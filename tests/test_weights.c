/* SPDX-License-Identifier: MIT
 * test_weights.c: weights given out by rapt_attention_forward, through the materialised path.
 * test_random.c has them with all features combined, test_dropout.c with dropout. */
#include "compare.h"
#include "harness.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static const shape shapes[] = {{2, 4, 2, 5, 7, 3, 4},
                               {1, 3, 1, 33, 129, 16, 17},
                               {1, 2, 2, 1, 300, 8, 8},
                               {2, 1, 1, 70, 3, 4, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void with_weights(problem *p, shape s, uint64_t seed) {
    problem_init(p, s);
    problem_layout(p, OP_WEIGHTS, LAYOUT_DENSE);
    fill_normal(p, seed);
}

static char why[256];

static void expect_same(const rapt_tensor *a, const rapt_tensor *b, const char *name) {
    REQUIRE(compare_bits(a, b, why, sizeof why), "%s: %s", name, why);
}

/* ---- What they are ---- */

/* With v = identity, out is the weights. */
Test(weights, are_what_the_values_meet) {
    problem p;
    problem_init(&p, (shape){2, 4, 2, 9, 40, 5, 40});
    problem_layout(&p, OP_WEIGHTS, LAYOUT_DENSE);
    fill_normal(&p, 1);
    fill_identity(&p);
    p.what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
    expect_oracle(&p);
    for (walk w = walk_begin(&p.op[OP_OUT].t); !w.done; walk_next(&w)) {
        const int64_t *x = w.index;
        const double weight = (double)*problem_at(&p, OP_WEIGHTS, x[0], x[1], x[2], x[3]);
        const double out = (double)*walk_f32(&w); /* two roundings apart */
        REQUIRE(fabs(out - weight) <= 4 * 0x1p-24 * weight, "%.9g and %.9g", out, weight);
    }
    problem_free(&p);
}

/* Rows sum to 1: n additions, n roundings of weights. What is hidden is exactly 0. */
Test(weights, rows_sum_to_one_and_hidden_ones_are_zero) {
    for (int n = 0; n < SHAPES * 4; n++) {
        problem p;
        with_weights(&p, shapes[n / 4], 2);
        if (n % 4 == 1) p.what.causal = RAPT_CAUSAL_TOP_LEFT;
        if (n % 4 == 2) p.what.window = (rapt_window){1, 2, 1};
        if (n % 4 == 3) problem_full_mask(&p);
        rng r = rng_make(3, (uint64_t)n);
        if (n % 4 == 3) fill_bools(&p, OP_MASK, &r, 50);
        expect_oracle(&p);
        double sum = 0.0;
        int64_t visible = 0;
        for (walk w = walk_begin(&p.op[OP_WEIGHTS].t); !w.done; walk_next(&w)) {
            const int64_t *x = w.index;
            const bool seen = problem_visible(&p, x[0], x[1], x[2], x[3]);
            REQUIRE(seen || *walk_f32(&w) == 0.0f, "hidden: %g", (double)*walk_f32(&w));
            sum += (double)*walk_f32(&w);
            visible += seen;
            if (x[3] < p.s.tk - 1) continue;
            const double slack = (double)(2 * visible + 4) * 0x1p-24;
            REQUIRE(visible ? fabs(sum - 1.0) <= slack : sum == 0.0, "a row sums to %.9g", sum);
            sum = 0.0;
            visible = 0;
        }
        problem_free(&p);
    }
}

Test(weights, of_rows_that_see_nothing) {
    problem p;
    with_weights(&p, (shape){1, 2, 1, 6, 4, 3, 3}, 4);
    fill_keys(&p, 0, 4, NAN);
    fill_constant(&p, OP_Q, NAN);
    problem_lengths(&p, RAPT_I64, 1, (int64_t[]){0});
    expect_oracle(&p);
    for (walk w = walk_begin(&p.op[OP_WEIGHTS].t); !w.done; walk_next(&w)) {
        REQUIRE(*walk_f32(&w) == 0.0f, "%g", (double)*walk_f32(&w));
    }
    for (int64_t i = 0; i < 6; i++) expect_empty(&p, 0, 1, i);
    problem_free(&p);
}

/* Scores that visible data make -inf have weight 0; a row of only such is empty. */
Test(weights, of_infinite_scores) {
    problem p;
    problem_init(&p, (shape){1, 1, 1, 2, 3, 1, 3});
    problem_layout(&p, OP_WEIGHTS, LAYOUT_DENSE);
    fill_identity(&p);
    *problem_at(&p, OP_Q, 0, 0, 0, 0) = 1.0f;
    *problem_at(&p, OP_Q, 0, 0, 1, 0) = 1.0f;
    for (int64_t j = 0; j < 3; j++) *problem_at(&p, OP_K, 0, 0, j, 0) = -INFINITY;
    expect_oracle(&p);
    for (int64_t i = 0; i < 2; i++) expect_empty(&p, 0, 0, i);
    *problem_at(&p, OP_K, 0, 0, 1, 0) = 2.0f;
    expect_oracle(&p);
    REQUIRE(*problem_at(&p, OP_WEIGHTS, 0, 0, 1, 0) == 0.0f, "-inf");
    REQUIRE(*problem_at(&p, OP_WEIGHTS, 0, 0, 1, 1) == 1.0f, "the only one");
    problem_free(&p);
}

/* ---- Where they lie ---- */

Test(weights, every_layout_has_the_same_bits) {
    for (int n = 0; n < SHAPES; n++) {
        problem dense, p;
        with_weights(&dense, shapes[n], 5);
        dense.what.causal = RAPT_CAUSAL_TOP_LEFT;
        expect_oracle(&dense);
        for (layout l = 0; l < LAYOUT_WRITABLE; l++) {
            problem_init(&p, shapes[n]);
            p.what = dense.what;
            p.side = l % 2 ? GUARD_BEFORE : GUARD_AFTER;
            problem_layout(&p, OP_WEIGHTS, l);
            fill_copy(&p, &dense);
            expect_run(&p);
            expect_same_bits(&p, &dense);
            problem_free(&p);
        }
        problem_free(&dense);
    }
}

Test(weights, any_thread_count_has_the_same_bits) {
    problem one, many;
    const shape s = {2, 4, 2, 150, 260, 20, 24};
    with_weights(&one, s, 6);
    one.what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
    expect_oracle(&one);
    for (int32_t threads = 2; threads <= 16; threads *= 2) {
        with_weights(&many, s, 6);
        many.what = one.what;
        many.threads = threads;
        expect_run(&many);
        expect_same_bits(&many, &one);
        problem_free(&many);
    }
    problem_free(&one);
}

Test(weights, out_in_the_place_of_q) {
    problem apart, p;
    const shape s = {1, 4, 2, 40, 50, 12, 12};
    with_weights(&apart, s, 7);
    expect_oracle(&apart);
    with_weights(&p, s, 7);
    p.in_place = true;
    expect_oracle(&p);
    expect_same_bits(&p, &apart);
    problem_free(&p);
    problem_free(&apart);
}

/* ---- Sizes of 0 ---- */

Test(weights, zero_sizes) {
    const shape empty[] = {{0, 2, 1, 3, 4, 5, 6}, {2, 0, 0, 3, 4, 5, 6}, {2, 2, 1, 0, 4, 5, 6},
                           {2, 2, 1, 3, 0, 5, 6}, {2, 2, 1, 3, 4, 0, 6}, {2, 2, 1, 3, 4, 5, 0}};
    for (size_t n = 0; n < sizeof empty / sizeof *empty; n++) {
        problem p;
        with_weights(&p, empty[n], 8);
        if (p.op[OP_WEIGHTS].memory.bytes == 0) p.op[OP_WEIGHTS].t.data = NULL;
        expect_oracle(&p);
        problem_free(&p);
    }
}

/* ---- What must not reach them ---- */

typedef enum hide { BY_MASK, BY_BIAS, BY_CAUSAL, BY_LENGTH, WAYS } hide;

static void hide_last(problem *p, hide way, int64_t first) {
    const int64_t tk = p->s.tk;
    if (way == BY_MASK) problem_mask(p, 1, &tk, LAYOUT_DENSE);
    if (way == BY_BIAS) problem_bias(p, 1, &tk, LAYOUT_DENSE);
    if (way == BY_CAUSAL) p->what.causal = RAPT_CAUSAL_TOP_LEFT;
    if (way == BY_LENGTH) problem_lengths(p, RAPT_I32, 1, &first);
    for (int64_t j = first; j < tk; j++) {
        if (way == BY_MASK) ((uint8_t *)p->op[OP_MASK].t.data)[j] = 0;
        if (way == BY_BIAS) ((float *)p->op[OP_BIAS].t.data)[j] = -INFINITY;
    }
}

Test(poison, behind_every_limit_changes_no_bit) {
    const float poisons[] = {NAN, INFINITY, -INFINITY, 1e38f, 12345.0f};
    const shape s = {1, 4, 2, 30, 150, 6, 5};
    for (int n = 0; n < WAYS * 5; n++) {
        const hide way = (hide)(n / 5);
        const int64_t first = way == BY_CAUSAL ? s.tq : 139;
        problem zeros, p;
        with_weights(&zeros, s, 9);
        fill_keys(&zeros, first, s.tk, 0.0f);
        hide_last(&zeros, way, first);
        zeros.what.dropout = (rapt_dropout){1, 0.25, 3, 4};
        expect_oracle(&zeros);
        with_weights(&p, s, 9);
        fill_keys(&p, first, s.tk, poisons[n % 5]);
        hide_last(&p, way, first);
        p.what.dropout = zeros.what.dropout;
        snprintf(p.note, sizeof p.note, "%g behind limit %d", (double)poisons[n % 5], n / 5);
        expect_run(&p);
        expect_same_bits(&p, &zeros);
        problem_free(&p);
        problem_free(&zeros);
    }
}

/* NaN in a query reaches the visible weights of its row; in a value, none. */
Test(poison, visible_nan_goes_where_it_is_used) {
    problem clean, p;
    const shape s = {1, 2, 1, 20, 40, 6, 5};
    with_weights(&clean, s, 10);
    clean.what.causal = RAPT_CAUSAL_TOP_LEFT;
    expect_run(&clean);
    with_weights(&p, s, 10);
    p.what = clean.what;
    *problem_at(&p, OP_V, 0, 0, 3, 2) = NAN;
    expect_oracle(&p);
    expect_same(&p.op[OP_WEIGHTS].t, &clean.op[OP_WEIGHTS].t, "NaN value");
    *problem_at(&p, OP_Q, 0, 1, 7, 5) = NAN;
    expect_oracle(&p);
    for (walk w = walk_begin(&p.op[OP_WEIGHTS].t); !w.done; walk_next(&w)) {
        const int64_t *x = w.index;
        const float got = *walk_f32(&w), was = *problem_at(&clean, OP_WEIGHTS, 0, x[1], x[2], x[3]);
        const bool spoilt = x[1] == 1 && x[2] == 7;
        REQUIRE(spoilt ? (x[3] <= 7 ? isnan(got) : got == 0.0f) : got == was, "%lld %lld %lld: %g",
                (long long)x[1], (long long)x[2], (long long)x[3], (double)got);
    }
    problem_free(&p);
    problem_free(&clean);
}

/* Scores that visible data make -inf keep weight 0 beside a NaN and beside +inf; all other weights
 * of such a row are NaN. */
Test(poison, minus_infinity_stays_0_beside_nan) {
    for (int n = 0; n < 4; n++) {
        problem p;
        const shape s = {1, 2, 2, 20, 300, 3, 2};
        with_weights(&p, s, 12);
        p.what.weights_before_dropout = n & 1;
        p.what.dropout = (rapt_dropout){n > 1, 0.5, 1, 2};
        fill_keys(&p, 0, s.tk, 0.0f);
        for (int64_t i = 0; i < s.tq; i++) *problem_at(&p, OP_Q, 0, 0, i, 1) = i % 3 ? 1.0f : NAN;
        for (int64_t i = 0; i < s.tq; i++) *problem_at(&p, OP_Q, 0, 1, i, 1) = 1.0f;
        for (int64_t j = 0; j < s.tk; j += 5) *problem_at(&p, OP_K, 0, 1, j, 1) = -INFINITY;
        *problem_at(&p, OP_K, 0, 1, 131, 1) = INFINITY;
        expect_oracle(&p);
        for (walk w = walk_begin(&p.op[OP_WEIGHTS].t); !w.done; walk_next(&w)) {
            const int64_t *x = w.index;
            const float got = *walk_f32(&w);
            const bool nan = x[1] == 1 ? x[3] % 5 != 0 : x[2] % 3 == 0;
            REQUIRE(isnan(got) == nan && (x[1] == 0 || nan || got == 0.0f), "%lld %lld %lld: %g",
                    (long long)x[1], (long long)x[2], (long long)x[3], (double)got);
        }
        problem_free(&p);
    }
}

/* ---- The path ---- */

static rapt_attention_info info_of(const problem *p) {
    rapt_attention_info info = {0};
    const rapt_attention_operands ops = problem_operands(p);
    const rapt_status status =
        rapt_attention_forward_info(harness_context(p->threads), &p->what, &ops, &info);
    REQUIRE(status == RAPT_OK, "%s", rapt_context_message(harness_context(p->threads)));
    return info;
}

Test(path, is_named_and_costs_rows_of_scores) {
    problem p;
    with_weights(&p, (shape){1, 2, 2, 500, 600, 16, 16}, 11);
    p.threads = 2;
    const rapt_attention_info whole = info_of(&p);
    problem_drop(&p, OP_WEIGHTS);
    const rapt_attention_info fused = info_of(&p);
    cr_expect_str_eq(whole.path, "materialised");
    cr_expect_str_eq(fused.path, "fused");
    cr_expect_eq(whole.visible, fused.visible);
    cr_expect_eq(whole.flops, fused.flops);
    /* all scores of the queries of a group, per thread; far from Tq x Tk */
    const int64_t scores = whole.threads * whole.group_queries * (600 + whole.key_block) * 4;
    cr_expect_leq(whole.scratch_bytes - 32 * whole.tasks,
                  fused.scratch_bytes - 32 * fused.tasks + scores + (int64_t)whole.threads * 65536);
    problem_free(&p);
}
