/* SPDX-License-Identifier: MIT
 * case_run.c: builds the problem of a random case and runs it.
 *
 * Memory that no query may look at holds NaN, infinity or huge numbers: the tensors are filled with
 * those first, and then only what some query sees gets values. */
#include "case.h"

#include "case_parts.h"
#include "compare.h"
#include "fill.h"
#include "harness.h"
#include "oracle.h"
#include "problem.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Limits, mask, bias, lengths ---- */

static void set_what(problem *p, const test_case *c) {
    static const float scales[] = {0.0f, 0.3f, -0.4f, 1.0f, 0.0f};
    p->what.causal = (rapt_causal)c->causal;
    if (c->scale) p->what.scale = (rapt_scale){1, scales[c->scale]};
    if (c->window) {
        p->what.window = (rapt_window){1, c->left > CASE_NO_LIMIT ? INT64_MAX : c->left,
                                       c->right > CASE_NO_LIMIT ? INT64_MAX : c->right};
    }
}

static void set_lengths(problem *p, const test_case *c) {
    rng r = rng_make((uint64_t)c->seed, 1);
    int64_t lengths[8];
    if (c->lengths == LENGTHS_NONE) return;
    for (int64_t b = 0; b < p->s.b; b++) {
        lengths[b] = rng_chance(&r, 20) ? p->s.tk : rng_range(&r, 0, p->s.tk);
    }
    const bool wide = c->lengths == LENGTHS_I64 || c->lengths == LENGTHS_ONE_I64;
    const bool one = c->lengths == LENGTHS_ONE_I32 || c->lengths == LENGTHS_ONE_I64;
    lengths[0] = p->s.b > 0 ? lengths[0] : 0;
    problem_lengths(p, wide ? RAPT_I64 : RAPT_I32, one ? 1 : p->s.b, lengths);
}

static void broadcast_size(const problem *p, int64_t rank, int64_t ones, int64_t *size) {
    const int64_t full[4] = {p->s.b, p->s.hq, p->s.tq, p->s.tk};
    for (int64_t n = 0; n < rank; n++) {
        const int64_t axis = 4 - rank + n;
        size[n] = ones >> axis & 1 ? 1 : full[axis];
    }
}

static uint8_t mask_value(rng *r, const walk *w, mask_kind kind) {
    bool sees = true;
    switch (kind) {
    case MASK_MOST: sees = rng_chance(r, 80); break;
    case MASK_FEW: sees = rng_chance(r, 5); break;
    case MASK_NONE: sees = false; break;
    case MASK_BLOCKS: sees = w->index[w->t->rank - 1] / 13 % 2; break;
    default: break;
    }
    return sees ? (uint8_t)rng_range(r, 1, 255) : 0;
}

static void set_mask(problem *p, const test_case *c) {
    int64_t size[4];
    if (!c->mask_rank) return;
    broadcast_size(p, c->mask_rank, c->mask_ones, size);
    problem_mask(p, (int32_t)c->mask_rank, size, (layout)c->mask_layout);
    rng r = rng_make((uint64_t)c->seed, 2);
    for (walk w = walk_begin(&p->op[OP_MASK].t); !w.done; walk_next(&w)) {
        *walk_byte(&w) = mask_value(&r, &w, (mask_kind)c->mask_kind);
    }
}

static void set_dropout(problem *p, const test_case *c) {
    static const double ps[DROPOUT_KINDS] = {0.0, 0.7, 0.0, 1e-11, 0.1, 0.5, 0.999, 1.0};
    int64_t size[4];
    rng r = rng_make((uint64_t)c->seed, 5);
    p->what.weights_before_dropout = c->weights == WEIGHTS_BEFORE;
    p->what.dropout = (rapt_dropout){c->dropout >= DROPOUT_ZERO, ps[c->dropout], rng_next(&r),
                                     (uint32_t)rng_next(&r)};
    if (!c->keep_rank) return;
    broadcast_size(p, c->keep_rank, c->keep_ones, size);
    problem_keep(p, (int32_t)c->keep_rank, size, (layout)c->keep_layout);
    for (walk w = walk_begin(&p->op[OP_KEEP].t); !w.done; walk_next(&w)) {
        *walk_byte(&w) = mask_value(&r, &w, MASK_MOST);
    }
}

