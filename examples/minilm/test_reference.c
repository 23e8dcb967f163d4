/* SPDX-License-Identifier: MIT
 * test_reference.c: with the model's files: token ids, embeddings and attention weights are the
 * reference implementation's; embeddings are bitwise the same for a padded batch, one sentence at a
 * time, and any number of threads. Arguments: the reference, and how many instruction sets to run
 * on, the best first (all). Exit code 77: the files are not there. */
#include "corpus.h"
#include "locate.h"
#include "reference.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The reference is double precision; PyTorch's own single precision is within 2e-7 of it. */
static const double tolerance = 1e-5;

/* The largest difference, infinity if something is NaN or missing. */
static double distance(const float *got, json_t *want, int64_t n) {
    double largest = (int64_t)json_array_size(want) == n ? 0 : INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const double d = fabs((double)got[i] - json_number_value(json_array_get(want, (size_t)i)));
        largest = d <= largest ? largest : isnan(d) ? INFINITY : d;
    }
    return largest;
}

static double embeddings_distance(const reference *r, const float *got, int64_t width) {
    double largest = 0;
    size_t index;
    json_t *item;
    json_array_foreach(r->sentences, index, item) {
        const double d =
            distance(got + (int64_t)index * width, json_object_get(item, "embedding"), width);
        largest = d <= largest ? largest : d;
    }
    return largest;
}

/* Embeds all sentences as one padded batch, then singly, into `got` and `again`. */
static int check_embeddings(encoder *e, const reference *r, const corpus *c, float *got,
                            float *again) {
    const int64_t width = e->model->config.width;
    if (encoder_embed(e, c->sentence, c->count, c->count, got) != RAPT_OK ||
        encoder_embed(e, c->sentence, c->count, 1, again) != RAPT_OK) {
        return 0;
    }
    const double largest = embeddings_distance(r, got, width);
    const int same = memcmp(got, again, (size_t)(c->count * width) * sizeof *got) == 0;
    printf("%-8s %d threads: embeddings within %.1e, %s in a padded batch and singly\n",
           rapt_context_isa(e->context), (int)rapt_context_threads(e->context), largest,
           same ? "the same" : "NOT THE SAME");
    return largest <= tolerance && same;
}

static int check_heads(encoder *e, const reference *r, const corpus *c) {
    json_t *all = json_object_get(r->heads, "weights");
    const int64_t layer = json_integer_value(json_object_get(r->heads, "layer"));
    const sentence *s = &c->sentence[json_integer_value(json_object_get(r->heads, "sentence"))];
    const int64_t heads = e->model->config.heads, n = s->count;
    float *weights = calloc((size_t)(heads * n * n), sizeof *weights);
    int ok = weights && encoder_weights(e, s, layer, weights) == RAPT_OK;
    double largest = 0;
    for (int64_t i = 0; ok && i < heads * n; i++) {
        json_t *head = json_array_get(all, (size_t)(i / n));
        const double d = distance(weights + i * n, json_array_get(head, (size_t)(i % n)), n);
        largest = d <= largest ? largest : d;
    }
    printf("         attention weights of layer %d within %.1e\n", (int)layer, largest);
    free(weights);
    return ok && largest <= tolerance;
}

/* One instruction set: one thread and two must give the same bits. */
static int check_isa(const model *m, const reference *r, const corpus *c, const char *isa) {
    const size_t floats = (size_t)(c->count * m->config.width);
    float *one = calloc(3 * floats, sizeof *one), *two = one + floats, *singly = two + floats;
    int ok = one != NULL;
    for (int threads = 1; ok && threads <= 2; threads++) {
        const rapt_context_options options = {.threads = threads, .isa = isa};
        encoder e = {.model = m};
        ok = rapt_context_create(&e.context, &options) == RAPT_OK &&
             check_embeddings(&e, r, c, threads == 1 ? one : two, singly) &&
             (threads > 1 || check_heads(&e, r, c));
        encoder_free(&e);
        rapt_context_destroy(e.context);
    }
    if (ok && memcmp(one, two, floats * sizeof *one) != 0) {
        printf("%s: two threads give other bits than one\n", isa);
        ok = 0;
    }
    free(one);
    return ok;
}

static int check_all(const model *m, const vocab *v, const reference *r, int isas) {
    const char *texts[64];
    const size_t count = json_array_size(r->sentences);
    corpus c;
    if (count > sizeof texts / sizeof *texts) { return 0; }
    for (size_t i = 0; i < count; i++) {
        texts[i] = json_string_value(json_object_get(json_array_get(r->sentences, i), "text"));
    }
    if (!corpus_make(&c, v, texts, (int64_t)count, m->config.longest)) { return 0; }
    int ok = reference_compare_ids(r, v) == 0;
    for (int i = 0, run = 0; rapt_isa_name(i) && run < isas; i++) {
        if (!rapt_isa_supported(rapt_isa_name(i))) { continue; }
        ok &= check_isa(m, r, &c, rapt_isa_name(i));
        run++;
    }
    corpus_free(&c);
    return ok;
}

int main(int argc, char **argv) {
    char folder[FILE_PATH_BYTES], words[FILE_PATH_BYTES];
    if (!locate_model(folder, NULL)) { return LOCATE_SKIPPED; }
    rapt_context *context = NULL;
    reference r = {0};
    vocab v = {0};
    model m = {0};
    const int isas = argc == 3 ? atoi(argv[2]) : INT_MAX;
    const int ok = argc >= 2 && rapt_context_create(&context, NULL) == RAPT_OK &&
                   reference_load(&r, argv[1]) && file_path(words, folder, "vocab.txt") &&
                   vocab_load(&v, words) && model_load(&m, context, folder) &&
                   check_all(&m, &v, &r, isas);
    model_free(&m);
    vocab_free(&v);
    reference_free(&r);
    rapt_context_destroy(context);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
