/* SPDX-License-Identifier: MIT
 * test_poison.c: what is not visible changes no bit of any result, whatever lies there (K, V, bias)
 * and whatever hides it: mask, bias of -inf, causal, window, key length. */
#include "harness.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>

typedef enum hide { BY_MASK, BY_BIAS, BY_CAUSAL, BY_WINDOW, BY_LENGTH, BY_ROW_MASK, WAYS } hide;

static const char *const way_names[WAYS] = {"mask",   "bias",   "causal",
                                            "window", "length", "mask of one query"};
static const float poisons[] = {NAN, INFINITY, -INFINITY, 1e38f, -1e38f, 12345.0f};
enum { POISONS = sizeof poisons / sizeof *poisons };

/* Hides keys [first, Tk) from all queries; BY_ROW_MASK from all but the last query. */
static void hide_keys(problem *p, hide way, int64_t first) {
    const int64_t tk = p->s.tk, tq = p->s.tq;
    if (way == BY_MASK) problem_mask(p, 1, &tk, LAYOUT_DENSE);
    if (way == BY_BIAS) problem_bias(p, 1, &tk, LAYOUT_DENSE);
    for (int64_t j = first; j < tk; j++) {
        if (way == BY_MASK) ((uint8_t *)p->op[OP_MASK].t.data)[j] = 0;
        if (way == BY_BIAS) ((float *)p->op[OP_BIAS].t.data)[j] = -INFINITY;
    }
    if (way == BY_CAUSAL) p->what.causal = RAPT_CAUSAL_TOP_LEFT;
    if (way == BY_WINDOW) p->what.window = (rapt_window){1, INT64_MAX, first - tq};
    if (way == BY_LENGTH) problem_lengths(p, RAPT_I64, 1, &first);
    if (way != BY_ROW_MASK) return;
    problem_full_mask(p);
    for (walk w = walk_begin(&p->op[OP_MASK].t); !w.done; walk_next(&w)) {
        *walk_byte(&w) = w.index[3] < first || w.index[2] == tq - 1;
    }
}

/* The rows that see none of the keys from `first` on have the same bits as with zeros there. */
static void expect_unmoved(shape s, hide way, int64_t first, layout v_layout) {
    problem zeros, p;
    problem_init(&zeros, s);
    problem_layout(&zeros, OP_V, v_layout);
    fill_normal(&zeros, 1);
    fill_keys(&zeros, first, s.tk, 0.0f);
    hide_keys(&zeros, way, first);
    expect_oracle(&zeros);
    problem_init(&p, s);
    problem_layout(&p, OP_V, v_layout);
    hide_keys(&p, way, first);
    for (int n = 0; n < POISONS; n++) {
        snprintf(p.note, sizeof p.note, "%g behind %s from key %lld", (double)poisons[n],
                 way_names[way], (long long)first);
        fill_copy(&p, &zeros);
        fill_keys(&p, first, s.tk, poisons[n]);
        expect_run(&p);
        for (walk w = walk_begin(&p.op[OP_LSE].t); !w.done; walk_next(&w)) {
            const int64_t *x = w.index;
            if (way != BY_ROW_MASK || x[2] < s.tq - 1) continue;
            for (int64_t d = 0; d < s.dv; d++) { /* the row that sees the poison */
                *problem_at(&p, OP_OUT, x[0], x[1], x[2], d) =
                    *problem_at(&zeros, OP_OUT, x[0], x[1], x[2], d);
            }
            *walk_f32(&w) = *problem_at(&zeros, OP_LSE, x[0], x[1], x[2], 0);
        }
        expect_same_bits(&p, &zeros);
    }
    problem_free(&p);
    problem_free(&zeros);
}

