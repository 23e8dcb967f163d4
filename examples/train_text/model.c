/* SPDX-License-Identifier: MIT
 * model.c: memory, initial values and names of the parameters. */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define EMBEDDING_SIZE 0.5f /* of the largest initial element */

/* ---- Memory: one block, handed out in turn. ---- */

static int64_t floats_needed(const model_config *c) {
    const int64_t norms = (MODEL_LAYERS + 1) * 2 * c->width;
    return (2 * c->symbols + c->context) * c->width + c->symbols + norms;
}

static rapt_tensor take_1d(float **memory, int64_t n) {
    const rapt_tensor t = rapt_tensor_1d(RAPT_F32, *memory, n);
    *memory += n;
    return t;
}

static rapt_tensor take_2d(float **memory, int64_t rows, int64_t columns) {
    const rapt_tensor t = rapt_tensor_2d(RAPT_F32, *memory, rows, columns);
    *memory += rows * columns;
    return t;
}

static model_norm take_norm(float **memory, int64_t width) {
    const rapt_tensor weight = take_1d(memory, width);
    return (model_norm){weight, take_1d(memory, width)};
}

static void hand_out(model *m) {
    const model_config *c = &m->config;
    float *memory = m->memory;
    m->symbol = take_2d(&memory, c->symbols, c->width);
    m->position = take_2d(&memory, c->context, c->width);
    for (int i = 0; i < MODEL_LAYERS; i++) { m->layer[i].norm = take_norm(&memory, c->width); }
    m->norm = take_norm(&memory, c->width);
    m->read_out.weight = take_2d(&memory, c->symbols, c->width);
    m->read_out.bias = take_1d(&memory, c->symbols);
}

/* ---- Initial values. ---- */

static void fill_ones(const rapt_tensor *t) {
    float *x = t->data;
    for (int64_t i = 0; i < t->size[0]; i++) { x[i] = 1; }
}

/* Waves of many lengths (Vaswani et al. 2017), to begin with: a head can find the character a fixed
 * distance back by turning each wave. From random positions, layers take four times as long to. */
static void fill_waves(const rapt_tensor *position) {
    const int64_t width = position->size[1];
    float *x = position->data;
    for (int64_t t = 0; t < position->size[0]; t++) {
        for (int64_t i = 0; i < width; i++) {
            const double angle = (double)t * pow(10000, -(double)(i / 2 * 2) / (double)width);
            x[t * width + i] = EMBEDDING_SIZE * (float)(i % 2 ? cos(angle) : sin(angle));
        }
    }
}

static rapt_status draw(model *m, rapt_context *context, rapt_generator *generator) {
    const float most = EMBEDDING_SIZE;
    for (int i = 0; i < MODEL_LAYERS; i++) { fill_ones(&m->layer[i].norm.weight); }
    fill_ones(&m->norm.weight);
    fill_waves(&m->position);
    rapt_status status = rapt_generator_uniform(context, generator, -most, most, &m->symbol);
    if (status == RAPT_OK) {
        status = rapt_generator_linear(context, generator, &m->read_out.weight, &m->read_out.bias);
    }
    return status;
}

static rapt_status make_attention(model *m, rapt_context *context, rapt_generator *generator) {
    const model_config *c = &m->config;
    const rapt_split_config attention = {.d_in = c->width,
                                         .d_out = c->width,
                                         .context_length = c->context,
                                         .heads = c->heads,
                                         .dropout = c->dropout};
    rapt_status status = RAPT_OK;
    for (int i = 0; i < MODEL_LAYERS && status == RAPT_OK; i++) {
        status = rapt_split_init(context, &m->layer[i].attention, &attention, generator);
    }
    return status;
}

/* ---- Names. ---- */

/* The name is prefix + name. */
static rapt_parameter named(const char *prefix, const char *name, rapt_tensor tensor) {
    rapt_parameter p = {.tensor = tensor};
    snprintf(p.name, sizeof p.name, "%.20s%.40s", prefix, name);
    return p;
}

static rapt_parameter *list_layer(rapt_parameter *p, int index, const model_layer *layer) {
    enum { ATTENTION = 5 }; /* four weights, the output projection's bias */
    rapt_parameter attention[ATTENTION];
    char prefix[32];
    snprintf(prefix, sizeof prefix, "layers.%d.", index);
    *p++ = named(prefix, "norm.weight", layer->norm.weight);
    *p++ = named(prefix, "norm.bias", layer->norm.bias);
    rapt_split_parameters(&layer->attention, attention, ATTENTION);
    snprintf(prefix, sizeof prefix, "layers.%d.attention.", index);
    for (int i = 0; i < ATTENTION; i++) {
        *p++ = named(prefix, attention[i].name, attention[i].tensor);
    }
    return p;
}

static void list_parameters(model *m) {
    rapt_parameter *p = m->list;
    *p++ = named("", "symbol.weight", m->symbol);
    *p++ = named("", "position.weight", m->position);
    for (int i = 0; i < MODEL_LAYERS; i++) { p = list_layer(p, i, &m->layer[i]); }
    *p++ = named("", "norm.weight", m->norm.weight);
    *p++ = named("", "norm.bias", m->norm.bias);
    *p++ = named("", "read_out.weight", m->read_out.weight);
    *p++ = named("", "read_out.bias", m->read_out.bias);
}

/* ---- The whole. ---- */

rapt_status model_create(model *m, rapt_context *context, const model_config *config,
                         rapt_generator *generator) {
    *m = (model){.config = *config};
    m->memory = calloc((size_t)floats_needed(config), sizeof(float));
    rapt_status status = m->memory ? RAPT_OK : RAPT_ERR_MEMORY;
    if (status == RAPT_OK) { hand_out(m); }
    if (status == RAPT_OK && generator) { status = draw(m, context, generator); }
    if (status == RAPT_OK) { status = make_attention(m, context, generator); }
    if (status == RAPT_OK) {
        list_parameters(m);
    } else {
        model_free(m);
    }
    return status;
}

void model_free(model *m) {
    for (int i = 0; i < MODEL_LAYERS; i++) { rapt_split_free(&m->layer[i].attention); }
    free(m->memory);
    *m = (model){0};
}
