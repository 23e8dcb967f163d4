/* SPDX-License-Identifier: MIT
 * test_scored.c: rapt_attention_scored, attention with a score function by name. test_random.c has
 * it with all features combined; misuse of the operands that it shares with the forward call is in
 * test_errors.c. */
#include "compare.h"
#include "harness.h"
#include "message.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static void scored(problem *p, shape s, rapt_score_kind kind) {
    problem_init(p, s);
    problem_layout(p, OP_WEIGHTS, LAYOUT_DENSE);
    p->call = CALL_SCORED;
    p->score = kind;
}

/* Additive scores of `units` units; keys of `key_dim` numbers. All data normal. */
static void additive(problem *p, shape s, int64_t units, int64_t key_dim, uint64_t seed) {
    scored(p, s, RAPT_SCORE_ADDITIVE);
    problem_additive(p, units, key_dim);
    fill_normal(p, seed);
    for (operand_id id = OP_W_QUERY; id <= OP_W_V; id++) {
        rng r = rng_make(seed, (uint64_t)id);
        fill_random(p, id, &r, FILL_NORMAL);
    }
}

Test(scored, kinds_by_name) {
    const char *const names[] = {"scaled_dot", "dot", "additive"};
    for (int n = 0; n < 3; n++) {
        rapt_score_kind kind = (rapt_score_kind)77;
        cr_assert_eq(rapt_score_kind_from_name(names[n], &kind), RAPT_OK);
        problem p;
        additive(&p, (shape){2, 4, 2, 9, 21, 7, 5}, 6, 7, 1);
        p.score = kind;
        snprintf(p.note, sizeof p.note, "%s", names[n]);
        expect_oracle(&p);
        problem_free(&p);
    }
    const char *const others[] = {"", "Dot", "dot ", "scaled", "additive2", NULL};
    for (int n = 0; n < 6; n++) {
        rapt_score_kind kind = RAPT_SCORE_DOT;
        cr_expect_eq(rapt_score_kind_from_name(others[n], &kind), RAPT_ERR_ARGUMENT);
        cr_expect_eq(kind, RAPT_SCORE_DOT, "written on error");
    }
    cr_expect_eq(rapt_score_kind_from_name("dot", NULL), RAPT_ERR_ARGUMENT);
}

/* The default scale is the kind's own; a given one takes its place. */
Test(scored, scale) {
    for (int n = 0; n < 3; n++) {
        problem p;
        additive(&p, (shape){1, 2, 1, 5, 8, 16, 3}, 4, 16, 2);
        p.score = (rapt_score_kind)n;
        p.what.scale.value = 5.0f; /* not on */
        expect_oracle(&p);
        p.what.scale = (rapt_scale){1, -0.5f};
        expect_oracle(&p);
        p.what.scale = (rapt_scale){1, 0.0f};
        expect_oracle(&p);
        for (walk w = walk_begin(&p.op[OP_WEIGHTS].t); !w.done; walk_next(&w)) {
            REQUIRE(*walk_f32(&w) == 0.125f, "%g", (double)*walk_f32(&w));
        }
        problem_free(&p);
    }
}

Test(scored, additive_shapes) {
    const struct {
        shape s;
        int64_t units, key_dim;
    } cases[] = {
        {{1, 1, 1, 1, 1, 1, 1}, 1, 1},   {{2, 4, 2, 17, 33, 5, 6}, 7, 3},
        {{1, 3, 3, 40, 5, 2, 9}, 33, 8}, {{1, 2, 1, 3, 140, 16, 4}, 16, 20},
        {{1, 1, 1, 4, 5, 3, 2}, 0, 3},   {{1, 2, 2, 4, 5, 0, 2}, 4, 3},
        {{1, 2, 2, 4, 5, 3, 2}, 4, 0},   {{2, 2, 1, 4, 0, 3, 2}, 4, 3},
        {{2, 2, 1, 0, 5, 3, 2}, 4, 3},   {{0, 2, 1, 4, 5, 3, 2}, 4, 3},
        {{1, 2, 1, 4, 5, 3, 0}, 4, 3},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        for (int causal = 0; causal < 3; causal++) {
            problem p;
            additive(&p, cases[n].s, cases[n].units, cases[n].key_dim, 3);
            p.what.causal = (rapt_causal)causal;
            expect_oracle(&p);
            problem_free(&p);
        }
    }
}

/* Large projections saturate tanh: scores are sums of +-v. */
Test(scored, additive_saturates) {
    problem p;
    additive(&p, (shape){1, 1, 1, 6, 40, 4, 40}, 5, 4, 4);
    for (walk w = walk_begin(&p.op[OP_W_QUERY].t); !w.done; walk_next(&w)) *walk_f32(&w) *= 1e30f;
    expect_oracle(&p);
    problem_free(&p);
}

