/* SPDX-License-Identifier: MIT
 * walk.h: the offsets of a tensor's elements, or of its rows, in row-major order of their indices,
 * whatever the strides: an odometer, so that no step divides. */
#ifndef RAPTI_WALK_H
#define RAPTI_WALK_H

#include <rapt/tensor.h>

typedef struct rapti_walk {
    const rapt_tensor *t;
    int32_t axes; /* the leading ones, which are walked over */
    int64_t index[RAPT_MAX_RANK];
    int64_t offset; /* of the present element, or of the row's first one */
} rapti_walk;

/* Starts at the given one of the leading axes' index tuples. Precondition: there is such a one. */
static inline rapti_walk rapti_walk_start(const rapt_tensor *t, int32_t axes, int64_t first) {
    rapti_walk w = {t, axes, {0}, 0};
    for (int32_t axis = axes - 1; axis >= 0; axis--) {
        w.index[axis] = first % t->size[axis];
        first /= t->size[axis];
        w.offset += w.index[axis] * t->stride[axis];
    }
    return w;
}

static inline void rapti_walk_next(rapti_walk *w) {
    for (int32_t axis = w->axes - 1; axis >= 0; axis--) {
        w->offset += w->t->stride[axis];
        if (++w->index[axis] < w->t->size[axis]) { return; }
        w->offset -= w->t->size[axis] * w->t->stride[axis];
        w->index[axis] = 0;
    }
}

/* Product of the sizes of the first `axes` axes. */
static inline int64_t rapti_walk_count(const rapt_tensor *t, int32_t axes) {
    int64_t count = 1;
    for (int32_t axis = 0; axis < axes; axis++) { count *= t->size[axis]; }
    return count;
}

#endif
