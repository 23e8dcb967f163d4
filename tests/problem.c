/* SPDX-License-Identifier: MIT
 * problem.c: see problem.h. */
#include "problem.h"

#include "compare.h"
#include "crash.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>

/* Gaps of inputs read as NaN (f32) or true (bool); gaps and elements of outputs have patterns that
 * no result has. */
enum { INPUT_GAP = 0xff, OUTPUT_GAP = 0xa5 };
static const uint32_t unwritten = 0x7fc0a5a5; /* a NaN */

/* ---- Make ---- */

static bool is_output(operand_id id) { return id == OP_OUT || id == OP_LSE; }

static void place(problem *p, operand_id id, rapt_dtype dtype, int32_t rank, const int64_t *size,
                  layout l) {
    operand *o = &p->op[id];
    guard_return(&o->memory);
    *o = (operand){true, l, layout_tensor(l, dtype, rank, size), {0}};
    int64_t before = 0, after = 0;
    const int64_t bytes = rapt_dtype_bytes(dtype);
    const int64_t span = layout_reach(&o->t, &before, &after) ? before + after + 1 : 0;
    o->memory = guard_take((size_t)(span * bytes), (size_t)bytes, p->side,
                           is_output(id) ? OUTPUT_GAP : INPUT_GAP);
    o->t.data = o->memory.data + before * bytes;
    for (walk w = walk_begin(&o->t); !w.done && !is_output(id); walk_next(&w)) {
        memset(walk_byte(&w), id == OP_MASK, (size_t)bytes);
    }
}

void problem_layout(problem *p, operand_id id, layout l) {
    const shape s = p->s;
    const int64_t size[OP_COUNT][4] = {[OP_Q] = {s.b, s.hq, s.tq, s.d},
                                       [OP_K] = {s.b, s.hkv, s.tk, s.d},
                                       [OP_V] = {s.b, s.hkv, s.tk, s.dv},
                                       [OP_OUT] = {s.b, s.hq, s.tq, s.dv},
                                       [OP_LSE] = {s.b, s.hq, s.tq, 0}};
    place(p, id, RAPT_F32, id == OP_LSE ? 3 : 4, size[id], l);
}

void problem_init(problem *p, shape s) {
    *p = (problem){.s = s, .threads = 1};
    const operand_id dense[] = {OP_Q, OP_K, OP_V, OP_OUT, OP_LSE};
    for (size_t n = 0; n < sizeof dense / sizeof *dense; n++) {
        problem_layout(p, dense[n], LAYOUT_DENSE);
    }
    harness_current(p);
}

void problem_free(problem *p) {
    for (operand_id id = 0; id < OP_COUNT; id++) problem_drop(p, id);
    guard_return(&p->scratch);
    oracle_free(&p->expected);
    harness_current(NULL);
}

void problem_mask(problem *p, int32_t rank, const int64_t *size, layout l) {
    place(p, OP_MASK, RAPT_BOOL, rank, size, l);
}

void problem_bias(problem *p, int32_t rank, const int64_t *size, layout l) {
    place(p, OP_BIAS, RAPT_F32, rank, size, l);
}

void problem_full_mask(problem *p) {
    problem_mask(p, 4, (int64_t[]){p->s.b, p->s.hq, p->s.tq, p->s.tk}, LAYOUT_DENSE);
}

void problem_full_bias(problem *p) {
    problem_bias(p, 4, (int64_t[]){p->s.b, p->s.hq, p->s.tq, p->s.tk}, LAYOUT_DENSE);
}

void problem_lengths(problem *p, rapt_dtype dtype, int64_t n, const int64_t *lengths) {
    place(p, OP_LENGTHS, dtype, 1, &n, LAYOUT_DENSE);
    for (int64_t b = 0; b < n; b++) {
        void *data = p->op[OP_LENGTHS].t.data;
        if (dtype == RAPT_I64) ((int64_t *)data)[b] = lengths[b];
        if (dtype == RAPT_I32) ((int32_t *)data)[b] = (int32_t)lengths[b];
    }
}

