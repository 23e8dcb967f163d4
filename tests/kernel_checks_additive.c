/* SPDX-License-Identifier: MIT
 * kernel_checks_additive.c: additive scores, S[i][j] = sum_u v[u] tanh(Q[i,u] + K[u][j]), against
 * double precision over all edges of vectors, and bit by bit against tiles of other sizes. */
#include "kernel_checks.h"

#include "kernel_tools.h"

#include <math.h>

enum { MAX_QUERIES = 6, MAX_KEYS = 5 * RAPTI_MAX_LANES + 3, MAX_UNITS = 70 };

typedef struct inputs {
    float q[MAX_QUERIES][MAX_UNITS], k[MAX_UNITS][MAX_KEYS], v[MAX_UNITS];
} inputs;

/* Some sums vanish, some saturate; query 2 holds NaN, key 3 an infinity. */
static void fill(inputs *x) {
    rng r = rng_make(71, 0);
    for (int u = 0; u < MAX_UNITS; u++) {
        x->v[u] = (float)rng_normal(&r);
        for (int i = 0; i < MAX_QUERIES; i++) {
            x->q[i][u] = (float)rng_normal(&r) * (i == 1 ? 1e-20f : i == 4 ? 40.0f : 1.0f);
        }
        for (int j = 0; j < MAX_KEYS; j++) {
            x->k[u][j] = (float)rng_normal(&r) * (j == 2 ? 1e-20f : 1.0f);
        }
        x->k[u][3] = u % 3 ? x->k[u][3] : INFINITY;
    }
    x->q[2][0] = NAN;
}

/* The argument is rounded (tanh grows no error; its derivative is at most 1 - tanh^2 nearby, for
 * which 1 will do), tanh is within 1 ulp = 2u, then units + 1 roundings of each term. */
static void check_score(tally *t, const inputs *x, int64_t i, int64_t j, int64_t units, float got) {
    double want = 0.0, bound = 0.0;
    for (int64_t u = 0; u < units; u++) {
        const double sum = (double)x->q[i][u] + (double)x->k[u][j];
        const double slope = 1.0 - pow(tanh(fabs(sum) * (1.0 - 0x1p-20)), 2.0);
        const double term = (double)x->v[u] * tanh(sum);
        want += term;
        bound += fabs((double)x->v[u]) * (isinf(sum) ? 0.0 : fabs(sum) * slope) +
                 (double)(units + 3) * fabs(term);
    }
    if (isnan(want) ? isnan(got)
                    : fabs((double)got - want) <= 1.01 * UNIT_ROUNDOFF * bound + 0x1p-140) {
        return;
    }
    tally_fail(t, "%lld units, [%lld][%lld]: %.9g, want %.9g +- %g", (long long)units, (long long)i,
               (long long)j, (double)got, want, UNIT_ROUNDOFF * bound);
}

static void check_tile(tally *t, const inputs *x, int64_t queries, int64_t keys, int64_t units,
                       int64_t gap, float all[MAX_QUERIES][MAX_KEYS]) {
    plane q = plane_take(queries, units, units + gap), k = plane_take(units, keys, keys + gap);
    plane v = plane_take(1, units, units), s = plane_take(queries, keys, keys + gap);
    for (int64_t u = 0; u < units; u++) {
        v.at[u] = x->v[u];
        for (int64_t i = 0; i < queries; i++) { q.at[i * q.ld + u] = x->q[i][u]; }
        for (int64_t j = 0; j < keys; j++) { k.at[u * k.ld + j] = x->k[u][j]; }
    }
    plane_seal(&s);
    t->k->additive_scores(
        &(rapti_additive){q.at, q.ld, k.at, k.ld, v.at, units, queries, keys, s.at, s.ld});
    if (!plane_kept(&s, 0, queries)) {
        tally_fail(t, "%lld x %lld: written outside", (long long)queries, (long long)keys);
    }
    for (int64_t i = 0; i < queries; i++) {
        for (int64_t j = 0; j < keys; j++) {
            const float got = s.at[i * s.ld + j];
            if (keys == MAX_KEYS) { all[i][j] = got; }
            check_score(t, x, i, j, units, got);
            if (!same_float(got, all[i][j])) {
                tally_fail(t, "%lld x %lld, [%lld][%lld]: other bits", (long long)queries,
                           (long long)keys, (long long)i, (long long)j);
            }
        }
    }
    plane_return(&q);
    plane_return(&k);
    plane_return(&v);
    plane_return(&s);
}

int check_additive_scores(const rapti_kernels *k, FILE *log) {
    static inputs x;
    static float all[MAX_QUERIES][MAX_KEYS];
    tally t = {k, "additive_scores", log, 0};
    fill(&x);
    for (int64_t units = 0; units <= MAX_UNITS; units += 1 + units * units) {
        check_tile(&t, &x, MAX_QUERIES, MAX_KEYS, units, 0, all);
        for (int64_t keys = 0; keys < MAX_KEYS; keys++) {
            check_tile(&t, &x, keys % (MAX_QUERIES + 1), keys, units, keys % 3, all);
        }
    }
    check_tile(&t, &x, MAX_QUERIES, MAX_KEYS, MAX_UNITS, 1, all);
    return t.failures;
}
