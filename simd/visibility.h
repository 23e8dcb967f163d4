/* SPDX-License-Identifier: MIT
 * visibility.h: what hides a score or is added to it: limits of causal order, windows and lengths;
 * boolean masks; additive biases. Each is a pass of its own over one lane vector of a score tile
 * that lies in L1, run only when asked for. Hidden scores are replaced by -inf, never added to, so
 * that a NaN in a hidden key is gone. */
#ifndef RAPTI_VISIBILITY_H
#define RAPTI_VISIBILITY_H

#include "common.h"
#include "kernels.h"
#include "square.h"

static void hide_outside(float *s, int64_t ld, int64_t from, int64_t to, const int32_t *begin,
                         const int32_t *end) {
    const vf hidden = vf_set1(-__builtin_inff());
    const vi first = vi_load(begin), past = vi_load(end);
    for (int64_t k = from; k < to; k++) {
        const vm out =
            vm_or(vi_gt(first, vi_set1((int32_t)k)), vi_gt(vi_set1((int32_t)k + 1), past));
        vf_store(s + k * ld, vf_select(out, hidden, vf_load(s + k * ld)));
    }
}

/* What a term is: 0 or -inf of a mask; a bias, with -FLT_MAX of masks, too, above -inf in the
 * scores; a bias that is added as it is. All literal. */
typedef enum term_kind { TERM_MASK, TERM_BIAS, TERM_PLAIN } term_kind;

RAPTI_INLINE void add_term(vf term, vf factor, const term_kind kind, float *s) {
    const vf hidden = vf_set1(-__builtin_inff()), score = vf_load(s);
    vf sum = score;
    if (kind == TERM_PLAIN) { sum = vf_fma(term, factor, score); }
    if (kind == TERM_BIAS) {
        sum = vf_fma(vf_max(vf_set1(-RAPTI_LARGEST_SCORE), term), factor, score);
    }
    vf_store(s, kind == TERM_PLAIN ? sum : vf_select(vf_eq(term, hidden), hidden, sum));
}

/* terms[k]: what is added to key k of the tile, keys <= VEC_LANES */
RAPTI_INLINE void add_terms(const vf terms[VEC_LANES], vf factor, const term_kind kind, float *s,
                            int64_t ld, int64_t keys) {
    if (keys == VEC_LANES) { /* literal bounds keep the terms in registers */
        RAPTI_UNROLL(16) for (int k = 0; k < VEC_LANES; k++) {
            add_term(terms[k], factor, kind, s);
            s += ld; /* 16 products with ld are more than there are registers */
        }
    } else {
        for (int64_t k = 0; k < keys; k++) { add_term(terms[k], factor, kind, s + k * ld); }
    }
}

/* terms[j] lane i = -inf where rows[i][(from + j) * stride] is 0, else 0, for j < n <= VEC_LANES */
RAPTI_INLINE void load_mask(const uint8_t *const *rows, int64_t stride, int64_t from, int64_t n,
                            vf terms[VEC_LANES]) {
    if (stride == 0) { /* one byte per row: already in the order of the lanes */
        uint8_t column[VEC_LANES];
        for (int i = 0; i < VEC_LANES; i++) { column[i] = rows[i][0]; }
        for (int j = 0; j < VEC_LANES; j++) { terms[j] = vf_hidden_where_false(column); }
        return;
    }
    if (stride == 1 && n == VEC_LANES) {
        RAPTI_UNROLL(16) for (int i = 0; i < VEC_LANES; i++) {
            terms[i] = vf_hidden_where_false(rows[i] + from);
        }
    } else {
        for (int i = 0; i < VEC_LANES; i++) {
            uint8_t row[VEC_LANES] = {0};
            for (int64_t j = 0; j < n; j++) { row[j] = rows[i][(from + j) * stride]; }
            terms[i] = vf_hidden_where_false(row);
        }
    }
    vf_transpose(terms);
}

static void apply_mask(const uint8_t *const *rows, int64_t stride, int64_t from, int64_t to,
                       float *s, int64_t ld) {
    for (int64_t k = from; k < to; k += VEC_LANES) {
        const int64_t keys = to - k < VEC_LANES ? to - k : VEC_LANES;
        vf terms[VEC_LANES];
        load_mask(rows, stride, k, keys, terms);
        add_terms(terms, vf_zero(), TERM_MASK, s + k * ld, ld, keys);
    }
}

RAPTI_INLINE void add_biases(const float *const *rows, int64_t stride, int64_t from, int64_t to,
                             float factor, const term_kind kind, float *s, int64_t ld) {
    const vf f = vf_set1(factor);
    int64_t k = from;
    for (; stride == 1 && k + VEC_LANES <= to; k += VEC_LANES) {
        vf terms[VEC_LANES];
        vf_load_square(rows, k, terms);
        add_terms(terms, f, kind, s + k * ld, ld, VEC_LANES);
    }
    for (; k < to; k += VEC_LANES) {
        const int64_t keys = to - k < VEC_LANES ? to - k : VEC_LANES;
        vf terms[VEC_LANES];
        load_columns(rows, stride, k, keys, terms);
        add_terms(terms, f, kind, s + k * ld, ld, keys);
    }
}

static void apply_bias(const float *const *rows, int64_t stride, int64_t from, int64_t to,
                       float factor, float *s, int64_t ld) {
    add_biases(rows, stride, from, to, factor, TERM_BIAS, s, ld);
}

static void add_bias(const float *const *rows, int64_t stride, int64_t from, int64_t to,
                     float factor, float *s, int64_t ld) {
    add_biases(rows, stride, from, to, factor, TERM_PLAIN, s, ld);
}

#endif
