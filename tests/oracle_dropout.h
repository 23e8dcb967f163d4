/* SPDX-License-Identifier: MIT
 * oracle_dropout.h: which weights dropout keeps, from the published Philox 4x32-10 and the formula
 * of rapt/random.h; nothing of the library's. */
#ifndef RAPT_TESTS_ORACLE_DROPOUT_H
#define RAPT_TESTS_ORACLE_DROPOUT_H

#include <rapt/rapt.h>

#include <stdbool.h>
#include <stdint.h>

/* Whether the call drops anything: in training with p > 0. */
bool oracle_drops(const rapt_attention *what);

/* keep[b,h,i,j] / (1 - p) of a call that drops; 0 for p = 1. `heads` is Hq; `keep` may be null. */
double oracle_kept(const rapt_attention *what, const rapt_tensor *keep, int64_t heads, int64_t b,
                   int64_t h, int64_t i, int64_t j);

/* The generated decision for one weight. */
bool oracle_philox_keep(const rapt_dropout *dropout, uint64_t item, uint64_t query, uint64_t key);

void oracle_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
