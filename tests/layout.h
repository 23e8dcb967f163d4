/* SPDX-License-Identifier: MIT
 * layout.h: the ways in which test tensors lie in memory, and a walk over a tensor's elements. */
#ifndef RAPT_TESTS_LAYOUT_H
#define RAPT_TESTS_LAYOUT_H

#include <rapt/rapt.h>

#include <stdbool.h>
#include <stdint.h>

typedef enum layout {
    LAYOUT_DENSE,      /* row-major: BHTD */
    LAYOUT_BTHD,       /* second and third last axes exchanged in memory */
    LAYOUT_PADDED,     /* rows three elements apart */
    LAYOUT_STEP2,      /* innermost stride 2 */
    LAYOUT_TRANSPOSED, /* last two axes exchanged in memory */
    LAYOUT_BACKWARDS,  /* every stride negative */
    LAYOUT_ROWS_BACK,  /* only the second last axis negative */
    LAYOUT_ONES,       /* axes of size 1 carry strides that mean nothing */
    LAYOUT_WRITABLE,   /* ---- all above suit outputs, all below are for inputs only ---- */
    LAYOUT_REPEAT_0 = LAYOUT_WRITABLE, /* stride 0 on the first of four axes */
    LAYOUT_REPEAT_1,                   /* ... on the second */
    LAYOUT_REPEAT_ROWS,                /* ... on the second last */
    LAYOUT_REPEAT_LAST,                /* ... on the last */
    LAYOUT_REPEAT_ALL,                 /* one element in memory */
    LAYOUT_COUNT
} layout;

const char *layout_name(layout l);

/* A tensor of the given sizes with null data and the strides of the layout. Axes count from the
 * right (rank 3 has no "first of four"), a layout that needs an axis that is not there is dense. */
rapt_tensor layout_tensor(layout l, rapt_dtype dtype, int32_t rank, const int64_t *size);

/* Elements that lie before and after the one at index 0; false if the tensor has no element. */
bool layout_reach(const rapt_tensor *t, int64_t *before, int64_t *after);

/* Every element once, last axis fastest:
 *     for (walk w = walk_begin(&t); !w.done; walk_next(&w)) use(walk_f32(&w)); */
typedef struct walk {
    const rapt_tensor *t;
    int64_t index[RAPT_MAX_RANK];
    int64_t offset; /* in elements */
    bool done;
} walk;

walk walk_begin(const rapt_tensor *t);
void walk_next(walk *w);
float *walk_f32(const walk *w);
uint8_t *walk_byte(const walk *w); /* first byte of the element, any dtype */

/* Element [i0, i1, i2, i3] of a rank-4 f32 tensor. */
float *tensor_f32(const rapt_tensor *t, int64_t i0, int64_t i1, int64_t i2, int64_t i3);

#endif
