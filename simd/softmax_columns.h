/* SPDX-License-Identifier: MIT
 * softmax_columns.h: softmax down the columns of a matrix, one column per lane: nothing is reduced
 * across lanes. A strip of columns passes through scratch memory: rows whose distance is a power of
 * two share few cache sets, and would push each other out before they are read again. Columns that
 * are too long for that pass block by block, three times.
 *
 * Sums run in the order of softmax_rows.h: what lane j of a row would sum is a vector here. */
#ifndef RAPTI_SOFTMAX_COLUMNS_H
#define RAPTI_SOFTMAX_COLUMNS_H

#include "common.h"
#include "kernels.h"
#include "softmax_rows.h"

/* Whole blocks of sums at a time. */
enum {
    STRIP_VECTORS = RAPTI_STRIP_COLUMNS / VEC_LANES,
    STRIP_KEYS = RAPTI_STRIP_KEYS / SUM_BLOCK * SUM_BLOCK
};

typedef struct column_strip {
    const float *in;
    int64_t in_k;
    float *out;
    int64_t out_k, n, columns;
    float *scratch; /* rows of RAPTI_STRIP_COLUMNS floats */
    float max[STRIP_VECTORS * VEC_LANES];
    float factor[STRIP_VECTORS * VEC_LANES]; /* 1 / sum */
} column_strip;

RAPTI_INLINE vf load_up_to(const float *p, int64_t n) {
    return n >= VEC_LANES ? vf_load(p) : vf_load_n(p, (int)n);
}

RAPTI_INLINE void store_up_to(float *p, int64_t n, vf x) {
    if (n >= VEC_LANES) {
        vf_store(p, x);
    } else {
        vf_store_n(p, (int)n, x);
    }
}

/* Rows [from, from + keys) into scratch, and the maxima; lanes past the last column are 0. */
static void strip_load(column_strip *s, int64_t from, int64_t keys) {
    for (int64_t k = 0; k < keys; k++) {
        const float *in = s->in + (from + k) * s->in_k;
        float *row = s->scratch + k * RAPTI_STRIP_COLUMNS;
        for (int64_t c = 0; c < s->columns; c += VEC_LANES) {
            const vf x = load_up_to(in + c, s->columns - c);
            vf_store(row + c, x);
            vf_store(s->max + c, vf_max(x, vf_load(s->max + c)));
        }
    }
}

/* Exponentials of up to SUM_BLOCK keys of one vector in scratch, and their sum. The partial sums
 * live in memory: a call of vf_exp would put them there anyway. */
static vf strip_exp(float *x, int64_t keys, vf max) {
    vf sum[VEC_LANES];
    for (int j = 0; j < VEC_LANES; j++) { sum[j] = vf_zero(); }
    for (int64_t k = 0; k < keys; k += VEC_LANES) {
        const int64_t left = keys - k < VEC_LANES ? keys - k : VEC_LANES;
        for (int64_t j = 0; j < left; j++) {
            float *at = x + (k + j) * RAPTI_STRIP_COLUMNS;
            const vf e = vf_exp(vf_sub(vf_load(at), max));
            vf_store(at, e);
            sum[j] = vf_add(sum[j], e);
        }
    }
    for (int width = VEC_LANES, half; width > 1; width = half) {
        half = (width + 1) / 2;
        for (int j = 0; j + half < width; j++) { sum[j] = vf_add(sum[j], sum[j + half]); }
    }
    return sum[0];
}

/* The sums of one vector: of blocks, of RAPTI_SUM_BLOCKS blocks, of all. */
typedef struct column_sum {
    vf total, part;
    int blocks;
} column_sum;

RAPTI_INLINE void column_sum_add(column_sum *s, vf block) {
    s->part = vf_add(s->part, block);
    if (++s->blocks == RAPTI_SUM_BLOCKS) {
        s->total = vf_add(s->total, s->part);
        s->part = vf_zero();
        s->blocks = 0;
    }
}

