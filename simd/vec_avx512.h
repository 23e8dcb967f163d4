/* SPDX-License-Identifier: MIT
 * vec_avx512.h: the vector words on AVX-512 (F, BW, DQ, VL), 16 lanes. What each word means is
 * written in simd/README.md. */
#ifndef RAPTI_VEC_AVX512_H
#define RAPTI_VEC_AVX512_H

#include "common.h"

#include <immintrin.h>
#include <sleef.h>
#include <stdint.h>

#define VEC_ISA avx512
enum { VEC_LANES = 16 };
enum { VEC_FUSED = 1 }; /* vf_fma rounds once */

/* Register tiles, rows x vectors, for 1 to 4 vectors: 24 accumulators, 32 registers. */
enum { TILE_ROWS_1 = 16, TILE_ROWS_2 = 12, TILE_ROWS_3 = 8, TILE_ROWS_4 = 6 };
enum { TILE_GROUP_VECTORS = 4, TILE_COLUMN_VECTORS = 4, TILE_KEY_BLOCK = 128 };
enum { TILE_NEAR_FLOATS = 4096 }; /* 16 kB of scores: a third of L1, beside queries and keys */
enum { TILE_FEW_LANES = 4 };      /* lanes up to which product_few pays */
enum { EXP_TOGETHER = 4 };        /* vectors whose exponentials fit into the registers */

typedef __m512 vf;
typedef __m512i vi;
typedef __m512i vw; /* 64-bit lanes */
typedef __mmask16 vm;

RAPTI_INLINE vf vf_zero(void) { return _mm512_setzero_ps(); }
/* GCC makes one zero and copies it, and most copies take the place of an fma. */
RAPTI_INLINE vf vf_zero_apart(void) {
    vf zero;
    __asm__ volatile("vpxord %0, %0, %0" : "=v"(zero)); /* volatile: each its own */
    return zero;
}
RAPTI_INLINE vf vf_set1(float x) { return _mm512_set1_ps(x); }
RAPTI_INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
RAPTI_INLINE void vf_store(float *p, vf x) { _mm512_storeu_ps(p, x); }
RAPTI_INLINE vm lanes_below(int n) { return (vm)((1u << n) - 1u); }
RAPTI_INLINE vf vf_load_n(const float *p, int n) {
    return _mm512_maskz_loadu_ps(lanes_below(n), p);
}
RAPTI_INLINE void vf_store_n(float *p, int n, vf x) { _mm512_mask_storeu_ps(p, lanes_below(n), x); }
RAPTI_INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
RAPTI_INLINE vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
RAPTI_INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
RAPTI_INLINE vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
RAPTI_INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
RAPTI_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
RAPTI_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }

RAPTI_INLINE vm vf_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
RAPTI_INLINE vm vf_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
RAPTI_INLINE vf vf_select(vm m, vf yes, vf no) { return _mm512_mask_blend_ps(m, no, yes); }
/* a * b, and 0 where m */
RAPTI_INLINE vf vf_mul_or_zero(vm m, vf a, vf b) {
    return _mm512_maskz_mul_ps((__mmask16)~m, a, b);
}
RAPTI_INLINE vm vm_or(vm a, vm b) { return (vm)(a | b); }
RAPTI_INLINE int vm_all(vm m) { return m == 0xffff; }

RAPTI_INLINE vi vi_set1(int32_t x) { return _mm512_set1_epi32(x); }
RAPTI_INLINE vi vi_load(const int32_t *p) { return _mm512_loadu_si512(p); }
RAPTI_INLINE vm vi_gt(vi a, vi b) { return _mm512_cmpgt_epi32_mask(a, b); }

RAPTI_INLINE vw vw_set1(uint32_t x) { return _mm512_set1_epi32((int)x); }
RAPTI_INLINE vw vi_even(vi x) { return x; }
RAPTI_INLINE vw vi_odd(vi x) { return _mm512_srli_epi64(x, 32); }
RAPTI_INLINE vi vi_join(vw even, vw odd) {
    return _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
}
RAPTI_INLINE vw vw_mul(vw a, vw b) { return _mm512_mul_epu32(a, b); }
RAPTI_INLINE vw vw_high(vw x) { return _mm512_srli_epi64(x, 32); }
RAPTI_INLINE vw vw_xor3(vw a, vw b, vw c) { return _mm512_ternarylogic_epi32(a, b, c, 0x96); }

/* k as it is. (The fraction alone would tell scalef enough if it were that of rounding down, but
 * then other sets would have other bits.) */