/* Weights of the score may be views of any strides. */
Test(scored, additive_strides) {
    problem dense, p;
    const shape s = {1, 2, 1, 6, 10, 5, 4};
    additive(&dense, s, 7, 5, 5);
    expect_oracle(&dense);
    additive(&p, s, 7, 5, 5);
    float turned[2][35], backwards[7];
    for (int n = 0; n < 35; n++) {
        turned[0][n % 5 * 7 + n / 5] = ((float *)dense.op[OP_W_QUERY].t.data)[n];
        turned[1][n % 5 * 7 + n / 5] = ((float *)dense.op[OP_W_KEY].t.data)[n];
    }
    for (int n = 0; n < 7; n++) backwards[6 - n] = ((float *)dense.op[OP_W_V].t.data)[n];
    rapt_score score = problem_score(&p);
    const rapt_tensor wq = rapt_tensor_transpose(rapt_tensor_2d(RAPT_F32, turned[0], 5, 7));
    const rapt_tensor wk = rapt_tensor_transpose(rapt_tensor_2d(RAPT_F32, turned[1], 5, 7));
    const int64_t size = 7, stride = -1;
    const rapt_tensor v = rapt_tensor_strided(RAPT_F32, backwards + 6, 1, &size, &stride);
    score.w_query = &wq;
    score.w_key = &wk;
    score.v = &v;
    const rapt_attention_operands ops = problem_operands(&p);
    const rapt_status status = rapt_attention_scored(harness_context(1), &p.what, &score, &ops);
    REQUIRE(status == RAPT_OK, "%s", rapt_context_message(harness_context(1)));
    p.expected = dense.expected;
    char why[256];
    REQUIRE(problem_compare(&p, why, sizeof why), "%s", why);
    p.expected = (oracle){0};
    problem_free(&p);
    problem_free(&dense);
}

Test(scored, any_thread_count_has_the_same_bits) {
    for (int kind = 0; kind < 3; kind++) {
        problem one, many;
        const shape s = {2, 2, 1, 70, 150, 9, 12};
        additive(&one, s, 11, 9, 6);
        one.score = (rapt_score_kind)kind;
        expect_oracle(&one);
        for (int32_t threads = 2; threads <= 8; threads *= 2) {
            additive(&many, s, 11, 9, 6);
            many.score = (rapt_score_kind)kind;
            many.threads = threads;
            expect_run(&many);
            expect_same_bits(&many, &one);
            problem_free(&many);
        }
        problem_free(&one);
    }
}

/* Hidden keys and values may hold anything, for every kind. */
Test(scored, poison_behind_the_mask) {
    const float poisons[] = {NAN, INFINITY, 1e38f};
    const shape s = {2, 2, 1, 12, 40, 6, 5};
    for (int n = 0; n < 3 * 3; n++) {
        problem zeros, p;
        for (int with = 0; with < 2; with++) {
            problem *x = with ? &p : &zeros;
            additive(x, s, 4, 6, 7);
            x->score = (rapt_score_kind)(n / 3);
            fill_keys(x, 31, 40, with ? poisons[n % 3] : 0.0f);
            problem_full_mask(x);
            for (walk w = walk_begin(&x->op[OP_MASK].t); !w.done; walk_next(&w)) {
                *walk_byte(&w) = w.index[3] < 31;
            }
        }
        expect_oracle(&zeros);
        expect_run(&p);
        expect_same_bits(&p, &zeros);
        problem_free(&p);
        problem_free(&zeros);
    }
}

Test(scored, out_in_the_place_of_q) {
    for (int kind = 0; kind < 3; kind++) {
        problem p;
        additive(&p, (shape){1, 4, 2, 20, 30, 8, 8}, 5, 8, 8);
        p.score = (rapt_score_kind)kind;
        p.in_place = true;
        expect_oracle(&p);
        problem_free(&p);
    }
}

/* ---- Misuse ---- */

typedef struct misuse {
    problem p;
    rapt_score score;
    rapt_attention_operands ops;
    rapt_tensor t[OP_COUNT];
} misuse;

static misuse the_misuse;

static misuse *valid(void) {
    misuse *m = &the_misuse;
    additive(&m->p, (shape){2, 4, 2, 3, 5, 4, 6}, 7, 3, 9);
    for (operand_id id = 0; id < OP_COUNT; id++) m->t[id] = m->p.op[id].t;
    m->score = (rapt_score){RAPT_SCORE_ADDITIVE, &m->t[OP_W_QUERY], &m->t[OP_W_KEY], &m->t[OP_W_V]};
    m->ops = problem_operands(&m->p);
    m->ops.q = &m->t[OP_Q];
    m->ops.k = &m->t[OP_K];
    m->ops.v = &m->t[OP_V];
    m->ops.out = &m->t[OP_OUT];
    m->ops.lse = &m->t[OP_LSE];
    m->ops.weights = &m->t[OP_WEIGHTS];
    return m;
}

