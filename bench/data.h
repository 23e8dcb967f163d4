/* SPDX-License-Identifier: MIT
 * data.h: tensors of standard normal numbers for rows: the same on every machine, in every run. */
#ifndef BENCH_DATA_H
#define BENCH_DATA_H

#include <rapt/rapt.h>

/* Contiguous tensors, to be freed with free(t.data); data is null if memory ran out. Large ones ask
 * for huge pages: where small ones happen to lie changes times by 2 %. */
rapt_tensor bench_data_allocate(rapt_dtype dtype, int32_t rank, const int64_t *size);
rapt_tensor bench_data_normal(uint64_t seed, int32_t rank, const int64_t *size);

/* Bool: three quarters of the entries are true. */
rapt_tensor bench_data_mask(uint64_t seed, int32_t rank, const int64_t *size);

/* Fills an output with NaN, so that what is verified next was written by this call. */
void bench_data_spoil(const rapt_tensor *t);

/* A sequence of numbers below `below`, for choosing what to verify. Starts at *state = 1. */
int64_t bench_data_choose(uint64_t *state, int64_t below);

#endif
