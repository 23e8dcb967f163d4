/* SPDX-License-Identifier: MIT
 * encoder.h: sentences into unit vectors. */
#ifndef MINILM_ENCODER_H
#define MINILM_ENCODER_H

#include "model.h"

#include <stdint.h>

/* A sentence as tokens, [CLS] and [SEP] included: 2 .. config.longest of them. */
typedef struct sentence {
    int32_t *ids; /* [count], each below config.words */
    int64_t count;
} sentence;

/* What a forward pass works in. One for each context; all zero to begin with. */
typedef struct encoder {
    const model *model;
    rapt_context *context;
    float *x, *y, *inner;         /* [rows][width], the same, [rows][inner_width] */
    int64_t *lengths;             /* [batch] */
    int64_t rows, batch;          /* for which there is room */
    double seconds, rapt_seconds; /* spent since the caller last set them: in all, inside rapt */
} encoder;

/* embeddings[count][width] of any number of sentences, `batch` at a time, those of similar length
 * together. A sentence's vector is bitwise the same whatever it is batched with. Errors: those of
 * rapt's calls, with a line on standard error. */
rapt_status encoder_embed(encoder *e, const sentence *list, int64_t count, int64_t batch,
                          float *embeddings);

/* weights[heads][tokens][tokens] of one layer for one sentence. */
rapt_status encoder_weights(encoder *e, const sentence *s, int64_t layer, float *weights);
void encoder_free(encoder *e);

#endif
