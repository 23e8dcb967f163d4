/* SPDX-License-Identifier: MIT
 * arena.h: several tensors in one block of memory. The code that takes them runs twice: with a null
 * base it counts bytes, with a base of that many bytes it makes the tensors. */
#ifndef RAPTI_ARENA_H
#define RAPTI_ARENA_H

#include <rapt/tensor.h>

#include <stddef.h>
#include <stdint.h>

typedef struct rapti_arena {
    char *base;     /* null while counting */
    uint64_t bytes; /* taken so far */
    int too_large;  /* more than 2^62 bytes: `bytes` means nothing */
} rapti_arena;

/* The next bytes, at a multiple of `alignment` (a power of two) from the base; null while counting.
 */
void *rapti_arena_bytes(rapti_arena *arena, uint64_t bytes, uint64_t alignment);

/* A row-major tensor in the next bytes. `size` has `rank` entries >= 0. */
rapt_tensor rapti_arena_tensor(rapti_arena *arena, rapt_dtype dtype, int32_t rank,
                               const int64_t *size, uint64_t alignment);

#endif
