/* SPDX-License-Identifier: MIT
 * kernel_checks_scores.c: what hides a score or is added to it: hide_outside, apply_mask and
 * apply_bias, and add_bias, on scores that are NaN or infinite in places. The one rounding is that
 * of a multiply-add, so results are compared as they are. */
#include "kernel_checks.h"

#include "kernel_tools.h"

#include <limits.h>
#include <math.h>
#include <string.h>

typedef struct score_case {
    int64_t keys, from, to, ld;
    int64_t stride; /* of mask or bias rows */
    guard_side side;
} score_case;

/* -0 and 0 are the same score: adding 0 may turn one into the other. */
static bool same_score(float got, float want) { return got == want || (isnan(got) && isnan(want)); }

/* Scores and a copy of them. */
static void take_scores(const score_case *c, int64_t lanes, plane *s, plane *before) {
    rng r = rng_make(31, (uint64_t)c->keys);
    *s = plane_take(c->keys, lanes, c->ld);
    *before = plane_take(c->keys, lanes, c->ld);
    for (int64_t n = 0; n < c->keys * lanes; n++) {
        s->at[n / lanes * c->ld + n % lanes] = random_float(&r, 6);
    }
    memcpy(before->block.data, s->block.data, s->block.bytes);
    plane_seal(s);
}

static float bias_factor(const score_case *c) { return c->from % 2 ? RAPTI_OCTAVES : 1.0f; }

/* `hidden` or the score plus the term, for each lane and key of [from, to). */
static void compare_score(tally *t, const score_case *c, const plane *s, const plane *before,
                          int64_t key, int64_t lane, bool hidden, float term) {
    const int64_t at = key * c->ld + lane;
    const float want =
        hidden ? -INFINITY
               : multiply_add(kernels_fused(t->k), term, bias_factor(c), before->at[at]);
    if (same_score(s->at[at], want)) { return; }
    tally_fail(t, "keys %lld, %lld to %lld, stride %lld: S[%lld][%lld] = %.9g, was %.9g, want %.9g",
               (long long)c->keys, (long long)c->from, (long long)c->to, (long long)c->stride,
               (long long)key, (long long)lane, (double)s->at[at], (double)before->at[at],
               (double)want);
}

static void return_scores(tally *t, const score_case *c, plane *s, plane *before) {
    if (!plane_kept(s, c->from, c->to)) {
        tally_fail(t, "keys %lld, %lld to %lld: written outside", (long long)c->keys,
                   (long long)c->from, (long long)c->to);
    }
    plane_return(s);
    plane_return(before);
}

/* Every [from, to) of tiles up to `keys` keys, with each stride (and for hide_outside none). */
static int check_ranges(tally *t, int64_t keys, const int64_t *strides, int count,
                        void (*run)(tally *t, const score_case *c)) {
    const int64_t lanes = t->k->lanes;
    for (int64_t from = 0; from <= keys; from++) {
        for (int64_t to = from; to <= keys; to++) {
            for (int n = 0; n < 2 * count; n++) {
                const int64_t ld = lanes * (1 + to % 3) + from % 2;
                run(t, &(score_case){keys, from, to, ld, strides[n / 2],
                                     n % 2 ? GUARD_BEFORE : GUARD_AFTER});
            }
        }
    }
    return t->failures;
}

/* ---- hide_outside ---- */

static void run_hide(tally *t, const score_case *c) {
    static const int32_t odd[] = {INT32_MIN, -1, 0, INT32_MAX};
    const int64_t lanes = t->k->lanes;
    plane s, before;
    take_scores(c, lanes, &s, &before);
    span begin = span_take(lanes, 1, sizeof(int32_t), c->side);
    span end = span_take(lanes, 1, sizeof(int32_t), c->side);
    int32_t *first = begin.first, *past = end.first;
    rng r = rng_make(32, (uint64_t)(c->from * 64 + c->to));
    for (int64_t i = 0; i < lanes; i++) {
        first[i] = (int32_t)rng_range(&r, c->from - 2, c->to + 2);
        past[i] = (int32_t)rng_range(&r, c->from - 2, c->to + 2);
        if (rng_chance(&r, 10)) { first[i] = odd[rng_range(&r, 0, 3)]; }
        if (rng_chance(&r, 10)) { past[i] = odd[rng_range(&r, 0, 3)]; }
    }
    t->k->hide_outside(s.at, c->ld, c->from, c->to, first, past);
    for (int64_t key = c->from; key < c->to; key++) {
        for (int64_t i = 0; i < lanes; i++) {
            compare_score(t, c, &s, &before, key, i, key < first[i] || key >= past[i], 0.0f);
        }
    }
    span_return(&begin);
    span_return(&end);
    return_scores(t, c, &s, &before);
}

