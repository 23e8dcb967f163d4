/* SPDX-License-Identifier: MIT
 * config.h: the sizes of a BERT model, from the JSON files beside its weights. */
#ifndef MINILM_CONFIG_H
#define MINILM_CONFIG_H

#include <stdint.h>

typedef struct model_config {
    int64_t layers, heads;
    int64_t width, inner_width;      /* features between layers, inside the feed-forward */
    int64_t words, positions, types; /* rows of the three embedding tables */
    int64_t longest;                 /* tokens of a sentence, [CLS] and [SEP] included */
    double epsilon;                  /* of layer norm */
} model_config;

/* Reads config.json and sentence_bert_config.json. Returns 0, with a line on standard error, if one
 * cannot be read or asks for what this example does not compute. */
int model_config_load(model_config *config, const char *folder);

#endif
