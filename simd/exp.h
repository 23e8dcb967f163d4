/* SPDX-License-Identifier: MIT
 * exp.h: exp(x) for x <= 88, inline, for the fused kernels, where a call would clobber every vector
 * register. They need it for x <= 8 (softmax.h), most of all for x <= 0, and a little above 0 for
 * rounded differences (gradient.h). Elsewhere the word is vf_exp (SLEEF); either can take the
 * other's place.
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

/* ln 2^-126: below it, exp is denormal. */
static const float LEAST_NORMAL = -87.3365402f;

#define EACH RAPTI_UNROLL(8) for (int i = 0; i < n; i++)

/* exp(x[i]) = y[i] * 2^k[i] for n vectors; biased[i] holds k + offset in its low bits; n and offset
 * are literal. Each step is done for all vectors (n <= EXP_TOGETHER) before the next: the steps of
 * one vector wait for each other, and are more than the core can look ahead over. */
RAPTI_INLINE void exp_parts(const vf *x, vf *y, vf *k, vf *biased, const int n,
                            const float offset) {
    /* adding 1.5 * 2^23 rounds to an integer, which the low bits then hold */
    const vf round = vf_set1(12582912.0f + offset);
    const vf one = vf_set1(1.0f);
    vf r[EXP_TOGETHER];
    EACH biased[i] = vf_fma(x[i], vf_set1(1.44269504f), round);
    EACH k[i] = vf_sub(biased[i], round);
    /* ln 2 in two parts: k times the first is exact */
    EACH r[i] = vf_fnma(k[i], vf_set1(0.693145752f), x[i]);
    EACH r[i] = vf_fnma(k[i], vf_set1(1.42860677e-6f), r[i]);
    EACH y[i] = vf_fma(vf_set1(0.00137853681f), r[i], vf_set1(0.00837159064f));
    EACH y[i] = vf_fma(y[i], r[i], vf_set1(0.0416693129f));
    EACH y[i] = vf_fma(y[i], r[i], vf_set1(0.166664898f));
    EACH y[i] = vf_fma(y[i], r[i], vf_set1(0.499999881f));
    if (VEC_FUSED) {
        EACH y[i] = vf_fma(y[i], r[i], one);
        EACH y[i] = vf_fma(y[i], r[i], one);
    } else { /* the large term last: one rounding less where it counts */
        EACH y[i] = vf_add(one, vf_fma(vf_mul(r[i], r[i]), y[i], r[i]));
    }
}

/* exp of n vectors in place, 0 for x below `lowest`, a literal >= LEAST_NORMAL: there below[i] is
 * set. */
RAPTI_INLINE void vf_exp_each(vf *x, vm *below, const int n, const float lowest) {
    vf biased[EXP_TOGETHER], k[EXP_TOGETHER], y[EXP_TOGETHER];
    exp_parts(x, y, k, biased, n, 127.0f);
    EACH below[i] = vf_lt(x[i], vf_set1(lowest));
    EACH x[i] = vf_scale_or_zero(below[i], y[i], k[i], biased[i]);
}

/* The same bits without a question to each x, good if vr_normal(*seen) in the end: then all k were
 * at least -125, and all results normal numbers. (As k + 125 the least is a pattern of zeros; and
 * 125 is odd like 127, so that halves are rounded to the same k.) */
RAPTI_INLINE void vf_exp_normal(vf *x, vr *seen, const int n) {
    vf biased[EXP_TOGETHER], k[EXP_TOGETHER], y[EXP_TOGETHER];
    exp_parts(x, y, k, biased, n, 125.0f);
    RAPTI_UNROLL(8) for (int i = 0; i < n; i += 2) {
        *seen = vr_see(*seen, biased[i], biased[i + 1 < n ? i + 1 : i]);
    }
    EACH x[i] = vf_scale_normal(y[i], k[i], biased[i]);
}

#undef EACH

RAPTI_INLINE vf vf_exp_nonpositive(vf x) {
    vm below;
    vf_exp_each(&x, &below, 1, LEAST_NORMAL);
    return x;
}

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
