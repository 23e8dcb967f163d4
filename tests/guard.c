/* SPDX-License-Identifier: MIT
 * guard.c: see guard.h. A slot is one mapping: forbidden page, usable pages, forbidden page. */
#include "guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLOTS = 256 };

typedef struct slot {
    uint8_t *usable;
    size_t capacity;
    uint8_t *record; /* what guard_seal saw, same offsets as `usable` */
    bool taken;
} slot;

static slot slots[SLOTS];

static void die(const char *what) {
    perror(what);
    abort();
}

static void slot_map(slot *s, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    s->capacity = 4 * page;
    while (s->capacity < bytes) s->capacity *= 2;
    uint8_t *map = mmap(NULL, s->capacity + 2 * page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) die("mmap");
    if (mprotect(map, page, PROT_NONE) || mprotect(map + page + s->capacity, page, PROT_NONE)) {
        die("mprotect");
    }
    s->usable = map + page;
    s->record = malloc(s->capacity);
    if (!s->record) die("malloc");
}

static int slot_find(size_t bytes) {
    int best = -1;
    for (int n = 0; n < SLOTS && slots[n].usable; n++) {
        if (slots[n].taken || slots[n].capacity < bytes) continue;
        if (best < 0 || slots[n].capacity < slots[best].capacity) best = n;
    }
    for (int n = 0; best < 0 && n < SLOTS; n++) {
        if (slots[n].usable) continue;
        slot_map(&slots[n], bytes);
        best = n;
    }
    if (best < 0) die("guard_take: too many blocks");
    return best;
}

guard_block guard_take(size_t bytes, size_t alignment, guard_side side, uint8_t canary) {
    const int n = slot_find(bytes + GUARD_MARGIN + alignment);
    slot *s = &slots[n];
    s->taken = true;
    guard_block b = {.slot = n, .bytes = bytes};
    if (side == GUARD_AFTER) {
        uint8_t *end = s->usable + s->capacity;
        b.data = end - (bytes + alignment - 1) / alignment * alignment;
        b.fence = b.data - GUARD_MARGIN;
        b.fence_bytes = (size_t)(end - b.fence);
    } else {
        b.data = b.fence = s->usable;
        b.fence_bytes = bytes + GUARD_MARGIN;
    }
    memset(b.fence, canary, b.fence_bytes);
    return b;
}

void guard_return(guard_block *block) {
    if (block->data) slots[block->slot].taken = false;
    block->data = NULL;
}

static uint8_t *record_of(const guard_block *block, const uint8_t *at) {
    const slot *s = &slots[block->slot];
    return s->record + (at - s->usable);
}

void guard_seal(const guard_block *block) {
    memcpy(record_of(block, block->fence), block->fence, block->fence_bytes);
}

void guard_accept(const guard_block *block, const uint8_t *at, size_t n) {
    memcpy(record_of(block, at), at, n);
}

bool guard_intact(const guard_block *block, ptrdiff_t *offset) {
    const uint8_t *record = record_of(block, block->fence);
    if (memcmp(record, block->fence, block->fence_bytes) == 0) return true;
    size_t n = 0;
    while (record[n] == block->fence[n]) n++;
    *offset = block->fence + n - block->data;
    return false;
}
