/* SPDX-License-Identifier: MIT
 * vec_neon.h: the vector words on AArch64 Advanced SIMD, 4 lanes, little-endian. What each word
 * means is written in simd/README.md. */
#ifndef RAPTI_VEC_NEON_H
#define RAPTI_VEC_NEON_H

/* GCC 12 would move all loads of a tile's step ahead of its multiply-adds, and then lack registers:
 * an accumulator of the 6 x 4 and 8 x 3 tiles goes through memory in every step. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-schedule-insns")
#endif

#include "common.h"

#include <arm_neon.h>
#include <sleef.h>
#include <stdint.h>
#include <string.h>

#define VEC_ISA neon
enum { VEC_LANES = 4 };
enum { VEC_FUSED = 1 }; /* vf_fma rounds once */

/* Register tiles, rows x vectors, for 1 to 4 vectors: up to 24 accumulators, 32 registers. A
 * Neoverse core starts 2 (N1) to 4 (V1, V2) multiply-adds per cycle that take 4 cycles each, so 16
 * must be under way. A 6 x 4 tile does 24 with 10 loads, 8 x 3 with 11, 16 x 1 with 17; the load
 * units do 2 to 3 per cycle.
 * Groups of 4 vectors: with 4 lanes that is only 16 queries, and each key and value that comes from
 * L2 should serve as many as it can; their output rows are tiles of 6, 6 and 4 rows, all with
 * 16 accumulators or more. */
enum { TILE_ROWS_1 = 16, TILE_ROWS_2 = 10, TILE_ROWS_3 = 8, TILE_ROWS_4 = 6 };
enum { TILE_GROUP_VECTORS = 4, TILE_COLUMN_VECTORS = 4, TILE_KEY_BLOCK = 128 };
enum { TILE_NEAR_FLOATS = 4096 }; /* more than a tile: weighed as a whole */
enum { TILE_FEW_LANES = 0 };      /* product_few: not measured, and with 4 lanes little to gain */
enum { EXP_TOGETHER = 4 };        /* vectors whose exponentials fit into the registers */

typedef float32x4_t vf;
typedef int32x4_t vi;
typedef uint64x2_t vw;
typedef uint32x4_t vm; /* all ones or all zeros in each lane */

RAPTI_INLINE vf vf_zero(void) { return vdupq_n_f32(0.0f); }
RAPTI_INLINE vf vf_zero_apart(void) { return vf_zero(); }
RAPTI_INLINE vf vf_set1(float x) { return vdupq_n_f32(x); }
RAPTI_INLINE vf vf_load(const float *p) { return vld1q_f32(p); }
RAPTI_INLINE void vf_store(float *p, vf x) { vst1q_f32(p, x); }
RAPTI_INLINE vf vf_load_n(const float *p, int n) {
    const vf odd = n & 1 ? vld1q_lane_f32(p + (n & 2), vf_zero(), 0) : vf_zero();
    return n & 2 ? vcombine_f32(vld1_f32(p), vget_low_f32(odd)) : odd;
}
RAPTI_INLINE void vf_store_n(float *p, int n, vf x) {
    if (n & 2) { vst1_f32(p, vget_low_f32(x)); }
    if (n == 3) { vst1q_lane_f32(p + 2, x, 2); }
    if (n == 1) { vst1q_lane_f32(p, x, 0); }
}
RAPTI_INLINE vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
RAPTI_INLINE vf vf_sub(vf a, vf b) { return vsubq_f32(a, b); }
RAPTI_INLINE vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
RAPTI_INLINE vf vf_div(vf a, vf b) { return vdivq_f32(a, b); }
/* not FMAX: b if either is NaN, as on the other sets */
RAPTI_INLINE vf vf_max(vf a, vf b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
RAPTI_INLINE vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
RAPTI_INLINE vf vf_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }

RAPTI_INLINE vm vf_lt(vf a, vf b) { return vcltq_f32(a, b); }
RAPTI_INLINE vm vf_eq(vf a, vf b) { return vceqq_f32(a, b); }
RAPTI_INLINE vf vf_select(vm m, vf yes, vf no) { return vbslq_f32(m, yes, no); }
/* a * b, and 0 where m */
RAPTI_INLINE vf vf_mul_or_zero(vm m, vf a, vf b) {
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(vmulq_f32(a, b)), m));
}
RAPTI_INLINE vm vm_or(vm a, vm b) { return vorrq_u32(a, b); }
RAPTI_INLINE int vm_all(vm m) { return vminvq_u32(m) != 0; }

