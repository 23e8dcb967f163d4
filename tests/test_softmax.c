/* SPDX-License-Identifier: MIT
 * test_softmax.c: softmax, its naive form and log-sum-exp against double precision: sizes, axes,
 * layouts, special values, long rows, threads.
 *
 * Tolerance of a weight p = e / l, in units of u = 2^-24: |x - m| for the rounding of the exponent
 * (relative error of exp), 2 for exp, as much on average for l, its chain of additions, 1 for 1 / l
 * and 1 for the product. */
#include "box.h"
#include "compare.h"
#include "harness.h"

#include <criterion/criterion.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define U 0x1p-24

/* Additions that follow one another in a sum of n: 64 vectors, lanes, 64 blocks, chunks. */
static double chain(int64_t n) {
    const double most = 64.0 + 5.0 + 64.0 + (double)n / 16384.0 + 2.0;
    return (double)n < most ? (double)n : most;
}

typedef struct row_truth {
    double max, sum, slack; /* slack: relative error of the sum, in u */
    bool broken;            /* holds NaN or +inf */
} row_truth;

static row_truth row_of(const float *x, int64_t step, int64_t n) {
    row_truth r = {-INFINITY, 0.0, 0.0, false};
    for (int64_t j = 0; j < n; j++) {
        const double value = (double)x[j * step];
        r.broken |= isnan(value) || value == (double)INFINITY;
        if (value > r.max) r.max = value;
    }
    for (int64_t j = 0; j < n && r.max > (double)-INFINITY; j++) {
        const double distance = r.max - (double)x[j * step], e = exp(-distance);
        r.sum += e;
        if (e > 0.0) r.slack += e * (distance + 2.0);
    }
    r.slack = r.sum > 0.0 ? r.slack / r.sum + chain(n) : 0.0;
    return r;
}

static void expect_weight(double x, const row_truth *r, double got, int64_t j) {
    double want = 0.0, tol = 0.0;
    if (x > (double)-INFINITY || isnan(x)) {
        const double distance = r->max - x;
        want = r->broken ? (double)NAN : exp(-distance) / r->sum;
        tol = want * (distance + 4.0 + r->slack) * U * 1.01 + 0x1p-147; /* denormal results */
    }
    REQUIRE(compare_value(got, want, tol),
            "element %lld: exp(%.9g - %.9g) / %.9g is %.9g, want "
            "%.9g +- %.3g",
            (long long)j, x, r->max, r->sum, got, want, tol);
}

/* All rows along the last axis of both. */
static void expect_softmax(const rapt_tensor *in, const rapt_tensor *out) {
    rapt_tensor in_rows = *in, out_rows = *out;
    const int32_t last = in->rank - 1;
    in_rows.size[last] = out_rows.size[last] = 1;
    walk o = walk_begin(&out_rows);
    for (walk i = walk_begin(&in_rows); !i.done; walk_next(&i), walk_next(&o)) {
        const row_truth r = row_of(walk_f32(&i), in->stride[last], in->size[last]);
        for (int64_t j = 0; j < in->size[last]; j++) {
            expect_weight((double)walk_f32(&i)[j * in->stride[last]], &r,
                          (double)walk_f32(&o)[j * out->stride[last]], j);
        }
    }
}

static void must(rapt_status status, int32_t threads) {
    REQUIRE(status == RAPT_OK, "%s: %s", rapt_status_name(status),
            rapt_context_message(harness_context(threads)));
}

/* A third of the values hidden, whole rows too, and where asked NaN and +inf in some rows. */
static void spoil(box *b, uint64_t seed, bool broken) {
    rng r = rng_make(seed, 9);
    for (walk w = walk_begin(&b->t); !w.done; walk_next(&w)) {
        if (rng_chance(&r, 33) || w.index[0] == 1) *walk_f32(&w) = -INFINITY;
        if (broken && rng_chance(&r, 3)) *walk_f32(&w) = rng_chance(&r, 50) ? NAN : INFINITY;
    }
}

/* ---- Sizes and values ---- */

