/* SPDX-License-Identifier: MIT
 * How queries are cut into groups, and which rows may be read beyond their ends: no result shows
 * whether these are right, so long as all rows are computed and the memory beyond is there. */
#include "attention_task.h"
#include "plain.h"
#include "tensor.h"

#include <criterion/criterion.h>

/* ---- Groups ---- */

static int64_t group_vectors(const rapti_plan *plan, int64_t g) {
    return rapti_attention_group_start(plan, g + 1) - rapti_attention_group_start(plan, g);
}

static rapti_plan plan_queries(rapt_context *context, int64_t queries) {
    plain p;
    rapti_problem problem;
    rapti_plan plan;
    plain_make(&p, (plain_sizes){1, 1, 1, queries, 8, 4, 4}, 1);
    cr_assert_eq(rapti_attention_check(context, &p.what, &p.operands, 0, &problem), RAPT_OK);
    cr_assert_eq(rapti_attention_plan(context, &problem, &plan), RAPT_OK);
    plain_free(&p);
    return plan;
}

/* All vectors, in groups that fit the tiles; where they may hold three and more, a single vector
 * stands alone only if it is the only one or has nothing but a few rows beside it. */
Test(cut, groups) {
    static const char *const isas[] = {"scalar", "avx2", "avx512", "neon", "odd"};
    for (int i = 0; i < 5; i++) {
        rapt_context *context = NULL;
        const rapt_context_options options = {.threads = 1, .isa = isas[i]};
        if (rapt_context_create(&context, &options) != RAPT_OK) {
            rapt_context_destroy(context);
            continue;
        }
        const rapti_kernels *k = context->kernels;
        for (int64_t queries = 1; queries <= 20 * k->lanes; queries++) {
            const rapti_plan plan = plan_queries(context, queries);
            cr_assert_eq(rapti_attention_group_start(&plan, 0), 0);
            cr_assert_eq(rapti_attention_group_start(&plan, plan.groups), plan.vectors);
            const int64_t last_rows = queries - (plan.vectors - 1) * k->lanes;
            for (int64_t g = 0; g < plan.groups; g++) {
                const int64_t few = g + 1 == plan.groups && last_rows <= k->few_lanes;
                const int64_t wide = group_vectors(&plan, g) - few;
                cr_assert(group_vectors(&plan, g) >= 1 && wide + few <= k->group_vectors);
                cr_expect(wide != 1 || k->group_vectors < 3 || plan.vectors <= 2 + few ||
                              (few && plan.vectors == k->group_vectors + 1),
                          "%s: %d queries, group %d has %d wide vectors", k->isa, (int)queries,
                          (int)g, (int)wide);
            }
        }
        rapt_context_destroy(context);
    }
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
