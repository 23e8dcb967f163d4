/* SPDX-License-Identifier: MIT
 * kernel_checks_gradient.c: the gradient of a softmax along the lanes, bit by bit in the promised
 * order of sums, and down columns, which must equal the rows. */
#include "kernel_checks.h"

#include "kernel_tools.h"

#include <math.h>
#include <stdlib.h>

/* A third of the results is 0, with NaN in the gradient there. */
static void fill_pair(rng *r, float *y, float *dy, int64_t n, int64_t step_y, int64_t step_dy) {
    for (int64_t i = 0; i < n; i++) {
        const bool zero = rng_chance(r, 33);
        y[i * step_y] = zero ? 0.0f : (float)rng_uniform(r, 0.0, 1.0);
        dy[i * step_dy] = zero ? NAN : (float)rng_normal(r);
    }
}

/* In the order that kernels.h promises for sums of rows. */
static float naive_dot(const rapti_kernels *k, const float *y, const float *dy, int64_t n) {
    const int64_t block = (int64_t)RAPTI_SUM_VECTORS * k->lanes;
    const bool fused = kernels_fused(k);
    float total = 0.0f, part = 0.0f;
    for (int64_t from = 0; from < n; from += block) {
        float lane[RAPTI_MAX_LANES] = {0.0f};
        for (int64_t i = from; i < n && i < from + block; i++) {
            float *to = &lane[(i - from) % k->lanes];
            *to = multiply_add(fused, y[i], y[i] == 0.0f ? 0.0f : dy[i], *to);
        }
        for (int width = k->lanes, half; width > 1; width = half) {
            half = (width + 1) / 2;
            for (int i = 0; i + half < width; i++) { lane[i] += lane[i + half]; }
        }
        part += lane[0];
        if ((from / block + 1) % RAPTI_SUM_BLOCKS == 0) {
            total += part;
            part = 0.0f;
        }
    }
    return total + part;
}

static void run_row(tally *t, int64_t n) {
    rng r = rng_make(31, (uint64_t)n);
    span y = span_take(n, 1, sizeof(float), GUARD_AFTER);
    span dy = span_take(n, 1, sizeof(float), GUARD_AFTER);
    span dx = span_take(n, 1, sizeof(float), GUARD_AFTER);
    fill_pair(&r, y.first, dy.first, n, 1, 1);
    const float *const results = y.first, *const gradients = dy.first;
    const float want = naive_dot(t->k, results, gradients, n);
    const float dot = t->k->row_dot(results, gradients, n);
    if (!same_float(dot, want)) {
        tally_fail(t, "row_dot of %lld: %.9g, want %.9g", (long long)n, (double)dot, (double)want);
    }
    t->k->row_gradient(results, gradients, n, dot, dx.first);
    for (int64_t i = 0; i < n; i++) {
        const float got = ((float *)dx.first)[i];
        const float right = results[i] == 0.0f ? 0.0f : results[i] * (gradients[i] - dot);
        if (same_float(got, right)) { continue; }
        tally_fail(t, "row_gradient of %lld: [%lld] = %.9g, want %.9g", (long long)n, (long long)i,
                   (double)got, (double)right);
    }
    t->k->row_gradient(results, gradients, n, NAN,
                       dy.first); /* in place, and NaN keeps to itself */
    for (int64_t i = 0; i < n; i++) {
        const float got = gradients[i];
        if (results[i] == 0.0f ? got == 0.0f : isnan(got)) { continue; }
        tally_fail(t, "row_gradient of %lld by NaN: [%lld] = %.9g", (long long)n, (long long)i,
                   (double)got);
    }
    span_return(&y);
    span_return(&dy);
    span_return(&dx);
}