static void check_rows(int64_t rows, int64_t n, fill_kind kind, bool broken) {
    const int64_t size[2] = {rows, n};
    box in = box_make(LAYOUT_DENSE, 2, size), out = box_make(LAYOUT_DENSE, 2, size);
    box_fill(&in, (uint64_t)n, kind);
    if (kind == FILL_MIXED) spoil(&in, (uint64_t)n, broken);
    box_seal(&in);
    box_seal(&out);
    must(rapt_softmax(harness_context(1), &in.t, &out.t), 1);
    box_kept(&in, __LINE__);
    box_kept_outside(&out, __LINE__);
    expect_softmax(&in.t, &out.t);
    box_free(&in);
    box_free(&out);
}

Test(softmax, sizes) {
    for (int64_t n = 0; n <= 70; n++) {
        for (fill_kind kind = 0; kind < FILL_COUNT; kind++) check_rows(3, n, kind, n % 2);
    }
    static const int64_t sizes[] = {127, 128, 129, 320, 321, 1000, 1023, 1024, 1025, 4097};
    for (int i = 0; i < 10; i++) {
        check_rows(2, sizes[i], FILL_NORMAL, false);
        check_rows(4, sizes[i], FILL_MIXED, i % 2);
    }
}

Test(softmax, known_numbers) {
    /* section 3.3.1: the scores of the second token, and their weights */
    const float scores[6] = {0.9544f, 1.4950f, 1.4754f, 0.8434f, 0.7070f, 1.0865f};
    static const double weights[6] = {0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581};
    float out[6], naive[6], lse = 0.0f;
    const rapt_tensor in = rapt_tensor_1d(RAPT_F32, scores, 6),
                      o = rapt_tensor_1d(RAPT_F32, out, 6);
    const rapt_tensor n = rapt_tensor_1d(RAPT_F32, naive, 6);
    const rapt_tensor l = rapt_tensor_contiguous(RAPT_F32, &lse, 0, NULL);
    must(rapt_softmax(harness_context(1), &in, &o), 1);
    must(rapt_softmax_naive(harness_context(1), &in, &n), 1);
    must(rapt_log_sum_exp(harness_context(1), &in, &l), 1);
    double sum = 0.0, worst = 1.0;
    for (int i = 0; i < 6; i++) {
        cr_expect(fabs((double)out[i] - weights[i]) < 5e-5);
        cr_expect(fabs((double)naive[i] - weights[i]) < 5e-5);
        sum += exp((double)scores[i]);
    }
    cr_expect(fabs((double)lse - log(sum)) < 2 * U * 3);
    must(rapt_row_sum_error(harness_context(1), &o, &worst), 1);
    cr_expect(worst < 6 * U, "worst %g", worst);
}

Test(softmax, shift_invariance) {
    float x[300], y[300];
    for (int i = 0; i < 300; i++) x[i] = (float)(i * 37 % 101) * 0.125f;
    rapt_tensor in = rapt_tensor_1d(RAPT_F32, x, 300), out = rapt_tensor_1d(RAPT_F32, y, 300);
    must(rapt_softmax(harness_context(1), &in, &out), 1);
    for (int i = 0; i < 300; i++) x[i] += 4096.0f; /* exact */
    float z[300];
    out.data = z;
    must(rapt_softmax(harness_context(1), &in, &out), 1);
    cr_expect(memcmp(y, z, sizeof y) == 0, "softmax moved with a constant");
}

/* ---- Layouts, axes, in place: the same bits everywhere ---- */

/* The reference: the axis moved last, all dense. */
static box reference(const box *in, int32_t axis) {
    rapt_tensor moved = in->t;
    for (int32_t a = axis; a + 1 < moved.rank; a++) moved = rapt_tensor_swap_axes(moved, a, a + 1);
    box x = box_make(LAYOUT_DENSE, moved.rank, moved.size);
    walk w = walk_begin(&moved);
    for (walk o = walk_begin(&x.t); !o.done; walk_next(&o), walk_next(&w)) {
        *walk_f32(&o) = *walk_f32(&w);
    }
    box out = box_make(LAYOUT_DENSE, moved.rank, moved.size);
    must(rapt_softmax(harness_context(1), &x.t, &out.t), 1);
    expect_softmax(&x.t, &out.t);
    box_free(&x);
    for (int32_t a = out.t.rank - 1; a > axis; a--) out.t = rapt_tensor_swap_axes(out.t, a, a - 1);
    return out;
}

