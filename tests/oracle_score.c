/* SPDX-License-Identifier: MIT
 * oracle_score.c: visibility and scores, with u = 2^-24 (half an ulp of f32):
 *
 *   dot       s = scale * (q . k) + bias. D products and additions, rounding of scale (1/sqrt(D) in
 *             f32: 2), of its product with log2(e) (1, and less than 1 for that in f32) and of the
 *             multiplication with both (1); the bias times log2(e) (as before: 2), added (1 on each
 *             term):
 *             |ds| <= u * ((D + SCORE_EXTRA) * |scale| sum |q_d k_d| + BIAS_ROUNDINGS |bias|)
 *   additive  a_u = sum_d Wq[u,d] q_d + sum_d Wk[u,d] k_d, one more addition between the two;
 *             |da| <= u ((D + 1) sum |Wq q| + (Dk + 1) sum |Wk k|); tanh grows no error and adds
 *             1 ulp = 2u; then U products and additions, and scale and bias as above
 *   given     the multiplication with the scale (1), the bias (1 on each term)
 *   tiny      a product may lose 2^-149 by underflow. */
#include "oracle_score.h"

#include <math.h>

enum { SCORE_EXTRA = 7, BIAS_ROUNDINGS = 3, TANH_ROUNDINGS = 2 };
static const float LOWEST_BIAS = -2.3e38f; /* lower ones count as that, but not -inf */

/* ---- Visibility ---- */

int64_t oracle_broadcast_offset(const rapt_tensor *t, int64_t b, int64_t h, int64_t i, int64_t j) {
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
    if (!bias) return 0.0;
    const float at = ((const float *)bias->data)[oracle_broadcast_offset(bias, b, h, i, j)];
    return (double)(at < LOWEST_BIAS && at != -INFINITY ? LOWEST_BIAS : at);
}

bool oracle_visible(const rapt_attention *what, const rapt_attention_operands *ops, int64_t b,
                    int64_t h, int64_t i, int64_t j) {
    if (!oracle_within(what, ops, b, i, j)) return false;
    const rapt_tensor *mask = ops->mask;
    if (mask && !((const uint8_t *)mask->data)[oracle_broadcast_offset(mask, b, h, i, j)]) {
        return false;
    }
    return bias_at(ops->bias, b, h, i, j) != -INFINITY;
}

/* ---- Scores ---- */

int64_t oracle_kv_head(const rapt_attention_operands *ops, int64_t h) {
    return h / (ops->q->size[1] / ops->k->size[1]);
}

const float *oracle_element(const rapt_tensor *t, int64_t b, int64_t h, int64_t i) {
    return (const float *)t->data + b * t->stride[0] + h * t->stride[1] + i * t->stride[2];
}

double oracle_scale(const oracle_source *s) {
    const int64_t head_dim = s->ops->q->size[3];
    if (s->what->scale.on) return (double)s->what->scale.value;
    if (s->scores || (s->score && s->score->kind != RAPT_SCORE_SCALED_DOT)) return 1.0;
    return head_dim > 0 ? 1.0 / sqrt((double)head_dim) : 1.0;
}

/* sum_d a[d] b[d]; *terms: the sum of absolute terms. */
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

/* Bounds of a sum that an f32 computation takes, before its scale: error in units of u. */
typedef struct raw {
    double sum, error, tiny;
} raw;

static raw dot_score(const rapt_attention_operands *ops, const float *q, const float *k) {
    const int64_t n = ops->q->size[3];
    raw r = {.tiny = (double)(n + 2)};
    r.sum = dot(q, ops->q->stride[3], k, ops->k->stride[3], n, &r.error);
    r.error *= (double)(n + SCORE_EXTRA);
    return r;
}

static raw additive_score(const rapt_score *score, const rapt_attention_operands *ops,
                          const float *q, const float *k) {
    const int64_t units = score->v->size[0], dq = ops->q->size[3], dk = ops->k->size[3];
    raw r = {.tiny = (double)units * (double)(dq + dk + 4)};
    for (int64_t u = 0; u < units; u++) {
        const float *wq = (const float *)score->w_query->data + u * score->w_query->stride[0];
        const float *wk = (const float *)score->w_key->data + u * score->w_key->stride[0];
        double q_terms = 0.0, k_terms = 0.0;
        const double a = dot(wq, score->w_query->stride[1], q, ops->q->stride[3], dq, &q_terms) +
                         dot(wk, score->w_key->stride[1], k, ops->k->stride[3], dk, &k_terms);
        const double t = tanh(a), da = (double)(dq + 1) * q_terms + (double)(dk + 1) * k_terms;
        const double v = (double)((const float *)score->v->data)[u * score->v->stride[0]];
        r.sum += v * t;
        r.error += fabs(v) * fmin(da, 2.0 / ORACLE_U) +
                   (double)(units + TANH_ROUNDINGS + SCORE_EXTRA) * fabs(v * t);
        r.tiny += fabs(v) * (double)(dq + dk + 4);
    }
    return r;
}

double oracle_score(const oracle_source *s, int64_t b, int64_t h, int64_t i, int64_t j,
                    double *error) {
    const double scale = oracle_scale(s), bias = bias_at(s->ops->bias, b, h, i, j);
    raw r;
    if (s->scores) {
        const float *at = oracle_element(s->scores, b, h, i) + j * s->scores->stride[3];
        r = (raw){(double)*at, 2.0 * fabs((double)*at), 2.0};
    } else {
        const float *q = oracle_element(s->ops->q, b, h, i);
        const float *k = oracle_element(s->ops->k, b, oracle_kv_head(s->ops, h), j);
        const bool additive = s->score && s->score->kind == RAPT_SCORE_ADDITIVE;
        r = additive ? additive_score(s->score, s->ops, q, k) : dot_score(s->ops, q, k);
    }
    *error = ORACLE_U * (fabs(scale) * r.error + BIAS_ROUNDINGS * fabs(bias)) +
             r.tiny * fmax(1.0, fabs(scale)) * ORACLE_TINY_PRODUCT;
    return scale * r.sum + bias;
}
