/* SPDX-License-Identifier: MIT
 * heads.c: weights are written with 6 digits. */
#include "heads.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

/* weights[n0][n1][n2] as nested lists. jansson's functions pass null on, so one check at the end
 * is enough. */
static json_t *matrix(const float *row, int64_t rows, int64_t columns) {
    json_t *list = json_array();
    for (int64_t i = 0; i < rows; i++, row += columns) {
        json_t *line = json_array();
        for (int64_t j = 0; j < columns; j++) {
            json_array_append_new(line, json_real((double)row[j]));
        }
        json_array_append_new(list, line);
    }
    return list;
}

static json_t *describe(const vocab *v, const sentence *s, int64_t layer, const float *weights,
                        int64_t heads) {
    json_t *tokens = json_array(), *list = json_array();
    for (int64_t t = 0; t < s->count; t++) {
        json_array_append_new(tokens, json_string(v->word[s->ids[t]]));
    }
    for (int64_t h = 0; h < heads; h++) {
        const float *head = weights + h * s->count * s->count;
        json_array_append_new(list, matrix(head, s->count, s->count));
    }
    return json_pack("{s:I,s:o,s:o}", "layer", (json_int_t)layer, "tokens", tokens, "weights",
                     list);
}

int heads_write(encoder *e, const vocab *v, const sentence *s, int64_t layer, const char *path) {
    const int64_t heads = e->model->config.heads;
    float *weights = calloc((size_t)(heads * s->count * s->count), sizeof *weights);
    int ok = weights && encoder_weights(e, s, layer, weights) == RAPT_OK;
    if (ok) {
        json_t *root = describe(v, s, layer, weights, heads);
        ok = root && json_dump_file(root, path, JSON_COMPACT | JSON_REAL_PRECISION(6)) == 0;
        json_decref(root);
    }
    if (!ok) { fprintf(stderr, "cannot write the weights to %s\n", path); }
    free(weights);
    return ok;
}