static float hidden_value(const test_case *c) {
    static const float values[HIDDEN_KINDS] = {0.5f, NAN, INFINITY, 1e38f};
    return values[c->hidden];
}

static float bias_value(rng *r, bias_kind kind) {
    static const float sentinels[] = {-10000.0f, -65504.0f, -FLT_MAX};
    const float value = (float)rng_normal(r);
    switch (kind) {
    case BIAS_ZERO: return 0.0f;
    case BIAS_HOLES: return rng_chance(r, 20) ? -INFINITY : value;
    case BIAS_FEW: return rng_chance(r, 95) ? -INFINITY : value;
    case BIAS_SENTINEL: return rng_chance(r, 40) ? sentinels[rng_range(r, 0, 2)] : value;
    default: return value;
    }
}

/* ---- What is seen ---- */

typedef struct pair {
    int64_t b, h, i, j;
} pair;

static bool next_pair(const problem *p, pair *n) {
    const shape s = p->s;
    if (++n->j < s.tk) return true;
    n->j = 0;
    if (++n->i < s.tq) return true;
    n->i = 0;
    if (++n->h < s.hq) return true;
    n->h = 0;
    return ++n->b < s.b;
}

static float *bias_at(const problem *p, const pair *n) {
    const rapt_tensor *t = &p->op[OP_BIAS].t;
    const int64_t index[4] = {n->b, n->h, n->i, n->j};
    float *at = t->data;
    for (int32_t axis = 0; axis < t->rank; axis++) {
        if (t->size[axis] != 1) at += index[4 - t->rank + axis] * t->stride[axis];
    }
    return at;
}

static void set_bias(problem *p, const test_case *c) {
    int64_t size[4];
    if (!c->bias_rank) return;
    broadcast_size(p, c->bias_rank, c->bias_ones, size);
    problem_bias(p, (int32_t)c->bias_rank, size, (layout)c->bias_layout);
    problem before = *p; /* what is visible without the bias */
    before.op[OP_BIAS].present = false;
    fill_constant(p, OP_BIAS, hidden_value(c));
    rng r = rng_make((uint64_t)c->seed, 3);
    const shape s = p->s;
    pair n = {0, 0, 0, -1};
    for (bool more = s.b * s.hq * s.tq * s.tk > 0 && next_pair(p, &n); more;
         more = next_pair(p, &n)) {
        if (!problem_visible(&before, n.b, n.h, n.i, n.j)) continue;
        *bias_at(p, &n) = bias_value(&r, (bias_kind)c->bias_kind);
    }
}

static void set_row(problem *p, operand_id id, int64_t b, int64_t h, int64_t i, rng *r,
                    fill_kind kind) {
    for (int64_t d = 0; d < p->op[id].t.size[3]; d++) {
        *problem_at(p, id, b, h, i, d) = fill_value(r, kind);
    }
}

/* Marks what is seen: queries [B, Hq, Tq] and keys [B, Hkv, Tk]; returns the number of pairs. */
static int64_t find_seen(const problem *p, int64_t group, bool *queries, bool *keys, pair *last) {
    const shape s = p->s;
    int64_t count = 0;
    pair n = {0, 0, 0, -1};
    for (bool more = s.b * s.hq * s.tq * s.tk > 0 && next_pair(p, &n); more;
         more = next_pair(p, &n)) {
        if (!problem_visible(p, n.b, n.h, n.i, n.j)) continue;
        queries[(n.b * s.hq + n.h) * s.tq + n.i] = true;
        keys[(n.b * s.hkv + n.h / group) * s.tk + n.j] = true;
        *last = n;
        count++;
    }
    return count;
}

static void set_rows(problem *p, operand_id id, const bool *seen, rng *r, fill_kind kind) {
    const int64_t heads = p->op[id].t.size[1], rows = p->op[id].t.size[2];
    for (int64_t n = 0; n < p->s.b * heads * rows; n++) {
        if (seen[n]) set_row(p, id, n / (heads * rows), n / rows % heads, n % rows, r, kind);
    }
}

static float spoiled_value(const test_case *c) {
    return c->spoiled == SPOILED_V_INF || c->spoiled == SPOILED_BIAS_INF ? INFINITY : NAN;
}

