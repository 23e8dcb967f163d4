/* SPDX-License-Identifier: MIT
 * test_linear_backward.c: gradients of the linear layer, as of a matrix product whose gradients of
 * parameters are added to.
 *
 *   RAPT_TEST_CASES   number of random cases
 *   RAPT_TEST_SEED    seed of the first one; the others follow by adding 1 */
#include "counter.h"
#include "gradient_call.h"
#include "harness.h"
#include "message.h"

#include <criterion/criterion.h>

#include <inttypes.h>
#include <string.h>

static char why[512];

static void draw_linear(call *c, uint64_t seed) {
    rng r = rng_make(seed, 18);
    *c = (call){.side = rng_chance(&r, 50) ? GUARD_AFTER : GUARD_BEFORE, .linear = true};
    const int64_t in = call_draw_size(&r), out = call_draw_size(&r);
    const int32_t rank = (int32_t)rng_range(&r, 2, 6);
    int64_t size[RAPT_MAX_RANK];
    for (int32_t axis = 0; axis < rank - 1; axis++) {
        size[axis] = rng_range(&r, rng_chance(&r, 5) ? 0 : 1, rank > 3 ? 3 : 20);
    }
    size[rank - 1] = in;
    call_place(c, A, call_draw_layout(&r, LAYOUT_COUNT), rank, size);
    if (rng_chance(&r, 75)) {
        call_place(c, DA, call_draw_layout(&r, LAYOUT_WRITABLE), rank, size);
    }
    size[rank - 1] = out;
    call_place(c, DC, call_draw_layout(&r, LAYOUT_COUNT), rank, size);
    call_place(c, B, call_draw_layout(&r, LAYOUT_COUNT), 2, (int64_t[]){in, out});
    if (rng_chance(&r, 75)) {
        call_place(c, DB, call_draw_layout(&r, LAYOUT_WRITABLE), 2, (int64_t[]){in, out});
        if (rng_chance(&r, 50)) {
            call_place(c, DBIAS, call_draw_layout(&r, LAYOUT_WRITABLE), 1, &out);
        }
    }
    for (int id = 0; id < TENSORS; id++) { guarded_fill(&c->g[id], &r); }
    c->accumulate = rng_chance(&r, 40);
    c->threads = rng_chance(&r, 70) ? 1 : (int32_t)rng_range(&r, 2, 4);
}

Test(linear_backward, random) {
    const uint64_t cases = number_from("RAPT_TEST_CASES", 100000) / 100;
    const uint64_t seed = number_from("RAPT_TEST_SEED", 1);
    for (uint64_t n = 0; n < cases; n++) {
        call c;
        draw_linear(&c, seed + n);
        REQUIRE(call_try(&c, why, sizeof why), "RAPT_TEST_SEED=%" PRIu64 ": %s\naccumulate %d%s",
                seed + n, why, c.accumulate, guarded_text(c.g, TENSORS));
        call_free(&c);
    }
}

/* x [in] is x [1, in]. */
Test(linear_backward, one_token) {
    enum { IN = 7, OUT = 5 };
    rng r = rng_make(9, 9);
    float x[IN], dout[OUT], weight[OUT * IN], dx[2][IN], dweight[2][OUT * IN], dbias[2][OUT];
    for (int i = 0; i < OUT * IN; i++) { weight[i] = (float)rng_normal(&r); }
    for (int i = 0; i < IN; i++) { x[i] = (float)rng_normal(&r); }
    for (int i = 0; i < OUT; i++) { dout[i] = (float)rng_normal(&r); }
    const rapt_linear linear = {.weight = rapt_tensor_2d(RAPT_F32, weight, OUT, IN)};
    for (int i = 0; i < 2; i++) {
        memset(dweight[i], 0, sizeof dweight[i]);
        memset(dbias[i], 0, sizeof dbias[i]);
        const rapt_linear gradients = {.weight = rapt_tensor_2d(RAPT_F32, dweight[i], OUT, IN),
                                       .bias = rapt_tensor_1d(RAPT_F32, dbias[i], OUT)};
        const rapt_tensor view[3] = {
            i ? rapt_tensor_2d(RAPT_F32, x, 1, IN) : rapt_tensor_1d(RAPT_F32, x, IN),
            i ? rapt_tensor_2d(RAPT_F32, dout, 1, OUT) : rapt_tensor_1d(RAPT_F32, dout, OUT),
            i ? rapt_tensor_2d(RAPT_F32, dx[i], 1, IN) : rapt_tensor_1d(RAPT_F32, dx[i], IN)};
        cr_assert_eq(rapt_linear_backward(harness_context(1), &linear, &view[0], &view[1], &view[2],
                                          0, &gradients),
                     RAPT_OK);
    }
    cr_expect_arr_eq(dx[0], dx[1], sizeof dx[0]);
    cr_expect_arr_eq(dweight[0], dweight[1], sizeof dweight[0]);
    cr_expect_arr_eq(dbias[0], dbias[1], sizeof dbias[0]);
    for (int i = 0; i < OUT; i++) { cr_expect_eq(dbias[0][i], dout[i]); }
}

