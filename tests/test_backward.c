/* SPDX-License-Identifier: MIT
 * test_backward.c: gradients of attention, feature by feature, against the oracle and closed forms.
 * Sizes lie around the edges of groups, blocks and cells of every instruction set. */
#include "backward_call.h"
#include "compare.h"
#include "harness.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>

static problem p;
static backward_call c;

static void start(shape s) {
    problem_init(&p, s);
    fill_normal(&p, 1);
}

/* dout and dlse normal, everything asked for, against the oracle. */
static void check(void) {
    backward_init(&c, &p);
    backward_layout(&c, GRAD_DLSE, LAYOUT_DENSE);
    backward_bias(&c, 4, (int64_t[]){p.s.b, p.s.hq, p.s.tq, p.s.tk}, LAYOUT_DENSE);
    backward_fill_normal(&c, 2);
    expect_backward(&c);
}

static void finish(void) {
    backward_free(&c);
    problem_free(&p);
}

Test(backward, sizes) {
    static const int64_t queries[] = {1, 3, 16, 17, 47, 48, 49, 100, 145};
    static const int64_t keys[] = {1, 2, 15, 16, 33, 95, 96, 97, 200};
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        for (size_t j = 0; j < sizeof keys / sizeof *keys; j++) {
            start((shape){1, 1, 1, queries[i], keys[j], 9, 7});
            check();
            finish();
        }
    }
}

Test(backward, head_sizes) {
    static const int64_t sizes[][2] = {{1, 1},   {16, 40},   {40, 16}, {64, 64},
                                       {59, 80}, {192, 128}, {128, 96}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        start((shape){1, 4, 2, 33, 50, sizes[i][0], sizes[i][1]});
        check();
        finish();
    }
}

/* Heads that are cut into cells on every instruction set, at 2048 queries and keys; more ranges
 * than segments, and fewer. */