/* Puts one NaN or infinity where the query-key pair `at` uses it. */
static void spoil(problem *p, const test_case *c, const pair *at, rng *r) {
    const shape s = p->s;
    const int64_t kv_head = at->h / c->group, key_dim = p->op[OP_K].t.size[3];
    const float value = spoiled_value(c);
    if (c->spoiled == SPOILED_Q && s.d > 0) {
        *problem_at(p, OP_Q, at->b, at->h, at->i, rng_range(r, 0, s.d - 1)) = value;
    } else if (c->spoiled == SPOILED_K && key_dim > 0) {
        *problem_at(p, OP_K, at->b, kv_head, at->j, rng_range(r, 0, key_dim - 1)) = value;
    } else if ((c->spoiled == SPOILED_V || c->spoiled == SPOILED_V_INF) && s.dv > 0) {
        *problem_at(p, OP_V, at->b, kv_head, at->j, rng_range(r, 0, s.dv - 1)) = value;
    } else if (c->spoiled >= SPOILED_BIAS) {
        *bias_at(p, at) = value;
    }
}

static void set_qkv(problem *p, const test_case *c) {
    static bool queries[1 << 16], keys[1 << 16];
    memset(queries, 0, sizeof queries);
    memset(keys, 0, sizeof keys);
    pair last = {0};
    const int64_t count = find_seen(p, c->group, queries, keys, &last);
    rng r = rng_make((uint64_t)c->seed, 4);
    for (operand_id id = OP_Q; id <= OP_V; id++) {
        fill_constant(p, id, hidden_value(c));
        set_rows(p, id, id == OP_Q ? queries : keys, &r,
                 (fill_kind)(id == OP_V ? c->fill_v : c->fill_qk));
    }
    if (c->spoiled && count > 0) spoil(p, c, &last, &r);
}

static void set_additive(problem *p, const test_case *c) {
    rng r = rng_make((uint64_t)c->seed, 7);
    for (operand_id id = OP_W_QUERY; id <= OP_W_V; id++) fill_random(p, id, &r, FILL_NORMAL);
}

/* The pass: scores of visible pairs, a few of them -inf; the other scores must not be used. */
static void set_scores(problem *p, const test_case *c) {
    rng r = rng_make((uint64_t)c->seed, 6);
    const shape s = p->s;
    pair n = {0, 0, 0, -1}, last = {0};
    bool any = false;
    fill_constant(p, OP_WEIGHTS, hidden_value(c));
    for (bool more = s.b * s.hq * s.tq * s.tk > 0 && next_pair(p, &n); more;
         more = next_pair(p, &n)) {
        if (!problem_visible(p, n.b, n.h, n.i, n.j)) continue;
        const float value = fill_value(&r, (fill_kind)c->fill_qk);
        *problem_at(p, OP_WEIGHTS, n.b, n.h, n.i, n.j) = rng_chance(&r, 3) ? -INFINITY : value;
        last = n;
        any = true;
    }
    if (any && c->spoiled >= SPOILED_BIAS) *bias_at(p, &last) = spoiled_value(c);
    if (any && c->spoiled == SPOILED_Q) {
        *problem_at(p, OP_WEIGHTS, last.b, last.h, last.i, last.j) = spoiled_value(c);
    }
}

/* ---- Run ---- */

void case_build(problem *p, const test_case *c) {
    *p = (problem){.s = {c->b, c->hkv * c->group, c->hkv, c->tq, c->tk, c->d, c->dv},
                   .call = (call_kind)c->call,
                   .score = (rapt_score_kind)c->score,
                   .side = (guard_side)c->side,
                   .threads = (int32_t)c->threads,
                   .in_place = c->in_place != 0,
                   .caller_scratch = c->scratch != 0};
    const bool pass = c->call == CALL_PASS, additive = c->score == RAPT_SCORE_ADDITIVE;
    if (!pass) problem_layout(p, OP_Q, (layout)c->layout_q);
    if (!pass) problem_layout(p, OP_K, (layout)c->layout_k);
    if (!pass) problem_layout(p, OP_V, (layout)c->layout_v);
    if (!pass && !c->in_place) problem_layout(p, OP_OUT, (layout)c->layout_out);
    if (!c->no_lse) problem_layout(p, OP_LSE, (layout)c->layout_lse);
    if (c->weights) problem_layout(p, OP_WEIGHTS, (layout)c->layout_weights);
    if (additive) problem_additive(p, c->units, c->key_dim);
    set_what(p, c);
    set_lengths(p, c);
    set_mask(p, c);
    set_dropout(p, c);
    set_bias(p, c);
    if (additive) set_additive(p, c);
    if (pass) {
        set_scores(p, c);
    } else {
        set_qkv(p, c);
    }
}

