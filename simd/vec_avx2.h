/* SPDX-License-Identifier: MIT
 * vec_avx2.h: the vector words on AVX2 with FMA, 8 lanes. What each word means is written in
 * simd/README.md. */
#ifndef RAPTI_VEC_AVX2_H
#define RAPTI_VEC_AVX2_H

#include "common.h"

#include <immintrin.h>
#include <sleef.h>
#include <stdint.h>

#define VEC_ISA avx2
enum { VEC_LANES = 8 };
enum { VEC_FUSED = 1 }; /* vf_fma rounds once */

/* Register tiles, rows x vectors, for 1 to 4 vectors: 12 accumulators, 16 registers. */
enum { TILE_ROWS_1 = 12, TILE_ROWS_2 = 6, TILE_ROWS_3 = 4, TILE_ROWS_4 = 3 };
enum { TILE_GROUP_VECTORS = 2, TILE_COLUMN_VECTORS = 2, TILE_KEY_BLOCK = 128 };
enum { TILE_NEAR_FLOATS = 4096 }; /* a whole tile, which fits */
enum { TILE_FEW_LANES = 4 };      /* lanes up to which product_few pays */
enum { EXP_TOGETHER = 2 };        /* vectors whose exponentials fit into the registers */

typedef __m256 vf;
typedef __m256i vi;
typedef __m256i vw; /* 64-bit lanes */
typedef __m256 vm;  /* all ones or all zeros in each lane */

RAPTI_INLINE vf vf_zero(void) { return _mm256_setzero_ps(); }
RAPTI_INLINE vf vf_zero_apart(void) { return vf_zero(); }
RAPTI_INLINE vf vf_set1(float x) { return _mm256_set1_ps(x); }
RAPTI_INLINE vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
RAPTI_INLINE void vf_store(float *p, vf x) { _mm256_storeu_ps(p, x); }
RAPTI_INLINE vi lanes_below(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
RAPTI_INLINE vf vf_load_n(const float *p, int n) { return _mm256_maskload_ps(p, lanes_below(n)); }
RAPTI_INLINE void vf_store_n(float *p, int n, vf x) { _mm256_maskstore_ps(p, lanes_below(n), x); }
RAPTI_INLINE vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
RAPTI_INLINE vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
RAPTI_INLINE vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
RAPTI_INLINE vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
RAPTI_INLINE vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
RAPTI_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
RAPTI_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }

RAPTI_INLINE vm vf_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
RAPTI_INLINE vm vf_eq(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
RAPTI_INLINE vf vf_select(vm m, vf yes, vf no) { return _mm256_blendv_ps(no, yes, m); }
/* a * b, and 0 where m */
RAPTI_INLINE vf vf_mul_or_zero(vm m, vf a, vf b) {
    return _mm256_andnot_ps(m, _mm256_mul_ps(a, b));
}
RAPTI_INLINE vm vm_or(vm a, vm b) { return _mm256_or_ps(a, b); }
RAPTI_INLINE int vm_all(vm m) { return _mm256_movemask_ps(m) == 0xff; }

RAPTI_INLINE vi vi_set1(int32_t x) { return _mm256_set1_epi32(x); }
RAPTI_INLINE vi vi_load(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
RAPTI_INLINE vm vi_gt(vi a, vi b) { return _mm256_castsi256_ps(_mm256_cmpgt_epi32(a, b)); }

RAPTI_INLINE vw vw_set1(uint32_t x) { return _mm256_set1_epi32((int)x); }
RAPTI_INLINE vw vi_even(vi x) { return x; }
RAPTI_INLINE vw vi_odd(vi x) { return _mm256_srli_epi64(x, 32); }
RAPTI_INLINE vi vi_join(vw even, vw odd) {
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}
RAPTI_INLINE vw vw_mul(vw a, vw b) { return _mm256_mul_epu32(a, b); }
RAPTI_INLINE vw vw_high(vw x) { return _mm256_srli_epi64(x, 32); }
RAPTI_INLINE vw vw_xor3(vw a, vw b, vw c) { return _mm256_xor_si256(a, _mm256_xor_si256(b, c)); }

/* x + 1.5 * 2^23 is rounded to an integer; as bits, 0x4b400000 + k */
typedef __m256 vp;
RAPTI_INLINE vf vf_split(vf x, vp *k) {
    const vf round = vf_set1(12582912.0f);
    *k = vf_add(x, round);
    return vf_sub(x, vf_sub(*k, round));
}
RAPTI_INLINE __m256i integer_plus(vp k, int more) {
    return _mm256_add_epi32(_mm256_castps_si256(k), _mm256_set1_epi32(more - 0x4b400000));
}
RAPTI_INLINE vf vf_scale_or_zero(vm m, vf y, vp k) {
    const __m256i power = _mm256_slli_epi32(integer_plus(k, 127), 23);
    return vf_mul_or_zero(m, y, _mm256_castsi256_ps(power));
}
/* The bits of all k + 112: 0 to 127 for k from -112 to 15, and never else. (The least k would tell
 * as much, but on a port that multiplies.) */
typedef __m256i vr;
RAPTI_INLINE vr vr_none(void) { return _mm256_setzero_si256(); }
RAPTI_INLINE vr vr_see(vr seen, vp k) { return _mm256_or_si256(seen, integer_plus(k, 112)); }
RAPTI_INLINE int vr_normal(vr seen) { return _mm256_testz_si256(seen, _mm256_set1_epi32(~127)); }
/* k is added to y's exponent; the shift leaves nothing of 0x4b400000 */
RAPTI_INLINE vf vf_scale_normal(vf y, vp k) {
    const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(k), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), exponent));
}
RAPTI_INLINE vf vf_hidden_where_false(const uint8_t *p) {
    const __m256i lanes = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
    const __m256i is_false = _mm256_cmpeq_epi32(lanes, _mm256_setzero_si256());
    return _mm256_and_ps(_mm256_castsi256_ps(is_false), _mm256_set1_ps(-__builtin_inff()));
}
RAPTI_INLINE void vec_prefetch(const float *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }
RAPTI_INLINE void vec_prefetch_l2(const float *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }

