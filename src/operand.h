/* SPDX-License-Identifier: MIT
 * operand.h: checks that calls on plain f32 or bool tensors share. Each reports under the operand's
 * name and returns RAPT_OK if there is nothing to say. */
#ifndef RAPTI_OPERAND_H
#define RAPTI_OPERAND_H

#include "tensor.h"

/* RAPT_ERR_ARGUMENT for a null context, or one whose creation failed (it keeps its message). */
rapt_status rapti_operand_context(const rapt_context *context);

/* rapti_tensor_check with data, and the dtype. */
rapt_status rapti_operand_check(rapt_context *context, const char *name, const rapt_tensor *t,
                                rapt_dtype dtype, int32_t min_rank, int32_t max_rank);

/* rank sizes as expected; -1 admits any. */
rapt_status rapti_operand_sizes(rapt_context *context, const char *name, const rapt_tensor *t,
                                int32_t rank, const int64_t *expected);

/* A written tensor: no two elements share memory. */
rapt_status rapti_operand_written(rapt_context *context, const char *name, const rapt_tensor *t);

/* A written tensor and another operand share no element. */
rapt_status rapti_operand_apart(rapt_context *context, const char *name, const rapt_tensor *t,
                                const char *other_name, const rapt_tensor *other);

#endif
