/* SPDX-License-Identifier: MIT
 * test_oracle_dropout.c: the oracle's dropout, weights, given scores and additive scores against
 * published vectors and closed forms. The library is not called. */
#include "compare.h"
#include "harness.h"
#include "oracle_dropout.h"

#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

/* ---- Which weights are kept ---- */

/* Salmon et al. publish these with their code (known answers of philox4x32, 10 rounds). */
Test(oracle_dropout, published_vectors) {
    static const uint32_t vectors[][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d,
         0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
         0x94fdcceb, 0x5001e420, 0x24126ea1},
    };
    for (int n = 0; n < 3; n++) {
        uint32_t out[4];
        oracle_philox(vectors[n], vectors[n] + 4, out);
        cr_expect(memcmp(out, vectors[n] + 6, sizeof out) == 0, "vector %d", n);
    }
}

/* key 0 of item 0, query 0, seed 0, offset 0 has the first word of the first vector above:
 * 0x6627e8d5 as int32_t is 1713891541. */
Test(oracle_dropout, threshold) {
    const double word = 1713891541.0;
    const double at = (word + 0x1p31) * 0x1p-32; /* kept iff below 1 - p */
    rapt_dropout d = {1, 1.0 - at, 0, 0};
    cr_expect(!oracle_philox_keep(&d, 0, 0, 0), "the word is not below itself");
    d.p = 1.0 - at - 0x1p-32;
    cr_expect(oracle_philox_keep(&d, 0, 0, 0), "one more");
    d.p = 0.0;
    cr_expect(oracle_philox_keep(&d, 0, 0, 0));
    d.p = 1.0;
    cr_expect(!oracle_philox_keep(&d, 0, 0, 0));
    d.p = 0.5; /* words: positive, negative, negative, negative */
    cr_expect(!oracle_philox_keep(&d, 0, 0, 0) && oracle_philox_keep(&d, 0, 0, 1) &&
              oracle_philox_keep(&d, 0, 0, 2) && oracle_philox_keep(&d, 0, 0, 3));
}

/* ---- Results ---- */

static void expect_values(const double *got, const double *want, int64_t n, const char *name) {
    for (int64_t i = 0; i < n; i++) {
        REQUIRE(compare_value(got[i], want[i], 1e-12 * fabs(want[i])), "%s %lld: %.17g", name,
                (long long)i, got[i]);
    }
}

/* q = 0, three keys with v = 1, 10, 100; the middle weight is dropped. */
static void one_dropped(problem *p) {
    problem_init(p, (shape){1, 1, 1, 1, 3, 2, 1});
    for (int64_t j = 0; j < 3; j++) *problem_at(p, OP_V, 0, 0, j, 0) = powf(10.0f, (float)j);
    problem_layout(p, OP_WEIGHTS, LAYOUT_DENSE);
    problem_keep(p, 1, (int64_t[]){3}, LAYOUT_DENSE);
    ((uint8_t *)p->op[OP_KEEP].t.data)[1] = 0;
}

Test(oracle_dropout, results) {
    problem p;
    one_dropped(&p);
    const double third = 1.0 / 3.0, ln3 = log(3.0);
    problem_expect(&p); /* not training */
    expect_values(p.expected.out, (double[]){37.0}, 1, "out");
    expect_values(p.expected.weights, (double[]){third, third, third}, 3, "weights");
    p.what.dropout = (rapt_dropout){1, 0.75, 0, 0};
    problem_expect(&p);
    expect_values(p.expected.out, (double[]){4.0 * third * 101.0}, 1, "out");
    expect_values(p.expected.lse, &ln3, 1, "lse");
    expect_values(p.expected.weights, (double[]){4 * third, 0, 4 * third}, 3, "weights after");
    p.what.weights_before_dropout = 1;
    problem_expect(&p);
    expect_values(p.expected.out, (double[]){4.0 * third * 101.0}, 1, "out");
    expect_values(p.expected.weights, (double[]){third, third, third}, 3, "weights before");
    p.what.weights_before_dropout = 0;
    p.what.dropout.p = 1.0;
    problem_expect(&p);
    expect_values(p.expected.out, (double[]){0.0}, 1, "out");
    expect_values(p.expected.weights, (double[]){0, 0, 0}, 3, "weights");
    p.what.dropout.p = 0.0;
    problem_expect(&p);
    expect_values(p.expected.weights, (double[]){third, third, third}, 3, "weights");
    problem_free(&p);
}

