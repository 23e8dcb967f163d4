/* SPDX-License-Identifier: MIT
 * test_matmul.c: the matrix product against its oracle: sizes around every edge of tiles and
 * blocks, layouts, broadcast batches, alpha, beta, bias, sizes of 0, and random combinations.
 * Equal bits and poison: test_matmul_bits.c; errors and memory: test_matmul_errors.c.
 *
 *   RAPT_TEST_CASES   number of random cases, times 20
 *   RAPT_TEST_SEED    seed of the first one; the others follow by adding 1 */
#include "harness.h"
#include "product_call.h"

#include <criterion/criterion.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char why[512];

static void expect_product(product_call *p) {
    REQUIRE(product_try(p, why, sizeof why), "%s\n%s", why, product_text(p));
}

static uint64_t number_from(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

/* ---- Known numbers: the oracle and the library against a product done by hand ---- */

Test(matmul, by_hand) {
    product_call p;
    product_make(&p, 2, 3, 2, 1);
    product_place(&p, PRODUCT_BIAS, LAYOUT_DENSE, 1, (int64_t[]){2});
    const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {7, 8, 9, 10, 11, 12}, c[] = {1, -1, 2, -2};
    memcpy(p.t[PRODUCT_A].data, a, sizeof a);
    memcpy(p.t[PRODUCT_B].data, b, sizeof b);
    memcpy(p.t[PRODUCT_C].data, c, sizeof c);
    memcpy(p.t[PRODUCT_BIAS].data, (const float[]){100, 200}, 2 * sizeof(float));
    p.what = (rapt_matmul){.alpha = {1, 0.5f}, .beta = 3.0f};
    expect_product(&p);
    const double want[] = {0.5 * 58 + 3 + 100, 0.5 * 64 - 3 + 200, 0.5 * 139 + 6 + 100,
                           0.5 * 154 - 6 + 200};
    for (int n = 0; n < 4; n++) {
        REQUIRE((double)((const float *)p.t[PRODUCT_C].data)[n] == want[n], "element %d", n);
        REQUIRE(p.want[n] == want[n], "oracle, element %d", n);
    }
    product_free(&p);
}

/* ---- Edges ---- */

/* Every remainder of rows and columns in register tiles of up to 16 rows and 64 columns. */
Test(matmul, every_tile_tail) {
    for (int64_t m = 0; m <= 26; m++) {
        for (int64_t n = 0; n <= 130; n += n < 20 || n > 60 ? 1 : 7) {
            product_call p;
            product_make(&p, m, 3, n, (uint64_t)(100 * m + n));
            p.side = n % 2 ? GUARD_AFTER : GUARD_BEFORE;
            p.what.beta = m % 2 ? 0.0f : 0.5f;
            expect_product(&p);
            product_free(&p);
        }
    }
}

/* Blocks of k: none, one, several; and what is left of a vector when columns become lanes. */
Test(matmul, every_block_edge) {
    static const int64_t sizes[] = {0,    1,    2,    15,   16,   17,   31,   33,  511,
                                    1023, 1024, 1025, 2047, 2048, 2049, 3073, 4097};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int transposed = 0; transposed < 4; transposed++) {
            product_call p;
            const int64_t m = 7, n = 19, k = sizes[i];
            product_make(&p, m, k, n, (uint64_t)k);
            product_place(&p, PRODUCT_A, transposed & 1 ? LAYOUT_TRANSPOSED : LAYOUT_DENSE, 2,
                          (int64_t[]){m, k});
            product_place(&p, PRODUCT_B, transposed & 2 ? LAYOUT_TRANSPOSED : LAYOUT_DENSE, 2,
                          (int64_t[]){k, n});
            product_place(&p, PRODUCT_BIAS, LAYOUT_DENSE, 1, &n);
            product_fill(&p, (uint64_t)k + 1);
            p.what = (rapt_matmul){.alpha = {1, 1.5f}, .beta = i % 2 ? -0.5f : 0.0f};
            expect_product(&p);
            product_free(&p);
        }
    }
}

