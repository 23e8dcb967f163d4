/* SPDX-License-Identifier: MIT
 * exp2_checks.c: see exp2_checks.h; and the checks of these kernels for their short ends. */
#include "exp2_checks.h"

#include "kernel_checks.h"
#include "kernel_tools.h"

#include <math.h>
#include <string.h>

enum { BATCH = 4096 };

/* Up to BATCH floats by their bits; returns how many. */
static int64_t batch_fill(float *x, uint32_t first, uint32_t last, uint32_t step) {
    const int64_t most = ((int64_t)last - first) / step + 1;
    const int64_t n = most < BATCH ? most : BATCH;
    for (int64_t i = 0; i < n; i++) { x[i] = float_of(first + (uint32_t)i * step); }
    return n;
}

static void note_failure(exp2_report *r, float x) {
    if (r->failures++ == 0) { r->failed_at = x; }
}

/* One float from the curved part of 2^x, where the result is neither 1 nor 0. */
static void check_curved(exp2_report *r, float x, float y, float sleef) {
    const double want = exp2((double)x), per_ulp = 1.0 / ulp_of(want);
    const double error = fabs((double)y - want) * per_ulp;
    const double error_sleef = fabs((double)sleef - want) * per_ulp;
    const double apart = fabs((double)y - (double)sleef) * per_ulp;
    if (!(error <= 1.0 && error_sleef <= 1.0 && y >= 0x1p-126f)) { note_failure(r, x); }
    if (error > r->worst) {
        r->worst = error;
        r->worst_at = x;
    }
    if (error_sleef > r->worst_sleef) { r->worst_sleef = error_sleef; }
    if (apart > r->apart) { r->apart = apart; }
}

/* The flat ends: exactly 1 for -0, else 1 or the float below it; and exactly 0. Whole batches of
 * the usual value are passed at once. */
static void check_flat(exp2_report *r, const float *x, const float *y, int64_t n, float usual) {
    float all[BATCH];
    for (int64_t i = 0; i < BATCH; i++) { all[i] = usual; }
    if (memcmp(y, all, (size_t)n * sizeof(float)) == 0) { return; }
    for (int64_t i = 0; i < n; i++) {
        const bool below_one = usual == 1.0f && x[i] < 0.0f && y[i] == 0x1.fffffep-1f;
        if (bits_of(y[i]) != bits_of(usual) && !below_one) { note_failure(r, x[i]); }
    }
}

/* Floats of x, in order of their bits, whose bits are below `bound`. */
static int64_t count_below(const float *x, int64_t n, uint32_t bound) {
    while (n > 0 && bits_of(x[n - 1]) >= bound) { n--; }
    return n;
}

void exp2_check_range(const rapti_kernels *k, uint32_t first, uint32_t last, uint32_t step,
                      exp2_report *report) {
    float x[BATCH], y[BATCH], sleef[BATCH];
    for (int64_t at = first; at <= last; at += (int64_t)BATCH * step) {
        const int64_t n = batch_fill(x, (uint32_t)at, last, step);
        const int64_t flat = count_below(x, n, EXP2_FIRST_CURVED);
        const int64_t curved = count_below(x, n, EXP2_LAST_NORMAL + 1);
        k->exp2_inline(x, y, n);
        check_flat(report, x, y, flat, 1.0f);
        check_flat(report, x + curved, y + curved, n - curved, 0.0f);
        if (curved > flat) { k->exp2_any(x + flat, sleef + flat, curved - flat); }
        for (int64_t i = flat; i < curved; i++) { check_curved(report, x[i], y[i], sleef[i]); }
    }
}

void exp2_report_merge(exp2_report *report, const exp2_report *other) {
    if (other->worst > report->worst) {
        report->worst = other->worst;
        report->worst_at = other->worst_at;
    }
    report->worst_sleef = fmax(report->worst_sleef, other->worst_sleef);
    report->apart = fmax(report->apart, other->apart);
    if (report->failures == 0) { report->failed_at = other->failed_at; }
    report->failures += other->failures;
}