/* Turns keys in scratch into exponentials; adds them to the sums. */
static void strip_sums(const column_strip *s, int64_t keys, column_sum *sums) {
    for (int64_t c = 0; c < s->columns; c += VEC_LANES) {
        for (int64_t k = 0; k < keys; k += SUM_BLOCK) {
            const vf block =
                strip_exp(s->scratch + k * RAPTI_STRIP_COLUMNS + c,
                          keys - k < SUM_BLOCK ? keys - k : SUM_BLOCK, vf_load(s->max + c));
            column_sum_add(&sums[c / VEC_LANES], block);
        }
    }
}

/* All keys lie in scratch as exponentials. Where a column holds NaN or +inf, its entries of -inf
 * must be told from others that vanished: those are looked up in the input. */
static void strip_finish(const column_strip *s, int lookup) {
    for (int64_t k = 0; k < s->n; k++) {
        const float *e = s->scratch + k * RAPTI_STRIP_COLUMNS;
        for (int64_t c = 0; c < s->columns; c += VEC_LANES) {
            vf y = vf_mul(vf_load(e + c), vf_load(s->factor + c));
            if (lookup) {
                const vf x = load_up_to(s->in + k * s->in_k + c, s->columns - c);
                y = vf_select(vf_eq(x, vf_set1(-INFINITY)), vf_zero(), y);
            }
            store_up_to(s->out + k * s->out_k + c, s->columns - c, y);
        }
    }
}

/* The same without scratch: the exponentials once more. */
static void strip_finish_long(const column_strip *s) {
    for (int64_t k = 0; k < s->n; k++) {
        for (int64_t c = 0; c < s->columns; c += VEC_LANES) {
            const vf x = load_up_to(s->in + k * s->in_k + c, s->columns - c);
            const vf y = exp_times(x, vf_load(s->max + c), vf_load(s->factor + c));
            store_up_to(s->out + k * s->out_k + c, s->columns - c, y);
        }
    }
}

static void softmax_strip(column_strip *s) {
    column_sum sums[STRIP_VECTORS];
    for (int v = 0; v < STRIP_VECTORS; v++) {
        vf_store(s->max + v * VEC_LANES, vf_set1(-FLT_MAX));
        sums[v] = (column_sum){vf_zero(), vf_zero(), 0};
    }
    for (int64_t k = 0; k < s->n; k += STRIP_KEYS) {
        strip_load(s, k, s->n - k < STRIP_KEYS ? s->n - k : STRIP_KEYS);
    }
    for (int64_t k = 0; k < s->n; k += STRIP_KEYS) {
        const int64_t keys = s->n - k < STRIP_KEYS ? s->n - k : STRIP_KEYS;
        if (s->n > STRIP_KEYS) { strip_load(s, k, keys); }
        strip_sums(s, keys, sums);
    }
    int broken = 0;
    for (int v = 0; v < STRIP_VECTORS; v++) {
        const vf sum = vf_add(sums[v].total, sums[v].part);
        const vf inverse = vf_div(vf_set1(1.0f), sum);
        vf_store(s->factor + v * VEC_LANES, vf_select(vf_eq(sum, vf_zero()), vf_zero(), inverse));
        broken |= !vm_all(vf_eq(sum, sum));
    }
    if (s->n <= STRIP_KEYS) {
        strip_finish(s, broken);
    } else {
        strip_finish_long(s);
    }
}

static void softmax_columns(const float *in, int64_t in_k, float *out, int64_t out_k, int64_t n,
                            int64_t columns, float *scratch) {
    enum { WIDTH = STRIP_VECTORS * VEC_LANES };
    column_strip s = {.in = in, .in_k = in_k, .out = out, .out_k = out_k, .n = n};
    s.scratch = scratch;
    for (int64_t c = 0; c < columns; c += WIDTH) {
        s.columns = columns - c < WIDTH ? columns - c : WIDTH;
        softmax_strip(&s);
        s.in += WIDTH;
        s.out += WIDTH;
    }
}

#endif
