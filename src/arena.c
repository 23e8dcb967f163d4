/* SPDX-License-Identifier: MIT
 * arena.c: several tensors in one block of memory. */
#include "arena.h"

#include "tensor.h"

void *rapti_arena_bytes(rapti_arena *arena, uint64_t bytes, uint64_t alignment) {
    if (arena->too_large || bytes > RAPTI_MAX_BYTES) {
        arena->too_large = 1;
        return NULL;
    }
    const uint64_t begin = (arena->bytes + alignment - 1) & ~(alignment - 1);
    arena->bytes = begin + bytes;
    arena->too_large = arena->bytes > RAPTI_MAX_BYTES;
    return arena->base && !arena->too_large ? arena->base + begin : NULL;
}

rapt_tensor rapti_arena_tensor(rapti_arena *arena, rapt_dtype dtype, int32_t rank,
                               const int64_t *size, uint64_t alignment) {
    /* Zeros count as ones: the strides beside a zero must not overflow either. */
    uint64_t span = (uint64_t)rapt_dtype_bytes(dtype);
    int empty = 0;
    for (int32_t axis = 0; axis < rank; axis++) {
        empty |= size[axis] == 0;
        if (__builtin_mul_overflow(span, size[axis] ? (uint64_t)size[axis] : 1, &span)) {
            span = UINT64_MAX;
        }
    }
    if (span > RAPTI_MAX_BYTES) { arena->too_large = 1; }
    const void *data = rapti_arena_bytes(arena, empty ? 0 : span, alignment);
    return rapt_tensor_contiguous(dtype, data, rank, size);
}