/* The library's own account of the call agrees with the oracle's. */
static bool check_info(problem *p, char *why, size_t why_bytes) {
    rapt_attention_info info;
    const rapt_attention_operands ops = problem_operands(p);
    rapt_context *context = harness_context(p->threads);
    if (p->call != CALL_FORWARD) return true;
    const rapt_status status = rapt_attention_forward_info(context, &p->what, &ops, &info);
    const double flops = 2.0 * (double)p->expected.within * (double)(p->s.d + p->s.dv);
    const char *path = ops.weights ? "materialised" : "fused";
    if (status == RAPT_OK && strcmp(info.path, path) == 0 && info.visible == p->expected.within &&
        fabs(info.flops - flops) <= 1e-9 * flops && info.threads <= p->threads) {
        return true;
    }
    snprintf(why, why_bytes, "info: %s, path %s, visible %lld, want %lld, flops %.17g, threads %d",
             rapt_status_name(status), status == RAPT_OK ? info.path : "", (long long)info.visible,
             (long long)p->expected.within, info.flops, (int)info.threads);
    return false;
}

static bool same_bits(const problem *a, const problem *b, operand_id id, char *why,
                      size_t why_bytes) {
    const operand *x = &a->op[id], *y = &b->op[id];
    return !x->present || !y->present || compare_bits(&x->t, &y->t, why, why_bytes);
}

/* The same case with one field changed: the same bits of lse, and of all if `all`. */
static bool check_bits(const test_case *other, const problem *p, bool all, char *why,
                       size_t why_bytes) {
    static problem twin;
    rapt_status status = RAPT_OK;
    case_build(&twin, other);
    const bool same = problem_call(&twin, &status, why, why_bytes) &&
                      same_bits(p, &twin, OP_LSE, why, why_bytes) &&
                      (!all || (same_bits(p, &twin, OP_WEIGHTS, why, why_bytes) &&
                                same_bits(p, &twin, p->in_place ? OP_Q : OP_OUT, why, why_bytes)));
    problem_free(&twin);
    return same;
}

/* Without weights, by the fused path: within the bounds of the same oracle. */
static bool check_fused(const test_case *c, problem *p, char *why, size_t why_bytes) {
    static problem fused;
    rapt_status status = RAPT_OK;
    char reason[256];
    test_case other = *c;
    other.weights = WEIGHTS_NONE;
    case_build(&fused, &other);
    bool right = problem_call(&fused, &status, reason, sizeof reason);
    fused.expected = p->expected;
    right = right && problem_compare(&fused, reason, sizeof reason);
    fused.expected = (oracle){0};
    problem_free(&fused);
    if (!right) snprintf(why, why_bytes, "without weights: %s", reason);
    return right;
}

static bool check_twins(const test_case *c, problem *p, char *why, size_t why_bytes) {
    test_case one = *c, none = *c;
    one.threads = 1;
    none.dropout = none.keep_rank = 0;
    const bool drops = c->dropout > DROPOUT_ZERO;
    return (c->threads == 1 || check_bits(&one, p, true, why, why_bytes)) &&
           (!c->dropout || check_bits(&none, p, !drops, why, why_bytes)) &&
           (c->call != CALL_FORWARD || !c->weights || check_fused(c, p, why, why_bytes));
}

bool case_run(const test_case *c, char *why, size_t why_bytes) {
    static problem p;
    static oracle expected; /* its memory serves all cases */
    char reason[512];
    case_build(&p, c);
    p.expected = expected;
    const bool right = problem_try(&p, reason, sizeof reason) &&
                       check_info(&p, reason, sizeof reason) &&
                       check_twins(c, &p, reason, sizeof reason) &&
                       (c->seed % 4 || case_check_parts(c, &p, reason, sizeof reason));
    if (!right) snprintf(why, why_bytes, "%s\n%s", reason, problem_text(&p));
    expected = p.expected;
    p.expected = (oracle){0};
    problem_free(&p);
    return right;
}
