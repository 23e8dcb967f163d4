/* SPDX-License-Identifier: MIT
 * matmul_check.c: everything that can be wrong with a matrix product, found before anything is
 * touched. */
#include "matmul.h"
#include "tensor.h"

#include <math.h>

rapt_status rapti_matmul_check_alpha(rapt_context *context, const rapt_matmul *what) {
    if (!what) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "what: null pointer"); }
    if ((what->alpha.on & ~1) || (what->alpha.on && !isfinite(what->alpha.value))) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT,
                          "alpha: on %d, value %g, expected on 0 or 1 and a finite value",
                          what->alpha.on, (double)what->alpha.value);
    }
    return RAPT_OK;
}

static rapt_status check_what(rapt_context *context, const rapt_matmul *what) {
    const rapt_status status = rapti_matmul_check_alpha(context, what);
    if (status == RAPT_OK && !isfinite(what->beta)) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "beta: %g, expected a finite value",
                          (double)what->beta);
    }
    return status;
}

rapt_status rapti_matmul_check_operand(rapt_context *context, const char *name,
                                       const rapt_tensor *t, int32_t min_rank, int32_t max_rank,
                                       int needs_data) {
    const rapt_status status = rapti_tensor_check(context, name, t, min_rank, max_rank, needs_data);
    if (status == RAPT_OK && t->dtype != RAPT_F32) {
        return rapti_fail(context, RAPT_ERR_DTYPE, "%s: dtype %d, expected RAPT_F32", name,
                          (int)t->dtype);
    }
    return status;
}

rapt_status rapti_matmul_check_sizes(rapt_context *context, const char *name, const rapt_tensor *t,
                                     int64_t rows, int64_t columns, const char *c_name,
                                     const rapt_tensor *c) {
    const int64_t got_rows = t->size[t->rank - 2], got_columns = t->size[t->rank - 1];
    if (got_rows != rows || got_columns != columns) {
        return rapti_fail(
            context, RAPT_ERR_SHAPE, "%s: matrices of %lld x %lld, expected %lld x %lld", name,
            (long long)got_rows, (long long)got_columns, (long long)rows, (long long)columns);
    }
    if (t->rank > c->rank) {
        return rapti_fail(context, RAPT_ERR_SHAPE, "%s: rank %d, %s has only %d", name, t->rank,
                          c_name, c->rank);
    }
    for (int32_t axis = 0; axis < t->rank - 2; axis++) {
        const int64_t full = c->size[axis + c->rank - t->rank];
        if (t->size[axis] != full && t->size[axis] != 1) {
            return rapti_fail(context, RAPT_ERR_SHAPE,
                              "%s: size %lld of axis %d, expected %lld or 1", name,
                              (long long)t->size[axis], axis, (long long)full);
        }
    }
    return RAPT_OK;
}

static rapt_status check_operands(rapt_context *context, const rapt_matmul_operands *o,
                                  int needs_data) {
    rapt_status status =
        rapti_matmul_check_operand(context, "a", o->a, 2, RAPT_MAX_RANK, needs_data);
    if (status == RAPT_OK) {
        status = rapti_matmul_check_operand(context, "b", o->b, 2, RAPT_MAX_RANK, needs_data);
    }
    if (status == RAPT_OK) {
        status = rapti_matmul_check_operand(context, "c", o->c, 2, RAPT_MAX_RANK, needs_data);
    }
    if (status == RAPT_OK && o->bias) {
        status = rapti_matmul_check_operand(context, "bias", o->bias, 1, 1, needs_data);
    }
    if (status != RAPT_OK) { return status; }
    const int64_t rows = o->c->size[o->c->rank - 2], columns = o->c->size[o->c->rank - 1];
    const int64_t inner = o->a->size[o->a->rank - 1];
    status = rapti_matmul_check_sizes(context, "a", o->a, rows, inner, "c", o->c);
    if (status == RAPT_OK) {
        status = rapti_matmul_check_sizes(context, "b", o->b, inner, columns, "c", o->c);
    }
    if (status == RAPT_OK && o->bias && o->bias->size[0] != columns) {
        return rapti_fail(context, RAPT_ERR_SHAPE, "bias: size %lld, expected %lld",
                          (long long)o->bias->size[0], (long long)columns);
    }
    return status;
}

