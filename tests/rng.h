/* SPDX-License-Identifier: MIT
 * rng.h: seeded random numbers for tests (splitmix64, Steele, Lea and Flood 2014). Every random
 * decision of a test comes from one of these, so that a printed seed brings a case back. */
#ifndef RAPT_TESTS_RNG_H
#define RAPT_TESTS_RNG_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rng {
    uint64_t state;
} rng;

/* A generator of its own for each (seed, stream). */
rng rng_make(uint64_t seed, uint64_t stream);

uint64_t rng_next(rng *r);

/* Uniform in lo..hi, both included. */
int64_t rng_range(rng *r, int64_t lo, int64_t hi);

/* True in `percent` of 100 draws. */
bool rng_chance(rng *r, int percent);

/* Uniform in [lo, hi). */
double rng_uniform(rng *r, double lo, double hi);

/* Mean 0, variance 1, bounded by 3.47: the scaled sum of four uniform numbers. */
double rng_normal(rng *r);

#endif
