/* SPDX-License-Identifier: MIT
 * module_forward.c: the pass that self, causal, stacked and split attention have in common:
 *
 *   buffer  = x W^T + bias        [b, T, query | key | value features], one product for as many
 *                                 layers as lie one after another in memory
 *   joined  = attention           heads are strided views of the buffer and of what comes out
 *   out     = joined Wo^T + bias  with an output projection; otherwise joined is out itself
 *
 * A round takes b items of the batch, so that buffers stay in cache; no bit depends on b. */
#include "module.h"

#include "tensor.h"

enum {
    LINE = RAPTI_ALIGNMENT / (int)sizeof(float), /* floats of a cache line */
    ROUND_TOKENS = 1024                          /* of the longer sequence, about */
};

typedef struct forward {
    const rapti_pass *pass;
    const rapt_module_call *call;
    rapti_module_shape shape;
    rapt_attention what;
    int64_t items;                      /* batch items of a round */
    rapt_tensor projected[RAPTI_ROLES]; /* [items, rows, features of a role] */
    rapt_tensor joined;                 /* [items, T, features]; without output projection unused */
    rapt_tensor head_weights;           /* [items, heads, T, S], for their mean */
    rapt_tensor work;                   /* [items, heads, T, S], for the route of masked_after */
    rapt_tensor keep;                   /* [B, heads, T, S] */
    rapt_tensor drawn;                  /* the same memory in the order of PyTorch's draws */
    rapti_steps steps;
} forward;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- Buffers ---- */

/* The first role whose input is the same as that of `role`: they share a buffer. */
static int origin(const forward *f, int role) {
    int first = 0;
    while (!rapti_tensors_equal(&f->shape.source[first], &f->shape.source[role])) { first++; }
    return first;
}

/* One buffer for each different input. Rows are an odd number of cache lines apart: neighbours
 * would compete for the same sets of the caches otherwise. */
static void lay_out_projections(forward *f, rapti_arena *arena) {
    const int64_t width = f->pass->parts * f->pass->part_width;
    for (int first = 0; first < RAPTI_ROLES; first++) {
        int64_t columns = 0;
        for (int role = first; role < RAPTI_ROLES; role++) {
            if (origin(f, role) == first) { columns += width; }
        }
        if (columns == 0) { continue; }
        const int64_t row = ((columns + LINE - 1) / LINE | 1) * LINE;
        const int64_t size[3] = {f->items, f->shape.source[first].size[1], row};
        const rapt_tensor buffer = rapti_arena_tensor(arena, RAPT_F32, 3, size, RAPTI_ALIGNMENT);
        int64_t column = 0;
        for (int role = first; role < RAPTI_ROLES; role++) {
            if (origin(f, role) != first) { continue; }
            f->projected[role] = rapt_tensor_slice(buffer, 2, column, width);
            column += width;
        }
    }
}

/* nn.Dropout draws for one head after the other if heads are modules of their own (parts > 1), each
 * [B, T, S]; else for [B, heads, T, S]. */
static void lay_out_keep(forward *f, rapti_arena *arena) {
    const rapti_module_shape *s = &f->shape;
    const int64_t parts = f->pass->parts, heads = f->pass->heads / parts;
    const int64_t size[5] = {parts, s->batch, heads, s->tokens, s->keys};
    f->drawn = rapti_arena_tensor(arena, RAPT_BOOL, 5, size, RAPTI_ALIGNMENT);
    f->keep = rapt_tensor_slice(f->drawn, 0, 0, 1);
    f->keep.rank = 4;
    for (int32_t axis = 0; axis < 4; axis++) {
        f->keep.size[axis] = f->drawn.size[axis + 1];
        f->keep.stride[axis] = f->drawn.stride[axis + 1];
    }
    if (parts > 1) {
        f->keep.size[1] = parts;
        f->keep.stride[1] = f->drawn.stride[0];
    }
}

static int draws(const forward *f) {
    const rapt_dropout *dropout = &f->what.dropout;
    return f->call->generator && dropout->training && dropout->p > 0.0 && dropout->p < 1.0;
}