Test(oracle_dropout, given_scores) {
    problem p;
    problem_init_pass(&p, (shape){1, 1, 1, 2, 3, 0, 0});
    const float scores[6] = {1000, 999, NAN, -INFINITY, -INFINITY, NAN};
    memcpy(p.op[OP_WEIGHTS].t.data, scores, sizeof scores);
    problem_lengths(&p, RAPT_I32, 1, (int64_t[]){2});
    problem_expect(&p); /* scale 1 */
    const double e = exp(-1.0);
    expect_values(p.expected.weights, (double[]){1 / (1 + e), e / (1 + e), 0, 0, 0, 0}, 6, "1");
    expect_values(p.expected.lse, (double[]){1000 + log(1 + e), -INFINITY}, 2, "lse");
    p.what.scale = (rapt_scale){1, -1.0f};
    *problem_at(&p, OP_WEIGHTS, 0, 0, 1, 0) = 0.0f;
    *problem_at(&p, OP_WEIGHTS, 0, 0, 1, 1) = 0.0f;
    problem_expect(&p);
    expect_values(p.expected.weights, (double[]){e / (1 + e), 1 / (1 + e), 0, 0.5, 0.5, 0}, 6,
                  "-1");
    problem_free(&p);
}

/* v . tanh(Wq q + Wk k) with U = 2, D = 1, a key of 2 numbers. */
Test(oracle_dropout, additive_scores) {
    problem p;
    problem_init(&p, (shape){1, 1, 1, 1, 2, 1, 2});
    p.call = CALL_SCORED;
    p.score = RAPT_SCORE_ADDITIVE;
    problem_additive(&p, 2, 2);
    problem_layout(&p, OP_WEIGHTS, LAYOUT_DENSE);
    fill_identity(&p);
    const float wq[] = {0.5f, -1.0f}, wk[] = {1.0f, 0.25f, 0.0f, 2.0f}, v[] = {3.0f, -0.5f};
    const float q[] = {2.0f}, k[] = {0.0f, 0.0f, -1.0f, 1.0f};
    memcpy(p.op[OP_W_QUERY].t.data, wq, sizeof wq);
    memcpy(p.op[OP_W_KEY].t.data, wk, sizeof wk);
    memcpy(p.op[OP_W_V].t.data, v, sizeof v);
    memcpy(p.op[OP_Q].t.data, q, sizeof q);
    memcpy(p.op[OP_K].t.data, k, sizeof k);
    const double s0 = 3.0 * tanh(1.0) - 0.5 * tanh(-2.0);
    const double s1 = 3.0 * tanh(1.0 - 1.0 + 0.25) - 0.5 * tanh(-2.0 + 2.0);
    const double l = exp(s0) + exp(s1), want[2] = {exp(s0) / l, exp(s1) / l};
    problem_expect(&p);
    expect_values(p.expected.weights, want, 2, "weights");
    expect_values(p.expected.out, want, 2, "out");
    expect_values(p.expected.lse, (double[]){log(l)}, 1, "lse");
    p.score = RAPT_SCORE_DOT;
    problem_drop(&p, OP_W_QUERY);
    p.additive = false;
    problem_layout(&p, OP_K, LAYOUT_DENSE);
    *problem_at(&p, OP_K, 0, 0, 1, 0) = 0.5f; /* scores 0 and 1 */
    problem_expect(&p);
    expect_values(p.expected.lse, (double[]){log1p(exp(1.0))}, 1, "lse of dot");
    problem_free(&p);
}

/* ---- Bounds ---- */

/* Weights computed in f32 stay within the bounds and use some of them. */
Test(oracle_dropout, bounds_of_weights_hold_and_bite) {
    char why[512];
    for (int kind = 0; kind < FILL_COUNT; kind++) {
        problem p;
        problem_init_pass(&p, (shape){1, 1, 1, 8, 50, 0, 0});
        rng r = rng_make(7, (uint64_t)kind);
        fill_random(&p, OP_WEIGHTS, &r, (fill_kind)kind);
        p.what.dropout = (rapt_dropout){1, 0.3, 5, 6};
        problem_expect(&p);
        for (int64_t i = 0; i < 8; i++) {
            float m = -INFINITY, l = 0.0f, *row = problem_at(&p, OP_WEIGHTS, 0, 0, i, 0);
            for (int64_t j = 0; j < 50; j++) m = fmaxf(m, row[j]);
            for (int64_t j = 0; j < 50; j++) l += row[j] = expf(row[j] - m);
            for (int64_t j = 0; j < 50; j++) {
                const bool kept = oracle_philox_keep(&p.what.dropout, 0, (uint64_t)i, (uint64_t)j);
                row[j] *= kept ? (float)(1.0 / 0.7) / l : 0.0f;
            }
        }
        const rapt_tensor *weights = &p.op[OP_WEIGHTS].t;
        double worst = 0.0;
        REQUIRE(compare_weights(weights, &p.expected, &worst, why, sizeof why), "kind %d: %s", kind,
                why);
        REQUIRE(worst > 1e-4, "kind %d: bounds are too wide, worst share %g", kind, worst);
        float *largest = problem_at(&p, OP_WEIGHTS, 0, 0, 0, 0);
        for (int64_t j = 1; j < 50; j++) {
            float *at = problem_at(&p, OP_WEIGHTS, 0, 0, 0, j);
            if (*at > *largest) largest = at;
        }
        *largest *= 1.001f;
        REQUIRE(!compare_weights(weights, &p.expected, NULL, why, sizeof why), "not found");
        problem_free(&p);
    }
}
