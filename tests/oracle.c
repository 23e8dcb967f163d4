/* SPDX-License-Identifier: MIT
 * oracle.c: the formula of rapt/attention.h, one query row at a time.
 *
 * Bounds, with u = 2^-24 (half an ulp of f32) and n visible keys; sums may run in any order.
 *
 *   score    s = scale * (q . k) + bias. D products and additions, rounding of scale (1/sqrt(D) in
 *            f32: 2) and of the multiplication with it (1), addition of the bias (1 on each term):
 *            |ds| <= u * ((D + SCORE_EXTRA) * |scale| sum |q_d k_d| + |bias|)
 *   weight   w = exp(s - m). The subtraction adds u |s - m|, in one step or, with a running
 *            maximum, in several that add up to the same; exp adds 1 ulp = 2u at most:
 *            w' = w exp(e), |e| <= ds + u |s - m| + 2u
 *   rescale  each time the maximum moves, sums are multiplied by a factor that is an exp (2u) and
 *            rounded (u). It moves at most once per block of keys with a visible key.
 *   sums     of n terms: n u sum|terms|; for l and for p * v alike; the division by l adds 2u:
 *            k = n + RESCALE_ROUNDINGS * moves + SUM_EXTRA roundings in each of the two sums
 *   out      sum_j p_j (exp(e_j) - 1) |v_j - out| / (1 - sum_j p_j (exp(e_j) - 1))
 *            + k u (sum_j p_j |v_j| + |out|)
 *            and never more than the spread of the visible values, as out is a weighted mean
 *   lse      ln(1 + sum_j p_j (exp(e_j) - 1)), and never more than max_j e_j;
 *            + k u + LSE_ROUNDINGS u (|m| + |ln l|)
 *            (for e < 1, exp(e) - 1 < e (1 + e) serves)
 *   tiny     a product may lose 2^-149 by underflow; a weight below 2^-126 may be 0.
 * Products of two of these errors are covered by SECOND_ORDER. */
#include "oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define U 0x1p-24
#define TINY_PRODUCT 0x1p-149
#define TINY_WEIGHT 0x1p-125
#define SECOND_ORDER 1.01

enum { SCORE_EXTRA = 5, RESCALE_ROUNDINGS = 3, SUM_EXTRA = 3, LSE_ROUNDINGS = 3 };
enum { LEAST_KEY_BLOCK = 7 }; /* no instruction set's key block is smaller */

/* ---- Visibility ---- */

/* Element (b, h, i, j) of a tensor of rank 1 to 4 that broadcasts to [B, Hq, Tq, Tk]. */
static int64_t broadcast_offset(const rapt_tensor *t, int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t index[4] = {b, h, i, j};
    int64_t offset = 0;
    for (int32_t axis = 0; axis < t->rank; axis++) {
        if (t->size[axis] != 1) offset += index[4 - t->rank + axis] * t->stride[axis];
    }
    return offset;
}

static int64_t key_length(const rapt_tensor *t, int64_t b) {
    const int64_t offset = t->size[0] == 1 ? 0 : b * t->stride[0];
    return t->dtype == RAPT_I64 ? ((const int64_t *)t->data)[offset]
                                : ((const int32_t *)t->data)[offset];
}

bool oracle_within(const rapt_attention *what, const rapt_attention_operands *ops, int64_t b,
                   int64_t i, int64_t j) {
    const int64_t shift =
        what->causal == RAPT_CAUSAL_BOTTOM_RIGHT ? ops->k->size[2] - ops->q->size[2] : 0;
    const int64_t ahead = j - (i + shift); /* > 0: the key comes after the query's position */
    if (what->causal != RAPT_CAUSAL_NONE && ahead > 0) return false;
    if (what->window.on && !(ahead > -what->window.left && ahead <= what->window.right)) {
        return false;
    }
    return !ops->key_lengths || j < key_length(ops->key_lengths, b);
}