static void check_layout(layout in_layout, layout out_layout, int32_t rank, const int64_t *size,
                         int32_t axis) {
    box in = box_make(in_layout, rank, size), out = box_make(out_layout, rank, size);
    if (in_layout < LAYOUT_WRITABLE) { /* the others repeat elements */
        box_fill(&in, 5, FILL_NORMAL);
        spoil(&in, 5, true);
    } else {
        box_fill(&in, 5, FILL_NORMAL);
    }
    box want = reference(&in, axis);
    box_seal(&in);
    box_seal(&out);
    must(rapt_softmax_axis(harness_context(1), &in.t, axis, &out.t), 1);
    box_kept(&in, __LINE__);
    box_kept_outside(&out, __LINE__);
    box_same(&out, &want, __LINE__);
    if (in_layout < LAYOUT_WRITABLE) {
        must(rapt_softmax_axis(harness_context(2), &in.t, axis - rank, &in.t), 2);
        box_kept_outside(&in, __LINE__);
        box_same(&in, &want, __LINE__);
    }
    box_free(&in);
    box_free(&out);
    box_free(&want);
}

Test(softmax, layouts_and_axes) {
    const int64_t small[4] = {2, 3, 5, 7}, wide[4] = {3, 1, 37, 70}, tall[4] = {2, 2, 130, 9};
    for (int n = 0; n < LAYOUT_COUNT * LAYOUT_WRITABLE; n++) {
        const layout in = (layout)(n % LAYOUT_COUNT), out = (layout)(n / LAYOUT_COUNT);
        for (int32_t axis = 0; axis < 4; axis++) {
            check_layout(in, out, 4, small, axis);
            if (in == out || in == LAYOUT_DENSE || in >= LAYOUT_WRITABLE) {
                check_layout(in, out, 4, wide, axis);
                check_layout(in, out, 4, tall, axis);
            }
        }
    }
}

Test(softmax, all_ranks) {
    const int64_t size[6] = {2, 3, 1, 4, 2, 5};
    for (int32_t rank = 1; rank <= 6; rank++) {
        for (int32_t axis = 0; axis < rank; axis++) {
            check_layout(LAYOUT_DENSE, LAYOUT_DENSE, rank, size, axis);
            check_layout(LAYOUT_BACKWARDS, LAYOUT_STEP2, rank, size, axis);
        }
    }
}

/* Scores as a model's: normalising over the queries instead of the keys shows in the row sums. */
Test(softmax, wrong_axis_shows_in_row_sums) {
    const int64_t size[2] = {6, 6};
    box in = box_make(LAYOUT_DENSE, 2, size), out = box_make(LAYOUT_DENSE, 2, size);
    box_fill(&in, 1, FILL_NORMAL);
    double right = 1.0, wrong = 0.0;
    must(rapt_softmax_axis(harness_context(1), &in.t, 1, &out.t), 1);
    must(rapt_row_sum_error(harness_context(1), &out.t, &right), 1);
    must(rapt_softmax_axis(harness_context(1), &in.t, 0, &out.t), 1);
    must(rapt_row_sum_error(harness_context(1), &out.t, &wrong), 1);
    cr_expect(right < 6 * U && wrong > 0.1, "right %g, wrong %g", right, wrong);
    box_free(&in);
    box_free(&out);
}

/* ---- Long rows and columns, threads ---- */

enum { LONG = (1 << 17) + 4099 };

/* Rows [3, n]: 0 spoilt with NaN in its last chunk, 1 hidden throughout, 2 plain. Any way of laying
 * them out, any thread count. */
