/* SPDX-License-Identifier: MIT
 * problem_run.c: running problems (problem.h): the call, what it may not touch, its results. */
#include "compare.h"
#include "crash.h"
#include "harness.h"
#include "problem.h"

#include <stdio.h>
#include <string.h>

/* Elements of outputs and gaps of scratch before the call: patterns that no result has. */
static const uint32_t unwritten = 0x7fc0a5a5; /* a NaN */
enum { SCRATCH_GAP = 0xff };

static const rapt_tensor *tensor_of(const problem *p, operand_id id) {
    return p->op[id].present ? &p->op[id].t : NULL;
}

rapt_attention_operands problem_operands(const problem *p) {
    return (rapt_attention_operands){.q = tensor_of(p, OP_Q),
                                     .k = tensor_of(p, OP_K),
                                     .v = tensor_of(p, OP_V),
                                     .mask = tensor_of(p, OP_MASK),
                                     .bias = tensor_of(p, OP_BIAS),
                                     .key_lengths = tensor_of(p, OP_LENGTHS),
                                     .out = problem_out(p),
                                     .lse = tensor_of(p, OP_LSE),
                                     .weights = tensor_of(p, OP_WEIGHTS),
                                     .keep = tensor_of(p, OP_KEEP),
                                     .scratch = p->scratch.data,
                                     .scratch_bytes = p->scratch.bytes};
}

rapt_attention_softmax_operands problem_pass_operands(const problem *p) {
    return (rapt_attention_softmax_operands){.scores = tensor_of(p, OP_WEIGHTS),
                                             .mask = tensor_of(p, OP_MASK),
                                             .bias = tensor_of(p, OP_BIAS),
                                             .key_lengths = tensor_of(p, OP_LENGTHS),
                                             .keep = tensor_of(p, OP_KEEP),
                                             .lse = tensor_of(p, OP_LSE),
                                             .scratch = p->scratch.data,
                                             .scratch_bytes = p->scratch.bytes};
}

rapt_score problem_score(const problem *p) {
    return (rapt_score){.kind = p->score,
                        .w_query = tensor_of(p, OP_W_QUERY),
                        .w_key = tensor_of(p, OP_W_KEY),
                        .v = tensor_of(p, OP_W_V)};
}

bool problem_visible(const problem *p, int64_t b, int64_t h, int64_t i, int64_t j) {
    const shape s = p->s; /* of q and k, sizes are all that counts; the pass has none */
    const rapt_tensor q = rapt_tensor_4d(RAPT_F32, NULL, s.b, s.hq, s.tq, 0);
    const rapt_tensor k = rapt_tensor_4d(RAPT_F32, NULL, s.b, s.hkv, s.tk, 0);
    rapt_attention_operands ops = problem_operands(p);
    ops.q = &q;
    ops.k = &k;
    return oracle_visible(&p->what, &ops, b, h, i, j);
}

/* Takes caller's scratch as the library asks for it. */
static void take_scratch(problem *p) {
    guard_return(&p->scratch);
    p->scratch = (guard_block){0};
    if (!p->caller_scratch) return;
    rapt_attention_info info = {0};
    rapt_attention_operands ops = problem_operands(p);
    rapt_tensor q = p->op[OP_Q].t, k = p->op[OP_K].t;
    q.size[3] = k.size[3] = 0; /* all that is left of them once scores are there */
    if (p->additive) ops.q = &q;
    if (p->additive) ops.k = &k;
    const rapt_attention_softmax_operands pass = problem_pass_operands(p);
    rapt_context *context = harness_context(p->threads);
    if (p->call == CALL_PASS) {
        rapt_attention_softmax_scratch(context, &p->what, &pass, &info.scratch_bytes);
    } else {
        rapt_attention_forward_info(context, &p->what, &ops, &info);
    }
    p->scratch = guard_take((size_t)info.scratch_bytes, 64, GUARD_AFTER, SCRATCH_GAP);
}

