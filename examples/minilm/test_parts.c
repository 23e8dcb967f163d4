/* SPDX-License-Identifier: MIT
 * test_parts.c: what can be tested without the model's files: the tokenizer, on the part of the
 * vocabulary that the reference's strings use; the small layers, against double precision. */
#include "layers.h"
#include "pairs.h"
#include "reference.h"
#include "tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int failures;

static void expect(int ok, const char *what) {
    failures += !ok;
    printf("%s %s\n", ok ? "ok    " : "FAILED", what);
}

static void test_tokenizer(const reference *r) {
    vocab v;
    int32_t ids[4] = {-1, -1, -1, -1};
    expect(reference_vocab(r, &v), "vocabulary made");
    expect(reference_compare_ids(r, &v) == 0, "ids are the reference's");
    expect(tokenizer_encode(&v, "the lazy dog", 2, ids) == 2 && ids[0] == v.special[VOCAB_BEGIN] &&
               ids[1] == v.special[VOCAB_END] && ids[2] == -1,
           "a limit of 2 leaves [CLS] and [SEP], and writes no more");
    expect(tokenizer_encode(&v, "\xff\xc3", 4, ids) == 2 &&
               tokenizer_encode(&v, "the\xe2\x82", 4, ids) == 3,
           "bytes that are not UTF-8 are dropped");
    vocab_free(&v);
    const char *const words[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]"};
    expect(!vocab_create(&v, words, 4), "a vocabulary without [MASK] is refused");
}

/* Phi is within 2e-7, so the product within 2e-7 |x|, plus a rounding. */
static void test_gelu(void) {
    enum { STEPS = 40001 };
    static float x[STEPS + 3];
    double worst = 0;
    for (int i = 0; i < STEPS; i++) { x[i] = (float)(i - STEPS / 2) / 2000.0f; }
    x[STEPS] = INFINITY;
    x[STEPS + 1] = NAN;
    x[STEPS + 2] = -1e30f;
    layers_gelu(STEPS + 3, x);
    for (int i = 0; i < STEPS; i++) {
        const double in = (double)((float)(i - STEPS / 2) / 2000.0f);
        const double want = 0.5 * in * (1 + erf(in / sqrt(2)));
        const double error = fabs((double)x[i] - want) / (2.6e-7 * fabs(in) + 1e-30);
        worst = error <= worst ? worst : error;
    }
    expect(worst <= 1, "GELU on [-10, 10]");
    expect(x[STEPS] == INFINITY && isnan(x[STEPS + 1]), "GELU of infinity and NaN");
    expect(fabsf(x[STEPS + 2]) <= 2.6e-7f * 1e30f, "GELU far below");
}

/* Sums of a few dozen terms in f32: relative errors of some 1e-7 of the row's largest. */
static void test_norm_and_pool(void) {
    enum { ROWS = 3, WIDTH = 37 };
    float x[ROWS * WIDTH], y[ROWS * WIDTH], sum[ROWS * WIDTH], weight[WIDTH], bias[WIDTH];
    float mean_vector[WIDTH];
    const model_norm norm = {rapt_tensor_1d(RAPT_F32, weight, WIDTH),
                             rapt_tensor_1d(RAPT_F32, bias, WIDTH)};
    for (int i = 0; i < ROWS * WIDTH; i++) {
        x[i] = (float)((i * 29) % 53) * 0.1f - 2.0f;
        y[i] = (float)((i * 31) % 47) * 0.1f;
        sum[i] = x[i] + y[i];
    }
    for (int i = 0; i < WIDTH; i++) {
        weight[i] = 1.0f + 0.01f * (float)i;
        bias[i] = 0.5f - 0.02f * (float)i;
    }
    layers_add_norm(&norm, 1e-3, ROWS, x, y);
    double worst = 0;
    for (int row = 0; row < ROWS; row++) {
        const float *in = sum + row * WIDTH;
        double mean = 0, variance = 0;
        for (int i = 0; i < WIDTH; i++) { mean += (double)in[i] / WIDTH; }
        for (int i = 0; i < WIDTH; i++) { variance += pow((double)in[i] - mean, 2) / WIDTH; }
        for (int i = 0; i < WIDTH; i++) {
            const double unit = ((double)in[i] - mean) / sqrt(variance + 1e-3);
            const double want = unit * (double)weight[i] + (double)bias[i];
            const double error = fabs((double)x[row * WIDTH + i] - want);
            worst = error <= worst ? worst : error;
        }
    }
    expect(worst <= 2e-6, "x + y, normalised");

    double square = 0;
    layers_pool(2, WIDTH, sum, mean_vector);
    for (int i = 0; i < WIDTH; i++) { square += pow((double)mean_vector[i], 2); }
    const double first = (double)sum[0] + (double)sum[WIDTH];
    const double second = (double)sum[1] + (double)sum[WIDTH + 1];
    expect(fabs(square - 1) <= 1e-6 &&
               fabs((double)mean_vector[0] * second - (double)mean_vector[1] * first) <= 1e-6,
           "the pooled vector has unit length and the mean's direction");
}

/* More vectors than a block of pairs.c: points on a circle, at angles that are known. */
static void test_pairs(void) {
    enum { COUNT = 150, MOST = COUNT * (COUNT - 1) / 2 };
    static float vectors[COUNT][2];
    static pair best[MOST];
    int64_t found = MOST, none = 5, few = 2;
    rapt_context *context = NULL;
    for (int i = 0; i < COUNT; i++) {
        const double angle = 1e-4 * i * i; /* neighbours are closest at the beginning */
        vectors[i][0] = (float)cos(angle);
        vectors[i][1] = (float)sin(angle);
    }
    int ok = rapt_context_create(&context, NULL) == RAPT_OK &&
             pairs_find(context, vectors[0], COUNT, 2, best, &found) == RAPT_OK && found == MOST;
    for (int64_t i = 0; ok && i < MOST; i++) {
        const double difference =
            1e-4 * (double)(best[i].second * best[i].second - best[i].first * best[i].first);
        ok = best[i].first < best[i].second &&
             fabs((double)best[i].cosine - cos(difference)) <= 1e-6 &&
             (i == 0 || best[i].cosine <= best[i - 1].cosine);
    }
    expect(ok, "all pairs, most similar first");
    const pair last = best[MOST - 1];
    expect(last.first == 0 && last.second == COUNT - 1, "the least similar pair");
    expect(pairs_find(context, vectors[60], COUNT - 60, 2, best, &few) == RAPT_OK && few == 2 &&
               best[0].first == 0 && best[0].second == 1,
           "the best two");
    expect(pairs_find(context, vectors[0], 1, 2, best, &none) == RAPT_OK && none == 0,
           "one vector has no pair");
    rapt_context_destroy(context);
}

int main(int argc, char **argv) {
    reference r;
    if (argc != 2 || !reference_load(&r, argv[1])) { return EXIT_FAILURE; }
    test_tokenizer(&r);
    test_gelu();
    test_norm_and_pool();
    test_pairs();
    reference_free(&r);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
