/* SPDX-License-Identifier: MIT
 * matmul_backward.c: gradients of a matrix product, made of products:
 *
 *   da [.., M, K] = alpha dC [.., M, N] B^T [.., N, K]     summed where a was broadcast
 *   db [.., K, N] = alpha A^T [.., K, M] dC [.., M, N]     summed where b was broadcast
 *   dbias [N]     = sums of columns of dC
 *
 * A summed axis becomes part of the inner index where strides allow it: the gradient of one W for
 * all of x [B, T, in] is one product with an inner size of B T. Others take a product each, in
 * order, that adds to the ones before. */
#include "column_sums.h"
#include "matmul.h"
#include "operand.h"
#include "tensor.h"

/* One gradient: out = alpha left right, added up over the sums. */
typedef struct gradient {
    rapt_tensor left, right, out; /* of one rank; strides of 0 where an input is broadcast */
    rapti_matmul_axes sums;       /* steps of a: left, of b: right */
    rapti_matmul_problem problem; /* of the first product */
    rapti_matmul_plan plan;
} gradient;

typedef struct backward {
    gradient da, db;
    rapti_column_sums dbias;
    size_t scratch_bytes;
} backward;

/* ---- Checks ---- */

/* An input and its gradient, either of which may be absent: sizes of both. */
static rapt_status check_pair(rapt_context *context, const char *const name[2],
                              const rapt_tensor *const t[2], const int needs_data[2],
                              const rapt_tensor *dc, int64_t rows, int64_t columns) {
    for (int i = 0; i < 2; i++) {
        if (!t[i]) { continue; }
        rapt_status status =
            rapti_matmul_check_operand(context, name[i], t[i], 2, RAPT_MAX_RANK, needs_data[i]);
        if (status != RAPT_OK) { return status; }
        const int32_t rank = t[i]->rank;
        status =
            rapti_matmul_check_sizes(context, name[i], t[i], rows < 0 ? t[i]->size[rank - 2] : rows,
                                     columns < 0 ? t[i]->size[rank - 1] : columns, "dc", dc);
        if (status != RAPT_OK) { return status; }
    }
    return t[0] && t[1] ? rapti_operand_sizes(context, name[1], t[1], t[0]->rank, t[0]->size)
                        : RAPT_OK;
}

static rapt_status check_sizes(rapt_context *context, const rapt_matmul_backward_operands *o,
                               int needs_data) {
    rapt_status status =
        rapti_matmul_check_operand(context, "dc", o->dc, 2, RAPT_MAX_RANK, needs_data);
    if (status != RAPT_OK) { return status; }
    const int64_t m = o->dc->size[o->dc->rank - 2], n = o->dc->size[o->dc->rank - 1];
    const rapt_tensor *const first = o->a ? o->a : o->da;
    status = check_pair(context, (const char *const[]){"a", "da"},
                        (const rapt_tensor *const[]){o->a, o->da},
                        (const int[]){needs_data && o->db, needs_data}, o->dc, m, -1);
    if (status != RAPT_OK) { return status; }
    status = check_pair(context, (const char *const[]){"b", "db"},
                        (const rapt_tensor *const[]){o->b, o->db},
                        (const int[]){needs_data && o->da, needs_data}, o->dc,
                        first ? first->size[first->rank - 1] : -1, n);
    if (status != RAPT_OK || !o->dbias) { return status; }
    status = rapti_matmul_check_operand(context, "dbias", o->dbias, 1, 1, needs_data);
    return status == RAPT_OK ? rapti_operand_sizes(context, "dbias", o->dbias, 1, &n) : status;
}

/* Memory that is not known yet (a null pointer) overlaps nothing. */
static rapt_status check_overlap(rapt_context *context, const rapt_matmul_backward_operands *o) {
    const char *const name[] = {"da", "db", "dbias", "a", "b", "dc"};
    const rapt_tensor *const t[] = {o->da, o->db, o->dbias, o->a, o->b, o->dc};
    for (int i = 0; i < 3; i++) {
        if (!t[i]) { continue; }
        rapt_status status = rapti_operand_written(context, name[i], t[i]);
        for (int j = i + 1; j < 6 && status == RAPT_OK; j++) {
            if (t[j] && t[j]->data && t[i]->data) {
                status = rapti_operand_apart(context, name[i], t[i], name[j], t[j]);
            }
        }
        if (status != RAPT_OK) { return status; }
    }
    return RAPT_OK;
}