/* Strips of several hundred rows, more packed panels than one wave holds, A transposed or not. */
Test(matmul, strips_and_waves) {
    static const int64_t sizes[][3] = {
        {1500, 40, 70}, {333, 400, 130}, {150, 1100, 70}, {9, 1030, 2200}, {5, 2100, 1050}};
    const int sanitized = number_from("RAPT_TEST_CASES", 100000) < 100000;
    for (size_t i = 0; i < (sanitized ? 1 : sizeof sizes / sizeof *sizes); i++) {
        for (int threads = 1; threads <= 3; threads += 2) {
            product_call p;
            const int64_t m = sizes[i][0], k = sizes[i][1], n = sizes[i][2];
            product_make(&p, m, k, n, i);
            product_place(&p, PRODUCT_A, threads > 1 ? LAYOUT_TRANSPOSED : LAYOUT_DENSE, 2,
                          (int64_t[]){m, k});
            product_place(&p, PRODUCT_B, threads > 1 ? LAYOUT_DENSE : LAYOUT_TRANSPOSED, 2,
                          (int64_t[]){k, n});
            product_fill(&p, i);
            p.threads = threads;
            p.caller_scratch = true;
            expect_product(&p);
            product_free(&p);
        }
    }
}

/* ---- Layouts and batches ---- */

Test(matmul, every_layout) {
    for (layout l = 0; l < LAYOUT_COUNT; l++) {
        for (product_id id = 0; id < PRODUCT_IDS; id++) {
            if (id == PRODUCT_C && l >= LAYOUT_WRITABLE) { continue; }
            product_call p;
            const int64_t n = 37, a[] = {2, 3, 18, 21}, b[] = {2, 3, 21, 37}, c[] = {2, 3, 18, 37};
            product_make(&p, 1, 1, 1, 1);
            product_place(&p, PRODUCT_A, id == PRODUCT_A ? l : LAYOUT_DENSE, 4, a);
            product_place(&p, PRODUCT_B, id == PRODUCT_B ? l : LAYOUT_DENSE, 4, b);
            product_place(&p, PRODUCT_C, id == PRODUCT_C ? l : LAYOUT_DENSE, 4, c);
            product_place(&p, PRODUCT_BIAS, id == PRODUCT_BIAS ? l : LAYOUT_DENSE, 1, &n);
            product_fill(&p, (uint64_t)l);
            expect_product(&p);
            p.what.beta = 2.0f;
            expect_product(&p);
            product_free(&p);
        }
    }
}

/* Each leading axis of A and of B: full, of size 1, or absent. */
Test(matmul, every_broadcast) {
    const int64_t lead[4] = {2, 3, 1, 2};
    for (int a_mask = 0; a_mask < 16; a_mask++) {
        for (int b_mask = 0; b_mask < 16; b_mask++) {
            product_call p;
            product_make(&p, 1, 1, 1, 1);
            int64_t a[6], b[6], c[6];
            for (int axis = 0; axis < 4; axis++) {
                a[axis] = a_mask >> axis & 1 ? lead[axis] : 1;
                b[axis] = b_mask >> axis & 1 ? lead[axis] : 1;
                c[axis] = lead[axis];
            }
            a[4] = c[4] = 3;
            a[5] = b[4] = 4;
            b[5] = c[5] = 5;
            const int32_t a_cut = a_mask == 0 ? 4 : 0, b_cut = b_mask < 4 ? 2 : 0;
            if (b_cut == 2 && (b[0] != 1 || b[1] != 1)) {
                product_place(&p, PRODUCT_B, LAYOUT_DENSE, 6, b);
            } else {
                product_place(&p, PRODUCT_B, LAYOUT_DENSE, 6 - b_cut, b + b_cut);
            }
            product_place(&p, PRODUCT_A, LAYOUT_DENSE, 6 - a_cut, a + a_cut);
            product_place(&p, PRODUCT_C, b_mask % 3 ? LAYOUT_DENSE : LAYOUT_BTHD, 6, c);
            product_fill(&p, (uint64_t)(16 * a_mask + b_mask));
            expect_product(&p);
            product_free(&p);
        }
    }
}

