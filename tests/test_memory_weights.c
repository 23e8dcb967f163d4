/* SPDX-License-Identifier: MIT
 * test_memory_weights.c: allocations that fail and scratch that is given, for the calls that write
 * weights: the forward call, the pass over scores, score functions. Scratch of exactly the size
 * asked for, before a forbidden page, is part of the random cases. */
#include "compare.h"
#include "counter.h"
#include "harness.h"
#include "message.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>

typedef enum variant { WEIGHTS, PASS, DOT, ADDITIVE, VARIANTS } variant;
static const char *const variant_names[VARIANTS] = {"weights", "pass", "dot", "additive"};

/* Several tasks on several threads, causal, dropout. */
static void make(problem *p, variant v) {
    const shape s = {2, 4, 2, 150, 300, 9, 20};
    if (v == PASS) {
        problem_init_pass(p, s);
        rng r = rng_make(1, 0);
        fill_random(p, OP_WEIGHTS, &r, FILL_NORMAL);
    } else {
        problem_init(p, s);
        problem_layout(p, OP_WEIGHTS, LAYOUT_DENSE);
        problem_layout(p, OP_V, LAYOUT_TRANSPOSED); /* is copied to scratch */
        fill_normal(p, 1);
        p->call = v == WEIGHTS ? CALL_FORWARD : CALL_SCORED;
    }
    if (v == DOT) p->score = RAPT_SCORE_DOT;
    if (v == ADDITIVE) {
        p->score = RAPT_SCORE_ADDITIVE;
        problem_additive(p, 3, 9);
        rng r = rng_make(2, 0);
        fill_random(p, OP_K, &r, FILL_NORMAL);
        for (operand_id id = OP_W_QUERY; id <= OP_W_V; id++) {
            fill_random(p, id, &r, FILL_NORMAL);
        }
    }
    p->what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
    p->what.dropout = (rapt_dropout){1, 0.3, 4, 5};
    snprintf(p->note, sizeof p->note, "%s", variant_names[v]);
}

static rapt_status run(rapt_context *context, const problem *p) {
    rapt_attention_operands ops = problem_operands(p);
    rapt_attention_softmax_operands pass = problem_pass_operands(p);
    const rapt_score score = problem_score(p);
    switch (p->call) {
    case CALL_PASS: return rapt_attention_softmax(context, &p->what, &pass);
    case CALL_SCORED: return rapt_attention_scored(context, &p->what, &score, &ops);
    default: return rapt_attention_forward(context, &p->what, &ops);
    }
}

static void seal(const problem *p) {
    for (operand_id id = 0; id < OP_COUNT; id++) {
        if (p->op[id].present) guard_seal(&p->op[id].memory);
    }
}

static void expect_untouched(const problem *p, const char *when) {
    ptrdiff_t at = 0;
    for (operand_id id = 0; id < OP_COUNT; id++) {
        REQUIRE(!p->op[id].present || guard_intact(&p->op[id].memory, &at),
                "%s: byte %td of operand %d was written", when, at, (int)id);
    }
}

/* Create, run; run again after a failure: the status of the first step that fails. */
static rapt_status whole_life(counter *c, variant v, const problem *expected) {
    problem p;
    rapt_context *context = NULL;
    make(&p, v);
    seal(&p);
    rapt_status status = counter_context(&context, c, 2);
    if (status == RAPT_OK) status = run(context, &p);
    if (status == RAPT_ERR_MEMORY) expect_untouched(&p, "without memory");
    if (status == RAPT_ERR_MEMORY && context) {
        expect_message(rapt_context_message(context), "bytes", __LINE__);
        cr_expect_eq(run(context, &p), RAPT_OK, "the context works once memory is there");
    }
    if (context) expect_same_bits(&p, expected);
    rapt_context_destroy(context);
    problem_free(&p);
    return status;
}

Test(memory_weights, each_allocation_fails_in_turn) {
    for (variant v = 0; v < VARIANTS; v++) {
        problem expected;
        make(&expected, v);
        expect_run(&expected);
        int64_t n = 0;
        for (rapt_status status = RAPT_ERR_MEMORY; status != RAPT_OK; n++) {
            cr_assert_lt(n, 100);
            counter c = {.fail_at = n};
            status = whole_life(&c, v, &expected);
            cr_expect(status == RAPT_OK || status == RAPT_ERR_MEMORY, "%s: %s", variant_names[v],
                      rapt_status_name(status));
            cr_expect_eq(status == RAPT_OK, c.allocations <= n, "allocation %d", (int)n);
            cr_expect_eq(c.live, 0, "%s: %d leaked after failure of %d", variant_names[v],
                         (int)c.live, (int)n);
            cr_expect_not(c.misaligned);
        }
        cr_expect_geq(n, 3, "the context and its scratch are allocated");
        problem_free(&expected);
    }
}