static rapt_status check(rapt_context *context, const rapt_matmul *what,
                         const rapt_matmul_backward_operands *o, int needs_data) {
    rapt_status status = rapti_operand_context(context);
    if (status == RAPT_OK) { status = rapti_matmul_check_alpha(context, what); }
    if (status != RAPT_OK) { return status; }
    if (!o) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "operands: null pointer"); }
    if (o->accumulate & ~1) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "accumulate: %d, expected 0 or 1",
                          o->accumulate);
    }
    if (o->da && !o->b) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "b: null pointer, needed for da");
    }
    if (o->db && !o->a) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "a: null pointer, needed for db");
    }
    status = check_sizes(context, o, needs_data);
    return status == RAPT_OK ? check_overlap(context, o) : status;
}

/* ---- Products ---- */

/* Size and stride of the axis that stands `from_right` axes before the last; 1 and 0 if absent. */
static int64_t size_of(const rapt_tensor *t, int32_t from_right) {
    return from_right < t->rank ? t->size[t->rank - 1 - from_right] : 1;
}

static int64_t stride_of(const rapt_tensor *t, int32_t from_right) {
    return from_right < t->rank ? t->stride[t->rank - 1 - from_right] : 0;
}

static void put_axis(rapt_tensor *t, int32_t from_right, int64_t size, int64_t stride) {
    t->size[t->rank - 1 - from_right] = size;
    t->stride[t->rank - 1 - from_right] = stride;
}

/* 1 if the summed axis has become part of the inner index: left's last axis, right's last but one.
 */
static int fold(gradient *g, const rapti_matmul_axis *axis) {
    const int64_t size = size_of(&g->left, 0);
    int64_t left = stride_of(&g->left, 0), right = stride_of(&g->right, 1);
    if (size == 1) {
        left = axis->a;
        right = axis->b;
    } else if (axis->size > 0 && (axis->a != size * left || axis->b != size * right)) {
        return 0;
    }
    put_axis(&g->left, 0, size * axis->size, left);
    put_axis(&g->right, 1, size * axis->size, right);
    return 1;
}

/* Folds what can be folded, in any order; a fold may make room for the next. */
static void fold_sums(gradient *g) {
    for (int32_t i = g->sums.count - 1; i >= 0; i--) {
        if (!fold(g, &g->sums.axis[i])) { continue; }
        g->sums.count--;
        for (int32_t j = i; j < g->sums.count; j++) { g->sums.axis[j] = g->sums.axis[j + 1]; }
        i = g->sums.count;
    }
    g->sums.items = 1;
    for (int32_t i = 0; i < g->sums.count; i++) { g->sums.items *= g->sums.axis[i].size; }
}

/* Sorts the leading axes of c into those that `out` has, too, and those over which it sums. */
static void sort_axes(gradient *g, const rapt_tensor *c, const rapt_tensor *left,
                      const rapt_tensor *right, const rapt_tensor *out) {
    rapt_tensor *const view[3] = {&g->left, &g->right, &g->out};
    const rapt_tensor *const from[3] = {left, right, out};
    int32_t batch = 0;
    for (int32_t i = 2; i < c->rank; i++) { batch += size_of(out, i) == size_of(c, i); }
    for (int v = 0; v < 3; v++) {
        *view[v] = *from[v];
        view[v]->rank = batch + 2;
        for (int32_t i = 0; i < 2; i++) {
            put_axis(view[v], i, size_of(from[v], i), stride_of(from[v], i));
        }
    }
    g->sums = (rapti_matmul_axes){0};
    int32_t at = batch + 2; /* counts down to 2 from the left */
    for (int32_t i = c->rank - 1; i >= 2; i--) {
        const int64_t size = size_of(c, i);
        if (size_of(out, i) == size) {
            at--;
            for (int v = 0; v < 3; v++) { put_axis(view[v], at, size, stride_of(from[v], i)); }
        } else {
            g->sums.axis[g->sums.count++] =
                (rapti_matmul_axis){size, stride_of(left, i), stride_of(right, i), 0};
        }
    }
}

