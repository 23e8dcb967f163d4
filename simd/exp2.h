/* SPDX-License-Identifier: MIT
 * exp2.h: 2^x for x <= 127, inline, for the fused kernels, where a call would clobber every vector
 * register. They need it for x <= 12 (softmax.h), most of all for x <= 0, and a little above 0 for
 * rounded differences (gradient.h). SLEEF's vf_exp2 can take its place, and is what it is compared
 * with.
 *
 * x = k + r with |r| <= 1/2, both exact, which they are not in exp(x); 2^r by a minimax polynomial
 * of degree 6; times 2^k. Error at most 1 ulp for every float <= 0 (0.79 with fused multiply-add,
 * 0.83 without: all of them are gone through in tests/exp2_checks.c); exactly 0 for -inf and
 * wherever the result would be below 2^-126; NaN stays NaN; the same bits on every instruction set
 * with fused multiply-add. Method: Cody and Waite 1980, chapter 6. */
#ifndef RAPTI_EXP2_H
#define RAPTI_EXP2_H

#include "common.h"
#include "kernels.h"

/* Below it, 2^x is denormal. */
static const float LEAST_NORMAL = -126.0f;

#define EACH RAPTI_UNROLL(8) for (int i = 0; i < n; i++)

/* 2^x[i] = y[i] * 2^k[i] for n vectors; n is literal. Each step is done for all vectors
 * (n <= EXP_TOGETHER) before the next: the steps of one vector wait for each other, and are more
 * than the core can look ahead over. */
RAPTI_INLINE void exp2_parts(const vf *x, vf *y, vp *k, const int n) {
    const vf one = vf_set1(1.0f);
    vf r[EXP_TOGETHER];
    EACH r[i] = vf_split(x[i], &k[i]);
    EACH y[i] = vf_fma(vf_set1(0.000153532674f), r[i], vf_set1(0.00133988715f));
    EACH y[i] = vf_fma(y[i], r[i], vf_set1(0.00961850397f));
    EACH y[i] = vf_fma(y[i], r[i], vf_set1(0.0555034466f));
    EACH y[i] = vf_fma(y[i], r[i], vf_set1(0.240226477f));
    if (VEC_FUSED) {
        EACH y[i] = vf_fma(y[i], r[i], vf_set1(0.693147182f));
        EACH y[i] = vf_fma(y[i], r[i], one);
        return;
    }
    /* the large term exact: ln 2 and r to 13 and 11 bits */
    const vf ln2 = vf_set1(0.693115234f), round = vf_set1(3072.0f);
    EACH {
        const vf high = vf_sub(vf_add(r[i], round), round), low = vf_sub(r[i], high);
        const vf rest = vf_fma(y[i], r[i], vf_set1(3.19461849e-5f));
        y[i] = vf_fma(rest, r[i], vf_mul(low, ln2));
        y[i] = vf_add(one, vf_fma(high, ln2, y[i]));
    }
}

/* 2^x of n vectors in place, 0 for x below `lowest`, a literal >= LEAST_NORMAL: there below[i] is
 * set. */
RAPTI_INLINE void vf_exp2_each(vf *x, vm *below, const int n, const float lowest) {
    vf y[EXP_TOGETHER];
    vp k[EXP_TOGETHER];
    exp2_parts(x, y, k, n);
    EACH below[i] = vf_lt(x[i], vf_set1(lowest));
    EACH x[i] = vf_scale_or_zero(below[i], y[i], k[i]);
}

/* The same bits without a question to each x, good if vr_normal(*seen) in the end: then all results
 * were normal numbers. */
RAPTI_INLINE void vf_exp2_normal(vf *x, vr *seen, const int n) {
    vf y[EXP_TOGETHER];
    vp k[EXP_TOGETHER];
    exp2_parts(x, y, k, n);
    EACH *seen = vr_see(*seen, k[i]);
    EACH x[i] = vf_scale_normal(y[i], k[i]);
}

#undef EACH

RAPTI_INLINE vf vf_exp2_inline(vf x) {
    vm below;
    vf_exp2_each(&x, &below, 1, LEAST_NORMAL);
    return x;
}

static void exp2_inline(const float *x, float *y, int64_t n) {
    int64_t i = 0;
    for (; i + VEC_LANES <= n; i += VEC_LANES) { vf_store(y + i, vf_exp2_inline(vf_load(x + i))); }
    if (i < n) { vf_store_n(y + i, (int)(n - i), vf_exp2_inline(vf_load_n(x + i, (int)(n - i)))); }
}

static void exp2_any(const float *x, float *y, int64_t n) {
    int64_t i = 0;
    for (; i + VEC_LANES <= n; i += VEC_LANES) { vf_store(y + i, vf_exp2(vf_load(x + i))); }
    if (i < n) { vf_store_n(y + i, (int)(n - i), vf_exp2(vf_load_n(x + i, (int)(n - i)))); }
}

#endif
