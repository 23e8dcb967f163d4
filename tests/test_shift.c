/* SPDX-License-Identifier: MIT
 * What the fused softmax subtracts from scores follows the maximum only as far as it must
 * (simd/softmax.h): scores of every size and drift, and rows that differ in it side by side. */
#include "plain.h"
#include "rng.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* One query, keys and values of size 1: scores[j] = k[j]. */
static rapt_status attend_scores(rapt_context *context, float *k, float *v, int64_t keys,
                                 float *out, float *lse) {
    float q = 1;
    const rapt_tensor tq = rapt_tensor_4d(RAPT_F32, &q, 1, 1, 1, 1);
    const rapt_tensor tk = rapt_tensor_4d(RAPT_F32, k, 1, 1, keys, 1);
    const rapt_tensor tv = rapt_tensor_4d(RAPT_F32, v, 1, 1, keys, 1);
    const rapt_tensor to = rapt_tensor_4d(RAPT_F32, out, 1, 1, 1, 1);
    const rapt_tensor tl = rapt_tensor_3d(RAPT_F32, lse, 1, 1, 1);
    const rapt_attention what = {0};
    const rapt_attention_operands operands = {.q = &tq, .k = &tk, .v = &tv, .out = &to, .lse = &tl};
    return rapt_attention_forward(context, &what, &operands);
}

/* Far below the maximum the weight is exactly 0; not yet at e^-79 of it. */
Test(shift, smallest_weight) {
    static const float largest[] = {0, 7.5f, -7.5f, 30, -50};
    rapt_context *context = plain_context(1, NULL);
    for (int i = 0; i < 5; i++) {
        float k[2] = {largest[i], largest[i] - 79.0f}, v[2] = {0, 1}, out = -1, lse;
        const float want = expf(k[1] - k[0]);
        cr_assert_eq(attend_scores(context, k, v, 2, &out, &lse), RAPT_OK);
        cr_expect_leq(fabsf(out - want), 1e-5f * want, "%g instead of %g", (double)out,
                      (double)want);
        k[1] = largest[i] - 96.0f;
        cr_assert_eq(attend_scores(context, k, v, 2, &out, &lse), RAPT_OK);
        cr_expect_eq(out, 0.0f);
    }
    rapt_context_destroy(context);
}

/* Scores that rise or fall over many blocks: what is subtracted follows the maximum up. */
Test(shift, scores_that_drift) {
    enum { KEYS = 900 };
    static const float steps[] = {0.01f, 0.05f, 0.3f, 2, 400, -0.01f, -0.05f, -0.3f, -2, -400};
    static const float starts[] = {0, 20, -600};
    rapt_context *context = plain_context(1, NULL);
    float k[KEYS], v[KEYS];
    for (int n = 0; n < 30; n++) {
        double sum = 0, top = 0, total = 0;
        for (int j = 0; j < KEYS; j++) {
            k[j] = starts[n / 10] + steps[n % 10] * (float)j;
            v[j] = (float)(j % 7) - 2.5f;
        }
        const double max = (double)(k[0] > k[KEYS - 1] ? k[0] : k[KEYS - 1]);
        for (int j = 0; j < KEYS; j++) {
            const double p = exp((double)k[j] - max);
            sum += p;
            top += p * (double)v[j];
            total += p * fabs((double)v[j]);
        }
        float out = -1, lse = -1;
        cr_assert_eq(attend_scores(context, k, v, KEYS, &out, &lse), RAPT_OK);
        const double error = fabs((double)out - top / sum),
                     error_lse = (double)lse - max - log(sum);
        cr_expect_leq(error, 2e-6 * total / sum, "from %g by %g: out off by %.3g",
                      (double)starts[n / 10], (double)steps[n % 10], error);
        cr_expect_leq(fabs(error_lse), 2e-7 * (fabs(max) + log(sum) + 1.0),
                      "from %g by %g: lse off by %.3g", (double)starts[n / 10],
                      (double)steps[n % 10], error_lse);
    }
    rapt_context_destroy(context);
}

/* A row's bits do not depend on whether rows beside it have scores that move what is subtracted. */
Test(shift, wild_rows_beside_calm_ones) {
    enum { ROWS = 150, KEYS = 700, DIM = 24 };
    rapt_context *context = plain_context(1, NULL);
    static float q[ROWS * DIM], k[KEYS * DIM], v[KEYS * DIM], out[2][ROWS * DIM], lse[2][ROWS];
    rng r = rng_make(77, 0);
    for (int i = 0; i < ROWS * DIM; i++) { q[i] = (float)rng_normal(&r); }
    for (int i = 0; i < KEYS * DIM; i++) {
        k[i] = (float)rng_normal(&r) * (1.0f + (float)i * 2e-4f);
    }
    for (int i = 0; i < KEYS * DIM; i++) { v[i] = (float)rng_normal(&r); }
    for (int wild = 0; wild < 2; wild++) {
        for (int i = 0; wild && i < ROWS * DIM; i++) { q[i] *= i / DIM % 9 == 4 ? 60.0f : 1.0f; }
        const rapt_tensor tq = rapt_tensor_4d(RAPT_F32, q, 1, 1, ROWS, DIM);
        const rapt_tensor tk = rapt_tensor_4d(RAPT_F32, k, 1, 1, KEYS, DIM);
        const rapt_tensor tv = rapt_tensor_4d(RAPT_F32, v, 1, 1, KEYS, DIM);
        const rapt_tensor to = rapt_tensor_4d(RAPT_F32, out[wild], 1, 1, ROWS, DIM);
        const rapt_tensor tl = rapt_tensor_3d(RAPT_F32, lse[wild], 1, 1, ROWS);
        const rapt_attention what = {0};
        const rapt_attention_operands operands = {
            .q = &tq, .k = &tk, .v = &tv, .out = &to, .lse = &tl};
        cr_assert_eq(rapt_attention_forward(context, &what, &operands), RAPT_OK);
    }
    for (int i = 0; i < ROWS; i++) {
        const bool same = lse[0][i] == lse[1][i] &&
                          memcmp(out[0] + i * DIM, out[1] + i * DIM, sizeof(float[DIM])) == 0;
        cr_expect_eq(same, i % 9 != 4, "row %d", i);
    }
    rapt_context_destroy(context);
}
