/* SPDX-License-Identifier: MIT
 * test_rows.c: which keys a row sees: empty rows, combined masks, causal alignment, windows. Most
 * tests use q = 0 and v = identity: every visible key is equally likely, and out is the weights
 * themselves. */
#include "harness.h"

#include <criterion/criterion.h>

#include <float.h>
#include <math.h>
#include <stdio.h>

/* Key counts below, at and beyond vector, tile and block sizes of every instruction set. */
static const int64_t key_counts[] = {3, 5, 7, 8, 16, 63, 64, 65, 127, 128, 129, 600};
enum { KEY_COUNTS = sizeof key_counts / sizeof *key_counts };

#define NOTE(p, ...) snprintf((p).note, sizeof(p).note, __VA_ARGS__)

/* Row i of the weights is 1 / count on keys begin .. end - 1 and exactly 0 elsewhere. */
static void expect_uniform(const problem *p, int64_t b, int64_t h, int64_t i, int64_t begin,
                           int64_t end) {
    double row[2048] = {0};
    if (begin < 0) begin = 0;
    if (end > p->s.tk) end = p->s.tk;
    const double count = (double)(end - begin);
    for (int64_t j = begin; j < end; j++) row[j] = 1.0 / count;
    expect_out(p, b, h, i, row);
    expect_lse(p, b, h, i, end > begin ? (count == 1.0 ? 0.0 : log(count)) : -INFINITY);
}

/* ---- Rows that see nothing, or see all keys equally badly ---- */

/* A row whose mask is all false gives 0 and -inf; the others keep the bits of the unmasked call. */
Test(empty, mask_row_all_false) {
    for (int n = 0; n < KEY_COUNTS; n++) {
        for (int32_t threads = 1; threads <= 4; threads += 3) {
            problem free_rows, p;
            const shape s = {1, 1, 1, 3, key_counts[n], 4, 4};
            problem_init(&free_rows, s);
            fill_normal(&free_rows, 1);
            expect_oracle(&free_rows);
            problem_init(&p, s);
            fill_copy(&p, &free_rows);
            p.threads = threads;
            problem_full_mask(&p);
            for (int64_t j = 0; j < s.tk; j++) mask_set(&p, 0, 0, 1, j, 0);
            expect_oracle(&p);
            expect_empty(&p, 0, 0, 1);
            for (int64_t d = 0; d < s.dv; d++) {
                *problem_at(&free_rows, OP_OUT, 0, 0, 1, d) = 0.0f;
            }
            *problem_at(&free_rows, OP_LSE, 0, 0, 1, 0) = -INFINITY;
            expect_same_bits(&p, &free_rows);
            problem_free(&p);
            problem_free(&free_rows);
        }
    }
}

/* The same by every other way of hiding. */
Test(empty, bias_lengths_and_window) {
    for (int n = 0; n < KEY_COUNTS; n++) {
        problem p;
        problem_init(&p, (shape){2, 2, 1, 3, key_counts[n], 4, 4});
        fill_normal(&p, 2);
        problem_full_bias(&p);
        fill_constant(&p, OP_BIAS, -INFINITY);
        expect_oracle(&p);
        for (int64_t i = 0; i < 3; i++) expect_empty(&p, 1, 1, i);
        problem_drop(&p, OP_BIAS);

        problem_lengths(&p, RAPT_I32, 2, (int64_t[]){0, p.s.tk});
        expect_oracle(&p);
        for (int64_t i = 0; i < 3; i++) expect_empty(&p, 0, 1, i);
        problem_drop(&p, OP_LENGTHS);

        p.what.window = (rapt_window){1, 0, 0};
        expect_oracle(&p);
        for (int64_t i = 0; i < 3; i++) expect_empty(&p, 1, 0, i);
        problem_free(&p);
    }
}

