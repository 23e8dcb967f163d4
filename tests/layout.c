/* SPDX-License-Identifier: MIT
 * layout.c: see layout.h. */
#include "layout.h"

static const char *const names[LAYOUT_COUNT] = {
    "dense",    "bthd",     "padded",   "step2",       "transposed",  "backwards", "rows-back",
    "odd-ones", "repeat-0", "repeat-1", "repeat-rows", "repeat-last", "repeat-all"};

const char *layout_name(layout l) { return names[l]; }

/* Order in which the axes lie in memory, outermost first. */
static void memory_order(layout l, int32_t rank, int32_t *order) {
    for (int32_t axis = 0; axis < rank; axis++) order[axis] = axis;
    const int32_t inner = rank - (l == LAYOUT_BTHD ? 2 : 1);
    if ((l == LAYOUT_BTHD || l == LAYOUT_TRANSPOSED) && inner >= 1) {
        order[inner - 1] = inner;
        order[inner] = inner - 1;
    }
}

static bool negative(layout l, int32_t rank, int32_t axis) {
    return l == LAYOUT_BACKWARDS || (l == LAYOUT_ROWS_BACK && axis == rank - 2);
}

static bool repeated(layout l, int32_t rank, int32_t axis) {
    switch (l) {
    case LAYOUT_REPEAT_0: return axis == rank - 4;
    case LAYOUT_REPEAT_1: return axis == rank - 3;
    case LAYOUT_REPEAT_ROWS: return axis == rank - 2;
    case LAYOUT_REPEAT_LAST: return axis == rank - 1;
    case LAYOUT_REPEAT_ALL: return true;
    default: return false;
    }
}

rapt_tensor layout_tensor(layout l, rapt_dtype dtype, int32_t rank, const int64_t *size) {
    rapt_tensor t = {NULL, dtype, rank, {0}, {0}};
    int32_t order[RAPT_MAX_RANK];
    memory_order(l, rank, order);
    int64_t stride = l == LAYOUT_STEP2 ? 2 : 1;
    for (int32_t n = rank - 1; n >= 0; n--) {
        const int32_t axis = order[n];
        t.size[axis] = size[axis];
        t.stride[axis] = negative(l, rank, axis) ? -stride : stride;
        if (repeated(l, rank, axis)) {
            t.stride[axis] = 0;
            continue;
        }
        if (l == LAYOUT_ONES && size[axis] == 1) t.stride[axis] = axis % 2 ? 0 : -123456789;
        stride *= size[axis] > 0 ? size[axis] : 1;
        if (l == LAYOUT_PADDED && n == rank - 1) stride += 3;
    }
    return t;
}

bool layout_reach(const rapt_tensor *t, int64_t *before, int64_t *after) {
    *before = *after = 0;
    for (int32_t axis = 0; axis < t->rank; axis++) {
        if (t->size[axis] == 0) return false;
        const int64_t way = (t->size[axis] - 1) * t->stride[axis];
        *(way < 0 ? before : after) += way < 0 ? -way : way;
    }
    return true;
}

walk walk_begin(const rapt_tensor *t) {
    walk w = {t, {0}, 0, false};
    for (int32_t axis = 0; axis < t->rank; axis++) w.done |= t->size[axis] == 0;
    return w;
}

void walk_next(walk *w) {
    for (int32_t axis = w->t->rank - 1; axis >= 0; axis--) {
        w->offset += w->t->stride[axis];
        if (++w->index[axis] < w->t->size[axis]) return;
        w->offset -= w->t->size[axis] * w->t->stride[axis];
        w->index[axis] = 0;
    }
    w->done = true;
}

float *walk_f32(const walk *w) { return (float *)w->t->data + w->offset; }

uint8_t *walk_byte(const walk *w) {
    return (uint8_t *)w->t->data + w->offset * rapt_dtype_bytes(w->t->dtype);
}

float *tensor_f32(const rapt_tensor *t, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    return (float *)t->data + i0 * t->stride[0] + i1 * t->stride[1] + i2 * t->stride[2] +
           i3 * t->stride[3];
}
