/* SPDX-License-Identifier: MIT
 * What the fused softmax subtracts from scores follows the maximum only as far as it must
 * (simd/softmax.h): scores of every size and drift, and rows that differ in it side by side. */
#include "plain.h"

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

/* Far below the maximum the weight is exactly 0; not yet at e^-78 of it. */
Test(shift, smallest_weight) {
    static const float largest[] = {0, 8.2f, -8.2f, 30, -50};
    rapt_context *context = plain_context(1, NULL);
    for (int i = 0; i < 5; i++) {
        float k[2] = {largest[i], largest[i] - 78.0f}, v[2] = {0, 1}, out = -1, lse;
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
    enum { COUNT = 900 };
    static const float steps[] = {0.01f, 0.05f, 0.3f, 2, 400, -0.01f, -0.05f, -0.3f, -2, -400, 0};
    static const float starts[] = {0, 8.3f, 20, -600};
    rapt_context *context = plain_context(1, NULL);
    float k[COUNT], v[COUNT];
    for (int n = 0; n < 44; n++) {
        double sum = 0, top = 0, total = 0;
        for (int j = 0; j < COUNT; j++) {
            k[j] = starts[n / 11] + steps[n % 11] * (float)j;
            v[j] = (float)(j % 7) - 2.5f;
        }
        const double max = (double)(k[0] > k[COUNT - 1] ? k[0] : k[COUNT - 1]);
        for (int j = 0; j < COUNT; j++) {
            const double p = exp((double)k[j] - max);
            sum += p;
            top += p * (double)v[j];
            total += p * fabs((double)v[j]);
        }
        float out = -1, lse = -1;
        cr_assert_eq(attend_scores(context, k, v, COUNT, &out, &lse), RAPT_OK);
        const double error = fabs((double)out - top / sum),
                     error_lse = (double)lse - max - log(sum);
        /* the largest scores decide, rounded once as octaves */
        const double score_error = 0x1p-24 * fabs(max);
        cr_expect_leq(error, (2e-6 + 2 * score_error) * total / sum,
                      "from %g by %g: out off by %.3g", (double)starts[n / 11],
                      (double)steps[n % 11], error);
        cr_expect_leq(fabs(error_lse), 2e-7 * (fabs(max) + log(sum) + 1.0),
                      "from %g by %g: lse off by %.3g", (double)starts[n / 11],
                      (double)steps[n % 11], error_lse);
    }
    rapt_context_destroy(context);
}

/* ---- Rows beside each other ---- */

enum { ROWS = 300, KEYS = 700, DIM = 24, FORMS = 5 };

static const plain_sizes two_heads = {1, 2, 1, ROWS / 2, KEYS, DIM, DIM};

typedef enum row_kind { CALM, WILD, BROKEN } row_kind;

static row_kind kind_of(int64_t row) { return row % 9 == 4 ? WILD : row % 31 == 7 ? BROKEN : CALM; }

/* Wild rows get scores that move what is subtracted block by block, broken ones NaN or infinity. */
static void disturb(plain *p, bool wild, bool broken) {
    float *q = p->q.data;
    for (int64_t i = 0; i < ROWS * DIM; i++) {
        const row_kind kind = kind_of(i / DIM);
        if (wild && kind == WILD) { q[i] *= i / DIM % 2 ? 60.0f : 4e9f; }
        if (broken && kind == BROKEN && i % DIM == 3) { q[i] = i / DIM % 2 ? NAN : INFINITY; }
    }
}

/* Full, causal, dropout, bool mask, bias. */
static void choose_form(plain *p, int form, rapt_tensor *extra) {
    static bool mask[KEYS];
    static float bias[KEYS];
    for (int j = 0; j < KEYS; j++) {
        mask[j] = j % 5 != 2;
        bias[j] = j % 7 == 3 ? -INFINITY : 0.01f * (float)j;
    }
    p->what.causal = form == 1 ? RAPT_CAUSAL_BOTTOM_RIGHT : RAPT_CAUSAL_NONE;
    if (form == 2) { p->what.dropout = (rapt_dropout){.training = 1, .p = 0.25, .seed = 9}; }
    *extra =
        form == 3 ? rapt_tensor_1d(RAPT_BOOL, mask, KEYS) : rapt_tensor_1d(RAPT_F32, bias, KEYS);
    p->operands.mask = form == 3 ? extra : NULL;
    p->operands.bias = form == 4 ? extra : NULL;
}

static bool same_row(const plain *a, const plain *b, int64_t row) {
    const float *x = a->out.data, *y = b->out.data;
    return memcmp(x + row * DIM, y + row * DIM, sizeof(float[DIM])) == 0 &&
           memcmp((float *)a->lse.data + row, (float *)b->lse.data + row, sizeof(float)) == 0;
}

/* A row's bits do not depend on whether rows beside it have scores that move what is subtracted, or
 * are NaN; nor do theirs on the cut into tasks. */
Test(shift, wild_and_broken_rows_beside_calm_ones) {
    rapt_context *one = plain_context(1, NULL), *many = plain_context(5, NULL);
    for (int form = 0; form < FORMS; form++) {
        plain p[4]; /* all calm; with both; with both on other threads; broken ones alone */
        for (int n = 0; n < 4; n++) {
            rapt_tensor extra;
            plain_make(&p[n], two_heads, 77);
            choose_form(&p[n], form, &extra);
            disturb(&p[n], n == 1 || n == 2, n > 0);
            cr_assert_eq(plain_run(&p[n], n == 2 ? many : one), RAPT_OK);
        }
        for (int64_t row = 0; row < ROWS; row++) {
            cr_expect_eq(same_row(&p[0], &p[1], row), kind_of(row) == CALM, "form %d row %d", form,
                         (int)row);
            cr_expect(same_row(&p[1], &p[2], row), "form %d row %d: other threads", form, (int)row);
            cr_expect(kind_of(row) == WILD || same_row(&p[1], &p[3], row),
                      "form %d row %d: other neighbours", form, (int)row);
        }
        for (int n = 0; n < 4; n++) { plain_free(&p[n]); }
    }
    rapt_context_destroy(one);
    rapt_context_destroy(many);
}
