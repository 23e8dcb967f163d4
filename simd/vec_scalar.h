/* SPDX-License-Identifier: MIT
 * vec_scalar.h: the vector words in plain C: an array of lanes and loops over it. The portable row,
 * and by other lane counts the test-only rows. What each word means: simd/README.md. */
#ifndef RAPTI_VEC_SCALAR_H
#define RAPTI_VEC_SCALAR_H

#include "common.h"

#include <sleef.h>
#include <stdint.h>
#include <string.h>

#ifndef VEC_ISA
#define VEC_ISA scalar
enum { VEC_LANES = 4 };
enum { TILE_ROWS_1 = 8, TILE_ROWS_2 = 6, TILE_ROWS_3 = 4, TILE_ROWS_4 = 3 };
enum { TILE_GROUP_VECTORS = 2, TILE_COLUMN_VECTORS = 2, TILE_KEY_BLOCK = 128 };
enum { TILE_NEAR_FLOATS = 4096 }; /* more than a tile: weighed as a whole */
enum { TILE_FEW_LANES = 0 };      /* product_few: squares cost plain C more than they save */
enum { EXP_TOGETHER = 2 };        /* vectors whose exponentials fit into the registers */
#endif

enum { VEC_FUSED = 0 }; /* vf_fma rounds twice */

typedef struct vf {
    float lane[VEC_LANES];
} vf;
typedef struct vi {
    int32_t lane[VEC_LANES];
} vi;
enum { WIDE_LANES = (VEC_LANES + 1) / 2 };
typedef struct vw {
    uint64_t lane[WIDE_LANES];
} vw;
typedef struct vm {
    int32_t lane[VEC_LANES]; /* 1 or 0 */
} vm;

#define EACH_LANE RAPTI_UNROLL(8) for (int lane = 0; lane < VEC_LANES; lane++)

RAPTI_INLINE vf vf_set1(float x) {
    vf r;
    EACH_LANE r.lane[lane] = x;
    return r;
}
RAPTI_INLINE vf vf_zero(void) { return vf_set1(0.0f); }
RAPTI_INLINE vf vf_zero_apart(void) { return vf_zero(); }
RAPTI_INLINE vf vf_load(const float *p) {
    vf r;
    memcpy(&r, p, sizeof r);
    return r;
}
RAPTI_INLINE void vf_store(float *p, vf x) { memcpy(p, &x, sizeof x); }
RAPTI_INLINE vf vf_load_n(const float *p, int n) {
    vf r = vf_zero();
    memcpy(&r, p, (size_t)n * sizeof(float));
    return r;
}
RAPTI_INLINE void vf_store_n(float *p, int n, vf x) { memcpy(p, &x, (size_t)n * sizeof(float)); }
RAPTI_INLINE vf vf_add(vf a, vf b) {
    EACH_LANE a.lane[lane] += b.lane[lane];
    return a;
}
RAPTI_INLINE vf vf_sub(vf a, vf b) {
    EACH_LANE a.lane[lane] -= b.lane[lane];
    return a;
}
RAPTI_INLINE vf vf_mul(vf a, vf b) {
    EACH_LANE a.lane[lane] *= b.lane[lane];
    return a;
}
RAPTI_INLINE vf vf_div(vf a, vf b) {
    EACH_LANE a.lane[lane] /= b.lane[lane];
    return a;
}
RAPTI_INLINE vf vf_max(vf a, vf b) {
    EACH_LANE a.lane[lane] = a.lane[lane] > b.lane[lane] ? a.lane[lane] : b.lane[lane];
    return a;
}
RAPTI_INLINE vf vf_fma(vf a, vf b, vf c) { return vf_add(c, vf_mul(a, b)); }
RAPTI_INLINE vf vf_fnma(vf a, vf b, vf c) { return vf_sub(c, vf_mul(a, b)); }

RAPTI_INLINE vm vf_lt(vf a, vf b) {
    vm m;
    EACH_LANE m.lane[lane] = a.lane[lane] < b.lane[lane];
    return m;
}
RAPTI_INLINE vm vf_eq(vf a, vf b) {
    vm m;
    EACH_LANE m.lane[lane] = a.lane[lane] == b.lane[lane];
    return m;
}
RAPTI_INLINE vf vf_select(vm m, vf yes, vf no) {
    EACH_LANE no.lane[lane] = m.lane[lane] ? yes.lane[lane] : no.lane[lane];
    return no;
}
/* a * b, and 0 where m */
RAPTI_INLINE vf vf_mul_or_zero(vm m, vf a, vf b) { return vf_select(m, vf_zero(), vf_mul(a, b)); }
RAPTI_INLINE vm vm_or(vm a, vm b) {
    EACH_LANE a.lane[lane] |= b.lane[lane];
    return a;
}
RAPTI_INLINE int vm_all(vm m) {
    int all = 1;
    EACH_LANE all &= m.lane[lane];
    return all;
}

