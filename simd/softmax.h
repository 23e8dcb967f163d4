/* SPDX-License-Identifier: MIT
 * softmax.h: the online softmax of one lane vector: queries lie in the lanes, keys run down memory,
 * so maximum, exp and sum are plain vector operations and nothing is reduced across lanes.
 *
 *   P[k] = 2^(S[k] - shift');  rescale = 2^(shift - shift');  l' = l rescale + sum_k P[k]
 *
 * Scores come in octaves: with log2(e) in them, 2^S is the exponential of what they stand for.
 * (Milakov and Gimelshein 2018, with the maximum m for shift.) Any shift near the maximum gives the
 * same softmax: it starts at 0, and a lane's moves to the maximum only when that has left its
 * neighbourhood. So most blocks know their shift before they know their maximum, and one pass does
 * for both.
 *
 * Every other key goes to a second sum; since the two are added at the end, a row's bits do not
 * depend on whether a range begins at an even or an odd key. */
#include "common.h"
#include "exp2.h"
#include "kernels.h"

#include <string.h>

/* The neighbourhood. Sums stay below 2^12 per key, and a weight that is made 0 is below 2^-114 of
 * the largest. */
static const float SLACK = 12.0f;

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

/* exp(x) by SLEEF, and 0 where the result would be denormal and slow to use. */
RAPTI_INLINE vf exp_flushed(vf x) {
    const vf least = vf_set1(-87.3365402f); /* ln 2^-126 */
    return vf_select(vf_lt(x, least), vf_zero(), vf_exp(x));
}

_Static_assert((int)EXP_TOGETHER % 2 == 0 && (int)EXP_TOGETHER <= 8,
               "odd keys would become even ones, or more are unrolled than asked for");

/* Which exponential: e^x by SLEEF; 2^x inline; the same where all results should be normal. */
typedef enum weight_exp { EXP_SLEEF, EXP2_INLINE, EXP2_NORMAL } weight_exp;

/* How the weights of a block are computed; all literal. */
typedef struct weighing {
    weight_exp exp;
    int shifts; /* the shift is subtracted; may be 0 where every lane's is */
    int tracks; /* the maximum is wanted */
} weighing;

/* The block's sum, its maximum (that of the keys before included), what is subtracted, and for
 * EXP2_NORMAL what was seen. */
typedef struct block_sums {
    vf even, odd, max_even, max_odd, shift;
    vr seen;
} block_sums;

RAPTI_INLINE block_sums start_sums(vf shift, vf max) {
    return (block_sums){vf_zero(), vf_zero(), max, max, shift, vr_none()};
}

/* P[k] in place of S[k] for n keys, n literal, the first of them an even one. */
RAPTI_INLINE void weigh_keys(float *s, int64_t ld, const int n, const weighing how, block_sums *w) {
    vf p[EXP_TOGETHER];
    RAPTI_UNROLL(8) for (int i = 0; i < n; i++) { p[i] = vf_load(s + i * ld); }
    if (how.tracks) {
        RAPTI_UNROLL(8) for (int i = 0; i < n; i++) {
            vf *max = i % 2 ? &w->max_odd : &w->max_even;
            *max = vf_max(*max, p[i]);
        }
    }
    if (how.shifts) {
        RAPTI_UNROLL(8) for (int i = 0; i < n; i++) { p[i] = vf_sub(p[i], w->shift); }
    }
    if (how.exp == EXP_SLEEF) {
        RAPTI_UNROLL(8) for (int i = 0; i < n; i++) { p[i] = exp_flushed(p[i]); }
    } else if (how.exp == EXP2_NORMAL) {
        vf_exp2_normal(p, &w->seen, n);
    } else {
        vm below[EXP_TOGETHER];
        vf_exp2_each(p, below, n, LEAST_NORMAL);
    }
    RAPTI_UNROLL(8) for (int i = 0; i < n; i++) {
        vf *sum = i % 2 ? &w->odd : &w->even;
        vf_store(s + i * ld, p[i]);
        *sum = vf_add(*sum, p[i]);
    }
}

/* Returns the sum so far. */
RAPTI_INLINE vf weigh_block(float *s, int64_t ld, int64_t begin, int64_t end, const weighing how,
                            block_sums *w) {
    int64_t k = begin;
    for (; k + EXP_TOGETHER <= end; k += EXP_TOGETHER) {
        weigh_keys(s + k * ld, ld, EXP_TOGETHER, how, w);
    }
    for (; k + 2 <= end; k += 2) { weigh_keys(s + k * ld, ld, 2, how, w); }
    if (k < end) { weigh_keys(s + k * ld, ld, 1, how, w); }
    return vf_add(w->even, w->odd);
}

static void clear_outside(float *s, int64_t ld, int64_t from, int64_t begin, int64_t end,
                          int64_t to) {
    for (int64_t k = from; k < begin; k++) { vf_store(s + k * ld, vf_zero()); }
    for (int64_t k = end; k < to; k++) { vf_store(s + k * ld, vf_zero()); }
}

/* The maximum where it has left the neighbourhood of the shift: above, or at the lane's first keys
 * below; else the shift. While nothing was seen the maximum is -inf and says nothing. */
RAPTI_INLINE vf next_shift(vf old_max, vf max, vf shift) {
    const vf lowest = vf_set1(-__builtin_inff()), above = vf_sub(max, shift);
    const vf near = vf_select(vf_lt(above, vf_set1(SLACK)), shift, max);
    const vf first = vf_select(vf_eq(old_max, lowest), above, vf_zero());
    const vf next = vf_select(vf_lt(first, vf_set1(-SLACK)), max, near);
    return vf_select(vf_eq(max, lowest), shift, next);
}

