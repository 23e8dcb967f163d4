/* SPDX-License-Identifier: MIT
 * module_forward.c: the pass that self, causal, stacked and split attention have in common:
 *
 *   buffer  = x W^T + bias        [b, T, query | key | value features], one product for as many
 *                                 layers as lie one after another in memory
 *   joined  = attention           heads are strided views of the buffer and of what comes out
 *   out     = joined Wo^T + bias  with an output projection; otherwise joined is out itself
 *
 * A round takes b items of the batch, so that buffers stay in cache; no bit depends on b. With a
 * record, the buffers are there and hold the whole batch. */
#include "module.h"

#include "numbers.h"
#include "tensor.h"

typedef struct forward {
    const rapti_pass *pass;
    const rapt_module_call *call;
    rapti_module_shape shape;
    rapt_attention what;
    rapti_activations act;
    int64_t items;            /* batch items of a round */
    rapt_tensor head_weights; /* [items, heads, T, S], for their mean */
    rapt_tensor work;         /* [items, heads, T, S], for the route of masked_after */
    rapti_steps steps;
} forward;

static void lay_out(forward *f, rapti_arena *arena) {
    const rapti_module_shape *s = &f->shape;
    if (!f->act.recorded) { rapti_activations_take(arena, f->pass, s, &f->act); }
    const int64_t size[4] = {f->items, f->pass->heads, s->tokens, s->keys};
    if (s->mean) {
        f->head_weights = rapti_arena_tensor(arena, RAPT_F32, 4, size, RAPTI_ALIGNMENT);
    }
    if (f->pass->route == RAPT_MASK_AFTER_SOFTMAX) {
        f->work = rapti_arena_tensor(arena, RAPT_F32, 4, size, RAPTI_ALIGNMENT);
    }
}

/* The first item of a round in the buffers. */
static int64_t place(const forward *f, int64_t first) { return f->act.recorded ? first : 0; }

/* ---- Projections ---- */

/* `n` items from `first` on: the layers of one input, as few products as their places allow. */
static rapt_status project_source(forward *f, int source, int64_t first, int64_t n) {
    const rapt_tensor x = rapt_tensor_slice(f->shape.source[source], 0, first, n);
    rapti_joint joint = {.pass = f->pass};
    for (int role = source; role < RAPTI_ROLES; role++) {
        if (rapti_module_origin(&f->shape, role) == source) { joint.roles |= 1u << role; }
    }
    rapt_status status = RAPT_OK;
    while (status == RAPT_OK && rapti_joint_next(&joint)) {
        const rapt_tensor columns =
            rapti_joint_columns(&joint, f->act.projected, place(f, first), n);
        status = rapti_linear_step(&f->steps, &joint.layer, &x, &columns);
    }
    return status;
}

/* ---- Attention ---- */

/* What attention puts out: the input of the output projection, or the record's copy of out. */
static rapt_tensor attention_out(const forward *f, int64_t first, int64_t n) {
    if (f->act.recorded || f->pass->out_proj) {
        return rapt_tensor_slice(f->act.joined, 0, place(f, first), n);
    }
    return rapt_tensor_slice(f->shape.out, 0, first, n);
}

static rapt_status attend(forward *f, int64_t first, int64_t n) {
    const int64_t heads = f->pass->heads, at = place(f, first);
    const rapt_module_call *call = f->call;
    const rapt_tensor q = rapti_heads_of(&f->act.projected[RAPTI_QUERY], heads, at, n);
    const rapt_tensor k = rapti_heads_of(&f->act.projected[RAPTI_KEY], heads, at, n);
    const rapt_tensor v = rapti_heads_of(&f->act.projected[RAPTI_VALUE], heads, at, n);
    const rapt_tensor joined = attention_out(f, first, n);
    const rapt_tensor out = rapt_tensor_split_heads(joined, heads);
    rapt_attention_operands operands = {.q = &q, .k = &k, .v = &v, .out = &out};
    rapt_tensor mask, key_lengths, weights, keep, lse;
    if (call->mask) {
        mask = rapti_items_of(call->mask, 4, first, n);
        operands.mask = &mask;
    }
    if (call->key_lengths) {
        key_lengths = rapti_items_of(call->key_lengths, 1, first, n);
        operands.key_lengths = &key_lengths;
    }
    if (f->act.draws) {
        keep = rapti_items_of(&f->act.keep, 4, first, n);
        operands.keep = &keep;
    }
    if (f->act.recorded) {
        lse = rapt_tensor_slice(f->act.lse, 0, at, n);
        operands.lse = &lse;
    }
    if (f->shape.has_weights) {
        weights = f->shape.mean ? rapt_tensor_slice(f->head_weights, 0, 0, n)
                                : rapt_tensor_slice(f->shape.weights, 0, first, n);
        operands.weights = &weights;
    }
    if (f->pass->route != RAPT_MASK_AFTER_SOFTMAX) {
        return rapti_step_attention(&f->steps, &f->what, operands);
    }
    /* a record takes lse from the other route, which gives the same weights */
    rapt_status status = RAPT_OK;
    if (f->act.recorded) {
        rapt_attention_operands recorded = operands;
        recorded.weights = NULL;
        status = rapti_step_attention(&f->steps, &f->what, recorded);
    }
    const rapt_tensor work = rapt_tensor_slice(f->work, 0, 0, n);
    operands.lse = NULL;
    return status == RAPT_OK ? rapti_step_masked_after(&f->steps, &f->what, operands, &work)
                             : status;
}

