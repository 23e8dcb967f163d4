/* SPDX-License-Identifier: MIT
 * network.h: the model's computation, forward and backward, over batches of sequences. */
#ifndef TRAIN_NETWORK_H
#define TRAIN_NETWORK_H

#include "model.h"

enum { NETWORK_BLOCKS = 6 + 3 * (MODEL_LAYERS + 1) + MODEL_LAYERS };

typedef struct network_norm {
    float *unit, *inverse; /* norm.h; [rows, width], [rows] */
    float *out;            /* [rows, width]: what the layer, or the read-out, takes */
} network_norm;

/* Memory for up to `batch` sequences of up to `tokens` characters; rows = batch * tokens. */
typedef struct network {
    rapt_context *context;
    const model *model;
    const model *gradients; /* null: no backward */
    int64_t batch, tokens;
    float *x;    /* [rows, width]: the residual stream; each layer adds to it */
    float *part; /* [rows, width]: what a layer adds; in backward, the gradient by what it takes */
    float *dx;   /* [rows, width]: gradient by x */
    network_norm norm[MODEL_LAYERS + 1]; /* before each layer, before the read-out */
    rapt_record record[MODEL_LAYERS];    /* what attention keeps for backward */
    float *logits, *dlogits;             /* [rows, symbols] */
    float *log_sum;                      /* [rows]: for loss.c */
    void *block[NETWORK_BLOCKS];         /* the memory of these */
    int blocks;
} network;

typedef struct network_call {
    const uint8_t *const *window; /* [count]: where each sequence of symbols begins */
    int64_t count, tokens;
    int32_t training; /* 1: with dropout; backward may follow */
    uint64_t seed;    /* of dropout */
    uint32_t step;    /* each its own pattern */
    float *weights;   /* [layers, count, heads, tokens, tokens], optional */
} network_call;

/* `gradients` may be null: then there is only forward. Errors as of model_create. */
rapt_status network_create(network *n, rapt_context *context, const model *m,
                           const model *gradients, int64_t batch, int64_t tokens);
void network_free(network *n);

/* Fills n->logits [count, tokens, symbols]. */
rapt_status network_forward(network *n, const network_call *call);

/* After forward of the same call with training = 1: from n->dlogits, adds to the gradients. */
rapt_status network_backward(network *n, const network_call *call);

#endif
