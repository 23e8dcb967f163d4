/* SPDX-License-Identifier: MIT
 * fill.c: see fill.h. */
#include "fill.h"

#include <math.h>
#include <string.h>

float fill_value(rng *r, fill_kind kind) {
    switch (kind) {
    case FILL_LARGE: return (float)(rng_normal(r) * 17.0);
    case FILL_TINY: return (float)(rng_normal(r) * (rng_chance(r, 20) ? 1e-40 : 1e-20));
    case FILL_EQUAL: return (float)rng_range(r, -1, 1);
    case FILL_MIXED: return (float)(rng_normal(r) * pow(10.0, rng_uniform(r, -3.0, 3.0)));
    case FILL_SPIKE: return rng_chance(r, 4) ? 30.0f : 0.0f;
    default: return (float)rng_normal(r);
    }
}

void fill_random(problem *p, operand_id id, rng *r, fill_kind kind) {
    for (walk w = walk_begin(&p->op[id].t); !w.done; walk_next(&w)) {
        *walk_f32(&w) = fill_value(r, kind);
    }
}

void fill_constant(problem *p, operand_id id, float value) {
    for (walk w = walk_begin(&p->op[id].t); !w.done; walk_next(&w)) *walk_f32(&w) = value;
}

void fill_bools(problem *p, operand_id id, rng *r, int percent) {
    for (walk w = walk_begin(&p->op[id].t); !w.done; walk_next(&w)) {
        *walk_byte(&w) = rng_chance(r, percent) ? (uint8_t)rng_range(r, 1, 255) : 0;
    }
}

void fill_none(problem *p, operand_id id) {
    for (walk w = walk_begin(&p->op[id].t); !w.done; walk_next(&w)) *walk_byte(&w) = 0;
}

void fill_expanded(problem *to, const problem *from, operand_id id) {
    const rapt_tensor *t = &from->op[id].t;
    const int64_t bytes = rapt_dtype_bytes(t->dtype);
    for (walk w = walk_begin(&to->op[id].t); !w.done; walk_next(&w)) {
        const uint8_t *at = t->data;
        for (int32_t axis = 0; axis < t->rank; axis++) {
            if (t->size[axis] != 1) at += w.index[4 - t->rank + axis] * t->stride[axis] * bytes;
        }
        memcpy(walk_byte(&w), at, (size_t)bytes);
    }
}

void fill_identity(problem *p) {
    for (walk w = walk_begin(&p->op[OP_V].t); !w.done; walk_next(&w)) {
        *walk_f32(&w) = w.index[2] == w.index[3] ? 1.0f : 0.0f;
    }
}

void fill_ramp(problem *p) {
    for (walk w = walk_begin(&p->op[OP_V].t); !w.done; walk_next(&w)) {
        *walk_f32(&w) = (float)w.index[2];
    }
}

void fill_normal(problem *p, uint64_t seed) {
    for (operand_id id = OP_Q; id <= OP_V; id++) {
        rng r = rng_make(seed, (uint64_t)id);
        fill_random(p, id, &r, FILL_NORMAL);
    }
}

void fill_copy(problem *to, const problem *from) {
    for (operand_id id = OP_Q; id <= OP_LENGTHS; id++) {
        if (!to->op[id].present || !from->op[id].present) continue;
        const rapt_tensor *a = &to->op[id].t, *b = &from->op[id].t;
        walk wb = walk_begin(b);
        for (walk wa = walk_begin(a); !wa.done; walk_next(&wa), walk_next(&wb)) {
            memcpy(walk_byte(&wa), walk_byte(&wb), (size_t)rapt_dtype_bytes(a->dtype));
        }
    }
}

void fill_keys(problem *p, int64_t begin, int64_t end, float value) {
    for (operand_id id = OP_K; id <= OP_V; id++) {
        const rapt_tensor rows = rapt_tensor_slice(p->op[id].t, 2, begin, end - begin);
        for (walk w = walk_begin(&rows); !w.done; walk_next(&w)) *walk_f32(&w) = value;
    }
}

void mask_set(problem *p, int64_t b, int64_t h, int64_t i, int64_t j, uint8_t value) {
    const rapt_tensor *t = &p->op[OP_MASK].t;
    ((uint8_t *)
         t->data)[b * t->stride[0] + h * t->stride[1] + i * t->stride[2] + j * t->stride[3]] =
        value;
}
