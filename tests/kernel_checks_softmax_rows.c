/* SPDX-License-Identifier: MIT
 * kernel_checks_softmax_rows.c: softmax along the lanes and down columns. Exponentials come from
 * the table's own exp (which exp2_checks.c holds to 1 ulp); what is done with them is checked bit
 * by bit: the order of sums, zeros, NaN. Columns must equal rows. */
#include "kernel_checks.h"

#include "kernel_tools.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum row_kind {
    ROW_PLAIN,
    ROW_WIDE,   /* some weights vanish */
    ROW_SPARSE, /* a third is -inf */
    ROW_EMPTY,  /* all -inf */
    ROW_LOWEST, /* -FLT_MAX and -inf */
    ROW_NAN,    /* one NaN, some -inf */
    ROW_INF,    /* one +inf, some -inf */
    ROW_KINDS
} row_kind;

static void fill_row(float *x, int64_t n, row_kind kind, uint64_t seed) {
    rng r = rng_make(seed, (uint64_t)kind);
    for (int64_t i = 0; i < n; i++) {
        const float value = (float)rng_normal(&r);
        const bool third = rng_chance(&r, 33);
        x[i] = kind == ROW_WIDE ? 90.0f * value : value;
        if (kind == ROW_LOWEST) { x[i] = -FLT_MAX; }
        if (kind == ROW_EMPTY || (third && kind >= ROW_SPARSE)) { x[i] = -INFINITY; }
    }
    if (n > 0 && kind == ROW_NAN) { x[rng_range(&r, 0, n - 1)] = NAN; }
    if (n > 0 && kind == ROW_INF) { x[rng_range(&r, 0, n - 1)] = INFINITY; }
}

static float naive_max(const float *x, int64_t n) {
    float max = -FLT_MAX;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i])) { return NAN; }
        if (x[i] > max) { max = x[i]; }
    }
    return max;
}

/* In the order that kernels.h promises. */
static float naive_sum(const rapti_kernels *k, const float *x, int64_t n, float shift) {
    const int64_t block = (int64_t)RAPTI_SUM_VECTORS * k->lanes;
    float total = 0.0f, part = 0.0f;
    for (int64_t from = 0; from < n; from += block) {
        float lane[RAPTI_MAX_LANES] = {0.0f};
        for (int64_t i = from; i < n && i < from + block; i++) {
            const float difference = x[i] - shift;
            float e;
            k->exp_any(&difference, &e, 1);
            lane[(i - from) % k->lanes] += e;
        }
        for (int width = k->lanes, half; width > 1; width = half) {
            half = (width + 1) / 2;
            for (int j = 0; j + half < width; j++) { lane[j] += lane[j + half]; }
        }
        part += lane[0];
        if ((from / block + 1) % RAPTI_SUM_BLOCKS == 0) {
            total += part;
            part = 0.0f;
        }
    }
    return total + part;
}

static float naive_exp(const rapti_kernels *k, float x, float shift, float factor) {
    const float difference = x - shift;
    float e;
    k->exp_any(&difference, &e, 1);
    return x == -INFINITY ? 0.0f : e * factor;
}

static void naive_softmax(const rapti_kernels *k, const float *x, int64_t n, float *out) {
    const float max = naive_max(x, n), sum = naive_sum(k, x, n, max);
    for (int64_t i = 0; i < n; i++) {
        out[i] = naive_exp(k, x[i], max, sum == 0.0f ? 0.0f : 1.0f / sum);
    }
}

/* Lengths around vectors, unrolled loops, blocks, and (few) chunks; -1 after the last. */
static int64_t next_length(const rapti_kernels *k, int64_t n) {
    const int64_t block = (int64_t)RAPTI_SUM_VECTORS * k->lanes, chunk = RAPTI_SUM_BLOCKS * block;
    if (n < 5 * k->lanes + 2) { return n + 1; }
    if (n < block - 1) { return block - 1; }
    if (n < block + 1) { return n + 1; }
    if (n < 3 * block + 7) { return 3 * block + 7; }
    if (n < chunk) { return chunk; }
    return n == chunk ? chunk + block + 3 : -1;
}

static void row_fail(tally *t, int64_t n, row_kind kind, const char *what, float got, float want) {
    tally_fail(t, "%lld elements, kind %d: %s %.9g, want %.9g", (long long)n, (int)kind, what,
               (double)got, (double)want);
}

