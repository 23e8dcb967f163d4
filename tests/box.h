/* SPDX-License-Identifier: MIT
 * box.h: one f32 tensor of any layout in guarded memory, for calls that take plain tensors. */
#ifndef RAPT_TESTS_BOX_H
#define RAPT_TESTS_BOX_H

#include "fill.h"
#include "guard.h"
#include "layout.h"

#include <stdbool.h>

typedef struct box {
    rapt_tensor t;
    guard_block block;
} box;

/* Exactly the layout's reach, ending at a forbidden page (for negative strides beginning at one);
 * every byte is 0xA5. */
box box_make(layout l, int32_t rank, const int64_t *size);
void box_free(box *b);

/* Seeded values by index, the same for any layout. */
void box_fill(box *b, uint64_t seed, fill_kind kind);
/* Values by index from another box of the same sizes. */
void box_copy(box *to, const box *from);

/* Records the present bytes. box_kept: none has changed since; box_kept_outside: none that is not
 * an element's. Both end the test if not, naming the line. */
void box_seal(const box *b);
void box_kept(const box *b, int line);
void box_kept_outside(const box *b, int line);

/* Ends the test unless both hold the same bits (any NaN equals any other). */
void box_same(const box *a, const box *b, int line);

#endif
