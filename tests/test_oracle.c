/* SPDX-License-Identifier: MIT
 * test_oracle.c: the tests' own tools are right: oracle, bounds, comparators, guarded memory,
 * layouts. The library is not called. */
#include "compare.h"
#include "crash.h"
#include "harness.h"

#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

static void expect_oracle_row(problem *p, int64_t row, const double *want, double lse) {
    const oracle *o = &p->expected;
    for (int64_t d = 0; d < o->dv; d++) {
        const double got = o->out[row * o->dv + d];
        REQUIRE(compare_value(got, want[d], 1e-7 * fabs(want[d])), "row %lld column %lld: %.17g",
                (long long)row, (long long)d, got);
    }
    REQUIRE(compare_value(o->lse[row], lse, 1e-8 * fabs(lse)), "row %lld: lse %.17g",
            (long long)row, o->lse[row]);
}

/* q = 1, D = 1, scale 1: the scores are the keys; v = identity: out is the weights. */
static void scores_are_keys(problem *p, const float *keys, int64_t n) {
    problem_init(p, (shape){1, 1, 1, 1, n, 1, n});
    fill_constant(p, OP_Q, 1.0f);
    fill_identity(p);
    p->what.scale = (rapt_scale){1, 1.0f};
    for (int64_t j = 0; j < n; j++) *problem_at(p, OP_K, 0, 0, j, 0) = keys[j];
}

Test(oracle, softmax_numbers) {
    problem p;
    scores_are_keys(&p, (float[]){1000, 999, 0}, 3);
    problem_expect(&p);
    expect_oracle_row(&p, 0, (double[]){0.73105857863, 0.26894142137, 0}, 1000.31326168752);
    problem_free(&p);
    scores_are_keys(&p, (float[]){-100000, -100001}, 2);
    problem_expect(&p);
    expect_oracle_row(&p, 0, (double[]){0.73105857863, 0.26894142137}, -99999.68673831248);
    problem_free(&p);
}

Test(oracle, scale) {
    problem p;
    const double down[] = {0.73105857863, 0.26894142137}, even[] = {0.5, 0.5};
    scores_are_keys(&p, (float[]){0, 1}, 2);
    p.what.scale.value = -1.0f;
    problem_expect(&p);
    expect_oracle_row(&p, 0, down, log(1.0 + exp(-1.0)));
    p.what.scale.value = 0.0f;
    problem_expect(&p);
    expect_oracle_row(&p, 0, even, log(2.0));
    problem_free(&p);

    problem_init(&p, (shape){1, 1, 1, 1, 2, 16, 2}); /* 1/sqrt(16) * 16 * (-1/4) = -1 */
    fill_constant(&p, OP_Q, 1.0f);
    for (int64_t d = 0; d < 16; d++) *problem_at(&p, OP_K, 0, 0, 1, d) = -0.25f;
    fill_identity(&p);
    problem_expect(&p);
    expect_oracle_row(&p, 0, down, log(1.0 + exp(-1.0)));
    problem_free(&p);
}

/* q = 0, v = identity: every visible key has weight 1 / count. Bit j of sees[i]: i sees j. */
static void expect_sees(problem *p, const unsigned *sees) {
    double row[16];
    problem_expect(p);
    for (int64_t i = 0; i < p->s.tq; i++) {
        const int count = __builtin_popcount(sees[i]);
        for (int64_t j = 0; j < p->s.tk; j++) row[j] = sees[i] >> j & 1 ? 1.0 / count : 0.0;
        expect_oracle_row(p, i, row, count ? log(count) : -INFINITY);
    }
}

Test(oracle, causal_alignments) {
    problem p;
    problem_init(&p, (shape){1, 1, 1, 2, 5, 3, 5});
    fill_identity(&p);
    p.what.causal = RAPT_CAUSAL_TOP_LEFT;
    expect_sees(&p, (unsigned[]){1, 3});
    p.what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
    expect_sees(&p, (unsigned[]){15, 31});
    problem_free(&p);
    problem_init(&p, (shape){1, 1, 1, 5, 2, 3, 2});
    fill_identity(&p);
    expect_sees(&p, (unsigned[]){3, 3, 3, 3, 3});
    p.what.causal = RAPT_CAUSAL_TOP_LEFT;
    expect_sees(&p, (unsigned[]){1, 3, 3, 3, 3});
    p.what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
    expect_sees(&p, (unsigned[]){0, 0, 0, 1, 3});
    problem_free(&p);
}

