/* SPDX-License-Identifier: MIT
 * kernel_checks_matmul.c: finish_product, c = alpha * sum + beta * c + bias, over sizes around
 * vectors, strides and factors. Each element must be what these operations give in this order. */
#include "kernel_checks.h"

#include "kernel_tools.h"

typedef struct end_case {
    int64_t count, size, column; /* stride of C's columns */
    float alpha, beta;
    bool biased;
} end_case;

static float expected(const end_case *e, bool fused, float sum, float old, float bias) {
    float x = e->alpha * sum;
    if (e->beta != 0.0f) { x = multiply_add(fused, e->beta, old, x); }
    return e->biased ? x + bias : x;
}

/* Rows of C: exactly their reach, in guarded memory; before the call NaN under beta = 0. */
static void run_end(tally *t, const end_case *e, bool fused) {
    const int64_t lanes = t->k->lanes, width = (e->size + lanes - 1) / lanes * lanes;
    rng r = rng_make(31, (uint64_t)(e->size * 8 + e->count));
    plane sum = plane_take(e->count, width, width + 3), bias = plane_take(1, width, width);
    plane old = plane_take(e->count, width, width);
    span c[4];
    for (int64_t i = 0; i < e->count; i++) {
        c[i] = span_take(e->size, e->column, sizeof(float), i % 2 ? GUARD_AFTER : GUARD_BEFORE);
        for (int64_t j = 0; j < e->size; j++) {
            sum.at[i * sum.ld + j] = random_float(&r, 9);
            old.at[i * old.ld + j] = random_float(&r, 9);
            bias.at[j] = random_float(&r, 9);
            if (e->beta != 0.0f) { ((float *)c[i].first)[j * e->column] = old.at[i * old.ld + j]; }
        }
        guard_seal(&c[i].block);
    }
    for (int64_t i = 0; i < e->count; i++) { /* rows of their own: one call each */
        t->k->finish_product(&(rapti_product_end){.sum = sum.at + i * sum.ld,
                                                  .ld = sum.ld,
                                                  .c = c[i].first,
                                                  .column = e->column,
                                                  .count = 1,
                                                  .size = e->size,
                                                  .alpha = e->alpha,
                                                  .beta = e->beta,
                                                  .bias = e->biased ? bias.at : NULL});
        for (int64_t j = 0; j < e->size; j++) {
            float *got = (float *)c[i].first + j * e->column;
            const float want =
                expected(e, fused, sum.at[i * sum.ld + j], old.at[i * old.ld + j], bias.at[j]);
            if (!same_float(*got, want)) {
                tally_fail(t, "size %lld stride %lld beta %g: [%lld] = %.9g, want %.9g",
                           (long long)e->size, (long long)e->column, (double)e->beta, (long long)j,
                           (double)*got, (double)want);
            }
            guard_accept(&c[i].block, (const uint8_t *)got, sizeof(float));
        }
        ptrdiff_t at;
        if (!guard_intact(&c[i].block, &at)) {
            tally_fail(t, "size %lld stride %lld: byte %lld changed", (long long)e->size,
                       (long long)e->column, (long long)at);
        }
        span_return(&c[i]);
    }
    plane_return(&sum);
    plane_return(&old);
    plane_return(&bias);
}

/* Several rows at a time, on the sums themselves. */
static void run_in_place(tally *t, int64_t count, int64_t vectors) {
    const int64_t width = vectors * t->k->lanes;
    rng r = rng_make(32, (uint64_t)width);
    plane c = plane_take(count, width, width + 5), before = plane_take(count, width, width);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < width; j++) {
            c.at[i * c.ld + j] = before.at[i * before.ld + j] = random_float(&r, 9);
        }
    }
    plane_seal(&c);
    t->k->finish_product(&(rapti_product_end){.sum = c.at,
                                              .ld = c.ld,
                                              .c = c.at,
                                              .row = c.ld,
                                              .column = 1,
                                              .count = count,
                                              .size = width,
                                              .alpha = -1.5f});
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < width; j++) {
            if (same_float(c.at[i * c.ld + j], -1.5f * before.at[i * before.ld + j])) { continue; }
            tally_fail(t, "in place, %lld rows of %lld: [%lld][%lld]", (long long)count,
                       (long long)width, (long long)i, (long long)j);
        }
    }
    if (!plane_kept(&c, 0, count)) { tally_fail(t, "in place: written between rows"); }
    plane_return(&c);
    plane_return(&before);
}

int check_finish_product(const rapti_kernels *k, FILE *log) {
    static const int64_t columns[] = {1, 2, -1, 7};
    static const float betas[] = {0.0f, 1.0f, -0.75f};
    tally t = {k, "finish_product", log, 0};
    const bool fused = kernels_fused(k);
    for (int64_t size = 0; size <= 3 * k->lanes + 1; size++) {
        for (int n = 0; n < 4 * 3 * 2; n++) {
            run_end(&t,
                    &(end_case){.count = n % 3 + 1,
                                .size = size,
                                .column = columns[n % 4],
                                .alpha = n % 5 ? 1.25f : 1.0f,
                                .beta = betas[n / 4 % 3],
                                .biased = n / 12},
                    fused);
        }
    }
    for (int64_t count = 0; count <= 3; count++) {
        for (int64_t vectors = 0; vectors <= 5; vectors++) { run_in_place(&t, count, vectors); }
    }
    return t.failures;
}
