/* SPDX-License-Identifier: MIT
 * layers.h: the small layers around attention and projections, in plain C on one thread. All
 * arrays are f32, row-major; none may overlap another. */
#ifndef MINILM_LAYERS_H
#define MINILM_LAYERS_H

#include "model.h"

#include <stdint.h>

/* x[width] = word[id] + position[p] + type[0] */
void layers_embed(const model *m, int32_t id, int64_t position, float *x);

/* Each of the rows x[rows][width] = norm(x + y) * weight + bias; y null: norm(x). */
void layers_add_norm(const model_norm *norm, double epsilon, int64_t rows, float *x,
                     const float *y);

/* x[n] = x * Phi(x) = x / 2 * (1 + erf(x / sqrt(2))), Phi within 2e-7. */
void layers_gelu(int64_t n, float *x);

/* out[width] = the mean of the rows x[rows][width], rows >= 1, at unit length. */
void layers_pool(int64_t rows, int64_t width, const float *x, float *out);

#endif