Test(oracle, windows) {
    problem p;
    problem_init(&p, (shape){1, 1, 1, 4, 4, 3, 4});
    fill_identity(&p);
    p.what.window = (rapt_window){1, 2, 0};
    expect_sees(&p, (unsigned[]){1, 3, 6, 12});
    p.what.window = (rapt_window){1, 1, 1};
    expect_sees(&p, (unsigned[]){3, 6, 12, 8});
    p.what.window = (rapt_window){1, 0, 0};
    expect_sees(&p, (unsigned[]){0, 0, 0, 0});
    p.what.window = (rapt_window){1, 0, INT64_MAX};
    expect_sees(&p, (unsigned[]){14, 12, 8, 0});
    p.what.window = (rapt_window){1, INT64_MAX, INT64_MAX};
    expect_sees(&p, (unsigned[]){15, 15, 15, 15});
    p.what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
    expect_sees(&p, (unsigned[]){1, 3, 7, 15});
    problem_free(&p);
    problem_init(&p, (shape){1, 1, 1, 2, 5, 3, 5});
    fill_identity(&p);
    p.what.window = (rapt_window){1, 2, 0};
    expect_sees(&p, (unsigned[]){1, 3});
    p.what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
    expect_sees(&p, (unsigned[]){12, 24});
    problem_free(&p);
}

Test(oracle, mask_bias_and_lengths_are_anded) {
    problem p;
    problem_init(&p, (shape){1, 1, 1, 2, 4, 3, 4});
    fill_identity(&p);
    problem_mask(&p, 1, (int64_t[]){4}, LAYOUT_DENSE);
    ((uint8_t *)p.op[OP_MASK].t.data)[1] = 0;
    expect_sees(&p, (unsigned[]){13, 13});
    problem_bias(&p, 2, (int64_t[]){2, 1}, LAYOUT_DENSE);
    *(float *)p.op[OP_BIAS].t.data = -INFINITY;
    expect_sees(&p, (unsigned[]){0, 13});
    problem_lengths(&p, RAPT_I64, 1, (int64_t[]){3});
    expect_sees(&p, (unsigned[]){0, 5});
    problem_lengths(&p, RAPT_I32, 1, (int64_t[]){0});
    expect_sees(&p, (unsigned[]){0, 0});
    problem_free(&p);
}

Test(oracle, hidden_data_is_not_used) {
    problem p;
    problem_init(&p, (shape){1, 1, 1, 2, 4, 3, 4});
    fill_identity(&p);
    problem_lengths(&p, RAPT_I32, 1, (int64_t[]){2});
    fill_keys(&p, 2, 4, NAN);
    problem_full_bias(&p);
    *problem_at(&p, OP_BIAS, 0, 0, 0, 3) = NAN;
    expect_sees(&p, (unsigned[]){3, 3});
    problem_free(&p);
}

Test(oracle, grouped_heads) {
    problem p;
    problem_init(&p, (shape){1, 6, 3, 1, 2, 3, 1});
    for (int64_t h = 0; h < 3; h++) {
        for (int64_t j = 0; j < 2; j++) *problem_at(&p, OP_V, 0, h, j, 0) = (float)h;
    }
    problem_expect(&p);
    for (int64_t h = 0; h < 6; h++) {
        expect_oracle_row(&p, h, (double[]){(double)(h / 2)}, log(2.0));
    }
    problem_free(&p);
}

Test(oracle, strides_change_nothing) {
    problem dense, p;
    const shape s = {2, 4, 2, 3, 5, 4, 6};
    problem_init(&dense, s);
    fill_normal(&dense, 1);
    problem_expect(&dense);
    for (layout l = 0; l < LAYOUT_WRITABLE; l++) {
        problem_init(&p, s);
        for (operand_id id = OP_Q; id <= OP_V; id++) problem_layout(&p, id, l);
        fill_copy(&p, &dense);
        problem_expect(&p);
        const size_t bytes = (size_t)(dense.expected.rows * dense.expected.dv) * sizeof(double);
        REQUIRE(memcmp(p.expected.out, dense.expected.out, bytes) == 0, "%s", layout_name(l));
        problem_free(&p);
    }
    problem_free(&dense);
}