/* No result is written: all outputs keep a pattern. */
static void expect_refused(rapt_status expected, const char *words, int line) {
    misuse *m = &the_misuse;
    for (operand_id id = OP_OUT; id < OP_COUNT; id++) fill_constant(&m->p, id, 1234.5f);
    for (operand_id id = 0; id < OP_COUNT; id++) {
        if (m->p.op[id].present) guard_seal(&m->p.op[id].memory);
    }
    rapt_context *context = harness_context(1);
    const rapt_status status = rapt_attention_scored(context, &m->p.what, &m->score, &m->ops);
    cr_expect(status == expected, "line %d: %s (\"%s\"), expected %s", line,
              rapt_status_name(status), rapt_context_message(context), rapt_status_name(expected));
    if (status != RAPT_OK) expect_message(rapt_context_message(context), words, line);
    for (operand_id id = 0; id < OP_COUNT && status != RAPT_OK; id++) {
        ptrdiff_t at = 0;
        cr_expect(!m->p.op[id].present || guard_intact(&m->p.op[id].memory, &at),
                  "line %d: operand %d was written", line, (int)id);
    }
    problem_free(&m->p);
}

#define REFUSED(status, words) expect_refused(status, words, __LINE__)

Test(misuse, of_what_the_score_needs) {
    valid();
    REFUSED(RAPT_OK, "");
    valid()->score.kind = (rapt_score_kind)3;
    REFUSED(RAPT_ERR_ARGUMENT, "kind 3");
    valid()->score.kind = (rapt_score_kind)-1;
    REFUSED(RAPT_ERR_ARGUMENT, "kind");
    valid()->score = (rapt_score){(rapt_score_kind)4, NULL, NULL, NULL};
    REFUSED(RAPT_ERR_ARGUMENT, "kind 4");
    valid()->score.w_query = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "w_query null");
    valid()->score.w_key = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "w_key null");
    valid()->score.v = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "v null");
    valid()->ops.weights = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "weights null");
    valid()->ops.q = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "q null");
    valid()->ops.k = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "k null");
    valid()->ops.v = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "v null");
    valid()->ops.out = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "out null");
    for (operand_id id = OP_W_QUERY; id <= OP_W_V; id++) {
        valid()->t[id].data = NULL;
        REFUSED(RAPT_ERR_ARGUMENT, "null");
        valid()->t[id].dtype = RAPT_I32;
        REFUSED(RAPT_ERR_DTYPE, "dtype");
        valid()->t[id].rank = 3;
        REFUSED(RAPT_ERR_SHAPE, "rank 3");
        valid()->t[id].size[0] = 8; /* units */
        REFUSED(RAPT_ERR_SHAPE, "8");
        valid()->t[id].size[0] = -1;
        REFUSED(RAPT_ERR_SHAPE, "");
    }
    valid()->t[OP_W_QUERY].size[1] = 3;
    REFUSED(RAPT_ERR_SHAPE, "3 4");
    valid()->t[OP_W_KEY].size[1] = 2;
    REFUSED(RAPT_ERR_SHAPE, "2 3");
}

Test(misuse, of_the_operands_of_additive_scores) {
    const operand_id all[] = {OP_Q, OP_K, OP_V, OP_OUT, OP_LSE, OP_WEIGHTS};
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
        valid()->t[all[n]].dtype = RAPT_BOOL;
        REFUSED(RAPT_ERR_DTYPE, "dtype");
        valid()->t[all[n]].rank = 2;
        REFUSED(RAPT_ERR_SHAPE, "rank 2");
        for (int axis = 0; axis < the_misuse.t[all[n]].rank; axis++) {
            valid()->t[all[n]].size[axis]++;
            if (all[n] == OP_K && axis == 1) the_misuse.t[OP_V].size[axis]++; /* 3 of 4 heads */
            REFUSED(RAPT_ERR_SHAPE, "");
        }
    }
    valid()->p.what.dropout = (rapt_dropout){1, 1.5, 0, 0};
    REFUSED(RAPT_ERR_ARGUMENT, "dropout");
    valid()->p.what.causal = (rapt_causal)9;
    REFUSED(RAPT_ERR_ARGUMENT, "causal 9");
}

/* No output may lie over any input, be it of the attention or of the score, or over another. */
Test(misuse, overlaps) {
    const operand_id inputs[] = {OP_Q, OP_K, OP_V, OP_W_QUERY, OP_W_KEY, OP_W_V};
    for (operand_id out = OP_OUT; out < OP_COUNT; out++) {
        for (size_t n = 0; n < sizeof inputs / sizeof *inputs; n++) {
            valid();
            /* the input begins at the output's second element, which ends before a fence */
            the_misuse.t[inputs[n]].data = (float *)the_misuse.t[out].data + 1;
            REFUSED(RAPT_ERR_OVERLAP, "");
        }
        valid()->t[out].stride[0] = 0;
        REFUSED(RAPT_ERR_OVERLAP, "");
    }
    valid()->t[OP_OUT].data = the_misuse.t[OP_WEIGHTS].data;
    REFUSED(RAPT_ERR_OVERLAP, "weights");
    valid()->t[OP_LSE].data = the_misuse.t[OP_WEIGHTS].data;
    REFUSED(RAPT_ERR_OVERLAP, "weights");
}
