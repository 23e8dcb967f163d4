/* SPDX-License-Identifier: MIT
 * test_range.c: large and small scores, the floating-point environment, NaN and infinity in visible
 * data. What lies behind masks is in test_poison.c. */
#include "harness.h"

#include <criterion/criterion.h>

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- The maximum ---- */

/* D 1, q 1, scale 1: scores[0..2] lie at the start of three stretches of keys; the other keys
 * are hidden. v is 1 at one of the three per column. */
static void three_scores(problem *p, const double *scores, int64_t stretch) {
    problem_init(p, (shape){1, 1, 1, 2, 3 * stretch, 1, 3});
    fill_constant(p, OP_Q, 1.0f);
    p->what.scale = (rapt_scale){1, 1.0f};
    problem_mask(p, 1, (int64_t[]){3 * stretch}, LAYOUT_DENSE);
    for (int64_t n = 0; n < 3 * stretch; n++) {
        ((uint8_t *)p->op[OP_MASK].t.data)[n] = n % stretch == 0;
        if (n % stretch != 0) continue;
        *problem_at(p, OP_K, 0, 0, n, 0) = (float)scores[n / stretch];
        *problem_at(p, OP_V, 0, 0, n, n / stretch) = 1.0f;
    }
}

static const int64_t stretches[] = {1, 7, 16, 64, 128, 300};

/* All orders of three scores, next to each other and in different tiles and blocks. */
static void expect_three(const double *scores, const double *weights, double lse) {
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t n = 0; n < sizeof stretches / sizeof *stretches; n++) {
        for (int o = 0; o < 6; o++) {
            double score[3], weight[3];
            for (int x = 0; x < 3; x++) {
                score[x] = scores[orders[o][x]];
                weight[x] = weights[orders[o][x]];
            }
            problem p;
            three_scores(&p, score, stretches[n]);
            snprintf(p.note, sizeof p.note, "scores %g %g %g", score[0], score[1], score[2]);
            expect_oracle(&p);
            expect_out(&p, 0, 0, 1, weight);
            expect_lse(&p, 0, 0, 1, lse);
            problem_free(&p);
        }
    }
}

Test(maximum, large_scores) {
    const double e = 0.7310585786, f = 0.2689414214;
    expect_three((double[]){90, 89, 0}, (double[]){e, f, 0}, 90.31326169);
    expect_three((double[]){1000, 900, 0}, (double[]){1, 0, 0}, 1000);
    expect_three((double[]){1e30, 0, -1e30}, (double[]){1, 0, 0}, 1e30);
    expect_three((double[]){2.3e38, 1e38, -2.3e38}, (double[]){1, 0, 0}, 2.3e38);
}

/* No finite number stands for "no maximum yet". */
Test(maximum, very_negative_scores) {
    expect_three((double[]){-100000, -100100, -200000}, (double[]){1, 0, 0}, -100000);
    expect_three((double[]){-1e30, -2e30, -2.3e38}, (double[]){1, 0, 0}, -1e30);
    const double third = 1.0 / 3.0;
    expect_three((double[]){-2.3e38, -2.3e38, -2.3e38}, (double[]){third, third, third}, -2.3e38);
}

Test(maximum, weights_sum_to_one) {
    problem p;
    problem_init(&p, (shape){1, 1, 1, 1, 2, 1, 1});
    fill_constant(&p, OP_Q, 1.0f);
    fill_constant(&p, OP_V, 1.0f);
    p.what.scale = (rapt_scale){1, 1.0f};
    for (float low = -10.0f; low > -1e37f; low *= 10.0f) {
        *problem_at(&p, OP_K, 0, 0, 0, 0) = low;
        *problem_at(&p, OP_K, 0, 0, 1, 0) = low - 1.0f;
        expect_oracle(&p);
        expect_out_all(&p, 0, 0, 0, 1.0);
    }
    problem_free(&p);
}