/* ---- Bounds ---- */

/* The formula in f32, without blocks: what a correct computation may look like. */
static void single_precision(problem *p) {
    float score[64];
    const float scale = 1.0f / sqrtf((float)p->s.d);
    for (int64_t i = 0; i < p->s.tq; i++) {
        float m = -INFINITY, l = 0.0f;
        for (int64_t j = 0; j < p->s.tk; j++) {
            float dot = 0.0f;
            for (int64_t d = 0; d < p->s.d; d++) {
                dot += *problem_at(p, OP_Q, 0, 0, i, d) * *problem_at(p, OP_K, 0, 0, j, d);
            }
            score[j] = dot * scale;
            m = fmaxf(m, score[j]);
        }
        for (int64_t j = 0; j < p->s.tk; j++) l += score[j] = expf(score[j] - m);
        for (int64_t d = 0; d < p->s.dv; d++) {
            float sum = 0.0f;
            for (int64_t j = 0; j < p->s.tk; j++)
                sum += score[j] * *problem_at(p, OP_V, 0, 0, j, d);
            *problem_at(p, OP_OUT, 0, 0, i, d) = sum / l;
        }
        *problem_at(p, OP_LSE, 0, 0, i, 0) = m + logf(l);
    }
}

Test(oracle, bounds_hold_and_bite) {
    char why[512];
    for (int kind = 0; kind < FILL_COUNT; kind++) {
        problem p;
        problem_init(&p, (shape){1, 1, 1, 8, 50, 24, 8});
        rng r = rng_make(7, (uint64_t)kind);
        fill_random(&p, OP_Q, &r, (fill_kind)kind);
        fill_random(&p, OP_K, &r, (fill_kind)kind);
        fill_random(&p, OP_V, &r, FILL_NORMAL);
        problem_expect(&p);
        single_precision(&p);
        const rapt_tensor *out = &p.op[OP_OUT].t, *lse = &p.op[OP_LSE].t;
        double worst = 0.0;
        REQUIRE(compare_oracle(out, lse, &p.expected, &worst, why, sizeof why), "kind %d: %s", kind,
                why);
        REQUIRE(worst > 1e-4, "kind %d: bounds are too wide, worst share %g", kind, worst);
        problem_free(&p);
    }
    problem p; /* standard normal: an error of 1e-4 is found */
    problem_init(&p, (shape){1, 1, 1, 8, 50, 24, 8});
    fill_normal(&p, 11);
    problem_expect(&p);
    single_precision(&p);
    *problem_at(&p, OP_OUT, 0, 0, 3, 5) += 1e-4f;
    REQUIRE(!compare_oracle(&p.op[OP_OUT].t, NULL, &p.expected, NULL, why, sizeof why),
            "not found");
    problem_free(&p);
}

/* ---- Comparators ---- */

Test(compare, nan_and_infinity) {
    cr_assert(compare_value(NAN, NAN, 0.0));
    cr_assert(!compare_value(NAN, 1.0, INFINITY));
    cr_assert(!compare_value(1.0, NAN, INFINITY));
    cr_assert(compare_value(INFINITY, INFINITY, 0.0));
    cr_assert(!compare_value(INFINITY, -INFINITY, INFINITY));
    cr_assert(!compare_value(1.0, INFINITY, INFINITY));
    cr_assert(compare_value(1.0, 1.5, 0.5));
    cr_assert(!compare_value(1.0, 1.5, 0.25));
    cr_assert(!compare_value(1.0, 1.5, NAN));
}

