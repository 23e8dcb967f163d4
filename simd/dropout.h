/* SPDX-License-Identifier: MIT
 * dropout.h: weights set to 0 on one lane vector of a tile: by the counter generator Philox 4x32-10
 * (Salmon, Moraes, Dror, Shaw 2011) or by a pattern in memory.
 *
 *   word(i,j) = philox(counter = {j / 4, query i, item, offset}, key)[j mod 4]
 *   P[j][i]   = 0 unless word(i,j), read as int32_t, < threshold
 *
 * Each lane has a query and an item (batch and head) of its own; the four words of a counter serve
 * four keys. The generator multiplies 32-bit words to 64-bit products, so even and odd lanes are
 * worked on apart, in 64-bit lanes of which only the low halves count. */
#include "common.h"
#include "kernels.h"
#include "visibility.h"

enum { PHILOX_ROUNDS = 10 };
static const uint32_t PHILOX_M0 = 0xD2511F53, PHILOX_M1 = 0xCD9E8D57;

/* The round keys of both key words. */
typedef struct philox_keys {
    uint32_t k0[PHILOX_ROUNDS], k1[PHILOX_ROUNDS];
} philox_keys;

RAPTI_INLINE void philox_round(vw c[4], uint32_t k0, uint32_t k1) {
    const vw p0 = vw_mul(c[0], vw_set1(PHILOX_M0)), p1 = vw_mul(c[2], vw_set1(PHILOX_M1));
    c[0] = vw_xor3(vw_high(p1), c[1], vw_set1(k0));
    c[1] = p1;
    c[2] = vw_xor3(vw_high(p0), c[3], vw_set1(k1));
    c[3] = p0;
}

RAPTI_INLINE void philox_lanes(vi query, vi item, uint32_t quad, uint32_t offset,
                               const philox_keys *keys, vi words[4]) {
    vw even[4] = {vw_set1(quad), vi_even(query), vi_even(item), vw_set1(offset)};
    vw odd[4] = {vw_set1(quad), vi_odd(query), vi_odd(item), vw_set1(offset)};
    RAPTI_UNROLL(10) for (int r = 0; r < PHILOX_ROUNDS; r++) {
        philox_round(even, keys->k0[r], keys->k1[r]);
        philox_round(odd, keys->k0[r], keys->k1[r]);
    }
    RAPTI_UNROLL(4) for (int w = 0; w < 4; w++) { words[w] = vi_join(even[w], odd[w]); }
}

RAPTI_INLINE void keep_below(vi threshold, vi word, float *s) {
    vf_store(s, vf_select(vi_gt(threshold, word), vf_load(s), vf_zero()));
}

static void drop_lanes(const rapti_dropout *d, const int32_t *query, const int32_t *item,
                       int64_t first_key, int64_t from, int64_t to, float *s, int64_t ld) {
    const vi queries = vi_load(query), items = vi_load(item), threshold = vi_set1(d->threshold);
    philox_keys keys;
    for (uint32_t r = 0; r < PHILOX_ROUNDS; r++) {
        keys.k0[r] = d->key[0] + r * 0x9E3779B9u;
        keys.k1[r] = d->key[1] + r * 0xBB67AE85u;
    }
    for (int64_t k = from; k < to;) {
        const int64_t quad = (first_key + k) / 4, first = quad * 4 - first_key;
        vi words[4];
        philox_lanes(queries, items, (uint32_t)quad, d->offset, &keys, words);
        if (k == first && k + 4 <= to) {
            RAPTI_UNROLL(4) for (int w = 0; w < 4; w++) {
                keep_below(threshold, words[w], s + (k + w) * ld);
            }
            k += 4;
        } else { /* the ends of a range */
            for (; k < to && k < first + 4; k++) {
                keep_below(threshold, words[k - first], s + k * ld);
            }
        }
    }
}

static void apply_keep(const uint8_t *const *rows, int64_t stride, int64_t from, int64_t to,
                       float *s, int64_t ld) {
    for (int64_t k = from; k < to; k += VEC_LANES) {
        const int64_t keys = to - k < VEC_LANES ? to - k : VEC_LANES;
        vf terms[VEC_LANES];
        load_mask(rows, stride, k, keys, terms);
        for (int64_t j = 0; j < keys; j++) {
            const vm kept = vf_eq(terms[j], vf_zero());
            float *to_keep = s + (k + j) * ld;
            vf_store(to_keep, vf_select(kept, vf_load(to_keep), vf_zero()));
        }
    }
}
