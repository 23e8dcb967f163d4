/* SPDX-License-Identifier: MIT
 * context.c: creation, messages and scratch memory of contexts. */
#define _DEFAULT_SOURCE
#include "context.h"

#include "cpu.h"
#include "dispatch.h"
#include "parallel.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { MAX_THREADS = 4096, HUGE_PAGE = 1 << 21 };

/* Large blocks ask for huge pages, which the system may or may not have. Modules keep the rows of
 * all heads side by side, so that each row that a head reads lies on another small page: attention
 * over them took 6 % longer. */
static void *default_allocate(void *user, size_t bytes, size_t alignment) {
    (void)user;
    void *memory = NULL;
    const int large = bytes >= 2 * (size_t)HUGE_PAGE;
    if (posix_memalign(&memory, large ? HUGE_PAGE : alignment, bytes) != 0) { return NULL; }
#ifdef MADV_HUGEPAGE
    if (large) { (void)madvise(memory, bytes, MADV_HUGEPAGE); }
#endif
    return memory;
}

static void default_release(void *user, void *memory) {
    (void)user;
    free(memory);
}

/* Memory at a multiple of RAPTI_ALIGNMENT, or null. */
static void *allocate(const rapt_allocator *allocator, size_t bytes) {
    void *memory = allocator->allocate(allocator->user, bytes, RAPTI_ALIGNMENT);
    if (memory && (uintptr_t)memory % RAPTI_ALIGNMENT != 0) {
        allocator->release(allocator->user, memory);
        return NULL;
    }
    return memory;
}

rapt_status rapti_fail(rapt_context *context, rapt_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(context->message, sizeof context->message, format, arguments);
    va_end(arguments);
    return status;
}

static const rapt_layout own_layout = {RAPT_VERSION,
                                       sizeof(rapt_tensor),
                                       sizeof(rapt_attention),
                                       sizeof(rapt_attention_operands),
                                       sizeof(rapt_attention_info),
                                       sizeof(rapt_context_options)};

/* Patch releases keep the layout. */
static int same_layout(const rapt_layout *a, const rapt_layout *b) {
    return a->version / 100 == b->version / 100 && a->tensor == b->tensor &&
           a->attention == b->attention && a->operands == b->operands && a->info == b->info &&
           a->options == b->options;
}

static rapt_status fail_layout(rapt_context *context, const rapt_layout *layout) {
    if (!layout) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "layout: null pointer"); }
    const rapt_layout *own = &own_layout;
    return rapti_fail(context, RAPT_ERR_VERSION,
                      "headers of version %u (struct bytes %u %u %u %u %u), library of version %u "
                      "(%u %u %u %u %u)",
                      layout->version, layout->tensor, layout->attention, layout->operands,
                      layout->info, layout->options, own->version, own->tensor, own->attention,
                      own->operands, own->info, own->options);
}

static rapt_status choose_isa(rapt_context *context, const char *name) {
    const char *origin = "options.isa";
    if (!name) {
        name = getenv("RAPT_ISA");
        origin = "environment variable RAPT_ISA";
        if (name && !*name) { name = NULL; } /* set to nothing: not set */
    }
    if (!name) {
        context->kernels = rapti_dispatch_best();
        return RAPT_OK;
    }
    const rapti_kernels *row = rapti_dispatch_find(name);
    if (!row) {
        return rapti_fail(context, RAPT_ERR_ISA, "%s: unknown instruction set \"%.40s\"", origin,
                          name);
    }
    if (!rapti_dispatch_supported(row)) {
        return rapti_fail(context, RAPT_ERR_ISA,
                          "%s: instruction set \"%.40s\" is not supported by this machine", origin,
                          name);
    }
    context->kernels = row;
    return RAPT_OK;
}

static rapt_status choose_threads(rapt_context *context, int32_t threads) {
    if (threads < 0 || threads > MAX_THREADS) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "options.threads: %d, expected 0 .. %d",
                          threads, MAX_THREADS);
    }
    if (threads == 0) {
        const int32_t cpus = rapti_cpu_count(), openmp = rapti_parallel_default();
        threads = openmp < cpus ? openmp : cpus;
    }
    context->threads = threads < MAX_THREADS ? threads : MAX_THREADS;
    return RAPT_OK;
}

