/* SPDX-License-Identifier: MIT
 * kernel_checks_few.c: product_few must give the bits of `product`, which kernel_checks_product.c
 * compares with the formula: over every remainder of tiles and squares, with rows that are NaN or
 * infinite beside others, in memory that ends with the last row. */
#include "kernel_checks.h"

#include "kernel_tools.h"

#include <math.h>

enum { MOST_ROWS = 5 * RAPTI_MAX_LANES, MOST_INNER = 128 };

typedef struct few_case {
    int64_t rows, inner, lanes, a_row;
} few_case;

static int64_t length(int64_t x) { return x < 0 ? -x : x; }

/* Every fifth row of A holds NaN, infinities, zeros and denormals; each row of B some. */
static void fill_operands(const few_case *c, float *a, const plane *b) {
    rng r = rng_make(21, (uint64_t)(c->rows * MOST_INNER + c->inner));
    for (int64_t i = 0; i < c->rows; i++) {
        for (int64_t k = 0; k < c->inner; k++) {
            a[i * c->a_row + k] = random_float(&r, i % 5 == 3 ? 20 : 0);
        }
    }
    for (int64_t k = 0; k < c->inner; k++) {
        for (int64_t l = 0; l < b->width; l++) {
            b->at[k * b->ld + l] =
                l < c->lanes ? random_float(&r, l == 1 ? 50 : 0) : b->at[k * b->ld + c->lanes - 1];
        }
    }
}

static void compare(tally *t, const few_case *c, const plane *got, const plane *want) {
    for (int64_t i = 0; i < c->rows; i++) {
        for (int64_t j = 0; j < got->width; j++) {
            const float x = got->at[i * got->ld + j], y = want->at[i * want->ld + j];
            if (same_float(x, y)) { continue; }
            tally_fail(t,
                       "rows %lld %lld apart, inner %lld, lanes %lld: C[%lld][%lld] = %.9g, want "
                       "%.9g",
                       (long long)c->rows, (long long)c->a_row, (long long)c->inner,
                       (long long)c->lanes, (long long)i, (long long)j, (double)x, (double)y);
        }
    }
}

static void run_few(tally *t, const few_case *c, guard_side side) {
    const int64_t width = t->k->lanes, reach = (c->rows - 1) * length(c->a_row) + c->inner;
    guard_block block = guard_take((size_t)reach * sizeof(float), sizeof(float), side, 0xff);
    float *a = (float *)(void *)block.data;
    if (c->a_row < 0) { a += (c->rows - 1) * length(c->a_row); }
    plane b = plane_take(c->inner, width, width + 5);
    plane got = plane_take(c->rows, width, width + 3), want = plane_take(c->rows, width, width);
    fill_operands(c, a, &b);
    plane_seal(&got);
    const float *soon[] = {b.at, a, b.at}; /* may reach a forbidden page */
    rapti_prefetch prefetch = {.list[1] = {.row = soon, .count = 3, .floats = 100}, .per_tile = 2};
    rapti_product p = {.a = a,
                       .a_row = c->a_row,
                       .a_k = 1,
                       .b = b.at,
                       .b_k = b.ld,
                       .c = want.at,
                       .c_row = want.ld,
                       .rows = c->rows,
                       .inner = c->inner,
                       .vectors = 1};
    t->k->product(&p);
    p.c = got.at;
    p.c_row = got.ld;
    if (c->rows % 2) { p.prefetch = &prefetch; }
    if (c->inner % 2) {
        p.stream = got.at;
        p.stream_bytes = 5000;
    }
    t->k->product_few(&p, c->lanes);
    compare(t, c, &got, &want);
    if (!plane_kept(&got, 0, c->rows)) { tally_fail(t, "written outside C"); }
    if (p.prefetch && prefetch.list[1].next < 2) { tally_fail(t, "nothing was asked for"); }
    guard_return(&block);
    plane_return(&b);
    plane_return(&got);
    plane_return(&want);
}

int check_product_few(const rapti_kernels *k, FILE *log) {
    tally t = {k, "product_few", log, 0};
    const int64_t width = k->lanes;
    const int64_t inner[] = {width, width + 1, 2 * width - 1, 2 * width, 2 * width + 1,
                             59,    64,        MOST_INNER - 1};
    for (int64_t rows = width; rows <= MOST_ROWS; rows++) {
        for (size_t n = 0; n < sizeof inner / sizeof inner[0]; n++) {
            const int64_t a_rows[] = {inner[n], inner[n] + 3, 7, 0, -inner[n] - 1};
            for (int64_t lanes = 1; lanes <= RAPTI_MAX_FEW_LANES && lanes <= width; lanes++) {
                /* each stride with each number of lanes, over the rows */
                const int64_t a_row = a_rows[(rows + lanes) % 5];
                run_few(&t, &(few_case){rows, inner[n], lanes, a_row},
                        rows % 2 ? GUARD_BEFORE : GUARD_AFTER);
            }
        }
    }
    return t.failures;
}
