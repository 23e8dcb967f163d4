/* SPDX-License-Identifier: MIT
 * test_train.c: a short run learns; the same seed gives the same file with 1 and 2 threads. */
#include "train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 32, BATCH = 8, STEPS = 60, FEW_STEPS = 6, FILE_BYTES = 1 << 20 };

static int failures;

static void expect(int ok, const char *what) {
    failures += !ok;
    printf("%s %s\n", ok ? "ok    " : "FAILED", what);
}

typedef struct course {
    int threads;
    uint64_t seed;
    int64_t steps;
} course;

/* A model trained that way, in a file. */
static void make(const text *t, const bigram *line, course c, const char *path,
                 train_curve *curve) {
    const model_config config = {
        .symbols = t->symbols, .context = CONTEXT, .width = 32, .heads = 4, .dropout = 0.1};
    const train_options how = {
        .steps = c.steps, .seed = c.seed, .batch = BATCH, .rate = 0.01, .quiet = 1};
    const rapt_context_options options = {.threads = c.threads};
    rapt_context *context = NULL;
    rapt_generator generator;
    model m;
    rapt_generator_seed(&generator, c.seed);
    if (rapt_context_create(&context, &options) != RAPT_OK ||
        model_create(&m, context, &config, &generator) != RAPT_OK) {
        exit(EXIT_FAILURE);
    }
    expect(train(context, &m, t, line, &how, curve) && model_save(&m, path), path);
    model_free(&m);
    rapt_context_destroy(context);
}

static size_t read_file(const char *path, char *bytes) {
    FILE *file = fopen(path, "rb");
    const size_t count = file ? fread(bytes, 1, FILE_BYTES, file) : 0;
    if (file) { fclose(file); }
    return count;
}

static int same_files(const char *one, const char *two) {
    static char a[FILE_BYTES], b[FILE_BYTES];
    const size_t count = read_file(one, a);
    return count > 1000 && count < FILE_BYTES && count == read_file(two, b) &&
           memcmp(a, b, count) == 0;
}

static void test_learns(const bigram *line, const train_curve *c) {
    const train_point *first = &c->point[0], *last = &c->point[c->count - 1];
    printf("       held-out %.3f to %.3f; single characters %.3f, pairs %.3f\n", first->held_out,
           last->held_out, line->singles, line->pairs);
    expect(c->count == TRAIN_POINTS && last->step == STEPS, "a point at each 20th of the run");
    expect(last->held_out < first->held_out - 1, "the held-out loss falls");
    expect(last->training < c->point[1].training - 1, "so does that of the batches");
    expect(last->held_out < line->singles - 0.2, "below the table of single characters");
}

int main(void) {
    const char *const one = "train_text_1.safetensors", *const two = "train_text_2.safetensors";
    const char *const other = "train_text_other.safetensors";
    text t;
    bigram line;
    train_curve curve = {0};
    if (!text_read(&t, TRAIN_TEXT, 0.99, CONTEXT + 1) || !bigram_count(&line, &t)) {
        return EXIT_FAILURE;
    }
    make(&t, &line, (course){2, 1, STEPS}, one, &curve);
    test_learns(&line, &curve);
    make(&t, &line, (course){2, 1, FEW_STEPS}, two, &curve);
    make(&t, &line, (course){1, 1, FEW_STEPS}, one, &curve);
    expect(same_files(one, two), "1 and 2 threads: the same bits");
    make(&t, &line, (course){2, 2, FEW_STEPS}, other, &curve);
    expect(!same_files(other, two), "another seed: others");
    text_free(&t);
    remove(one);
    remove(two);
    remove(other);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
