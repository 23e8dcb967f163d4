/* SPDX-License-Identifier: MIT
 * oracle_backward.c: with f_ij = keep_ij / (1 - dropout) and P the weights before dropout,
 *
 *   dP_ij = f_ij dout_i . v_j;          D_i = sum_j dP_ij P_ij  (= dout_i . out_i)
 *   dS_ij = P_ij (dP_ij - D_i + dlse_i)
 *   dq_i  = scale sum_j dS_ij k_j;      dk_j = scale sum_i dS_ij q_i
 *   dv_j  = sum_i f_ij P_ij dout_i;     dbias = dS
 *
 * Bounds, with u = 2^-24. P is computed again from the f32 lse; D may come from the f32 out:
 *
 *   P      |d ln P| <= e = ds + u |s - lse| + 2u + (bound of lse);  below 2^-100 it may be 0
 *   dP     (Dv + EXTRA) u f sum |dout v|
 *   D      sum |dout| (bound of out) + (Dv + EXTRA) u sum |dout out|
 *   dS     P's error times |X| + P times X's error, X = dP - D + dlse, whose two additions and the
 *          product round 4 times
 *   sums   of n terms, in any order and in partial sums: (n + EXTRA) u sum |terms|. */
#include "oracle_backward.h"

#include "oracle_dropout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EXTRA = 6 };
#define LARGEST_WEIGHT 1.001 /* lse is rounded */
#define TINY_WEIGHT 0x1p-99  /* below 2^-100 it may be 0; with a margin of 2 */

/* ---- One row ---- */

typedef struct backward {
    oracle_gradients *g;
    const oracle_source *source;
    const rapt_tensor *dout;
    const oracle_row *row;
    const float *dout_row;
    double dlse;
    double d, d_error; /* D_i */
    double scale;      /* of the scores */
    double key_terms;  /* of a sum over all queries that share a key */
} backward;

static double dot(const float *a, int64_t a_stride, const float *b, int64_t b_stride, int64_t n,
                  double *terms) {
    double sum = 0.0;
    *terms = 0.0;
    for (int64_t d = 0; d < n; d++) {
        const double product = (double)a[d * a_stride] * (double)b[d * b_stride];
        sum += product;
        *terms += fabs(product);
    }
    return sum;
}

/* dP of visible key n. */
static double d_weight(const backward *x, int64_t n, double *error) {
    const rapt_tensor *v = x->source->ops->v;
    const oracle_row *r = x->row;
    const float *value = oracle_element(v, r->b, r->kv_head, r->key[n]);
    double terms = 0.0;
    const double sum =
        dot(x->dout_row, x->dout->stride[3], value, v->stride[3], v->size[3], &terms);
    *error = r->kept[n] * (double)(v->size[3] + EXTRA) * (ORACLE_U * terms + ORACLE_TINY_PRODUCT);
    return r->kept[n] * sum;
}

static void find_d(backward *x, int64_t index) {
    const oracle *o = &x->g->forward;
    double unused = 0.0, terms = 0.0;
    x->d = x->d_error = 0.0;
    for (int64_t n = 0; n < x->row->n; n++) x->d += d_weight(x, n, &unused) * x->row->p[n];
    for (int64_t d = 0; d < o->dv; d++) {
        const double gradient = fabs((double)x->dout_row[d * x->dout->stride[3]]);
        terms += gradient * fabs(o->out[index * o->dv + d]);
        x->d_error += gradient * o->out_tol[index * o->dv + d];
    }
    x->d_error += (double)(o->dv + EXTRA) * (ORACLE_U * terms + ORACLE_TINY_PRODUCT);
}

/* gradient[offset + c] += factor * row[c], c < n; `roundings` of each such sum. The sum may be made
 * without its constant `outer`, which then multiplies what products lost by underflow. */
static void add_row(oracle_gradient *gradient, int64_t offset, double factor, double error,
                    double outer, const float *row, int64_t stride, int64_t n, double roundings) {
    for (int64_t c = 0; c < n; c++) {
        const double term = (double)row[c * stride];
        gradient->value[offset + c] += factor * term;
        gradient->tol[offset + c] += ORACLE_SECOND_ORDER * error * fabs(term) +
                                     roundings * ORACLE_U * fabs(factor * term) +
                                     roundings * fmax(1.0, outer) * ORACLE_TINY_PRODUCT;
    }
}

