/* SPDX-License-Identifier: MIT
 * exp2_fused.c: simd/exp2.h over vectors of one lane in plain C. */
#include "exp2_checks.h"

#include <math.h>
#include <stdbool.h>

enum { VEC_LANES = 1, VEC_FUSED = 1, EXP_TOGETHER = 1 };
typedef float vf;
typedef bool vm;

static vf vf_set1(float x) { return x; }
static vf vf_load(const float *p) { return *p; }
static vf vf_load_n(const float *p, int n) { return n > 0 ? *p : 0.0f; }
static void vf_store(float *p, vf x) { *p = x; }
static void vf_store_n(float *p, int n, vf x) {
    if (n > 0) { *p = x; }
}
static vf vf_add(vf a, vf b) { return a + b; }
static vf vf_sub(vf a, vf b) { return a - b; }
static vf vf_mul(vf a, vf b) { return a * b; }
static vf vf_fma(vf a, vf b, vf c) { return fmaf(a, b, c); }
static vm vf_lt(vf a, vf b) { return a < b; }
static vf vf_exp2(vf x) { return exp2f(x); }
typedef float vp;
static vf vf_split(vf x, vp *k) {
    *k = rintf(x);
    return x - *k;
}
static vf vf_scale_normal(vf y, vp k) { return y * exp2f(k); }
static vf vf_scale_or_zero(vm m, vf y, vp k) { return m ? 0.0f : vf_scale_normal(y, k); }

/* A word of vf_exp2_normal, which is not run here. */
typedef bool vr;
static vr vr_see(vr seen, vp k) {
    (void)k;
    return seen;
}

#include "exp2.h"

void exp2_fused(const float *x, float *y, int64_t n) {
    exp2_any(x, y, 0); /* comes with the header */
    exp2_inline(x, y, n);
}
