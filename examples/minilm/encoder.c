/* SPDX-License-Identifier: MIT
 * encoder.c: the forward pass of BERT over a padded batch:
 *
 *   x = norm(word + position + type)                                    [B, T, width]
 *   for each layer:
 *     x = norm(x + attention(x))         rapt_split_forward, keys beyond each length hidden
 *     x = norm(x + down(gelu(up(x))))    rapt_linear_forward
 *   embedding = mean of the real tokens' rows, at unit length           [B, width]
 *
 * Padding is computed like any token, but nothing sees it. */
#include "encoder.h"

#include "layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Memory. ---- */

static void free_memory(encoder *e) {
    free(e->x);
    free(e->y);
    free(e->inner);
    free(e->lengths);
    e->x = e->y = e->inner = NULL;
    e->lengths = NULL;
    e->rows = e->batch = 0;
}

static rapt_status reserve(encoder *e, int64_t batch, int64_t tokens) {
    const size_t rows = (size_t)(batch * tokens), bytes = sizeof(float);
    if ((int64_t)rows <= e->rows && batch <= e->batch) { return RAPT_OK; }
    free_memory(e);
    e->x = calloc(rows * (size_t)e->model->config.width, bytes);
    e->y = calloc(rows * (size_t)e->model->config.width, bytes);
    e->inner = calloc(rows * (size_t)e->model->config.inner_width, bytes);
    e->lengths = calloc((size_t)batch, sizeof *e->lengths);
    if (!e->x || !e->y || !e->inner || !e->lengths) {
        free_memory(e);
        return RAPT_ERR_MEMORY;
    }
    e->rows = (int64_t)rows;
    e->batch = batch;
    return RAPT_OK;
}

void encoder_free(encoder *e) { free_memory(e); }

/* ---- One layer. `rows` is B * T. ---- */

static rapt_status attend(encoder *e, const rapt_split *attention, int64_t batch, int64_t tokens,
                          const rapt_tensor *weights) {
    const int64_t width = e->model->config.width;
    const rapt_tensor x = rapt_tensor_3d(RAPT_F32, e->x, batch, tokens, width);
    const rapt_tensor y = rapt_tensor_3d(RAPT_F32, e->y, batch, tokens, width);
    const rapt_tensor lengths = rapt_tensor_1d(RAPT_I64, e->lengths, batch);
    const rapt_module_call call = {.x = &x, .key_lengths = &lengths, .out = &y, .weights = weights};
    const double begin = now();
    const rapt_status status = rapt_split_forward(e->context, attention, &call);
    e->rapt_seconds += now() - begin;
    return status;
}

static rapt_status project(encoder *e, const rapt_linear *linear, int64_t rows, const float *from,
                           float *to) {
    const rapt_tensor x = rapt_tensor_2d(RAPT_F32, from, rows, linear->weight.size[1]);
    const rapt_tensor y = rapt_tensor_2d(RAPT_F32, to, rows, linear->weight.size[0]);
    const double begin = now();
    const rapt_status status = rapt_linear_forward(e->context, linear, &x, &y);
    e->rapt_seconds += now() - begin;
    return status;
}

static rapt_status run_layer(encoder *e, const model_layer *layer, int64_t batch, int64_t tokens,
                             const rapt_tensor *weights) {
    const model_config *c = &e->model->config;
    const int64_t rows = batch * tokens;
    rapt_status status = attend(e, &layer->attention, batch, tokens, weights);
    if (status != RAPT_OK) { return status; }
    layers_add_norm(&layer->attention_norm, c->epsilon, rows, e->x, e->y);

    status = project(e, &layer->up, rows, e->x, e->inner);
    if (status != RAPT_OK) { return status; }
    layers_gelu(rows * c->inner_width, e->inner);
    status = project(e, &layer->down, rows, e->inner, e->y);
    if (status != RAPT_OK) { return status; }
    layers_add_norm(&layer->output_norm, c->epsilon, rows, e->x, e->y);
    return RAPT_OK;
}

/* ---- A batch of sentences, by their numbers. ---- */

/* Token ids into rows of x, padding with the first word, [PAD]; lengths beside them. */
static void enter(encoder *e, const sentence *const *list, int64_t batch, int64_t tokens) {
    const model *m = e->model;
    for (int64_t b = 0; b < batch; b++) {
        e->lengths[b] = list[b]->count;
        for (int64_t t = 0; t < tokens; t++) {
            layers_embed(m, t < list[b]->count ? list[b]->ids[t] : 0, t,
                         e->x + (b * tokens + t) * m->config.width);
        }
    }
    layers_add_norm(&m->embedding_norm, m->config.epsilon, batch * tokens, e->x, NULL);
}

static rapt_status run(encoder *e, const sentence *const *list, int64_t batch, int64_t tokens,
                       int64_t layers) {
    rapt_status status = reserve(e, batch, tokens);
    if (status == RAPT_OK) { enter(e, list, batch, tokens); }
    for (int64_t i = 0; i < layers && status == RAPT_OK; i++) {
        status = run_layer(e, &e->model->layer[i], batch, tokens, NULL);
    }
    return status;
}

static rapt_status report(const encoder *e, rapt_status status) {
    if (status != RAPT_OK) {
        const char *why = status == RAPT_ERR_MEMORY ? "" : rapt_context_message(e->context);
        fprintf(stderr, "%s %s\n", rapt_status_name(status), why);
    }
    return status;
}

static int by_count(const void *a, const void *b) {
    const sentence *x = *(const sentence *const *)a, *y = *(const sentence *const *)b;
    return (x->count > y->count) - (x->count < y->count);
}

rapt_status encoder_embed(encoder *e, const sentence *list, int64_t count, int64_t batch,
                          float *embeddings) {
    const int64_t width = e->model->config.width;
    const double begin = now();
    const sentence **order = calloc((size_t)count + 1, sizeof *order);
    rapt_status status = order ? RAPT_OK : RAPT_ERR_MEMORY;
    if (order) {
        for (int64_t i = 0; i < count; i++) { order[i] = &list[i]; }
        qsort(order, (size_t)count, sizeof *order, by_count);
    }
    for (int64_t i = 0; i < count && status == RAPT_OK; i += batch) {
        const int64_t n = batch < count - i ? batch : count - i;
        const int64_t tokens = order[i + n - 1]->count;
        status = run(e, order + i, n, tokens, e->model->config.layers);
        for (int64_t b = 0; b < n && status == RAPT_OK; b++) {
            layers_pool(order[i + b]->count, width, e->x + b * tokens * width,
                        embeddings + (order[i + b] - list) * width);
        }
    }
    free(order);
    e->seconds += now() - begin;
    return report(e, status);
}

rapt_status encoder_weights(encoder *e, const sentence *s, int64_t layer, float *weights) {
    const model_config *c = &e->model->config;
    const rapt_tensor out = rapt_tensor_4d(RAPT_F32, weights, 1, c->heads, s->count, s->count);
    rapt_status status = run(e, &s, 1, s->count, layer);
    if (status == RAPT_OK) {
        status = attend(e, &e->model->layer[layer].attention, 1, s->count, &out);
    }
    return report(e, status);
}