static void add_pair(const backward *x, int64_t index, int64_t n, double lse_error) {
    const rapt_attention_operands *ops = x->source->ops;
    const oracle_row *r = x->row;
    const int64_t j = r->key[n], head_dim = ops->q->size[3], value_dim = ops->v->size[3];
    const int64_t kv = (r->b * ops->k->size[1] + r->kv_head) * ops->k->size[2] + j;
    const double p = r->p[n], lse = r->m + log(r->l);
    /* lse times log2(e): one rounding, and less than one for that in f32 */
    const double e =
        r->error[n] + ORACLE_U * (fabs(r->score[n] - lse) + 2 * fabs(lse) + 2.0) + lse_error;
    const double p_error =
        p > 0.0 ? fmin(p * expm1(fmin(e, 700.0)), LARGEST_WEIGHT) + TINY_WEIGHT : 0.0;
    double dp_error = 0.0;
    const double dp = d_weight(x, n, &dp_error), sum = dp - x->d + x->dlse;
    const double sum_error =
        dp_error + x->d_error + 2.0 * ORACLE_U * (fabs(dp) + fabs(x->d) + fabs(x->dlse));
    const double ds = p * sum;
    const double ds_error = p_error * (fabs(sum) + sum_error) + p * sum_error +
                            2.0 * ORACLE_U * fabs(ds) + ORACLE_TINY_PRODUCT;
    x->g->dbias.value[index * ops->k->size[2] + j] = ds;
    x->g->dbias.tol[index * ops->k->size[2] + j] = ORACLE_SECOND_ORDER * ds_error;
    const double scale = fabs(x->scale), f = r->kept[n];
    add_row(&x->g->dq, index * head_dim, x->scale * ds, scale * ds_error, scale,
            oracle_element(ops->k, r->b, r->kv_head, j), ops->k->stride[3], head_dim,
            (double)(r->n + EXTRA));
    add_row(&x->g->dk, kv * head_dim, x->scale * ds, scale * ds_error, scale,
            oracle_element(ops->q, r->b, r->h, r->i), ops->q->stride[3], head_dim, x->key_terms);
    add_row(&x->g->dv, kv * value_dim, f * p, f * (p_error + r->drop_k * ORACLE_U * p), f,
            x->dout_row, x->dout->stride[3], value_dim, x->key_terms);
}

/* ---- All rows ---- */

static void clear(oracle_gradient *g, int64_t count) {
    if (count > g->capacity || !g->value) {
        g->capacity = count;
        oracle_grow(&g->value, count);
        oracle_grow(&g->tol, count);
    }
    g->count = count;
    memset(g->value, 0, (size_t)count * sizeof *g->value);
    memset(g->tol, 0, (size_t)count * sizeof *g->tol);
}

static int64_t elements(const rapt_tensor *t) {
    int64_t count = 1;
    for (int32_t axis = 0; axis < t->rank; axis++) count *= t->size[axis];
    return count;
}

static double dlse_at(const rapt_tensor *dlse, const oracle_row *r) {
    if (!dlse) return 0.0;
    const int64_t *stride = dlse->stride;
    return (
        double)((const float *)dlse->data)[r->b * stride[0] + r->h * stride[1] + r->i * stride[2]];
}

void oracle_backward(oracle_gradients *g, const rapt_attention *what,
                     const rapt_attention_operands *ops, const rapt_tensor *dout,
                     const rapt_tensor *dlse) {
    const oracle_source source = {.what = what, .ops = ops};
    oracle_forward(&g->forward, what, ops);
    clear(&g->dq, elements(ops->q));
    clear(&g->dk, elements(ops->k));
    clear(&g->dv, elements(ops->v));
    clear(&g->dbias, g->forward.rows * g->forward.keys);
    oracle_row *row = &g->forward.row;
    backward x = {.g = g, .source = &source, .dout = dout, .row = row};
    x.scale = oracle_scale(&source);
    for (int64_t index = 0; index < g->forward.rows; index++) {
        oracle_row_find(row, &source, index);
        if (row->l == 0.0) continue; /* nothing to see: nothing flows */
        x.dout_row = oracle_element(dout, row->b, row->h, row->i);
        x.dlse = dlse_at(dlse, row);
        x.key_terms = (double)(ops->q->size[1] / ops->k->size[1] * ops->q->size[2] + EXTRA);
        find_d(&x, index);
        for (int64_t n = 0; n < row->n; n++) add_pair(&x, index, n, g->forward.lse_tol[index]);
    }
}

void oracle_reduce_bias(const oracle_gradients *g, const rapt_attention_operands *ops,
                        const rapt_tensor *bias, oracle_gradient *reduced) {
    const int64_t heads = ops->q->size[1], queries = ops->q->size[2], keys = ops->k->size[2];
    const rapt_tensor dense = rapt_tensor_contiguous(RAPT_F32, NULL, bias->rank, bias->size);
    clear(reduced, elements(bias));
    const double terms = reduced->count ? (double)(g->dbias.count / reduced->count) : 0.0;
    for (int64_t n = 0; n < g->dbias.count; n++) {
        const int64_t row = n / keys;
        const int64_t to = oracle_broadcast_offset(&dense, row / queries / heads,
                                                   row / queries % heads, row % queries, n % keys);
        reduced->value[to] += g->dbias.value[n];
        reduced->tol[to] += g->dbias.tol[n] + (terms + EXTRA) * ORACLE_U * fabs(g->dbias.value[n]);
    }
}

void oracle_gradient_free(oracle_gradient *g) {
    free(g->value);
    free(g->tol);
    *g = (oracle_gradient){0};
}

void oracle_gradients_free(oracle_gradients *g) {
    oracle_gradient_free(&g->dq);
    oracle_gradient_free(&g->dk);
    oracle_gradient_free(&g->dv);
    oracle_gradient_free(&g->dbias);
    oracle_free(&g->forward);
}
