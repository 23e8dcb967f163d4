/* SPDX-License-Identifier: MIT
 * context.h: the inside of a context, and how library code fails and gets scratch memory. */
#ifndef RAPTI_CONTEXT_H
#define RAPTI_CONTEXT_H

#include "kernels.h"
#include "numbers.h"

#include <rapt/rapt.h>

enum { RAPTI_MESSAGE_BYTES = 256, RAPTI_ALIGNMENT = 64 };
enum { RAPTI_LINE = RAPTI_ALIGNMENT / (int)sizeof(float) }; /* floats of a cache line */

/* At least so many floats, in an odd number of cache lines: rows an even number apart would meet in
 * few sets of the caches, down a column. */
static inline int64_t rapti_odd_lines(int64_t floats) {
    return (rapti_divide_up(floats, RAPTI_LINE) | 1) * RAPTI_LINE;
}

/* Rounded up to RAPTI_ALIGNMENT. Precondition: bytes <= SIZE_MAX - RAPTI_ALIGNMENT + 1. */
static inline size_t rapti_aligned(size_t bytes) {
    return (bytes + RAPTI_ALIGNMENT - 1) / RAPTI_ALIGNMENT * RAPTI_ALIGNMENT;
}

struct rapt_context {
    const rapti_kernels *kernels; /* null in a context whose creation failed */
    int32_t threads;
    rapt_allocator allocator;
    void *scratch; /* kept from call to call, grown on demand */
    size_t scratch_bytes;
    char message[RAPTI_MESSAGE_BYTES];
};

/* Threads, from 1 to the context's, for work that is worth so many. */
int32_t rapti_threads_worth(const rapt_context *context, double threads);

/* Sets the context's message and returns `status`. */
__attribute__((format(printf, 3, 4))) rapt_status
rapti_fail(rapt_context *context, rapt_status status, const char *format, ...);

/* Scratch of at least `bytes`, 64-byte aligned: the caller's if given, else the context's own.
 * RAPT_ERR_SCRATCH or RAPT_ERR_MEMORY if there is none. */
rapt_status rapti_context_scratch(rapt_context *context, void *callers, size_t callers_bytes,
                                  size_t bytes, void **scratch);

/* Memory of the context's allocator, 64-byte aligned, for what outlives the call; null if there is
 * none. */
void *rapti_context_allocate(rapt_context *context, size_t bytes);
void rapti_context_release(rapt_context *context, void *memory);

#endif