static void lay_out(forward *f, rapti_arena *arena) {
    const rapti_module_shape *s = &f->shape;
    lay_out_projections(f, arena);
    if (f->pass->out_proj) {
        const int64_t size[3] = {f->items, s->tokens, s->out.size[2]};
        f->joined = rapti_arena_tensor(arena, RAPT_F32, 3, size, RAPTI_ALIGNMENT);
    }
    const int64_t size[4] = {f->items, f->pass->heads, s->tokens, s->keys};
    if (s->mean) {
        f->head_weights = rapti_arena_tensor(arena, RAPT_F32, 4, size, RAPTI_ALIGNMENT);
    }
    if (f->pass->route == RAPT_MASK_AFTER_SOFTMAX) {
        f->work = rapti_arena_tensor(arena, RAPT_F32, 4, size, RAPTI_ALIGNMENT);
    }
    if (draws(f)) { lay_out_keep(f, arena); }
}

/* ---- Projections ---- */

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

/* 1 if b's parameters follow a's in memory, so that both are one larger layer. */
static int follows(const rapt_linear *a, const rapt_linear *b) {
    if (a->weight.size[1] != b->weight.size[1] || !adjacent(&a->weight, &b->weight)) { return 0; }
    if (!a->bias.data || !b->bias.data) { return !a->bias.data && !b->bias.data; }
    return adjacent(&a->bias, &b->bias);
}

/* `n` items from `first` on: the layers of one input, as few products as their places allow. */
static rapt_status project_source(forward *f, int source, int64_t first, int64_t n) {
    const rapti_pass *pass = f->pass;
    const rapt_tensor x = rapt_tensor_slice(f->shape.source[source], 0, first, n);
    rapt_tensor columns = rapt_tensor_slice(f->projected[source], 0, 0, n);
    columns.size[2] = 0; /* the columns that `joint` fills */
    rapt_linear joint = {0};
    for (int64_t k = 0; k < RAPTI_ROLES * pass->parts; k++) {
        const rapti_role role = (rapti_role)(k / pass->parts);
        if (origin(f, (int)role) != source) { continue; }
        const rapt_linear layer = pass->layer(pass->module, role, k % pass->parts);
        if (columns.size[2] > 0 && follows(&joint, &layer)) {
            joint.weight.size[0] += layer.weight.size[0];
            joint.bias.size[0] += layer.bias.size[0];
        } else {
            if (columns.size[2] > 0) {
                const rapt_status status = rapti_linear_step(&f->steps, &joint, &x, &columns);
                if (status != RAPT_OK) { return status; }
            }
            columns = rapt_tensor_slice(columns, 2, columns.size[2], 0);
            joint = layer;
        }
        columns.size[2] += pass->part_width;
    }
    return rapti_linear_step(&f->steps, &joint, &x, &columns);
}

/* ---- Attention ---- */

/* Items of a tensor whose first of `rank` axes is the batch; one entry for all stays as it is. */
static rapt_tensor items_of(const rapt_tensor *t, int32_t rank, int64_t first, int64_t n) {
    if (t->rank < rank || t->size[0] <= 1) { return *t; }
    return rapt_tensor_slice(*t, 0, first, n);
}

static rapt_tensor heads_of(const rapt_tensor *t, int64_t heads, int64_t first, int64_t n) {
    return rapt_tensor_split_heads(rapt_tensor_slice(*t, 0, first, n), heads);
}

