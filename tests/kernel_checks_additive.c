/* SPDX-License-Identifier: MIT
 * kernel_checks_additive.c: additive scores, S[i][j] = sum_u v[u] tanh(Q[i,u] + K[u][j]), against
 * double precision over all edges of vectors, and bit by bit against tiles of other sizes; and
 * their gradients. */
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

/* ---- Gradients ---- */

/* Three sums of products in double precision, over what the sums held before. Terms: t and 1 - t^2
 * are wrong by the rounding of the argument (slopes of at most 1) and 4 u of their own. */
typedef struct gradient_sum {
    double value, bound;
    int64_t terms;
} gradient_sum;

static void add_term(gradient_sum *s, double ds, double factor, double argument) {
    s->value += ds * factor;
    s->bound += fabs(ds) * (fabs(argument) + 6);
    s->terms++;
}

static void compare_sum(tally *t, const gradient_sum *s, double got, const char *what, int64_t a,
                        int64_t b) {
    const double roundings = 2.0 * (double)s->terms + 8.0;
    if (fabs(got - s->value) <= 1.01 * UNIT_ROUNDOFF * (s->bound * roundings + 8.0)) { return; }
    tally_fail(t, "%s[%lld][%lld]: %.9g, want %.9g", what, (long long)a, (long long)b, got,
               s->value);
}

static void fill_plane(plane *p, rng *r) {
    for (int64_t n = 0; n < p->rows * p->width; n++) {
        p->at[n / p->width * p->ld + n % p->width] = (float)rng_normal(r);
    }
}

static void run_gradients(tally *t, int64_t queries, int64_t keys, int64_t units) {
    const int64_t lanes = t->k->lanes, gap = keys % 3;
    rng r = rng_make(72, (uint64_t)(keys * 100 + units));
    plane q = plane_take(queries, units, units + gap), k = plane_take(units, keys, keys + gap);
    plane ds = plane_take(queries, keys, keys + gap), f = plane_take(units, keys, keys + gap);
    plane e = plane_take(queries * units, lanes, lanes), g = plane_take(units, lanes, lanes);
    plane *const all[] = {&q, &k, &ds, &f};
    for (int n = 0; n < 4; n++) { fill_plane(all[n], &r); }
    for (int64_t n = 0; n < queries * units * lanes; n++) { e.at[n] = n % lanes ? 0.0f : 1.0f; }
    for (int64_t n = 0; n < units * lanes; n++) { g.at[n] = n % lanes ? 0.0f : 1.0f; }
    gradient_sum of_key[MAX_UNITS][MAX_KEYS], of_query[MAX_QUERIES][MAX_UNITS], of_unit[MAX_UNITS];
    for (int64_t u = 0; u < units; u++) {
        of_unit[u] = (gradient_sum){.value = 1};
        for (int64_t i = 0; i < queries; i++) { of_query[i][u] = (gradient_sum){.value = 1}; }
        for (int64_t j = 0; j < keys; j++) {
            of_key[u][j] = (gradient_sum){.value = (double)f.at[u * f.ld + j]};
            for (int64_t i = 0; i < queries; i++) {
                const double x = (double)q.at[i * q.ld + u] + (double)k.at[u * k.ld + j];
                const double d = (double)ds.at[i * ds.ld + j], y = tanh(x);
                add_term(&of_key[u][j], d, 1 - y * y, x);
                add_term(&of_query[i][u], d, 1 - y * y, x);
                add_term(&of_unit[u], d, y, x);
            }
        }
    }
    plane_seal(&f);
    t->k->additive_gradients(&(rapti_additive_gradient){
        q.at, q.ld, k.at, k.ld, units, queries, keys, ds.at, ds.ld, e.at, f.at, f.ld, g.at});
    for (int64_t u = 0; u < units; u++) {
        double sum = 0;
        for (int64_t i = 0; i < lanes; i++) { sum += (double)g.at[u * lanes + i]; }
        compare_sum(t, &of_unit[u], sum, "g", u, 0);
        for (int64_t j = 0; j < keys; j++) {
            compare_sum(t, &of_key[u][j], (double)f.at[u * f.ld + j], "f", u, j);
        }
        for (int64_t i = 0; i < queries; i++) {
            sum = 0;
            for (int64_t n = 0; n < lanes; n++) {
                sum += (double)e.at[(i * units + u) * lanes + n];
            }
            compare_sum(t, &of_query[i][u], sum, "e", i, u);
        }
    }
    if (!plane_kept(&f, 0, units)) { tally_fail(t, "%lld keys: written outside", (long long)keys); }
    plane *const planes[] = {&q, &k, &ds, &f, &e, &g};
    for (int n = 0; n < 6; n++) { plane_return(planes[n]); }
}

int check_additive_gradients(const rapti_kernels *k, FILE *log) {
    tally t = {k, "additive_gradients", log, 0};
    for (int64_t keys = 0; keys <= 3 * k->lanes + 2; keys++) {
        run_gradients(&t, 1 + keys % MAX_QUERIES, keys, keys % 5);
    }
    run_gradients(&t, MAX_QUERIES, 2 * k->lanes + 1, 20);
    return t.failures;
}
