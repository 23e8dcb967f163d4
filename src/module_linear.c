/* SPDX-License-Identifier: MIT
 * module_linear.c: the linear layer, y = x W^T + bias, and its gradients:
 *
 *   dx [.., in] = dy [.., out] W [out, in];   dW = dy^T x;   dbias [out] = sums of dy */
#include "module.h"

#include "operand.h"
#include "tensor.h"

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
        if (rapti_tensor_joins(&a, axis) && rapti_tensor_joins(&c, axis)) {
            rapti_tensor_join(&a, axis);
            rapti_tensor_join(&c, axis);
        }
    }
    const rapt_tensor b = rapt_tensor_transpose(linear->weight);
    const rapt_matmul_operands operands = {
        .a = &a, .b = &b, .c = &c, .bias = linear->bias.data ? &linear->bias : NULL};
    return rapti_step_matmul(steps, &(rapt_matmul){0}, operands);
}

rapt_status rapti_linear_backward_step(rapti_steps *steps, const rapt_linear *linear,
                                       const rapt_tensor *x, const rapt_tensor *dout,
                                       const rapt_tensor *dx, int32_t accumulate,
                                       const rapt_linear *gradients) {
    const rapt_tensor a = at_least_matrix(x), dc = at_least_matrix(dout);
    const rapt_tensor b = rapt_tensor_transpose(linear->weight);
    rapt_status status = RAPT_OK;
    if (dx) {
        const rapt_tensor da = at_least_matrix(dx);
        const rapt_matmul_backward_operands operands = {
            .b = &b, .dc = &dc, .da = &da, .accumulate = accumulate};
        status = rapti_step_matmul_backward(steps, &(rapt_matmul){0}, operands);
    }
    if (status != RAPT_OK || !gradients) { return status; }
    const rapt_tensor db = rapt_tensor_transpose(gradients->weight);
    const rapt_matmul_backward_operands operands = {.a = &a,
                                                    .dc = &dc,
                                                    .db = gradients->weight.data ? &db : NULL,
                                                    .dbias = gradients->bias.data ? &gradients->bias
                                                                                  : NULL,
                                                    .accumulate = 1};
    return rapti_step_matmul_backward(steps, &(rapt_matmul){0}, operands);
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

/* ---- Backward ---- */

static rapt_status check_gradients(rapt_context *context, const rapt_linear *linear,
                                   const rapt_linear *gradients) {
    const rapt_tensor *weight = &gradients->weight, *bias = &gradients->bias;
    rapt_status status = rapti_operand_check(context, "gradients.weight", weight, RAPT_F32, 2, 2);
    if (status == RAPT_OK) {
        status = rapti_operand_sizes(context, "gradients.weight", weight, 2, linear->weight.size);
    }
    if (status != RAPT_OK || !bias->data) { return status; }
    status = rapti_operand_check(context, "gradients.bias", bias, RAPT_F32, 1, 1);
    return status == RAPT_OK
               ? rapti_operand_sizes(context, "gradients.bias", bias, 1, linear->weight.size)
               : status;
}

/* What is written shares no element with anything else. */
static rapt_status check_written(rapt_context *context, const rapt_linear *linear,
                                 const rapt_tensor *x, const rapt_tensor *dout,
                                 const rapt_tensor *dx, const rapt_linear *gradients) {
    const char *const name[] = {"dx", "gradients.weight", "gradients.bias", "x", "dout", "weight"};
    const rapt_tensor *const t[] = {dx,
                                    gradients ? &gradients->weight : NULL,
                                    gradients && gradients->bias.data ? &gradients->bias : NULL,
                                    x,
                                    dout,
                                    &linear->weight};
    for (int i = 0; i < 3; i++) {
        if (!t[i]) { continue; }
        rapt_status status = rapti_operand_written(context, name[i], t[i]);
        for (int j = i + 1; j < 6 && status == RAPT_OK; j++) {
            if (t[j]) { status = rapti_operand_apart(context, name[i], t[i], name[j], t[j]); }
        }
        if (status != RAPT_OK) { return status; }
    }
    return RAPT_OK;
}

rapt_status rapt_linear_backward(rapt_context *context, const rapt_linear *linear,
                                 const rapt_tensor *x, const rapt_tensor *dout,
                                 const rapt_tensor *dx, int32_t accumulate,
                                 const rapt_linear *gradients) {
    rapt_status status = rapti_operand_context(context);
    if (status == RAPT_OK) { status = check_layer(context, linear); }
    if (status != RAPT_OK) { return status; }
    status = rapti_flag_check(context, "accumulate", accumulate);
    if (status == RAPT_OK) { status = check_features(context, "x", x, x, linear->weight.size[1]); }
    if (status == RAPT_OK) {
        status = check_features(context, "dout", dout, x, linear->weight.size[0]);
    }
    if (status == RAPT_OK && dx) {
        status = check_features(context, "dx", dx, x, linear->weight.size[1]);
    }
    if (status == RAPT_OK && gradients) { status = check_gradients(context, linear, gradients); }
    if (status == RAPT_OK) { status = check_written(context, linear, x, dout, dx, gradients); }
    if (status != RAPT_OK) { return status; }
    rapti_steps steps = {.context = context, .counting = 1};
    rapti_arena arena = {0};
    status = rapti_linear_backward_step(&steps, linear, x, dout, dx, accumulate, gradients);
    if (status == RAPT_OK) { status = rapti_steps_begin(&steps, &arena); }
    if (status != RAPT_OK) { return status; }
    return rapti_linear_backward_step(&steps, linear, x, dout, dx, accumulate, gradients);
}