/* out = left right is out^T = right^T left^T: the one whose rows lie in one piece. */
static void choose_side(gradient *g) {
    if (stride_of(&g->out, 0) == 1 || stride_of(&g->out, 1) != 1) { return; }
    const rapt_tensor left = g->left;
    g->left = rapt_tensor_transpose(g->right);
    g->right = rapt_tensor_transpose(left);
    g->out = rapt_tensor_transpose(g->out);
    for (int32_t i = 0; i < g->sums.count; i++) {
        const int64_t a = g->sums.axis[i].a;
        g->sums.axis[i].a = g->sums.axis[i].b;
        g->sums.axis[i].b = a;
    }
}

static size_t plan_gradient(const rapt_context *context, float alpha, gradient *g,
                            const rapt_tensor *c, const rapt_tensor *left, const rapt_tensor *right,
                            const rapt_tensor *out) {
    const rapt_tensor normal[4] = {rapti_tensor_normal(c), rapti_tensor_normal(left),
                                   rapti_tensor_normal(right), rapti_tensor_normal(out)};
    sort_axes(g, &normal[0], &normal[1], &normal[2], &normal[3]);
    fold_sums(g);
    choose_side(g);
    const rapt_matmul what = {.alpha = {1, alpha}};
    const rapt_matmul_operands operands = {.a = &g->left, .b = &g->right, .c = &g->out};
    rapti_matmul_describe(&what, &operands, &g->problem);
    rapti_matmul_make_plan(context, &g->problem, &g->plan);
    return g->plan.scratch_bytes;
}

static void run_gradient(const gradient *g, int32_t accumulate, void *scratch) {
    rapti_matmul_problem p = g->problem;
    for (int64_t i = 0; i < g->sums.items; i++) {
        const rapti_matmul_axis offset = rapti_matmul_offset(&g->sums, i);
        p.a = g->problem.a + offset.a;
        p.b = g->problem.b + offset.b;
        p.beta = accumulate || i > 0 ? 1.0f : 0.0f;
        rapti_matmul_execute(&p, &g->plan, scratch);
    }
}

/* ---- Calls ---- */

static void plan_backward(const rapt_context *context, const rapt_matmul *what,
                          const rapt_matmul_backward_operands *o, backward *w) {
    const float alpha = what->alpha.on ? what->alpha.value : 1.0f;
    size_t bytes[3] = {0};
    if (o->da) {
        const rapt_tensor right = rapt_tensor_transpose(*o->b);
        bytes[0] = plan_gradient(context, alpha, &w->da, o->dc, o->dc, &right, o->da);
    }
    if (o->db) {
        const rapt_tensor left = rapt_tensor_transpose(*o->a);
        bytes[1] = plan_gradient(context, alpha, &w->db, o->dc, &left, o->dc, o->db);
    }
    if (o->dbias) {
        rapti_column_sums_plan(context, o->dc, &w->dbias);
        bytes[2] = w->dbias.scratch_bytes;
    }
    w->scratch_bytes = bytes[0];
    for (int i = 1; i < 3; i++) {
        if (bytes[i] > w->scratch_bytes) { w->scratch_bytes = bytes[i]; }
    }
}

rapt_status rapt_matmul_backward(rapt_context *context, const rapt_matmul *what,
                                 const rapt_matmul_backward_operands *o) {
    backward w;
    void *scratch = NULL;
    rapt_status status = check(context, what, o, 1);
    if (status != RAPT_OK) { return status; }
    plan_backward(context, what, o, &w);
    status =
        rapti_context_scratch(context, o->scratch, o->scratch_bytes, w.scratch_bytes, &scratch);
    if (status != RAPT_OK) { return status; }
    if (o->da) { run_gradient(&w.da, o->accumulate, scratch); }
    if (o->db) { run_gradient(&w.db, o->accumulate, scratch); }
    if (o->dbias) { rapti_column_sums_run(&w.dbias, o->dbias, o->accumulate, scratch); }
    return RAPT_OK;
}

rapt_status rapt_matmul_backward_scratch(rapt_context *context, const rapt_matmul *what,
                                         const rapt_matmul_backward_operands *o, int64_t *bytes) {
    backward w;
    const rapt_status status = check(context, what, o, 0);
    if (status != RAPT_OK) { return status; }
    if (!bytes) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "bytes: null pointer"); }
    plan_backward(context, what, o, &w);
    *bytes = (int64_t)w.scratch_bytes;
    return RAPT_OK;
}
