/* SPDX-License-Identifier: MIT
 * norm.h: layer normalisation, forward and backward, in plain C on one thread.
 *
 *   y = (x - mean) / deviation * gain + bias        x, y [rows, width]; gain, bias [width]
 *   mean, deviation = sqrt(variance + 1e-5) of each row */
#ifndef TRAIN_NORM_H
#define TRAIN_NORM_H

#include <stdint.h>

enum { NORM_WIDEST = 1024 }; /* widest row */

/* For backward: unit [rows, width] = (x - mean) / deviation, inverse [rows] = 1 / deviation. */
void norm_forward(int64_t rows, int64_t width, const float *x, const float *gain, const float *bias,
                  float *unit, float *inverse, float *y);

/* dx += the gradient by x; dgain and dbias likewise. */
void norm_backward(int64_t rows, int64_t width, const float *dy, const float *gain,
                   const float *unit, const float *inverse, float *dx, float *dgain, float *dbias);

#endif
