/* SPDX-License-Identifier: MIT
 * rapt/context.h: a context holds what a call needs besides its operands: the choice of instruction
 * set, the thread count, scratch memory that is reused from call to call, and the last message.
 *
 * Threads: a context serves one call at a time; any number of threads may work at once, each with a
 * context of its own. Calls inside a caller's OpenMP parallel region work (and run on one thread,
 * unless the caller enabled nesting). Results are bitwise the same for every thread count.
 * On a machine whose cores are busy with other work, OpenMP's threads that wait by spinning make
 * calls with little to do many times slower; OMP_WAIT_POLICY=passive in the environment helps.
 * Nothing of the process is changed: no OpenMP setting, affinity, environment variable, signal
 * handler or floating-point mode.
 *
 * fork(): libgomp cannot start a team in a child whose parent had one. In a process other than the
 * one that created the first context, calls therefore run on one thread; the results are the same.
 * A child of a process that used OpenMP, but never rapt, should create its context with
 * threads = 1. */
#ifndef RAPT_CONTEXT_H
#define RAPT_CONTEXT_H

#include "attention.h"
#include "export.h"
#include "status.h"
#include "tensor.h"
#include "version.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the context's memory comes from; both null = posix_memalign (with huge pages for large
 * blocks, where the system gives them) and free. `allocate` returns memory aligned to `alignment`
 * (a power of two <= 64) or null; other memory is given back and counts as null. Both are called
 * only from the thread that makes the call, never inside a parallel region. */
typedef struct rapt_allocator {
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *memory);
    void *user;
} rapt_allocator;

/* All zero = the defaults. */
typedef struct rapt_context_options {
    int32_t threads; /* most threads a call may use; 0: what OpenMP would use, but no more than the
                        CPUs of the process's affinity mask and its container's quota (cgroup v2).
                        Range 0 .. 4096 */
    const char *isa; /* force an instruction set by name; null: environment variable RAPT_ISA, and
                        without it the best that this machine supports */
    rapt_allocator allocator;
} rapt_context_options;

/* Creates a context. `options` may be null.
 *
 * Errors: RAPT_ERR_ARGUMENT, RAPT_ERR_ISA, RAPT_ERR_VERSION, RAPT_ERR_MEMORY. On every error but
 * RAPT_ERR_MEMORY, *context is a context that can only give its message and be destroyed (other
 * calls return RAPT_ERR_ARGUMENT); on RAPT_ERR_MEMORY, and if `context` is null, there is none. */
static inline rapt_status rapt_context_create(rapt_context **context,
                                              const rapt_context_options *options);

/* Frees the context and its scratch memory. Null is ignored. */
RAPT_API void rapt_context_destroy(rapt_context *context);

/* The message of the context's last failed call, one line, never null ("" if none failed yet).
 * Valid until the next call with this context. For a null context, a fixed text. */
RAPT_API const char *rapt_context_message(const rapt_context *context);

/* The instruction set that this context's calls run, "avx512"; the thread count they may use. */
RAPT_API const char *rapt_context_isa(const rapt_context *context);
RAPT_API int32_t rapt_context_threads(const rapt_context *context);

/* Frees scratch memory that the context kept for reuse. The next call allocates again. */
RAPT_API void rapt_context_trim(rapt_context *context);

/* ---- The instruction sets of this binary, best first. ---- */

/* Name of the index-th, null past the end: "avx512", "avx2", "scalar" on x86-64. */
RAPT_API const char *rapt_isa_name(int32_t index);

/* 1 if the CPU and the operating system support the named set, else 0 (unknown names too). */
RAPT_API int32_t rapt_isa_supported(const char *name);

/* Version of the library that is linked, as RAPT_VERSION is that of the headers. */
RAPT_API int32_t rapt_version(void);

/* ---- Layout check: as zlib does, a caller compiled against other structs is refused. ---- */

typedef struct rapt_layout {
    uint32_t version, tensor, attention, operands, info, options;
} rapt_layout;

RAPT_API rapt_status rapt_context_create_checked(rapt_context **context,
                                                 const rapt_context_options *options,
                                                 const rapt_layout *layout);

static inline rapt_status rapt_context_create(rapt_context **context,
                                              const rapt_context_options *options) {
    const rapt_layout layout = {RAPT_VERSION,
                                (uint32_t)sizeof(rapt_tensor),
                                (uint32_t)sizeof(rapt_attention),
                                (uint32_t)sizeof(rapt_attention_operands),
                                (uint32_t)sizeof(rapt_attention_info),
                                (uint32_t)sizeof(rapt_context_options)};
    return rapt_context_create_checked(context, options, &layout);
}

#ifdef __cplusplus
}
#endif
#endif
