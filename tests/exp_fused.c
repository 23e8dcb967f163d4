/* SPDX-License-Identifier: MIT
 * exp_fused.c: simd/exp.h over vectors of one lane in plain C. */
#include "exp_checks.h"

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
static vf vf_fnma(vf a, vf b, vf c) { return fmaf(-a, b, c); }
static vm vf_lt(vf a, vf b) { return a < b; }
static vf vf_exp(vf x) { return expf(x); }
static vf vf_scale_or_zero(vm m, vf y, vf k, vf biased) {
    (void)biased;
    return m ? 0.0f : y * exp2f(k);
}

/* Words of vf_exp_normal, which is not run here. */
typedef bool vr;
static vr vr_see(vr seen, vf a, vf b) {
    (void)a, (void)b;
    return seen;
}
static vf vf_scale_normal(vf y, vf k, vf biased) { return vf_scale_or_zero(false, y, k, biased); }

#include "exp.h"

void exp_fused(const float *x, float *y, int64_t n) {
    exp_any(x, y, 0); /* comes with the header */
    exp_nonpositive(x, y, n);
}
