/* SPDX-License-Identifier: MIT
 * kernel_checks_product.c: C[i][j] = (factor[i] * C[i][j]) + sum_k A[i,k] * B[k][j] over every
 * remainder of the register tiles. Each sum must be the sum in order of k, bit by bit, and lie
 * within (inner + 2) roundings of every term of the sum in double precision. */
#include "kernel_checks.h"

#include "kernel_tools.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_ROWS = 34, MAX_INNER = 200, MAX_VECTORS = 9 };
enum { MAX_COLUMNS = MAX_VECTORS * RAPTI_MAX_LANES };

/* Strides of A that hold MAX_ROWS x MAX_INNER without overlap, or repeat a row. */
typedef struct a_layout {
    const char *name;
    int64_t row, k;
} a_layout;

static const a_layout a_layouts[] = {
    {"rows of keys", MAX_INNER + 3, 1},     {"read across", 1, MAX_ROWS + 3},
    {"both strided", 7, 7 * MAX_ROWS + 3},  {"backwards", -(MAX_INNER + 1), 1},
    {"k backwards", 2 * MAX_INNER + 1, -2}, {"one row repeated", 0, 1},
};
enum { A_LAYOUTS = sizeof a_layouts / sizeof a_layouts[0] };

/* The operands by index, wherever a case puts them in memory, and the sums so far. */
typedef struct sums {
    float a[MAX_ROWS][MAX_INNER], b[MAX_INNER][MAX_COLUMNS], c[MAX_ROWS][MAX_COLUMNS];
    float factor[MAX_ROWS];
    float seen[MAX_ROWS][MAX_INNER];
    float chain[MAX_ROWS][MAX_COLUMNS]; /* in order of k, with the table's roundings */
    double exact[MAX_ROWS][MAX_COLUMNS], magnitude[MAX_ROWS][MAX_COLUMNS];
    int64_t inner;
    bool fused;
} sums;

static sums *sums_make(const rapti_kernels *k, uint64_t seed) {
    sums *s = calloc(1, sizeof *s);
    if (!s) { abort(); }
    s->fused = kernels_fused(k);
    rng r = rng_make(seed, 0);
    for (int i = 0; i < MAX_ROWS; i++) {
        for (int n = 0; n < MAX_INNER; n++) { s->a[i][n] = random_float(&r, 0); }
        for (int j = 0; j < MAX_COLUMNS; j++) { s->c[i][j] = random_float(&r, 0); }
        s->factor[i] = i % 5 == 1 ? 0.0f : i % 5 == 2 ? 1.0f : random_float(&r, 0);
    }
    for (int n = 0; n < MAX_INNER; n++) {
        for (int j = 0; j < MAX_COLUMNS; j++) { s->b[n][j] = random_float(&r, 0); }
    }
    return s;
}

static bool is_seen(const sums *s, int64_t i, int64_t n) { return s->seen[i][n] != -INFINITY; }

/* Brings the sums to `inner` terms; smaller than before starts anew. */
static void sums_advance(sums *s, int64_t inner) {
    for (int64_t i = 0; i < MAX_ROWS; i++) {
        for (int64_t j = 0; j < MAX_COLUMNS; j++) {
            if (inner < s->inner) {
                s->chain[i][j] = 0.0f;
                s->exact[i][j] = s->magnitude[i][j] = 0.0;
            }
            for (int64_t n = inner < s->inner ? 0 : s->inner; n < inner; n++) {
                if (!is_seen(s, i, n)) { continue; }
                const double term = (double)s->a[i][n] * (double)s->b[n][j];
                s->chain[i][j] = multiply_add(s->fused, s->a[i][n], s->b[n][j], s->chain[i][j]);
                s->exact[i][j] += term;
                s->magnitude[i][j] += fabs(term);
            }
        }
    }
    s->inner = inner;
}

/* ---- One call ---- */

typedef enum product_kind { PRODUCT, ADD, SEEN, SEEN_ADD } product_kind;

typedef struct product_case {
    product_kind kind;
    const a_layout *layout;
    int64_t rows, inner, vectors;
} product_case;