static double bias_at(const rapt_tensor *bias, int64_t b, int64_t h, int64_t i, int64_t j) {
    return bias ? (double)((const float *)bias->data)[broadcast_offset(bias, b, h, i, j)] : 0.0;
}

bool oracle_visible(const rapt_attention *what, const rapt_attention_operands *ops, int64_t b,
                    int64_t h, int64_t i, int64_t j) {
    if (!oracle_within(what, ops, b, i, j)) return false;
    const rapt_tensor *mask = ops->mask;
    if (mask && !((const uint8_t *)mask->data)[broadcast_offset(mask, b, h, i, j)]) return false;
    return bias_at(ops->bias, b, h, i, j) != -INFINITY;
}

/* ---- One row ---- */

typedef struct row {
    int64_t b, h, kv_head, i;
    int64_t n;     /* visible keys */
    double m, l;   /* maximum, sum */
    double spread; /* sum_j p_j (exp(e_j) - 1) */
    double widest; /* max_j e_j */
    double k;      /* roundings of each sum */
} row;

static double scale_of(const rapt_attention *what, int64_t head_dim) {
    if (what->scale.on) return (double)what->scale.value;
    return head_dim > 0 ? 1.0 / sqrt((double)head_dim) : 1.0;
}

static const float *element(const rapt_tensor *t, int64_t b, int64_t h, int64_t i) {
    return (const float *)t->data + b * t->stride[0] + h * t->stride[1] + i * t->stride[2];
}

static void scores(oracle *o, const rapt_attention *what, const rapt_attention_operands *ops,
                   row *r) {
    const int64_t head_dim = ops->q->size[3], sq = ops->q->stride[3], sk = ops->k->stride[3];
    const double scale = scale_of(what, head_dim);
    r->n = 0;
    r->m = -INFINITY;
    for (int64_t j = 0; j < ops->k->size[2]; j++) {
        o->within += oracle_within(what, ops, r->b, r->i, j);
        if (!oracle_visible(what, ops, r->b, r->h, r->i, j)) continue;
        double dot = 0.0, terms = 0.0;
        for (int64_t d = 0; d < head_dim; d++) {
            const double product = (double)element(ops->q, r->b, r->h, r->i)[d * sq] *
                                   (double)element(ops->k, r->b, r->kv_head, j)[d * sk];
            dot += product;
            terms += fabs(product);
        }
        const double bias = bias_at(ops->bias, r->b, r->h, r->i, j);
        const double s = scale * dot + bias;
        o->key[r->n] = j;
        o->score[r->n] = s;
        o->error[r->n] = U * ((double)(head_dim + SCORE_EXTRA) * fabs(scale) * terms + fabs(bias)) +
                         (double)(head_dim + 2) * fmax(1.0, fabs(scale)) * TINY_PRODUCT;
        r->n++;
        if (s > r->m) r->m = s;
    }
}

static void weights(oracle *o, row *r, int64_t keys) {
    r->l = r->spread = r->widest = 0.0;
    for (int64_t n = 0; n < r->n; n++) r->l += o->p[n] = exp(o->score[n] - r->m);
    for (int64_t n = 0; n < r->n; n++) {
        const double x = o->score[n] - r->m, e = o->error[n] + U * fabs(x) + 2 * U;
        o->p[n] /= r->l;
        o->slip[n] = e < 1.0 ? o->p[n] * e * (1.0 + e) : (exp(x + e) - exp(x)) / r->l;
        r->spread += o->slip[n];
        r->widest = fmax(r->widest, e);
    }
    const double blocks = (double)(keys / LEAST_KEY_BLOCK + 1);
    r->k = (double)r->n + RESCALE_ROUNDINGS * fmin((double)r->n, blocks) + SUM_EXTRA;
}

