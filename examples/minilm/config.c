/* SPDX-License-Identifier: MIT
 * config.c: a BERT encoder with exact GELU and absolute positions is what this example computes. */
#include "config.h"

#include "file.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static json_t *load(const char *folder, const char *name) {
    char path[FILE_PATH_BYTES];
    json_error_t error;
    if (!file_path(path, folder, name)) { return NULL; }
    json_t *root = json_load_file(path, 0, &error);
    if (!root) { fprintf(stderr, "%s: %s\n", path, error.text); }
    return root;
}

/* The numbers that make sense of each other; anything else would be a wrong file. */
static int is_sound(const model_config *c, const char *activation, const char *positions) {
    const int64_t sizes[] = {c->layers, c->heads,     c->width, c->inner_width,
                             c->words,  c->positions, c->types};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i] < 1 || sizes[i] > 1 << 20) { return 0; }
    }
    return c->width % c->heads == 0 && c->longest >= 2 && c->longest <= c->positions &&
           c->epsilon > 0 && strcmp(activation, "gelu") == 0 && strcmp(positions, "absolute") == 0;
}

int model_config_load(model_config *config, const char *folder) {
    json_int_t layers = 0, heads = 0, width = 0, inner = 0, words = 0, rows = 0, types = 0,
               most = 0;
    const char *activation = "", *positions = "absolute";
    double epsilon = 0;
    json_error_t error = {.text = "not there"};
    json_t *bert = load(folder, "config.json");
    json_t *sentence = load(folder, "sentence_bert_config.json");
    int ok = bert && sentence &&
             json_unpack_ex(bert, &error, 0, "{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:F,s:s,s?s}",
                            "num_hidden_layers", &layers, "num_attention_heads", &heads,
                            "hidden_size", &width, "intermediate_size", &inner, "vocab_size",
                            &words, "max_position_embeddings", &rows, "type_vocab_size", &types,
                            "layer_norm_eps", &epsilon, "hidden_act", &activation,
                            "position_embedding_type", &positions) == 0 &&
             json_unpack_ex(sentence, &error, 0, "{s:I}", "max_seq_length", &most) == 0;
    if (ok) {
        *config = (model_config){layers, heads, width, inner, words, rows, types, most, epsilon};
        strcpy(error.text, "not a model that this example knows");
        ok = is_sound(config, activation, positions);
    }
    if (!ok) { fprintf(stderr, "configuration in %s: %s\n", folder, error.text); }
    json_decref(bert);
    json_decref(sentence);
    return ok;
}
