/* SPDX-License-Identifier: MIT
 * test_masking.c: the two masking routes of section 3.5.1. They agree; without the last step of the
 * first one, hidden scores leak into the visible weights. And the check of row sums. */
#include "box.h"
#include "compare.h"
#include "harness.h"

#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

static void must(rapt_status status) {
    REQUIRE(status == RAPT_OK, "%s: %s", rapt_status_name(status),
            rapt_context_message(harness_context(2)));
}

static void softmax(const box *b) { must(rapt_softmax(harness_context(2), &b->t, &b->t)); }

static void fill(const box *b, rapt_causal causal, float value) {
    must(rapt_mask_fill(harness_context(2), causal, value, &b->t));
}

static void normalise(const box *b) { must(rapt_normalise_rows(harness_context(2), &b->t)); }

static bool hidden(rapt_causal causal, int64_t i, int64_t j, int64_t queries, int64_t keys) {
    if (causal == RAPT_CAUSAL_NONE) return false;
    return j > (causal == RAPT_CAUSAL_TOP_LEFT ? i : i + keys - queries);
}

static box scores(layout l, const int64_t size[4]) {
    box b = box_make(l, 4, size);
    box_fill(&b, 11, FILL_NORMAL);
    return b;
}

/* ---- Filling ---- */

static void check_fill(layout l, const int64_t size[4], rapt_causal causal, float value) {
    box b = scores(l, size), before = scores(l, size);
    box_seal(&b);
    fill(&b, causal, value);
    box_kept_outside(&b, __LINE__);
    walk was = walk_begin(&before.t);
    for (walk w = walk_begin(&b.t); !w.done; walk_next(&w), walk_next(&was)) {
        const bool out = hidden(causal, w.index[2], w.index[3], size[2], size[3]);
        REQUIRE(compare_value((double)*walk_f32(&w), (double)(out ? value : *walk_f32(&was)), 0.0),
                "query %lld, key %lld of %lld x %lld, causal %d", (long long)w.index[2],
                (long long)w.index[3], (long long)size[2], (long long)size[3], (int)causal);
    }
    box_free(&b);
    box_free(&before);
}

Test(masking, fill_follows_the_alignment) {
    for (rapt_causal causal = RAPT_CAUSAL_NONE; causal <= RAPT_CAUSAL_BOTTOM_RIGHT; causal++) {
        for (layout l = 0; l < LAYOUT_WRITABLE; l++) {
            check_fill(l, (int64_t[]){2, 3, 6, 6}, causal, -INFINITY);
            check_fill(l, (int64_t[]){1, 2, 9, 4}, causal, 0.0f);
            check_fill(l, (int64_t[]){2, 1, 1, 7}, causal, NAN);
            check_fill(l, (int64_t[]){2, 1, 3, 8}, causal, 1e38f);
            check_fill(l, (int64_t[]){2, 0, 3, 8}, causal, 1.0f);
            check_fill(l, (int64_t[]){2, 2, 3, 0}, causal, 1.0f);
        }
        check_fill(LAYOUT_DENSE, (int64_t[]){2, 2, 300, 300}, causal, -1.0f);
    }
}

/* ---- Normalising ---- */

Test(masking, rows_are_divided_by_their_sums) {
    for (layout l = 0; l < LAYOUT_WRITABLE; l++) {
        for (int64_t n = 0; n < 40; n += 1 + n / 3) {
            const int64_t size[4] = {2, 3, 5, n};
            box b = scores(l, size), before = scores(l, size);
            for (walk w = walk_begin(&b.t); !w.done; walk_next(&w)) {
                float *x = walk_f32(&w);
                *x = w.index[2] == 1 ? 0.0f : fabsf(*x);
                if (w.index[2] == 2) *x = w.index[3] == 0 ? 1.0f : w.index[3] == 1 ? -1.0f : 0.0f;
                if (w.index[2] == 3 && w.index[3] == n / 2) *x = NAN;
            }
            box_copy(&before, &b);
            box_seal(&b);
            normalise(&b);
            box_kept_outside(&b, __LINE__);
            walk was = walk_begin(&before.t);
            for (walk w = walk_begin(&b.t); !w.done; walk_next(&w), walk_next(&was)) {
                double sum = 0.0;
                const float *row = walk_f32(&was) - w.index[3] * before.t.stride[3];
                for (int64_t j = 0; j < n; j++) sum += (double)row[j * before.t.stride[3]];
                const double want = sum == 0.0 ? 0.0 : (double)*walk_f32(&was) / sum;
                REQUIRE(compare_value((double)*walk_f32(&w), want, 0x1.01p-24 * want),
                        "row %lld of %lld: %.9g, want %.9g", (long long)w.index[2], (long long)n,
                        (double)*walk_f32(&w), want);
            }
            box_free(&b);
            box_free(&before);
        }
    }
}

/* ---- Row sums ---- */

