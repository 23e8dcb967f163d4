/* SPDX-License-Identifier: MIT
 * tensor.c: checks of tensors that callers pass in. */
#include "tensor.h"

#include "numbers.h"

static uint64_t magnitude(int64_t x) { return x < 0 ? 0 - (uint64_t)x : (uint64_t)x; }

rapt_status rapti_tensor_check(rapt_context *context, const char *name, const rapt_tensor *t,
                               int32_t min_rank, int32_t max_rank, int needs_data) {
    if (!t) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "%s: null pointer", name); }
    if (t->rank != min_rank && min_rank == max_rank) {
        return rapti_fail(context, RAPT_ERR_SHAPE, "%s: rank %d, expected %d", name, t->rank,
                          min_rank);
    }
    if (t->rank < min_rank || t->rank > max_rank) {
        return rapti_fail(context, RAPT_ERR_SHAPE, "%s: rank %d, expected %d to %d", name, t->rank,
                          min_rank, max_rank);
    }
    /* Zeros count as ones, so that sizes beside a zero are limited, too. */
    const int64_t known = rapt_dtype_bytes(t->dtype);
    const uint64_t bytes = known ? (uint64_t)known : 1;
    uint64_t count = bytes, span = bytes;
    for (int32_t axis = 0; axis < t->rank; axis++) {
        const int64_t size = t->size[axis];
        if (size < 0) {
            return rapti_fail(context, RAPT_ERR_SHAPE, "%s: size %lld of axis %d is negative", name,
                              (long long)size, axis);
        }
        if (__builtin_mul_overflow(count, size ? (uint64_t)size : 1, &count) ||
            count > RAPTI_MAX_BYTES) {
            return rapti_fail(context, RAPT_ERR_SHAPE,
                              "%s: more than 2^62 bytes up to axis %d of size %lld", name, axis,
                              (long long)size);
        }
        uint64_t extent;
        if (__builtin_mul_overflow(size ? (uint64_t)size - 1 : 0, magnitude(t->stride[axis]),
                                   &extent) ||
            __builtin_mul_overflow(extent, bytes, &extent) ||
            __builtin_add_overflow(span, extent, &span) || span > RAPTI_MAX_BYTES) {
            return rapti_fail(
                context, RAPT_ERR_SHAPE,
                "%s: size %lld of axis %d with stride %lld spans more than 2^62 bytes", name,
                (long long)size, axis, (long long)t->stride[axis]);
        }
    }
    if (needs_data && !t->data && !rapti_tensor_empty(t)) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "%s: null data pointer", name);
    }
    return RAPT_OK;
}

rapt_tensor rapti_tensor_normal(const rapt_tensor *t) {
    static const int64_t nothing = 0;
    rapt_tensor normal = *t;
    const int empty = rapti_tensor_empty(t);
    for (int32_t axis = 0; axis < t->rank; axis++) {
        if (empty || t->size[axis] == 1) { normal.stride[axis] = 0; }
    }
    if (empty) { normal.data = (void *)(uintptr_t)&nothing; }
    return normal;
}

int rapti_tensor_empty(const rapt_tensor *t) {
    for (int32_t axis = 0; axis < t->rank; axis++) {
        if (t->size[axis] == 0) { return 1; }
    }
    return 0;
}

int rapti_tensor_joins(const rapt_tensor *t, int32_t axis) {
    return t->size[axis] == 1 || t->size[axis + 1] == 1 ||
           t->stride[axis] == t->size[axis + 1] * t->stride[axis + 1];
}

void rapti_tensor_join(rapt_tensor *t, int32_t axis) {
    if (t->size[axis + 1] != 1) { t->stride[axis] = t->stride[axis + 1]; }
    t->size[axis] *= t->size[axis + 1];
    for (int32_t later = axis + 1; later < t->rank - 1; later++) {
        t->size[later] = t->size[later + 1];
        t->stride[later] = t->stride[later + 1];
    }
    t->rank--;
}

/* An axis as the set of steps it can take: low .. high times a positive stride. */
typedef struct steps {
    uint64_t stride;
    int64_t low, high;
} steps;

typedef struct steps_list {
    steps item[2 * RAPT_MAX_RANK];
    int count;
} steps_list;

/* Adds steps forwards (sign 1) or backwards (-1) along an axis. Keeps the list sorted, largest
 * stride first; axes of equal stride become one. */
static void add_steps(steps_list *list, int64_t stride, int64_t last, int sign) {
    if (stride == 0 || last == 0) { return; }
    const int back = (stride < 0) != (sign < 0);
    steps new = {magnitude(stride), back ? -last : 0, back ? 0 : last};
    int at = 0;
    while (at < list->count && list->item[at].stride > new.stride) { at++; }
    if (at < list->count && list->item[at].stride == new.stride) {
        list->item[at].low += new.low;
        list->item[at].high += new.high;
        return;
    }
    for (int i = list->count; i > at; i--) { list->item[i] = list->item[i - 1]; }
    list->item[at] = new;
    list->count++;
}