typedef __m512 vp;
RAPTI_INLINE vf vf_split(vf x, vp *k) {
    const vf r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEAREST_INT);
    *k = _mm512_sub_ps(x, r);
    return r;
}
RAPTI_INLINE vf vf_scale_or_zero(vm m, vf y, vp k) {
    return _mm512_maskz_scalef_ps((__mmask16)~m, y, k);
}
/* the least k: above 127 scalef gives infinity */
typedef __m512 vr;
RAPTI_INLINE vr vr_none(void) { return _mm512_setzero_ps(); }
RAPTI_INLINE vr vr_see(vr seen, vp k) { return _mm512_min_ps(seen, k); }
RAPTI_INLINE int vr_normal(vr seen) { return vm_all(vf_lt(vf_set1(-126.0f), seen)); }
RAPTI_INLINE vf vf_scale_normal(vf y, vp k) { return _mm512_scalef_ps(y, k); }
RAPTI_INLINE vf vf_hidden_where_false(const uint8_t *p) {
    const __m128i bytes = _mm_loadu_si128((const __m128i *)p);
    return _mm512_mask_blend_ps(_mm_cmpeq_epi8_mask(bytes, _mm_setzero_si128()),
                                _mm512_setzero_ps(), _mm512_set1_ps(-__builtin_inff()));
}
RAPTI_INLINE void vec_prefetch(const float *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }
RAPTI_INLINE void vec_prefetch_l2(const float *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }

RAPTI_INLINE vf vf_exp(vf x) { return Sleef_expf16_u10avx512f(x); }
RAPTI_INLINE vf vf_exp2(vf x) { return Sleef_exp2f16_u10avx512f(x); }
RAPTI_INLINE vf vf_log(vf x) { return Sleef_logf16_u10avx512f(x); }
RAPTI_INLINE vf vf_tanh(vf x) { return Sleef_tanhf16_u10avx512f(x); }

/* r[i] lane j <-> r[j] lane i: pairs, quads, then 128-bit quarters */
RAPTI_INLINE void vf_transpose(vf r[16]) {
    vf t[16];
    RAPTI_UNROLL(8) for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    RAPTI_UNROLL(4) for (int i = 0; i < 4; i++) {
        const __m512d a = _mm512_castps_pd(t[4 * i]), b = _mm512_castps_pd(t[4 * i + 1]);
        const __m512d c = _mm512_castps_pd(t[4 * i + 2]), d = _mm512_castps_pd(t[4 * i + 3]);
        r[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        r[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        r[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        r[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
    RAPTI_UNROLL(4) for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    RAPTI_UNROLL(4) for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

/* r[j] lane i = rows[i][j], columns 0 to 7 and 8 to 15 by themselves: rows i and i + 4 side by side
 * while loading, 4 x 4 squares within quarters, then the quarters of rows 0 to 7 and 8 to 15 */
RAPTI_INLINE void vf_load_square(const float *const *rows, int64_t offset, vf r[16]) {
    RAPTI_UNROLL(2) for (int c = 0; c < 16; c += 8) {
        vf t[8];
        RAPTI_UNROLL(8) for (int i = 0; i < 8; i++) {
            const float *const *row = rows + (i < 4 ? i : i + 4);
            const __m512d low =
                _mm512_castpd256_pd512(_mm256_castps_pd(_mm256_loadu_ps(row[0] + offset + c)));
            const __m256d high = _mm256_castps_pd(_mm256_loadu_ps(row[4] + offset + c));
            t[i] = _mm512_castpd_ps(_mm512_insertf64x4(low, high, 1));
        }
        RAPTI_UNROLL(2) for (int i = 0; i < 8; i += 4) {
            const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(t[i], t[i + 1]));
            const __m512d b = _mm512_castps_pd(_mm512_unpackhi_ps(t[i], t[i + 1]));
            const __m512d d = _mm512_castps_pd(_mm512_unpacklo_ps(t[i + 2], t[i + 3]));
            const __m512d e = _mm512_castps_pd(_mm512_unpackhi_ps(t[i + 2], t[i + 3]));
            t[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, d));
            t[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, d));
            t[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, e));
            t[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, e));
        }
        RAPTI_UNROLL(4) for (int j = 0; j < 4; j++) {
            r[c + j] = _mm512_shuffle_f32x4(t[j], t[j + 4], 0x88);
            r[c + j + 4] = _mm512_shuffle_f32x4(t[j], t[j + 4], 0xdd);
        }
    }
}

#endif
