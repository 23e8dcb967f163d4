/* SPDX-License-Identifier: MIT
 * golden.h: the numbers of Raschka's chapter 3 (data/raschka-ch3.json), by path:
 * "derived/rand_seed_123/W_key/values". A number or nested lists of numbers; null stands for minus
 * infinity. */
#ifndef RAPT_TESTS_GOLDEN_H
#define RAPT_TESTS_GOLDEN_H

#include <rapt/rapt.h>

#include <stdint.h>

double golden_number(const char *path);

/* As a tensor in the pool (pool.h). */
rapt_tensor golden_tensor(const char *path);

/* Each fails the test unless `got` (f32, any strides) has the sizes of the list at `path` and:
 *   printed   each element rounds to the printed 4 decimals. 4e-7 is for numbers that lie that
 *             close to the middle between two, where rounding in f32 may tip them over.
 *   derived   |got - want| <= tolerance
 *   bits      the list "float32_bits" beside it, in row-major order, holds the very bits */
void golden_printed(const rapt_tensor *got, const char *path, int line);
void golden_derived(const rapt_tensor *got, const char *path, double tolerance, int line);
void golden_bits(const rapt_tensor *got, const char *path, int line);

/* Largest difference: for numbers that must not be met. */
double golden_distance(const rapt_tensor *got, const char *path);

#endif
