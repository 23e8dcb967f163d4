/* SPDX-License-Identifier: MIT
 * test_backward_random.c: gradients of random combinations of all features (case.h), with random
 * outputs, layouts and shapes of dbias, against the oracle, in guarded memory. What a case asks for
 * follows from its seed. */
#include "backward_call.h"
#include "case.h"
#include "compare.h"
#include "harness.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The forward call that comes before: its results must exist, and its inputs stay. */
static void settle(test_case *c) {
    c->call = c->score = c->units = c->key_dim = c->weights = c->no_lse = c->in_place = 0;
    case_settle(c);
}

/* ---- Build ---- */

static layout any_layout(rng *r, layout past) {
    return rng_chance(r, 50) ? LAYOUT_DENSE : (layout)rng_range(r, 0, (int64_t)past - 1);
}

static void add_bias_gradient(backward_call *b, rng *r) {
    const problem *p = b->p;
    const int64_t full[4] = {p->s.b, p->s.hq, p->s.tq, p->s.tk};
    const int32_t rank = (int32_t)rng_range(r, 1, 4);
    int64_t size[4];
    for (int32_t n = 0; n < rank; n++) size[n] = rng_chance(r, 40) ? 1 : full[4 - rank + n];
    backward_bias(b, rank, size, any_layout(r, LAYOUT_WRITABLE));
}

static bool sees_something(const problem *p, int64_t b, int64_t h, int64_t i) {
    for (int64_t j = 0; j < p->s.tk; j++) {
        if (problem_visible(p, b, h, i, j)) return true;
    }
    return false;
}

/* Rows of out and dout that belong to queries without a visible key hold what lies in hidden keys,
 * too. */
static void spoil_empty_rows(backward_call *b, const test_case *c) {
    static const float values[HIDDEN_KINDS] = {0.5f, NAN, INFINITY, 1e38f};
    const problem *p = b->p;
    const bool shared = b->op[GRAD_DOUT].form >= LAYOUT_WRITABLE;
    for (int64_t n = 0; n < p->s.b * p->s.hq * p->s.tq; n++) {
        const int64_t i = n % p->s.tq, h = n / p->s.tq % p->s.hq, item = n / p->s.tq / p->s.hq;
        if (sees_something(p, item, h, i)) continue;
        for (int64_t d = 0; d < p->s.dv; d++) {
            *problem_at(p, OP_OUT, item, h, i, d) = values[c->hidden];
            if (!shared) *backward_at(b, GRAD_DOUT, item, h, i, d) = values[c->hidden];
        }
    }
}

static void build(backward_call *b, problem *p, const test_case *c) {
    rng r = rng_make((uint64_t)c->seed, 40);
    backward_init(b, p);
    b->threads = (int32_t)c->threads;
    b->caller_scratch = c->scratch != 0;
    b->accumulate = rng_chance(&r, 30);
    backward_layout(b, GRAD_DOUT, any_layout(&r, LAYOUT_COUNT));
    if (rng_chance(&r, 50)) backward_layout(b, GRAD_DLSE, any_layout(&r, LAYOUT_COUNT));
    for (gradient_id id = GRAD_DQ; id <= GRAD_DV; id++) {
        backward_layout(b, id, any_layout(&r, LAYOUT_WRITABLE));
        if (rng_chance(&r, 15)) backward_drop(b, id);
    }
    if (rng_chance(&r, 50)) add_bias_gradient(b, &r);
    backward_fill(b, GRAD_DOUT, &r, rng_chance(&r, 80) ? FILL_NORMAL : (fill_kind)c->fill_v);
    if (b->op[GRAD_DLSE].present) backward_fill(b, GRAD_DLSE, &r, FILL_NORMAL);
    spoil_empty_rows(b, c);
}

/* ---- The same bits ---- */

enum { MOST_ELEMENTS = 1 << 17 };
static float copies[GRAD_COUNT][MOST_ELEMENTS];

static void copy_outputs(const backward_call *b) {
    for (gradient_id id = GRAD_DQ; id < GRAD_COUNT; id++) {
        int64_t n = 0;
        if (!b->op[id].present) continue;
        for (walk w = walk_begin(&b->op[id].t); !w.done && n < MOST_ELEMENTS; walk_next(&w)) {
            copies[id][n++] = *walk_f32(&w);
        }
    }
}

