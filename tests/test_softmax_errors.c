/* SPDX-License-Identifier: MIT
 * test_softmax_errors.c: misuse of the softmax and masking calls, each refused with its status, a
 * message that names the argument and the sizes, and nothing written; allocations that fail. */
#include "counter.h"
#include "message.h"
#include "plain.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

typedef enum call { SOFTMAX, AXIS, NAIVE, LSE, SUMS, FILL, NORMALISE, CALLS } call;

static float memory[96];
static double worst;
static rapt_context *context;

static void make_context(void) { context = plain_context(1, NULL); }
static void drop_context(void) { rapt_context_destroy(context); }

TestSuite(softmax_errors, .init = make_context, .fini = drop_context);

static rapt_status run(call which, rapt_context *c, const rapt_tensor *in, const rapt_tensor *out) {
    switch (which) {
    case SOFTMAX: return rapt_softmax(c, in, out);
    case AXIS: return rapt_softmax_axis(c, in, 1, out);
    case NAIVE: return rapt_softmax_naive(c, in, out);
    case LSE: return rapt_log_sum_exp(c, in, out);
    case SUMS: return rapt_row_sum_error(c, in, &worst);
    case FILL: return rapt_mask_fill(c, RAPT_CAUSAL_TOP_LEFT, 1.0f, in);
    default: return rapt_normalise_rows(c, in);
    }
}

static bool writes_in(call which) { return which == FILL || which == NORMALISE; }
static bool has_out(call which) { return which <= LSE; }
static const char *in_name(call which) { return writes_in(which) ? "in_out" : "in"; }

/* in [2, 3, 4] at memory, out the same or [2, 3] behind it */
static rapt_tensor good_in(void) { return rapt_tensor_3d(RAPT_F32, memory, 2, 3, 4); }
static rapt_tensor good_out(call which) {
    return which == LSE ? rapt_tensor_2d(RAPT_F32, memory + 32, 2, 3)
                        : rapt_tensor_3d(RAPT_F32, memory + 32, 2, 3, 4);
}

static void expect_refused(call which, const rapt_tensor *in, const rapt_tensor *out,
                           rapt_status want, const char *words, int line) {
    float before[96];
    memset(memory, 0xA5, sizeof memory);
    memcpy(before, memory, sizeof before);
    worst = 77.0;
    const rapt_status status = run(which, context, in, out);
    cr_expect(status == want, "line %d, call %d: %s (%s)", line, which, rapt_status_name(status),
              rapt_context_message(context));
    expect_message(rapt_context_message(context), words, line);
    cr_expect(memcmp(before, memory, sizeof before) == 0, "line %d: wrote", line);
    cr_expect(worst == 77.0);
}

Test(softmax_errors, good_calls_pass) {
    for (call which = 0; which < CALLS; which++) {
        const rapt_tensor in = good_in(), out = good_out(which);
        cr_expect_eq(run(which, context, &in, &out), RAPT_OK, "%s", rapt_context_message(context));
    }
}

/* The same spoilt tensor as input and as output. */
static void expect_bad_tensor(rapt_tensor (*spoil)(rapt_tensor), rapt_status want, int line) {
    for (call which = 0; which < CALLS; which++) {
        const rapt_tensor in = good_in(), out = good_out(which);
        const rapt_tensor bad_in = spoil(in), bad_out = spoil(out);
        if (want != RAPT_ERR_OVERLAP || writes_in(which)) {
            expect_refused(which, &bad_in, &out, want, in_name(which), line);
        }
        if (has_out(which)) { expect_refused(which, &in, &bad_out, want, "out", line); }
    }
}

static rapt_tensor no_data(rapt_tensor t) {
    t.data = NULL;
    return t;
}
static rapt_tensor integers(rapt_tensor t) {
    t.dtype = RAPT_I32;
    return t;
}
static rapt_tensor negative(rapt_tensor t) {
    t.size[1] = -1;
    return t;
}
static rapt_tensor rank_7(rapt_tensor t) {
    t.rank = 7;
    return t;
}
static rapt_tensor huge(rapt_tensor t) {
    t.size[0] = INT64_MAX / 2;
    return t;
}
static rapt_tensor repeated(rapt_tensor t) {
    t.stride[0] = 0;
    return t;
}

Test(softmax_errors, bad_tensors) {
    expect_bad_tensor(no_data, RAPT_ERR_ARGUMENT, __LINE__);
    expect_bad_tensor(integers, RAPT_ERR_DTYPE, __LINE__);
    expect_bad_tensor(negative, RAPT_ERR_SHAPE, __LINE__);
    expect_bad_tensor(rank_7, RAPT_ERR_SHAPE, __LINE__);
    expect_bad_tensor(huge, RAPT_ERR_SHAPE, __LINE__);
    expect_bad_tensor(repeated, RAPT_ERR_OVERLAP, __LINE__);
}

Test(softmax_errors, null_pointers) {
    const rapt_context_options unknown = {.isa = "none such"};
    rapt_context *broken = NULL;
    cr_assert_eq(rapt_context_create(&broken, &unknown), RAPT_ERR_ISA);
    for (call which = 0; which < CALLS; which++) {
        const rapt_tensor in = good_in(), out = good_out(which);
        expect_refused(which, NULL, &out, RAPT_ERR_ARGUMENT, in_name(which), __LINE__);
        if (has_out(which)) {
            expect_refused(which, &in, NULL, RAPT_ERR_ARGUMENT, "out", __LINE__);
        }
        cr_expect_eq(run(which, NULL, &in, &out), RAPT_ERR_ARGUMENT);
        cr_expect_eq(run(which, broken, &in, &out), RAPT_ERR_ARGUMENT);
        expect_message(rapt_context_message(broken), "unknown", __LINE__);
    }
    rapt_context_destroy(broken);
    const rapt_tensor in = good_in();
    cr_expect_eq(rapt_row_sum_error(context, &in, NULL), RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "worst", __LINE__);
}