static rapt_status check_overlap(rapt_context *context, const rapt_matmul_operands *o) {
    const rapt_tensor *c = o->c;
    if (rapti_tensor_overlaps_itself(c)) {
        return rapti_fail(context, RAPT_ERR_OVERLAP,
                          "c: elements overlap or strides do not nest (last sizes %lld %lld, "
                          "strides %lld %lld)",
                          (long long)c->size[c->rank - 2], (long long)c->size[c->rank - 1],
                          (long long)c->stride[c->rank - 2], (long long)c->stride[c->rank - 1]);
    }
    const char *const names[] = {"a", "b", "bias"};
    const rapt_tensor *const others[] = {o->a, o->b, o->bias};
    for (int i = 0; i < 3; i++) {
        if (others[i] && others[i]->data && c->data && rapti_tensors_overlap(c, others[i])) {
            return rapti_fail(context, RAPT_ERR_OVERLAP, "c overlaps %s", names[i]);
        }
    }
    return RAPT_OK;
}

/* Stride along the axis that stands `from_right` axes before the last; 0 where there is none. */
static int64_t stride_of(const rapt_tensor *t, int32_t from_right) {
    return from_right < t->rank ? t->stride[t->rank - 1 - from_right] : 0;
}

/* 1 if the axis only adds rows: they go on at the same distance in A and C, under the same B. */
static int adds_rows(const rapti_matmul_problem *p, const rapti_matmul_axis *axis) {
    if (axis->b != 0) { return 0; }
    return p->rows == 1 || (axis->a == p->rows * p->a_row && axis->c == p->rows * p->c_row);
}

static void add_axis(rapti_matmul_axes *axes, const rapti_matmul_axis *axis) {
    for (int32_t i = axes->count; i > 0; i--) { axes->axis[i] = axes->axis[i - 1]; }
    axes->axis[0] = *axis;
    axes->count++;
    axes->items *= axis->size;
}

/* From the right: rows grow over each axis that adds rows until one does not. */
static void sort_axes(rapti_matmul_problem *p, const rapt_tensor *a, const rapt_tensor *b,
                      const rapt_tensor *c) {
    p->units = p->repeats = (rapti_matmul_axes){.items = 1};
    for (int32_t i = 2; i < c->rank; i++) {
        const rapti_matmul_axis axis = {c->size[c->rank - 1 - i], stride_of(a, i), stride_of(b, i),
                                        stride_of(c, i)};
        if (axis.size == 1) { continue; }
        if (adds_rows(p, &axis)) {
            if (p->rows == 1) {
                p->a_row = axis.a;
                p->c_row = axis.c;
            }
            p->rows *= axis.size;
        } else {
            add_axis(axis.b != 0 ? &p->units : &p->repeats, &axis);
        }
    }
}

void rapti_matmul_describe(const rapt_matmul *what, const rapt_matmul_operands *o,
                           rapti_matmul_problem *p) {
    const rapt_tensor a = rapti_tensor_normal(o->a), b = rapti_tensor_normal(o->b),
                      c = rapti_tensor_normal(o->c);
    *p = (rapti_matmul_problem){.rows = c.size[c.rank - 2],
                                .columns = c.size[c.rank - 1],
                                .inner = a.size[a.rank - 1],
                                .a = a.data,
                                .b = b.data,
                                .c = c.data,
                                .alpha = what->alpha.on ? what->alpha.value : 1.0f,
                                .beta = what->beta};
    p->a_row = stride_of(&a, 1);
    p->a_k = stride_of(&a, 0);
    p->b_k = stride_of(&b, 1);
    p->b_column = stride_of(&b, 0);
    p->c_row = stride_of(&c, 1);
    p->c_column = stride_of(&c, 0);
    if (o->bias) {
        const rapt_tensor bias = rapti_tensor_normal(o->bias);
        p->bias = bias.data;
        p->bias_step = bias.stride[0];
    }
    if (rapti_tensor_empty(&c)) {
        p->units = p->repeats = (rapti_matmul_axes){.items = 0};
    } else {
        sort_axes(p, &a, &b, &c);
    }
}

rapt_status rapti_matmul_check(rapt_context *context, const rapt_matmul *what,
                               const rapt_matmul_operands *o, int needs_data,
                               rapti_matmul_problem *p) {
    if (!context || !context->kernels) { return RAPT_ERR_ARGUMENT; } /* keeps its message */
    if (!what) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "what: null pointer"); }
    if (!o) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "operands: null pointer"); }
    rapt_status status = check_what(context, what);
    if (status == RAPT_OK) { status = check_operands(context, o, needs_data); }
    if (status == RAPT_OK) { status = check_overlap(context, o); }
    if (status == RAPT_OK) { rapti_matmul_describe(what, o, p); }
    return status;
}

rapti_matmul_axis rapti_matmul_offset(const rapti_matmul_axes *axes, int64_t index) {
    rapti_matmul_axis offset = {0};
    for (int32_t i = axes->count - 1; i >= 0; i--) {
        const rapti_matmul_axis *axis = &axes->axis[i];
        const int64_t at = index % axis->size;
        index /= axis->size;
        offset.a += at * axis->a;
        offset.b += at * axis->b;
        offset.c += at * axis->c;
    }
    return offset;
}
