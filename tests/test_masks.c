/* SPDX-License-Identifier: MIT
 * test_masks.c: what the values of a mask and a bias mean, and how their shapes broadcast. */
#include "harness.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>

/* ---- What a mask's values mean ---- */

Test(polarity, true_may_attend) {
    const uint8_t trues[] = {1, 2, 128, 255};
    problem plain;
    problem_init(&plain, (shape){2, 4, 4, 8, 8, 16, 16});
    fill_normal(&plain, 6);
    expect_oracle(&plain);
    for (int n = 0; n < 4; n++) {
        problem p;
        problem_init(&p, plain.s);
        snprintf(p.note, sizeof p.note, "true is %d", trues[n]);
        fill_copy(&p, &plain);
        problem_full_mask(&p);
        for (walk w = walk_begin(&p.op[OP_MASK].t); !w.done; walk_next(&w)) {
            *walk_byte(&w) = trues[n];
        }
        expect_oracle(&p);
        expect_same_bits(&p, &plain);
        for (walk w = walk_begin(&p.op[OP_MASK].t); !w.done; walk_next(&w)) {
            if (w.index[3] != 0) *walk_byte(&w) = 0;
        }
        expect_oracle(&p);
        for (walk w = walk_begin(&p.op[OP_OUT].t); !w.done; walk_next(&w)) {
            const float first = *problem_at(&p, OP_V, w.index[0], w.index[1], 0, w.index[3]);
            const double off = fabs((double)*walk_f32(&w) - (double)first);
            REQUIRE(off <= 0x1p-22 * fabs((double)first), "%g is not v[0], %g",
                    (double)*walk_f32(&w), (double)first);
        }
        problem_free(&p);
    }
    problem_free(&plain);
}

/* A bias is added: small numbers hide nothing. */
Test(polarity, bias_is_added) {
    problem p;
    problem_init(&p, (shape){2, 4, 4, 8, 8, 16, 8});
    fill_identity(&p);
    problem_full_bias(&p);
    for (walk w = walk_begin(&p.op[OP_BIAS].t); !w.done; walk_next(&w)) {
        *walk_f32(&w) = w.index[3] % 2 ? 0.5f : -0.25f;
    }
    expect_oracle(&p);
    const double l = 4.0 * (exp(0.5) + exp(-0.25)), odd = exp(0.5) / l, even = exp(-0.25) / l;
    const double row[8] = {even, odd, even, odd, even, odd, even, odd};
    expect_out(&p, 1, 3, 7, row);
    expect_lse(&p, 1, 3, 7, log(l));
    problem_free(&p);
}

/* ---- Broadcast ---- */

static void expect_broadcast(shape s, operand_id id, int32_t rank, const int64_t *size,
                             guard_side side) {
    problem p, dense;
    problem_init(&p, s);
    problem_init(&dense, s);
    fill_normal(&p, 7);
    fill_copy(&dense, &p);
    p.side = side;
    rng r = rng_make(8, (uint64_t)rank);
    if (id == OP_MASK) {
        problem_mask(&p, rank, size, LAYOUT_DENSE);
        problem_full_mask(&dense);
        for (walk w = walk_begin(&p.op[id].t); !w.done; walk_next(&w)) {
            *walk_byte(&w) = rng_chance(&r, 70);
        }
    } else {
        problem_bias(&p, rank, size, LAYOUT_DENSE);
        problem_full_bias(&dense);
        fill_random(&p, id, &r, FILL_NORMAL);
    }
    fill_expanded(&dense, &p, id);
    expect_oracle(&p);
    expect_run(&dense);
    expect_same_bits(&p, &dense);
    problem_free(&p);
    problem_free(&dense);
}

Test(broadcast, equals_the_expanded_mask) {
    const shape shapes[] = {
        {3, 2, 1, 5, 7, 4, 4}, {3, 2, 2, 50, 130, 4, 4}, {1, 4, 2, 17, 33, 3, 5}};
    for (int n = 0; n < 3; n++) {
        const shape s = shapes[n];
        for (int way = 0; way < 2 * 2 * 4 * 16; way++) {
            const int32_t rank = 1 + way / 4 % 4, ones = way / 16;
            int64_t size[4] = {s.b, s.hq, s.tq, s.tk};
            for (int axis = 0; axis < 4; axis++) size[axis] = ones >> axis & 1 ? 1 : size[axis];
            expect_broadcast(s, way & 1 ? OP_MASK : OP_BIAS, rank, size + 4 - rank,
                             way & 2 ? GUARD_BEFORE : GUARD_AFTER);
        }
    }
}

/* A bias that is the same for all keys moves lse and nothing else. */
Test(broadcast, bias_constant_along_keys) {
    problem p, plain;
    problem_init(&plain, (shape){3, 2, 2, 5, 7, 4, 4});
    fill_normal(&plain, 9);
    expect_oracle(&plain);
    problem_init(&p, plain.s);
    fill_copy(&p, &plain);
    problem_bias(&p, 4, (int64_t[]){1, 2, 5, 1}, LAYOUT_DENSE);
    for (walk w = walk_begin(&p.op[OP_BIAS].t); !w.done; walk_next(&w)) {
        *walk_f32(&w) = (float)(w.index[1] * 5 + w.index[2]) / 4.0f - 1.0f;
    }
    expect_oracle(&p);
    for (walk w = walk_begin(&p.op[OP_LSE].t); !w.done; walk_next(&w)) {
        const int64_t *x = w.index;
        double row[4];
        for (int64_t d = 0; d < 4; d++) {
            row[d] = (double)*problem_at(&plain, OP_OUT, x[0], x[1], x[2], d);
        }
        expect_out(&p, x[0], x[1], x[2], row);
        const double lse = (double)*problem_at(&plain, OP_LSE, x[0], x[1], x[2], 0);
        expect_lse(&p, x[0], x[1], x[2], lse + (double)(x[1] * 5 + x[2]) / 4.0 - 1.0);
    }
    problem_free(&p);
    problem_free(&plain);
}