RAPTI_INLINE vf vf_exp(vf x) { return Sleef_expf8_u10avx2(x); }
RAPTI_INLINE vf vf_exp2(vf x) { return Sleef_exp2f8_u10avx2(x); }
RAPTI_INLINE vf vf_log(vf x) { return Sleef_logf8_u10avx2(x); }
RAPTI_INLINE vf vf_tanh(vf x) { return Sleef_tanhf8_u10avx2(x); }

/* r[i] lane j <-> r[j] lane i: pairs, quads, then 128-bit halves */
RAPTI_INLINE void vf_transpose(vf r[8]) {
    vf t[8];
    RAPTI_UNROLL(4) for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    RAPTI_UNROLL(2) for (int i = 0; i < 2; i++) {
        const __m256d a = _mm256_castps_pd(t[4 * i]), b = _mm256_castps_pd(t[4 * i + 1]);
        const __m256d c = _mm256_castps_pd(t[4 * i + 2]), d = _mm256_castps_pd(t[4 * i + 3]);
        r[4 * i] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, c));
        r[4 * i + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, c));
        r[4 * i + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(b, d));
        r[4 * i + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(b, d));
    }
    RAPTI_UNROLL(4) for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    RAPTI_UNROLL(8) for (int i = 0; i < 8; i++) { r[i] = t[i]; }
}

/* r[j] lane i = rows[i][j]: halves inserted while loading, then 4 x 4 squares within them */
RAPTI_INLINE void vf_load_square(const float *const *rows, int64_t offset, vf r[8]) {
    RAPTI_UNROLL(2) for (int c = 0; c < 8; c += 4) {
        vf t[4];
        RAPTI_UNROLL(4) for (int i = 0; i < 4; i++) {
            t[i] = _mm256_castps128_ps256(_mm_loadu_ps(rows[i] + offset + c));
            t[i] = _mm256_insertf128_ps(t[i], _mm_loadu_ps(rows[i + 4] + offset + c), 1);
        }
        const __m256d a = _mm256_castps_pd(_mm256_unpacklo_ps(t[0], t[1]));
        const __m256d b = _mm256_castps_pd(_mm256_unpackhi_ps(t[0], t[1]));
        const __m256d d = _mm256_castps_pd(_mm256_unpacklo_ps(t[2], t[3]));
        const __m256d e = _mm256_castps_pd(_mm256_unpackhi_ps(t[2], t[3]));
        r[c] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, d));
        r[c + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, d));
        r[c + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(b, e));
        r[c + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(b, e));
    }
}

#endif
