/* SPDX-License-Identifier: MIT
 * backward_call.c: see backward_call.h. */
#include "backward_call.h"

#include "compare.h"
#include "crash.h"
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Gaps of inputs read as NaN; what outputs hold before has a pattern that no result has. */
enum { INPUT_GAP = 0xff, OUTPUT_GAP = 0xa5, SCRATCH_GAP = 0xff };
static const uint32_t unwritten = 0x7fc0a5a5; /* a NaN */

static const char *const names[GRAD_COUNT] = {"dout", "dlse", "dq", "dk", "dv", "dbias"};

static bool is_output(gradient_id id) { return id >= GRAD_DQ; }

/* ---- Make ---- */

static void place(backward_call *c, gradient_id id, int32_t rank, const int64_t *size, layout l) {
    operand *o = &c->op[id];
    int64_t before = 0, after = 0;
    guard_return(&o->memory);
    *o = (operand){true, l, layout_tensor(l, RAPT_F32, rank, size), {0}};
    const int64_t span = layout_reach(&o->t, &before, &after) ? before + after + 1 : 0;
    o->memory = guard_take((size_t)span * sizeof(float), sizeof(float), c->p->side,
                           is_output(id) ? OUTPUT_GAP : INPUT_GAP);
    o->t.data = o->memory.data + before * (int64_t)sizeof(float);
    for (walk w = walk_begin(&o->t); !is_output(id) && !w.done; walk_next(&w)) *walk_f32(&w) = 0;
}

void backward_layout(backward_call *c, gradient_id id, layout l) {
    const shape s = c->p->s;
    const int64_t size[GRAD_DBIAS][4] = {[GRAD_DOUT] = {s.b, s.hq, s.tq, s.dv},
                                         [GRAD_DLSE] = {s.b, s.hq, s.tq, 0},
                                         [GRAD_DQ] = {s.b, s.hq, s.tq, s.d},
                                         [GRAD_DK] = {s.b, s.hkv, s.tk, s.d},
                                         [GRAD_DV] = {s.b, s.hkv, s.tk, s.dv}};
    place(c, id, id == GRAD_DLSE ? 3 : 4, size[id], l);
}

void backward_bias(backward_call *c, int32_t rank, const int64_t *size, layout l) {
    place(c, GRAD_DBIAS, rank, size, l);
}

void backward_init(backward_call *c, problem *p) {
    *c = (backward_call){.p = p, .threads = p->threads};
    expect_run(p);
    backward_layout(c, GRAD_DOUT, LAYOUT_DENSE);
    for (gradient_id id = GRAD_DQ; id <= GRAD_DV; id++) backward_layout(c, id, LAYOUT_DENSE);
}

void backward_drop(backward_call *c, gradient_id id) {
    guard_return(&c->op[id].memory);
    c->op[id].present = false;
}

void backward_free(backward_call *c) {
    for (gradient_id id = 0; id < GRAD_COUNT; id++) backward_drop(c, id);
    guard_return(&c->scratch);
    oracle_gradients_free(&c->expected);
    oracle_gradient_free(&c->expected_bias);
}

void backward_fill(backward_call *c, gradient_id id, rng *r, fill_kind kind) {
    for (walk w = walk_begin(&c->op[id].t); !w.done; walk_next(&w)) {
        *walk_f32(&w) = fill_value(r, kind);
    }
}

void backward_fill_normal(backward_call *c, uint64_t seed) {
    rng r = rng_make(seed, 77);
    backward_fill(c, GRAD_DOUT, &r, FILL_NORMAL);
    if (c->op[GRAD_DLSE].present) backward_fill(c, GRAD_DLSE, &r, FILL_NORMAL);
}

/* ---- Run ---- */

static const rapt_tensor *tensor_of(const backward_call *c, gradient_id id) {
    return c->op[id].present ? &c->op[id].t : NULL;
}

rapt_attention_backward_operands backward_operands(const backward_call *c) {
    const rapt_attention_operands f = problem_operands(c->p);
    return (rapt_attention_backward_operands){.q = f.q,
                                              .k = f.k,
                                              .v = f.v,
                                              .mask = f.mask,
                                              .bias = f.bias,
                                              .key_lengths = f.key_lengths,
                                              .keep = f.keep,
                                              .out = f.out,
                                              .lse = f.lse,
                                              .dout = tensor_of(c, GRAD_DOUT),
                                              .dlse = tensor_of(c, GRAD_DLSE),
                                              .dq = tensor_of(c, GRAD_DQ),
                                              .dk = tensor_of(c, GRAD_DK),
                                              .dv = tensor_of(c, GRAD_DV),
                                              .dbias = tensor_of(c, GRAD_DBIAS),
                                              .accumulate = c->accumulate,
                                              .scratch = c->scratch.data,
                                              .scratch_bytes = c->scratch.bytes};
}

double backward_base(int64_t n) { return 0.25 * (double)(n % 7 - 3); }

static void take_scratch(backward_call *c) {
    guard_return(&c->scratch);
    c->scratch = (guard_block){0};
    if (!c->caller_scratch) return;
    rapt_attention_info info = {0};
    const rapt_attention_backward_operands ops = backward_operands(c);
    rapt_attention_backward_info(harness_context(c->threads), &c->p->what, &ops, &info);
    c->scratch = guard_take((size_t)info.scratch_bytes, 64, GUARD_AFTER, SCRATCH_GAP);
}

