/* SPDX-License-Identifier: MIT
 * main.c: a pretrained sentence encoder on real text. Prints the lines of a text that are most
 * alike, and how many sentences a second one and two threads embed; writes the attention weights
 * of one sentence for scripts/plot_heads.py. Exit code 77: the model's files are not there. */
#include "corpus.h"
#include "heads.h"
#include "locate.h"
#include "options.h"
#include "pairs.h"

#include <stdio.h>
#include <stdlib.h>

/* One thread count: its context and memory. */
static int open_encoder(encoder *e, const model *m, int threads) {
    const rapt_context_options options = {.threads = threads};
    *e = (encoder){.model = m};
    if (rapt_context_create(&e->context, &options) == RAPT_OK) { return 1; }
    fprintf(stderr, "%s\n", rapt_context_message(e->context));
    rapt_context_destroy(e->context);
    return 0;
}

static void close_encoder(encoder *e) {
    encoder_free(e);
    rapt_context_destroy(e->context);
}

static int print_pairs(rapt_context *context, const text_lines *text, const float *vectors,
                       int64_t width, int64_t most) {
    pair *best = calloc((size_t)most + 1, sizeof *best);
    int64_t found = most;
    rapt_status status = RAPT_ERR_MEMORY;
    if (best) { status = pairs_find(context, vectors, (int64_t)text->count, width, best, &found); }
    if (status != RAPT_OK) {
        fprintf(stderr, "%s %s\n", rapt_status_name(status), rapt_context_message(context));
    } else if (found > 0) {
        printf("\nmost similar lines, by cosine\n");
        for (int64_t i = 0; i < found; i++) {
            const int64_t first = best[i].first, second = best[i].second;
            printf("  %.3f %4d  %s\n        %4d  %s\n", (double)best[i].cosine, (int)first + 1,
                   text->line[first], (int)second + 1, text->line[second]);
        }
    }
    free(best);
    return status == RAPT_OK;
}

/* Embeds all lines again and again; the fastest round counts. */
static int print_speed(const model *m, const corpus *c, const minilm_options *o, float *vectors) {
    printf("\nthreads  sentences/s  tokens/s  inside rapt\n");
    for (int threads = 1; threads <= 2; threads++) {
        encoder e;
        double best = 0, share = 0, spent = 0;
        if (!open_encoder(&e, m, threads)) { return 0; }
        rapt_status status = RAPT_OK;
        for (int round = 0; (round < 2 || spent < o->seconds) && status == RAPT_OK; round++) {
            e.seconds = e.rapt_seconds = 0;
            status = encoder_embed(&e, c->sentence, c->count, o->batch, vectors);
            spent += e.seconds;
            if (round && (best == 0 || e.seconds < best)) {
                best = e.seconds;
                share = e.rapt_seconds / e.seconds;
            }
        }
        close_encoder(&e);
        if (status != RAPT_OK) { return 0; }
        printf("%7d  %11.0f  %8.0f  %9.0f %%\n", threads, (double)c->count / best,
               (double)c->tokens / best, 100 * share);
    }
    return 1;
}

static int write_heads(encoder *e, const vocab *v, const corpus *c, const minilm_options *o) {
    if (o->line > c->count || o->layer >= e->model->config.layers) {
        fprintf(stderr, "minilm: no line %d or no layer %d\n", o->line, o->layer);
        return 0;
    }
    return heads_write(e, v, &c->sentence[o->line - 1], o->layer, o->json);
}

static int run(encoder *e, const vocab *v, const text_lines *text, const minilm_options *o) {
    const model_config *config = &e->model->config;
    const int64_t count = (int64_t)text->count;
    if (count == 0) {
        fprintf(stderr, "minilm: the text has no line\n");
        return 0;
    }
    float *vectors = calloc(text->count * (size_t)config->width + 1, sizeof *vectors);
    corpus c = {0};
    int ok = vectors &&
             corpus_make(&c, v, (const char *const *)text->line, count, config->longest) &&
             encoder_embed(e, c.sentence, count, o->batch, vectors) == RAPT_OK;
    if (ok) {
        printf("%d lines, %d tokens; %d layers of %d heads, %d features; instruction set %s\n",
               (int)count, (int)c.tokens, (int)config->layers, (int)config->heads,
               (int)config->width, rapt_context_isa(e->context));
        ok = print_pairs(e->context, text, vectors, config->width, o->pairs) &&
             (o->seconds == 0 || print_speed(e->model, &c, o, vectors)) &&
             (!o->json || write_heads(e, v, &c, o));
    }
    corpus_free(&c);
    free(vectors);
    return ok;
}

/* With the model in `folder`. */
static int run_model(const char *folder, const text_lines *text, const minilm_options *o) {
    char path[FILE_PATH_BYTES];
    vocab v = {0};
    model m = {0};
    encoder e;
    if (!open_encoder(&e, &m, 0)) { return 0; }
    int ok = file_path(path, folder, "vocab.txt") && vocab_load(&v, path) &&
             model_load(&m, e.context, folder);
    if (ok && v.size > m.config.words) {
        fprintf(stderr, "%s: more words than the model's %d\n", path, (int)m.config.words);
        ok = 0;
    }
    ok = ok && run(&e, &v, text, o);
    model_free(&m);
    vocab_free(&v);
    close_encoder(&e);
    return ok;
}

int main(int argc, const char **argv) {
    minilm_options o;
    char folder[FILE_PATH_BYTES];
    text_lines text = {0};
    int code = EXIT_FAILURE;
    if (minilm_options_parse(&o, argc, argv)) {
        if (!locate_model(folder, o.folder)) {
            code = LOCATE_SKIPPED;
        } else if (text_lines_read(&text, o.text ? o.text : MINILM_TEXT)) {
            code = run_model(folder, &text, &o) ? EXIT_SUCCESS : EXIT_FAILURE;
        }
    }
    text_lines_free(&text);
    minilm_options_free(&o);
    return code;
}