static void check_row(tally *t, int64_t n, row_kind kind, float *want) {
    plane x = plane_take(1, n, n), out = plane_take(1, n, n);
    fill_row(x.at, n, kind, (uint64_t)n);
    plane_seal(&x);
    plane_seal(&out);
    const float max = t->k->row_max(x.at, n), shift = isfinite(max) ? max : 0.5f;
    if (!same_float(max, naive_max(x.at, n))) {
        row_fail(t, n, kind, "row_max", max, naive_max(x.at, n));
    }
    const float sum = t->k->row_sum_exp(x.at, n, shift), sum_want = naive_sum(t->k, x.at, n, shift);
    if (!same_float(sum, sum_want)) { row_fail(t, n, kind, "row_sum_exp", sum, sum_want); }
    t->k->row_exp(x.at, n, shift, 0.37f, out.at);
    for (int64_t i = 0; i < n; i++) {
        const float value = naive_exp(t->k, x.at[i], shift, 0.37f);
        if (!same_float(out.at[i], value)) { row_fail(t, n, kind, "row_exp", out.at[i], value); }
    }
    naive_softmax(t->k, x.at, n, want);
    t->k->softmax_row(x.at, n, out.at);
    if (!plane_kept(&x, 0, 0) || !plane_kept(&out, 0, 1)) {
        row_fail(t, n, kind, "written outside", 0.0f, 0.0f);
    }
    t->k->softmax_row(x.at, n, x.at);
    for (int64_t i = 0; i < n; i++) {
        if (!same_float(out.at[i], want[i])) {
            row_fail(t, n, kind, "softmax_row", out.at[i], want[i]);
        }
        if (!same_float(x.at[i], want[i])) { row_fail(t, n, kind, "in place", x.at[i], want[i]); }
    }
    plane_return(&x);
    plane_return(&out);
}

int check_softmax_row(const rapti_kernels *k, FILE *log) {
    tally t = {k, "row_max, row_sum_exp, row_exp, softmax_row", log, 0};
    const int64_t block = (int64_t)RAPTI_SUM_VECTORS * k->lanes;
    const int64_t longest = (RAPTI_SUM_BLOCKS + 1) * block + 3;
    float *want = calloc((size_t)longest, sizeof *want);
    if (!want) { abort(); }
    for (int64_t n = 0; n >= 0; n = next_length(k, n)) {
        const bool few = n > 3 * block + 7;
        for (int kind = 0; kind < ROW_KINDS; kind += few ? 3 : 1) {
            check_row(&t, n, (row_kind)kind, want);
        }
    }
    free(want);
    return t.failures;
}

/* ---- Columns ---- */

typedef struct columns_case {
    int64_t n, columns, in_k, out_k; /* distance of rows beyond `columns` */
    bool in_place;
} columns_case;

static void check_columns(tally *t, const columns_case *c) {
    const int64_t keys = c->n < RAPTI_STRIP_KEYS ? c->n : RAPTI_STRIP_KEYS;
    plane in = plane_take(c->n, c->columns, c->columns + c->in_k);
    plane other = plane_take(c->n, c->columns, c->columns + c->out_k);
    plane scratch = plane_take(keys, RAPTI_STRIP_COLUMNS, RAPTI_STRIP_COLUMNS);
    const plane *out = c->in_place ? &in : &other;
    float *row = calloc((size_t)(c->n + 1), sizeof *row);
    float *want = calloc((size_t)(c->n * c->columns + 1), sizeof *want);
    if (!row || !want) { abort(); }
    for (int64_t j = 0; j < c->columns; j++) {
        const int kind = (int)((j + c->n) % (c->columns % 2 ? ROW_KINDS : ROW_NAN));
        fill_row(row, c->n, (row_kind)kind, (uint64_t)j);
        for (int64_t i = 0; i < c->n; i++) { in.at[i * in.ld + j] = row[i]; }
        t->k->softmax_row(row, c->n, want + j * c->n);
    }
    plane_seal(&in);
    plane_seal(&other);
    t->k->softmax_columns(in.at, in.ld, out->at, out->ld, c->n, c->columns, scratch.at);
    for (int64_t j = 0; j < c->columns; j++) {
        for (int64_t i = 0; i < c->n; i++) {
            const float got = out->at[i * out->ld + j];
            if (same_float(got, want[j * c->n + i])) { continue; }
            tally_fail(t, "%lld keys, %lld columns: [%lld][%lld] %.9g, want %.9g", (long long)c->n,
                       (long long)c->columns, (long long)i, (long long)j, (double)got,
                       (double)want[j * c->n + i]);
        }
    }
    if (!plane_kept(out, 0, c->n) || (!c->in_place && !plane_kept(&in, 0, 0))) {
        tally_fail(t, "%lld keys, %lld columns: written outside", (long long)c->n,
                   (long long)c->columns);
    }
    free(row);
    free(want);
    plane_return(&in);
    plane_return(&other);
    plane_return(&scratch);
}

int check_softmax_columns(const rapti_kernels *k, FILE *log) {
    tally t = {k, "softmax_columns", log, 0};
    for (int64_t columns = 0; columns <= RAPTI_STRIP_COLUMNS + 2 * k->lanes + 1; columns++) {
        for (int64_t n = 0; n < 3 * k->lanes; n += 1 + n / 5) {
            check_columns(&t, &(columns_case){n, columns, columns % 3, n % 4, n % 2});
        }
    }
    const int64_t block = (int64_t)RAPTI_SUM_VECTORS * k->lanes;
    const int64_t long_ones[] = {block - 1,
                                 block + 1,
                                 2 * block + 3,
                                 RAPTI_STRIP_KEYS,
                                 RAPTI_STRIP_KEYS + 1,
                                 2 * RAPTI_STRIP_KEYS + 77};
    for (int i = 0; i < 6; i++) {
        check_columns(&t, &(columns_case){long_ones[i], k->lanes + 3, 0, 2, i % 2});
    }
    check_columns(
        &t, &(columns_case){(RAPTI_SUM_BLOCKS + 1) * block + 3, 1 + k->lanes / 2, 0, 0, true});
    return t.failures;
}