static int softmax_max(const float *s, int64_t ld, int64_t begin, int64_t end,
                       rapti_softmax_state state) {
    const vf old_max = vf_load(state.max), old_shift = vf_load(state.shift);
    const vf max = block_max(s, ld, begin, end, old_max);
    const vf shift = next_shift(old_max, max, old_shift);
    /* nothing was seen before: there is nothing to rescale, and the factor could overflow */
    const vf rescale = vf_select(vf_eq(old_max, vf_set1(-__builtin_inff())), vf_set1(1.0f),
                                 vf_exp2_inline(vf_sub(old_shift, shift)));
    vf_store(state.max, max);
    vf_store(state.shift, shift);
    vf_store(state.rescale, rescale);
    const vf sum = vf_load(state.sum);
    return !vm_all(vf_eq(shift, old_shift)) || !vm_all(vf_eq(sum, sum));
}

/* Weighs the block with the shift as it is: it need not be subtracted where it is 0. */
RAPTI_INLINE vf weigh_unmoved(float *s, int64_t ld, int64_t begin, int64_t end, weight_exp exp,
                              int tracks, block_sums *w) {
    if (vm_all(vf_eq(w->shift, vf_zero()))) {
        return weigh_block(s, ld, begin, end, (weighing){exp, 0, tracks}, w);
    }
    return weigh_block(s, ld, begin, end, (weighing){exp, 1, tracks}, w);
}

static void take_block(vf max, vf sum, rapti_softmax_state state) {
    vf_store(state.max, max);
    vf_store(state.sum, sum);
    vf_store(state.rescale, vf_set1(1.0f));
}

/* A sum of NaN is refused as well: the maximum may have lost sight of the NaN, and the bits of a
 * row that is NaN shall be those of the two halves. */
static int softmax_try(float *s, int64_t ld, int64_t from, int64_t begin, int64_t end, int64_t to,
                       rapti_softmax_state state) {
    const vf old_max = vf_load(state.max), shift = vf_load(state.shift);
    block_sums w = start_sums(shift, old_max);
    const vf block = weigh_unmoved(s, ld, begin, end, EXP2_INLINE, 1, &w);
    const vf max = vf_max(w.max_even, w.max_odd), sum = vf_add(vf_load(state.sum), block);
    if (!vm_all(vf_eq(next_shift(old_max, max, shift), shift)) || !vm_all(vf_eq(sum, sum))) {
        return 0;
    }
    take_block(max, sum, state);
    clear_outside(s, ld, from, begin, end, to);
    return 1;
}

_Static_assert(sizeof(vr) <= sizeof(((rapti_near_sums *)0)->seen), "what is seen has no room");

static void softmax_near(float *s, int64_t ld, int64_t keys, rapti_softmax_state state,
                         rapti_near_sums *sums) {
    const vf shift = vf_load(state.shift);
    block_sums w = start_sums(shift, shift);
    if (sums->keys > 0) {
        w.even = vf_load(sums->even);
        w.odd = vf_load(sums->odd);
        memcpy(&w.seen, sums->seen, sizeof w.seen);
    }
    (void)weigh_unmoved(s, ld, 0, keys, EXP2_NORMAL, 0, &w);
    vf_store(sums->even, w.even);
    vf_store(sums->odd, w.odd);
    memcpy(sums->seen, &w.seen, sizeof w.seen);
    sums->keys += keys;
}

/* The block's sum tells enough of its maximum: no weight is above it, and one is not below an nth
 * of it. (Only a lane's first keys can be too low, and their sum is that of all.) The two bounds
 * stay away from 2^12 and 2^-12 by more than rounding. What is kept as the maximum will only be
 * asked whether it is -inf, and the next one whether it is too high. */
static int softmax_end_near(const rapti_near_sums *sums, rapti_softmax_state state) {
    const vf most = vf_set1(4000.0f), least = vf_set1(2.5e-4f * (float)sums->keys);
    const vf block = vf_add(vf_load(sums->even), vf_load(sums->odd));
    const vf sum = vf_add(vf_load(state.sum), block);
    vr seen;
    memcpy(&seen, sums->seen, sizeof seen);
    if (!vr_normal(seen) || !vm_all(vf_lt(block, most)) || !vm_all(vf_lt(least, sum))) { return 0; }
    take_block(vf_max(vf_load(state.max), vf_load(state.shift)), sum, state);
    return 1;
}

RAPTI_INLINE void exp_step(float *s, int64_t ld, int64_t from, int64_t begin, int64_t end,
                           int64_t to, rapti_softmax_state state, weight_exp exp) {
    const vf shift = vf_load(state.shift);
    block_sums w = start_sums(shift, shift);
    const vf sum = weigh_block(s, ld, begin, end, (weighing){exp, 1, 0}, &w);
    vf_store(state.sum, vf_fma(vf_load(state.sum), vf_load(state.rescale), sum));
    clear_outside(s, ld, from, begin, end, to);
}

static void softmax_exp(float *s, int64_t ld, int64_t from, int64_t begin, int64_t end, int64_t to,
                        rapti_softmax_state state) {
    exp_step(s, ld, from, begin, end, to, state, EXP2_INLINE);
}

static void softmax_exp_any(float *s, int64_t ld, int64_t from, int64_t begin, int64_t end,
                            int64_t to, rapti_softmax_state state) {
    exp_step(s, ld, from, begin, end, to, state, EXP_SLEEF);
}