int check_hide_outside(const rapti_kernels *k, FILE *log) {
    static const int64_t none = 0;
    return check_ranges(&(tally){k, "hide_outside", log, 0}, 40, &none, 1, run_hide);
}

/* ---- apply_mask and apply_bias: a row of terms per lane, just the elements of [from, to) ---- */

static void run_mask(tally *t, const score_case *c) {
    static const uint8_t bytes[] = {0, 1, 0, 2, 255, 0, 128};
    const int64_t lanes = t->k->lanes, count = c->to - c->from;
    rng r = rng_make(33, (uint64_t)(c->from * 64 + c->to));
    plane s, before;
    take_scores(c, lanes, &s, &before);
    span rows[RAPTI_MAX_LANES];
    const uint8_t *pointers[RAPTI_MAX_LANES];
    for (int64_t i = 0; i < lanes; i++) {
        rows[i] = span_take(count, c->stride, 1, c->side);
        uint8_t *first = rows[i].first;
        for (int64_t n = 0; n < count; n++) { first[n * c->stride] = bytes[rng_range(&r, 0, 6)]; }
        pointers[i] = first - c->from * c->stride;
    }
    t->k->apply_mask(pointers, c->stride, c->from, c->to, s.at, c->ld);
    for (int64_t key = c->from; key < c->to; key++) {
        for (int64_t i = 0; i < lanes; i++) {
            compare_score(t, c, &s, &before, key, i, pointers[i][key * c->stride] == 0, 0.0f);
        }
    }
    for (int64_t i = 0; i < lanes; i++) { span_return(&rows[i]); }
    return_scores(t, c, &s, &before);
}

/* add_bias or apply_bias. */
static void run_bias(tally *t, const score_case *c, bool adds) {
    static const float terms[] = {-INFINITY, INFINITY, NAN, -0.0f, 0x1p-149f, -3e38f};
    const int64_t lanes = t->k->lanes, count = c->to - c->from;
    rng r = rng_make(34, (uint64_t)(c->from * 64 + c->to));
    plane s, before;
    take_scores(c, lanes, &s, &before);
    span rows[RAPTI_MAX_LANES];
    const float *pointers[RAPTI_MAX_LANES];
    for (int64_t i = 0; i < lanes; i++) {
        rows[i] = span_take(count, c->stride, sizeof(float), c->side);
        float *first = rows[i].first;
        for (int64_t n = 0; n < count; n++) {
            const int64_t kind = rng_range(&r, 0, 11);
            first[n * c->stride] = kind < 6 ? terms[kind] : random_float(&r, 0);
        }
        pointers[i] = first - c->from * c->stride;
    }
    (adds ? t->k->add_bias : t->k->apply_bias)(pointers, c->stride, c->from, c->to, bias_factor(c),
                                               s.at, c->ld);
    for (int64_t key = c->from; key < c->to; key++) {
        for (int64_t i = 0; i < lanes; i++) {
            const float term = pointers[i][key * c->stride];
            const bool low = !adds && term < -RAPTI_LARGEST_SCORE;
            compare_score(t, c, &s, &before, key, i, !adds && term == -INFINITY,
                          low ? -RAPTI_LARGEST_SCORE : term);
        }
    }
    for (int64_t i = 0; i < lanes; i++) { span_return(&rows[i]); }
    return_scores(t, c, &s, &before);
}

static const int64_t term_strides[] = {1, 2, 0, -1, 3, -2};

int check_apply_mask(const rapti_kernels *k, FILE *log) {
    return check_ranges(&(tally){k, "apply_mask", log, 0}, 37, term_strides, 6, run_mask);
}

static void run_apply_bias(tally *t, const score_case *c) { run_bias(t, c, false); }
static void run_add_bias(tally *t, const score_case *c) { run_bias(t, c, true); }

int check_apply_bias(const rapti_kernels *k, FILE *log) {
    return check_ranges(&(tally){k, "apply_bias", log, 0}, 37, term_strides, 6, run_apply_bias);
}

int check_add_bias(const rapti_kernels *k, FILE *log) {
    return check_ranges(&(tally){k, "add_bias", log, 0}, 37, term_strides, 6, run_add_bias);
}
