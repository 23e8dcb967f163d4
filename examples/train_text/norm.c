/* SPDX-License-Identifier: MIT
 * norm.c: sums run in LANES separate totals, which a compiler can keep in vectors without being
 * allowed to reorder a sum. */
#include "norm.h"

#include <math.h>
#include <stddef.h>

enum { LANES = 16 };

/* The sum of a[i] b[i], or of a[i] if b is null. */
static float sum_of(int64_t n, const float *restrict a, const float *restrict b) {
    float lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; b && i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) { lane[j] += a[i + j] * b[i + j]; }
    }
    for (; !b && i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) { lane[j] += a[i + j]; }
    }
    for (; i < n; i++) { lane[0] += b ? a[i] * b[i] : a[i]; }
    for (int j = 0; j < LANES; j++) { sum += lane[j]; }
    return sum;
}

void norm_forward(int64_t rows, int64_t width, const float *x, const float *gain, const float *bias,
                  float *unit, float *inverse, float *y) {
    const float epsilon = 1e-5f;
    for (int64_t row = 0; row < rows; row++, x += width, unit += width, y += width) {
        const float mean = sum_of(width, x, NULL) / (float)width;
        for (int64_t i = 0; i < width; i++) { unit[i] = x[i] - mean; }
        const float variance = sum_of(width, unit, unit) / (float)width;
        const float scale = 1 / sqrtf(variance + epsilon);
        for (int64_t i = 0; i < width; i++) {
            unit[i] *= scale;
            y[i] = unit[i] * gain[i] + bias[i];
        }
        inverse[row] = scale;
    }
}

/* With u = dy gain:  dx = inverse (u - mean(u) - unit mean(u unit)). */
void norm_backward(int64_t rows, int64_t width, const float *dy, const float *gain,
                   const float *unit, const float *inverse, float *dx, float *dgain, float *dbias) {
    for (int64_t row = 0; row < rows; row++, dy += width, unit += width, dx += width) {
        float u[NORM_WIDEST];
        for (int64_t i = 0; i < width; i++) {
            u[i] = dy[i] * gain[i];
            dgain[i] += dy[i] * unit[i];
            dbias[i] += dy[i];
        }
        const float mean = sum_of(width, u, NULL) / (float)width;
        const float slope = sum_of(width, u, unit) / (float)width;
        for (int64_t i = 0; i < width; i++) {
            dx[i] += inverse[row] * (u[i] - mean - unit[i] * slope);
        }
    }
}
