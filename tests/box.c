/* SPDX-License-Identifier: MIT
 * box.c: see box.h. */
#include "box.h"

#include "compare.h"
#include "harness.h"

#include <string.h>

box box_make(layout l, int32_t rank, const int64_t *size) {
    box b = {.t = layout_tensor(l, RAPT_F32, rank, size)};
    int64_t before = 0, after = 0;
    const bool any = layout_reach(&b.t, &before, &after);
    const size_t bytes = any ? (size_t)(before + after + 1) * sizeof(float) : 0;
    b.block = guard_take(bytes, sizeof(float), before > 0 ? GUARD_BEFORE : GUARD_AFTER, 0xA5);
    b.t.data = b.block.data + (any ? (size_t)before * sizeof(float) : 0);
    return b;
}

void box_free(box *b) { guard_return(&b->block); }

void box_fill(box *b, uint64_t seed, fill_kind kind) {
    rng r = rng_make(seed, 0);
    for (walk w = walk_begin(&b->t); !w.done; walk_next(&w)) *walk_f32(&w) = fill_value(&r, kind);
}

void box_copy(box *to, const box *from) {
    walk f = walk_begin(&from->t);
    for (walk w = walk_begin(&to->t); !w.done; walk_next(&w), walk_next(&f)) {
        *walk_f32(&w) = *walk_f32(&f);
    }
}

void box_seal(const box *b) { guard_seal(&b->block); }

void box_kept(const box *b, int line) {
    ptrdiff_t offset = 0;
    REQUIRE(guard_intact(&b->block, &offset), "line %d: byte %td changed", line, offset);
}

void box_kept_outside(const box *b, int line) {
    for (walk w = walk_begin(&b->t); !w.done; walk_next(&w)) {
        guard_accept(&b->block, walk_byte(&w), sizeof(float));
    }
    box_kept(b, line);
}

void box_same(const box *a, const box *b, int line) {
    char why[256];
    REQUIRE(compare_bits(&a->t, &b->t, why, sizeof why), "line %d: %s", line, why);
}
