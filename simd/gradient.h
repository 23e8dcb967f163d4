/* SPDX-License-Identifier: MIT
 * gradient.h: what the backward pass needs besides products: the weights again and the gradient of
 * the scores, row sums, and rows added to tensors.
 *
 *   P[k]  = exp(S[k] - lse)
 *   dS[k] = P[k] (Z[k] dP[k] - delta)        one lane vector: queries in the lanes
 *   P[k]  = P[k] Z[k]                        Z: dropout's pattern, or 1
 *
 * S - lse is at most 0 but for rounding. The exponential for arguments <= 0 takes what little is
 * above: its error bound holds up to 88 (tests/exp_checks.c). */
#include "common.h"
#include "exp.h"
#include "kernels.h"
#include "square.h"

/* ln 2^-100. A key whose weights are all smaller would have gradients of denormal numbers, which
 * take 70 times as long to sum. */
static const float LEAST_EXPONENT = -69.3147181f;

/* What the loop over keys needs, in registers. */
typedef struct gradient_lanes {
    vf lse, delta;
    int wants_ds, drops; /* both literal */
} gradient_lanes;

/* One key: s, dp and kept are its lane vectors. */
RAPTI_INLINE void gradient_key(float *s, float *dp, const float *kept, const gradient_lanes x) {
    const vf score = vf_load(s);
    vf p = vf_exp_from(vf_sub(score, x.lse), LEAST_EXPONENT);
    const vf z = x.drops ? vf_load(kept) : p;
    /* selected, since lse, dp or delta may be NaN */
    const vm none = vf_eq(score, vf_set1(-__builtin_inff()));
    p = vf_select(none, vf_zero(), p);
    if (x.wants_ds) {
        const vf sum = vf_sub(x.drops ? vf_mul(vf_load(dp), z) : vf_load(dp), x.delta);
        vf_store(dp, vf_mul_or_zero(none, p, sum));
    }
    vf_store(s, x.drops ? vf_mul(p, z) : p);
}

RAPTI_INLINE void gradient_keys(const rapti_gradient *g, const int wants_ds, const int drops) {
    const gradient_lanes x = {vf_load(g->lse), wants_ds ? vf_load(g->delta) : vf_zero(), wants_ds,
                              drops};
    const int64_t ld = g->ld;
    float *s = g->s + g->begin * ld;
    float *dp = wants_ds ? g->dp + g->begin * ld : s;
    const float *kept = drops ? g->kept + g->begin * ld : s;
    for (int64_t k = g->end - g->begin; k > 0; k--) {
        gradient_key(s, dp, kept, x);
        s += ld;
        dp += ld;
        kept += ld;
    }
}

static void clear_keys(float *tile, int64_t ld, int64_t from, int64_t to) {
    for (int64_t k = from; k < to; k++) { vf_store(tile + k * ld, vf_zero()); }
}

static void score_gradient(const rapti_gradient *g) {
    clear_keys(g->s, g->ld, g->from, g->begin);
    clear_keys(g->s, g->ld, g->end, g->to);
    if (g->dp) {
        clear_keys(g->dp, g->ld, g->from, g->begin);
        clear_keys(g->dp, g->ld, g->end, g->to);
    }
    if (g->kept) {
        if (g->dp) {
            gradient_keys(g, 1, 1);
        } else {
            gradient_keys(g, 0, 1);
        }
    } else if (g->dp) {
        gradient_keys(g, 1, 0);
    } else {
        gradient_keys(g, 0, 0);
    }
}

/* One square of a into lanes_out, times one of b to the dots; n <= VEC_LANES columns. */
RAPTI_INLINE vf gather_dot(const vf *a, const vf *b, int64_t n, float *lanes_out, int64_t ld,
                           vf dots) {
    if (n == VEC_LANES) { /* literal bounds keep the squares in registers */
        RAPTI_UNROLL(16) for (int j = 0; j < VEC_LANES; j++) {
            vf_store(lanes_out + j * ld, a[j]);
            dots = vf_fma(a[j], b[j], dots);
        }
        return dots;
    }
    for (int64_t j = 0; j < n; j++) {
        vf_store(lanes_out + j * ld, a[j]);
        dots = vf_fma(a[j], b[j], dots);
    }
    return dots;
}

static void gather_dots(const float *const *a, int64_t a_stride, const float *const *b,
                        int64_t b_stride, int64_t size, float *lanes_out, int64_t ld, float *dots) {
    vf sum = vf_zero();
    for (int64_t c = 0; c < size; c += VEC_LANES) {
        const int64_t n = size - c < VEC_LANES ? size - c : VEC_LANES;
        vf x[VEC_LANES], y[VEC_LANES];
        load_columns(a, a_stride, c, n, x);
        load_columns(b, b_stride, c, n, y);
        sum = gather_dot(x, y, n, lanes_out + c * ld, ld, sum);
    }
    vf_store(dots, sum);
}

/* Adding 0 makes +0 of -0, which hidden terms of rows nearby could have done or not. */
static void add_rows(const float *rows, int64_t ld, int64_t count, int64_t size, float factor,
                     int add, float *const *out, int64_t stride) {
    const vf f = vf_set1(factor);
    for (int64_t i = 0; i < count; i++, rows += ld) {
        float *to = out[i];
        int64_t c = 0;
        if (stride == 1) {
            for (; c + VEC_LANES <= size; c += VEC_LANES) {
                vf_store(to + c, vf_fma(vf_load(rows + c), f, add ? vf_load(to + c) : vf_zero()));
            }
            if (c < size) {
                const int n = (int)(size - c);
                const vf old = add ? vf_load_n(to + c, n) : vf_zero();
                vf_store_n(to + c, n, vf_fma(vf_load_n(rows + c, n), f, old));
            }
            continue;
        }
        for (; c < size; c += VEC_LANES) { /* through the same word, for the same bits */
            const int64_t n = size - c < VEC_LANES ? size - c : VEC_LANES;
            float row[VEC_LANES] = {0};
            for (int64_t j = 0; add && j < n; j++) { row[j] = to[(c + j) * stride]; }
            vf_store(row, vf_fma(vf_load(rows + c), f, vf_load(row)));
            for (int64_t j = 0; j < n; j++) { to[(c + j) * stride] = row[j]; }
        }
    }
}

/* rows[lane][key * stride] += s[key * ld + lane]. Rows may share elements: lane after lane. */
static void add_lanes(const float *s, int64_t ld, int64_t from, int64_t to, int64_t count,
                      float *const *rows, int64_t stride) {
    for (int64_t k = from; k < to; k += VEC_LANES) {
        const int64_t n = to - k < VEC_LANES ? to - k : VEC_LANES;
        vf tile[VEC_LANES];
        for (int64_t j = 0; j < VEC_LANES; j++) {
            tile[j] = j < n ? vf_load(s + (k + j) * ld) : vf_zero();
        }
        vf_transpose(tile);
        for (int64_t i = 0; i < count; i++) {
            float *row = rows[i] + k * stride;
            if (stride == 1 && n == VEC_LANES) {
                vf_store(row, vf_add(vf_load(row), tile[i]));
            } else {
                float value[VEC_LANES];
                vf_store(value, tile[i]);
                for (int64_t j = 0; j < n; j++) { row[j * stride] += value[j]; }
            }
        }
    }
}
