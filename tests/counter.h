/* SPDX-License-Identifier: MIT
 * counter.h: an allocator that counts, and fails one allocation on request. */
#ifndef RAPT_TESTS_COUNTER_H
#define RAPT_TESTS_COUNTER_H

#include <rapt/rapt.h>

#include <stddef.h>
#include <stdint.h>

typedef struct counter {
    int64_t allocations, live;
    int64_t fail_at; /* index of the allocation that fails; -1: none */
    size_t largest;
    int misaligned;
} counter;

/* A context that allocates through it. */
rapt_status counter_context(rapt_context **context, counter *c, int32_t threads);

#endif