Test(masking, row_sum_error) {
    float x[5][9];
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < 9; j++) x[i][j] = i == 3 ? 0.0f : (j < 8 ? 0.125f : 0.0f);
    }
    double worst = 7.0;
    const rapt_tensor t = rapt_tensor_2d(RAPT_F32, x, 5, 9);
    must(rapt_row_sum_error(harness_context(2), &t, &worst));
    cr_expect(worst == 0.0, "rows of 1, one of zeros: %g", worst);
    x[1][8] = 0.25f;
    x[4][0] = 0.0f;
    must(rapt_row_sum_error(harness_context(2), &t, &worst));
    cr_expect(worst == 0.25);
    x[0][0] = NAN;
    must(rapt_row_sum_error(harness_context(2), &t, &worst));
    cr_expect(isnan(worst));
    x[0][0] = 1.0f;
    x[4][8] = NAN;
    must(rapt_row_sum_error(harness_context(2), &t, &worst));
    cr_expect(isnan(worst));
    const rapt_tensor column = rapt_tensor_transpose(rapt_tensor_2d(RAPT_F32, x, 1, 9));
    must(rapt_row_sum_error(harness_context(2), &column, &worst));
    cr_expect(worst == 0.875, "strided: %g", worst);
    const rapt_tensor none = rapt_tensor_2d(RAPT_F32, NULL, 4, 0);
    must(rapt_row_sum_error(harness_context(2), &none, &worst));
    cr_expect(worst == 0.0);
}

/* ---- The routes ---- */

/* Weights of causal order: 1 is e / l, e and l from one softmax, so both routes differ by the
 * roundings of two softmaxes and a quotient (a few dozen terms, |scores| <= 3.5). */
static void check_routes(const int64_t size[4], rapt_causal causal) {
    box a = scores(LAYOUT_DENSE, size), b = scores(LAYOUT_DENSE, size);
    softmax(&a);
    fill(&a, causal, 0.0f);
    normalise(&a);
    fill(&b, causal, -INFINITY);
    softmax(&b);
    const double tol = (2.0 * (7.0 + (double)size[3]) + 8.0) * 0x1p-24;
    walk wb = walk_begin(&b.t);
    for (walk wa = walk_begin(&a.t); !wa.done; walk_next(&wa), walk_next(&wb)) {
        const double p = (double)*walk_f32(&wb);
        REQUIRE(compare_value((double)*walk_f32(&wa), p, tol * p), "%.9g and %.9g",
                (double)*walk_f32(&wa), p);
        if (hidden(causal, wa.index[2], wa.index[3], size[2], size[3])) cr_assert(p == 0.0);
    }
    double worst = 1.0;
    must(rapt_row_sum_error(harness_context(2), &a.t, &worst));
    cr_expect(worst < ((double)size[3] + 8.0) * 0x1p-24);
    must(rapt_row_sum_error(harness_context(2), &b.t, &worst));
    cr_expect(worst < ((double)size[3] + 8.0) * 0x1p-24);
    box_free(&a);
    box_free(&b);
}

Test(masking, both_routes_agree) {
    for (rapt_causal causal = RAPT_CAUSAL_NONE; causal <= RAPT_CAUSAL_BOTTOM_RIGHT; causal++) {
        check_routes((int64_t[]){2, 3, 6, 6}, causal);
        check_routes((int64_t[]){1, 2, 33, 50}, causal);
        check_routes((int64_t[]){1, 2, 50, 33}, causal); /* rows that see nothing */
        check_routes((int64_t[]){1, 1, 100, 100}, causal);
    }
}

/* Weights of the book's 6 x 6 shape after a route, with the last score of row 1 (hidden) set. */
static box route(float hidden_score, bool masked_first, bool normalised) {
    box b = scores(LAYOUT_DENSE, (int64_t[]){1, 1, 6, 6});
    *tensor_f32(&b.t, 0, 0, 1, 5) = hidden_score;
    if (masked_first) fill(&b, RAPT_CAUSAL_TOP_LEFT, -INFINITY);
    softmax(&b);
    if (!masked_first) fill(&b, RAPT_CAUSAL_TOP_LEFT, 0.0f);
    if (normalised) normalise(&b);
    return b;
}

Test(masking, hidden_scores_leak_without_renormalising) {
    box low = route(-1.0f, false, false), high = route(3.0f, false, false);
    const double with_low = (double)*tensor_f32(&low.t, 0, 0, 1, 0);
    const double with_high = (double)*tensor_f32(&high.t, 0, 0, 1, 0);
    cr_expect(with_high < 0.7 * with_low, "a hidden score is seen in a visible weight: %g, %g",
              with_low, with_high);
    double worst = 0.0;
    must(rapt_row_sum_error(harness_context(2), &high.t, &worst));
    cr_expect(worst > 0.3, "rows do not sum to 1: %g", worst);
    box_free(&low);
    box_free(&high);
}

Test(masking, nothing_leaks_otherwise) {
    box low = route(-1.0f, false, true), high = route(3.0f, false, true);
    const double p = (double)*tensor_f32(&low.t, 0, 0, 1, 0);
    cr_expect(fabs(p - (double)*tensor_f32(&high.t, 0, 0, 1, 0)) < 30 * 0x1p-24 * p);
    box_free(&low);
    box_free(&high);
    box first = route(-1.0f, true, false), other = route(3.0f, true, false);
    box_same(&first, &other, __LINE__); /* bit by bit */
    box poison = route(NAN, true, false);
    box_same(&first, &poison, __LINE__);
    box_free(&first);
    box_free(&other);
    box_free(&poison);
}
