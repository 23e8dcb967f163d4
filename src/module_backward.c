/* SPDX-License-Identifier: MIT
 * module_backward.c: the gradients of the pass that modules have in common (module_forward.c), from
 * what its record holds:
 *
 *   djoined = dout Wo               dWo += dout^T joined     with an output projection
 *   dbuffer = attention backward    of q, k, v heads, strided views
 *   dsource = dbuffer W             dW += dbuffer^T source   a product for each joint of layers
 *
 * Rounds are those of forward. Parameter gradients add up over rounds, in their order. */
#include "module.h"

#include "numbers.h"
#include "operand.h"

typedef struct backward {
    const rapti_pass *pass, *twin; /* twin: where parameter gradients go, null = nowhere */
    const rapt_module_call *call;
    const rapt_module_backward *given;
    rapti_module_shape shape;
    rapt_attention what;
    rapti_activations act;            /* in the record */
    int64_t items;                    /* batch items of a round */
    rapt_tensor dout;                 /* [B, T, features] */
    int operand[RAPTI_ROLES];         /* which input a role takes: x, key_source, value_source */
    rapt_tensor dinput[RAPTI_ROLES];  /* gradients of these, [B, rows, features] */
    int wanted[RAPTI_ROLES];          /* which of them are asked for */
    rapt_tensor dbuffer[RAPTI_ROLES]; /* [items, rows, features of a role] */
    rapt_tensor djoined;              /* [items, T, features]; with output projection */
    rapti_steps steps;
} backward;

/* ---- Checks ---- */

/* One gradient of a parameter shares no element with the module, nor with what the call reads or
 * writes; of the other gradients, with its bias or weight (checked below). */
static rapt_status check_gradient(rapt_context *context, const backward *b, const char *name,
                                  const rapt_tensor *gradient, const rapt_tensor *parameter) {
    const rapt_module_backward *g = b->given;
    const struct {
        const char *name;
        const rapt_tensor *tensor;
    } other[] = {{"dout", g->dout},
                 {"dx", g->dx},
                 {"dkey_source", g->dkey_source},
                 {"dvalue_source", g->dvalue_source}};
    rapt_status status =
        rapti_operand_sizes(context, name, gradient, parameter->rank, parameter->size);
    if (status == RAPT_OK) {
        status = rapti_module_check_written(context, b->pass, b->call, name, gradient);
    }
    for (size_t i = 0; i < sizeof other / sizeof other[0] && status == RAPT_OK; i++) {
        if (!other[i].tensor) { continue; }
        status = rapti_operand_apart(context, name, gradient, other[i].name, other[i].tensor);
    }
    return status;
}

static rapt_status check_gradient_layer(rapt_context *context, const backward *b,
                                        const rapt_linear *layer, const rapt_linear *gradient) {
    if (!layer->bias.data != !gradient->bias.data) {
        return rapti_fail(context, RAPT_ERR_SHAPE, "gradients: only the %s has a bias",
                          layer->bias.data ? "module" : "gradient");
    }
    rapt_status status =
        check_gradient(context, b, "gradients, a weight", &gradient->weight, &layer->weight);
    if (status != RAPT_OK || !layer->bias.data) { return status; }
    status = check_gradient(context, b, "gradients, a bias", &gradient->bias, &layer->bias);
    if (status != RAPT_OK) { return status; }
    return rapti_operand_apart(context, "gradients, a bias", &gradient->bias, "its weight",
                               &gradient->weight);
}

static rapt_status check_twin(rapt_context *context, const backward *b) {
    const rapti_pass *pass = b->pass, *twin = b->twin;
    if (!twin) { return RAPT_OK; }
    if (twin->parts != pass->parts || !twin->out_proj != !pass->out_proj) {
        return rapti_fail(context, RAPT_ERR_SHAPE,
                          "gradients: a module of another configuration (%lld heads, not %lld)",
                          (long long)twin->heads, (long long)pass->heads);
    }
    for (int64_t n = 0; n < RAPTI_ROLES * pass->parts; n++) {
        const rapt_linear layer = rapti_pass_layer(pass, n), gradient = rapti_pass_layer(twin, n);
        const rapt_status status = check_gradient_layer(context, b, &layer, &gradient);
        if (status != RAPT_OK) { return status; }
    }
    return pass->out_proj ? check_gradient_layer(context, b, pass->out_proj, twin->out_proj)
                          : RAPT_OK;
}