Test(backward, cells) {
    static const struct {
        shape s;
        rapt_causal causal;
        int64_t window; /* 0: none */
    } cases[] = {{{1, 1, 1, 2100, 2060, 2, 1}, RAPT_CAUSAL_NONE, 0},
                 {{1, 2, 1, 2100, 2200, 3, 2}, RAPT_CAUSAL_BOTTOM_RIGHT, 90},
                 {{1, 2, 1, 1030, 60, 5, 3}, RAPT_CAUSAL_NONE, 0},
                 {{1, 1, 1, 70, 2100, 5, 3}, RAPT_CAUSAL_BOTTOM_RIGHT, 0},
                 {{1, 1, 1, 2100, 70, 5, 3}, RAPT_CAUSAL_TOP_LEFT, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        start(cases[i].s);
        p.what.causal = cases[i].causal;
        if (cases[i].window) p.what.window = (rapt_window){1, cases[i].window, 0};
        backward_init(&c, &p);
        backward_bias(&c, 2, (int64_t[]){1, p.s.tk}, LAYOUT_DENSE);
        backward_fill_normal(&c, 2);
        c.accumulate = i % 2;
        c.threads = 1 + (int32_t)i % 3;
        expect_backward(&c);
        finish();
    }
}

Test(backward, zero_sizes) {
    static const shape shapes[] = {
        {0, 2, 1, 3, 4, 5, 6}, {1, 0, 0, 3, 4, 5, 6}, {1, 0, 2, 3, 4, 5, 6}, {2, 2, 1, 0, 4, 5, 6},
        {2, 2, 1, 3, 0, 5, 6}, {1, 2, 1, 3, 4, 0, 6}, {1, 2, 1, 3, 4, 5, 0}, {1, 1, 1, 0, 0, 0, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int32_t accumulate = 0; accumulate < 2; accumulate++) {
            start(shapes[i]);
            backward_init(&c, &p);
            backward_bias(&c, 4, (int64_t[]){1, p.s.hq, 1, p.s.tk}, LAYOUT_DENSE);
            backward_fill_normal(&c, 3);
            c.accumulate = accumulate;
            expect_backward(&c);
            finish();
        }
    }
}

Test(backward, single_key) { /* P = 1, whose derivative is 0 */
    for (float factor = 1.0f; factor < 1e5f; factor *= 1e4f) {
        start((shape){1, 1, 1, 1, 1, 16, 16});
        for (int64_t d = 0; d < 16; d++) *problem_at(&p, OP_V, 0, 0, 0, d) *= factor;
        backward_init(&c, &p);
        backward_fill_normal(&c, 4);
        for (int64_t d = 0; d < 16; d++) *backward_at(&c, GRAD_DOUT, 0, 0, 0, d) *= factor;
        expect_backward(&c);
        for (int64_t d = 0; d < 16; d++) {
            const float got = *backward_at(&c, GRAD_DV, 0, 0, 0, d);
            REQUIRE(got == *backward_at(&c, GRAD_DOUT, 0, 0, 0, d), "dv = %.9g", (double)got);
        }
        finish();
    }
}

Test(backward, empty_rows) { /* a bias of -inf, and what its row held before */
    start((shape){1, 2, 2, 4, 4, 8, 8});
    problem_full_bias(&p);
    for (int64_t h = 0; h < 2; h++) {
        for (int64_t j = 0; j < 4; j++) *problem_at(&p, OP_BIAS, 0, h, 2, j) = -INFINITY;
    }
    check();
    for (int64_t h = 0; h < 2; h++) {
        expect_gradient_row(&c, GRAD_DQ, 0, h, 2, 0.0f);
        expect_gradient_row(&c, GRAD_DBIAS, 0, h, 2, 0.0f);
    }
    finish();
}

Test(backward, causal_and_padding) {
    start((shape){2, 2, 2, 33, 33, 16, 16});
    p.what.causal = RAPT_CAUSAL_TOP_LEFT;
    problem_mask(&p, 4, (int64_t[]){2, 1, 1, 33}, LAYOUT_DENSE);
    for (int64_t j = 0; j < 5; j++) mask_set(&p, 1, 0, 0, j, 0);
    check();
    for (int64_t h = 0; h < 2; h++) {
        for (int64_t i = 0; i < 5; i++) {
            expect_gradient_row(&c, GRAD_DQ, 1, h, i, 0.0f);
            expect_gradient_row(&c, GRAD_DK, 1, h, i, 0.0f);
            expect_gradient_row(&c, GRAD_DV, 1, h, i, 0.0f);
        }
    }
    finish();
}

Test(backward, limits) {
    for (int causal = 0; causal < 3; causal++) {
        for (int64_t left = 0; left < 220; left += left < 3 ? 1 : 70) {
            for (int64_t right = 0; right < 130; right += 40) {
                start((shape){2, 2, 1, 150, 190, 4, 6});
                p.what.causal = (rapt_causal)causal;
                p.what.window = (rapt_window){1, left, right};
                problem_lengths(&p, RAPT_I32, 2, (int64_t[]){190, 77});
                check();
                finish();
            }
        }
    }
}

Test(backward, grouped_heads) { /* the sum over the heads of a group */
    static const int64_t heads[][2] = {{8, 2}, {6, 1}, {5, 5}, {21, 1}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        const int64_t hq = heads[i][0], hkv = heads[i][1];
        start((shape){2, hq, hkv, 17, 19, 12, 12});
        check();
        problem wide = {0};
        backward_call each;
        problem_init(&wide, (shape){2, hq, hq, 17, 19, 12, 12});
        for (operand_id id = OP_Q; id <= OP_V; id++) {
            for (walk w = walk_begin(&wide.op[id].t); !w.done; walk_next(&w)) {
                const int64_t *at = w.index, head = id == OP_Q ? at[1] : at[1] / (hq / hkv);
                *walk_f32(&w) = *problem_at(&p, id, at[0], head, at[2], at[3]);
            }
        }
        backward_init(&each, &wide);
        backward_fill_normal(&each, 2);
        backward_layout(&each, GRAD_DLSE, LAYOUT_DENSE);
        for (walk w = walk_begin(&each.op[GRAD_DLSE].t); !w.done; walk_next(&w)) {
            *walk_f32(&w) = *backward_at(&c, GRAD_DLSE, w.index[0], w.index[1], w.index[2], 0);
        }
        expect_backward(&each);
        for (walk w = walk_begin(&c.op[GRAD_DK].t); !w.done; walk_next(&w)) {
            const int64_t *at = w.index;
            double sum = 0, size = 0;
            for (int64_t h = at[1] * (hq / hkv); h < (at[1] + 1) * (hq / hkv); h++) {
                const double term = (double)*backward_at(&each, GRAD_DK, at[0], h, at[2], at[3]);
                sum += term;
                size += fabs(term) + 1e-2; /* terms of the sums over queries are below 100 */
            }
            REQUIRE(fabs((double)*walk_f32(&w) - sum) <= 300 * 0x1p-24 * size, "dk %.9g, sum %.9g",
                    (double)*walk_f32(&w), sum);
        }
        backward_free(&each);
        problem_free(&wide);
        finish();
    }
}

Test(backward, bias_shapes) {
    for (int64_t hkv = 1; hkv <= 4; hkv += 3) {
        for (int ones = 0; ones < 16; ones++) {
            for (int32_t rank = 1; rank <= 4; rank++) {
                const int64_t full[4] = {3, 4, 40, 70};
                int64_t size[4];
                for (int32_t n = 0; n < rank; n++) {
                    const int32_t axis = 4 - rank + n;
                    size[n] = ones >> axis & 1 ? 1 : full[axis];
                }
                start((shape){3, 4, hkv, 40, 70, 6, 5});
                p.what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
                problem_bias(&p, rank, size, LAYOUT_DENSE);
                rng r = rng_make(5, 6);
                fill_random(&p, OP_BIAS, &r, FILL_NORMAL);
                backward_init(&c, &p);
                backward_bias(&c, rank, size, rank % 2 ? LAYOUT_PADDED : LAYOUT_DENSE);
                backward_layout(&c, GRAD_DLSE, LAYOUT_DENSE); /* rows then do not sum to 0 */
                backward_fill_normal(&c, 7);
                c.accumulate = ones % 2;
                c.threads = 1 + ones % 3;
                expect_backward(&c);
                finish();
            }
        }
    }
}

Test(backward, bias_only) { /* each row of the dense gradient sums to 0 */
    start((shape){2, 4, 2, 30, 37, 8, 8});
    backward_init(&c, &p);
    for (gradient_id id = GRAD_DQ; id <= GRAD_DV; id++) backward_drop(&c, id);
    backward_bias(&c, 4, (int64_t[]){2, 4, 30, 37}, LAYOUT_DENSE);
    backward_fill_normal(&c, 8);
    expect_backward(&c);
    for (int64_t row = 0; row < 2 * 4 * 30; row++) {
        double sum = 0, size = 0;
        for (int64_t j = 0; j < 37; j++) {
            const float *at = backward_at(&c, GRAD_DBIAS, row / 120, row / 30 % 4, row % 30, j);
            sum += (double)*at;
            size += fabs((double)*at);
        }
        /* 37 weights, each rounded some times, and delta, rounded like the sum that it is */
        REQUIRE(fabs(sum) <= 64 * 0x1p-24 * (size + 10), "row %lld sums to %g", (long long)row,
                sum);
    }
    finish();
}

/* What is not asked for changes nothing in what is. */
Test(backward, subsets) {
    start((shape){1, 4, 2, 60, 110, 20, 12});
    p.what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
    p.what.dropout = (rapt_dropout){1, 0.3, 5, 6};
    check();
    for (int asked = 0; asked < 16; asked++) {
        backward_call part;
        backward_init(&part, &p);
        backward_layout(&part, GRAD_DLSE, LAYOUT_DENSE);
        backward_bias(&part, 4, (int64_t[]){1, 4, 60, 110}, LAYOUT_DENSE);
        backward_fill_normal(&part, 2);
        for (int n = 0; n < 4; n++) {
            if (!(asked >> n & 1)) backward_drop(&part, (gradient_id)(GRAD_DQ + n));
        }
        expect_backward_run(&part);
        expect_same_gradients(&c, &part);
        backward_free(&part);
    }
    finish();
}

Test(backward, accumulate) {
    static const int64_t tokens[] = {5, 100, 1100};
    for (size_t n = 0; n < sizeof tokens / sizeof *tokens; n++) {
        start((shape){1, 2, 1, tokens[n], tokens[n], 7, 8});
        p.what.causal = RAPT_CAUSAL_TOP_LEFT;
        p.what.window = (rapt_window){1, 60, 0};
        backward_init(&c, &p);
        backward_bias(&c, 2, (int64_t[]){tokens[n], 1}, LAYOUT_DENSE);
        backward_fill_normal(&c, 9);
        c.accumulate = 1;
        expect_backward(&c);
        finish();
    }
}

Test(backward, layouts) {
    start((shape){2, 2, 2, 17, 23, 16, 12});
    check();
    for (layout l = LAYOUT_DENSE; l < LAYOUT_COUNT; l++) {
        for (gradient_id id = GRAD_DOUT; id < GRAD_COUNT; id++) {
            if (l >= LAYOUT_WRITABLE && id >= GRAD_DQ) continue;
            backward_call other;
            backward_init(&other, &p);
            backward_layout(&other, GRAD_DLSE, LAYOUT_DENSE);
            backward_bias(&other, 4, (int64_t[]){2, 2, 17, 23}, LAYOUT_DENSE);
            if (id == GRAD_DBIAS) backward_bias(&other, 4, (int64_t[]){2, 2, 17, 23}, l);
            if (id != GRAD_DBIAS) backward_layout(&other, id, l);
            if (l < LAYOUT_WRITABLE) {
                backward_fill_normal(&other, 2);
                expect_backward_run(&other);
                expect_same_gradients(&c, &other);
            } else { /* a gradient of a sum: one number for many elements */
                backward_fill_normal(&other, 2);
                expect_backward(&other);
            }
            backward_free(&other);
        }
    }
    finish();
}

Test(backward, input_layouts) {
    start((shape){2, 4, 2, 20, 101, 16, 16});
    check();
    for (layout l = LAYOUT_DENSE; l < LAYOUT_WRITABLE; l++) {
        for (operand_id id = OP_Q; id <= OP_LSE; id++) {
            if (id > OP_V && id < OP_OUT) continue;
            static problem other;
            backward_call same;
            problem_init(&other, p.s);
            problem_layout(&other, id, l);
            fill_copy(&other, &p);
            backward_init(&same, &other);
            backward_fill_normal(&same, 2);
            backward_layout(&same, GRAD_DLSE, LAYOUT_DENSE);
            for (walk w = walk_begin(&same.op[GRAD_DLSE].t); !w.done; walk_next(&w)) {
                *walk_f32(&w) = *backward_at(&c, GRAD_DLSE, w.index[0], w.index[1], w.index[2], 0);
            }
            expect_backward_run(&same);
            expect_same_gradients(&c, &same);
            backward_free(&same);
            problem_free(&other);
            harness_current(&p);
        }
    }
    finish();
}
