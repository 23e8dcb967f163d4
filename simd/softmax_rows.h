/* SPDX-License-Identifier: MIT
 * softmax_rows.h: softmax of rows that lie along the lanes, out[i] = exp(x[i] - m) / l, with
 * m = max x and l = sum exp(x - m).
 *
 * The order of the sum is fixed, so that every way to compute it (at once, in chunks on several
 * threads, or down columns: softmax_columns.h) gives the same bits: lane j of a block of SUM_BLOCK
 * elements sums its elements j, j + VEC_LANES, ...; the lanes are added by halves; RAPTI_SUM_BLOCKS
 * blocks are added in order, then the sums of these. Few terms follow one another, so errors stay
 * small in rows of any length. */
#ifndef RAPTI_SOFTMAX_ROWS_H
#define RAPTI_SOFTMAX_ROWS_H

#include "common.h"
#include "kernels.h"

#include <float.h>
#include <math.h>

enum { SUM_BLOCK = RAPTI_SUM_VECTORS * VEC_LANES };

/* What a load at hidden_after + RAPTI_MAX_LANES - n adds to the lanes: 0 to the first n, -inf to
 * the others. */
static const float hidden_after[2 * RAPTI_MAX_LANES] = {
    0.0f,      0.0f,      0.0f,      0.0f,      0.0f,      0.0f,      0.0f,      0.0f,
    0.0f,      0.0f,      0.0f,      0.0f,      0.0f,      0.0f,      0.0f,      0.0f,
    -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
    -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};

/* The first n < VEC_LANES elements; the other lanes are -inf. */
RAPTI_INLINE vf load_tail(const float *x, int n) {
    return vf_add(vf_load_n(x, n), vf_load(hidden_after + RAPTI_MAX_LANES - n));
}

RAPTI_INLINE float lanes_sum(vf x) {
    float part[VEC_LANES];
    vf_store(part, x);
    for (int width = VEC_LANES, half; width > 1; width = half) {
        half = (width + 1) / 2;
        for (int i = 0; i + half < width; i++) { part[i] += part[i + half]; }
    }
    return part[0];
}

/* The largest so far, and NaN in a lane that met one: vf_max alone would forget it. */
RAPTI_INLINE void note_max(vf x, vf *max, vf *nan) {
    *max = vf_max(x, *max);
    *nan = vf_select(vf_eq(x, x), *nan, x);
}

/* Starts at the lowest float instead of -inf: a row of -inf only is then not shifted by itself
 * (-inf - -inf is NaN), and its exponentials are 0 without a special case. */
static float row_max(const float *x, int64_t n) {
    vf max[4], nan[4];
    RAPTI_UNROLL(4) for (int j = 0; j < 4; j++) {
        max[j] = vf_set1(-FLT_MAX);
        nan[j] = vf_zero();
    }
    int64_t i = 0;
    for (; i + 4 * VEC_LANES <= n; i += 4 * VEC_LANES) {
        RAPTI_UNROLL(4) for (int j = 0; j < 4; j++) {
            note_max(vf_load(x + i + j * VEC_LANES), &max[j], &nan[j]);
        }
    }
    for (; i + VEC_LANES <= n; i += VEC_LANES) { note_max(vf_load(x + i), &max[0], &nan[0]); }
    if (i < n) { note_max(load_tail(x + i, (int)(n - i)), &max[0], &nan[0]); }
    const vf any = vf_add(vf_add(nan[0], nan[1]), vf_add(nan[2], nan[3]));
    if (!vm_all(vf_eq(any, any))) { return NAN; }
    float part[VEC_LANES];
    vf_store(part, vf_max(vf_max(max[0], max[1]), vf_max(max[2], max[3])));
    float largest = part[0];
    for (int j = 1; j < VEC_LANES; j++) { largest = part[j] > largest ? part[j] : largest; }
    return largest;
}

/* The sum of exp(x - shift), in the order above; each of them stored to `out` if `store`. */
RAPTI_INLINE float exp_sum(const float *x, int64_t n, float shift, float *out, const int store) {
    const vf m = vf_set1(shift);
    float total = 0.0f, part = 0.0f;
    int blocks = 0;
    for (int64_t i = 0; i < n;) {
        const int64_t past = n - i < SUM_BLOCK ? n : i + SUM_BLOCK;
        vf sum = vf_zero();
        for (; i + VEC_LANES <= past; i += VEC_LANES) {
            if (store) { /* the next row most often follows this one */
                vec_prefetch(x + i + n);
                vec_prefetch(out + i + n);
            }
            const vf e = vf_exp(vf_sub(vf_load(x + i), m));
            if (store) { vf_store(out + i, e); }
            sum = vf_add(sum, e);
        }
        if (i < past) {
            const vf e = vf_exp(vf_sub(load_tail(x + i, (int)(past - i)), m));
            if (store) { vf_store_n(out + i, (int)(past - i), e); }
            sum = vf_add(sum, e);
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

static float row_sum_exp(const float *x, int64_t n, float shift) {
    return exp_sum(x, n, shift, 0, 0);
}

RAPTI_INLINE vf exp_times(vf x, vf shift, vf factor) {
    const vf y = vf_mul(vf_exp(vf_sub(x, shift)), factor);
    return vf_select(vf_eq(x, vf_set1(-INFINITY)), vf_zero(), y);
}

static void row_exp(const float *x, int64_t n, float shift, float factor, float *out) {
    const vf m = vf_set1(shift), f = vf_set1(factor);
    int64_t i = 0;
    for (; i + VEC_LANES <= n; i += VEC_LANES) {
        vf_store(out + i, exp_times(vf_load(x + i), m, f));
    }
    if (i < n) {
        const int left = (int)(n - i);
        vf_store_n(out + i, left, exp_times(vf_load_n(x + i, left), m, f));
    }
}

RAPTI_INLINE void row_scale(float *x, int64_t n, float factor) {
    const vf f = vf_set1(factor);
    int64_t i = 0;
    for (; i + VEC_LANES <= n; i += VEC_LANES) { vf_store(x + i, vf_mul(vf_load(x + i), f)); }
    if (i < n) {
        const int left = (int)(n - i);
        vf_store_n(x + i, left, vf_mul(vf_load_n(x + i, left), f));
    }
}

/* Whether a row holds NaN or +inf must be known before `out`, which may be `x`, is written: its
 * entries of -inf stay 0 and could not be told from others that vanished. */
static void softmax_row(const float *x, int64_t n, float *out) {
    const float max = row_max(x, n);
    if (!(max <= FLT_MAX)) {
        row_exp(x, n, 0.0f, NAN, out);
        return;
    }
    const float sum = exp_sum(x, n, max, out, 1);
    row_scale(out, n, sum == 0.0f ? 0.0f : 1.0f / sum);
}

static void exp_any(const float *x, float *y, int64_t n) {
    int64_t i = 0;
    for (; i + VEC_LANES <= n; i += VEC_LANES) { vf_store(y + i, vf_exp(vf_load(x + i))); }
    if (i < n) { vf_store_n(y + i, (int)(n - i), vf_exp(vf_load_n(x + i, (int)(n - i)))); }
}

#endif
