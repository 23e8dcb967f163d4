/* SPDX-License-Identifier: MIT
 * kernel_checks_dropout.c: drop_lanes against the published description of Philox 4x32-10, word by
 * word; apply_keep against the pattern's bytes; scatter_lanes against one product each. */
#include "kernel_checks.h"

#include "kernel_tools.h"

#include <math.h>
#include <string.h>

/* A tile with a copy of what it held. */
typedef struct pair {
    plane s, before;
} pair;

static pair take_pair(int64_t keys, int64_t lanes, int64_t ld) {
    rng r = rng_make(51, (uint64_t)(keys * 100 + ld));
    pair x = {plane_take(keys, lanes, ld), plane_take(keys, lanes, ld)};
    for (int64_t n = 0; n < keys * lanes; n++) {
        x.s.at[n / lanes * ld + n % lanes] = random_float(&r, 6);
    }
    memcpy(x.before.block.data, x.s.block.data, x.s.block.bytes);
    plane_seal(&x.s);
    return x;
}

static void return_pair(pair *x) {
    plane_return(&x->s);
    plane_return(&x->before);
}

/* The weight as it was if kept, else 0, at [key][lane]. */
static void compare_kept(tally *t, const pair *x, int64_t key, int64_t lane, int kept) {
    const int64_t at = key * x->s.ld + lane;
    const float want = kept ? x->before.at[at] : 0.0f;
    if (bits_of(x->s.at[at]) == bits_of(want)) { return; }
    tally_fail(t, "P[%lld][%lld] = %.9g, want %.9g", (long long)key, (long long)lane,
               (double)x->s.at[at], (double)want);
}

/* ---- drop_lanes ---- */

/* Salmon, Moraes, Dror, Shaw 2011, section 4.3: one word of ten rounds. */
static uint32_t philox_word(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, const uint32_t *key,
                            int64_t word) {
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53 * c0, b = (uint64_t)0xCD9E8D57 * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    return (uint32_t[]){c0, c1, c2, c3}[word];
}

static void run_drop(tally *t, int64_t first_key, int64_t from, int64_t to, int32_t threshold) {
    const int64_t lanes = t->k->lanes;
    rng r = rng_make(52, (uint64_t)(first_key + 97 * from + to));
    pair x = take_pair(to + 1, lanes, lanes + to % 3);
    const rapti_dropout d = {
        {(uint32_t)rng_next(&r), (uint32_t)rng_next(&r)}, (uint32_t)rng_next(&r), threshold};
    span query = span_take(lanes, 1, sizeof(int32_t), GUARD_AFTER);
    span item = span_take(lanes, 1, sizeof(int32_t), GUARD_AFTER);
    int32_t *queries = query.first, *items = item.first;
    for (int64_t i = 0; i < lanes; i++) {
        queries[i] = i % 3 ? (int32_t)i : (int32_t)(uint32_t)rng_next(&r);
        items[i] = i % 4 ? 7 : (int32_t)(uint32_t)rng_next(&r);
    }
    t->k->drop_lanes(&d, queries, items, first_key, from, to, x.s.at, x.s.ld);
    for (int64_t key = from; key < to; key++) {
        const int64_t j = first_key + key;
        for (int64_t i = 0; i < lanes; i++) {
            const uint32_t word = philox_word((uint32_t)(j / 4), (uint32_t)queries[i],
                                              (uint32_t)items[i], d.offset, d.key, j % 4);
            int32_t number;
            memcpy(&number, &word, sizeof number);
            compare_kept(t, &x, key, i, number < threshold);
        }
    }
    if (!plane_kept(&x.s, from, to)) { tally_fail(t, "written outside"); }
    span_return(&query);
    span_return(&item);
    return_pair(&x);
}

int check_drop_lanes(const rapti_kernels *k, FILE *log) {
    static const int64_t first_keys[] = {0, 128, 7, 6, 1, (INT64_C(1) << 34) - 32};
    static const int32_t thresholds[] = {0, INT32_MIN, INT32_MAX, 1717986918, -1717986918};
    tally t = {k, "drop_lanes", log, 0};
    for (int64_t from = 0; from <= 9; from++) {
        for (int64_t to = from; to <= 22; to++) {
            for (int n = 0; n < 6; n++) {
                run_drop(&t, first_keys[n], from, to, thresholds[(from + to + n) % 5]);
            }
        }
    }
    return t.failures;
}

