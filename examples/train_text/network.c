/* SPDX-License-Identifier: MIT
 * network.c: model.h's formula line by line, and then backwards. */
#include "network.h"

#include "norm.h"

#include <stdlib.h>
#include <string.h>

/* ---- Memory. ---- */

/* 64-byte aligned, as records must be; null, and a status, once memory has run out. */
static void *take(network *n, int64_t bytes, rapt_status *status) {
    void *memory = aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64);
    if (!memory) { *status = RAPT_ERR_MEMORY; }
    n->block[n->blocks++] = memory;
    return memory;
}

static float *take_floats(network *n, int64_t count, rapt_status *status) {
    return take(n, count * (int64_t)sizeof(float), status);
}

static rapt_status take_records(network *n) {
    const rapt_tensor x =
        rapt_tensor_3d(RAPT_F32, NULL, n->batch, n->tokens, n->model->config.width);
    const rapt_module_call call = {.x = &x, .out = &x, .training = 1};
    rapt_status status = RAPT_OK;
    for (int i = 0; i < MODEL_LAYERS && status == RAPT_OK; i++) {
        int64_t bytes = 0;
        status = rapt_split_record_bytes(n->context, &n->model->layer[i].attention, &call, &bytes);
        if (status == RAPT_OK) {
            n->record[i] = (rapt_record){take(n, bytes, &status), (size_t)bytes};
        }
    }
    return status;
}

rapt_status network_create(network *n, rapt_context *context, const model *m,
                           const model *gradients, int64_t batch, int64_t tokens) {
    *n = (network){
        .context = context, .model = m, .gradients = gradients, .batch = batch, .tokens = tokens};
    const int64_t rows = batch * tokens, width = m->config.width, symbols = m->config.symbols;
    rapt_status status = RAPT_OK;
    n->x = take_floats(n, rows * width, &status);
    n->part = take_floats(n, rows * width, &status);
    n->dx = take_floats(n, rows * width, &status);
    n->logits = take_floats(n, rows * symbols, &status);
    n->dlogits = take_floats(n, rows * symbols, &status);
    n->log_sum = take_floats(n, rows, &status);
    for (int i = 0; i <= MODEL_LAYERS; i++) {
        n->norm[i].unit = take_floats(n, rows * width, &status);
        n->norm[i].inverse = take_floats(n, rows, &status);
        n->norm[i].out = take_floats(n, rows * width, &status);
    }
    if (status == RAPT_OK && gradients) { status = take_records(n); }
    if (status != RAPT_OK) { network_free(n); }
    return status;
}

void network_free(network *n) {
    for (int i = 0; i < n->blocks; i++) { free(n->block[i]); }
    *n = (network){0};
}

/* ---- Embeddings. ---- */

static const float *row_of(const rapt_tensor *table, int64_t row) {
    return (const float *)table->data + row * table->size[1];
}

static void embed(const network *n, const network_call *call) {
    const int64_t width = n->model->config.width;
    float *x = n->x;
    for (int64_t b = 0; b < call->count; b++) {
        for (int64_t t = 0; t < call->tokens; t++, x += width) {
            const float *symbol = row_of(&n->model->symbol, call->window[b][t]);
            const float *position = row_of(&n->model->position, t);
            for (int64_t i = 0; i < width; i++) { x[i] = symbol[i] + position[i]; }
        }
    }
}

static void add(int64_t count, float *to, const float *from) {
    for (int64_t i = 0; i < count; i++) { to[i] += from[i]; }
}

static void embed_backward(const network *n, const network_call *call) {
    const int64_t width = n->model->config.width;
    float *symbol = n->gradients->symbol.data, *position = n->gradients->position.data;
    const float *dx = n->dx;
    for (int64_t b = 0; b < call->count; b++) {
        for (int64_t t = 0; t < call->tokens; t++, dx += width) {
            add(width, symbol + call->window[b][t] * width, dx);
            add(width, position + t * width, dx);
        }
    }
}

/* ---- Normalisation: the index-th. ---- */

static const model_norm *norm_of(const model *m, int index) {
    return index < MODEL_LAYERS ? &m->layer[index].norm : &m->norm;
}

static void normalise(network *n, int index, int64_t rows) {
    const model_norm *p = norm_of(n->model, index);
    const network_norm *at = &n->norm[index];
    norm_forward(rows, n->model->config.width, n->x, p->weight.data, p->bias.data, at->unit,
                 at->inverse, at->out);
}

