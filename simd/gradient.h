/* SPDX-License-Identifier: MIT
 * gradient.h: what the backward pass needs besides products: the weights again and the gradient of
 * the scores, row sums, and rows added to tensors.
 *
 *   P[k]  = 2^(S[k] - lse log2(e))     scores in octaves, as in softmax.h; lse is not
 *   dS[k] = P[k] (Z[k] dP[k] - delta)        one lane vector: queries in the lanes
 *   P[k]  = P[k] Z[k]                        Z: dropout's pattern, or 1
 *
 * Where P is 0, so is dS, whatever dP holds. In lanes where lse + delta is not finite that holds
 * only where S is -inf; what the formula makes of the rest of such a row is given out.
 *
 * The exponent is at most 0 but for rounding, of S and lse: little up to FAR_LSE, where the inline
 * exponential takes it (tests/exp2_checks.c). Beyond, half an ulp of lse can be many octaves. There
 * lse in octaves is rounded, as the scores are, and 1 to 2 ulps of it are given to the exponent,
 * which then ends at 0: the only key of a row has weight 1, and so have all if lse cannot tell how
 * many they are. (1.5 > log2(e), and one ulp covers what shift ln 2 log2(e) is off, rounded twice
 * and with both constants rounded: 1.98 of 2.08 half ulps.) */
#include "common.h"
#include "exp2.h"
#include "kernels.h"
#include "square.h"

/* A key whose weights are all smaller than 2^this would have gradients of denormal numbers, which
 * take 70 times as long to sum. */
static const float LEAST_EXPONENT = -100.0f;

/* Where an ulp of lse is a thousandth of an octave. */
static const float FAR_LSE = 4096.0f;

/* What the loop over keys needs, in registers. */
typedef struct gradient_lanes {
    vf lse, octaves, delta;     /* the exponent is S - lse octaves */
    vf ulp, top;                /* added to it; its end */
    vm finite;                  /* lse and delta are */
    int wants_ds, drops, plain; /* literal; plain: both are in all lanes, and none is far */
} gradient_lanes;

RAPTI_INLINE vf gradient_exponent(vf score, const gradient_lanes x) {
    const vf exponent = vf_fnma(x.lse, x.octaves, score);
    if (x.plain) { return exponent; }
    const vf higher = vf_add(exponent, x.ulp);
    return vf_select(vf_lt(x.top, higher), x.top, higher);
}

/* Keys [key, key + n), n literal. */
RAPTI_INLINE void gradient_keys(const rapti_gradient *g, int64_t key, const int n,
                                const gradient_lanes x) {
    const int64_t ld = g->ld, at = key * ld;
    float *s = g->s + at;
    vf p[EXP_TOGETHER];
    vm none[EXP_TOGETHER];
    RAPTI_UNROLL(8) for (int i = 0; i < n; i++) {
        p[i] = gradient_exponent(vf_load(s + i * ld), x);
    }
    vf_exp2_each(p, none, n, LEAST_EXPONENT);
    for (int i = 0; !x.plain && i < n; i++) {
        const vf score = vf_load(s + i * ld);
        const vf least = vf_select(x.finite, vf_set1(LEAST_EXPONENT), vf_set1(-__FLT_MAX__));
        none[i] = vf_lt(vf_select(x.finite, gradient_exponent(score, x), score), least);
        p[i] = vf_select(none[i], vf_zero(), p[i]);
    }
    vf kept[EXP_TOGETHER];
    RAPTI_UNROLL(8) for (int i = 0; i < n; i++) {
        kept[i] = x.drops ? vf_load(g->kept + at + i * ld) : p[i];
    }
    if (x.wants_ds) {
        float *dp = g->dp + at;
        RAPTI_UNROLL(8) for (int i = 0; i < n; i++) {
            const vf d = vf_load(dp + i * ld);
            const vf sum = vf_sub(x.drops ? vf_mul(d, kept[i]) : d, x.delta);
            vf_store(dp + i * ld, vf_mul_or_zero(none[i], p[i], sum));
        }
    }
    RAPTI_UNROLL(8) for (int i = 0; i < n; i++) {
        vf_store(s + i * ld, x.drops ? vf_mul(p[i], kept[i]) : p[i]);
    }
}

RAPTI_INLINE void gradient_block(const rapti_gradient *g, const gradient_lanes x) {
    int64_t key = g->begin;
    for (; key + EXP_TOGETHER <= g->end; key += EXP_TOGETHER) {
        gradient_keys(g, key, EXP_TOGETHER, x);
    }
    for (; key < g->end; key++) { gradient_keys(g, key, 1, x); }
}