/* ---- The caller's scratch ---- */

static int64_t needed(rapt_context *context, const problem *p) {
    rapt_attention_info info = {0};
    rapt_attention_operands ops = problem_operands(p);
    const rapt_attention_softmax_operands pass = problem_pass_operands(p);
    rapt_tensor q = p->op[OP_Q].t, k = p->op[OP_K].t;
    q.size[3] = k.size[3] = 0;
    if (p->additive) ops.q = &q;
    if (p->additive) ops.k = &k;
    const rapt_status status =
        p->call == CALL_PASS
            ? rapt_attention_softmax_scratch(context, &p->what, &pass, &info.scratch_bytes)
            : rapt_attention_forward_info(context, &p->what, &ops, &info);
    REQUIRE(status == RAPT_OK, "%s", rapt_context_message(context));
    return info.scratch_bytes;
}

Test(memory_weights, scratch_too_small_or_misaligned) {
    rapt_context *context = harness_context(2);
    for (variant v = 0; v < VARIANTS; v++) {
        problem p;
        make(&p, v);
        const int64_t bytes = needed(context, &p);
        cr_assert_gt(bytes, 0);
        unsigned char *memory = aligned_alloc(64, ((size_t)bytes + 127) / 64 * 64);
        cr_assert_not_null(memory);
        for (int shift = 0; shift < 5; shift++) {
            p.scratch = (guard_block){.data = memory + shift * 16};
            p.scratch.bytes = (size_t)bytes - (shift == 0 || shift == 4);
            seal(&p);
            cr_expect_eq(run(context, &p), RAPT_ERR_SCRATCH, "%s, %d", variant_names[v], shift);
            char words[64];
            snprintf(words, sizeof words, "scratch %lld", (long long)bytes);
            expect_message(rapt_context_message(context), words, __LINE__);
            expect_untouched(&p, "scratch refused");
        }
        p.scratch = (guard_block){0};
        free(memory);
        problem_free(&p);
    }
}

/* Enough scratch from the caller: the context allocates nothing (the additive score's projections
 * take memory of its own). */
Test(memory_weights, callers_scratch_is_enough) {
    for (variant v = 0; v < ADDITIVE; v++) {
        counter c = {.fail_at = -1};
        rapt_context *context = NULL;
        cr_assert_eq(counter_context(&context, &c, 2), RAPT_OK);
        problem p, expected;
        make(&expected, v);
        expect_run(&expected);
        make(&p, v);
        const int64_t bytes = needed(context, &p), before = c.allocations;
        void *memory = aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64);
        cr_assert_not_null(memory);
        p.scratch = (guard_block){.data = memory, .bytes = (size_t)bytes};
        cr_expect_eq(run(context, &p), RAPT_OK, "%s", rapt_context_message(context));
        p.scratch = (guard_block){0};
        expect_same_bits(&p, &expected);
        cr_expect_eq(c.allocations, before, "%s: the caller's scratch was not enough",
                     variant_names[v]);
        free(memory);
        problem_free(&p);
        problem_free(&expected);
        rapt_context_destroy(context);
    }
}

/* The size query of the pass looks at sizes only. */
Test(memory_weights, size_of_the_pass_without_data) {
    rapt_context *context = harness_context(2);
    const rapt_tensor scores = rapt_tensor_4d(RAPT_F32, NULL, 2, 3, 400, 500);
    const rapt_attention what = {0};
    rapt_attention_softmax_operands ops = {.scores = &scores};
    int64_t bytes = -1, other = -1;
    cr_expect_eq(rapt_attention_softmax_scratch(context, &what, &ops, &bytes), RAPT_OK);
    cr_expect_gt(bytes, 0);
    ops.scratch = &bytes; /* is ignored */
    ops.scratch_bytes = 1;
    cr_expect_eq(rapt_attention_softmax_scratch(context, &what, &ops, &other), RAPT_OK);
    cr_expect_eq(bytes, other);
    cr_expect_leq(bytes, INT64_C(2) * 1024 * 1024, "far from the scores' own size");
}
