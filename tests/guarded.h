/* SPDX-License-Identifier: MIT
 * guarded.h: tensors of any layout in guarded memory, for suites about calls on a few tensors. */
#ifndef RAPT_TESTS_GUARDED_H
#define RAPT_TESTS_GUARDED_H

#include "guard.h"
#include "layout.h"
#include "rng.h"

#include <rapt/rapt.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero = absent (rank 0). */
typedef struct guarded {
    rapt_tensor t;
    guard_block memory;
    const char *name;
    bool output; /* may be written */
} guarded;

/* Lays a tensor out (anew), all elements 0; gaps of inputs hold NaN (or true). */
void guarded_place(guarded *g, const char *name, bool output, layout l, guard_side side,
                   rapt_dtype dtype, int32_t rank, const int64_t *size);
void guarded_free(guarded *g, int count);

/* Null if absent. */
const rapt_tensor *guarded_tensor(const guarded *g);

/* Standard normal numbers, or random truth. */
void guarded_fill(guarded *g, rng *r);
void guarded_set(guarded *g, float value);

/* Records what the tensors hold; later: false, with the reason, if anything changed but elements of
 * outputs, or anything at all if the call failed. */
void guarded_seal(const guarded *g, int count);
bool guarded_intact(const guarded *g, int count, bool failed, char *why, size_t why_bytes);

/* Elements of an f32 tensor in row-major order against `want` within `tol`. */
bool guarded_matches(const guarded *g, const double *want, const double *tol, char *why,
                     size_t why_bytes);

/* Sizes and strides of all tensors. The text lives until the next call. */
const char *guarded_text(const guarded *g, int count);

/* Elements of a tensor. */
int64_t guarded_count(const rapt_tensor *t);

/* ---- Numbers from the environment ---- */

/* Of the variable, or `otherwise`. */
uint64_t number_from(const char *variable, uint64_t otherwise);

#endif
