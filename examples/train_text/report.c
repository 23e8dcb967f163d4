/* SPDX-License-Identifier: MIT
 * report.c: numbers with 6 digits. Jansson's functions pass null on, so one check at the end is
 * enough. */
#include "report.h"

#include "network.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static json_t *curve_of(const train_curve *c) {
    json_t *step = json_array(), *seconds = json_array();
    json_t *training = json_array(), *held_out = json_array();
    for (int i = 0; i < c->count; i++) {
        const train_point *p = &c->point[i];
        json_array_append_new(step, json_integer((json_int_t)p->step));
        json_array_append_new(seconds, json_real(p->seconds));
        json_array_append_new(training, p->step ? json_real(p->training) : json_null());
        json_array_append_new(held_out, json_real(p->held_out));
    }
    return json_pack("{s:o,s:o,s:o,s:o}", "step", step, "seconds", seconds, "training", training,
                     "held_out", held_out);
}

/* Bytes beyond ASCII may be parts of a character. */
static json_t *characters_of(const text *t, int64_t begin, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++) {
        const uint8_t byte = t->symbol[t->id[begin + i]];
        const char label[2] = {byte < 128 ? (char)byte : '?', '\0'};
        json_array_append_new(list, json_string(label));
    }
    return list;
}

/* [n0, n1, n1] as nested lists. */
static json_t *squares(const float *x, int64_t n0, int64_t n1) {
    json_t *list = json_array();
    for (int64_t i = 0; i < n0; i++) {
        json_t *square = json_array();
        for (int64_t j = 0; j < n1; j++) {
            json_t *row = json_array();
            for (int64_t k = 0; k < n1; k++) {
                json_array_append_new(row, json_real((double)*x++));
            }
            json_array_append_new(square, row);
        }
        json_array_append_new(list, square);
    }
    return list;
}

/* [layers][heads][count][count]; null on failure. */
static json_t *weights_of(rapt_context *context, const model *m, const text *t, int64_t begin,
                          int64_t count) {
    const int64_t heads = m->config.heads, layer = heads * count * count;
    const uint8_t *const window = t->id + begin;
    float *weights = calloc((size_t)(MODEL_LAYERS * layer), sizeof *weights);
    const network_call call = {.window = &window, .count = 1, .tokens = count, .weights = weights};
    json_t *list = NULL;
    network n = {0};
    if (weights && network_create(&n, context, m, NULL, 1, count) == RAPT_OK &&
        network_forward(&n, &call) == RAPT_OK) {
        list = json_array();
        for (int i = 0; i < MODEL_LAYERS; i++) {
            json_array_append_new(list, squares(weights + i * layer, heads, count));
        }
    }
    network_free(&n);
    free(weights);
    return list;
}

int report_write(rapt_context *context, const model *m, const text *t, const bigram *line,
                 const train_curve *curve, const char *path) {
    enum { LEAST = 18, MOST = 24 }; /* characters that a picture has room for */
    int64_t begin, count, most = m->config.context < MOST ? m->config.context : MOST;
    text_held_out_line(t, LEAST, most, &begin, &count);
    json_t *root = json_pack("{s:f,s:f,s:f,s:o,s:o,s:o}", "bigram", line->pairs, "singles",
                             line->singles, "characters_per_second", curve->characters, "curve",
                             curve_of(curve), "characters", characters_of(t, begin, count),
                             "weights", weights_of(context, m, t, begin, count));
    const int ok = root && json_dump_file(root, path, JSON_COMPACT | JSON_REAL_PRECISION(6)) == 0;
    json_decref(root);
    if (!ok) { fprintf(stderr, "cannot write the loss curve to %s\n", path); }
    return ok;
}