void exp2_report_print(const exp2_report *report, const char *isa, FILE *log) {
    fprintf(log, "%s: exp2_inline within %.4f ulp (at %.9g), SLEEF's %.4f, apart %.4f\n", isa,
            report->worst, (double)report->worst_at, report->worst_sleef, report->apart);
    if (report->failures > 0) {
        fprintf(log, "%s: exp2_inline fails for %lld floats, first %.9g\n", isa,
                (long long)report->failures, (double)report->failed_at);
    }
}

int64_t exp2_count_different(const rapti_kernels *a, const rapti_kernels *b, uint32_t first,
                             uint32_t last, uint32_t step) {
    float x[BATCH], y[BATCH], z[BATCH];
    int64_t different = 0;
    for (int64_t at = first; at <= last; at += (int64_t)BATCH * step) {
        const int64_t n = batch_fill(x, (uint32_t)at, last, step);
        a->exp2_inline(x, y, n);
        b->exp2_inline(x, z, n);
        if (memcmp(y, z, (size_t)n * sizeof(float)) == 0) { continue; }
        for (int64_t i = 0; i < n; i++) { different += bits_of(y[i]) != bits_of(z[i]); }
    }
    return different;
}

/* ---- Lengths, ends and NaN; a sample of all floats <= 0 with the edges ---- */

enum { SAMPLE = 4099, EDGE = 5000 };

typedef void exp_kernel(const float *x, float *y, int64_t n);

/* Every length: the bits of the full vectors, nothing read or written past the end. */
static void check_lengths(tally *t, exp_kernel *kernel, float highest) {
    rng r = rng_make(51, 0);
    float all[128], want[128];
    for (int i = 0; i < 128; i++) { all[i] = (float)rng_uniform(&r, -130.0, (double)highest); }
    kernel(all, want, 128);
    for (int64_t n = 0; n <= 70; n++) {
        plane x = plane_take(1, n, n), y = plane_take(1, n, n);
        memcpy(x.at, all, (size_t)n * sizeof(float));
        plane_seal(&y);
        kernel(x.at, y.at, n);
        if (memcmp(y.at, want, (size_t)n * sizeof(float)) != 0) {
            tally_fail(t, "other bits for %lld floats", (long long)n);
        }
        if (!plane_kept(&y, 0, 1)) { tally_fail(t, "%lld floats: written outside", (long long)n); }
        plane_return(&x);
        plane_return(&y);
    }
}

/* NaN of every sort, in each lane, stays NaN, and the lanes beside it keep their bits. */
static void check_nan(tally *t, exp_kernel *kernel) {
    static const uint32_t nans[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0xff800001, 0x7fbfffff,
                                    0xffbfffff, 0x7fffffff, 0xffffffff, 0x7fc2aeac, 0xffaeac50};
    float x[37], y[37], want[37];
    for (int i = 0; i < 37; i++) { x[i] = -0.37f * (float)i; }
    kernel(x, want, 37);
    for (int n = 0; n < 10; n++) {
        for (int i = 0; i < 37; i++) {
            const float kept = x[i];
            const uint32_t bits = nans[n];
            memcpy(&x[i], &bits, sizeof bits); /* no float operation may quieten it */
            kernel(x, y, 37);
            for (int j = 0; j < 37; j++) {
                if (j == i ? isnan(y[j]) : bits_of(y[j]) == bits_of(want[j])) { continue; }
                tally_fail(t, "NaN 0x%08x at %d: y[%d] = %.9g", nans[n], i, j, (double)y[j]);
            }
            x[i] = kept;
        }
    }
}

