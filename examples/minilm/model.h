/* SPDX-License-Identifier: MIT
 * model.h: the parameters of a BERT sentence encoder. Attention is rapt's module, the feed-forward
 * two of rapt's linear layers; the rest are plain tensors for layers.c. */
#ifndef MINILM_MODEL_H
#define MINILM_MODEL_H

#include "config.h"

#include <rapt/rapt.h>

typedef struct model_norm {
    rapt_tensor weight, bias; /* f32 [width] */
} model_norm;

typedef struct model_layer {
    rapt_split attention;
    model_norm attention_norm;
    rapt_linear up, down; /* [inner_width, width] and [width, inner_width] */
    model_norm output_norm;
} model_layer;

typedef struct model {
    model_config config;
    rapt_tensor words, positions, types; /* embeddings, f32 [rows, width] */
    model_norm embedding_norm;
    model_layer *layer; /* [config.layers] */
    float *memory;      /* of all but the attention modules */
} model;

/* Reads the files of `folder`. Returns 0, with a line on standard error, if something is missing or
 * of another shape. The context must outlive the model. */
int model_load(model *m, rapt_context *context, const char *folder);
void model_free(model *m);

#endif
