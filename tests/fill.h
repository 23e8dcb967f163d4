/* SPDX-License-Identifier: MIT
 * fill.h: values for the tensors of a problem. */
#ifndef RAPT_TESTS_FILL_H
#define RAPT_TESTS_FILL_H

#include "problem.h"
#include "rng.h"

#include <stdint.h>

/* Kinds of random data. */
typedef enum fill_kind {
    FILL_NORMAL, /* mean 0, variance 1 */
    FILL_LARGE,  /* up to about 60: scores in the thousands */
    FILL_TINY,   /* 1e-20: products underflow; denormals among them */
    FILL_EQUAL,  /* -1, 0 and 1: many ties */
    FILL_MIXED,  /* magnitudes from 1e-3 to 1e3 */
    FILL_SPIKE,  /* mostly 0, now and then 30: one key takes it all */
    FILL_COUNT
} fill_kind;

float fill_value(rng *r, fill_kind kind);

/* Every element of one f32 operand. */
void fill_random(problem *p, operand_id id, rng *r, fill_kind kind);
void fill_constant(problem *p, operand_id id, float value);

/* Bytes of a mask or pattern: some 1 .. 255 in `percent` of 100, else 0; or all 0. */
void fill_bools(problem *p, operand_id id, rng *r, int percent);
void fill_none(problem *p, operand_id id);

/* Copies a mask, bias or pattern of rank 1 to 4 to its full shape in another problem. */
void fill_expanded(problem *to, const problem *from, operand_id id);

/* v[b,h,j,d] = (j == d): out is then the weights (Dv = Tk). */
void fill_identity(problem *p);
/* v[b,h,j,d] = j. */
void fill_ramp(problem *p);

/* q, k, v normal from one seed. */
void fill_normal(problem *p, uint64_t seed);

/* Copies values, not layouts: all operands that both problems have. Sizes must agree. */
void fill_copy(problem *to, const problem *from);

/* Sets rows [begin, end) of the second last axis of K and V, all batches and heads. */
void fill_keys(problem *p, int64_t begin, int64_t end, float value);

/* Sets one element of a mask of rank 4. */
void mask_set(problem *p, int64_t b, int64_t h, int64_t i, int64_t j, uint8_t value);

#endif
