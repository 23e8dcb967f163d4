/* SPDX-License-Identifier: MIT
 * test_score.c: rapt_scores, the scores alone, against the oracle's: every kind, any layout, heads
 * in groups, NaN, threads; misuse; allocations that fail. */
#include "box.h"
#include "compare.h"
#include "counter.h"
#include "harness.h"
#include "message.h"
#include "oracle_score.h"

#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

typedef struct sizes {
    int64_t b, hq, hkv, tq, tk, d, dk, units;
} sizes;

/* Inputs, and scores to be written. */
typedef struct call {
    rapt_score score;
    box q, k, w_query, w_key, v, scores;
} call;

static void call_make(call *c, rapt_score_kind kind, sizes s, const layout l[6]) {
    if (kind != RAPT_SCORE_ADDITIVE) s.dk = s.d;
    c->q = box_make(l[0], 4, (int64_t[]){s.b, s.hq, s.tq, s.d});
    c->k = box_make(l[1], 4, (int64_t[]){s.b, s.hkv, s.tk, s.dk});
    c->w_query = box_make(l[2], 2, (int64_t[]){s.units, s.d});
    c->w_key = box_make(l[3], 2, (int64_t[]){s.units, s.dk});
    c->v = box_make(l[4], 1, (int64_t[]){s.units});
    c->scores = box_make(l[5], 4, (int64_t[]){s.b, s.hq, s.tq, s.tk});
    c->score = (rapt_score){kind, &c->w_query.t, &c->w_key.t, &c->v.t};
    if (kind != RAPT_SCORE_ADDITIVE) c->score.w_query = c->score.w_key = c->score.v = NULL;
    box_fill(&c->q, 1, FILL_NORMAL);
    box_fill(&c->k, 2, FILL_NORMAL);
    box_fill(&c->w_query, 3, FILL_NORMAL);
    box_fill(&c->w_key, 4, FILL_NORMAL);
    box_fill(&c->v, 5, FILL_NORMAL);
    box_seal(&c->q);
    box_seal(&c->k);
    box_seal(&c->scores);
}

static void call_free(call *c) {
    box *all[] = {&c->q, &c->k, &c->w_query, &c->w_key, &c->v, &c->scores};
    for (int n = 0; n < 6; n++) box_free(all[n]);
}

static void call_run(call *c, int32_t threads) {
    rapt_context *context = harness_context(threads);
    const rapt_status status = rapt_scores(context, &c->score, &c->q.t, &c->k.t, &c->scores.t);
    REQUIRE(status == RAPT_OK, "%s: %s", rapt_status_name(status), rapt_context_message(context));
    box_kept_outside(&c->scores, __LINE__);
}

/* Inputs unchanged; every score within the oracle's bound. */
static void expect_scores(const call *c) {
    const rapt_attention what = {.causal = RAPT_CAUSAL_NONE};
    const rapt_attention_operands ops = {.q = &c->q.t, .k = &c->k.t};
    const oracle_source source = {&what, &ops, &c->score, NULL};
    box_kept(&c->q, __LINE__);
    box_kept(&c->k, __LINE__);
    for (walk w = walk_begin(&c->scores.t); !w.done; walk_next(&w)) {
        double error = 0.0;
        const double want =
            oracle_score(&source, w.index[0], w.index[1], w.index[2], w.index[3], &error);
        REQUIRE(compare_value((double)*walk_f32(&w), want, error),
                "kind %d [%lld,%lld,%lld,%lld]: %.9g, want %.9g +- %g", (int)c->score.kind,
                (long long)w.index[0], (long long)w.index[1], (long long)w.index[2],
                (long long)w.index[3], (double)*walk_f32(&w), want, error);
    }
}

static const layout dense[6] = {LAYOUT_DENSE, LAYOUT_DENSE, LAYOUT_DENSE,
                                LAYOUT_DENSE, LAYOUT_DENSE, LAYOUT_DENSE};

static void check(rapt_score_kind kind, sizes s, const layout l[6]) {
    call c;
    call_make(&c, kind, s, l);
    call_run(&c, 2);
    expect_scores(&c);
    call_free(&c);
}

Test(score, shapes) {
    static const sizes all[] = {
        {1, 1, 1, 1, 1, 1, 1, 1},    {2, 4, 2, 5, 7, 3, 4, 5},    {1, 6, 1, 17, 33, 16, 9, 8},
        {2, 3, 3, 16, 64, 5, 5, 17}, {1, 2, 2, 31, 257, 8, 3, 3}, {1, 2, 1, 1, 300, 64, 64, 2},
        {1, 2, 1, 33, 1, 7, 7, 2},   {1, 2, 1, 3, 4, 0, 0, 2},    {1, 2, 1, 3, 4, 5, 6, 0},
        {0, 2, 1, 3, 4, 5, 6, 2},    {2, 0, 1, 3, 4, 5, 6, 2},    {2, 0, 0, 3, 4, 5, 6, 2},
        {2, 2, 1, 0, 4, 5, 6, 2},    {2, 2, 1, 3, 0, 5, 6, 2},
    };
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
        for (int kind = 0; kind < 3; kind++) check((rapt_score_kind)kind, all[n], dense);
    }
}