/* dx += from the gradient by the normalised x, in n->part */
static void normalise_backward(network *n, int index, int64_t rows) {
    const model_norm *p = norm_of(n->model, index), *gradient = norm_of(n->gradients, index);
    const network_norm *at = &n->norm[index];
    norm_backward(rows, n->model->config.width, n->part, p->weight.data, at->unit, at->inverse,
                  n->dx, gradient->weight.data, gradient->bias.data);
}

/* ---- Attention: the call of one layer, the same forward and backward. ---- */

typedef struct layer_call {
    rapt_tensor in, out, weights;
    rapt_module_call call;
} layer_call;

static void make_call(layer_call *l, const network *n, const network_call *call, int index) {
    const int64_t count = call->count, tokens = call->tokens, heads = n->model->config.heads;
    const int64_t width = n->model->config.width, size = count * heads * tokens * tokens;
    l->in = rapt_tensor_3d(RAPT_F32, n->norm[index].out, count, tokens, width);
    l->out = rapt_tensor_3d(RAPT_F32, n->part, count, tokens, width);
    l->call = (rapt_module_call){.x = &l->in,
                                 .out = &l->out,
                                 .training = call->training,
                                 .seed = call->seed + (uint64_t)index,
                                 .offset = call->step,
                                 .record = call->training ? &n->record[index] : NULL};
    if (call->weights) {
        float *weights = call->weights + index * size;
        l->weights = rapt_tensor_4d(RAPT_F32, weights, count, heads, tokens, tokens);
        l->call.weights = &l->weights;
    }
}

/* ---- The whole. ---- */

rapt_status network_forward(network *n, const network_call *call) {
    const model *m = n->model;
    const int64_t rows = call->count * call->tokens, width = m->config.width;
    rapt_status status = RAPT_OK;
    embed(n, call);
    for (int i = 0; i < MODEL_LAYERS && status == RAPT_OK; i++) {
        layer_call l;
        make_call(&l, n, call, i);
        normalise(n, i, rows);
        status = rapt_split_forward(n->context, &m->layer[i].attention, &l.call);
        add(rows * width, n->x, n->part);
    }
    if (status != RAPT_OK) { return status; }
    normalise(n, MODEL_LAYERS, rows);
    const rapt_tensor x = rapt_tensor_2d(RAPT_F32, n->norm[MODEL_LAYERS].out, rows, width);
    const rapt_tensor logits = rapt_tensor_2d(RAPT_F32, n->logits, rows, m->config.symbols);
    return rapt_linear_forward(n->context, &m->read_out, &x, &logits);
}

rapt_status network_backward(network *n, const network_call *call) {
    const model *m = n->model, *g = n->gradients;
    const int64_t rows = call->count * call->tokens, width = m->config.width;
    const rapt_tensor x = rapt_tensor_2d(RAPT_F32, n->norm[MODEL_LAYERS].out, rows, width);
    const rapt_tensor dlogits = rapt_tensor_2d(RAPT_F32, n->dlogits, rows, m->config.symbols);
    const rapt_tensor dnormed = rapt_tensor_2d(RAPT_F32, n->part, rows, width);
    rapt_status status =
        rapt_linear_backward(n->context, &m->read_out, &x, &dlogits, &dnormed, 0, &g->read_out);
    if (status != RAPT_OK) { return status; }
    memset(n->dx, 0, (size_t)(rows * width) * sizeof(float));
    normalise_backward(n, MODEL_LAYERS, rows);
    for (int i = MODEL_LAYERS - 1; i >= 0 && status == RAPT_OK; i--) {
        layer_call l;
        make_call(&l, n, call, i);
        /* Of x + attention(norm(x)): dx goes on as it is, and what comes by norm is added. */
        const rapt_tensor dout = rapt_tensor_3d(RAPT_F32, n->dx, call->count, call->tokens, width);
        const rapt_module_backward backward = {.dout = &dout, .dx = &l.out};
        status = rapt_split_backward(n->context, &m->layer[i].attention, &l.call, &backward,
                                     &g->layer[i].attention);
        if (status == RAPT_OK) { normalise_backward(n, i, rows); }
    }
    if (status == RAPT_OK) { embed_backward(n, call); }
    return status;
}
