/* SPDX-License-Identifier: MIT
 * numbers.h: small functions of integers. */
#ifndef RAPTI_NUMBERS_H
#define RAPTI_NUMBERS_H

#include <stdint.h>

static inline int64_t rapti_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t rapti_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* x, but not below `low` and not above `high`; `low` if low > high. */
static inline int64_t rapti_clamp(int64_t x, int64_t low, int64_t high) {
    return rapti_max(low, rapti_min(x, high));
}

/* a / b rounded up. Precondition: a >= 0, b > 0; no such a and b overflow. */
static inline int64_t rapti_divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/* The first multiple of b from a on. Precondition: a >= 0, b > 0, a <= INT64_MAX - b + 1. */
static inline int64_t rapti_round_up(int64_t a, int64_t b) { return rapti_divide_up(a, b) * b; }

#endif