RAPTI_INLINE vi vi_set1(int32_t x) { return vdupq_n_s32(x); }
RAPTI_INLINE vi vi_load(const int32_t *p) { return vld1q_s32(p); }
RAPTI_INLINE vm vi_gt(vi a, vi b) { return vcgtq_s32(a, b); }

RAPTI_INLINE vw vw_set1(uint32_t x) { return vdupq_n_u64(x); }
RAPTI_INLINE vw vi_even(vi x) { return vreinterpretq_u64_s32(x); }
RAPTI_INLINE vw vi_odd(vi x) { return vshrq_n_u64(vreinterpretq_u64_s32(x), 32); }
RAPTI_INLINE vi vi_join(vw even, vw odd) {
    return vreinterpretq_s32_u64(vsliq_n_u64(even, odd, 32));
}
RAPTI_INLINE vw vw_mul(vw a, vw b) { return vmull_u32(vmovn_u64(a), vmovn_u64(b)); }
RAPTI_INLINE vw vw_high(vw x) { return vshrq_n_u64(x, 32); }
RAPTI_INLINE vw vw_xor3(vw a, vw b, vw c) { return veorq_u64(a, veorq_u64(b, c)); }

typedef int32x4_t vp;
RAPTI_INLINE vf vf_split(vf x, vp *k) {
    const vf rounded = vrndnq_f32(x);
    *k = vcvtq_s32_f32(rounded);
    return vf_sub(x, rounded);
}
RAPTI_INLINE vf vf_scale_or_zero(vm m, vf y, vp k) {
    const int32x4_t power = vshlq_n_s32(vaddq_s32(k, vdupq_n_s32(127)), 23);
    return vf_mul_or_zero(m, y, vreinterpretq_f32_s32(power));
}
/* the largest k + 125 as an unsigned integer: smaller k than -125 have wrapped around */
typedef uint32x4_t vr;
RAPTI_INLINE vr vr_none(void) { return vdupq_n_u32(0); }
RAPTI_INLINE vr vr_see(vr seen, vp k) {
    return vmaxq_u32(seen, vreinterpretq_u32_s32(vaddq_s32(k, vdupq_n_s32(125))));
}
RAPTI_INLINE int vr_normal(vr seen) { return vmaxvq_u32(seen) <= 125 + 125; }
/* k is added to y's exponent */
RAPTI_INLINE vf vf_scale_normal(vf y, vp k) {
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(y), vshlq_n_s32(k, 23)));
}
RAPTI_INLINE vf vf_hidden_where_false(const uint8_t *p) {
    uint32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    const uint32x4_t lanes = vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes))));
    const vf hidden = vf_set1(-__builtin_inff());
    return vreinterpretq_f32_u32(vandq_u32(vceqzq_u32(lanes), vreinterpretq_u32_f32(hidden)));
}
RAPTI_INLINE void vec_prefetch(const float *p) { __builtin_prefetch(p); }
RAPTI_INLINE void vec_prefetch_l2(const float *p) { __builtin_prefetch(p, 0, 2); }

RAPTI_INLINE vf vf_exp(vf x) { return Sleef_expf4_u10advsimd(x); }
RAPTI_INLINE vf vf_exp2(vf x) { return Sleef_exp2f4_u10advsimd(x); }
RAPTI_INLINE vf vf_log(vf x) { return Sleef_logf4_u10advsimd(x); }
RAPTI_INLINE vf vf_tanh(vf x) { return Sleef_tanhf4_u10advsimd(x); }

/* r[i] lane j <-> r[j] lane i: pairs, then 64-bit halves */
RAPTI_INLINE void vf_transpose(vf r[4]) {
    const float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(r[0], r[1]));
    const float64x2_t b = vreinterpretq_f64_f32(vtrn2q_f32(r[0], r[1]));
    const float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(r[2], r[3]));
    const float64x2_t d = vreinterpretq_f64_f32(vtrn2q_f32(r[2], r[3]));
    r[0] = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
    r[1] = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
    r[2] = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
    r[3] = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
}

/* r[j] lane i = rows[i][j] */
RAPTI_INLINE void vf_load_square(const float *const *rows, int64_t offset, vf r[VEC_LANES]) {
    RAPTI_UNROLL(8) for (int i = 0; i < VEC_LANES; i++) { r[i] = vf_load(rows[i] + offset); }
    vf_transpose(r);
}

#endif