/* The most negative float is a number: it absorbs the scores, so that all keys tie. */
Test(empty, most_negative_float_is_a_tie) {
    for (int n = 0; n < KEY_COUNTS; n++) {
        problem p;
        problem_init(&p, (shape){1, 1, 1, 4, key_counts[n], 4, 2});
        fill_normal(&p, 3);
        fill_ramp(&p);
        problem_full_bias(&p);
        for (int64_t j = 0; j < p.s.tk; j++) *problem_at(&p, OP_BIAS, 0, 0, 2, j) = -FLT_MAX;
        expect_oracle(&p);
        expect_out_all(&p, 0, 0, 2, (double)(p.s.tk - 1) / 2.0);
        expect_lse(&p, 0, 0, 2, -2.3e38);
        problem_free(&p);
    }
}

/* A row of one finite constant cancels, up to the rounding of the scores. */
Test(empty, finite_sentinel_cancels) {
    problem p, plain;
    problem_init(&plain, (shape){1, 1, 1, 4, 4, 4, 4});
    fill_normal(&plain, 4);
    expect_oracle(&plain);
    problem_init(&p, plain.s);
    fill_copy(&p, &plain);
    problem_full_bias(&p);
    fill_constant(&p, OP_BIAS, -65504.0f);
    expect_oracle(&p);
    for (int64_t i = 0; i < 4; i++) {
        for (int64_t d = 0; d < 4; d++) {
            const float got = *problem_at(&p, OP_OUT, 0, 0, i, d);
            const float want = *problem_at(&plain, OP_OUT, 0, 0, i, d);
            REQUIRE(fabsf(got - want) <= 1e-2f, "row %lld: %g, want %g", (long long)i, (double)got,
                    (double)want);
        }
    }
    problem_free(&p);
    problem_free(&plain);
}

/* ---- Whole blocks of keys hidden before the first visible one ---- */

Test(first_blocks_hidden, band_of_ten_keys) {
    problem p;
    problem_init(&p, (shape){1, 1, 1, 600, 600, 2, 2});
    for (operand_id id = OP_Q; id <= OP_V; id++) fill_constant(&p, id, 1.0f);
    problem_full_bias(&p);
    for (walk w = walk_begin(&p.op[OP_BIAS].t); !w.done; walk_next(&w)) {
        const int64_t i = w.index[2], j = w.index[3];
        *walk_f32(&w) = i - 10 < j && j <= i ? 0.0f : -INFINITY;
    }
    expect_oracle(&p);
    for (int64_t i = 0; i < 600; i++) {
        expect_out_all(&p, 0, 0, i, 1.0);
        expect_lse(&p, 0, 0, i, sqrt(2.0) + log(fmin((double)i + 1.0, 10.0)));
    }
    problem_free(&p);
}

/* Only the last ten keys are visible, and their scores are far below zero. */
Test(first_blocks_hidden, low_scores_at_the_end) {
    problem p;
    problem_init(&p, (shape){1, 1, 1, 1, 600, 1, 1});
    fill_constant(&p, OP_Q, 1.0f);
    fill_ramp(&p);
    p.what.scale = (rapt_scale){1, 1.0f};
    for (int64_t j = 590; j < 600; j++) *problem_at(&p, OP_K, 0, 0, j, 0) = -200.0f;
    for (int way = 0; way < 3; way++) {
        NOTE(p, "way %d", way);
        if (way == 0) problem_full_mask(&p);
        if (way == 1) problem_full_bias(&p);
        for (int64_t j = 0; j < 590; j++) {
            if (way == 0) mask_set(&p, 0, 0, 0, j, 0);
            if (way == 1) *problem_at(&p, OP_BIAS, 0, 0, 0, j) = -INFINITY;
        }
        if (way == 2) {
            p.what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
            p.what.window = (rapt_window){1, 10, 0};
        }
        expect_oracle(&p);
        expect_out_all(&p, 0, 0, 0, 594.5);
        expect_lse(&p, 0, 0, 0, -200.0 + log(10.0));
        problem_drop(&p, OP_MASK);
        problem_drop(&p, OP_BIAS);
    }
    problem_free(&p);
}

/* ---- Rows that only two masks together empty; masks are ANDed, never added ---- */