RAPTI_INLINE void gradient_lane_vector(const rapti_gradient *g, const int wants_ds,
                                       const int drops) {
    const vf lse = vf_load(g->lse), delta = wants_ds ? vf_load(g->delta) : vf_zero();
    const vf sum = vf_add(lse, delta), octaves = vf_set1(RAPTI_OCTAVES), zero = vf_zero();
    const vf infinity = vf_set1(__builtin_inff()), size = vf_max(lse, vf_sub(zero, lse));
    const vm finite = vf_eq(vf_sub(sum, sum), zero);
    const vm close = vf_lt(vf_select(vf_lt(size, infinity), size, zero), vf_set1(FAR_LSE));
    if (vm_all(finite) && vm_all(close)) {
        const gradient_lanes x = {lse, octaves, delta, zero, infinity, finite, wants_ds, drops, 1};
        gradient_block(g, x);
    } else {
        const vf rounded = vf_mul(lse, octaves), ulp = vf_mul(size, vf_set1(0x1.8p-23f));
        const gradient_lanes x = {.lse = vf_select(close, lse, rounded),
                                  .octaves = vf_select(close, octaves, vf_set1(1.0f)),
                                  .delta = delta,
                                  .ulp = vf_select(close, zero, ulp),
                                  .top = vf_select(close, infinity, zero),
                                  .finite = finite,
                                  .wants_ds = wants_ds,
                                  .drops = drops};
        gradient_block(g, x);
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
            gradient_lane_vector(g, 1, 1);
        } else {
            gradient_lane_vector(g, 0, 1);
        }
    } else if (g->dp) {
        gradient_lane_vector(g, 1, 0);
    } else {
        gradient_lane_vector(g, 0, 0);
    }
}

/* The dots keep the order of c, whichever loop a column is in. Two squares are more than the
 * registers: x is loaded again. */
static void gather_dots(const float *const *a, int64_t a_stride, const float *const *b,
                        int64_t b_stride, int64_t size, float *lanes_out, int64_t ld, float *dots) {
    vf sum = vf_zero(), x[VEC_LANES], y[VEC_LANES];
    int64_t c = 0;
    for (; a_stride == 1 && b_stride == 1 && c + VEC_LANES <= size; c += VEC_LANES) {
        float *out = lanes_out + c * ld;
        vf_load_square(a, c, x);
        RAPTI_UNROLL(16) for (int j = 0; j < VEC_LANES; j++) { vf_store(out + j * ld, x[j]); }
        vf_load_square(b, c, y);
        RAPTI_UNROLL(16) for (int j = 0; j < VEC_LANES; j++) {
            sum = vf_fma(vf_load(out + j * ld), y[j], sum);
        }
    }
    for (; c < size; c += VEC_LANES) {
        const int64_t n = size - c < VEC_LANES ? size - c : VEC_LANES;
        load_columns(a, a_stride, c, n, x);
        load_columns(b, b_stride, c, n, y);
        for (int64_t j = 0; j < n; j++) {
            vf_store(lanes_out + (c + j) * ld, x[j]);
            sum = vf_fma(x[j], y[j], sum);
        }
    }
    vf_store(dots, sum);
}

/* to[c] = old + row[c] * f, whole vectors first, four at a time; old is 0 unless add, literal.
 * Adding 0 makes +0 of -0, which hidden terms of rows nearby could have done or not. */
RAPTI_INLINE void add_row(const float *row, int64_t size, vf f, const int add, float *to) {
    int64_t c = 0;
    for (; c + 4 * VEC_LANES <= size; c += 4 * VEC_LANES) {
        RAPTI_UNROLL(4) for (int v = 0; v < 4 * VEC_LANES; v += VEC_LANES) {
            const vf old = add ? vf_load(to + c + v) : vf_zero();
            vf_store(to + c + v, vf_fma(vf_load(row + c + v), f, old));
        }
    }
    for (; c + VEC_LANES <= size; c += VEC_LANES) {
        vf_store(to + c, vf_fma(vf_load(row + c), f, add ? vf_load(to + c) : vf_zero()));
    }
    if (c < size) {
        const int n = (int)(size - c);
        const vf old = add ? vf_load_n(to + c, n) : vf_zero();
        vf_store_n(to + c, n, vf_fma(vf_load_n(row + c, n), f, old));
    }
}

/* Elements go through the same word as contiguous ones, for the same bits. */
static void add_strided(const float *row, int64_t size, vf f, int add, float *to, int64_t stride) {
    for (int64_t c = 0; c < size; c += VEC_LANES) {
        const int64_t n = size - c < VEC_LANES ? size - c : VEC_LANES;
        float sum[VEC_LANES] = {0};
        for (int64_t j = 0; add && j < n; j++) { sum[j] = to[(c + j) * stride]; }
        vf_store(sum, vf_fma(vf_load(row + c), f, vf_load(sum)));
        for (int64_t j = 0; j < n; j++) { to[(c + j) * stride] = sum[j]; }
    }
}

static void add_rows(const float *rows, int64_t ld, int64_t count, int64_t size, float factor,
                     int add, float *const *out, int64_t stride) {
    const vf f = vf_set1(factor);
    for (int64_t i = 0; i < count; i++, rows += ld) {
        if (stride != 1) {
            add_strided(rows, size, f, add, out[i], stride);
        } else if (add) {
            add_row(rows, size, f, 1, out[i]);
        } else {
            add_row(rows, size, f, 0, out[i]);
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
