/* SPDX-License-Identifier: MIT
 * problem.c: making problems (problem.h). */
#include "problem.h"

#include "harness.h"

#include <string.h>

/* Gaps of inputs read as NaN (f32) or true (bool); gaps of outputs have a pattern that no result
 * has. */
enum { INPUT_GAP = 0xff, OUTPUT_GAP = 0xa5 };

/* ---- Make ---- */

bool problem_is_output(operand_id id) { return id >= OP_OUT; }

static bool is_input(const problem *p, operand_id id) {
    return !problem_is_output(id) || (p->call == CALL_PASS && id == OP_WEIGHTS);
}

static void place(problem *p, operand_id id, rapt_dtype dtype, int32_t rank, const int64_t *size,
                  layout l) {
    operand *o = &p->op[id];
    guard_return(&o->memory);
    *o = (operand){true, l, layout_tensor(l, dtype, rank, size), {0}};
    int64_t before = 0, after = 0;
    const int64_t bytes = rapt_dtype_bytes(dtype);
    const int64_t span = layout_reach(&o->t, &before, &after) ? before + after + 1 : 0;
    o->memory = guard_take((size_t)(span * bytes), (size_t)bytes, p->side,
                           problem_is_output(id) ? OUTPUT_GAP : INPUT_GAP);
    o->t.data = o->memory.data + before * bytes;
    for (walk w = walk_begin(&o->t); !w.done && is_input(p, id); walk_next(&w)) {
        memset(walk_byte(&w), id == OP_MASK || id == OP_KEEP, (size_t)bytes);
    }
}

void problem_layout(problem *p, operand_id id, layout l) {
    const shape s = p->s;
    const int64_t size[OP_COUNT][4] = {[OP_Q] = {s.b, s.hq, s.tq, s.d},
                                       [OP_K] = {s.b, s.hkv, s.tk, p->additive ? p->key_dim : s.d},
                                       [OP_V] = {s.b, s.hkv, s.tk, s.dv},
                                       [OP_OUT] = {s.b, s.hq, s.tq, s.dv},
                                       [OP_LSE] = {s.b, s.hq, s.tq, 0},
                                       [OP_WEIGHTS] = {s.b, s.hq, s.tq, s.tk}};
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

void problem_init_pass(problem *p, shape s) {
    *p = (problem){.s = s, .threads = 1, .call = CALL_PASS};
    problem_layout(p, OP_WEIGHTS, LAYOUT_DENSE);
    problem_layout(p, OP_LSE, LAYOUT_DENSE);
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

void problem_keep(problem *p, int32_t rank, const int64_t *size, layout l) {
    place(p, OP_KEEP, RAPT_BOOL, rank, size, l);
}

void problem_additive(problem *p, int64_t units, int64_t key_dim) {
    p->additive = true;
    p->key_dim = key_dim;
    problem_layout(p, OP_K, p->op[OP_K].form);
    place(p, OP_W_QUERY, RAPT_F32, 2, (int64_t[]){units, p->s.d}, LAYOUT_DENSE);
    place(p, OP_W_KEY, RAPT_F32, 2, (int64_t[]){units, key_dim}, LAYOUT_DENSE);
    place(p, OP_W_V, RAPT_F32, 1, &units, LAYOUT_DENSE);
}

void problem_full_mask(problem *p) {
    problem_mask(p, 4, (int64_t[]){p->s.b, p->s.hq, p->s.tq, p->s.tk}, LAYOUT_DENSE);
}

void problem_full_bias(problem *p) {
    problem_bias(p, 4, (int64_t[]){p->s.b, p->s.hq, p->s.tq, p->s.tk}, LAYOUT_DENSE);
}

void problem_full_keep(problem *p) {
    problem_keep(p, 4, (int64_t[]){p->s.b, p->s.hq, p->s.tq, p->s.tk}, LAYOUT_DENSE);
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

/* ---- Look ---- */

const rapt_tensor *problem_out(const problem *p) { return &p->op[p->in_place ? OP_Q : OP_OUT].t; }

float *problem_at(const problem *p, operand_id id, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    return tensor_f32(&p->op[id].t, i0, i1, i2, i3);
}