Test(matmul, sizes_of_zero) {
    static const int64_t sizes[][4] = {
        {0, 3, 4, 5}, {2, 0, 4, 5}, {2, 3, 0, 5}, {2, 3, 4, 0}, {0, 0, 0, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t *s = sizes[i]; /* batch, M, K, N */
        product_call p;
        product_make(&p, 1, 1, 1, 1);
        product_place(&p, PRODUCT_A, LAYOUT_DENSE, 3, (int64_t[]){s[0], s[1], s[2]});
        product_place(&p, PRODUCT_B, LAYOUT_DENSE, 3, (int64_t[]){s[0], s[2], s[3]});
        product_place(&p, PRODUCT_C, LAYOUT_DENSE, 3, (int64_t[]){s[0], s[1], s[3]});
        product_place(&p, PRODUCT_BIAS, LAYOUT_DENSE, 1, &s[3]);
        product_fill(&p, i);
        for (int beta = 0; beta < 2; beta++) {
            p.what.beta = (float)beta;
            expect_product(&p);
        }
        for (product_id id = 0; id < PRODUCT_IDS; id++) {
            if (p.memory[id].bytes == 0) { p.t[id].data = NULL; }
        }
        expect_product(&p);
        product_free(&p);
    }
}

/* ---- Random cases ---- */

/* Small, or around a multiple of something that tiles, blocks and vectors are made of. */
static int64_t draw_size(rng *r) {
    static const int64_t edges[] = {4, 5, 8, 15, 16, 32, 48, 64};
    if (rng_chance(r, 60)) { return rng_range(r, 0, 20); }
    const int64_t edge = edges[rng_range(r, 0, 7)] * rng_range(r, 1, 2);
    return edge + rng_range(r, -1, 1);
}

static int64_t draw_inner(rng *r) {
    static const int64_t blocks[] = {127, 384, 512, 1024, 1025, 2049};
    return rng_chance(r, 6) ? blocks[rng_range(r, 0, 5)] : draw_size(r);
}

/* An operand of C's rank or less, each leading axis full or 1. */
static void draw_operand(product_call *p, product_id id, rng *r, int32_t rank, const int64_t *lead,
                         int64_t rows, int64_t columns) {
    int64_t size[RAPT_MAX_RANK];
    const int32_t own = rng_chance(r, 60) ? rank : (int32_t)rng_range(r, 2, rank);
    for (int32_t axis = 0; axis < own - 2; axis++) {
        size[axis] = rng_chance(r, 70) ? lead[axis + rank - own] : 1;
    }
    size[own - 2] = rows;
    size[own - 1] = columns;
    const layout l = rng_chance(r, 50) ? LAYOUT_DENSE : (layout)rng_range(r, 0, LAYOUT_COUNT - 1);
    product_place(p, id, l, own, size);
}

static void draw(product_call *p, uint64_t seed) {
    rng r = rng_make(seed, 7);
    *p = (product_call){.side = rng_chance(&r, 50) ? GUARD_AFTER : GUARD_BEFORE};
    const int64_t m = draw_size(&r), n = draw_size(&r), k = draw_inner(&r);
    const int32_t rank = rng_chance(&r, 50) ? 2 : (int32_t)rng_range(&r, 3, 6);
    int64_t size[RAPT_MAX_RANK];
    for (int32_t axis = 0; axis < rank - 2; axis++) {
        size[axis] = rng_chance(&r, 3) ? 0 : rng_range(&r, 1, rank > 4 ? 2 : 4);
    }
    draw_operand(p, PRODUCT_A, &r, rank, size, m, k);
    draw_operand(p, PRODUCT_B, &r, rank, size, k, n);
    size[rank - 2] = m;
    size[rank - 1] = n;
    const layout l =
        rng_chance(&r, 60) ? LAYOUT_DENSE : (layout)rng_range(&r, 0, LAYOUT_WRITABLE - 1);
    product_place(p, PRODUCT_C, l, rank, size);
    if (rng_chance(&r, 40)) {
        product_place(p, PRODUCT_BIAS, (layout)rng_range(&r, 0, LAYOUT_COUNT - 1), 1, &n);
    }
    p->what.alpha.on = rng_chance(&r, 40);
    p->what.alpha.value = rng_chance(&r, 20) ? 0.0f : (float)rng_normal(&r);
    p->what.beta = rng_chance(&r, 60) ? 0.0f : rng_chance(&r, 50) ? 1.0f : (float)rng_normal(&r);
    p->threads = rng_chance(&r, 70) ? 1 : (int32_t)rng_range(&r, 2, 4);
    p->caller_scratch = rng_chance(&r, 30);
    product_fill(p, seed);
}

Test(matmul, random) {
    const uint64_t cases = number_from("RAPT_TEST_CASES", 100000) / 20;
    const uint64_t seed = number_from("RAPT_TEST_SEED", 1);
    fprintf(stderr, "matmul: %" PRIu64 " cases from seed %" PRIu64 "\n", cases, seed);
    for (uint64_t n = 0; n < cases; n++) {
        product_call p;
        draw(&p, seed + n);
        REQUIRE(product_try(&p, why, sizeof why), "RAPT_TEST_SEED=%" PRIu64 ": %s\n%s", seed + n,
                why, product_text(&p));
        product_free(&p);
    }
}