Test(score, layouts) {
    const sizes s = {2, 4, 2, 19, 37, 6, 5, 7};
    for (int n = 0; n < LAYOUT_COUNT; n++) {
        for (int kind = 0; kind < 3; kind++) {
            for (int which = 0; which < 6; which++) {
                layout l[6];
                memcpy(l, dense, sizeof l);
                l[which] = (layout)n;
                if (which == 5 && n >= LAYOUT_WRITABLE) continue;
                check((rapt_score_kind)kind, s, l);
            }
        }
    }
}

/* One query's NaN reaches its scores, one key's infinity those of its column, nothing else. */
Test(score, nan_reaches_its_scores_only) {
    const sizes s = {1, 4, 2, 9, 40, 5, 5, 6};
    for (int kind = 0; kind < 3; kind++) {
        call clean, c;
        call_make(&clean, (rapt_score_kind)kind, s, dense);
        call_make(&c, (rapt_score_kind)kind, s, dense);
        *tensor_f32(&c.q.t, 0, 1, 4, 2) = NAN;
        *tensor_f32(&c.k.t, 0, 1, 33, 0) = NAN;
        box_seal(&c.q);
        box_seal(&c.k);
        call_run(&clean, 1);
        call_run(&c, 1);
        walk other = walk_begin(&clean.scores.t);
        for (walk w = walk_begin(&c.scores.t); !w.done; walk_next(&w), walk_next(&other)) {
            const bool hit =
                (w.index[1] == 1 && w.index[2] == 4) || (w.index[1] >= 2 && w.index[3] == 33);
            REQUIRE(hit ? isnan(*walk_f32(&w)) : *walk_f32(&w) == *walk_f32(&other),
                    "kind %d head %lld query %lld key %lld", kind, (long long)w.index[1],
                    (long long)w.index[2], (long long)w.index[3]);
        }
        call_free(&clean);
        call_free(&c);
    }
}

/* The same bits on any number of threads, and for one batch item alone. */
Test(score, threads_and_batches) {
    const sizes s = {3, 4, 2, 70, 300, 9, 8, 11};
    for (int kind = 0; kind < 3; kind++) {
        call one, c;
        call_make(&one, (rapt_score_kind)kind, s, dense);
        call_run(&one, 1);
        call_make(&c, (rapt_score_kind)kind, s, dense);
        for (int32_t threads = 2; threads <= 8; threads += 3) {
            call_run(&c, threads);
            box_same(&c.scores, &one.scores, __LINE__);
        }
        const rapt_tensor q = rapt_tensor_slice(c.q.t, 0, 2, 1);
        const rapt_tensor k = rapt_tensor_slice(c.k.t, 0, 2, 1);
        const rapt_tensor scores = rapt_tensor_slice(c.scores.t, 0, 2, 1);
        const rapt_tensor want = rapt_tensor_slice(one.scores.t, 0, 2, 1);
        for (walk w = walk_begin(&scores); !w.done; walk_next(&w)) *walk_f32(&w) = 7.0f;
        cr_assert_eq(rapt_scores(harness_context(2), &c.score, &q, &k, &scores), RAPT_OK);
        char why[256];
        REQUIRE(compare_bits(&scores, &want, why, sizeof why), "%s", why);
        call_free(&one);
        call_free(&c);
    }
}

/* ---- Misuse ---- */

static void expect_refused(call *c, rapt_status want, const char *words, int line) {
    rapt_context *context = harness_context(1);
    box_fill(&c->scores, 9, FILL_NORMAL);
    box_seal(&c->scores);
    const rapt_status status = rapt_scores(context, &c->score, &c->q.t, &c->k.t, &c->scores.t);
    cr_expect(status == want, "line %d: %s (%s)", line, rapt_status_name(status),
              rapt_context_message(context));
    expect_message(rapt_context_message(context), words, line);
    box_kept(&c->scores, line);
}

static call spoilt;
static rapt_tensor *const operands[] = {&spoilt.q.t, &spoilt.k.t, &spoilt.w_query.t,
                                        &spoilt.w_key.t, &spoilt.v.t};
static const char *const names[] = {"q", "k", "w_query", "w_key", "score.v"};

/* `spoil` changes one operand; every kind that has it refuses it. */
static void each_operand(void (*spoil)(rapt_tensor *t), rapt_status want, int line) {
    for (int kind = 0; kind < 3; kind++) {
        for (int n = 0; n < (kind == RAPT_SCORE_ADDITIVE ? 5 : 2); n++) {
            call_make(&spoilt, (rapt_score_kind)kind, (sizes){2, 4, 2, 3, 5, 4, 6, 7}, dense);
            spoil(operands[n]);
            expect_refused(&spoilt, want, n == 4 ? "score v" : names[n], line);
            call_free(&spoilt);
        }
    }
}

