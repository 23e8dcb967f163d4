/* SPDX-License-Identifier: MIT
 * test_backward_calls.c: what surrounds the gradients: every misuse that the header forbids, memory
 * that fails or is given, thread counts, and what the library says of a call. */
#include "backward_call.h"
#include "compare.h"
#include "counter.h"
#include "harness.h"
#include "message.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static problem p;
static backward_call c;

/* A call with every operand. */
static void start(shape s) {
    problem_init(&p, s);
    fill_normal(&p, 1);
    problem_full_mask(&p);
    problem_full_bias(&p);
    problem_full_keep(&p);
    problem_lengths(&p, RAPT_I64, s.b, (int64_t[]){s.tk, s.tk, s.tk, s.tk});
    p.what.dropout = (rapt_dropout){1, 0.5, 3, 4};
    backward_init(&c, &p);
    backward_layout(&c, GRAD_DLSE, LAYOUT_DENSE);
    backward_bias(&c, 4, (int64_t[]){s.b, s.hq, s.tq, s.tk}, LAYOUT_DENSE);
    backward_fill_normal(&c, 2);
}

static void finish(void) {
    backward_free(&c);
    problem_free(&p);
}

static const shape small = {2, 4, 2, 3, 5, 4, 6};

/* ---- Misuse ---- */

/* The call is refused with this status, `words` stand in the message, and nothing is written. */
static void refused(rapt_status expected, const char *words, int line) {
    char why[256];
    rapt_status status = RAPT_OK;
    rapt_attention_info info;
    double cost;
    const rapt_attention_backward_operands ops = backward_operands(&c);
    rapt_context *context = harness_context(1);
    cr_expect(backward_run(&c, &status, why, sizeof why), "line %d: %s", line, why);
    cr_expect_eq(status, expected, "line %d: %s", line, rapt_status_name(status));
    expect_message(rapt_context_message(context), words, line);
    if (strstr(words, "null")) { return; } /* data may be null in what follows */
    cr_expect_eq(rapt_attention_backward_info(context, &p.what, &ops, &info), expected, "line %d",
                 line);
    cr_expect_eq(rapt_attention_backward_tasks(context, &p.what, &ops, &cost, NULL, 1), expected,
                 "line %d", line);
}

#define REFUSED(status, words) refused(status, words, __LINE__)

Test(backward_errors, null_arguments) {
    start(small);
    const rapt_attention_backward_operands ops = backward_operands(&c);
    rapt_context *context = harness_context(1);
    double cost;
    cr_expect_eq(rapt_attention_backward(NULL, &p.what, &ops), RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_attention_backward(context, NULL, &ops), RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "what null", __LINE__);
    cr_expect_eq(rapt_attention_backward(context, &p.what, NULL), RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "operands null", __LINE__);
    cr_expect_eq(rapt_attention_backward_info(context, &p.what, &ops, NULL), RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "info null", __LINE__);
    cr_expect_eq(rapt_attention_backward_tasks(context, &p.what, &ops, NULL, NULL, 1),
                 RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "costs null", __LINE__);
    cr_expect_eq(rapt_attention_backward_tasks(context, &p.what, &ops, &cost, NULL, -1),
                 RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "capacity -1", __LINE__);
    finish();
}

Test(backward_errors, null_operands) {
    rapt_context *context = harness_context(1);
    start(small);
    for (int n = 0; n < 6; n++) {
        static const char *const words[] = {"q null",   "k null",   "v null",
                                            "out null", "lse null", "dout null"};
        rapt_attention_backward_operands ops = backward_operands(&c);
        const rapt_tensor **const all[] = {&ops.q, &ops.k, &ops.v, &ops.out, &ops.lse, &ops.dout};
        *all[n] = NULL;
        cr_expect_eq(rapt_attention_backward(context, &p.what, &ops), RAPT_ERR_ARGUMENT);
        expect_message(rapt_context_message(context), words[n], __LINE__);
    }
    finish();
    for (gradient_id id = GRAD_DOUT; id < GRAD_COUNT; id++) {
        static const char *const words[] = {"dout null", "dlse null", "dq null",
                                            "dk null",   "dv null",   "dbias null"};
        start(small);
        rapt_tensor without = c.op[id].t;
        without.data = NULL;
        rapt_attention_backward_operands ops = backward_operands(&c);
        const rapt_tensor **const all[] = {&ops.dout, &ops.dlse, &ops.dq,
                                           &ops.dk,   &ops.dv,   &ops.dbias};
        *all[id] = &without;
        cr_expect_eq(rapt_attention_backward(context, &p.what, &ops), RAPT_ERR_ARGUMENT);
        expect_message(rapt_context_message(context), words[id], __LINE__);
        rapt_attention_info info;
        cr_expect_eq(rapt_attention_backward_info(context, &p.what, &ops, &info), RAPT_OK);
        finish();
    }
}

