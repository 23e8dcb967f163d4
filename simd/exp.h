/* SPDX-License-Identifier: MIT
 * exp.h: exp(x) for x <= 0, inline, for the fused kernels, where a call would clobber every vector
 * register. Elsewhere the word is vf_exp (SLEEF); either can take the other's place.
 *
 * x = k ln 2 + r with |r| <= ln(2)/2; exp(r) by a minimax polynomial of degree 6; times 2^k. Error
 * at most 1 ulp for every float <= 0 (0.89 with fused multiply-add, 0.97 without: all of them are
 * gone through in tests/exp_checks.c); exactly 0 for -inf and wherever the result would be below
 * 2^-126; NaN stays NaN; the same bits on every instruction set with fused multiply-add. Method:
 * Cody and Waite 1980, chapter 6. */
#ifndef RAPTI_EXP_H
#define RAPTI_EXP_H

#include "common.h"
#include "kernels.h"

/* The same with 0 for x below `lowest`, a literal >= -87.3365402. */
RAPTI_INLINE vf vf_exp_from(vf x, const float lowest) {
    /* adding 1.5 * 2^23 rounds to an integer; 127 more leaves k + 127 in the low bits */
    const vf round = vf_set1(12582912.0f + 127.0f);
    const vf biased = vf_fma(x, vf_set1(1.44269504f), round);
    const vf k = vf_sub(biased, round);
    vf r = vf_fnma(k, vf_set1(0.693145752f), x); /* ln 2 in two parts: k times the first is exact */
    r = vf_fnma(k, vf_set1(1.42860677e-6f), r);
    vf y = vf_set1(0.00137853681f);
    y = vf_fma(y, r, vf_set1(0.00837159064f));
    y = vf_fma(y, r, vf_set1(0.0416693129f));
    y = vf_fma(y, r, vf_set1(0.166664898f));
    y = vf_fma(y, r, vf_set1(0.499999881f));
    const vf one = vf_set1(1.0f);
    if (VEC_FUSED) {
        y = vf_fma(vf_fma(y, r, one), r, one);
    } else { /* the large term last: one rounding less where it counts */
        y = vf_add(one, vf_fma(vf_mul(r, r), y, r));
    }
    const vm too_small = vf_lt(x, vf_set1(lowest));
    return vf_mul_or_zero(too_small, y, vf_pow2_from_bits(biased));
}

RAPTI_INLINE vf vf_exp_nonpositive(vf x) { return vf_exp_from(x, -87.3365402f); }

static void exp_nonpositive(const float *x, float *y, int64_t n) {
    int64_t i = 0;
    for (; i + VEC_LANES <= n; i += VEC_LANES) {
        vf_store(y + i, vf_exp_nonpositive(vf_load(x + i)));
    }
    if (i < n) {
        vf_store_n(y + i, (int)(n - i), vf_exp_nonpositive(vf_load_n(x + i, (int)(n - i))));
    }
}

static void exp_any(const float *x, float *y, int64_t n) {
    int64_t i = 0;
    for (; i + VEC_LANES <= n; i += VEC_LANES) { vf_store(y + i, vf_exp(vf_load(x + i))); }
    if (i < n) { vf_store_n(y + i, (int)(n - i), vf_exp(vf_load_n(x + i, (int)(n - i)))); }
}

#endif