Test(combined, causal_and_left_padding) {
    problem p, single, cut;
    problem_init(&p, (shape){2, 2, 2, 33, 33, 16, 16});
    fill_normal(&p, 5);
    p.what.causal = RAPT_CAUSAL_TOP_LEFT;
    problem_mask(&p, 4, (int64_t[]){2, 1, 1, 33}, LAYOUT_DENSE);
    for (int64_t j = 0; j < 5; j++) mask_set(&p, 1, 0, 0, j, 0);
    expect_oracle(&p);
    problem_init(&single, (shape){1, 2, 2, 33, 33, 16, 16});
    problem_init(&cut, (shape){1, 2, 2, 28, 28, 16, 16});
    single.what = cut.what = p.what;
    for (operand_id id = OP_Q; id <= OP_V; id++) {
        for (walk w = walk_begin(&single.op[id].t); !w.done; walk_next(&w)) {
            const int64_t *x = w.index;
            *walk_f32(&w) = *problem_at(&p, id, 0, x[1], x[2], x[3]);
        }
        for (walk w = walk_begin(&cut.op[id].t); !w.done; walk_next(&w)) {
            const int64_t *x = w.index;
            *walk_f32(&w) = *problem_at(&p, id, 1, x[1], x[2] + 5, x[3]);
        }
    }
    expect_run(&single);
    expect_run(&cut);
    for (int64_t h = 0; h < 2; h++) {
        for (int64_t i = 0; i < 33; i++) {
            double row[16];
            for (int64_t d = 0; d < 16; d++) {
                row[d] = (double)*problem_at(&single, OP_OUT, 0, h, i, d);
            }
            expect_out(&p, 0, h, i, row);
            if (i < 5) {
                expect_empty(&p, 1, h, i);
                continue;
            }
            for (int64_t d = 0; d < 16; d++) {
                row[d] = (double)*problem_at(&cut, OP_OUT, 0, h, i - 5, d);
            }
            expect_out(&p, 1, h, i, row);
        }
    }
    problem_free(&p);
    problem_free(&single);
    problem_free(&cut);
}

/* Padding on the left by mask, bias or both; causal by the flag, by the mask or by both. */
Test(combined, padding_and_causal_leave_exact_zeros) {
    for (int n = 0; n < KEY_COUNTS - 1; n++) {
        const int64_t t = key_counts[n], padding = (t + 1) / 2;
        for (int way = 0; way < 8; way++) {
            problem p;
            problem_init(&p, (shape){1, 1, 1, t, t, 3, t});
            NOTE(p, "way %d", way);
            fill_identity(&p);
            problem_full_mask(&p);
            problem_full_bias(&p);
            if (way & 1 || !(way & 4)) p.what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
            for (int64_t i = 0; i < t; i++) {
                for (int64_t j = 0; j < t; j++) {
                    if (j < padding && way & 2) mask_set(&p, 0, 0, i, j, 0);
                    if (j < padding && !(way & 2)) *problem_at(&p, OP_BIAS, 0, 0, i, j) = -INFINITY;
                    if (j > i && way & 4) mask_set(&p, 0, 0, i, j, 0);
                }
            }
            expect_oracle(&p);
            for (int64_t i = 0; i < t; i++) expect_uniform(&p, 0, 0, i, padding, i + 1);
            problem_free(&p);
        }
    }
}

/* ---- Causal alignment ---- */

static void expect_causal(int64_t tq, int64_t tk, rapt_causal causal) {
    problem p;
    problem_init(&p, (shape){1, 2, 1, tq, tk, 3, tk});
    fill_identity(&p);
    p.what.causal = causal;
    expect_oracle(&p);
    const int64_t shift = causal == RAPT_CAUSAL_BOTTOM_RIGHT ? tk - tq : 0;
    for (int64_t i = 0; i < tq; i++) {
        const int64_t end = causal == RAPT_CAUSAL_NONE ? tk : i + shift + 1;
        for (int64_t h = 0; h < 2; h++) expect_uniform(&p, 0, h, i, 0, end > 0 ? end : 0);
    }
    problem_free(&p);
}

