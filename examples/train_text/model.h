/* SPDX-License-Identifier: MIT
 * model.h: the parameters of the character model, and their gradients, which have the same form.
 *
 *   x      = symbol[id] + position[t]                    [B, T, width]
 *   x     += attention(norm(x))                          in each of the LAYERS layers
 *   logits = read_out(norm(x))                           [B, T, symbols] */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include <rapt/rapt.h>

enum { MODEL_LAYERS = 2, MODEL_PARAMETERS = 6 + MODEL_LAYERS * 7 };

typedef struct model_config {
    int64_t symbols;
    int64_t context; /* longest sequence */
    int64_t width;   /* features of a character */
    int64_t heads;   /* divides width */
    double dropout;  /* of attention weights */
} model_config;

typedef struct model_norm {
    rapt_tensor weight, bias; /* [width] */
} model_norm;

typedef struct model_layer {
    model_norm norm;
    rapt_split attention;
} model_layer;

typedef struct model {
    model_config config;
    rapt_tensor symbol;   /* [symbols, width] */
    rapt_tensor position; /* [context, width] */
    model_layer layer[MODEL_LAYERS];
    model_norm norm;
    rapt_linear read_out;                  /* [symbols, width] */
    rapt_parameter list[MODEL_PARAMETERS]; /* all of these by name */
    float *memory;                         /* of all but attention */
} model;

/* Draws initial parameters, or with a null generator makes all 0, as gradients begin. Errors: those
 * of rapt_split_init; the message is the context's (RAPT_ERR_MEMORY may have none). After an error
 * there is nothing to free. */
rapt_status model_create(model *m, rapt_context *context, const model_config *config,
                         rapt_generator *generator);
void model_free(model *m);

/* A safetensors file of all parameters, under names as "layers.0.attention.W_query.weight". Return
 * 0, with a line on standard error, if that fails; a file of another model is refused whole. */
int model_save(const model *m, const char *path);
int model_load(model *m, const char *path);

#endif
