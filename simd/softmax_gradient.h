/* SPDX-License-Identifier: MIT
 * softmax_gradient.h: the gradient of a softmax from its result y, along the lanes or down columns:
 *
 *   dx[i] = y[i] (dy[i] - sum_j y[j] dy[j]),   0 where y[i] is 0, whatever dy[i] is
 *
 * (and for weights in tiles, with a factor for what dropout keeps: lane_dots, lane_gradient). The
 * sum of rows runs in the order of softmax_rows.h, so that both ways give the same bits. */
#include "common.h"
#include "kernels.h"
#include "softmax_columns.h"
#include "softmax_rows.h"

RAPTI_INLINE vf add_dot(vf y, vf dy, vf sum) {
    return vf_fma(y, vf_select(vf_eq(y, vf_zero()), vf_zero(), dy), sum);
}

RAPTI_INLINE vf gradient_of(vf y, vf dy, vf dot) {
    return vf_mul_or_zero(vf_eq(y, vf_zero()), y, vf_sub(dy, dot));
}

/* Queries in the lanes: weights and their gradients of one lane vector. */
static void lane_dots(const float *p, const float *x, int64_t ld, int64_t from, int64_t to,
                      float *dots) {
    vf sum = vf_zero();
    for (int64_t k = from; k < to; k++) {
        sum = add_dot(vf_load(p + k * ld), vf_load(x + k * ld), sum);
    }
    vf_store(dots, vf_add(vf_load(dots), sum));
}

static void lane_gradient(const float *p, float *x, int64_t ld, int64_t from, int64_t to,
                          float factor, const float *shift) {
    const vf f = vf_set1(factor), s = vf_load(shift);
    for (int64_t k = from; k < to; k++) {
        const vf z = vf_mul(vf_load(x + k * ld), f);
        vf_store(x + k * ld, gradient_of(vf_load(p + k * ld), z, s));
    }
}

static float row_dot(const float *y, const float *dy, int64_t n) {
    float total = 0.0f, part = 0.0f;
    int blocks = 0;
    for (int64_t i = 0; i < n;) {
        const int64_t past = n - i < SUM_BLOCK ? n : i + SUM_BLOCK;
        vf sum = vf_zero();
        for (; i + VEC_LANES <= past; i += VEC_LANES) {
            sum = add_dot(vf_load(y + i), vf_load(dy + i), sum);
        }
        if (i < past) {
            const int left = (int)(past - i);
            sum = add_dot(vf_load_n(y + i, left), vf_load_n(dy + i, left), sum);
            i = past;
        }
        part += lanes_sum(sum);
        if (++blocks == RAPTI_SUM_BLOCKS) {
            total += part;
            part = 0.0f;
            blocks = 0;
        }
    }
    return total + part;
}

static void row_gradient(const float *y, const float *dy, int64_t n, float dot, float *dx) {
    const vf dots = vf_set1(dot);
    int64_t i = 0;
    for (; i + VEC_LANES <= n; i += VEC_LANES) {
        vf_store(dx + i, gradient_of(vf_load(y + i), vf_load(dy + i), dots));
    }
    if (i < n) {
        const int left = (int)(n - i);
        vf_store_n(dx + i, left,
                   gradient_of(vf_load_n(y + i, left), vf_load_n(dy + i, left), dots));
    }
}

enum { GRADIENT_VECTORS = 4 };

/* Adds the dot products of up to SUM_BLOCK keys, a few vectors of columns wide. */
static void strip_dots(const rapti_softmax_columns *s, int64_t from, int64_t keys, int64_t column,
                       int64_t columns, column_sum *sums) {
    vf sum[GRADIENT_VECTORS][VEC_LANES];
    for (int v = 0; v < GRADIENT_VECTORS; v++) {
        for (int j = 0; j < VEC_LANES; j++) { sum[v][j] = vf_zero(); }
    }
    for (int64_t k = 0; k < keys; k++) {
        const float *y = s->y + (from + k) * s->y_k + column;
        const float *dy = s->dy + (from + k) * s->dy_k + column;
        for (int64_t c = 0; c < columns; c += VEC_LANES) {
            vf *to = &sum[c / VEC_LANES][k % VEC_LANES];
            *to = add_dot(load_up_to(y + c, columns - c), load_up_to(dy + c, columns - c), *to);
        }
    }
    for (int v = 0; v < GRADIENT_VECTORS; v++) {
        for (int width = VEC_LANES, half; width > 1; width = half) {
            half = (width + 1) / 2;
            for (int j = 0; j + half < width; j++) {
                sum[v][j] = vf_add(sum[v][j], sum[v][j + half]);
            }
        }
        column_sum_add(&sums[v], sum[v][0]);
    }
}

static void gradient_columns(const rapti_softmax_columns *s) {
    enum { WIDTH = GRADIENT_VECTORS * VEC_LANES };
    for (int64_t column = 0; column < s->columns; column += WIDTH) {
        const int64_t columns = s->columns - column < WIDTH ? s->columns - column : WIDTH;
        column_sum sums[GRADIENT_VECTORS];
        for (int v = 0; v < GRADIENT_VECTORS; v++) {
            sums[v] = (column_sum){vf_zero(), vf_zero(), 0};
        }
        for (int64_t k = 0; k < s->n; k += SUM_BLOCK) {
            strip_dots(s, k, s->n - k < SUM_BLOCK ? s->n - k : SUM_BLOCK, column, columns, sums);
        }
        for (int64_t k = 0; k < s->n; k++) {
            const float *y = s->y + k * s->y_k + column, *dy = s->dy + k * s->dy_k + column;
            float *dx = s->dx + k * s->dx_k + column;
            for (int64_t c = 0; c < columns; c += VEC_LANES) {
                const column_sum *sum = &sums[c / VEC_LANES];
                const vf dot = vf_add(sum->total, sum->part);
                const vf x = gradient_of(load_up_to(y + c, columns - c),
                                         load_up_to(dy + c, columns - c), dot);
                store_up_to(dx + c, columns - c, x);
            }
        }
    }
}