rapt_status rapt_context_create_checked(rapt_context **context, const rapt_context_options *options,
                                        const rapt_layout *layout) {
    if (!context) { return RAPT_ERR_ARGUMENT; }
    *context = NULL;
    /* options are read only once their layout is known to be ours */
    const int same = layout && same_layout(layout, &own_layout);
    const rapt_context_options given = same && options ? *options : (rapt_context_options){0};
    const int complete = given.allocator.allocate && given.allocator.release;
    const int half = !complete && (given.allocator.allocate || given.allocator.release);
    const rapt_allocator allocator =
        complete ? given.allocator : (rapt_allocator){default_allocate, default_release, NULL};
    rapt_context *c = allocate(&allocator, sizeof *c);
    if (!c) { return RAPT_ERR_MEMORY; }
    *c = (rapt_context){.allocator = allocator};
    *context = c;
    if (!same) { return fail_layout(c, layout); }
    if (half) {
        return rapti_fail(
            c, RAPT_ERR_ARGUMENT,
            "options.allocator: allocate and release must both be given or both null");
    }
    rapt_status status = choose_threads(c, given.threads);
    if (status == RAPT_OK) { status = choose_isa(c, given.isa); }
    if (status == RAPT_OK) { rapti_parallel_note_process(); }
    return status;
}

void rapt_context_trim(rapt_context *context) {
    if (!context || !context->scratch) { return; }
    context->allocator.release(context->allocator.user, context->scratch);
    context->scratch = NULL;
    context->scratch_bytes = 0;
}

void rapt_context_destroy(rapt_context *context) {
    if (!context) { return; }
    rapt_context_trim(context);
    context->allocator.release(context->allocator.user, context);
}

const char *rapt_context_message(const rapt_context *context) {
    return context ? context->message : "there is no context (null pointer)";
}

const char *rapt_context_isa(const rapt_context *context) {
    return context && context->kernels ? context->kernels->isa : "none";
}

int32_t rapt_context_threads(const rapt_context *context) { return context ? context->threads : 0; }

int32_t rapti_threads_worth(const rapt_context *context, double threads) {
    if (threads < 2) { return 1; }
    return threads < context->threads ? (int32_t)threads : context->threads;
}

const char *rapt_isa_name(int32_t index) {
    const rapti_kernels *row = rapti_dispatch_row(index);
    return row ? row->isa : NULL;
}

int32_t rapt_isa_supported(const char *name) {
    const rapti_kernels *row = name ? rapti_dispatch_find(name) : NULL;
    return row ? rapti_dispatch_supported(row) : 0;
}

int32_t rapt_version(void) { return RAPT_VERSION; }

rapt_status rapti_context_scratch(rapt_context *context, void *callers, size_t callers_bytes,
                                  size_t bytes, void **scratch) {
    if (callers) {
        if ((uintptr_t)callers % RAPTI_ALIGNMENT != 0 || callers_bytes < bytes) {
            return rapti_fail(
                context, RAPT_ERR_SCRATCH,
                "scratch: %zu bytes given at an address that is %zu past a multiple of "
                "%d, %zu needed at one that is",
                callers_bytes, (size_t)((uintptr_t)callers % RAPTI_ALIGNMENT), RAPTI_ALIGNMENT,
                bytes);
        }
        *scratch = callers;
        return RAPT_OK;
    }
    if (context->scratch_bytes < bytes) {
        rapt_context_trim(context);
        context->scratch = allocate(&context->allocator, bytes);
        if (!context->scratch) {
            return rapti_fail(context, RAPT_ERR_MEMORY, "scratch: %zu bytes could not be allocated",
                              bytes);
        }
        context->scratch_bytes = bytes;
    }
    *scratch = context->scratch;
    return RAPT_OK;
}

void *rapti_context_allocate(rapt_context *context, size_t bytes) {
    return allocate(&context->allocator, bytes);
}

void rapti_context_release(rapt_context *context, void *memory) {
    context->allocator.release(context->allocator.user, memory);
}
