/* SPDX-License-Identifier: MIT
 * test_parts.c: gradients against differences of the loss; counted tables and lines of a text
 * against what was worked out by hand; the held-out loss of a model that is such a table. */
#include "bigram.h"
#include "loss.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void expect(int ok, const char *what) {
    failures += !ok;
    printf("%s %s\n", ok ? "ok    " : "FAILED", what);
}

static rapt_context *open_context(void) {
    const rapt_context_options options = {.threads = 1};
    rapt_context *context = NULL;
    if (rapt_context_create(&context, &options) != RAPT_OK) { exit(EXIT_FAILURE); }
    return context;
}

static void write_file(const char *path, const char *content) {
    FILE *file = fopen(path, "wb");
    if (!file || fputs(content, file) < 0 || fclose(file) != 0) { exit(EXIT_FAILURE); }
}

/* ---- Tables: "bab" to train on, "ba" held out, two symbols. ---- */
static void test_tables(void) {
    const char *path = "train_text_parts.txt";
    text t;
    bigram b = {0};
    write_file(path, "babba");
    expect(text_read(&t, path, 0.6, 2) && t.training == 3 && t.symbols == 2, "text read, split");
    expect(bigram_count(&b, &t) && fabs(b.pairs - log(1.5)) < 1e-12, "pairs: p(a | b) = 2 / 3");
    expect(fabs(b.singles - log(2.5)) < 1e-12, "singles: p(a) = 2 / 5");
    text_free(&t);
    expect(!text_read(&t, path, 0.6, 3), "a text whose held-out part is too short is refused");
    remove(path);
    expect(!text_read(&t, path, 0.6, 1), "a missing file is refused");
}

static void test_line(void) {
    const char *path = "train_text_parts.txt";
    int64_t begin = 0, count = 0;
    text t;
    write_file(path, "0123\nbroken\nab\nlonger one\nfour\n");
    if (text_read(&t, path, 0.2, 1)) {
        text_held_out_line(&t, 3, 5, &begin, &count);
        expect(begin == 26 && count == 4, "the first whole held-out line of fitting length");
        text_held_out_line(&t, 20, 22, &begin, &count);
        expect(begin == t.training && count == 22, "no such line: where the part begins");
    }
    text_free(&t);
    remove(path);
}

/* ---- Held-out loss: a model whose logits are the logarithms of counts is the table of singles,
 * whatever the windows. ---- */
static void test_held_out(rapt_context *context) {
    enum { CONTEXT = 32 };
    text t;
    bigram table;
    model m;
    if (!text_read(&t, TRAIN_TEXT, 0.97, CONTEXT + 1) || !bigram_count(&table, &t)) { exit(1); }
    const model_config config = {.symbols = t.symbols, .context = CONTEXT, .width = 8, .heads = 2};
    if (model_create(&m, context, &config, NULL) != RAPT_OK) { exit(EXIT_FAILURE); }
    float *bias = m.read_out.bias.data;
    for (int64_t i = 0; i < t.symbols; i++) { bias[i] = 1; }
    for (int64_t i = 0; i < t.training; i++) { bias[t.id[i]]++; }
    for (int64_t i = 0; i < t.symbols; i++) { bias[i] = logf(bias[i]); }
    for (int batch = 1; batch <= 7; batch += 6) {
        double loss = 0;
        network n;
        if (network_create(&n, context, &m, NULL, batch, CONTEXT) != RAPT_OK) { exit(1); }
        expect(loss_held_out(&n, &t, &loss) == RAPT_OK && fabs(loss - table.singles) < 1e-5,
               "held-out loss predicts each character once");
        network_free(&n);
    }
    model_free(&m);
    text_free(&t);
}

/* ---- Gradients: (L(w + e r) - L(w - e r)) / 2e = g . r for random r in each tensor. ---- */

enum { SYMBOLS = 7, CONTEXT = 9, BATCH = 3, WIDTH = 8, DIRECTIONS = 4 };

static void shift(const rapt_tensor *t, const float *r, float by) {
    float *w = t->data;
    const rapt_parameter p = {.tensor = *t};
    for (int64_t i = 0; i < rapt_parameter_count(&p, 1); i++) { w[i] += by * r[i]; }
}

static double loss_now(network *n, const network_call *call) {
    double loss = NAN;
    if (network_forward(n, call) != RAPT_OK || loss_of_batch(n, call, &loss) != RAPT_OK) {
        exit(EXIT_FAILURE);
    }
    return loss;
}

/* The loss is a mean of f32 logarithms of size 2: it is uncertain by about 1e-7, its difference
 * quotient by 1e-7 / e; the curvature's part is of the order e^2. Both are far below what a missing
 * or doubled element of the gradient makes on average. */
static double worst_of(network *n, const network_call *call, int index, rapt_generator *generator) {
    const rapt_tensor *w = &n->model->list[index].tensor;
    const float *g = n->gradients->list[index].tensor.data, e = 1.0f / 64;
    const int64_t count = rapt_parameter_count(&n->model->list[index], 1);
    float r[WIDTH * CONTEXT];
    double worst = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) { norm += (double)g[i] * (double)g[i]; }
    for (int d = 0; d < DIRECTIONS; d++) {
        double product = 0;
        for (int64_t i = 0; i < count; i++) {
            r[i] = rapt_generator_next(generator) & 1 ? 1.0f : -1.0f;
            product += (double)g[i] * (double)r[i];
        }
        shift(w, r, e);
        const double above = loss_now(n, call);
        shift(w, r, -2 * e);
        const double below = loss_now(n, call);
        shift(w, r, e);
        const double difference = (above - below) / (2 * (double)e);
        const double error = fabs(difference - product) / (sqrt(norm) + 1e-4);
        worst = error <= worst ? worst : error;
    }
    return worst;
}

static void test_gradients(rapt_context *context) {
    const model_config config = {
        .symbols = SYMBOLS, .context = CONTEXT, .width = WIDTH, .heads = 2, .dropout = 0.2};
    uint8_t id[BATCH * (CONTEXT + 1)];
    const uint8_t *window[BATCH];
    rapt_generator generator;
    rapt_generator_seed(&generator, 3);
    for (int i = 0; i < BATCH * (CONTEXT + 1); i++) {
        id[i] = (uint8_t)(rapt_generator_next(&generator) % SYMBOLS);
    }
    for (int i = 0; i < BATCH; i++) { window[i] = id + i * (CONTEXT + 1); }
    const network_call call = {
        .window = window, .count = BATCH, .tokens = CONTEXT, .training = 1, .seed = 5, .step = 8};
    model m, gradients;
    network n;
    if (model_create(&m, context, &config, &generator) != RAPT_OK ||
        model_create(&gradients, context, &config, NULL) != RAPT_OK ||
        network_create(&n, context, &m, &gradients, BATCH, CONTEXT) != RAPT_OK) {
        exit(EXIT_FAILURE);
    }
    loss_now(&n, &call);
    expect(network_backward(&n, &call) == RAPT_OK, "backward");
    for (int i = 0; i < MODEL_PARAMETERS; i++) {
        const double worst = worst_of(&n, &call, i, &generator);
        printf("       %-32s %.1e\n", m.list[i].name, worst);
        expect(worst <= 0.02, "its gradient is the slope of the loss");
    }
    network_free(&n);
    model_free(&gradients);
    model_free(&m);
}

int main(void) {
    rapt_context *context = open_context();
    test_tables();
    test_line();
    test_held_out(context);
    test_gradients(context);
    rapt_context_destroy(context);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
