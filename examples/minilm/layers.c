/* SPDX-License-Identifier: MIT
 * layers.c: loops that a compiler vectorises without being allowed to reorder sums: sums run in
 * LANES separate totals. */
#include "layers.h"

#include <math.h>

enum { LANES = 16 };

static const float *row_of(const rapt_tensor *table, int64_t row) {
    return (const float *)table->data + row * table->stride[0];
}

static float total(const float lane[LANES]) {
    float sum = 0;
    for (int i = 0; i < LANES; i++) { sum += lane[i]; }
    return sum;
}

static float sum_of(const float *x, int64_t n) {
    float lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) { lane[j] += x[i + j]; }
    }
    for (; i < n; i++) { lane[i % LANES] += x[i]; }
    return total(lane);
}

/* The sum of (x - mean)^2. */
static float spread_of(const float *x, int64_t n, float mean) {
    float lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            const float d = x[i + j] - mean;
            lane[j] += d * d;
        }
    }
    for (; i < n; i++) { lane[i % LANES] += (x[i] - mean) * (x[i] - mean); }
    return total(lane);
}

void layers_embed(const model *m, int32_t id, int64_t position, float *x) {
    const float *word = row_of(&m->words, id), *place = row_of(&m->positions, position);
    const float *type = row_of(&m->types, 0);
    for (int64_t i = 0; i < m->config.width; i++) { x[i] = word[i] + place[i] + type[i]; }
}

void layers_add_norm(const model_norm *norm, double epsilon, int64_t rows, float *x,
                     const float *y) {
    const float *restrict weight = norm->weight.data, *restrict bias = norm->bias.data;
    const int64_t width = norm->weight.size[0];
    for (int64_t row = 0; row < rows; row++, x += width) {
        for (int64_t i = 0; y && i < width; i++) { x[i] += y[row * width + i]; }
        const float mean = sum_of(x, width) / (float)width;
        const double variance = (double)spread_of(x, width, mean) / (double)width;
        const float scale = (float)(1 / sqrt(variance + epsilon));
        for (int64_t i = 0; i < width; i++) { x[i] = (x[i] - mean) * scale * weight[i] + bias[i]; }
    }
}

/* erf within 4e-7: an odd rational minimax fit on [-4, 4], beyond which erf rounds to +-1. libm's
 * erff is not vectorised and took a third of the model's time. */
static inline float erf_near(float x) {
    x = x < -4.0f ? -4.0f : x;
    x = x > 4.0f ? 4.0f : x;
    const float t = x * x;
    float p = 1.97482859e-06f, q = 3.74809097e-05f;
    p = p * t + 2.88042618e-04f;
    q = q * t + 1.21636933e-03f;
    p = p * t + 4.00368078e-03f;
    q = q * t + 1.54444901e-02f;
    p = p * t + 5.34675829e-02f;
    q = q * t + 1.16476744e-01f;
    p = p * t + 1.96249738e-01f;
    q = q * t + 5.07252991e-01f;
    p = p * t + 1.12837899e+00f;
    q = q * t + 1.0f;
    return x * p / q;
}

void layers_gelu(int64_t n, float *x) {
    const float root_half = 0.707106781f;
    for (int64_t i = 0; i < n; i++) { x[i] = 0.5f * x[i] * (1.0f + erf_near(x[i] * root_half)); }
}

void layers_pool(int64_t rows, int64_t width, const float *x, float *out) {
    double square = 0;
    for (int64_t i = 0; i < width; i++) { out[i] = x[i]; }
    for (int64_t row = 1; row < rows; row++) {
        for (int64_t i = 0; i < width; i++) { out[i] += x[row * width + i]; }
    }
    for (int64_t i = 0; i < width; i++) { square += (double)out[i] * (double)out[i]; }
    /* The mean's divisor falls away with the length; a zero vector stays one, as in PyTorch. */
    const float scale = square > 0 ? (float)(1 / sqrt(square)) : 0.0f;
    for (int64_t i = 0; i < width; i++) { out[i] *= scale; }
}
