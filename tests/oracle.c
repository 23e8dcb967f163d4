/* SPDX-License-Identifier: MIT
 * oracle.c: the formula of rapt/attention.h, one query row at a time.
 *
 * Bounds, with x_j = keep_j / (1 - dropout) * v_j, so that out = sum_j p_j x_j, and the letters of
 * oracle_row.c:
 *
 *   out       sum_j p_j (exp(e_j) - 1) |x_j - out| / (1 - sum_j p_j (exp(e_j) - 1))
 *             + k u (sum_j p_j |x_j| + |out|)
 *             and never more than the spread of the x_j, as out is their weighted mean; dropout
 *             rounds 1 / (1 - dropout) and the product with it: 2 more in k
 *   weights   those of the row times keep_j / (1 - dropout) and its 2 roundings; exactly 0 where
 *             hidden or dropped
 *   tiny      a product may lose 2^-149 by underflow, 2^12 times that once it is divided by a
 *             sum of weights down to 2^-12; a weight below 2^-114 may be 0. */
#include "oracle.h"

#include "oracle_dropout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double SLACK = 0x1p12;

/* ---- One row ---- */

static void column(const oracle_row *r, const rapt_tensor *v, int64_t d, double *out, double *tol) {
    const int64_t offset = d * v->stride[3];
    double sum = 0.0, terms = 0.0, lo = INFINITY, hi = -INFINITY, factor = 1.0;
    for (int64_t n = 0; n < r->n; n++) {
        const float *row = oracle_element(v, r->b, r->kv_head, r->key[n]);
        const double x = r->kept[n] * (double)row[offset];
        sum += r->p[n] * x;
        terms += r->p[n] * fabs(x);
        lo = fmin(lo, x);
        hi = fmax(hi, x);
        factor = fmax(factor, r->kept[n]);
    }
    double drift = 0.0;
    for (int64_t n = 0; n < r->n; n++) {
        const float *row = oracle_element(v, r->b, r->kv_head, r->key[n]);
        drift += r->slip[n] * fabs(r->kept[n] * (double)row[offset] - sum);
    }
    drift = r->spread < 0.5 ? fmin(drift / (1.0 - r->spread), hi - lo) : hi - lo;
    const double largest = fmax(fabs(lo), fabs(hi)), k = r->k + r->drop_k;
    *out = sum;
    *tol = ORACLE_SECOND_ORDER * (drift + k * ORACLE_U * (terms + fabs(sum))) +
           (double)r->n * ORACLE_TINY_WEIGHT * largest +
           2.0 * k * factor * SLACK * ORACLE_TINY_PRODUCT;
}

static void weights(const oracle_row *r, bool before_dropout, double *out, double *tol) {
    for (int64_t n = 0; n < r->n; n++) {
        const int64_t j = r->key[n];
        const double factor = before_dropout ? 1.0 : r->kept[n];
        const double p = oracle_row_weight(r, n, &tol[j]);
        out[j] = factor * p;
        tol[j] = factor * (tol[j] + r->drop_k * ORACLE_U * p);
    }
}

/* ---- All rows ---- */

void oracle_grow(double **memory, int64_t count) {
    free(*memory);
    *memory = calloc((size_t)count + 1, sizeof(double));
    if (!*memory) {
        fputs("oracle: out of memory\n", stderr);
        abort();
    }
}

static void reserve_pair(int64_t count, int64_t *capacity, double **values, double **tol) {
    if (count <= *capacity && *values) return;
    *capacity = count;
    oracle_grow(values, count);
    oracle_grow(tol, count);
}

static void reserve(oracle *o, bool with_weights) {
    reserve_pair(o->rows * o->dv, &o->capacity_values, &o->out, &o->out_tol);
    reserve_pair(o->rows, &o->capacity_rows, &o->lse, &o->lse_tol);
    if (!with_weights) return;
    const size_t count = (size_t)(o->rows * o->keys);
    reserve_pair((int64_t)count, &o->capacity_weights, &o->weights, &o->weights_tol);
    memset(o->weights, 0, count * sizeof *o->weights);
    memset(o->weights_tol, 0, count * sizeof *o->weights_tol);
}

static void all_rows(oracle *o, const oracle_source *s, bool with_weights) {
    o->rows = s->ops->q->size[0] * s->ops->q->size[1] * s->ops->q->size[2];
    o->dv = s->ops->v->size[3];
    o->keys = s->ops->k->size[2];
    o->within = 0;
    reserve(o, with_weights);
    for (int64_t n = 0; n < o->rows; n++) {
        oracle_row_find(&o->row, s, n);
        o->within += o->row.within;
        for (int64_t d = 0; d < o->dv; d++) {
            double *out = &o->out[n * o->dv + d], *tol = &o->out_tol[n * o->dv + d];
            *out = *tol = 0.0;
            if (o->row.n > 0) column(&o->row, s->ops->v, d, out, tol);
        }
        o->lse[n] = oracle_row_lse(&o->row, &o->lse_tol[n]);
        if (!with_weights) continue;
        weights(&o->row, s->what->weights_before_dropout != 0, &o->weights[n * o->keys],
                &o->weights_tol[n * o->keys]);
    }
}

void oracle_forward(oracle *o, const rapt_attention *what, const rapt_attention_operands *ops) {
    const oracle_source s = {.what = what, .ops = ops};
    all_rows(o, &s, ops->weights != NULL);
}

void oracle_scored(oracle *o, const rapt_attention *what, const rapt_score *score,
                   const rapt_attention_operands *ops) {
    const oracle_source s = {.what = what, .ops = ops, .score = score};
    all_rows(o, &s, true);
}

void oracle_softmax(oracle *o, const rapt_attention *what,
                    const rapt_attention_softmax_operands *pass) {
    const int64_t *size = pass->scores->size; /* as of queries and keys without features */
    const rapt_tensor q = rapt_tensor_4d(RAPT_F32, NULL, size[0], size[1], size[2], 0);
    const rapt_tensor k = rapt_tensor_4d(RAPT_F32, NULL, size[0], size[1], size[3], 0);
    const rapt_attention_operands ops = {.q = &q,
                                         .k = &k,
                                         .v = &k,
                                         .mask = pass->mask,
                                         .bias = pass->bias,
                                         .key_lengths = pass->key_lengths,
                                         .keep = pass->keep};
    const oracle_source s = {.what = what, .ops = &ops, .scores = pass->scores};
    all_rows(o, &s, true);
}

void oracle_free(oracle *o) {
    double *const arrays[] = {o->out, o->out_tol, o->lse, o->lse_tol, o->weights, o->weights_tol};
    for (size_t n = 0; n < sizeof arrays / sizeof *arrays; n++) free(arrays[n]);
    oracle_row_free(&o->row);
    *o = (oracle){0};
}