static void no_data(rapt_tensor *t) { t->data = NULL; }
static void integers(rapt_tensor *t) { t->dtype = RAPT_I32; }
static void other_rank(rapt_tensor *t) { t->rank = 3; }
static void negative(rapt_tensor *t) { t->size[0] = -1; }
static void in_scores(rapt_tensor *t) { t->data = (float *)spoilt.scores.t.data + 1; }

Test(score, refuses_bad_inputs) {
    each_operand(no_data, RAPT_ERR_ARGUMENT, __LINE__);
    each_operand(integers, RAPT_ERR_DTYPE, __LINE__);
    each_operand(other_rank, RAPT_ERR_SHAPE, __LINE__);
    each_operand(negative, RAPT_ERR_SHAPE, __LINE__);
    each_operand(in_scores, RAPT_ERR_OVERLAP, __LINE__);
}

/* Every size that must agree with another one. */
Test(score, refuses_sizes_that_disagree) {
    for (int kind = 0; kind < 3; kind++) {
        const bool additive = kind == RAPT_SCORE_ADDITIVE;
        for (int n = 0; n < 6; n++) {
            for (int axis = 0; axis < (n < 2 || n == 5 ? 4 : n == 4 ? 1 : 2); axis++) {
                if (n >= 2 && n < 5 && !additive) { continue; }
                call_make(&spoilt, (rapt_score_kind)kind, (sizes){2, 4, 2, 3, 5, 4, 6, 7}, dense);
                rapt_tensor *t = n == 5 ? &spoilt.scores.t : operands[n];
                t->size[axis]--;
                if (n == 1 && axis == 1) { t->size[axis] = 3; } /* 4 heads of q */
                expect_refused(&spoilt, RAPT_ERR_SHAPE, "", __LINE__);
                t->size[axis] = 1;
                call_free(&spoilt);
            }
        }
    }
}

Test(score, refuses_the_rest) {
    rapt_context *context = harness_context(1);
    for (int kind = 0; kind < 3; kind++) {
        call_make(&spoilt, (rapt_score_kind)kind, (sizes){2, 4, 2, 3, 5, 4, 6, 7}, dense);
        call *c = &spoilt;
        cr_expect_eq(rapt_scores(context, NULL, &c->q.t, &c->k.t, &c->scores.t), RAPT_ERR_ARGUMENT);
        expect_message(rapt_context_message(context), "score null", __LINE__);
        cr_expect_eq(rapt_scores(context, &c->score, NULL, &c->k.t, &c->scores.t),
                     RAPT_ERR_ARGUMENT);
        expect_message(rapt_context_message(context), "q null", __LINE__);
        cr_expect_eq(rapt_scores(context, &c->score, &c->q.t, NULL, &c->scores.t),
                     RAPT_ERR_ARGUMENT);
        expect_message(rapt_context_message(context), "k null", __LINE__);
        cr_expect_eq(rapt_scores(context, &c->score, &c->q.t, &c->k.t, NULL), RAPT_ERR_ARGUMENT);
        expect_message(rapt_context_message(context), "scores null", __LINE__);
        cr_expect_eq(rapt_scores(NULL, &c->score, &c->q.t, &c->k.t, &c->scores.t),
                     RAPT_ERR_ARGUMENT);
        const int64_t stride = c->scores.t.stride[2];
        c->scores.t.stride[2] = 1;
        expect_refused(c, RAPT_ERR_OVERLAP, "scores", __LINE__);
        c->scores.t.stride[2] = stride;
        const rapt_tensor *missing = c->score.w_key;
        c->score.w_key = NULL;
        if (missing) { expect_refused(c, RAPT_ERR_ARGUMENT, "w_key null", __LINE__); }
        c->score.kind = (rapt_score_kind)3;
        expect_refused(c, RAPT_ERR_ARGUMENT, "kind 3", __LINE__);
        call_free(c);
    }
}

/* Every kind needs scratch; without it nothing is written, and the next call works. */
Test(score, allocations_fail) {
    for (int kind = 0; kind < 3; kind++) {
        call c;
        counter memory = {.fail_at = 1}; /* 0 is the context */
        rapt_context *context = NULL;
        call_make(&c, (rapt_score_kind)kind, (sizes){2, 4, 2, 70, 90, 9, 8, 7}, dense);
        cr_assert_eq(counter_context(&context, &memory, 2), RAPT_OK);
        cr_expect_eq(rapt_scores(context, &c.score, &c.q.t, &c.k.t, &c.scores.t), RAPT_ERR_MEMORY);
        expect_message(rapt_context_message(context), "scratch", __LINE__);
        box_kept(&c.scores, __LINE__);
        cr_expect_eq(rapt_scores(context, &c.score, &c.q.t, &c.k.t, &c.scores.t), RAPT_OK);
        box_kept_outside(&c.scores, __LINE__);
        expect_scores(&c);
        rapt_context_destroy(context);
        cr_expect(memory.live == 0 && !memory.misaligned);
        call_free(&c);
    }
}