Test(causal, both_alignments_and_none) {
    const int64_t sizes[][2] = {{2, 5},   {1, 16},  {5, 2},  {1, 1},   {16, 1},   {33, 65},
                                {65, 33}, {1, 129}, {7, 7},  {48, 48}, {49, 128}, {128, 49},
                                {3, 257}, {257, 3}, {64, 1}, {97, 96}, {96, 97},  {130, 600}};
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        for (rapt_causal c = RAPT_CAUSAL_NONE; c <= RAPT_CAUSAL_BOTTOM_RIGHT; c++) {
            expect_causal(sizes[n][0], sizes[n][1], c);
        }
    }
}

/* ---- Windows ---- */

Test(window, counts_the_current_key) {
    const int64_t widths[] = {0, 1, 2, 3, 7, 8, 9, 1000, INT64_MAX};
    for (size_t n = 0; n < sizeof widths / sizeof *widths; n++) {
        problem p, plain;
        problem_init(&p, (shape){1, 1, 1, 8, 8, 3, 8});
        NOTE(p, "window %lld", (long long)widths[n]);
        fill_identity(&p);
        p.what = (rapt_attention){.causal = RAPT_CAUSAL_TOP_LEFT, .window = {1, widths[n], 0}};
        expect_oracle(&p);
        for (int64_t i = 0; i < 8; i++) {
            const int64_t begin = widths[n] > i ? 0 : i - widths[n] + 1;
            expect_uniform(&p, 0, 0, i, begin, i + 1);
        }
        problem_init(&plain, p.s);
        plain.what.causal = RAPT_CAUSAL_TOP_LEFT;
        fill_identity(&plain);
        expect_run(&plain);
        if (widths[n] >= 8) expect_same_bits(&p, &plain);
        problem_free(&p);
        problem_free(&plain);
    }
}

/* One query on the last of eight keys. */
Test(window, one_query_after_seven_keys) {
    for (int64_t width = 0; width <= 9; width++) {
        problem p;
        problem_init(&p, (shape){1, 1, 1, 1, 8, 3, 8});
        NOTE(p, "window %lld", (long long)width);
        fill_identity(&p);
        p.what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
        p.what.window = (rapt_window){1, width, 0};
        expect_oracle(&p);
        expect_uniform(&p, 0, 0, 0, 8 - width, 8);
        problem_free(&p);
    }
}

/* Both sides, all alignments, sizes around the tiles of every instruction set. */
Test(window, both_sides_everywhere) {
    const int64_t sizes[][2] = {{8, 8}, {20, 33}, {33, 20}, {49, 130}, {1, 65}, {140, 140}};
    const int64_t reach[] = {0, 1, 5, 16, 47, 128, INT64_MAX};
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        for (int way = 0; way < 3 * 7 * 7; way++) {
            const int64_t left = reach[way / 3 % 7], right = reach[way / 21];
            problem p;
            problem_init(&p, (shape){1, 1, 1, sizes[n][0], sizes[n][1], 1, sizes[n][1]});
            fill_identity(&p);
            p.what.causal = (rapt_causal)(way % 3);
            p.what.window = (rapt_window){1, left, right};
            expect_run(&p);
            for (int64_t i = 0; i < p.s.tq; i++) {
                const int64_t shift =
                    p.what.causal == RAPT_CAUSAL_BOTTOM_RIGHT ? p.s.tk - p.s.tq : 0;
                const int64_t at = i + shift;
                int64_t begin = left == INT64_MAX ? 0 : at - left + 1;
                int64_t end = right == INT64_MAX ? p.s.tk : at + right + 1;
                if (p.what.causal != RAPT_CAUSAL_NONE && end > at + 1) end = at + 1;
                if (begin < 0) begin = 0;
                if (end > p.s.tk) end = p.s.tk;
                expect_uniform(&p, 0, 0, i, begin < end ? begin : 0, begin < end ? end : 0);
            }
            problem_free(&p);
        }
    }
}