static void fill_a(const product_case *c, float *first, const float values[][MAX_INNER]) {
    for (int64_t i = 0; i < c->rows; i++) {
        const int64_t from = c->layout->row ? i : 0;
        for (int64_t n = 0; n < c->inner; n++) {
            first[i * c->layout->row + n * c->layout->k] = values[from][n];
        }
    }
}

/* Memory for A (and `seen`, which lies the same way): exactly its reach. */
static guard_block take_a(const product_case *c, float **first) {
    const int64_t rows = c->rows > 0 ? c->rows - 1 : 0, inner = c->inner > 0 ? c->inner - 1 : 0;
    const int64_t row_reach = rows * c->layout->row, k_reach = inner * c->layout->k;
    const int64_t before = (row_reach < 0 ? -row_reach : 0) + (k_reach < 0 ? -k_reach : 0);
    const int64_t after = (row_reach > 0 ? row_reach : 0) + (k_reach > 0 ? k_reach : 0);
    const int64_t floats = c->rows > 0 && c->inner > 0 ? before + after + 1 : 0;
    const guard_block block = guard_take((size_t)floats * sizeof(float), sizeof(float),
                                         before > 0 ? GUARD_BEFORE : GUARD_AFTER, 0xff);
    *first = (float *)(void *)block.data + (floats > 0 ? before : 0);
    return block;
}

static void compare_product(tally *t, const sums *s, const product_case *c, const plane *out) {
    const bool add = c->kind == ADD || c->kind == SEEN_ADD;
    for (int64_t i = 0; i < c->rows; i++) {
        const int64_t from = c->layout->row ? i : 0;
        for (int64_t j = 0; j < out->width; j++) {
            const float got = out->at[i * out->ld + j], start = s->c[i][j];
            const float chain = s->chain[from][j];
            const float want = add ? multiply_add(s->fused, s->factor[i], start, chain) : chain;
            const double scaled = add ? (double)s->factor[i] * (double)start : 0.0;
            const double exact = s->exact[from][j] + scaled;
            const double bound = (double)(c->inner + 2) * UNIT_ROUNDOFF * 1.001 *
                                 (s->magnitude[from][j] + fabs(scaled));
            const bool near = isnan(exact) ? isnan(got) : fabs((double)got - exact) <= bound;
            if (same_float(got, want) && (near || !isfinite(exact))) { continue; }
            tally_fail(t, "%s, rows %lld inner %lld vectors %lld: C[%lld][%lld] = %.9g, want %.9g",
                       c->layout->name, (long long)c->rows, (long long)c->inner,
                       (long long)c->vectors, (long long)i, (long long)j, (double)got,
                       (double)want);
        }
    }
}

static void run_product(tally *t, const sums *s, const product_case *c) {
    const int64_t columns = c->vectors * t->k->lanes;
    const bool add = c->kind == ADD || c->kind == SEEN_ADD;
    float *a, *seen;
    guard_block a_block = take_a(c, &a), seen_block = take_a(c, &seen);
    fill_a(c, a, s->a);
    fill_a(c, seen, s->seen);
    plane b = plane_take(c->inner, columns, columns + 5);
    plane out = plane_take(c->rows, columns, columns + 3);
    plane factor = plane_take(1, c->rows, c->rows);
    for (int64_t n = 0; n < c->inner; n++) {
        for (int64_t j = 0; j < columns; j++) { b.at[n * b.ld + j] = s->b[n][j]; }
    }
    for (int64_t i = 0; i < c->rows; i++) {
        factor.at[i] = s->factor[i];
        for (int64_t j = 0; j < columns && add; j++) { out.at[i * out.ld + j] = s->c[i][j]; }
    }
    plane_seal(&out);
    const rapti_product p = {.a = a,
                             .a_row = c->layout->row,
                             .a_k = c->layout->k,
                             .b = b.at,
                             .b_k = b.ld,
                             .c = out.at,
                             .c_row = out.ld,
                             .factor = add ? factor.at : NULL,
                             .rows = c->rows,
                             .inner = c->inner,
                             .vectors = c->vectors,
                             .stream = out.at, /* may reach a forbidden page */
                             .stream_bytes = (c->rows + c->vectors) % 2 ? 5000 : 0};
    if (c->kind == PRODUCT) { t->k->product(&p); }
    if (c->kind == ADD) { t->k->product_add(&p); }
    if (c->kind == SEEN || c->kind == SEEN_ADD) { t->k->product_seen(&p, seen); }
    compare_product(t, s, c, &out);
    if (!plane_kept(&out, 0, c->rows)) {
        tally_fail(t, "%s, rows %lld inner %lld vectors %lld: written outside C", c->layout->name,
                   (long long)c->rows, (long long)c->inner, (long long)c->vectors);
    }
    guard_return(&a_block);
    guard_return(&seen_block);
    plane_return(&b);
    plane_return(&out);
    plane_return(&factor);
}