Test(backward_errors, sizes_and_types) {
    static const char *const names[] = {"dout", "dlse", "dq", "dk", "dv", "dbias"};
    for (gradient_id id = GRAD_DOUT; id < GRAD_COUNT; id++) {
        const int32_t rank = id == GRAD_DLSE ? 3 : 4;
        for (int32_t axis = id == GRAD_DBIAS; axis < rank; axis++) { /* dbias [1, ...] is legal */
            char words[64];
            start(small);
            c.op[id].t.size[axis]--;
            snprintf(words, sizeof words, "%s axis %d", names[id], axis);
            REFUSED(RAPT_ERR_SHAPE, words);
            finish();
        }
        start(small);
        c.op[id].t.dtype = RAPT_I32;
        REFUSED(RAPT_ERR_DTYPE, names[id]);
        finish();
        start(small);
        c.op[id].t.rank = id == GRAD_DBIAS ? 5 : 2;
        REFUSED(RAPT_ERR_SHAPE, names[id]);
        finish();
    }
    start(small); /* what the forward call checks is checked here, too */
    p.op[OP_V].t.size[2]--;
    REFUSED(RAPT_ERR_SHAPE, "v 4 axis 2");
    p.op[OP_V].t.size[2]++;
    p.what.window = (rapt_window){1, -1, 0};
    REFUSED(RAPT_ERR_ARGUMENT, "window");
    p.what.window.on = 0;
    p.what.dropout.p = NAN;
    REFUSED(RAPT_ERR_ARGUMENT, "dropout");
    p.what.dropout.p = 1.5;
    REFUSED(RAPT_ERR_ARGUMENT, "dropout");
    finish();
}

Test(backward_errors, accumulate) {
    start(small);
    for (int32_t wrong = -1; wrong <= 2; wrong += 3) {
        c.accumulate = wrong;
        REFUSED(RAPT_ERR_ARGUMENT, wrong < 0 ? "accumulate -1" : "accumulate 2");
    }
    finish();
}

Test(backward_errors, overlap) {
    static const char *const names[] = {"dq", "dk", "dv", "dbias"};
    for (int n = 0; n < 4; n++) {
        const gradient_id id = (gradient_id)(GRAD_DQ + n);
        start(small);
        const int64_t stride = c.op[id].t.stride[2];
        c.op[id].t.stride[2] = 0;
        REFUSED(RAPT_ERR_OVERLAP, names[n]);
        c.op[id].t.stride[2] = stride;
        const rapt_attention_backward_operands all = backward_operands(&c);
        const rapt_tensor *const others[] = {
            all.q,    all.k,    all.v,           all.mask, all.bias, all.keep, all.out,  all.lse,
            all.dout, all.dlse, all.key_lengths, all.dq,   all.dk,   all.dv,   all.dbias};
        for (size_t m = 0; m < sizeof others / sizeof *others; m++) {
            if (others[m] == &c.op[id].t) { continue; }
            rapt_tensor moved = c.op[id].t;
            moved.data = others[m]->data;
            rapt_attention_backward_operands ops = all;
            const rapt_tensor **const written[] = {&ops.dq, &ops.dk, &ops.dv, &ops.dbias};
            *written[n] = &moved;
            const rapt_status status = rapt_attention_backward(harness_context(1), &p.what, &ops);
            cr_expect_eq(status, RAPT_ERR_OVERLAP, "%s over operand %d", names[n], (int)m);
            expect_message(rapt_context_message(harness_context(1)), "overlaps", __LINE__);
        }
        finish();
    }
}

