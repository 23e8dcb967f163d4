/* SPDX-License-Identifier: MIT
 * verify_backward.c: some rows of dq, dk and dv against the formula in double precision, from the
 * forward call's own out and lse. */
#include "data.h"
#include "kind_backward.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { ROWS = 8 };

/* As for the output (verify_attention.c); the rows of the table stay below a fifth. */
static const double units = 4;

typedef enum gradient { DQ, DK, DV } gradient;

/* One row of a gradient: sums of terms, and how far rounding may move them. */
typedef struct sums {
    double *value, *tolerance;
} sums;

static const float *row_of(const rapt_tensor *t, int64_t b, int64_t h, int64_t i) {
    return (const float *)t->data + ((b * t->size[1] + h) * t->size[2] + i) * t->size[3];
}

static double dot(const float *a, const float *b, int64_t n, double *absolute) {
    double sum = 0;
    *absolute = 0;
    for (int64_t d = 0; d < n; d++) {
        const double product = (double)a[d] * (double)b[d];
        sum += product;
        *absolute += fabs(product);
    }
    return sum;
}

static void add_row(sums *s, double factor, double tolerance, const float *row, int64_t n) {
    for (int64_t d = 0; d < n; d++) {
        s->value[d] += factor * (double)row[d];
        s->tolerance[d] += tolerance * fabs((double)row[d]);
    }
}

/* What query i of head h and key j add to one gradient. */
static void add_pair(const bench_backward *c, gradient which, int64_t b, int64_t h, int64_t i,
                     int64_t j, sums *s) {
    const bench_attention *f = c->forward;
    const bench_problem *p = &f->problem;
    const int64_t kv = h / (p->q_heads / p->kv_heads);
    const float *q = row_of(&f->q, b, h, i), *k = row_of(&f->k, b, kv, j);
    const float *v = row_of(&f->v, b, kv, j), *dout = row_of(&c->dout, b, h, i);
    const double scale = 1 / sqrt((double)p->head_dim);
    double score_size, dp_size, delta_size;
    if (!bench_attention_visible(f, b, h, i, j)) { return; }
    const double score =
        scale * dot(q, k, p->head_dim, &score_size) + bench_attention_bias(f, b, h, i, j);
    const double lse = (double)((const float *)c->lse.data)[(b * p->q_heads + h) * p->queries + i];
    const double weight = exp(score - lse);
    const double z = bench_attention_kept(f, b, h, i, j);
    const double dp = z * dot(dout, v, p->value_dim, &dp_size);
    const double delta = dot(dout, row_of(&f->out, b, h, i), p->value_dim, &delta_size);
    const double ds = weight * (dp - delta);
    const double weight_error = weight * (1 + scale * score_size);
    const double ds_error = weight_error * fabs(dp - delta) + weight * (z * dp_size + delta_size);
    const double unit = units * FLT_EPSILON;
    if (which == DQ) { add_row(s, scale * ds, unit * scale * ds_error, k, p->head_dim); }
    if (which == DK) { add_row(s, scale * ds, unit * scale * ds_error, q, p->head_dim); }
    if (which == DV) { add_row(s, z * weight, unit * z * weight_error, dout, p->value_dim); }
}

/* Worst error of row `row` of a gradient, as a multiple of the tolerance. */
static double check_row(const bench_backward *c, gradient which, const rapt_tensor *t, int64_t row,
                        sums *s) {
    const bench_problem *p = &c->forward->problem;
    const int64_t n = t->size[3], at = row % t->size[2], head = row / t->size[2] % t->size[1];
    const int64_t b = row / t->size[2] / t->size[1], group = p->q_heads / p->kv_heads;
    for (int64_t d = 0; d < n; d++) { s->value[d] = s->tolerance[d] = 0; }
    for (int64_t j = 0; which == DQ && j < p->keys; j++) { add_pair(c, which, b, head, at, j, s); }
    for (int64_t h = head * group; which != DQ && h < (head + 1) * group; h++) {
        for (int64_t i = 0; i < p->queries; i++) { add_pair(c, which, b, h, i, at, s); }
    }
    double worst = 0;
    for (int64_t d = 0; d < n; d++) {
        const double error = fabs((double)((const float *)t->data)[row * n + d] - s->value[d]);
        const double multiple = error == 0 ? 0 : error / s->tolerance[d];
        worst = multiple <= worst ? worst : isnan(multiple) ? INFINITY : multiple;
    }
    return worst;
}

double bench_backward_verify(const void *backward) {
    const bench_backward *c = backward;
    const rapt_tensor *const gradients[] = {&c->dq, &c->dk, &c->dv};
    const bench_problem *p = &c->forward->problem;
    const int64_t widest = p->head_dim > p->value_dim ? p->head_dim : p->value_dim;
    double *memory = malloc((size_t)(2 * widest) * sizeof *memory);
    double worst = memory ? 0 : INFINITY;
    sums s = {memory, memory + (memory ? widest : 0)};
    uint64_t state = 1;
    for (int which = DQ; memory && which <= DV; which++) {
        const rapt_tensor *t = gradients[which];
        const int64_t rows = t->size[0] * t->size[1] * t->size[2];
        for (int64_t n = 0; n < ROWS && n < rows; n++) {
            const int64_t row = rows <= ROWS ? n : bench_data_choose(&state, rows);
            worst = fmax(worst, check_row(c, (gradient)which, t, row, &s));
        }
    }
    free(memory);
    return worst;
}