/* ---- The whole ---- */

static rapt_status put_out(forward *f, int64_t first, int64_t n) {
    const rapt_tensor joined = attention_out(f, first, n);
    const rapt_tensor out = rapt_tensor_slice(f->shape.out, 0, first, n);
    if (f->pass->out_proj) {
        return rapti_linear_step(&f->steps, f->pass->out_proj, &joined, &out);
    }
    if (f->act.recorded && !f->steps.counting) { rapti_tensor_copy(&out, &joined); }
    return RAPT_OK;
}

static rapt_status run_round(forward *f, int64_t first, int64_t n) {
    rapt_status status = RAPT_OK;
    for (int source = 0; source < RAPTI_ROLES && status == RAPT_OK; source++) {
        if (rapti_module_origin(&f->shape, source) == source) {
            status = project_source(f, source, first, n);
        }
    }
    if (status == RAPT_OK) { status = attend(f, first, n); }
    if (status == RAPT_OK && f->shape.mean && !f->steps.counting) {
        const rapt_tensor all = rapt_tensor_slice(f->head_weights, 0, 0, n);
        const rapt_tensor mean = rapt_tensor_slice(f->shape.weights, 0, first, n);
        rapti_mean_over_heads(f->steps.context, &all, &mean);
    }
    return status == RAPT_OK ? put_out(f, first, n) : status;
}

static rapt_status run_rounds(forward *f) {
    const int64_t batch = f->shape.batch;
    rapt_status status = batch == 0 ? run_round(f, 0, 0) : RAPT_OK;
    for (int64_t first = 0; first < batch && status == RAPT_OK; first += f->items) {
        status = run_round(f, first, rapti_min(f->items, batch - first));
    }
    return status;
}

static rapt_status prepare(forward *f, rapt_context *context) {
    const rapti_pass *pass = f->pass;
    const rapt_module_call *call = f->call;
    rapt_status status = rapti_module_ready(context, "module", pass->module, pass->context);
    if (status == RAPT_OK) { status = rapti_module_check(context, pass, call, &f->shape); }
    if (status != RAPT_OK) { return status; }
    f->what = rapti_module_what(pass, call);
    f->items = rapti_module_round(pass, call, &f->shape);
    f->act = (rapti_activations){.items = f->items, .draws = rapti_module_draws(pass, call)};
    if (call->record) { status = rapti_record_open(context, pass, &f->shape, call, &f->act); }
    return status;
}

rapt_status rapti_module_forward(rapt_context *context, const rapti_pass *pass,
                                 const rapt_module_call *call) {
    forward f = {.pass = pass, .call = call, .steps = {.context = context, .counting = 1}};
    rapt_status status = prepare(&f, context);
    if (status != RAPT_OK) { return status; }
    rapti_arena arena = {0};
    lay_out(&f, &arena);
    /* Rounds are counted one by one: key lengths differ, and with them what a round needs. */
    if (!arena.too_large) { status = run_rounds(&f); }
    if (status == RAPT_OK) { status = rapti_steps_begin(&f.steps, &arena); }
    if (status != RAPT_OK) { return status; }
    lay_out(&f, &arena);
    if (f.act.recorded) { *f.act.mark = rapti_record_mark_of(pass, &f.shape, call); }
    if (f.act.draws) {
        status = rapt_generator_keep(context, call->generator, pass->dropout, &f.act.drawn);
    }
    return status == RAPT_OK ? run_rounds(&f) : status;
}
