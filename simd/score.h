/* SPDX-License-Identifier: MIT
 * score.h: additive scores, S[i][j] = sum_u v[u] tanh(Q[i,u] + K[u][j]) (Bahdanau et al. 2015), and
 * their gradients, keys in the lanes: nothing is reduced across them. Nearly all of the time goes
 * to tanh. */
#include "common.h"
#include "kernels.h"

enum { SCORE_VECTORS = 4 }; /* so many tanh follow one load of Q and v */

/* One query, `vectors` lane vectors of keys from `key` on; the only one has `last` lanes. */
RAPTI_INLINE void additive_keys(const rapti_additive *a, int64_t query, int64_t key, int last,
                                const int vectors) {
    const float *q = a->q + query * a->q_row, *k = a->k + key;
    vf sum[SCORE_VECTORS];
    RAPTI_UNROLL(4) for (int n = 0; n < vectors; n++) { sum[n] = vf_zero(); }
    for (int64_t u = 0; u < a->units; u++, k += a->k_unit) {
        RAPTI_UNROLL(4) for (int n = 0; n < vectors; n++) {
            const float *at = k + n * VEC_LANES;
            const vf x = last == VEC_LANES ? vf_load(at) : vf_load_n(at, last);
            const vf t = vf_tanh(vf_add(vf_set1(q[u]), x));
            sum[n] = vf_fma(vf_set1(a->v[u]), t, sum[n]);
        }
    }
    RAPTI_UNROLL(4) for (int n = 0; n < vectors; n++) {
        float *s = a->s + query * a->s_row + key + n * VEC_LANES;
        if (last == VEC_LANES) {
            vf_store(s, sum[n]);
        } else {
            vf_store_n(s, last, sum[n]);
        }
    }
}

/* A few vectors of keys for all queries, while these keys are in cache. */
static void additive_scores(const rapti_additive *a) {
    enum { WIDTH = SCORE_VECTORS * VEC_LANES };
    int64_t j = 0;
    for (; j + WIDTH <= a->keys; j += WIDTH) {
        for (int64_t i = 0; i < a->queries; i++) {
            additive_keys(a, i, j, VEC_LANES, SCORE_VECTORS);
        }
    }
    for (; j < a->keys; j += VEC_LANES) {
        const int last = a->keys - j < VEC_LANES ? (int)(a->keys - j) : VEC_LANES;
        for (int64_t i = 0; i < a->queries; i++) { additive_keys(a, i, j, last, 1); }
    }
}

/* One lane vector of keys, `last` of which exist: the others have dS = 0. */
RAPTI_INLINE void gradient_of_keys(const rapti_additive_gradient *a, int64_t key, int last) {
    const int whole = last == VEC_LANES;
    for (int64_t u = 0; u < a->units; u++) {
        const float *k = a->k + u * a->k_unit + key;
        float *f = a->f + u * a->f_unit + key, *g = a->g + u * VEC_LANES;
        const vf x = whole ? vf_load(k) : vf_load_n(k, last);
        vf of_key = whole ? vf_load(f) : vf_load_n(f, last), of_unit = vf_load(g);
        for (int64_t i = 0; i < a->queries; i++) {
            const float *at = a->ds + i * a->ds_row + key;
            float *e = a->e + (i * a->units + u) * VEC_LANES;
            const vf ds = whole ? vf_load(at) : vf_load_n(at, last);
            const vf t = vf_tanh(vf_add(vf_set1(a->q[i * a->q_row + u]), x));
            const vf down = vf_mul(ds, vf_fnma(t, t, vf_set1(1.0f)));
            of_key = vf_add(of_key, down);
            of_unit = vf_fma(ds, t, of_unit);
            vf_store(e, vf_add(vf_load(e), down));
        }
        if (whole) {
            vf_store(f, of_key);
        } else {
            vf_store_n(f, last, of_key);
        }
        vf_store(g, of_unit);
    }
}

static void additive_gradients(const rapti_additive_gradient *a) {
    int64_t j = 0;
    for (; j + VEC_LANES <= a->keys; j += VEC_LANES) { gradient_of_keys(a, j, VEC_LANES); }
    if (j < a->keys) { gradient_of_keys(a, j, (int)(a->keys - j)); }
}