/* ---- Errors of the linear layer: x [2,3,4], weight [5,4], dout [2,3,5] ---- */

typedef struct linear_call {
    rapt_linear linear, gradients;
    rapt_tensor x, dout, dx;
    int32_t accumulate;
} linear_call;

static linear_call linear_small(const call *c) {
    return (linear_call){.linear = call_layer(c, B, 0),
                         .gradients = call_layer(c, DB, DBIAS),
                         .x = c->g[A].t,
                         .dout = c->g[DC].t,
                         .dx = c->g[DA].t};
}

static void linear_refused(const call *c, const linear_call *l, rapt_status want, const char *words,
                           int line) {
    rapt_context *context = harness_context(1);
    guarded_seal(c->g, TENSORS);
    const rapt_status status = rapt_linear_backward(context, &l->linear, &l->x, &l->dout, &l->dx,
                                                    l->accumulate, &l->gradients);
    cr_expect_eq(status, want, "line %d: %s", line, rapt_status_name(status));
    expect_message(rapt_context_message(context), words, line);
    cr_expect(guarded_intact(c->g, TENSORS, true, why, sizeof why), "line %d: %s", line, why);
}

#define LINEAR_REFUSED(want, words)                                                                \
    do {                                                                                           \
        linear_refused(&c, &l, want, words, __LINE__);                                             \
        l = linear_small(&c);                                                                      \
    } while (0)

Test(linear_backward, errors) {
    call c;
    call_small(&c);
    rapt_context *context = harness_context(1);
    linear_call l = linear_small(&c);
    cr_expect_eq(rapt_linear_backward(NULL, &l.linear, &l.x, &l.dout, NULL, 0, NULL),
                 RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_linear_backward(context, NULL, &l.x, &l.dout, NULL, 0, NULL),
                 RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_linear_backward(context, &l.linear, NULL, &l.dout, NULL, 0, NULL),
                 RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_linear_backward(context, &l.linear, &l.x, NULL, NULL, 0, NULL),
                 RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_linear_backward(context, &l.linear, &l.x, &l.dout, NULL, 0, NULL), RAPT_OK);
    l.accumulate = -1;
    LINEAR_REFUSED(RAPT_ERR_ARGUMENT, "accumulate -1");
    l.x.dtype = RAPT_BOOL;
    LINEAR_REFUSED(RAPT_ERR_DTYPE, "x");
    l.x.size[2] = 3;
    LINEAR_REFUSED(RAPT_ERR_SHAPE, "x 3 4");
    l.dout.size[2] = 4;
    LINEAR_REFUSED(RAPT_ERR_SHAPE, "dout 4 5");
    l.dout.size[0] = 1;
    LINEAR_REFUSED(RAPT_ERR_SHAPE, "dout 1 2");
    l.dx.size[1] = 2;
    LINEAR_REFUSED(RAPT_ERR_SHAPE, "dx 2 3");
    l.gradients.weight.size[0] = 4;
    LINEAR_REFUSED(RAPT_ERR_SHAPE, "gradients.weight 4 5");
    l.gradients.weight.data = NULL;
    LINEAR_REFUSED(RAPT_ERR_ARGUMENT, "gradients.weight null");
    l.gradients.bias.size[0] = 4;
    LINEAR_REFUSED(RAPT_ERR_SHAPE, "gradients.bias 4 5");
    l.gradients.weight.stride[1] = 0;
    LINEAR_REFUSED(RAPT_ERR_OVERLAP, "gradients.weight");
    l.dx.data = l.x.data;
    LINEAR_REFUSED(RAPT_ERR_OVERLAP, "dx x");
    l.dx.data = l.gradients.weight.data;
    LINEAR_REFUSED(RAPT_ERR_OVERLAP, "dx gradients.weight");
    l.gradients.weight.data = l.linear.weight.data;
    LINEAR_REFUSED(RAPT_ERR_OVERLAP, "gradients.weight weight");
    l.gradients.bias.data = l.dout.data;
    LINEAR_REFUSED(RAPT_ERR_OVERLAP, "gradients.bias dout");
    call_free(&c);
}

/* dx and the weight's gradient are two products with scratch of different sizes: all of it is there
 * before the first one writes. */
Test(linear_backward, an_allocation_fails) {
    call c;
    call_small(&c);
    const linear_call l = linear_small(&c);
    counter f = {.fail_at = 1}; /* after the context itself */
    rapt_context *context = NULL;
    cr_assert_eq(counter_context(&context, &f, 2), RAPT_OK);
    guarded_seal(c.g, TENSORS);
    cr_expect_eq(rapt_linear_backward(context, &l.linear, &l.x, &l.dout, &l.dx, 0, &l.gradients),
                 RAPT_ERR_MEMORY);
    cr_expect(guarded_intact(c.g, TENSORS, true, why, sizeof why), "%s", why);
    cr_expect_eq(rapt_linear_backward(context, &l.linear, &l.x, &l.dout, &l.dx, 0, &l.gradients),
                 RAPT_OK);
    cr_expect_eq(f.allocations, 3);
    rapt_context_destroy(context);
    cr_expect_eq(f.live, 0);
    call_free(&c);
}