/* ---- Weights that vanish ---- */

/* Hidden keys have weight 0, not the smallest number that exp can give. */
Test(vanishing, hidden_keys_weigh_nothing) {
    for (int way = 0; way < 3; way++) {
        problem p;
        problem_init(&p, (shape){1, 1, 1, 3, 4096, 2, 1});
        snprintf(p.note, sizeof p.note, "way %d", way);
        fill_constant(&p, OP_V, way == 2 ? 1e30f : 3e38f); /* visible values are summed first */
        *problem_at(&p, OP_V, 0, 0, 1234, 0) = 1.0f;
        if (way == 0) problem_mask(&p, 1, (int64_t[]){4096}, LAYOUT_DENSE);
        if (way != 0) problem_bias(&p, 1, (int64_t[]){4096}, LAYOUT_DENSE);
        for (int64_t j = 0; j < 4096; j++) {
            if (way == 0) ((uint8_t *)p.op[OP_MASK].t.data)[j] = j == 1234;
            if (way == 1) ((float *)p.op[OP_BIAS].t.data)[j] = j == 1234 ? 0.0f : -INFINITY;
            if (way == 2) ((float *)p.op[OP_BIAS].t.data)[j] = j == 1234 ? 0.0f : -1000.0f;
        }
        expect_oracle(&p);
        for (int64_t i = 0; i < 3; i++) {
            REQUIRE(*problem_at(&p, OP_OUT, 0, 0, i, 0) == 1.0f, "row %lld: %.9g", (long long)i,
                    (double)*problem_at(&p, OP_OUT, 0, 0, i, 0));
        }
        problem_free(&p);
    }
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One key per row wins; the scores of all others lie `least` to `most` below it. */
static void gap_problem(problem *p, double least, double most) {
    problem_init(p, (shape){1, 1, 1, 384, 512, 64, 64});
    fill_normal(p, 1);
    fill_constant(p, OP_Q, 0.125f);
    rng r = rng_make(2, 0);
    p->what.scale = (rapt_scale){1, 1.0f};
    for (int64_t j = 0; j < 512; j++) {
        const float score = j == 100 ? 0.0f : (float)-rng_uniform(&r, least, most);
        for (int64_t d = 0; d < 64; d++) *problem_at(p, OP_K, 0, 0, j, d) = score / 8.0f;
    }
}

/* Weights at the edge of underflow cost no more than others: denormals are slow. */
Test(vanishing, no_denormal_stall) {
    problem normal, edge;
    double best[2] = {INFINITY, INFINITY};
    gap_problem(&normal, 19.0, 20.0);
    gap_problem(&edge, 88.0, 103.0);
    expect_oracle(&normal);
    expect_oracle(&edge);
    rapt_context *context = harness_context(1);
    for (int round = 0; round < 9; round++) {
        for (int n = 0; n < 2; n++) {
            const problem *p = n ? &edge : &normal;
            const rapt_attention_operands ops = problem_operands(p);
            const double start = seconds();
            rapt_attention_forward(context, &p->what, &ops);
            best[n] = fmin(best[n], seconds() - start);
        }
    }
    REQUIRE(best[1] <= 1.5 * best[0], "%g s against %g s", best[1], best[0]);
    problem_free(&normal);
    problem_free(&edge);
}

/* ---- The floating-point environment ---- */

enum { WORKERS = 4 };

/* What a thread's floating-point mode consists of. */
typedef struct mode {
    int rounding, traps;
    bool denormal_results, denormal_operands;
} mode;

static mode read_mode(void) {
    const volatile float tiny = 1e-39f, one = 1.0f, half = 0.5f, least = 0x1p-126f;
    return (mode){fegetround(), fegetexcept(), least * half == 0x1p-127f, tiny * one == 1e-39f};
}

static void read_all(mode *modes) {
#ifdef _OPENMP
#pragma omp parallel for num_threads(WORKERS) schedule(static, 1)
#endif
    for (int n = 0; n < WORKERS; n++) modes[n] = read_mode();
}

static void expect_default_modes(void) {
    mode modes[WORKERS];
    read_all(modes);
    for (int n = 0; n < WORKERS; n++) {
        REQUIRE(modes[n].rounding == FE_TONEAREST, "thread %d: rounding", n);
        REQUIRE(modes[n].traps == 0, "thread %d: traps", n);
        REQUIRE(modes[n].denormal_results && modes[n].denormal_operands, "thread %d: denormals", n);
    }
}

Test(environment, floating_point_mode_is_kept) {
    problem p;
    expect_default_modes();
    problem_init(&p, (shape){1, 4, 4, 200, 200, 64, 64});
    fill_normal(&p, 3);
    p.what.causal = RAPT_CAUSAL_TOP_LEFT;
    for (p.threads = 1; p.threads <= WORKERS; p.threads++) {
        expect_oracle(&p);
        expect_default_modes();
    }
    problem_free(&p);
}

/* A mode that the caller set stays, too. */
Test(environment, caller_s_rounding_is_kept) {
    problem p;
    problem_init(&p, (shape){1, 4, 4, 200, 200, 64, 64});
    fill_normal(&p, 3);
    fesetround(FE_UPWARD);
    expect_run(&p);
    const int rounding = fegetround();
    fesetround(FE_TONEAREST);
    REQUIRE(rounding == FE_UPWARD, "rounding %d", rounding);
    problem_free(&p);
}

/* Denormal inputs and results are numbers like others. */
Test(environment, denormal_values_survive) {
    problem p;
    problem_init(&p, (shape){1, 1, 1, 20, 1, 4, 20});
    for (int64_t d = 0; d < 20; d++) *problem_at(&p, OP_V, 0, 0, 0, d) = 1e-39f * (float)(d + 1);
    expect_run(&p);
    for (walk w = walk_begin(&p.op[OP_OUT].t); !w.done; walk_next(&w)) {
        const float want = *problem_at(&p, OP_V, 0, 0, 0, w.index[3]);
        REQUIRE(*walk_f32(&w) == want, "%g, want %g", (double)*walk_f32(&w), (double)want);
    }
    problem_free(&p);
}

/* ---- NaN and infinity in visible data ---- */

/* B1 H1 T70 D20 normal, compared with the same after one element has changed: rows and columns
 * for which hit() is true are NaN, all others keep their bits. */
static problem clean, spoilt;

static void spoil_begin(int64_t tq) {
    problem_init(&clean, (shape){1, 1, 1, tq, 70, 20, 20});
    fill_normal(&clean, 4);
    clean.what.causal = RAPT_CAUSAL_NONE;
    problem_full_bias(&clean);
    expect_oracle(&clean);
    problem_init(&spoilt, clean.s);
    problem_full_bias(&spoilt);
    fill_copy(&spoilt, &clean);
}

/* row, column: the one that is NaN, or -1 for all of them. */
static void expect_spoilt(int64_t row, int64_t column) {
    expect_oracle(&spoilt);
    for (walk w = walk_begin(&spoilt.op[OP_OUT].t); !w.done; walk_next(&w)) {
        const int64_t i = w.index[2], d = w.index[3];
        const float got = *walk_f32(&w), was = *problem_at(&clean, OP_OUT, 0, 0, i, d);
        const bool hit = (row < 0 || row == i) && (column < 0 || column == d);
        REQUIRE(hit ? isnan(got) : memcmp(&got, &was, sizeof got) == 0,
                "out[%lld,%lld] = %g, was %g", (long long)i, (long long)d, (double)got,
                (double)was);
    }
    for (int64_t i = 0; i < spoilt.s.tq; i++) {
        const float got = *problem_at(&spoilt, OP_LSE, 0, 0, i, 0);
        const float was = *problem_at(&clean, OP_LSE, 0, 0, i, 0);
        const bool hit = (row < 0 || row == i) && column < 0;
        REQUIRE(hit ? isnan(got) : got == was, "lse[%lld] = %g", (long long)i, (double)got);
    }
}

static void spoil_end(void) {
    problem_free(&clean);
    problem_free(&spoilt);
}

Test(visible_nan, in_q_reaches_its_row) {
    for (int64_t tq = 2; tq <= 70; tq += 34) {
        spoil_begin(tq);
        for (int64_t d = 0; d < 20; d++) {
            float *at = problem_at(&spoilt, OP_Q, 0, 0, 1, d), was = *at;
            *at = NAN;
            expect_spoilt(1, -1);
            *at = was;
        }
        spoil_end();
    }
}

Test(visible_nan, in_k_reaches_every_row_that_sees_it) {
    const int64_t rows[] = {0, 1, 15, 16, 47, 48, 63, 69};
    spoil_begin(70);
    for (int n = 0; n < 8; n++) {
        for (int64_t d = 0; d < 20; d += 19) {
            float *at = problem_at(&spoilt, OP_K, 0, 0, rows[n], d), was = *at;
            *at = NAN;
            expect_spoilt(-1, -1);
            *at = was;
        }
    }
    spoil_end();
}

Test(visible_nan, in_v_reaches_its_column) {
    const int64_t rows[] = {0, 1, 15, 16, 47, 48, 63, 69};
    spoil_begin(70);
    for (int n = 0; n < 8; n++) {
        for (int64_t d = 0; d < 20; d++) {
            float *at = problem_at(&spoilt, OP_V, 0, 0, rows[n], d), was = *at;
            *at = NAN;
            expect_spoilt(-1, d);
            *at = was;
        }
    }
    spoil_end();
}

Test(visible_nan, in_bias_reaches_its_row) {
    const float values[] = {NAN, INFINITY};
    spoil_begin(70);
    for (int64_t n = 0; n < 2 * 70; n++) {
        float *at = problem_at(&spoilt, OP_BIAS, 0, 0, n % 70, n * 37 % 70), was = *at;
        *at = values[n / 70];
        expect_spoilt(n % 70, -1);
        *at = was;
    }
    spoil_end();
}

/* +inf in V: the column is +inf, the others keep their bits. */
Test(visible_nan, infinity_in_v) {
    spoil_begin(70);
    *problem_at(&spoilt, OP_V, 0, 0, 33, 7) = INFINITY;
    expect_oracle(&spoilt);
    for (walk w = walk_begin(&spoilt.op[OP_OUT].t); !w.done; walk_next(&w)) {
        const float was = *problem_at(&clean, OP_OUT, 0, 0, w.index[2], w.index[3]);
        REQUIRE(*walk_f32(&w) == (w.index[3] == 7 ? INFINITY : was), "row %lld column %lld: %g",
                (long long)w.index[2], (long long)w.index[3], (double)*walk_f32(&w));
    }
    spoil_end();
}

/* A NaN key that a causal limit hides from the first rows leaves them alone. */
Test(visible_nan, in_k_under_causal) {
    spoil_begin(70);
    clean.what.causal = spoilt.what.causal = RAPT_CAUSAL_TOP_LEFT;
    expect_run(&clean);
    for (int64_t j = 0; j < 70; j += 3) {
        float *at = problem_at(&spoilt, OP_K, 0, 0, j, 3), was = *at;
        *at = NAN;
        expect_oracle(&spoilt);
        for (int64_t i = 0; i < 70; i++) {
            const float got = *problem_at(&spoilt, OP_OUT, 0, 0, i, 5);
            const float want = *problem_at(&clean, OP_OUT, 0, 0, i, 5);
            REQUIRE(i >= j ? isnan(got) : got == want, "key %lld row %lld: %g", (long long)j,
                    (long long)i, (double)got);
        }
        *at = was;
    }
    spoil_end();
}