Test(compare, bits) {
    char why[512];
    problem a, b;
    problem_init(&a, (shape){1, 1, 1, 2, 2, 2, 2});
    problem_init(&b, (shape){1, 1, 1, 2, 2, 2, 2});
    problem_layout(&b, OP_Q, LAYOUT_BACKWARDS);
    fill_constant(&a, OP_Q, 1.0f);
    fill_copy(&b, &a);
    cr_assert(compare_bits(&a.op[OP_Q].t, &b.op[OP_Q].t, why, sizeof why));
    *problem_at(&b, OP_Q, 0, 0, 1, 1) = nextafterf(1.0f, 2.0f);
    cr_assert(!compare_bits(&a.op[OP_Q].t, &b.op[OP_Q].t, why, sizeof why));
    *problem_at(&b, OP_Q, 0, 0, 1, 1) = NAN;
    cr_assert(!compare_bits(&a.op[OP_Q].t, &b.op[OP_Q].t, why, sizeof why));
    *problem_at(&a, OP_Q, 0, 0, 1, 1) = NAN;
    cr_assert(compare_bits(&a.op[OP_Q].t, &b.op[OP_Q].t, why, sizeof why));
    problem_free(&a);
    problem_free(&b);
}

/* ---- Memory ---- */

static void touch(void *at) { *(volatile uint8_t *)at = 1; }
static const char *no_text(void) { return ""; }

Test(guard, pages_and_canaries) {
    ptrdiff_t offset = 0;
    for (size_t bytes = 0; bytes < 10000; bytes += 999) {
        guard_block after = guard_take(bytes, 1, GUARD_AFTER, 0xa5);
        guard_block before = guard_take(bytes, 1, GUARD_BEFORE, 0xa5);
        cr_assert(crash_catch(touch, after.data + bytes, no_text) != 0);
        cr_assert(crash_catch(touch, before.data - 1, no_text) != 0);
        guard_seal(&after);
        guard_seal(&before);
        cr_assert(guard_intact(&after, &offset) && guard_intact(&before, &offset));
        cr_assert(crash_catch(touch, after.data - 1, no_text) == 0);
        cr_assert(crash_catch(touch, before.data + bytes, no_text) == 0);
        cr_assert(!guard_intact(&after, &offset));
        cr_assert_eq(offset, -1);
        cr_assert(!guard_intact(&before, &offset));
        cr_assert_eq(offset, (ptrdiff_t)bytes);
        guard_accept(&after, after.data - 1, 1);
        cr_assert(guard_intact(&after, &offset));
        guard_return(&after);
        guard_return(&before);
    }
}

Test(guard, alignment_leaves_canaries) {
    ptrdiff_t offset = 0;
    guard_block b = guard_take(100, 64, GUARD_AFTER, 0xa5);
    cr_assert_eq((uintptr_t)b.data % 64, 0);
    guard_seal(&b);
    touch(b.data + 100);
    cr_assert(!guard_intact(&b, &offset));
    cr_assert_eq(offset, 100);
    guard_return(&b);
}

/* No two elements of a writable layout share memory: each holds the number last written to it. */
Test(layout, writable_layouts_do_not_overlap) {
    const int64_t sizes[][4] = {{2, 3, 4, 5}, {1, 3, 1, 5}, {2, 1, 4, 1}, {1, 1, 1, 1}};
    for (layout l = 0; l < LAYOUT_WRITABLE; l++) {
        for (int n = 0; n < 4; n++) {
            for (int32_t rank = 1; rank <= 4; rank++) {
                float memory[1024], number = 0.0f;
                int64_t before = 0, after = 0;
                rapt_tensor t = layout_tensor(l, RAPT_F32, rank, sizes[n] + 4 - rank);
                cr_assert(layout_reach(&t, &before, &after) && before + after < 1024);
                t.data = memory + before;
                for (walk w = walk_begin(&t); !w.done; walk_next(&w)) *walk_f32(&w) = ++number;
                number = 0.0f;
                for (walk w = walk_begin(&t); !w.done; walk_next(&w)) {
                    cr_assert_eq(*walk_f32(&w), ++number, "%s", layout_name(l));
                }
            }
        }
    }
}

Test(rng, is_splitmix64) {
    rng r = {1234567};
    cr_assert_eq(rng_next(&r), 6457827717110365317u);
    cr_assert_eq(rng_next(&r), 3203168211198807973u);
}