static void seal(backward_call *c) {
    for (operand_id id = 0; id < OP_COUNT; id++) {
        if (c->p->op[id].present) guard_seal(&c->p->op[id].memory);
    }
    for (gradient_id id = 0; id < GRAD_COUNT; id++) {
        if (!c->op[id].present) continue;
        int64_t n = 0;
        for (walk w = walk_begin(&c->op[id].t); is_output(id) && !w.done; walk_next(&w)) {
            memcpy(walk_f32(&w), &unwritten, sizeof unwritten);
            if (c->accumulate == 1) *walk_f32(&w) = (float)backward_base(n++);
        }
        guard_seal(&c->op[id].memory);
    }
    if (c->scratch.data) guard_seal(&c->scratch);
}

static bool say(const char *name, ptrdiff_t offset, char *why, size_t why_bytes) {
    snprintf(why, why_bytes, "%s: byte %td must not change", name, offset);
    return false;
}

static bool intact(const backward_call *c, bool written, char *why, size_t why_bytes) {
    ptrdiff_t offset = 0;
    for (operand_id id = 0; id < OP_COUNT; id++) {
        const operand *o = &c->p->op[id];
        if (o->present && !guard_intact(&o->memory, &offset)) {
            return say("operand of the forward call", offset, why, why_bytes);
        }
    }
    for (gradient_id id = 0; id < GRAD_COUNT; id++) {
        const operand *o = &c->op[id];
        if (!o->present) continue;
        for (walk w = walk_begin(&o->t); written && is_output(id) && !w.done; walk_next(&w)) {
            guard_accept(&o->memory, walk_byte(&w), sizeof(float));
        }
        if (!guard_intact(&o->memory, &offset)) return say(names[id], offset, why, why_bytes);
    }
    if (!c->scratch.data) return true;
    guard_accept(&c->scratch, c->scratch.data, c->scratch.bytes);
    return guard_intact(&c->scratch, &offset) || say("scratch", offset, why, why_bytes);
}

typedef struct call {
    const backward_call *c;
    rapt_context *context;
    rapt_status status;
} call;

static void run(void *arg) {
    call *x = arg;
    const rapt_attention_backward_operands ops = backward_operands(x->c);
    x->status = rapt_attention_backward(x->context, &x->c->p->what, &ops);
}

bool backward_run(backward_call *c, rapt_status *status, char *why, size_t why_bytes) {
    take_scratch(c);
    seal(c);
    call x = {c, harness_context(c->threads), RAPT_OK};
    const int signal = crash_catch(run, &x, harness_text);
    if (signal) {
        harness_forget_contexts();
        snprintf(why, why_bytes, "crashed with signal %d", signal);
        return false;
    }
    *status = x.status;
    return intact(c, x.status == RAPT_OK, why, why_bytes);
}

/* What an output held before is one more term of its sum, in which each cell's part is rounded. */
static void add_base(oracle_gradient *g) {
    enum { MOST_CELLS = 64 };
    for (int64_t n = 0; n < g->count; n++) {
        g->value[n] += backward_base(n);
        g->tol[n] += MOST_CELLS * ORACLE_U * fabs(backward_base(n));
    }
}

void backward_expect(backward_call *c) {
    const rapt_attention_operands ops = problem_operands(c->p);
    oracle_backward(&c->expected, &c->p->what, &ops, tensor_of(c, GRAD_DOUT),
                    tensor_of(c, GRAD_DLSE));
    if (c->op[GRAD_DBIAS].present) {
        oracle_reduce_bias(&c->expected, &ops, &c->op[GRAD_DBIAS].t, &c->expected_bias);
    }
    if (c->accumulate) {
        add_base(&c->expected.dq);
        add_base(&c->expected.dk);
        add_base(&c->expected.dv);
        add_base(&c->expected_bias);
    }
}

bool backward_compare(const backward_call *c, char *why, size_t why_bytes) {
    const oracle_gradient *want[GRAD_COUNT] = {[GRAD_DQ] = &c->expected.dq,
                                               [GRAD_DK] = &c->expected.dk,
                                               [GRAD_DV] = &c->expected.dv,
                                               [GRAD_DBIAS] = &c->expected_bias};
    for (gradient_id id = GRAD_DQ; id < GRAD_COUNT; id++) {
        if (c->op[id].present && !compare_array(names[id], &c->op[id].t, want[id]->value,
                                                want[id]->tol, NULL, why, why_bytes)) {
            return false;
        }
    }
    return true;
}

/* ---- Expectations ---- */

static char why[512];

void expect_backward_run(backward_call *c) {
    rapt_status status = RAPT_OK;
    REQUIRE(backward_run(c, &status, why, sizeof why), "%s", why);
    REQUIRE(status == RAPT_OK, "%s: %s", rapt_status_name(status),
            rapt_context_message(harness_context(c->threads)));
}

void expect_backward(backward_call *c) {
    backward_expect(c);
    expect_backward_run(c);
    REQUIRE(backward_compare(c, why, sizeof why), "%s", why);
}

void expect_same_gradients(const backward_call *a, const backward_call *b) {
    for (gradient_id id = GRAD_DQ; id < GRAD_COUNT; id++) {
        if (!a->op[id].present || !b->op[id].present) continue;
        REQUIRE(compare_bits(&a->op[id].t, &b->op[id].t, why, sizeof why), "%s: %s", names[id],
                why);
    }
}

float *backward_at(const backward_call *c, gradient_id id, int64_t i0, int64_t i1, int64_t i2,
                   int64_t i3) {
    return tensor_f32(&c->op[id].t, i0, i1, i2, i3);
}

void expect_gradient_row(const backward_call *c, gradient_id id, int64_t b, int64_t h, int64_t i,
                         float value) {
    for (int64_t d = 0; d < c->op[id].t.size[3]; d++) {
        const float got = *backward_at(c, id, b, h, i, d);
        REQUIRE(got == value, "%s[%lld,%lld,%lld,%lld] = %.9g, want %.9g", names[id], (long long)b,
                (long long)h, (long long)i, (long long)d, (double)got, (double)value);
    }
}
