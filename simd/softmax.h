/* SPDX-License-Identifier: MIT
 * softmax.h: the online softmax of one lane vector: queries lie in the lanes, keys run down memory,
 * so maximum, exp and sum are plain vector operations and nothing is reduced across lanes.
 *
 *   m' = max(m, max_k S[k]);  P[k] = exp(S[k] - m');  rescale = exp(m - m');
 *   l' = l rescale + sum_k P[k]
 *
 * (Milakov and Gimelshein 2018). Every other key goes to a second sum; since the two are added at
 * the end, a row's bits do not depend on whether a range begins at an even or an odd key. */
#include "common.h"
#include "exp.h"
#include "kernels.h"

/* eight maxima side by side: one alone would wait for itself at every key */
RAPTI_INLINE vf block_max(const float *s, int64_t ld, int64_t begin, int64_t end, vf m) {
    vf part[8];
    RAPTI_UNROLL(8) for (int i = 0; i < 8; i++) { part[i] = m; }
    int64_t k = begin;
    for (; k + 8 <= end; k += 8) {
        RAPTI_UNROLL(8) for (int i = 0; i < 8; i++) {
            part[i] = vf_max(part[i], vf_load(s + (k + i) * ld));
        }
    }
    for (; k < end; k++) { m = vf_max(m, vf_load(s + k * ld)); }
    RAPTI_UNROLL(8) for (int i = 0; i < 8; i++) { m = vf_max(m, part[i]); }
    return m;
}

/* SLEEF's word, with the same zeros as the inline one: a denormal weight would be slow to use. */
RAPTI_INLINE vf exp_flushed(vf x) {
    return vf_select(vf_lt(x, vf_set1(-87.3365402f)), vf_zero(), vf_exp(x));
}

RAPTI_INLINE vf weight(vf x, const int any) { return any ? exp_flushed(x) : vf_exp_nonpositive(x); }

/* P[k] in place of S[k]; returns the sum over the block. any: which exponential, literal. */
RAPTI_INLINE vf block_exp(float *s, int64_t ld, int64_t begin, int64_t end, vf shift,
                          const int any) {
    vf even = vf_zero(), odd = vf_zero();
    int64_t k = begin;
    for (; k + 2 <= end; k += 2) {
        const vf p0 = weight(vf_sub(vf_load(s + k * ld), shift), any);
        const vf p1 = weight(vf_sub(vf_load(s + (k + 1) * ld), shift), any);
        vf_store(s + k * ld, p0);
        vf_store(s + (k + 1) * ld, p1);
        even = vf_add(even, p0);
        odd = vf_add(odd, p1);
    }
    if (k < end) {
        const vf p = weight(vf_sub(vf_load(s + k * ld), shift), any);
        vf_store(s + k * ld, p);
        even = vf_add(even, p);
    }
    return vf_add(even, odd);
}

static void softmax_max(const float *s, int64_t ld, int64_t begin, int64_t end,
                        rapti_softmax_state state) {
    const vf lowest = vf_set1(-__builtin_inff());
    const vf old_max = vf_load(state.max);
    const vf max = block_max(s, ld, begin, end, old_max);
    /* a lane that saw nothing yet: subtract 0, since -inf - -inf would be NaN */
    const vf shift = vf_select(vf_eq(max, lowest), vf_zero(), max);
    vf_store(state.max, max);
    vf_store(state.shift, shift);
    vf_store(state.rescale, vf_exp_nonpositive(vf_sub(old_max, shift)));
}

RAPTI_INLINE void exp_step(float *s, int64_t ld, int64_t from, int64_t begin, int64_t end,
                           int64_t to, rapti_softmax_state state, const int any) {
    const vf sum = block_exp(s, ld, begin, end, vf_load(state.shift), any);
    vf_store(state.sum, vf_fma(vf_load(state.sum), vf_load(state.rescale), sum));
    for (int64_t k = from; k < begin; k++) { vf_store(s + k * ld, vf_zero()); }
    for (int64_t k = end; k < to; k++) { vf_store(s + k * ld, vf_zero()); }
}

static void softmax_exp(float *s, int64_t ld, int64_t from, int64_t begin, int64_t end, int64_t to,
                        rapti_softmax_state state) {
    exp_step(s, ld, from, begin, end, to, state, 0);
}

static void softmax_exp_any(float *s, int64_t ld, int64_t from, int64_t begin, int64_t end,
                            int64_t to, rapti_softmax_state state) {
    exp_step(s, ld, from, begin, end, to, state, 1);
}
