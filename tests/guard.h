/* SPDX-License-Identifier: MIT
 * guard.h: memory that ends at, or begins right after, a page that may not be touched, with known
 * bytes (canaries) on the open side and in all gaps. Blocks are recycled: taking one costs no
 * system call once a block of the size exists. */
#ifndef RAPT_TESTS_GUARD_H
#define RAPT_TESTS_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which end of the data touches the forbidden page. */
typedef enum guard_side { GUARD_AFTER, GUARD_BEFORE } guard_side;

enum { GUARD_MARGIN = 256 }; /* canary bytes on the other side */

typedef struct guard_block {
    uint8_t *data; /* null if not taken */
    size_t bytes;
    uint8_t *fence; /* the data and the margin: what guard_seal records */
    size_t fence_bytes;
    int slot;
} guard_block;

/* `bytes` of memory, every byte (margin too) set to `canary`. The data is aligned to
 * `alignment`; what that leaves free before the forbidden page is canary, too. */
guard_block guard_take(size_t bytes, size_t alignment, guard_side side, uint8_t canary);
void guard_return(guard_block *block);

/* Records the bytes of the fence as those that must be there later. */
void guard_seal(const guard_block *block);

/* Records bytes that may have changed since: `n` bytes at `at`. */
void guard_accept(const guard_block *block, const uint8_t *at, size_t n);

/* True if all bytes are as recorded; else *offset is the first other byte's distance from data. */
bool guard_intact(const guard_block *block, ptrdiff_t *offset);

#endif