/* One gradient of an input, which must be an input of the call. */
static rapt_status check_input_gradient(rapt_context *context, backward *b, int role,
                                        const char *name, const rapt_tensor *t) {
    if (!t) { return RAPT_OK; }
    if (b->operand[role] != role) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "%s: the call has no such input", name);
    }
    rapt_status status = rapti_sequence_check(context, name, t, b->call->x->rank,
                                              b->shape.source[role].size, &b->dinput[role]);
    if (status == RAPT_OK) {
        status = rapti_module_check_written(context, b->pass, b->call, name, t);
    }
    if (status == RAPT_OK) {
        status = rapti_operand_apart(context, name, t, "dout", b->given->dout);
    }
    b->wanted[role] = 1;
    return status;
}

static rapt_status check_input_gradients(rapt_context *context, backward *b) {
    const rapt_module_backward *g = b->given;
    const struct {
        const char *name;
        const rapt_tensor *tensor;
    } input[RAPTI_ROLES] = {
        {"dx", g->dx}, {"dkey_source", g->dkey_source}, {"dvalue_source", g->dvalue_source}};
    rapt_status status = RAPT_OK;
    for (int role = 0; role < RAPTI_ROLES && status == RAPT_OK; role++) {
        status = check_input_gradient(context, b, role, input[role].name, input[role].tensor);
        for (int other = 0; other < role && status == RAPT_OK; other++) {
            if (!input[role].tensor || !input[other].tensor) { continue; }
            status = rapti_operand_apart(context, input[role].name, input[role].tensor,
                                         input[other].name, input[other].tensor);
        }
    }
    return status;
}

static rapt_status check(rapt_context *context, backward *b) {
    const rapti_pass *pass = b->pass, *twin = b->twin;
    const rapt_module_call *call = b->call;
    rapt_status status = rapti_module_ready(context, "module", pass->module, pass->context);
    if (status == RAPT_OK && twin) {
        status = rapti_module_ready(context, "gradients", twin->module, twin->context);
    }
    if (status == RAPT_OK) { status = rapti_module_check_inputs(context, pass, call, &b->shape); }
    if (status != RAPT_OK) { return status; }
    if (!b->given) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "backward: null pointer"); }
    if (!call->record) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "record: null pointer"); }
    const int64_t size[3] = {b->shape.batch, b->shape.tokens, pass->parts * pass->part_width};
    status = rapti_flag_check(context, "accumulate", b->given->accumulate);
    if (status == RAPT_OK) {
        status =
            rapti_sequence_check(context, "dout", b->given->dout, call->x->rank, size, &b->dout);
    }
    b->operand[RAPTI_KEY] = call->key_source ? RAPTI_KEY : RAPTI_QUERY;
    b->operand[RAPTI_VALUE] = call->value_source ? RAPTI_VALUE : b->operand[RAPTI_KEY];
    if (status == RAPT_OK) { status = check_input_gradients(context, b); }
    if (status == RAPT_OK) { status = check_twin(context, b); }
    if (status != RAPT_OK) { return status; }
    status = rapti_record_open(context, pass, &b->shape, call, &b->act);
    const rapti_record_mark mark = rapti_record_mark_of(pass, &b->shape, call);
    return status == RAPT_OK ? rapti_record_check(context, b->act.mark, &mark) : status;
}

static void lay_out(backward *b, rapti_arena *arena) {
    rapti_projected_take(arena, b->pass, &b->shape, b->items, b->dbuffer);
    if (b->pass->out_proj) {
        const int64_t size[3] = {b->items, b->shape.tokens, b->dout.size[2]};
        b->djoined = rapti_arena_tensor(arena, RAPT_F32, 3, size, RAPTI_ALIGNMENT);
    }
}

/* ---- Steps ---- */

static rapt_status backward_through_projection(backward *b, int64_t first, int64_t n) {
    if (!b->pass->out_proj) { return RAPT_OK; }
    const rapt_tensor joined = rapt_tensor_slice(b->act.joined, 0, first, n);
    const rapt_tensor dout = rapt_tensor_slice(b->dout, 0, first, n);
    const rapt_tensor djoined = rapt_tensor_slice(b->djoined, 0, 0, n);
    return rapti_linear_backward_step(&b->steps, b->pass->out_proj, &joined, &dout, &djoined, 0,
                                      b->twin ? b->twin->out_proj : NULL);
}

