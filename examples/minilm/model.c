/* SPDX-License-Identifier: MIT
 * model.c: makes tensors of the configured sizes and fills them by name from model.safetensors; a
 * missing tensor, or one of another size, is refused by rapt_safetensors_load. */
#include "model.h"

#include "file.h"

#include <rapt/safetensors.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EMBEDDING_PARAMETERS = 5, LAYER_PARAMETERS = 16 };

/* ---- Memory: one block, handed out in turn. ---- */

static int64_t floats_needed(const model_config *c) {
    const int64_t tables = (c->words + c->positions + c->types) * c->width;
    const int64_t norm = 2 * c->width;
    const int64_t feed_forward = 2 * c->width * c->inner_width + c->width + c->inner_width;
    return tables + norm + c->layers * (2 * norm + feed_forward);
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

static rapt_linear take_linear(float **memory, int64_t in, int64_t out) {
    const rapt_tensor weight = take_2d(memory, out, in);
    return (rapt_linear){weight, take_1d(memory, out)};
}

static void shape_embeddings(model *m, float **memory) {
    const model_config *c = &m->config;
    m->words = take_2d(memory, c->words, c->width);
    m->positions = take_2d(memory, c->positions, c->width);
    m->types = take_2d(memory, c->types, c->width);
    m->embedding_norm = take_norm(memory, c->width);
}

static rapt_status shape_layer(model_layer *layer, rapt_context *context, const model_config *c,
                               float **memory) {
    const rapt_split_config attention = {
        .d_in = c->width, .d_out = c->width, .heads = c->heads, .qkv_bias = 1, .not_causal = 1};
    layer->attention_norm = take_norm(memory, c->width);
    layer->up = take_linear(memory, c->width, c->inner_width);
    layer->down = take_linear(memory, c->inner_width, c->width);
    layer->output_norm = take_norm(memory, c->width);
    return rapt_split_init(context, &layer->attention, &attention, NULL);
}

/* ---- Names: as BertModel's state_dict has them. ---- */

static rapt_parameter named(const char *name, rapt_tensor tensor) {
    rapt_parameter p = {.tensor = tensor};
    snprintf(p.name, sizeof p.name, "%s", name);
    return p;
}

static void list_embeddings(const model *m, rapt_parameter list[EMBEDDING_PARAMETERS]) {
    rapt_parameter *p = list;
    *p++ = named("word_embeddings.weight", m->words);
    *p++ = named("position_embeddings.weight", m->positions);
    *p++ = named("token_type_embeddings.weight", m->types);
    *p++ = named("LayerNorm.weight", m->embedding_norm.weight);
    *p++ = named("LayerNorm.bias", m->embedding_norm.bias);
}

static void list_layer(const model_layer *layer, rapt_parameter list[LAYER_PARAMETERS]) {
    const rapt_split *attention = &layer->attention;
    rapt_parameter *p = list;
    *p++ = named("attention.self.query.weight", attention->query.weight);
    *p++ = named("attention.self.query.bias", attention->query.bias);
    *p++ = named("attention.self.key.weight", attention->key.weight);
    *p++ = named("attention.self.key.bias", attention->key.bias);
    *p++ = named("attention.self.value.weight", attention->value.weight);
    *p++ = named("attention.self.value.bias", attention->value.bias);
    *p++ = named("attention.output.dense.weight", attention->out_proj.weight);
    *p++ = named("attention.output.dense.bias", attention->out_proj.bias);
    *p++ = named("attention.output.LayerNorm.weight", layer->attention_norm.weight);
    *p++ = named("attention.output.LayerNorm.bias", layer->attention_norm.bias);
    *p++ = named("intermediate.dense.weight", layer->up.weight);
    *p++ = named("intermediate.dense.bias", layer->up.bias);
    *p++ = named("output.dense.weight", layer->down.weight);
    *p++ = named("output.dense.bias", layer->down.bias);
    *p++ = named("output.LayerNorm.weight", layer->output_norm.weight);
    *p++ = named("output.LayerNorm.bias", layer->output_norm.bias);
}

/* ---- Loading. ---- */

static int make_tensors(model *m, rapt_context *context) {
    const model_config *c = &m->config;
    m->layer = calloc((size_t)c->layers, sizeof *m->layer);
    m->memory = malloc((size_t)floats_needed(c) * sizeof(float));
    if (!m->layer || !m->memory) {
        fprintf(stderr, "no memory for the model\n");
        return 0;
    }
    float *memory = m->memory;
    shape_embeddings(m, &memory);
    for (int64_t i = 0; i < c->layers; i++) {
        if (shape_layer(&m->layer[i], context, c, &memory) != RAPT_OK) {
            fprintf(stderr, "layer %d: %s\n", (int)i, rapt_context_message(context));
            return 0;
        }
    }
    return 1;
}

static rapt_status read_tensors(model *m, rapt_safetensors *file) {
    rapt_parameter list[LAYER_PARAMETERS];
    list_embeddings(m, list);
    rapt_status status = rapt_safetensors_load(file, "embeddings.", list, EMBEDDING_PARAMETERS);
    for (int64_t i = 0; i < m->config.layers && status == RAPT_OK; i++) {
        char prefix[40];
        snprintf(prefix, sizeof prefix, "encoder.layer.%d.", (int)i);
        list_layer(&m->layer[i], list);
        status = rapt_safetensors_load(file, prefix, list, LAYER_PARAMETERS);
    }
    return status;
}

int model_load(model *m, rapt_context *context, const char *folder) {
    *m = (model){0};
    char path[FILE_PATH_BYTES];
    if (!file_path(path, folder, "model.safetensors") || !model_config_load(&m->config, folder) ||
        !make_tensors(m, context)) {
        model_free(m);
        return 0;
    }
    rapt_safetensors *file = NULL;
    rapt_status status = rapt_safetensors_open(&file, path);
    if (status == RAPT_OK) { status = read_tensors(m, file); }
    if (status != RAPT_OK) {
        fprintf(stderr, "%s: %s\n", path,
                file ? rapt_safetensors_message(file) : rapt_status_name(status));
        model_free(m);
    }
    rapt_safetensors_close(file);
    return status == RAPT_OK;
}

void model_free(model *m) {
    for (int64_t i = 0; m->layer && i < m->config.layers; i++) {
        rapt_split_free(&m->layer[i].attention);
    }
    free(m->layer);
    free(m->memory);
    *m = (model){0};
}
