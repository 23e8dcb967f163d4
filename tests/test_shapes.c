/* SPDX-License-Identifier: MIT
 * test_shapes.c: sizes: head-size and sequence tails, zero sizes, sizes that disagree, Dv other
 * than D, grouped heads, and the scale that follows from a size. Strides: test_strides.c. */
#include "harness.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>

/* ---- Head sizes ---- */

static const int64_t head_sizes[] = {1,  2,  3,  5,  7,  8,   15,  16,  17,  31,  33, 40,
                                     63, 65, 72, 80, 96, 100, 112, 127, 129, 256, 257};
enum { HEAD_SIZES = sizeof head_sizes / sizeof *head_sizes };

/* Scores depend on the last lane only, all columns of v are the same: equals D = Dv = 1. */
static void expect_one_lane(int64_t d, int64_t dv, guard_side side) {
    problem p, lane;
    problem_init(&lane, (shape){1, 2, 1, 3, 5, 1, 1});
    lane.what.scale = (rapt_scale){1, 0.5f};
    fill_normal(&lane, 1);
    expect_run(&lane);
    p = (problem){.s = {1, 2, 1, 3, 5, d, dv}, .side = side, .threads = 1, .what = lane.what};
    for (operand_id id = OP_Q; id < OP_COUNT; id++) {
        if (id <= OP_V || id >= OP_OUT) problem_layout(&p, id, LAYOUT_DENSE);
    }
    for (operand_id id = OP_Q; id <= OP_V; id++) {
        for (walk w = walk_begin(&p.op[id].t); !w.done; walk_next(&w)) {
            const int64_t *x = w.index;
            if (id != OP_V && x[3] != d - 1) continue;
            *walk_f32(&w) = *problem_at(&lane, id, 0, x[1], x[2], 0);
        }
    }
    expect_oracle(&p);
    for (int64_t row = 0; row < 6; row++) {
        const int64_t h = row / 3, i = row % 3;
        expect_out_all(&p, 0, h, i, (double)*problem_at(&lane, OP_OUT, 0, h, i, 0));
        expect_lse(&p, 0, h, i, (double)*problem_at(&lane, OP_LSE, 0, h, i, 0));
    }
    problem_free(&p);
    problem_free(&lane);
}

Test(head_size, last_lane_counts) {
    for (int n = 0; n < HEAD_SIZES * HEAD_SIZES; n++) {
        const int64_t d = head_sizes[n / HEAD_SIZES], dv = head_sizes[n % HEAD_SIZES];
        expect_one_lane(d, dv, GUARD_AFTER);
        expect_one_lane(d, dv, GUARD_BEFORE);
    }
}

/* The same sizes with enough queries and keys for whole tiles and several blocks. */
Test(head_size, whole_tiles) {
    for (int n = 0; n < HEAD_SIZES; n++) {
        problem p;
        const int64_t dv = head_sizes[n * 7 % HEAD_SIZES];
        problem_init(&p, (shape){1, 1, 1, 50, 150, head_sizes[n], dv});
        fill_normal(&p, 2);
        p.what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
        expect_oracle(&p);
        problem_free(&p);
    }
}

/* The oracle's default scale is 1/sqrt(D); Dv does not enter it. */
Test(head_size, dv_is_not_d) {
    const int64_t sizes[][2] = {{16, 40}, {192, 128}, {40, 16}, {128, 96}, {1, 300}, {300, 1}};
    for (int n = 0; n < 6; n++) {
        problem p;
        problem_init(&p, (shape){2, 4, 2, 20, 30, sizes[n][0], sizes[n][1]});
        fill_normal(&p, 3);
        expect_oracle(&p);
        problem_free(&p);
    }
}

/* ---- Sequence tails ---- */

Test(sequence, tails) {
    const int64_t lengths[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 511, 513, 1025};
    for (int n = 0; n < 16 * 16; n++) {
        const int64_t tq = lengths[n / 16], tk = lengths[n % 16];
        problem p;
        problem_init(&p, (shape){1, 1, 1, tq, tk, 2, 1});
        fill_ramp(&p);
        expect_run(&p);
        for (int64_t i = 0; i < tq; i++) {
            expect_out_all(&p, 0, 0, i, (double)(tk - 1) / 2.0);
            expect_lse(&p, 0, 0, i, tk == 1 ? 0.0 : log((double)tk));
        }
        problem_free(&p);
    }
}

