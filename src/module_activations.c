/* SPDX-License-Identifier: MIT
 * module_activations.c: what a pass computes between its input and its output: where it lies in a
 * record or in scratch memory, and which layers are one product. */
#include "module.h"

#include "numbers.h"
#include "tensor.h"

/* The first role whose input is the same as that of `role`: they share a buffer. */
int rapti_module_origin(const rapti_module_shape *shape, int role) {
    int first = 0;
    while (!rapti_tensors_equal(&shape->source[first], &shape->source[role])) { first++; }
    return first;
}

/* One buffer for each different input. */
void rapti_projected_take(rapti_arena *arena, const rapti_pass *pass,
                          const rapti_module_shape *shape, int64_t items,
                          rapt_tensor projected[RAPTI_ROLES]) {
    const int64_t width = pass->parts * pass->part_width;
    for (int first = 0; first < RAPTI_ROLES; first++) {
        int64_t columns = 0;
        for (int role = first; role < RAPTI_ROLES; role++) {
            if (rapti_module_origin(shape, role) == first) { columns += width; }
        }
        if (columns == 0) { continue; }
        const int64_t row = rapti_odd_lines(columns);
        const int64_t size[3] = {items, shape->source[first].size[1], row};
        const rapt_tensor buffer = rapti_arena_tensor(arena, RAPT_F32, 3, size, RAPTI_ALIGNMENT);
        int64_t column = 0;
        for (int role = first; role < RAPTI_ROLES; role++) {
            if (rapti_module_origin(shape, role) != first) { continue; }
            projected[role] = rapt_tensor_slice(buffer, 2, column, width);
            column += width;
        }
    }
}

/* nn.Dropout draws for one head after the other if heads are modules of their own (parts > 1), each
 * [B, T, S]; else for [B, heads, T, S]. */
static void take_keep(rapti_arena *arena, const rapti_pass *pass, const rapti_module_shape *s,
                      rapti_activations *a) {
    const int64_t parts = pass->parts, heads = pass->heads / parts;
    const int64_t size[5] = {parts, s->batch, heads, s->tokens, s->keys};
    a->drawn = rapti_arena_tensor(arena, RAPT_BOOL, 5, size, RAPTI_ALIGNMENT);
    a->keep = rapt_tensor_slice(a->drawn, 0, 0, 1);
    a->keep.rank = 4;
    for (int32_t axis = 0; axis < 4; axis++) {
        a->keep.size[axis] = a->drawn.size[axis + 1];
        a->keep.stride[axis] = a->drawn.stride[axis + 1];
    }
    if (parts > 1) {
        a->keep.size[1] = parts;
        a->keep.stride[1] = a->drawn.stride[0];
    }
}

void rapti_activations_take(rapti_arena *arena, const rapti_pass *pass,
                            const rapti_module_shape *shape, rapti_activations *a) {
    if (a->recorded) { a->mark = rapti_arena_bytes(arena, sizeof *a->mark, RAPTI_ALIGNMENT); }
    rapti_projected_take(arena, pass, shape, a->items, a->projected);
    if (a->recorded || pass->out_proj) {
        const int64_t size[3] = {a->items, shape->tokens, pass->parts * pass->part_width};
        a->joined = rapti_arena_tensor(arena, RAPT_F32, 3, size, RAPTI_ALIGNMENT);
    }
    if (a->recorded) {
        const int64_t size[3] = {a->items, pass->heads, shape->tokens};
        a->lse = rapti_arena_tensor(arena, RAPT_F32, 3, size, RAPTI_ALIGNMENT);
    }
    if (a->draws) { take_keep(arena, pass, shape, a); }
}

/* ---- Layers that are one larger layer ---- */

static int contiguous(const rapt_tensor *t) {
    int64_t stride = 1;
    for (int32_t axis = t->rank - 1; axis >= 0; axis--) {
        if (t->stride[axis] != stride) { return 0; }
        stride *= t->size[axis];
    }
    return 1;
}