static rapt_status attend(forward *f, int64_t first, int64_t n) {
    const int64_t heads = f->pass->heads;
    const rapt_module_call *call = f->call;
    const rapt_tensor q = heads_of(&f->projected[RAPTI_QUERY], heads, 0, n);
    const rapt_tensor k = heads_of(&f->projected[RAPTI_KEY], heads, 0, n);
    const rapt_tensor v = heads_of(&f->projected[RAPTI_VALUE], heads, 0, n);
    const rapt_tensor out = f->pass->out_proj ? heads_of(&f->joined, heads, 0, n)
                                              : heads_of(&f->shape.out, heads, first, n);
    rapt_attention_operands operands = {.q = &q, .k = &k, .v = &v, .out = &out};
    rapt_tensor mask, key_lengths, weights, keep;
    if (call->mask) {
        mask = items_of(call->mask, 4, first, n);
        operands.mask = &mask;
    }
    if (call->key_lengths) {
        key_lengths = items_of(call->key_lengths, 1, first, n);
        operands.key_lengths = &key_lengths;
    }
    if (f->shape.has_weights) {
        weights = f->shape.mean ? rapt_tensor_slice(f->head_weights, 0, 0, n)
                                : rapt_tensor_slice(f->shape.weights, 0, first, n);
        operands.weights = &weights;
    }
    if (draws(f)) {
        keep = items_of(&f->keep, 4, first, n);
        operands.keep = &keep;
    }
    if (f->pass->route == RAPT_MASK_AFTER_SOFTMAX) {
        const rapt_tensor work = rapt_tensor_slice(f->work, 0, 0, n);
        return rapti_step_masked_after(&f->steps, &f->what, operands, &work);
    }
    return rapti_step_attention(&f->steps, &f->what, operands);
}

/* ---- The whole ---- */

static rapt_status run_round(forward *f, int64_t first, int64_t n) {
    rapt_status status = RAPT_OK;
    for (int source = 0; source < RAPTI_ROLES && status == RAPT_OK; source++) {
        if (origin(f, source) == source) { status = project_source(f, source, first, n); }
    }
    if (status == RAPT_OK) { status = attend(f, first, n); }
    if (status == RAPT_OK && f->shape.mean && !f->steps.counting) {
        const rapt_tensor all = rapt_tensor_slice(f->head_weights, 0, 0, n);
        const rapt_tensor mean = rapt_tensor_slice(f->shape.weights, 0, first, n);
        rapti_mean_over_heads(f->steps.context, &all, &mean);
    }
    if (status == RAPT_OK && f->pass->out_proj) {
        const rapt_tensor joined = rapt_tensor_slice(f->joined, 0, 0, n);
        const rapt_tensor out = rapt_tensor_slice(f->shape.out, 0, first, n);
        status = rapti_linear_step(&f->steps, f->pass->out_proj, &joined, &out);
    }
    return status;
}

static rapt_status run_rounds(forward *f) {
    const int64_t batch = f->shape.batch;
    rapt_status status = batch == 0 ? run_round(f, 0, 0) : RAPT_OK;
    for (int64_t first = 0; first < batch && status == RAPT_OK; first += f->items) {
        status = run_round(f, first, least(f->items, batch - first));
    }
    return status;
}

/* Philox counts items from the first of the call, so all of them must be in one round then. */
static int64_t choose_items(const forward *f) {
    const rapti_module_shape *s = &f->shape;
    const rapt_dropout *dropout = &f->what.dropout;
    if (dropout->training && dropout->p > 0.0 && !f->call->generator) { return s->batch; }
    const int64_t longer = s->keys > s->tokens ? s->keys : s->tokens;
    const int64_t items = longer < ROUND_TOKENS ? ROUND_TOKENS / (longer > 0 ? longer : 1) : 1;
    return least(items, s->batch);
}

rapt_status rapti_module_forward(rapt_context *context, const rapti_pass *pass,
                                 const rapt_module_call *call) {
    forward f = {.pass = pass, .call = call, .steps = {.context = context, .counting = 1}};
    rapt_status status = rapti_module_check(context, pass, call, &f.shape);
    if (status != RAPT_OK) { return status; }
    f.what = (rapt_attention){.causal = pass->causal,
                              .dropout = {call->training, pass->dropout, call->seed, call->offset},
                              .weights_before_dropout = 1};
    f.items = choose_items(&f);
    rapti_arena arena = {0};
    lay_out(&f, &arena);
    /* Rounds are counted one by one: key lengths differ, and with them what a round needs. */
    if (!arena.too_large) { status = run_rounds(&f); }
    if (status == RAPT_OK) { status = rapti_steps_begin(&f.steps, &arena); }
    if (status != RAPT_OK) { return status; }
    lay_out(&f, &arena);
    if (draws(&f)) {
        status = rapt_generator_keep(context, call->generator, pass->dropout, &f.drawn);
    }
    return status == RAPT_OK ? run_rounds(&f) : status;
}