static void check_long(int64_t n, layout l) {
    const int64_t size[2] = {3, n};
    box in = box_make(l, 2, size), out = box_make(l, 2, size), first = box_make(l, 2, size);
    rng r = rng_make(3, 3);
    for (walk w = walk_begin(&in.t); !w.done; walk_next(&w)) {
        const float x = 4.0f * fill_value(&r, FILL_NORMAL);
        *walk_f32(&w) = w.index[0] == 1 || rng_chance(&r, 10) ? -INFINITY : x;
        if (w.index[0] == 0 && w.index[1] == n - 2) *walk_f32(&w) = NAN;
    }
    must(rapt_softmax(harness_context(1), &in.t, &first.t), 1);
    expect_softmax(&in.t, &first.t);
    box_seal(&out);
    must(rapt_softmax(harness_context(3), &in.t, &out.t), 3);
    box_kept_outside(&out, __LINE__);
    box_same(&out, &first, __LINE__);
    const rapt_tensor in_2 = rapt_tensor_slice(in.t, 0, 2, 1);
    box_fill(&out, 1, FILL_NORMAL);
    rapt_tensor out_2 = rapt_tensor_slice(out.t, 0, 2, 1);
    must(rapt_softmax(harness_context(2), &in_2, &out_2), 2); /* alone */
    rapt_tensor first_2 = rapt_tensor_slice(first.t, 0, 2, 1);
    char why[256];
    REQUIRE(compare_bits(&out_2, &first_2, why, sizeof why), "%s", why);
    must(rapt_softmax(harness_context(2), &in.t, &in.t), 2);
    box_same(&in, &first, __LINE__);
    box_free(&in);
    box_free(&out);
    box_free(&first);
}

Test(softmax, long_rows) {
    check_long(LONG, LAYOUT_DENSE);
    check_long(LONG - 4098, LAYOUT_STEP2);
    check_long(LONG, LAYOUT_TRANSPOSED);
    check_long((1 << 17), LAYOUT_BACKWARDS);
    check_long(5000, LAYOUT_TRANSPOSED);
}

/* The same bits on any number of threads, and for some of the rows alone. */
Test(softmax, threads_and_batches) {
    const int64_t size[3] = {40, 67, 129};
    for (int32_t axis = 0; axis < 3; axis++) {
        box in = box_make(LAYOUT_DENSE, 3, size), one = box_make(LAYOUT_DENSE, 3, size);
        box out = box_make(LAYOUT_DENSE, 3, size);
        box_fill(&in, 8, FILL_NORMAL);
        must(rapt_softmax_axis(harness_context(1), &in.t, axis, &one.t), 1);
        for (int32_t threads = 2; threads <= 8; threads += 3) {
            must(rapt_softmax_axis(harness_context(threads), &in.t, axis, &out.t), threads);
            box_same(&out, &one, __LINE__);
        }
        box_fill(&out, 9, FILL_NORMAL);
        for (int32_t other = 0; other < 3; other++) {
            if (other == axis) continue;
            const rapt_tensor part = rapt_tensor_slice(in.t, other, 3, 2);
            const rapt_tensor to = rapt_tensor_slice(out.t, other, 3, 2);
            const rapt_tensor want = rapt_tensor_slice(one.t, other, 3, 2);
            char why[256];
            must(rapt_softmax_axis(harness_context(2), &part, axis, &to), 2);
            REQUIRE(compare_bits(&to, &want, why, sizeof why), "%s", why);
        }
        box_free(&in);
        box_free(&one);
        box_free(&out);
    }
}

/* ---- Naive ---- */

Test(softmax, naive_overflows_where_softmax_does_not) {
    float x[4] = {0.0f, 88.0f, 89.0f, -INFINITY}, naive[4], stable[4];
    const rapt_tensor in = rapt_tensor_1d(RAPT_F32, x, 4), n = rapt_tensor_1d(RAPT_F32, naive, 4);
    const rapt_tensor s = rapt_tensor_1d(RAPT_F32, stable, 4);
    must(rapt_softmax_naive(harness_context(1), &in, &n), 1);
    must(rapt_softmax(harness_context(1), &in, &s), 1);
    expect_softmax(&in, &s);
    cr_expect(naive[0] == 0.0f && naive[1] == 0.0f && isnan(naive[2]) && naive[3] == 0.0f);
    for (int i = 0; i < 4; i++) x[i] = -200.0f - (float)i;
    must(rapt_softmax_naive(harness_context(1), &in, &n), 1);
    must(rapt_softmax(harness_context(1), &in, &s), 1);
    expect_softmax(&in, &s);
    for (int i = 0; i < 4; i++) cr_expect(isnan(naive[i]), "0 / 0");
}