/* Weights in tiles: sums in the order of keys. */
static void run_lanes(tally *t, int64_t keys) {
    const int64_t lanes = t->k->lanes, ld = lanes + 1;
    const bool fused = kernels_fused(t->k);
    rng r = rng_make(33, (uint64_t)keys);
    plane p = plane_take(keys, lanes, ld), x = plane_take(keys, lanes, ld);
    float dots[RAPTI_MAX_LANES], shift[RAPTI_MAX_LANES], want[RAPTI_MAX_LANES] = {0};
    for (int64_t i = 0; i < lanes; i++) { fill_pair(&r, p.at + i, x.at + i, keys, ld, ld); }
    for (int64_t i = 0; i < lanes; i++) {
        shift[i] = dots[i] = (float)rng_normal(&r);
        for (int64_t k = 1; k < keys; k++) {
            const float y = p.at[k * ld + i], dy = x.at[k * ld + i];
            want[i] = multiply_add(fused, y, y == 0.0f ? 0.0f : dy, want[i]);
        }
        want[i] += dots[i];
    }
    t->k->lane_dots(p.at, x.at, ld, 1, keys, dots);
    for (int64_t i = 0; i < lanes; i++) {
        if (same_float(dots[i], want[i])) { continue; }
        tally_fail(t, "lane_dots of %lld: [%lld] = %.9g, want %.9g", (long long)keys, (long long)i,
                   (double)dots[i], (double)want[i]);
    }
    plane before = plane_take(keys, lanes, ld);
    for (int64_t k = 0; k < keys; k++) {
        for (int64_t i = 0; i < lanes; i++) { before.at[k * ld + i] = x.at[k * ld + i]; }
    }
    plane_seal(&x);
    t->k->lane_gradient(p.at, x.at, ld, 1, keys, 1.7f, shift);
    for (int64_t n = lanes; n < keys * lanes; n++) {
        const int64_t at = n / lanes * ld + n % lanes;
        const float right =
            p.at[at] == 0.0f ? 0.0f : p.at[at] * (before.at[at] * 1.7f - shift[n % lanes]);
        if (same_float(x.at[at], right)) { continue; }
        tally_fail(t, "lane_gradient of %lld: [%lld] = %.9g, want %.9g", (long long)keys,
                   (long long)n, (double)x.at[at], (double)right);
    }
    if (!plane_kept(&x, 1, keys)) {
        tally_fail(t, "lane_gradient of %lld: written outside", (long long)keys);
    }
    plane_return(&p);
    plane_return(&x);
    plane_return(&before);
}

/* Columns of planes whose rows end at a forbidden page. */
static void run_columns(tally *t, int64_t n, int64_t columns) {
    rng r = rng_make(32, (uint64_t)(n * 1000 + columns));
    plane y = plane_take(n, columns, columns), dy = plane_take(n, columns, columns + 1),
          dx = plane_take(n, columns, columns + 2);
    float *row_y = malloc((size_t)(n + 1) * sizeof(float)),
          *row_dy = malloc((size_t)(n + 1) * sizeof(float));
    if (!row_y || !row_dy) { abort(); }
    for (int64_t c = 0; c < columns; c++) { fill_pair(&r, y.at + c, dy.at + c, n, y.ld, dy.ld); }
    plane_seal(&dx);
    const rapti_softmax_columns call = {y.at, dy.at, dx.at, y.ld, dy.ld, dx.ld, n, columns};
    t->k->gradient_columns(&call);
    for (int64_t c = 0; c < columns; c++) {
        for (int64_t k = 0; k < n; k++) {
            row_y[k] = y.at[k * y.ld + c];
            row_dy[k] = dy.at[k * dy.ld + c];
        }
        t->k->row_gradient(row_y, row_dy, n, t->k->row_dot(row_y, row_dy, n), row_dy);
        for (int64_t k = 0; k < n; k++) {
            if (same_float(dx.at[k * dx.ld + c], row_dy[k])) { continue; }
            tally_fail(t, "gradient_columns of %lld x %lld: [%lld][%lld] = %.9g, row %.9g",
                       (long long)n, (long long)columns, (long long)k, (long long)c,
                       (double)dx.at[k * dx.ld + c], (double)row_dy[k]);
        }
    }
    if (!plane_kept(&dx, 0, n)) {
        tally_fail(t, "gradient_columns of %lld x %lld: written outside", (long long)n,
                   (long long)columns);
    }
    free(row_y);
    free(row_dy);
    plane_return(&y);
    plane_return(&dy);
    plane_return(&dx);
}

int check_softmax_gradients(const rapti_kernels *k, FILE *log) {
    tally t = {k, "row_dot, row_gradient, gradient_columns, lane_dots, lane_gradient", log, 0};
    const int64_t block = (int64_t)RAPTI_SUM_VECTORS * k->lanes, chunk = block * RAPTI_SUM_BLOCKS;
    for (int64_t n = 0; n <= 70; n++) { run_row(&t, n); }
    for (int64_t n = 1; n <= 20; n++) { run_lanes(&t, n); }
    const int64_t more[] = {block - 1, block, block + 1, 3 * block + 2, chunk, 2 * chunk + 7};
    for (int i = 0; i < 6; i++) { run_row(&t, more[i]); }
    for (int64_t n = 1; n <= 40; n += 3) {
        for (int64_t columns = 1; columns <= 70; columns += columns < 20 ? 1 : 7) {
            run_columns(&t, n, columns);
        }
    }
    run_columns(&t, block + 3, 5);
    run_columns(&t, chunk + 1, 3);
    return t.failures;
}
