/* SPDX-License-Identifier: MIT
 * operand.c: checks that calls on plain f32 or bool tensors share. */
#include "operand.h"

rapt_status rapti_operand_context(const rapt_context *context) {
    return context && context->kernels ? RAPT_OK : RAPT_ERR_ARGUMENT;
}

rapt_status rapti_operand_check(rapt_context *context, const char *name, const rapt_tensor *t,
                                rapt_dtype dtype, int32_t min_rank, int32_t max_rank) {
    const rapt_status status = rapti_tensor_check(context, name, t, min_rank, max_rank, 1);
    if (status != RAPT_OK || t->dtype == dtype) { return status; }
    return rapti_fail(context, RAPT_ERR_DTYPE, "%s: dtype %d, expected %s", name, (int)t->dtype,
                      dtype == RAPT_BOOL ? "RAPT_BOOL" : "RAPT_F32");
}

rapt_status rapti_operand_sizes(rapt_context *context, const char *name, const rapt_tensor *t,
                                int32_t rank, const int64_t *expected) {
    if (t->rank != rank) {
        return rapti_fail(context, RAPT_ERR_SHAPE, "%s: rank %d, expected %d", name, t->rank, rank);
    }
    for (int32_t axis = 0; axis < rank; axis++) {
        if (expected[axis] >= 0 && t->size[axis] != expected[axis]) {
            return rapti_fail(context, RAPT_ERR_SHAPE, "%s: size %lld of axis %d, expected %lld",
                              name, (long long)t->size[axis], axis, (long long)expected[axis]);
        }
    }
    return RAPT_OK;
}

rapt_status rapti_operand_written(rapt_context *context, const char *name, const rapt_tensor *t) {
    if (!rapti_tensor_overlaps_itself(t)) { return RAPT_OK; }
    const int32_t last = t->rank - 1, before = last > 0 ? last - 1 : last;
    return rapti_fail(context, RAPT_ERR_OVERLAP,
                      "%s: elements overlap or strides do not nest (last sizes %lld %lld, strides "
                      "%lld %lld)",
                      name, (long long)t->size[before], (long long)t->size[last],
                      (long long)t->stride[before], (long long)t->stride[last]);
}

rapt_status rapti_operand_apart(rapt_context *context, const char *name, const rapt_tensor *t,
                                const char *other_name, const rapt_tensor *other) {
    if (!rapti_tensors_overlap(t, other)) { return RAPT_OK; }
    return rapti_fail(context, RAPT_ERR_OVERLAP, "%s overlaps %s", name, other_name);
}