Test(softmax, naive_agrees_in_range) {
    static const layout layouts[] = {LAYOUT_DENSE, LAYOUT_STEP2, LAYOUT_TRANSPOSED,
                                     LAYOUT_BACKWARDS};
    const int64_t size[3] = {3, 5, 700};
    for (int l = 0; l < 4; l++) {
        box in = box_make(layouts[l], 3, size), out = box_make(layouts[3 - l], 3, size);
        box_fill(&in, 2, FILL_NORMAL);
        box_seal(&out);
        must(rapt_softmax_naive(harness_context(2), &in.t, &out.t), 2);
        box_kept_outside(&out, __LINE__);
        rapt_tensor got = out.t;
        walk o = walk_begin(&got);
        box want = reference(&in, 2);
        for (walk w = walk_begin(&want.t); !w.done; walk_next(&w), walk_next(&o)) {
            const double p = (double)*walk_f32(&w); /* pieces of 256, and |x| <= 3.5 */
            const double tol = p * (2.0 * (7.0 + chain(700)) + 256.0 + 8.0) * U;
            REQUIRE(compare_value((double)*walk_f32(&o), p, tol), "naive");
        }
        must(rapt_softmax_naive(harness_context(2), &in.t, &in.t), 2);
        box_same(&in, &out, __LINE__);
        box_free(&in);
        box_free(&out);
        box_free(&want);
    }
}

/* ---- ln sum exp ---- */

static void check_lse(layout in_layout, layout out_layout, const int64_t size[3], int32_t threads) {
    box in = box_make(in_layout, 3, size), out = box_make(out_layout, 2, size);
    box_fill(&in, 6, FILL_MIXED);
    if (in_layout < LAYOUT_WRITABLE) {
        spoil(&in, 6, false);
        rng r = rng_make(6, 6);
        for (walk w = walk_begin(&in.t); !w.done; walk_next(&w)) {
            if (w.index[1] == 2 && rng_chance(&r, 10)) *walk_f32(&w) = NAN;
            if (w.index[1] >= 2 && rng_chance(&r, 10)) *walk_f32(&w) = INFINITY;
        }
    }
    box_seal(&in);
    box_seal(&out);
    must(rapt_log_sum_exp(harness_context(threads), &in.t, &out.t), threads);
    box_kept(&in, __LINE__);
    box_kept_outside(&out, __LINE__);
    for (walk w = walk_begin(&out.t); !w.done; walk_next(&w)) {
        const float *row =
            (float *)in.t.data + w.index[0] * in.t.stride[0] + w.index[1] * in.t.stride[1];
        const row_truth r = row_of(row, in.t.stride[2], size[2]);
        double want = r.max + log(r.sum), nan = 0.0;
        for (int64_t j = 0; j < size[2]; j++) {
            if (isnan(row[j * in.t.stride[2]])) nan = (double)NAN;
        }
        if (r.max == (double)INFINITY || r.sum == 0.0) want = r.max;
        want += nan;
        const double tol = isfinite(want) ? r.slack * U * 1.01 + fabs(want) * U : 0.0;
        REQUIRE(compare_value((double)*walk_f32(&w), want, tol),
                "[%lld,%lld]: %.9g, want %.9g +- %g", (long long)w.index[0], (long long)w.index[1],
                (double)*walk_f32(&w), want, tol);
    }
    box_free(&in);
    box_free(&out);
}

Test(softmax, log_sum_exp) {
    for (layout l = 0; l < LAYOUT_COUNT; l++) {
        for (int64_t n = 0; n < 40; n += 1 + n / 4) {
            check_lse(l, (layout)(l % LAYOUT_WRITABLE), (int64_t[]){2, 4, n}, 1);
        }
        check_lse(l, LAYOUT_DENSE, (int64_t[]){3, 4, 2500}, 2);
    }
    check_lse(LAYOUT_DENSE, LAYOUT_DENSE, (int64_t[]){1, 4, LONG}, 1);
    check_lse(LAYOUT_STEP2, LAYOUT_TRANSPOSED, (int64_t[]){2, 3, LONG}, 3);
    check_lse(LAYOUT_DENSE, LAYOUT_DENSE, (int64_t[]){0, 4, LONG}, 2);
}