static void column(oracle *o, const rapt_attention_operands *ops, const row *r, int64_t d,
                   double *out, double *tol) {
    const int64_t offset = d * ops->v->stride[3];
    double sum = 0.0, terms = 0.0, lo = INFINITY, hi = -INFINITY;
    for (int64_t n = 0; n < r->n; n++) {
        const double v = (double)element(ops->v, r->b, r->kv_head, o->key[n])[offset];
        sum += o->p[n] * v;
        terms += o->p[n] * fabs(v);
        lo = fmin(lo, v);
        hi = fmax(hi, v);
    }
    double drift = 0.0;
    for (int64_t n = 0; n < r->n; n++) {
        const double v = (double)element(ops->v, r->b, r->kv_head, o->key[n])[offset];
        drift += o->slip[n] * fabs(v - sum);
    }
    drift = r->spread < 0.5 ? fmin(drift / (1.0 - r->spread), hi - lo) : hi - lo;
    const double largest = fmax(fabs(lo), fabs(hi));
    *out = sum;
    *tol = SECOND_ORDER * (drift + r->k * U * (terms + fabs(sum))) +
           (double)r->n * TINY_WEIGHT * largest + 2.0 * r->k * TINY_PRODUCT;
}

static void log_sum(const row *r, double *lse, double *tol) {
    const double ln_l = log(r->l);
    const double drift = fmin(log1p(r->spread), r->widest);
    *lse = r->m + ln_l;
    *tol = SECOND_ORDER * (drift + r->k * U + LSE_ROUNDINGS * U * (fabs(r->m) + fabs(ln_l)));
}

/* ---- All rows ---- */

static void grow(double **memory, int64_t count) {
    free(*memory);
    *memory = calloc((size_t)count + 1, sizeof(double));
    if (!*memory) {
        fputs("oracle: out of memory\n", stderr);
        abort();
    }
}

static void reserve(oracle *o, int64_t keys) {
    if (o->rows * o->dv > o->capacity_values || !o->out) {
        o->capacity_values = o->rows * o->dv;
        grow(&o->out, o->capacity_values);
        grow(&o->out_tol, o->capacity_values);
    }
    if (o->rows > o->capacity_rows || !o->lse) {
        o->capacity_rows = o->rows;
        grow(&o->lse, o->rows);
        grow(&o->lse_tol, o->rows);
    }
    if (keys > o->capacity_keys || !o->key) {
        o->capacity_keys = keys;
        free(o->key);
        o->key = malloc(((size_t)keys + 1) * sizeof *o->key);
        grow(&o->score, keys);
        grow(&o->error, keys);
        grow(&o->p, keys);
        grow(&o->slip, keys);
    }
}

void oracle_forward(oracle *o, const rapt_attention *what, const rapt_attention_operands *ops) {
    const int64_t heads = ops->q->size[1], queries = ops->q->size[2], keys = ops->k->size[2];
    const int64_t group = ops->k->size[1] > 0 ? heads / ops->k->size[1] : 1;
    o->rows = ops->q->size[0] * heads * queries;
    o->dv = ops->v->size[3];
    o->within = 0;
    reserve(o, keys);
    for (int64_t n = 0; n < o->rows; n++) {
        row r = {.b = n / (heads * queries), .h = n / queries % heads, .i = n % queries};
        r.kv_head = r.h / group;
        scores(o, what, ops, &r);
        if (r.n > 0) weights(o, &r, keys);
        for (int64_t d = 0; d < o->dv; d++) {
            double *out = &o->out[n * o->dv + d], *tol = &o->out_tol[n * o->dv + d];
            *out = *tol = 0.0;
            if (r.n > 0) column(o, ops, &r, d, out, tol);
        }
        o->lse[n] = -INFINITY;
        o->lse_tol[n] = 0.0;
        if (r.n > 0) log_sum(&r, &o->lse[n], &o->lse_tol[n]);
    }
}

void oracle_free(oracle *o) {
    double *const arrays[] = {o->out,   o->out_tol, o->lse, o->lse_tol,
                              o->score, o->error,   o->p,   o->slip};
    for (size_t n = 0; n < sizeof arrays / sizeof *arrays; n++) free(arrays[n]);
    free(o->key);
    *o = (oracle){0};
}
