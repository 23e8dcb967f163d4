/* SPDX-License-Identifier: MIT
 * data.c: makes the data of rows (data.h). */
#define _DEFAULT_SOURCE
#include "data.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

/* xorshift64* (Vigna 2016) */
static uint64_t next_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

/* Sum of four uniform numbers, scaled to variance 1: close to a normal number, and cheap. */
static float next_normal(uint64_t *state) {
    const uint64_t r = next_random(state);
    const int64_t sum =
        (int64_t)((r & 0xFFFF) + (r >> 16 & 0xFFFF) + (r >> 32 & 0xFFFF) + (r >> 48)) - 2 * 0xFFFF;
    return (float)((double)sum * (1.7320508075688772 / 65536));
}

static uint64_t first_state(uint64_t seed) { return seed * UINT64_C(0x9E3779B97F4A7C15); }

static int64_t elements(const rapt_tensor *t) {
    int64_t n = 1;
    for (int axis = 0; axis < t->rank; axis++) { n *= t->size[axis]; }
    return n;
}

static void *take(size_t bytes) {
    const size_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : 64;
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void *memory = aligned_alloc(alignment, rounded);
#if defined(MADV_HUGEPAGE)
    if (memory && alignment == HUGE_PAGE) { (void)madvise(memory, rounded, MADV_HUGEPAGE); }
#endif
    return memory;
}

rapt_tensor bench_data_allocate(rapt_dtype dtype, int32_t rank, const int64_t *size) {
    rapt_tensor t = rapt_tensor_contiguous(dtype, NULL, rank, size);
    t.data = take((size_t)(elements(&t) * rapt_dtype_bytes(dtype)));
    return t;
}

rapt_tensor bench_data_normal(uint64_t seed, int32_t rank, const int64_t *size) {
    rapt_tensor t = bench_data_allocate(RAPT_F32, rank, size);
    float *x = t.data;
    uint64_t state = first_state(seed);
    for (int64_t i = 0; x && i < elements(&t); i++) { x[i] = next_normal(&state); }
    return t;
}

rapt_tensor bench_data_mask(uint64_t seed, int32_t rank, const int64_t *size) {
    rapt_tensor t = bench_data_allocate(RAPT_BOOL, rank, size);
    uint8_t *x = t.data;
    uint64_t state = first_state(seed);
    for (int64_t i = 0; x && i < elements(&t); i++) { x[i] = next_random(&state) >> 62 != 0; }
    return t;
}

void bench_data_spoil(const rapt_tensor *t) {
    float *x = t->data;
    for (int64_t i = 0; i < elements(t); i++) { x[i] = NAN; }
}

int64_t bench_data_choose(uint64_t *state, int64_t below) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((*state >> 16) % (uint64_t)below);
}
