/* SPDX-License-Identifier: MIT
 * test_matmul.c: the matrix product against its oracle: random sizes around the edges of tiles and
 * blocks, layouts, broadcast batches, alpha, beta and bias.
 *
 *   RAPT_TEST_CASES   number of random cases
 *   RAPT_TEST_SEED    seed of the first one; the others follow by adding 1 */
#include "harness.h"
#include "product_call.h"

#include <criterion/criterion.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static char why[512];

/* ---- Random cases ---- */

/* Small, or around a multiple of something that tiles, blocks and vectors are made of. */
static int64_t draw_size(rng *r) {
    static const int64_t edges[] = {4, 5, 8, 15, 16, 32, 48, 64};
    if (rng_chance(r, 60)) { return rng_range(r, 0, 20); }
    const int64_t edge = edges[rng_range(r, 0, 7)] * rng_range(r, 1, 2);
    return edge + rng_range(r, -1, 1);
}

static int64_t draw_inner(rng *r) {
    static const int64_t blocks[] = {128, 255, 256, 257, 383, 384, 385, 512, 513};
    return rng_chance(r, 10) ? blocks[rng_range(r, 0, 8)] : draw_size(r);
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

static uint64_t number_from(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
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