/* ---- The grids ---- */

static const int64_t all_inner[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14,
                                    15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29,
                                    30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 64, 77, 200};
static const int64_t some_inner[] = {0, 1, 2, 15, 16, 17, 40, 200};
enum {
    ALL_INNER = sizeof all_inner / sizeof all_inner[0],
    SOME_INNER = sizeof some_inner / sizeof some_inner[0]
};

/* All rows x vectors for each inner; the first two layouts over all_inner. */
static int check_grid(tally *t, product_kind kind) {
    sums *s = sums_make(t->k, 11);
    for (int l = 0; l < A_LAYOUTS; l++) {
        const int64_t *inner = l < 2 ? all_inner : some_inner;
        for (int n = 0; n < (l < 2 ? ALL_INNER : SOME_INNER); n++) {
            sums_advance(s, inner[n]);
            for (int64_t rows = 0; rows < MAX_ROWS; rows++) {
                for (int64_t vectors = 0; vectors <= MAX_VECTORS; vectors++) {
                    run_product(t, s,
                                &(product_case){kind, &a_layouts[l], rows, inner[n], vectors});
                }
            }
        }
    }
    free(s);
    return t->failures;
}

int check_product(const rapti_kernels *k, FILE *log) {
    return check_grid(&(tally){k, "product", log, 0}, PRODUCT);
}

int check_product_add(const rapti_kernels *k, FILE *log) {
    return check_grid(&(tally){k, "product_add", log, 0}, ADD);
}

/* Hides terms: every third at random; and the rows of B that are all NaN or infinity from all rows
 * but each seventh, which must become NaN themselves. Hidden weights may be rubbish. */
static void hide_terms(sums *s) {
    rng r = rng_make(12, 0);
    for (int n = 0; n < MAX_INNER; n++) {
        const bool poison = n % 5 == 2;
        for (int j = 0; j < MAX_COLUMNS && poison; j++) { s->b[n][j] = n % 2 ? NAN : INFINITY; }
        for (int i = 0; i < MAX_ROWS; i++) {
            const bool hidden = poison ? i % 7 != 3 : rng_chance(&r, 33);
            s->seen[i][n] = hidden ? -INFINITY : n % 11 == 0 ? NAN : random_float(&r, 0);
            if (hidden) { s->a[i][n] = n % 3 ? 0.0f : NAN; }
        }
    }
}

int check_product_seen(const rapti_kernels *k, FILE *log) {
    static const int64_t rows[] = {0, 1, 2, 3, 5, 8, 16, 33}, vectors[] = {0, 1, 2, 3, 9};
    tally t = {k, "product_seen", log, 0};
    for (int hiding = 0; hiding < 2; hiding++) {
        sums *s = sums_make(k, 13);
        if (hiding) { hide_terms(s); }
        for (int n = 0; n < SOME_INNER; n++) {
            sums_advance(s, some_inner[n]);
            for (int c = 0; c < 8 * 5 * A_LAYOUTS * 2; c++) {
                run_product(&t, s,
                            &(product_case){c % 2 ? SEEN_ADD : SEEN, &a_layouts[c / 2 % A_LAYOUTS],
                                            rows[c / 2 / A_LAYOUTS % 8], some_inner[n],
                                            vectors[c / 2 / A_LAYOUTS / 8]});
            }
        }
        free(s);
    }
    return t.failures;
}