Test(softmax_errors, shapes) {
    const rapt_tensor in = good_in(), scalar = rapt_tensor_contiguous(RAPT_F32, memory, 0, NULL);
    for (call which = 0; which < CALLS; which++) {
        const rapt_tensor out = good_out(which);
        expect_refused(which, &scalar, &out, RAPT_ERR_SHAPE, "0", __LINE__);
        if (!has_out(which)) { continue; }
        rapt_tensor other = out;
        other.size[1] = 2;
        expect_refused(which, &in, &other, RAPT_ERR_SHAPE, "out 2 3", __LINE__);
        other = out;
        other.rank--;
        expect_refused(which, &in, &other, RAPT_ERR_SHAPE, "out rank", __LINE__);
    }
    const rapt_tensor row = rapt_tensor_1d(RAPT_F32, memory, 4);
    expect_refused(FILL, &row, NULL, RAPT_ERR_SHAPE, "in_out 1 2", __LINE__);
}

Test(softmax_errors, overlap) {
    const rapt_tensor in = good_in();
    for (call which = 0; has_out(which); which++) {
        rapt_tensor out = good_out(which);
        out.data = memory + 3;
        expect_refused(which, &in, &out, RAPT_ERR_OVERLAP, "out in", __LINE__);
        if (which == LSE) { continue; }
        out = rapt_tensor_swap_axes(rapt_tensor_3d(RAPT_F32, memory, 3, 2, 4), 0, 1);
        expect_refused(which, &in, &out, RAPT_ERR_OVERLAP, "out in", __LINE__); /* other strides */
        cr_expect_eq(run(which, context, &in, &in), RAPT_OK, "in place");
    }
}

Test(softmax_errors, numbers) {
    const rapt_tensor in = good_in(), out = good_out(AXIS);
    for (int32_t axis = -5; axis <= 4; axis++) {
        const rapt_status status = rapt_softmax_axis(context, &in, axis, &out);
        cr_expect_eq(status == RAPT_OK, axis >= -3 && axis < 3, "axis %d", axis);
        if (status == RAPT_OK) { continue; }
        cr_expect_eq(status, RAPT_ERR_ARGUMENT);
        expect_message(rapt_context_message(context), "axis 2", __LINE__);
    }
    cr_expect_eq(rapt_mask_fill(context, (rapt_causal)3, 0.0f, &in), RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "causal 3", __LINE__);
}

/* A size of 0 beside a huge one takes no time and touches nothing. */
Test(softmax_errors, empty_is_legal) {
    const int64_t wide = INT64_C(1) << 50;
    for (call which = 0; which < CALLS; which++) {
        const rapt_tensor in = rapt_tensor_3d(RAPT_F32, NULL, 0, wide, 2);
        const rapt_tensor out = which == LSE ? rapt_tensor_2d(RAPT_F32, NULL, 0, wide) : in;
        cr_expect_eq(run(which, context, &in, &out), RAPT_OK);
        const rapt_tensor flat = rapt_tensor_3d(RAPT_F32, NULL, wide, 2, 0);
        if (which != LSE) { cr_expect_eq(run(which, context, &flat, &flat), RAPT_OK); }
    }
}

/* ---- Memory ---- */

/* Strided rows, columns and long rows need scratch; without it nothing is written. */
static void check_memory(rapt_tensor in, rapt_tensor out, call which) {
    counter memory_of_context = {.fail_at = 1}; /* 0 is the context */
    rapt_context *c = NULL;
    const int64_t elements = out.size[0] * (out.rank > 1 ? out.size[1] : 1);
    const size_t bytes = (size_t)elements * sizeof(float);
    unsigned char *canary = malloc(bytes);
    cr_assert(canary && counter_context(&c, &memory_of_context, 2) == RAPT_OK);
    memset(canary, 0xA5, bytes);
    memset(out.data, 0xA5, bytes);
    cr_expect_eq(run(which, c, &in, &out), RAPT_ERR_MEMORY, "call %d", which);
    expect_message(rapt_context_message(c), "scratch", __LINE__);
    cr_expect(memcmp(out.data, canary, bytes) == 0, "call %d wrote", which);
    cr_expect_eq(run(which, c, &in, &out), RAPT_OK);
    rapt_context_destroy(c);
    cr_expect(memory_of_context.live == 0 && !memory_of_context.misaligned);
    free(canary);
}

Test(softmax_errors, allocations_fail) {
    const int64_t n = (1 << 17) + 1;
    float *x = calloc((size_t)n * 2, sizeof *x), *y = calloc((size_t)n * 2, sizeof *y);
    cr_assert(x && y);
    const rapt_tensor long_x = rapt_tensor_2d(RAPT_F32, x, 2, n);
    const rapt_tensor long_y = rapt_tensor_2d(RAPT_F32, y, 2, n);
    check_memory(long_x, long_y, SOFTMAX);
    check_memory(long_x, rapt_tensor_1d(RAPT_F32, y, 2), LSE);
    const rapt_tensor columns_x = rapt_tensor_transpose(rapt_tensor_2d(RAPT_F32, x, 50, 40));
    const rapt_tensor columns_y = rapt_tensor_transpose(rapt_tensor_2d(RAPT_F32, y, 50, 40));
    check_memory(columns_x, columns_y, SOFTMAX);
    check_memory(columns_x, rapt_tensor_1d(RAPT_F32, y, 40), LSE);
    const rapt_tensor rows_x = rapt_tensor_2d(RAPT_F32, x, 40, 50);
    check_memory(rows_x, columns_y, SOFTMAX);
    free(x);
    free(y);
}
