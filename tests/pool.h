/* SPDX-License-Identifier: MIT
 * pool.h: dense tensors that live until the end of the test, for suites that make many small ones.
 * Guarded memory and layouts are in problem.h. */
#ifndef RAPT_TESTS_POOL_H
#define RAPT_TESTS_POOL_H

#include "rng.h"

#include <rapt/rapt.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Filled with a canary. */
rapt_tensor pool_tensor(rapt_dtype dtype, int32_t rank, const int64_t *size);

/* POOL_F32(2, 6, 3): an f32 tensor of those sizes. */
#define POOL_SIZES(...)                                                                            \
    (const int64_t[]) { __VA_ARGS__ }
#define POOL_RANK(...) (int32_t)(sizeof(POOL_SIZES(__VA_ARGS__)) / sizeof(int64_t))
#define POOL_F32(...) pool_tensor(RAPT_F32, POOL_RANK(__VA_ARGS__), POOL_SIZES(__VA_ARGS__))
#define POOL_BOOL(...) pool_tensor(RAPT_BOOL, POOL_RANK(__VA_ARGS__), POOL_SIZES(__VA_ARGS__))
#define POOL_I32(...) pool_tensor(RAPT_I32, POOL_RANK(__VA_ARGS__), POOL_SIZES(__VA_ARGS__))

/* The same, standard normal numbers. */
rapt_tensor pool_normal(rng *r, int32_t rank, const int64_t *size);
#define POOL_NORMAL(r, ...) pool_normal(r, POOL_RANK(__VA_ARGS__), POOL_SIZES(__VA_ARGS__))

int64_t pool_count(const rapt_tensor *t); /* elements */
bool pool_untouched(const rapt_tensor *t);
void pool_clear(rapt_tensor *t); /* puts the canary back */

/* Fails the test unless both f32 tensors, of any strides, have the same sizes and bits. `line` is
 * the asking line. */
void pool_same_bits(const rapt_tensor *a, const rapt_tensor *b, int line);

/* Largest |a - b|, NaN if any is NaN; the sizes must agree. */
double pool_distance(const rapt_tensor *a, const rapt_tensor *b);

/* Gives all memory back. */
void pool_free(void);

#endif