RAPTI_INLINE vi vi_set1(int32_t x) {
    vi r;
    EACH_LANE r.lane[lane] = x;
    return r;
}
RAPTI_INLINE vi vi_load(const int32_t *p) {
    vi r;
    memcpy(&r, p, sizeof r);
    return r;
}
RAPTI_INLINE vm vi_gt(vi a, vi b) {
    vm m;
    EACH_LANE m.lane[lane] = a.lane[lane] > b.lane[lane];
    return m;
}

#define EACH_WIDE RAPTI_UNROLL(8) for (int lane = 0; lane < WIDE_LANES; lane++)

RAPTI_INLINE vw vw_set1(uint32_t x) {
    vw r;
    EACH_WIDE r.lane[lane] = x;
    return r;
}
RAPTI_INLINE vw vi_even(vi x) {
    vw r;
    EACH_WIDE r.lane[lane] = (uint32_t)x.lane[2 * lane];
    return r;
}
RAPTI_INLINE vw vi_odd(vi x) {
    vw r;
    EACH_WIDE r.lane[lane] = 2 * lane + 1 < VEC_LANES ? (uint32_t)x.lane[2 * lane + 1] : 0;
    return r;
}
RAPTI_INLINE vi vi_join(vw even, vw odd) {
    vi r;
    EACH_LANE r.lane[lane] = (int32_t)(lane % 2 ? odd : even).lane[lane / 2];
    return r;
}
RAPTI_INLINE vw vw_mul(vw a, vw b) {
    EACH_WIDE a.lane[lane] = (a.lane[lane] & 0xffffffff) * (b.lane[lane] & 0xffffffff);
    return a;
}
RAPTI_INLINE vw vw_high(vw x) {
    EACH_WIDE x.lane[lane] >>= 32;
    return x;
}
RAPTI_INLINE vw vw_xor3(vw a, vw b, vw c) {
    EACH_WIDE a.lane[lane] ^= b.lane[lane] ^ c.lane[lane];
    return a;
}

/* x + 1.5 * 2^23 is rounded to an integer; as bits, 0x4b400000 + k */
typedef vf vp;
RAPTI_INLINE vf vf_split(vf x, vp *k) {
    const vf round = vf_set1(12582912.0f);
    *k = vf_add(x, round);
    return vf_sub(x, vf_sub(*k, round));
}
RAPTI_INLINE vf vf_scale_normal(vf y, vp k) {
    uint32_t bits[VEC_LANES];
    memcpy(bits, &k, sizeof bits);
    EACH_LANE bits[lane] = (bits[lane] + 127) << 23;
    memcpy(&k, bits, sizeof bits);
    return vf_mul(y, k);
}
RAPTI_INLINE vf vf_scale_or_zero(vm m, vf y, vp k) {
    return vf_select(m, vf_zero(), vf_scale_normal(y, k));
}
typedef struct vr {
    int normal;
} vr;
RAPTI_INLINE vr vr_none(void) { return (vr){1}; }
RAPTI_INLINE vr vr_see(vr seen, vp k) {
    EACH_LANE seen.normal &= k.lane[lane] > 12582912.0f - 126 && k.lane[lane] <= 12582912.0f + 127;
    return seen;
}
RAPTI_INLINE int vr_normal(vr seen) { return seen.normal; }
RAPTI_INLINE vf vf_hidden_where_false(const uint8_t *p) {
    vf r;
    EACH_LANE r.lane[lane] = p[lane] ? 0.0f : -__builtin_inff();
    return r;
}
RAPTI_INLINE void vec_prefetch(const float *p) { __builtin_prefetch(p); }
RAPTI_INLINE void vec_prefetch_l2(const float *p) { __builtin_prefetch(p, 0, 2); }

RAPTI_INLINE vf vf_exp(vf x) {
    EACH_LANE x.lane[lane] = Sleef_expf_u10(x.lane[lane]);
    return x;
}
RAPTI_INLINE vf vf_exp2(vf x) {
    EACH_LANE x.lane[lane] = Sleef_exp2f_u10(x.lane[lane]);
    return x;
}
RAPTI_INLINE vf vf_log(vf x) {
    EACH_LANE x.lane[lane] = Sleef_logf_u10(x.lane[lane]);
    return x;
}
RAPTI_INLINE vf vf_tanh(vf x) {
    EACH_LANE x.lane[lane] = Sleef_tanhf_u10(x.lane[lane]);
    return x;
}

RAPTI_INLINE void vf_transpose(vf r[VEC_LANES]) {
    for (int i = 0; i < VEC_LANES; i++) {
        for (int j = i + 1; j < VEC_LANES; j++) {
            const float x = r[i].lane[j];
            r[i].lane[j] = r[j].lane[i];
            r[j].lane[i] = x;
        }
    }
}

/* r[j] lane i = rows[i][j] */
RAPTI_INLINE void vf_load_square(const float *const *rows, int64_t offset, vf r[VEC_LANES]) {
    RAPTI_UNROLL(8) for (int i = 0; i < VEC_LANES; i++) { r[i] = vf_load(rows[i] + offset); }
    vf_transpose(r);
}

#endif
