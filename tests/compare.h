/* SPDX-License-Identifier: MIT
 * compare.h: comparators. They fail on every NaN mismatch and skip no element. Each returns true
 * or writes to `why` what differs, and where. */
#ifndef RAPT_TESTS_COMPARE_H
#define RAPT_TESTS_COMPARE_H

#include "oracle.h"

#include <rapt/rapt.h>

#include <stdbool.h>
#include <stddef.h>

/* One value: NaN wants NaN, infinity the same infinity, else |got - want| <= tol. */
bool compare_value(double got, double want, double tol);

/* out and lse, where not null, against the oracle within its bounds. `worst`, if given, is raised
 * to the largest share of a bound that was used up. */
bool compare_oracle(const rapt_tensor *out, const rapt_tensor *lse, const oracle *o, double *worst,
                    char *why, size_t why_bytes);

/* The same for weights: any NaN where the oracle has one, exactly 0 where that has 0. */
bool compare_weights(const rapt_tensor *weights, const oracle *o, double *worst, char *why,
                     size_t why_bytes);

/* Any f32 tensor against row-major numbers and bounds. */
bool compare_array(const char *name, const rapt_tensor *t, const double *want, const double *tol,
                   double *worst, char *why, size_t why_bytes);

/* Two f32 tensors of the same sizes, any strides: bit by bit, but any NaN equals any other. */
bool compare_bits(const rapt_tensor *a, const rapt_tensor *b, char *why, size_t why_bytes);

#endif
