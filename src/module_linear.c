/* SPDX-License-Identifier: MIT
 * module_linear.c: the linear layer, y = x W^T + bias. */
#include "module.h"

#include "operand.h"

/* Axes `axis` and `axis + 1` of a normal tensor have one stride between their elements. */
static int joins(const rapt_tensor *t, int32_t axis) {
    return t->size[axis] == 1 || t->size[axis + 1] == 1 ||
           t->stride[axis] == t->size[axis + 1] * t->stride[axis + 1];
}

static void join(rapt_tensor *t, int32_t axis) {
    if (t->size[axis + 1] != 1) { t->stride[axis] = t->stride[axis + 1]; }
    t->size[axis] *= t->size[axis + 1];
    for (int32_t later = axis + 1; later < t->rank - 1; later++) {
        t->size[later] = t->size[later + 1];
        t->stride[later] = t->stride[later + 1];
    }
    t->rank--;
}

/* Rank 1 as a matrix of one row. */
static rapt_tensor at_least_matrix(const rapt_tensor *t) {
    rapt_tensor matrix = rapti_tensor_normal(t);
    if (t->rank > 1) { return matrix; }
    matrix.rank = 2;
    matrix.size[1] = matrix.size[0];
    matrix.stride[1] = matrix.stride[0];
    matrix.size[0] = 1;
    matrix.stride[0] = 0;
    return matrix;
}

rapt_status rapti_linear_step(rapti_steps *steps, const rapt_linear *linear, const rapt_tensor *x,
                              const rapt_tensor *out) {
    rapt_tensor a = at_least_matrix(x), c = at_least_matrix(out);
    /* [B, T, ..] as [B T, ..] where strides allow it: many rows instead of many small matrices */
    for (int32_t axis = a.rank - 3; axis >= 0; axis--) {
        if (joins(&a, axis) && joins(&c, axis)) {
            join(&a, axis);
            join(&c, axis);
        }
    }
    const rapt_tensor b = rapt_tensor_transpose(linear->weight);
    const rapt_matmul_operands operands = {
        .a = &a, .b = &b, .c = &c, .bias = linear->bias.data ? &linear->bias : NULL};
    return rapti_step_matmul(steps, &(rapt_matmul){0}, operands);
}

static rapt_status check_layer(rapt_context *context, const rapt_linear *linear) {
    if (!linear) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "linear: null pointer"); }
    const rapt_tensor *weight = &linear->weight, *bias = &linear->bias;
    rapt_status status = rapti_operand_check(context, "weight", weight, RAPT_F32, 2, 2);
    if (status != RAPT_OK || !bias->data) { return status; }
    status = rapti_operand_check(context, "bias", bias, RAPT_F32, 1, 1);
    return status == RAPT_OK ? rapti_operand_sizes(context, "bias", bias, 1, weight->size) : status;
}

static rapt_status check_features(rapt_context *context, const char *name, const rapt_tensor *t,
                                  const rapt_tensor *leading, int64_t features) {
    rapt_status status = rapti_operand_check(context, name, t, RAPT_F32, 1, RAPT_MAX_RANK);
    if (status != RAPT_OK) { return status; }
    int64_t size[RAPT_MAX_RANK];
    for (int32_t axis = 0; axis < leading->rank - 1; axis++) { size[axis] = leading->size[axis]; }
    size[leading->rank - 1] = features;
    return rapti_operand_sizes(context, name, t, leading->rank, size);
}

rapt_status rapt_linear_forward(rapt_context *context, const rapt_linear *linear,
                                const rapt_tensor *x, const rapt_tensor *out) {
    rapt_status status = rapti_operand_context(context);
    if (status == RAPT_OK) { status = check_layer(context, linear); }
    if (status != RAPT_OK) { return status; }
    const rapt_tensor *weight = &linear->weight, *bias = &linear->bias;
    status = check_features(context, "x", x, x, weight->size[1]);
    if (status == RAPT_OK) { status = check_features(context, "out", out, x, weight->size[0]); }
    if (status == RAPT_OK) { status = rapti_operand_written(context, "out", out); }
    if (status == RAPT_OK) { status = rapti_operand_apart(context, "out", out, "x", x); }
    if (status == RAPT_OK) { status = rapti_operand_apart(context, "out", out, "weight", weight); }
    if (status == RAPT_OK && bias->data) {
        status = rapti_operand_apart(context, "out", out, "bias", bias);
    }
    if (status != RAPT_OK) { return status; }
    return rapti_linear_step(&(rapti_steps){.context = context}, linear, x, out);
}