static int adjacent(const rapt_tensor *a, const rapt_tensor *b) {
    int64_t bytes = (int64_t)sizeof(float);
    for (int32_t axis = 0; axis < a->rank; axis++) { bytes *= a->size[axis]; }
    return contiguous(a) && contiguous(b) &&
           (uintptr_t)b->data == (uintptr_t)a->data + (uintptr_t)bytes;
}

/* 1 if b's parameters follow a's in memory. */
static int follows(const rapt_linear *a, const rapt_linear *b) {
    if (a->weight.size[1] != b->weight.size[1] || !adjacent(&a->weight, &b->weight)) { return 0; }
    if (!a->bias.data || !b->bias.data) { return !a->bias.data && !b->bias.data; }
    return adjacent(&a->bias, &b->bias);
}

static void extend(rapt_linear *joint, const rapt_linear *layer) {
    joint->weight.size[0] += layer->weight.size[0];
    joint->bias.size[0] += layer->bias.size[0];
}

int rapti_joint_next(rapti_joint *j) {
    const rapti_pass *pass = j->pass, *twin = j->twin;
    j->features = 0;
    for (; j->next < RAPTI_ROLES * pass->parts; j->next++) {
        const int64_t part = j->next % pass->parts;
        const rapti_role role = (rapti_role)(j->next / pass->parts);
        if (!(j->roles >> role & 1)) { continue; }
        const rapt_linear layer = rapti_pass_layer(pass, j->next);
        const rapt_linear other = twin ? rapti_pass_layer(twin, j->next) : layer;
        if (j->features == 0) {
            j->layer = layer;
            j->twin_layer = other;
            j->role = role;
            j->column = part * pass->part_width;
        } else if (follows(&j->layer, &layer) && follows(&j->twin_layer, &other)) {
            extend(&j->layer, &layer);
            extend(&j->twin_layer, &other);
        } else {
            break;
        }
        j->features += pass->part_width;
    }
    return j->features > 0;
}

rapt_tensor rapti_joint_columns(const rapti_joint *j, const rapt_tensor projected[RAPTI_ROLES],
                                int64_t first, int64_t n) {
    rapt_tensor columns = rapt_tensor_slice(projected[j->role], 0, first, n);
    return rapt_tensor_slice(columns, 2, j->column, j->features);
}

/* ---- Views ---- */

rapt_tensor rapti_items_of(const rapt_tensor *t, int32_t rank, int64_t first, int64_t n) {
    if (t->rank < rank || t->size[0] <= 1) { return *t; }
    return rapt_tensor_slice(*t, 0, first, n);
}

rapt_tensor rapti_heads_of(const rapt_tensor *t, int64_t heads, int64_t first, int64_t n) {
    return rapt_tensor_split_heads(rapt_tensor_slice(*t, 0, first, n), heads);
}

/* Philox counts items from the first of the call, so all of them must be in one round then. */
int64_t rapti_module_round(const rapti_pass *pass, const rapt_module_call *call,
                           const rapti_module_shape *s) {
    enum { ROUND_TOKENS = 1024 }; /* of the longer sequence, about */
    if (call->training && pass->dropout > 0.0 && !call->generator) { return s->batch; }
    const int64_t longer = rapti_max(s->keys, s->tokens);
    return rapti_min(rapti_max(ROUND_TOKENS / rapti_max(longer, 1), 1), s->batch);
}

int rapti_module_draws(const rapti_pass *pass, const rapt_module_call *call) {
    return call->generator && call->training && pass->dropout > 0.0 && pass->dropout < 1.0;
}

rapt_attention rapti_module_what(const rapti_pass *pass, const rapt_module_call *call) {
    return (rapt_attention){.causal = pass->causal,
                            .dropout = {call->training, pass->dropout, call->seed, call->offset},
                            .weights_before_dropout = 1};
}
