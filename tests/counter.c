/* SPDX-License-Identifier: MIT
 * counter.c: see counter.h. */
#include "counter.h"

#include <stdlib.h>
#include <string.h>

static void *counted_allocate(void *user, size_t bytes, size_t alignment) {
    counter *c = user;
    if (alignment == 0 || alignment > 64 || (alignment & (alignment - 1))) { c->misaligned = 1; }
    if (c->allocations++ == c->fail_at) { return NULL; }
    if (bytes > c->largest) { c->largest = bytes; }
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (memory) { memset(memory, 0xFF, bytes); } /* NaN: nothing may rely on zeros */
    c->live++;
    return memory;
}

static void counted_release(void *user, void *memory) {
    counter *c = user;
    c->live--;
    free(memory);
}

rapt_status counter_context(rapt_context **context, counter *c, int32_t threads) {
    const rapt_context_options options = {.threads = threads,
                                          .allocator = {counted_allocate, counted_release, c}};
    return rapt_context_create(context, &options);
}