/* Every step'th float from the one with bits `first` to `last`, above 0. */
static void check_above_zero(tally *t, uint32_t first, float last, uint32_t step) {
    float x[BATCH], y[BATCH];
    for (uint32_t bits = first; float_of(bits) <= last; bits += (uint32_t)BATCH * step) {
        for (uint32_t i = 0; i < BATCH; i++) { x[i] = float_of(bits + i * step); }
        t->k->exp2_inline(x, y, BATCH);
        for (int i = 0; i < BATCH && x[i] <= last; i++) {
            const double want = exp2((double)x[i]);
            if (fabs((double)y[i] - want) <= ulp_of(want)) { continue; }
            tally_fail(t, "exp2(%.9g) = %.9g, want %.9g", (double)x[i], (double)y[i], want);
        }
    }
}

int check_exp2(const rapti_kernels *k, FILE *log) {
    tally t = {k, "exp2_inline, exp2_any", log, 0};
    /* the softmax goes up to 12, what the backward pass subtracts may be rounded; up to 127 */
    check_above_zero(&t, EXP2_FIRST_CURVED - EXP2_FIRST, 12.0f, 611);
    check_above_zero(&t, 1, 127.0f, 10007);
    check_lengths(&t, k->exp2_inline, 0.0f);
    check_lengths(&t, k->exp2_any, 127.0f);
    check_nan(&t, k->exp2_inline);
    check_nan(&t, k->exp2_any);
    exp2_report report = {0};
    if (exp2((double)float_of(EXP2_LAST_NORMAL)) < 0x1p-126 ||
        exp2((double)float_of(EXP2_LAST_NORMAL + 1)) >= 0x1p-126) {
        tally_fail(&t, "the last normal result is elsewhere");
    }
    exp2_check_range(k, EXP2_FIRST, EXP2_LAST, SAMPLE, &report);
    exp2_check_range(k, EXP2_FIRST, EXP2_FIRST + EDGE, 1, &report);
    exp2_check_range(k, EXP2_FIRST_CURVED - EDGE, EXP2_FIRST_CURVED + EDGE, 1, &report);
    exp2_check_range(k, EXP2_LAST_NORMAL - EDGE, EXP2_LAST_NORMAL + EDGE, 1, &report);
    exp2_check_range(k, EXP2_LAST - EDGE, EXP2_LAST, 1, &report);
    exp2_report_print(&report, k->isa, log);
    if (report.failures > 0) { tally_fail(&t, "%lld floats fail", (long long)report.failures); }
    rapti_kernels fused = *k;
    fused.exp2_inline = exp2_fused;
    if (kernels_fused(k)) {
        const int64_t different =
            exp2_count_different(k, &fused, EXP2_FIRST, EXP2_LAST, SAMPLE / 10);
        if (different > 0) { tally_fail(&t, "%lld floats differ from fmaf", (long long)different); }
    }
    return t.failures;
}

/* SLEEF's promise: 1 ulp, where results are normal. */
int check_exp(const rapti_kernels *k, FILE *log) {
    enum { PARTS = 64 };
    tally t = {k, "exp_any", log, 0};
    check_lengths(&t, k->exp_any, 80.0f);
    check_nan(&t, k->exp_any);
    float x[BATCH], y[BATCH];
    for (int part = 0; part < PARTS; part++) {
        for (int i = 0; i < BATCH; i++) {
            x[i] = 176.0f * (float)(i * PARTS + part) / (BATCH * PARTS) - 87.3f;
        }
        k->exp_any(x, y, BATCH);
        for (int i = 0; i < BATCH; i++) {
            const double want = exp((double)x[i]);
            if (fabs((double)y[i] - want) <= ulp_of(want)) { continue; }
            tally_fail(&t, "exp(%.9g) = %.9g, want %.9g", (double)x[i], (double)y[i], want);
        }
    }
    const float ends[3] = {-INFINITY, INFINITY, 100.0f};
    k->exp_any(ends, y, 3);
    if (y[0] != 0.0f || y[1] != INFINITY || y[2] != INFINITY) {
        tally_fail(&t, "exp(-inf), exp(inf), exp(100) = %.9g, %.9g, %.9g", (double)y[0],
                   (double)y[1], (double)y[2]);
    }
    return t.failures;
}
