/* SPDX-License-Identifier: MIT
 * How queries are cut into groups, which kernels run, and which rows may be read beyond their ends:
 * no result shows whether these are right. */
#include "attention_task.h"
#include "plain.h"
#include "tensor.h"

#include <criterion/criterion.h>

/* ---- Groups ---- */

static int64_t group_vectors(const rapti_plan *plan, int64_t g) {
    return rapti_attention_group_start(plan, g + 1) - rapti_attention_group_start(plan, g);
}

/* All vectors, in groups that fit. Where three fit, a wide vector is alone only for want of others,
 * or with the few rows of the last one if those two are all that a full group leaves. */
static void check_groups(const rapti_kernels *kernels, int64_t width, int64_t rows) {
    const int64_t vectors = (rows + kernels->lanes - 1) / kernels->lanes;
    const rapti_plan plan = {.kernels = kernels,
                             .rows = rows,
                             .vectors = vectors,
                             .groups = (vectors + width - 1) / width,
                             .group_lanes = (int32_t)(width * kernels->lanes)};
    cr_assert_eq(rapti_attention_group_start(&plan, 0), 0);
    cr_assert_eq(rapti_attention_group_start(&plan, plan.groups), vectors);
    const bool last_is_few = rows - (vectors - 1) * kernels->lanes <= kernels->few_lanes;
    for (int64_t g = 0; g < plan.groups; g++) {
        const int64_t few = g + 1 == plan.groups && last_is_few;
        const int64_t wide = group_vectors(&plan, g) - few;
        cr_assert(group_vectors(&plan, g) >= 1 && group_vectors(&plan, g) <= width);
        cr_expect(wide != 1 || width < 3 || vectors <= 2 || (few && vectors == width + 1),
                  "width %d, %d rows: group %d has %d wide vectors", (int)width, (int)rows, (int)g,
                  (int)wide);
    }
}

Test(cut, groups) {
    for (int32_t few = 0; few <= RAPTI_MAX_FEW_LANES; few += 2) {
        const rapti_kernels kernels = {.lanes = 16, .few_lanes = few};
        for (int64_t width = 1; width <= RAPTI_MAX_GROUP_VECTORS; width++) {
            for (int64_t rows = 1; rows < 400; rows++) { check_groups(&kernels, width, rows); }
        }
    }
}

/* Rows of a tile hold their lanes, are an odd number of cache lines apart, and no longer than those
 * of a full group, for which there is room. */
Test(cut, rows_of_a_tile) {
    const int64_t line = 16, most = RAPTI_MAX_GROUP_VECTORS * RAPTI_MAX_LANES;
    for (int64_t lanes = 1; lanes <= most; lanes++) {
        const int64_t ld = rapti_odd_lines(lanes);
        cr_expect(ld >= lanes && ld < lanes + 2 * line && ld % line == 0 && ld / line % 2 == 1);
        cr_expect(ld <= rapti_odd_lines(lanes + 1));
    }
}

/* ---- Which kernels run ---- */

static const rapti_kernels *real;
static int near_tries, tries, two_passes, few_products;

static int end_near(const rapti_near_sums *sums, rapti_softmax_state state) {
    near_tries++;
    return real->softmax_end_near(sums, state);
}

static int try_plain(float *s, int64_t ld, int64_t from, int64_t begin, int64_t end, int64_t to,
                     rapti_softmax_state state) {
    tries++;
    return real->softmax_try(s, ld, from, begin, end, to, state);
}

static int find_max(const float *s, int64_t ld, int64_t begin, int64_t end,
                    rapti_softmax_state state) {
    two_passes++;
    return real->softmax_max(s, ld, begin, end, state);
}

static void multiply_few(const rapti_product *p, int64_t columns) {
    few_products++;
    real->product_few(p, columns);
}

/* Runs equal queries against 20 blocks of keys whose scores are `first`, first + step, ... */
static void count_ways(int64_t queries, float first, float step) {
    rapt_context *context = plain_context(1, NULL);
    real = context->kernels;
    rapti_kernels counted = *real;
    counted.softmax_end_near = end_near;
    counted.softmax_try = try_plain;
    counted.softmax_max = find_max;
    counted.product_few = multiply_few;
    context->kernels = &counted;
    plain p;
    plain_make(&p, (plain_sizes){1, 1, 1, queries, 20 * real->key_block, 16, 4}, 1);
    float *q = p.q.data, *k = p.k.data;
    for (int64_t i = 0; i < 16 * queries; i++) { q[i] = i % 16 ? 0.0f : 4.0f; } /* scale 1 / 4 */
    for (int64_t j = 0; j < 20 * real->key_block; j++) { k[16 * j] = first + step * (float)j; }
    near_tries = tries = two_passes = few_products = 0;
    cr_assert_eq(rapt_attention_forward(context, &p.what, &p.operands), RAPT_OK);
    plain_free(&p);
    context->kernels = real;
    rapt_context_destroy(context);
}

Test(cut, ways_through_the_softmax) {
    count_ways(1, 0.0f, 0.0f);
    cr_expect(near_tries == 20 && tries == 0 && two_passes == 0);
    cr_expect_eq(few_products, real->few_lanes > 0 ? 20 : 0);
    count_ways(1, 0.0f, -100.0f); /* weights of 0: near tries are given up */
    cr_expect(near_tries == 1 && tries == 19 && two_passes == 1, "%d near, %d, %d in two passes",
              near_tries, tries, two_passes);
    count_ways(1, 50.0f, 0.0f); /* the first block moves the shift, the second finds it in place */
    cr_expect(near_tries == 19 && tries == 0 && two_passes == 2, "%d near, %d, %d in two passes",
              near_tries, tries, two_passes);
    count_ways(3 * real->lanes, 0.0f, 0.0f); /* every lane vector of a group */
    cr_expect(near_tries == 60 && tries == 0 && two_passes == 0, "%d near, %d", near_tries, tries);
}

/* ---- Rows beyond whose end there are others ---- */

typedef struct held_case {
    const char *what;
    int64_t size[3], stride[3];
    int64_t at, count;
    int holds;
} held_case;

Test(cut, memory_that_a_tensor_holds) {
    static float data[1000];
    static const held_case cases[] = {
        {"contiguous, to the end", {2, 5, 7}, {35, 7, 1}, 60, 10, 1},
        {"one past the end", {2, 5, 7}, {35, 7, 1}, 60, 11, 0},
        {"axes in another order", {2, 5, 7}, {7, 14, 1}, 60, 10, 1},
        {"axes in another order, past the end", {2, 5, 7}, {7, 14, 1}, 61, 10, 0},
        {"a gap behind each row", {2, 5, 7}, {40, 8, 1}, 0, 8, 0},
        {"a gap behind each matrix", {2, 5, 7}, {36, 7, 1}, 0, 8, 0},
        {"one row for all", {2, 5, 7}, {0, 0, 1}, 0, 7, 0},
        {"backwards", {2, 5, 7}, {-35, 7, 1}, 0, 7, 0},
        {"elements that overlap, as many as it spans", {1, 3, 3}, {0, 2, 2}, 0, 4, 0},
        {"a single row", {1, 1, 7}, {0, 0, 1}, 0, 7, 1},
    };
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        const held_case *c = &cases[n];
        const rapt_tensor t = rapt_tensor_strided(RAPT_F32, data + 100, 3, c->size, c->stride);
        const rapt_tensor normal = rapti_tensor_normal(&t);
        cr_expect_eq(rapti_tensor_holds(&normal, data + 100 + c->at, c->count), c->holds, "%s",
                     c->what);
    }
}