static void seal(problem *p) {
    for (operand_id id = 0; id < OP_COUNT; id++) {
        if (!p->op[id].present) continue;
        const bool in_out = p->call == CALL_PASS && id == OP_WEIGHTS;
        const bool clear = problem_is_output(id) && !in_out;
        for (walk w = walk_begin(&p->op[id].t); clear && !w.done; walk_next(&w)) {
            memcpy(walk_byte(&w), &unwritten, sizeof unwritten);
        }
        guard_seal(&p->op[id].memory);
    }
    if (p->scratch.data) guard_seal(&p->scratch);
}

static const char *const names[OP_COUNT] = {"q",    "k",       "v",      "mask",      "bias",
                                            "keep", "w_query", "w_key",  "score's v", "lengths",
                                            "out",  "lse",     "weights"};

static bool intact(const problem *p, bool written, char *why, size_t why_bytes) {
    ptrdiff_t offset = 0;
    for (operand_id id = 0; id < OP_COUNT; id++) {
        const operand *o = &p->op[id];
        if (!o->present) continue;
        const bool own = problem_is_output(id) || (id == OP_Q && p->in_place);
        for (walk w = walk_begin(&o->t); written && own && !w.done; walk_next(&w)) {
            guard_accept(&o->memory, walk_byte(&w), sizeof(float));
        }
        if (guard_intact(&o->memory, &offset)) continue;
        snprintf(why, why_bytes, "%s: byte %td of %zu must not change", names[id], offset,
                 o->memory.bytes);
        return false;
    }
    if (!p->scratch.data) return true;
    guard_accept(&p->scratch, p->scratch.data, p->scratch.bytes);
    if (guard_intact(&p->scratch, &offset)) return true;
    snprintf(why, why_bytes, "scratch: byte %td outside its %zu bytes changed", offset,
             p->scratch.bytes);
    return false;
}

typedef struct call {
    const problem *p;
    rapt_context *context;
    rapt_status status;
} call;

static void make_call(void *arg) {
    call *c = arg;
    const problem *p = c->p;
    const rapt_attention_operands ops = problem_operands(p);
    const rapt_attention_softmax_operands pass = problem_pass_operands(p);
    const rapt_score score = problem_score(p);
    switch (p->call) {
    case CALL_PASS: c->status = rapt_attention_softmax(c->context, &p->what, &pass); break;
    case CALL_SCORED: c->status = rapt_attention_scored(c->context, &p->what, &score, &ops); break;
    default: c->status = rapt_attention_forward(c->context, &p->what, &ops); break;
    }
}

bool problem_call(problem *p, rapt_status *status, char *why, size_t why_bytes) {
    harness_current(p);
    take_scratch(p);
    seal(p);
    call c = {p, harness_context(p->threads), RAPT_OK};
    const int number = crash_catch(make_call, &c, harness_text);
    *status = c.status;
    if (number == 0) return intact(p, c.status == RAPT_OK, why, why_bytes);
    harness_forget_contexts();
    snprintf(why, why_bytes, "crashed with signal %d", number);
    return false;
}

void problem_expect(problem *p) {
    const rapt_attention_operands ops = problem_operands(p);
    const rapt_attention_softmax_operands pass = problem_pass_operands(p);
    const rapt_score score = problem_score(p);
    switch (p->call) {
    case CALL_PASS: oracle_softmax(&p->expected, &p->what, &pass); break;
    case CALL_SCORED: oracle_scored(&p->expected, &p->what, &score, &ops); break;
    default: oracle_forward(&p->expected, &p->what, &ops); break;
    }
}

bool problem_compare(const problem *p, char *why, size_t why_bytes) {
    const rapt_tensor *weights = tensor_of(p, OP_WEIGHTS);
    return compare_oracle(p->call == CALL_PASS ? NULL : problem_out(p), tensor_of(p, OP_LSE),
                          &p->expected, NULL, why, why_bytes) &&
           (!weights || compare_weights(weights, &p->expected, NULL, why, why_bytes));
}

bool problem_try(problem *p, char *why, size_t why_bytes) {
    rapt_status status = RAPT_OK;
    problem_expect(p);
    if (!problem_call(p, &status, why, why_bytes)) return false;
    if (status != RAPT_OK) {
        snprintf(why, why_bytes, "%s: %s", rapt_status_name(status),
                 rapt_context_message(harness_context(p->threads)));
        return false;
    }
    return problem_compare(p, why, why_bytes);
}
