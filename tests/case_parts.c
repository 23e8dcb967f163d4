/* SPDX-License-Identifier: MIT
 * case_parts.c: parts of a problem have the same bits on their own: one batch item, and the first
 * rows of a causal sequence whatever comes later. The parts are views of the same memory. */
#include "case_parts.h"

#include "compare.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>

/* [begin, begin + n) of one axis of [B, H, Tq, Tk] or of what broadcasts to it, right-aligned. */
static void cut(rapt_tensor *t, int32_t axis, int64_t begin, int64_t n) {
    const int32_t own = axis - (4 - t->rank);
    if (own >= 0 && t->size[own] > 1) *t = rapt_tensor_slice(*t, own, begin, n);
}

typedef struct part {
    rapt_tensor t[OP_COUNT];
} part;

static part whole(const problem *p) {
    part x = {0};
    for (operand_id id = 0; id < OP_COUNT; id++) x.t[id] = p->op[id].t;
    return x;
}

static part batch_item(const problem *p, int64_t b) {
    part x = whole(p);
    for (operand_id id = 0; id < OP_COUNT; id++) {
        /* lse and lengths have fewer axes, but begin with the batch */
        const bool from_left = id == OP_LSE || id == OP_LENGTHS;
        cut(&x.t[id], from_left ? 4 - x.t[id].rank : 0, b, 1);
    }
    return x;
}

static part first_rows(const problem *p, int64_t queries, int64_t keys) {
    part x = whole(p);
    cut(&x.t[OP_Q], 2, 0, queries);
    cut(&x.t[OP_OUT], 2, 0, queries);
    cut(&x.t[OP_LSE], 3, 0, queries);
    cut(&x.t[OP_K], 2, 0, keys);
    cut(&x.t[OP_V], 2, 0, keys);
    const operand_id full[] = {OP_MASK, OP_BIAS, OP_KEEP, OP_WEIGHTS};
    for (size_t n = 0; n < sizeof full / sizeof *full; n++) {
        cut(&x.t[full[n]], 2, 0, queries);
        cut(&x.t[full[n]], 3, 0, keys);
    }
    return x;
}

/* ---- Run ---- */

static float *copy_of(const rapt_tensor *t) {
    int64_t n = 1;
    for (int32_t axis = 0; axis < t->rank; axis++) n *= t->size[axis];
    float *copy = calloc((size_t)n + 1, sizeof *copy), *at = copy;
    for (walk w = walk_begin(t); copy && !w.done; walk_next(&w)) *at++ = *walk_f32(&w);
    return copy;
}

static bool same_as(const rapt_tensor *t, const float *copy, char *why, size_t why_bytes) {
    const rapt_tensor dense = rapt_tensor_contiguous(RAPT_F32, copy, t->rank, t->size);
    return compare_bits(t, &dense, why, why_bytes);
}

/* Runs the part again over its own results; all results must stay as they are. */
static bool check(const problem *p, const part *x, const char *name, char *why, size_t why_bytes) {
    char reason[256] = "";
    const rapt_tensor *given[OP_COUNT] = {0};
    for (operand_id id = 0; id < OP_COUNT; id++) given[id] = p->op[id].present ? &x->t[id] : NULL;
    const rapt_attention_operands ops = {.q = given[OP_Q],
                                         .k = given[OP_K],
                                         .v = given[OP_V],
                                         .mask = given[OP_MASK],
                                         .bias = given[OP_BIAS],
                                         .key_lengths = given[OP_LENGTHS],
                                         .out = given[OP_OUT],
                                         .lse = given[OP_LSE],
                                         .weights = given[OP_WEIGHTS],
                                         .keep = given[OP_KEEP]};
    float *copies[OP_COUNT] = {0};
    for (operand_id id = OP_OUT; id < OP_COUNT; id++) {
        if (given[id]) copies[id] = copy_of(&p->op[id].t);
    }
    const rapt_score score = problem_score(p);
    rapt_context *context = harness_context(p->threads);
    const rapt_status status = p->call == CALL_SCORED
                                   ? rapt_attention_scored(context, &p->what, &score, &ops)
                                   : rapt_attention_forward(context, &p->what, &ops);
    bool same = status == RAPT_OK;
    for (operand_id id = OP_OUT; id < OP_COUNT; id++) {
        same = same && (!copies[id] || same_as(&p->op[id].t, copies[id], reason, sizeof reason));
        free(copies[id]);
    }
    if (!same) {
        snprintf(why, why_bytes, "%s alone: %s, %s", name, rapt_status_name(status), reason);
    }
    return same;
}

bool case_check_parts(const test_case *c, const problem *p, char *why, size_t why_bytes) {
    if (p->in_place || p->call == CALL_PASS) return true;            /* the input is gone */
    const bool by_place = p->what.dropout.training && !c->keep_rank; /* a weight's place counts */
    if (c->b > 1) {
        const part item = batch_item(p, by_place ? 0 : c->seed % c->b);
        if (!check(p, &item, "a batch item", why, why_bytes)) return false;
    }
    const int64_t shorter = c->tq < c->tk ? c->tq : c->tk;
    if (!c->causal || c->lengths || shorter < 2) return true;
    const int64_t later = 1 + c->seed % (shorter - 1), queries = c->tq - later;
    int64_t keys = c->tk - later; /* bottom right: the last query stays on the last key */
    if (c->causal == RAPT_CAUSAL_TOP_LEFT) keys = queries < c->tk ? queries : c->tk;
    const part first = first_rows(p, queries, keys);
    return check(p, &first, "first causal rows", why, why_bytes);
}
