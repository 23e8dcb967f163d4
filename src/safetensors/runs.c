/* SPDX-License-Identifier: MIT
 * runs.c: see runs.h. */
#include "runs.h"

#include <string.h>

static const int64_t max_bytes = INT64_C(1) << 62;

static int64_t magnitude(int64_t x) { return x < 0 ? (x == INT64_MIN ? INT64_MAX : -x) : x; }

/* Sizes >= 0, elements and span of addresses within 2^62 bytes. Zeros count as ones. */
static rapt_status check_sizes(char *message, const rapt_parameter *parameter, int64_t *bytes) {
    const rapt_tensor *t = &parameter->tensor;
    const int64_t element = rapt_dtype_bytes(t->dtype);
    int64_t count = element, span = element;
    int empty = 0;
    for (int32_t axis = 0; axis < t->rank; axis++) {
        const int64_t size = t->size[axis];
        if (size < 0) {
            return rapti_safetensors_fail(message, RAPT_ERR_SHAPE,
                                          "%s: size %lld of axis %d is negative", parameter->name,
                                          (long long)size, axis);
        }
        empty |= size == 0;
        int64_t extent;
        if (__builtin_mul_overflow(count, size ? size : 1, &count) || count > max_bytes ||
            __builtin_mul_overflow(size ? size - 1 : 0, magnitude(t->stride[axis]), &extent) ||
            __builtin_mul_overflow(extent, element, &extent) ||
            __builtin_add_overflow(span, extent, &span) || span > max_bytes) {
            return rapti_safetensors_fail(
                message, RAPT_ERR_SHAPE,
                "%s: size %lld of axis %d with stride %lld: more than 2^62 bytes", parameter->name,
                (long long)size, axis, (long long)t->stride[axis]);
        }
    }
    *bytes = empty ? 0 : count;
    return RAPT_OK;
}

rapt_status rapti_safetensors_check(char *message, const rapt_parameter *parameter,
                                    int64_t *bytes) {
    const rapt_tensor *t = &parameter->tensor;
    if (!memchr(parameter->name, 0, sizeof parameter->name)) {
        return rapti_safetensors_fail(message, RAPT_ERR_ARGUMENT,
                                      "name %.60s... has no end within %zu bytes", parameter->name,
                                      sizeof parameter->name);
    }
    if (!rapti_safetensors_dtype_of(t->dtype)) {
        return rapti_safetensors_fail(message, RAPT_ERR_DTYPE, "%s: unknown dtype %d",
                                      parameter->name, (int)t->dtype);
    }
    if (t->rank < 0 || t->rank > RAPT_MAX_RANK) {
        return rapti_safetensors_fail(message, RAPT_ERR_SHAPE, "%s: rank %d, expected 0 to %d",
                                      parameter->name, t->rank, RAPT_MAX_RANK);
    }
    const rapt_status status = check_sizes(message, parameter, bytes);
    if (status != RAPT_OK) { return status; }
    if (*bytes > 0 && !t->data) {
        return rapti_safetensors_fail(message, RAPT_ERR_ARGUMENT, "%s: null data pointer",
                                      parameter->name);
    }
    return RAPT_OK;
}

int rapti_safetensors_overlaps_itself(const rapt_tensor *t) {
    int64_t stride[RAPT_MAX_RANK], last[RAPT_MAX_RANK], extent = 0;
    int count = 0;
    for (int32_t axis = 0; axis < t->rank; axis++) {
        if (t->size[axis] == 0) { return 0; }
        if (t->size[axis] == 1) { continue; }
        int at = count++;
        for (; at > 0 && stride[at - 1] > magnitude(t->stride[axis]); at--) {
            stride[at] = stride[at - 1];
            last[at] = last[at - 1];
        }
        stride[at] = magnitude(t->stride[axis]);
        last[at] = t->size[axis] - 1;
    }
    for (int i = 0; i < count; i++) {
        if (stride[i] <= extent) { return 1; }
        extent += last[i] * stride[i];
    }
    return 0;
}

rapti_safetensors_runs rapti_safetensors_runs_of(const rapt_tensor *t) {
    rapti_safetensors_runs runs = {.outer = *t, .left = 1};
    int64_t neighbours = 1;
    /* Trailing axes that lie row-major in memory make up the run; the others are walked. */
    int32_t rank = t->rank;
    while (rank > 0 && (t->size[rank - 1] == 1 || t->stride[rank - 1] == neighbours)) {
        neighbours *= t->size[--rank];
    }
    runs.outer.rank = rank;
    runs.bytes = (size_t)(neighbours * rapt_dtype_bytes(t->dtype));
    for (int32_t axis = 0; axis < rank; axis++) { runs.left *= t->size[axis]; }
    if (neighbours == 0) { runs.left = 0; }
    return runs;
}

void *rapti_safetensors_next_run(rapti_safetensors_runs *runs) {
    if (runs->left == 0) { return NULL; }
    runs->left--;
    const rapt_tensor *t = &runs->outer;
    int64_t at = 0;
    for (int32_t axis = 0; axis < t->rank; axis++) { at += runs->index[axis] * t->stride[axis]; }
    for (int32_t axis = t->rank - 1; axis >= 0; axis--) {
        if (++runs->index[axis] < t->size[axis]) { break; }
        runs->index[axis] = 0;
    }
    return (char *)t->data + at * rapt_dtype_bytes(t->dtype);
}