int rapti_tensor_overlaps_itself(const rapt_tensor *t) {
    if (rapti_tensor_empty(t)) { return 0; }
    uint64_t stride[RAPT_MAX_RANK], last[RAPT_MAX_RANK];
    int count = 0;
    for (int32_t axis = 0; axis < t->rank; axis++) {
        if (t->size[axis] < 2) { continue; }
        int at = count++;
        for (; at > 0 && stride[at - 1] > magnitude(t->stride[axis]); at--) {
            stride[at] = stride[at - 1];
            last[at] = last[at - 1];
        }
        stride[at] = magnitude(t->stride[axis]);
        last[at] = (uint64_t)t->size[axis] - 1;
    }
    uint64_t extent = 0;
    for (int i = 0; i < count; i++) {
        if (stride[i] <= extent) { return 1; }
        extent += last[i] * stride[i];
    }
    return 0;
}

/* First byte and one past the last byte. */
static void byte_range(const rapt_tensor *t, uintptr_t *begin, uintptr_t *end) {
    int64_t low = 0, high = 0;
    for (int32_t axis = 0; axis < t->rank; axis++) {
        const int64_t reach = t->size[axis] > 1 ? (t->size[axis] - 1) * t->stride[axis] : 0;
        if (reach < 0) {
            low += reach;
        } else {
            high += reach;
        }
    }
    const int64_t bytes = rapt_dtype_bytes(t->dtype);
    *begin = (uintptr_t)t->data + (uintptr_t)(low * bytes);
    *end = (uintptr_t)t->data + (uintptr_t)((high + 1) * bytes);
}

/* 1 if some choice of steps from item `at` on sums to `distance`. The strides below limit what is
 * left over, so nested strides try one or two steps an axis; a search that branches further than
 * the budget answers 1. */
static int can_reach(const steps_list *list, int at, int64_t distance, int *budget) {
    if (at == list->count) { return distance == 0; }
    int64_t below = 0, above = 0;
    for (int i = at + 1; i < list->count; i++) {
        below += list->item[i].low * (int64_t)list->item[i].stride;
        above += list->item[i].high * (int64_t)list->item[i].stride;
    }
    const steps *s = &list->item[at];
    const int64_t stride = (int64_t)s->stride;
    const int64_t last = rapti_min((distance - below) / stride + 1, s->high);
    for (int64_t step = rapti_max((distance - above) / stride - 1, s->low); step <= last; step++) {
        const int64_t left = distance - step * stride;
        if (left < below || left > above) { continue; }
        if (--*budget < 0 || can_reach(list, at + 1, left, budget)) { return 1; }
    }
    return 0;
}

int rapti_tensors_overlap(const rapt_tensor *a, const rapt_tensor *b) {
    if (rapti_tensor_empty(a) || rapti_tensor_empty(b)) { return 0; }
    uintptr_t a_begin, a_end, b_begin, b_end;
    byte_range(a, &a_begin, &a_end);
    byte_range(b, &b_begin, &b_end);
    if (a_end <= b_begin || b_end <= a_begin) { return 0; }
    const int64_t bytes = rapt_dtype_bytes(a->dtype);
    const int64_t distance = (int64_t)((uintptr_t)b->data - (uintptr_t)a->data);
    if (rapt_dtype_bytes(b->dtype) != bytes || distance % bytes != 0) { return 1; }
    steps_list list = {.count = 0};
    for (int32_t axis = 0; axis < a->rank; axis++) {
        add_steps(&list, a->stride[axis], a->size[axis] - 1, 1);
    }
    for (int32_t axis = 0; axis < b->rank; axis++) {
        add_steps(&list, b->stride[axis], b->size[axis] - 1, -1);
    }
    int budget = 256;
    return can_reach(&list, 0, distance / bytes, &budget);
}

int rapti_tensors_equal(const rapt_tensor *a, const rapt_tensor *b) {
    if (a->data != b->data || a->dtype != b->dtype || a->rank != b->rank) { return 0; }
    for (int32_t axis = 0; axis < a->rank; axis++) {
        if (a->size[axis] != b->size[axis]) { return 0; }
        if (a->size[axis] > 1 && a->stride[axis] != b->stride[axis]) { return 0; }
    }
    return 1;
}

int rapti_tensor_holds(const rapt_tensor *t, const void *at, int64_t count) {
    int64_t elements = 1, last = 0;
    for (int32_t axis = 0; axis < t->rank; axis++) {
        if (t->stride[axis] < 0) { return 0; }
        elements *= t->size[axis];
        last += (t->size[axis] - 1) * t->stride[axis];
    }
    if (elements != last + 1 || rapti_tensor_overlaps_itself(t)) { return 0; }
    const int64_t bytes = rapt_dtype_bytes(t->dtype);
    return (const char *)at + count * bytes <= (const char *)t->data + elements * bytes;
}