/* ---- apply_keep ---- */

static void run_keep(tally *t, int64_t from, int64_t to, int64_t stride, guard_side side) {
    static const uint8_t bytes[] = {0, 1, 0, 2, 255, 0, 128};
    const int64_t lanes = t->k->lanes, count = to - from;
    rng r = rng_make(53, (uint64_t)(from * 64 + to));
    pair x = take_pair(to + 1, lanes, lanes * (1 + to % 2));
    span rows[RAPTI_MAX_LANES];
    const uint8_t *pointers[RAPTI_MAX_LANES];
    for (int64_t i = 0; i < lanes; i++) {
        rows[i] = span_take(count, stride, 1, side);
        uint8_t *first = rows[i].first;
        for (int64_t n = 0; n < count; n++) { first[n * stride] = bytes[rng_range(&r, 0, 6)]; }
        pointers[i] = first - from * stride;
    }
    t->k->apply_keep(pointers, stride, from, to, x.s.at, x.s.ld);
    for (int64_t key = from; key < to; key++) {
        for (int64_t i = 0; i < lanes; i++) {
            compare_kept(t, &x, key, i, pointers[i][key * stride] != 0);
        }
    }
    if (!plane_kept(&x.s, from, to)) { tally_fail(t, "written outside"); }
    for (int64_t i = 0; i < lanes; i++) { span_return(&rows[i]); }
    return_pair(&x);
}

int check_apply_keep(const rapti_kernels *k, FILE *log) {
    static const int64_t strides[] = {1, 2, 0, -1};
    tally t = {k, "apply_keep", log, 0};
    for (int64_t from = 0; from <= 5; from++) {
        for (int64_t to = from; to <= 37; to++) {
            for (int n = 0; n < 8; n++) {
                run_keep(&t, from, to, strides[n / 2], n % 2 ? GUARD_BEFORE : GUARD_AFTER);
            }
        }
    }
    return t.failures;
}

/* ---- scatter_lanes: one rounded product per element ---- */

static void compare_scattered(tally *t, const pair *x, int64_t key, int64_t lane, float factor,
                              const float *got) {
    const float want = x->before.at[key * x->s.ld + lane] * factor;
    if (same_float(*got, want)) { return; }
    tally_fail(t, "row %lld key %lld: %.9g, want %.9g", (long long)lane, (long long)key,
               (double)*got, (double)want);
}

static void run_scatter(tally *t, int64_t from, int64_t to, int64_t count, int64_t stride) {
    const int64_t lanes = t->k->lanes;
    rng r = rng_make(54, (uint64_t)(from * 64 + to));
    pair x = take_pair(to, lanes, 2 * lanes);
    float factor[RAPTI_MAX_LANES];
    span rows[RAPTI_MAX_LANES];
    float *pointers[RAPTI_MAX_LANES] = {0}; /* null where nothing may be written */
    for (int64_t i = 0; i < lanes; i++) { factor[i] = random_float(&r, 9); }
    for (int64_t i = 0; i < count; i++) {
        rows[i] = span_take(to - from, stride, sizeof(float), GUARD_AFTER);
        pointers[i] = (float *)rows[i].first - from * stride;
        guard_seal(&rows[i].block);
    }
    t->k->scatter_lanes(x.s.at, x.s.ld, from, to, count, factor, pointers, stride);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t key = from; key < to; key++) {
            const float *got = pointers[i] + key * stride;
            compare_scattered(t, &x, key, i, factor[i], got);
            guard_accept(&rows[i].block, (const uint8_t *)got, sizeof(float));
        }
        ptrdiff_t at;
        if (!guard_intact(&rows[i].block, &at)) {
            tally_fail(t, "byte %lld of row %lld changed", (long long)at, (long long)i);
        }
        span_return(&rows[i]);
    }
    return_pair(&x);
}

int check_scatter_lanes(const rapti_kernels *k, FILE *log) {
    static const int64_t strides[] = {1, 2, -1};
    tally t = {k, "scatter_lanes", log, 0};
    for (int64_t from = 0; from <= 3; from++) {
        for (int64_t to = from; to <= 37; to++) {
            for (int64_t count = 1; count <= k->lanes; count += 1 + (to + from) % 3) {
                for (int n = 0; n < 3; n++) { run_scatter(&t, from, to, count, strides[n]); }
            }
        }
    }
    return t.failures;
}