/* The first `count` elements of each output, at most up to `last`, equal the copies. */
static bool as_copied(const backward_call *b, gradient_id last, bool first_item, char *why,
                      size_t why_bytes) {
    for (gradient_id id = GRAD_DQ; id <= last; id++) {
        int64_t n = 0;
        if (!b->op[id].present) continue;
        for (walk w = walk_begin(&b->op[id].t); !w.done && n < MOST_ELEMENTS; walk_next(&w), n++) {
            if (first_item && w.index[0] > 0) break;
            const float x = *walk_f32(&w), y = copies[id][n];
            if (memcmp(&x, &y, sizeof x) == 0 || (isnan(x) && isnan(y))) continue;
            snprintf(why, why_bytes, "%s: element %lld of output %d is %.9g and %.9g",
                     first_item ? "first batch item alone" : "other threads", (long long)n, (int)id,
                     (double)x, (double)y);
            return false;
        }
    }
    return true;
}

static bool check_threads(backward_call *b, char *why, size_t why_bytes) {
    rapt_status status = RAPT_OK;
    b->threads = b->threads == 1 ? 3 : 1;
    return backward_run(b, &status, why, why_bytes) &&
           as_copied(b, GRAD_DBIAS, false, why, why_bytes);
}

static rapt_tensor views[16];

/* The first item of an axis that is batch; null stays null. */
static const rapt_tensor *first_of(const rapt_tensor *t, int32_t rank_with_batch, int view) {
    if (!t || t->rank < rank_with_batch || t->size[0] <= 1) return t;
    views[view] = rapt_tensor_slice(*t, 0, 0, 1);
    return &views[view];
}

static bool check_first_item(backward_call *b, char *why, size_t why_bytes) {
    rapt_attention_backward_operands o = backward_operands(b);
    if (b->accumulate || b->p->s.b < 2) return true;
    const rapt_tensor **const all[] = {&o.q,   &o.k,    &o.v,  &o.mask, &o.bias, &o.keep,
                                       &o.out, &o.dout, &o.dq, &o.dk,   &o.dv};
    for (int n = 0; n < (int)(sizeof all / sizeof *all); n++) *all[n] = first_of(*all[n], 4, n);
    o.lse = first_of(o.lse, 3, 11);
    o.dlse = first_of(o.dlse, 3, 12);
    o.key_lengths = first_of(o.key_lengths, 1, 13);
    o.dbias = NULL;
    o.scratch = NULL;
    const rapt_status status = rapt_attention_backward(harness_context(2), &b->p->what, &o);
    if (status != RAPT_OK) {
        snprintf(why, why_bytes, "first batch item alone: %s", rapt_status_name(status));
        return false;
    }
    return as_copied(b, GRAD_DV, true, why, why_bytes);
}

/* ---- Run ---- */

static void describe(const backward_call *b, const char *reason, char *why, size_t why_bytes) {
    const operand *bias = &b->op[GRAD_DBIAS];
    char shape_text[80] = "none";
    for (int32_t axis = 0, at = 0; bias->present && axis < bias->t.rank; axis++) {
        at += snprintf(shape_text + at, sizeof shape_text - (size_t)at, "%lld ",
                       (long long)bias->t.size[axis]);
    }
    snprintf(why, why_bytes, "%s\naccumulate %d, dout %s, dlse %s, dbias %s\n%s", reason,
             (int)b->accumulate, layout_name(b->op[GRAD_DOUT].form),
             b->op[GRAD_DLSE].present ? "given" : "none", shape_text, problem_text(b->p));
}

static bool run(const test_case *c, char *why, size_t why_bytes) {
    static problem p;
    static backward_call b;
    char reason[512];
    rapt_status status = RAPT_OK;
    case_build(&p, c);
    harness_current(&p);
    build(&b, &p, c);
    backward_expect(&b);
    bool right = backward_run(&b, &status, reason, sizeof reason);
    if (right && status != RAPT_OK) {
        snprintf(reason, sizeof reason, "%s: %s", rapt_status_name(status),
                 rapt_context_message(harness_context(b.threads)));
        right = false;
    }
    right = right && backward_compare(&b, reason, sizeof reason);
    copy_outputs(&b);
    right = right && check_threads(&b, reason, sizeof reason) &&
            check_first_item(&b, reason, sizeof reason);
    if (!right) describe(&b, reason, why, why_bytes);
    backward_free(&b);
    problem_free(&p);
    return right;
}

Test(backward_random, all_features) { case_run_all("backward_random", 6000, settle, run); }