/* ---- Memory ---- */

static const shape several_tasks = {2, 4, 2, 150, 300, 33, 20};

Test(backward_memory, each_allocation_fails_in_turn) {
    char why[256];
    start(several_tasks);
    expect_backward_run(&c);
    const rapt_attention_backward_operands ops = backward_operands(&c);
    const size_t bytes = c.op[GRAD_DQ].memory.bytes;
    void *expected = malloc(bytes);
    memcpy(expected, c.op[GRAD_DQ].memory.data, bytes);
    int64_t n = 0;
    for (rapt_status status = RAPT_ERR_MEMORY; status != RAPT_OK; n++) {
        counter count = {.fail_at = n};
        rapt_context *context = NULL;
        double cost;
        status = counter_context(&context, &count, 2);
        if (status == RAPT_OK) {
            status = rapt_attention_backward_tasks(context, &p.what, &ops, &cost, NULL, 1);
        }
        if (status == RAPT_OK) {
            memset(c.op[GRAD_DQ].memory.data, 1, bytes);
            status = rapt_attention_backward(context, &p.what, &ops);
            const float *first = (const float *)(const void *)c.op[GRAD_DQ].memory.data;
            cr_expect(status == RAPT_OK || memcmp(first, first + 1, bytes - 4) == 0, "written");
        }
        cr_expect(status == RAPT_OK || status == RAPT_ERR_MEMORY, "%s", rapt_status_name(status));
        rapt_context_destroy(context);
        cr_expect_eq(count.live, 0);
        cr_assert_lt(n, 20);
    }
    cr_expect_geq(n, 3);
    cr_expect_eq(memcmp(expected, c.op[GRAD_DQ].memory.data, bytes), 0);
    free(expected);
    (void)why;
    finish();
}

Test(backward_memory, callers_scratch) {
    start(several_tasks);
    backward_call own;
    backward_init(&own, &p);
    backward_layout(&own, GRAD_DLSE, LAYOUT_DENSE);
    backward_fill_normal(&own, 2);
    own.caller_scratch = true;
    own.threads = 3;
    expect_backward_run(&c);
    expect_backward_run(&own); /* exactly as much as asked for, before a forbidden page */
    expect_same_gradients(&c, &own);

    rapt_attention_backward_operands ops = backward_operands(&own);
    ops.scratch_bytes--;
    cr_expect_eq(rapt_attention_backward(harness_context(3), &p.what, &ops), RAPT_ERR_SCRATCH);
    ops.scratch_bytes++;
    ops.scratch = (char *)ops.scratch + 4;
    cr_expect_eq(rapt_attention_backward(harness_context(3), &p.what, &ops), RAPT_ERR_SCRATCH);
    backward_free(&own);
    finish();
}

/* Scratch holds tiles, never scores: eight times the tokens need little more. */
Test(backward_memory, scratch_does_not_grow_with_tokens) {
    int64_t bytes[2];
    for (int n = 0; n < 2; n++) {
        const int64_t tokens = n ? 65536 : 8192;
        const rapt_tensor t = rapt_tensor_4d(RAPT_F32, NULL, 1, 1, tokens, 64);
        const rapt_tensor lse = rapt_tensor_3d(RAPT_F32, NULL, 1, 1, tokens);
        const rapt_attention what = {.causal = RAPT_CAUSAL_TOP_LEFT};
        const rapt_attention_backward_operands ops = {.q = &t,
                                                      .k = &t,
                                                      .v = &t,
                                                      .out = &t,
                                                      .lse = &lse,
                                                      .dout = &t,
                                                      .dq = &t,
                                                      .dk = &t,
                                                      .dv = &t};
        rapt_attention_info info;
        cr_assert_eq(rapt_attention_backward_info(harness_context(2), &what, &ops, &info), RAPT_OK);
        bytes[n] = info.scratch_bytes;
        cr_expect_eq(info.threads, 2);
        cr_expect_eq(info.visible, tokens * (tokens + 1) / 2);
        cr_expect_float_eq(info.flops, 5.0 * (double)info.visible * 128, 1.0);
    }
    cr_expect_lt(bytes[1], bytes[0] + (1 << 20), "%lld and %lld bytes", (long long)bytes[0],
                 (long long)bytes[1]);
}