void problem_drop(problem *p, operand_id id) {
    guard_return(&p->op[id].memory);
    p->op[id].present = false;
}

/* ---- Run ---- */

static const rapt_tensor *tensor_of(const problem *p, operand_id id) {
    return p->op[id].present ? &p->op[id].t : NULL;
}

const rapt_tensor *problem_out(const problem *p) { return &p->op[p->in_place ? OP_Q : OP_OUT].t; }

rapt_attention_operands problem_operands(const problem *p) {
    return (rapt_attention_operands){.q = tensor_of(p, OP_Q),
                                     .k = tensor_of(p, OP_K),
                                     .v = tensor_of(p, OP_V),
                                     .mask = tensor_of(p, OP_MASK),
                                     .bias = tensor_of(p, OP_BIAS),
                                     .key_lengths = tensor_of(p, OP_LENGTHS),
                                     .out = problem_out(p),
                                     .lse = tensor_of(p, OP_LSE),
                                     .scratch = p->scratch.data,
                                     .scratch_bytes = p->scratch.bytes};
}

/* Takes caller's scratch as the library asks for it. */
static void take_scratch(problem *p) {
    guard_return(&p->scratch);
    p->scratch = (guard_block){0};
    if (!p->caller_scratch) return;
    rapt_attention_info info = {0};
    const rapt_attention_operands ops = problem_operands(p);
    rapt_attention_forward_info(harness_context(p->threads), &p->what, &ops, &info);
    p->scratch = guard_take((size_t)info.scratch_bytes, 64, GUARD_AFTER, INPUT_GAP);
}

static void seal(problem *p) {
    for (operand_id id = 0; id < OP_COUNT; id++) {
        if (!p->op[id].present) continue;
        for (walk w = walk_begin(&p->op[id].t); is_output(id) && !w.done; walk_next(&w)) {
            memcpy(walk_byte(&w), &unwritten, sizeof unwritten);
        }
        guard_seal(&p->op[id].memory);
    }
    if (p->scratch.data) guard_seal(&p->scratch);
}

static const char *const names[OP_COUNT] = {"q", "k", "v", "mask", "bias", "lengths", "out", "lse"};

static bool intact(const problem *p, bool written, char *why, size_t why_bytes) {
    ptrdiff_t offset = 0;
    for (operand_id id = 0; id < OP_COUNT; id++) {
        const operand *o = &p->op[id];
        if (!o->present) continue;
        const bool own = written && (p->in_place ? id == OP_Q || id == OP_LSE : is_output(id));
        for (walk w = walk_begin(&o->t); own && !w.done; walk_next(&w)) {
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
    rapt_context *context;
    const rapt_attention *what;
    rapt_attention_operands ops;
    rapt_status status;
} call;

static void call_forward(void *arg) {
    call *c = arg;
    c->status = rapt_attention_forward(c->context, c->what, &c->ops);
}

bool problem_call(problem *p, rapt_status *status, char *why, size_t why_bytes) {
    harness_current(p);
    take_scratch(p);
    seal(p);
    call c = {harness_context(p->threads), &p->what, problem_operands(p), RAPT_OK};
    const int number = crash_catch(call_forward, &c, harness_text);
    *status = c.status;
    if (number == 0) return intact(p, c.status == RAPT_OK, why, why_bytes);
    harness_forget_contexts();
    snprintf(why, why_bytes, "crashed with signal %d", number);
    return false;
}

void problem_expect(problem *p) {
    const rapt_attention_operands ops = problem_operands(p);
    oracle_forward(&p->expected, &p->what, &ops);
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
    return compare_oracle(problem_out(p), tensor_of(p, OP_LSE), &p->expected, NULL, why, why_bytes);
}

/* ---- Look ---- */

float *problem_at(const problem *p, operand_id id, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    return tensor_f32(&p->op[id].t, i0, i1, i2, i3);
}