/* ---- Zero sizes, null data where there is none ---- */

static void without_empty_data(problem *p) {
    for (operand_id id = 0; id < OP_COUNT; id++) {
        int64_t before = 0, after = 0;
        if (!layout_reach(&p->op[id].t, &before, &after)) p->op[id].t.data = NULL;
    }
}

Test(zero, each_size_in_turn) {
    const shape zeros[] = {{0, 2, 2, 3, 4, 5, 6},    {2, 0, 0, 3, 4, 5, 6}, {2, 2, 2, 0, 4, 5, 6},
                           {2, 2, 2, 3, 0, 5, 6},    {2, 2, 2, 3, 4, 0, 6}, {2, 2, 2, 3, 4, 5, 0},
                           {0, 0, 0, 0, 0, 0, 0},    {2, 0, 2, 3, 4, 5, 6}, {2, 2, 2, 3, 0, 0, 0},
                           {1, 1, 1, 100, 0, 64, 64}};
    for (size_t n = 0; n < sizeof zeros / sizeof *zeros; n++) {
        for (rapt_causal c = RAPT_CAUSAL_NONE; c <= RAPT_CAUSAL_BOTTOM_RIGHT; c++) {
            for (int extras = 0; extras < 4; extras++) {
                problem p;
                problem_init(&p, zeros[n]);
                fill_normal(&p, 4);
                p.what.causal = c;
                p.threads = 1 + extras;
                if (extras & 1) problem_full_mask(&p);
                if (extras & 2) problem_full_bias(&p);
                without_empty_data(&p);
                expect_oracle(&p);
                problem_free(&p);
            }
        }
    }
}

Test(zero, no_keys_gives_empty_rows) {
    problem p;
    problem_init(&p, (shape){2, 2, 1, 33, 0, 16, 17});
    without_empty_data(&p);
    expect_run(&p);
    for (int64_t n = 0; n < 2 * 2 * 33; n++) expect_empty(&p, n / 66, n / 33 % 2, n % 33);
    problem_free(&p);
}

Test(zero, no_head_size_gives_the_mean) {
    problem p;
    problem_init(&p, (shape){1, 1, 1, 33, 70, 0, 3});
    fill_ramp(&p);
    without_empty_data(&p);
    expect_run(&p);
    for (int64_t i = 0; i < 33; i++) {
        expect_out_all(&p, 0, 0, i, 34.5);
        expect_lse(&p, 0, 0, i, log(70.0));
    }
    problem_free(&p);
}

/* ---- Sizes that disagree. Memory ends where the smaller size says. ---- */

static void expect_refused(problem *p) {
    char why[512];
    rapt_status status = RAPT_OK;
    REQUIRE(problem_call(p, &status, why, sizeof why), "%s", why);
    REQUIRE(status == RAPT_ERR_SHAPE, "%s", rapt_status_name(status));
}

Test(disagree, sizes_are_checked_first) {
    static const struct {
        operand_id id;
        int axis, change;
    } changes[] = {{OP_V, 2, 1},       {OP_K, 2, 1},    {OP_V, 2, -1},   {OP_K, 3, 1},
                   {OP_Q, 3, 1},       {OP_V, 3, 1},    {OP_K, 0, 1},    {OP_V, 0, 1},
                   {OP_Q, 0, 1},       {OP_K, 1, 1},    {OP_V, 1, -1},   {OP_Q, 2, 1},
                   {OP_Q, 1, 1},       {OP_OUT, 0, -1}, {OP_OUT, 1, -1}, {OP_OUT, 2, -1},
                   {OP_OUT, 3, -1},    {OP_LSE, 0, -1}, {OP_LSE, 1, -1}, {OP_LSE, 2, -1},
                   {OP_MASK, 3, 1},    {OP_MASK, 1, 1}, {OP_BIAS, 2, 1}, {OP_BIAS, 0, -1},
                   {OP_LENGTHS, 0, 1}, {OP_K, 2, -100}, {OP_Q, 2, -100}, {OP_Q, 0, -100}};
    for (size_t n = 0; n < sizeof changes / sizeof *changes; n++) {
        problem p;
        problem_init(&p, (shape){3, 6, 3, 4, 5, 8, 9});
        fill_normal(&p, 5);
        problem_full_mask(&p);
        problem_full_bias(&p);
        problem_lengths(&p, RAPT_I64, 3, (int64_t[]){5, 4, 3});
        expect_oracle(&p);
        snprintf(p.note, sizeof p.note, "change %zu", n);
        int64_t *size = &p.op[changes[n].id].t.size[changes[n].axis];
        const int64_t right = *size;
        *size += changes[n].change;
        expect_refused(&p);
        *size = right;
        problem_free(&p);
    }
}

