/* SPDX-License-Identifier: MIT
 * verify_attention.c: a reference of its own, in double precision, one row of the output at a time
 * (attention_case.h). It shares no code with the library. */
#include "attention_case.h"
#include "data.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { ROWS = 64 };

/* Rounding of f32 sums: the error of a score relative to sum |q k| grows like the square root of D,
 * that of the output relative to sum p |v| like that of the keys in a block. The rows of the table
 * stay below a fifth of this many units of the last place; a wrong result is off by thousands. */
static const double units = 4;

typedef struct place {
    int64_t b, h, i;
} place;

/* Offset of [b,h,i,j] in a tensor that broadcasts along axes of size 1. */
static int64_t offset(const rapt_tensor *t, int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t index[4] = {b, h, i, j};
    int64_t sum = 0;
    for (int axis = 0; axis < 4; axis++) {
        sum += t->size[axis] == 1 ? 0 : index[axis] * t->stride[axis];
    }
    return sum;
}

int bench_attention_visible(const bench_attention *c, int64_t b, int64_t h, int64_t i, int64_t j) {
    const bench_problem *p = &c->problem;
    const int64_t position = i + p->keys - p->queries;
    switch (p->form) {
    case BENCH_FULL:
    case BENCH_BIAS:
    case BENCH_DROPOUT: return 1;
    case BENCH_CAUSAL: return j <= position;
    case BENCH_WINDOW: return j <= position && j > position - p->window;
    case BENCH_MASK: return ((const uint8_t *)c->mask.data)[offset(&c->mask, b, h, i, j)] != 0;
    case BENCH_LENGTHS: return j < ((const int64_t *)c->key_lengths.data)[b];
    }
    return 0;
}

double bench_attention_bias(const bench_attention *c, int64_t b, int64_t h, int64_t i, int64_t j) {
    if (c->problem.form != BENCH_BIAS) { return 0; }
    return (double)((const float *)c->bias.data)[offset(&c->bias, b, h, i, j)];
}

double bench_attention_kept(const bench_attention *c, int64_t b, int64_t h, int64_t i, int64_t j) {
    const rapt_dropout *d = &c->what.dropout;
    const uint32_t item = (uint32_t)(b * c->problem.q_heads + h);
    if (!d->training) { return 1; }
    return rapt_dropout_keep(d, item, (uint32_t)i, j) / (1 - d->p);
}

/* Scores of one query: s[j], -inf where not visible. Returns the largest sum of |q k| * scale. */
static double score_row(const bench_attention *c, place at, double *s) {
    const bench_problem *p = &c->problem;
    const int64_t kv_head = at.b * p->kv_heads + at.h / (p->q_heads / p->kv_heads);
    const float *q = c->q.data, *k = c->k.data;
    const double scale = 1 / sqrt((double)p->head_dim);
    double magnitude = 0;
    q += ((at.b * p->q_heads + at.h) * p->queries + at.i) * p->head_dim;
    k += kv_head * p->keys * p->head_dim;
    for (int64_t j = 0; j < p->keys; j++) {
        double dot = 0, absolute = 0;
        for (int64_t d = 0; d < p->head_dim; d++) {
            const double product = (double)q[d] * (double)k[j * p->head_dim + d];
            dot += product;
            absolute += fabs(product);
        }
        s[j] = scale * dot + bench_attention_bias(c, at.b, at.h, at.i, j);
        if (!bench_attention_visible(c, at.b, at.h, at.i, j)) { s[j] = -INFINITY; }
        magnitude = fmax(magnitude, scale * absolute);
    }
    return magnitude;
}

/* Scores to weights, in place; all zero where no key is visible. */
static void softmax_row(int64_t n, double *s) {
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++) { most = fmax(most, s[j]); }
    for (int64_t j = 0; j < n; j++) {
        s[j] = most == -INFINITY ? 0 : exp(s[j] - most);
        sum += s[j];
    }
    for (int64_t j = 0; j < n && sum > 0; j++) { s[j] /= sum; }
}

/* Worst error of one output row, as a multiple of the tolerance. */
static double check_row(const bench_attention *c, place at, double *s) {
    const bench_problem *p = &c->problem;
    const double magnitude = score_row(c, at, s);
    const int64_t kv_head = at.b * p->kv_heads + at.h / (p->q_heads / p->kv_heads);
    const float *v = (const float *)c->v.data + kv_head * p->keys * p->value_dim;
    const float *out = (const float *)c->out.data +
                       ((at.b * p->q_heads + at.h) * p->queries + at.i) * p->value_dim;
    double worst = 0;
    softmax_row(p->keys, s);
    for (int64_t j = 0; j < p->keys; j++) { s[j] *= bench_attention_kept(c, at.b, at.h, at.i, j); }
    for (int64_t d = 0; d < p->value_dim; d++) {
        double sum = 0, absolute = 0;
        for (int64_t j = 0; j < p->keys; j++) {
            sum += s[j] * (double)v[j * p->value_dim + d];
            absolute += s[j] * fabs((double)v[j * p->value_dim + d]);
        }
        const double error = fabs((double)out[d] - sum);
        const double tolerance = units * FLT_EPSILON * (1 + magnitude) * absolute;
        const double multiple = error == 0 ? 0 : error / tolerance;
        worst = multiple <= worst ? worst : isnan(multiple) ? INFINITY : multiple;
    }
    return worst;
}

double bench_attention_verify(const void *attention) {
    const bench_attention *c = attention;
    const bench_problem *p = &c->problem;
    const int64_t rows = p->batch * p->q_heads * p->queries;
    double *s = malloc((size_t)p->keys * sizeof *s);
    double worst = s ? 0 : INFINITY;
    uint64_t state = 1;
    for (int64_t n = 0; s && n < ROWS && n < rows; n++) {
        const int64_t row = rows <= ROWS ? n : bench_data_choose(&state, rows);
        const place at = {row / p->queries / p->q_heads, row / p->queries % p->q_heads,
                          row % p->queries};
        worst = fmax(worst, check_row(c, at, s));
    }
    free(s);
    return worst;
}