/* ---- Threads ---- */

typedef struct threads_case {
    shape s;
    int64_t bias[4];
    int32_t causal, step; /* thread counts 2, 2 + step, ... 16 */
} threads_case;

Test(backward_threads, same_bits_for_every_count) {
    static const threads_case cases[] = {
        {{1, 1, 1, 700, 650, 5, 6}, {1, 1, 700, 650}, RAPT_CAUSAL_NONE, 5},
        {{3, 6, 2, 70, 90, 8, 8}, {1, 1, 1, 90}, RAPT_CAUSAL_BOTTOM_RIGHT, 3},
        {{3, 6, 2, 70, 90, 8, 8}, {3, 1, 70, 1}, RAPT_CAUSAL_NONE, 3},
        {{2, 8, 2, 17, 17, 12, 12}, {1, 8, 17, 17}, RAPT_CAUSAL_TOP_LEFT, 1},
        {{1, 1, 1, 2100, 2100, 4, 4}, {1, 1, 1, 2100}, RAPT_CAUSAL_BOTTOM_RIGHT, 14}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const threads_case *x = &cases[n];
        problem_init(&p, x->s);
        fill_normal(&p, 3);
        p.what.causal = (rapt_causal)x->causal;
        backward_init(&c, &p);
        backward_bias(&c, 4, x->bias, LAYOUT_DENSE);
        backward_fill_normal(&c, 4);
        expect_backward_run(&c);
        for (int32_t threads = 2; threads <= 16; threads += x->step) {
            backward_call other;
            backward_init(&other, &p);
            backward_bias(&other, 4, x->bias, LAYOUT_DENSE);
            backward_fill_normal(&other, 4);
            other.threads = threads;
            expect_backward_run(&other);
            expect_same_gradients(&c, &other);
            backward_free(&other);
        }
        finish();
    }
}

/* One long head keeps all threads busy: the steps of the task list have as many tasks. */
Test(backward_threads, one_head_is_cut) {
    enum { TOKENS = 4096, MOST = 1 << 15 };
    static double costs[MOST];
    static int64_t steps[MOST];
    const rapt_tensor t = rapt_tensor_4d(RAPT_F32, NULL, 1, 1, TOKENS, 64);
    const rapt_tensor lse = rapt_tensor_3d(RAPT_F32, NULL, 1, 1, TOKENS);
    const rapt_attention what = {0};
    const rapt_attention_backward_operands ops = {.q = &t,
                                                  .k = &t,
                                                  .v = &t,
                                                  .out = &t,
                                                  .lse = &lse,
                                                  .dout = &t,
                                                  .dq = &t,
                                                  .dk = &t,
                                                  .dv = &t};
    rapt_attention_info info;
    rapt_context *context = harness_context(4);
    cr_assert_eq(rapt_attention_backward_info(context, &what, &ops, &info), RAPT_OK);
    cr_expect_eq(info.threads, 4);
    cr_assert_leq(info.tasks, MOST);
    cr_assert_eq(rapt_attention_backward_tasks(context, &what, &ops, costs, steps, MOST), RAPT_OK);
    double total = 0, step_total = 0;
    int64_t in_step = 0;
    for (int64_t n = 0; n < info.tasks; n++) {
        const bool first = n == 0 || steps[n] != steps[n - 1];
        cr_expect_eq(steps[n], n == 0 ? 0 : steps[n - 1] + first);
        cr_expect(first || costs[n] <= costs[n - 1] * 1.02 + costs[0] / 60, "longest first");
        if (first && n > 0) { cr_expect_eq(in_step % 4, 0, "%d tasks", (int)in_step); }
        in_step = first ? 1 : in_step + 1;
        total += costs[n];
    }
    step_total = 2.5 * 128.0 * TOKENS * TOKENS; /* multiply-adds */
    cr_expect(total >= step_total && total < 1.2 * step_total, "%g and %g", total, step_total);
}