Test(disagree, heads_must_divide) {
    const int64_t heads[][2] = {{3, 2}, {1, 2}, {5, 4}, {2, 0}};
    for (int n = 0; n < 4; n++) {
        problem p;
        problem_init(&p, (shape){1, heads[n][0], heads[n][1], 4, 5, 8, 9});
        expect_refused(&p);
        problem_free(&p);
    }
}

/* ---- Grouped heads ---- */

/* v of K/V head h is h; a query head's out tells which it used. */
Test(heads, group_map) {
    const int64_t heads[][2] = {{4, 2}, {4, 1}, {6, 3}, {4, 4}, {12, 3}, {35, 5}, {64, 2}};
    for (int n = 0; n < 7; n++) {
        for (int64_t tq = 1; tq <= 40; tq += 13) {
            problem p;
            problem_init(&p, (shape){2, heads[n][0], heads[n][1], tq, 6, 4, 3});
            for (walk w = walk_begin(&p.op[OP_V].t); !w.done; walk_next(&w)) {
                *walk_f32(&w) = (float)(w.index[0] * 100 + w.index[1] + 1);
            }
            expect_oracle(&p);
            for (int64_t row = 0; row < 2 * p.s.hq * tq; row++) {
                const int64_t b = row / (p.s.hq * tq), h = row / tq % p.s.hq;
                const int64_t kv_head = h / (p.s.hq / p.s.hkv);
                expect_out_all(&p, b, h, row % tq, (double)(b * 100 + kv_head + 1));
            }
            problem_free(&p);
        }
    }
}

/* Equals the call on K and V copied once per query head. */
Test(heads, groups_equal_copies) {
    problem p, copies;
    problem_init(&p, (shape){2, 6, 2, 19, 37, 12, 20});
    fill_normal(&p, 6);
    problem_init(&copies, (shape){2, 6, 6, 19, 37, 12, 20});
    fill_normal(&copies, 6);
    for (operand_id id = OP_K; id <= OP_V; id++) {
        for (walk w = walk_begin(&copies.op[id].t); !w.done; walk_next(&w)) {
            const int64_t *x = w.index;
            *walk_f32(&w) = *problem_at(&p, id, x[0], x[1] / 3, x[2], x[3]);
        }
    }
    expect_oracle(&p);
    expect_oracle(&copies);
    problem_free(&p);
    problem_free(&copies);
}

/* ---- The scale ---- */

Test(scale, zero_negative_and_default) {
    const double e = 0.7310585786, f = 0.2689414214;
    problem p;
    problem_init(&p, (shape){1, 1, 1, 1, 2, 1, 2});
    fill_constant(&p, OP_Q, 1.0f);
    fill_identity(&p);
    *problem_at(&p, OP_K, 0, 0, 1, 0) = 1.0f;
    p.what.scale = (rapt_scale){1, -1.0f};
    expect_oracle(&p);
    expect_out(&p, 0, 0, 0, (double[]){e, f});
    p.what.scale = (rapt_scale){1, 0.0f};
    expect_oracle(&p);
    expect_out(&p, 0, 0, 0, (double[]){0.5, 0.5});
    p.what = (rapt_attention){0};
    expect_oracle(&p);
    expect_out(&p, 0, 0, 0, (double[]){f, e});
    p.what.scale = (rapt_scale){0, -7.0f}; /* off: the value means nothing */
    expect_oracle(&p);
    expect_out(&p, 0, 0, 0, (double[]){f, e});
    problem_free(&p);

    problem_init(&p, (shape){1, 1, 1, 1, 2, 64, 2}); /* 1/8: q.k = 8 becomes 1 */
    fill_constant(&p, OP_Q, 1.0f);
    fill_identity(&p);
    for (int64_t d = 0; d < 8; d++) *problem_at(&p, OP_K, 0, 0, 1, d) = 1.0f;
    expect_oracle(&p);
    expect_out(&p, 0, 0, 0, (double[]){f, e});
    problem_free(&p);
}