Test(poison, in_hidden_keys_and_values) {
    const shape shapes[] = {
        {2, 2, 2, 5, 40, 16, 16}, {1, 2, 1, 5, 40, 3, 7}, {1, 4, 2, 30, 150, 8, 20}};
    const int64_t firsts[] = {31, 5, 139};
    for (int n = 0; n < 3; n++) {
        for (hide way = 0; way < WAYS; way++) {
            const int64_t first = way == BY_CAUSAL ? shapes[n].tq : firsts[n];
            expect_unmoved(shapes[n], way, first, LAYOUT_DENSE);
            expect_unmoved(shapes[n], way, first, LAYOUT_STEP2);
        }
    }
}

/* Hidden from some queries of a tile only: each key is poisoned for those before it. */
Test(poison, under_the_causal_diagonal) {
    const shape s = {1, 2, 1, 70, 70, 6, 5};
    problem zeros, p;
    problem_init(&zeros, s);
    fill_normal(&zeros, 2);
    zeros.what.causal = RAPT_CAUSAL_TOP_LEFT;
    problem_init(&p, s);
    p.what = zeros.what;
    for (int64_t first = 1; first < 70; first++) {
        for (int n = 0; n < POISONS; n++) {
            fill_normal(&zeros, 2);
            fill_copy(&p, &zeros);
            fill_keys(&zeros, first, 70, 0.0f);
            fill_keys(&p, first, 70, poisons[n]);
            expect_run(&zeros);
            expect_run(&p);
            for (walk w = walk_begin(&p.op[OP_OUT].t); !w.done; walk_next(&w)) {
                const float want =
                    *problem_at(&zeros, OP_OUT, 0, w.index[1], w.index[2], w.index[3]);
                REQUIRE(w.index[2] >= first || *walk_f32(&w) == want,
                        "%g from key %lld on: row %lld is %g, want %g", (double)poisons[n],
                        (long long)first, (long long)w.index[2], (double)*walk_f32(&w),
                        (double)want);
            }
        }
    }
    problem_free(&p);
    problem_free(&zeros);
}

/* The bias of a hidden pair is not used either. */
Test(poison, in_the_bias_of_hidden_pairs) {
    const shape s = {1, 2, 1, 30, 40, 6, 5};
    for (hide way = 0; way < WAYS; way++) {
        if (way == BY_BIAS) continue;
        problem zeros, p;
        problem_init(&zeros, s);
        fill_normal(&zeros, 3);
        hide_keys(&zeros, way, 31);
        problem_full_bias(&zeros);
        expect_oracle(&zeros);
        problem_init(&p, s);
        fill_copy(&p, &zeros);
        hide_keys(&p, way, 31);
        fill_copy(&p, &zeros);
        problem_full_bias(&p);
        const rapt_attention_operands ops = problem_operands(&zeros);
        for (int n = 0; n < POISONS; n++) {
            snprintf(p.note, sizeof p.note, "bias %g behind %s", (double)poisons[n],
                     way_names[way]);
            for (walk w = walk_begin(&p.op[OP_BIAS].t); !w.done; walk_next(&w)) {
                const int64_t *x = w.index;
                if (!oracle_visible(&zeros.what, &ops, x[0], x[1], x[2], x[3])) {
                    *walk_f32(&w) = poisons[n];
                }
            }
            expect_oracle(&p);
            expect_same_bits(&p, &zeros);
        }
        problem_free(&p);
        problem_free(&zeros);
    }
}

/* A query that sees nothing may hold anything. */
Test(poison, in_queries_that_see_nothing) {
    const shape s = {1, 2, 1, 30, 20, 6, 5};
    problem zeros, p;
    problem_init(&zeros, s);
    fill_normal(&zeros, 4);
    zeros.what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
    expect_oracle(&zeros);
    problem_init(&p, s);
    p.what = zeros.what;
    for (int n = 0; n < POISONS; n++) {
        fill_copy(&p, &zeros);
        for (int64_t x = 0; x < 2 * 10 * 6; x++) {
            *problem_at(&p, OP_Q, 0, x / 60, x / 6 % 10, x % 6) = poisons[n];
        }
        expect_oracle(&p);
        expect_same_bits(&p, &zeros);
    }
    problem_free(&p);
    problem_free(&zeros);
}