static rapt_status backward_through_attention(backward *b, int64_t first, int64_t n) {
    const int64_t heads = b->pass->heads;
    const rapt_module_call *call = b->call;
    rapt_tensor in[RAPTI_ROLES], gradient[RAPTI_ROLES];
    const rapt_tensor *wanted[RAPTI_ROLES] = {0};
    for (int role = 0; role < RAPTI_ROLES; role++) {
        in[role] = rapti_heads_of(&b->act.projected[role], heads, first, n);
        gradient[role] = rapti_heads_of(&b->dbuffer[role], heads, 0, n);
        if (b->twin || b->wanted[b->operand[role]]) { wanted[role] = &gradient[role]; }
    }
    const rapt_tensor out = rapti_heads_of(&b->act.joined, heads, first, n);
    const rapt_tensor lse = rapt_tensor_slice(b->act.lse, 0, first, n);
    const rapt_tensor dout = b->pass->out_proj ? rapti_heads_of(&b->djoined, heads, 0, n)
                                               : rapti_heads_of(&b->dout, heads, first, n);
    rapt_attention_backward_operands operands = {.q = &in[RAPTI_QUERY],
                                                 .k = &in[RAPTI_KEY],
                                                 .v = &in[RAPTI_VALUE],
                                                 .out = &out,
                                                 .lse = &lse,
                                                 .dout = &dout,
                                                 .dq = wanted[RAPTI_QUERY],
                                                 .dk = wanted[RAPTI_KEY],
                                                 .dv = wanted[RAPTI_VALUE]};
    rapt_tensor mask, key_lengths, keep;
    if (call->mask) {
        mask = rapti_items_of(call->mask, 4, first, n);
        operands.mask = &mask;
    }
    if (call->key_lengths) {
        key_lengths = rapti_items_of(call->key_lengths, 1, first, n);
        operands.key_lengths = &key_lengths;
    }
    if (b->act.draws) {
        keep = rapti_items_of(&b->act.keep, 4, first, n);
        operands.keep = &keep;
    }
    return rapti_step_attention_backward(&b->steps, &b->what, operands);
}

/* The layers that take one of the inputs; the input's gradient is the sum over them. */
static rapt_status backward_through_layers(backward *b, int input, int64_t first, int64_t n) {
    rapti_joint joint = {.pass = b->pass, .twin = b->twin};
    for (int role = 0; role < RAPTI_ROLES; role++) {
        if (b->operand[role] == input) { joint.roles |= 1u << role; }
    }
    const rapt_tensor x = rapt_tensor_slice(b->shape.source[input], 0, first, n);
    rapt_tensor dx;
    if (b->wanted[input]) { dx = rapt_tensor_slice(b->dinput[input], 0, first, n); }
    int32_t accumulate = b->given->accumulate;
    rapt_status status = RAPT_OK;
    while (status == RAPT_OK && rapti_joint_next(&joint)) {
        const rapt_tensor dcolumns = rapti_joint_columns(&joint, b->dbuffer, 0, n);
        status = rapti_linear_backward_step(&b->steps, &joint.layer, &x, &dcolumns,
                                            b->wanted[input] ? &dx : NULL, accumulate,
                                            b->twin ? &joint.twin_layer : NULL);
        accumulate = 1;
    }
    return status;
}

static rapt_status run_round(backward *b, int64_t first, int64_t n) {
    rapt_status status = backward_through_projection(b, first, n);
    if (!b->twin && !b->wanted[0] && !b->wanted[1] && !b->wanted[2]) { return status; }
    if (status == RAPT_OK) { status = backward_through_attention(b, first, n); }
    for (int input = 0; input < RAPTI_ROLES && status == RAPT_OK; input++) {
        if (!b->twin && !b->wanted[input]) { continue; }
        if (b->operand[input] == input) { status = backward_through_layers(b, input, first, n); }
    }
    return status;
}

static rapt_status run_rounds(backward *b) {
    const int64_t batch = b->shape.batch;
    rapt_status status = batch == 0 ? run_round(b, 0, 0) : RAPT_OK;
    for (int64_t first = 0; first < batch && status == RAPT_OK; first += b->items) {
        status = run_round(b, first, rapti_min(batch - first, b->items));
    }
    return status;
}

rapt_status rapti_module_backward(rapt_context *context, const rapti_pass *pass,
                                  const rapt_module_call *call, const rapt_module_backward *given,
                                  const rapti_pass *gradients) {
    backward b = {.pass = pass,
                  .twin = gradients->module ? gradients : NULL,
                  .call = call,
                  .given = given,
                  .steps = {.context = context, .counting = 1}};
    rapt_status status = check(context, &b);
    if (status != RAPT_OK) { return status; }
    b.what = rapti_module_what(pass, call);
    b.items = rapti_module_round(pass, call, &b.shape);
    rapti_arena arena = {0};
    lay_out(&b, &arena);
    if (!arena.too_large) { status = run_rounds(&b); }
    if (status == RAPT_OK) { status = rapti_steps_begin(&b.steps, &arena); }
    if (status != RAPT_OK) { return status; }
    lay_out(&b, &arena);
    return run_rounds(&b);
}
