/* SPDX-License-Identifier: MIT
 * oracle_row.c: softmax of one row.
 *
 * Bounds, with u = 2^-24 and n visible keys; sums may run in any order.
 *
 *   exponent  w = exp(s - c), where c is within r of m: 0 (r = 0: nothing is rounded) while scores
 *             are within 12 ln 2 of 0, else within that of m. The subtraction adds u |s - c|, in
 *             one step or, where c moves, in several that add up to the same; exp adds 1 ulp = 2u
 *             at most:
 *             w' = w exp(e), |e| <= ds + u (|s - m| + r) + 2u
 *   rescale   each time c moves, sums are multiplied by a factor that is an exp (2u) and rounded
 *             (u). It moves at most once per block of keys with a visible key.
 *   sum       of n terms: n u sum|terms|; the division by it adds 2u:
 *             k = n + RESCALE_ROUNDINGS * moves + SUM_EXTRA roundings
 *   lse       ln(1 + sum_j p_j (exp(e_j) - 1)), and never more than max_j e_j;
 *             + k u + LSE_ROUNDINGS u (|m| + |ln l| + 2 r)
 *             (for e < 1, exp(e) - 1 < e (1 + e) serves)
 *   weight    p' = p exp(e_j) / (1 + d), |d| <= sum_j p_j (exp(e_j) - 1), and never further than
 *             exp(e_j + max e) times p; + k u p; one below 2^-114 may be 0
 * Products of two of these errors are covered by ORACLE_SECOND_ORDER. */
#include "oracle_row.h"

#include "oracle.h"
#include "oracle_dropout.h"

#include <math.h>
#include <stdlib.h>

enum { RESCALE_ROUNDINGS = 3, SUM_EXTRA = 3, LSE_ROUNDINGS = 4, DROPOUT_ROUNDINGS = 2 };
static const double STEADY = 8.2, REACH = 8.32; /* r is 0 while scores stay within the first */
enum { LEAST_KEY_BLOCK = 7 };                   /* no instruction set's key block is smaller */

static void reserve(oracle_row *r, int64_t keys) {
    if (keys <= r->capacity && r->key) return;
    r->capacity = keys;
    free(r->key);
    r->key = malloc(((size_t)keys + 1) * sizeof *r->key);
    double **const arrays[] = {&r->score, &r->error, &r->p, &r->slip, &r->kept};
    for (size_t n = 0; n < sizeof arrays / sizeof *arrays; n++) oracle_grow(arrays[n], keys);
    if (!r->key) abort();
}

void oracle_row_free(oracle_row *r) {
    double *const arrays[] = {r->score, r->error, r->p, r->slip, r->kept};
    for (size_t n = 0; n < sizeof arrays / sizeof *arrays; n++) free(arrays[n]);
    free(r->key);
    *r = (oracle_row){0};
}

static void find_keys(oracle_row *r, const oracle_source *s) {
    const bool drops = oracle_drops(s->what);
    r->n = r->within = 0;
    r->m = -INFINITY;
    r->reach = 0.0;
    r->drop_k = drops ? DROPOUT_ROUNDINGS : 0;
    for (int64_t j = 0; j < s->ops->k->size[2]; j++) {
        r->within += oracle_within(s->what, s->ops, r->b, r->i, j);
        if (!oracle_visible(s->what, s->ops, r->b, r->h, r->i, j)) continue;
        const double score = oracle_score(s, r->b, r->h, r->i, j, &r->error[r->n]);
        r->key[r->n] = j;
        r->score[r->n] = score;
        r->kept[r->n] =
            !drops ? 1.0
                   : oracle_kept(s->what, s->ops->keep, s->ops->q->size[1], r->b, r->h, r->i, j);
        r->n++;
        if (score > r->m) r->m = score;
        if (fabs(score) > STEADY) r->reach = REACH;
    }
}

static void find_weights(oracle_row *r, int64_t keys) {
    const double shift = r->m == -INFINITY ? 0.0 : r->m;
    r->l = r->spread = r->widest = 0.0;
    for (int64_t n = 0; n < r->n; n++) r->l += r->p[n] = exp(r->score[n] - shift);
    for (int64_t n = 0; n < r->n; n++) {
        const double x = r->score[n] - shift;
        const double e = r->error[n] + ORACLE_U * (fabs(x) + r->reach) + 2 * ORACLE_U;
        r->slip[n] = 0.0;
        if (r->l == 0.0) continue; /* scores of -inf only: weights of exactly 0 */
        r->p[n] /= r->l;
        if (r->score[n] == -INFINITY) continue;
        r->slip[n] = e < 1.0 ? r->p[n] * e * (1.0 + e) : (exp(x + e) - exp(x)) / r->l;
        r->spread += r->slip[n];
        r->widest = fmax(r->widest, e);
    }
    const double blocks = (double)(keys / LEAST_KEY_BLOCK + 1);
    r->k = (double)r->n + RESCALE_ROUNDINGS * fmin((double)r->n, blocks) + SUM_EXTRA;
}

void oracle_row_find(oracle_row *r, const oracle_source *s, int64_t index) {
    const int64_t heads = s->ops->q->size[1], queries = s->ops->q->size[2];
    reserve(r, s->ops->k->size[2]);
    r->b = index / (heads * queries);
    r->h = index / queries % heads;
    r->i = index % queries;
    r->kv_head = s->ops->k->size[1] > 0 ? oracle_kv_head(s->ops, r->h) : 0;
    find_keys(r, s);
    find_weights(r, s->ops->k->size[2]);
}

double oracle_row_lse(const oracle_row *r, double *tol) {
    *tol = 0.0;
    if (r->l == 0.0) return -INFINITY;
    const double ln_l = log(r->l), drift = fmin(log1p(r->spread), r->widest);
    *tol = ORACLE_SECOND_ORDER *
           (drift + r->k * ORACLE_U +
            LSE_ROUNDINGS * ORACLE_U * (fabs(r->m) + fabs(ln_l) + 2.0 * r->reach));
    return r->m + ln_l;
}

double oracle_row_weight(const oracle_row *r, int64_t n, double *tol) {
    const double p = r->p[n];
    *tol = 0.0;
    if (r->score[n] == -INFINITY) return 0.0; /* in a row with a NaN, too */
    const double x = r->score[n] - r->m,
                 e = r->error[n] + ORACLE_U * (fabs(x) + r->reach) + 2 * ORACLE_U;
    double drift = fmin(1.0, p * expm1(fmin(e + r->widest, 700.0)));
    if (r->spread < 0.5) drift = fmin(drift, (r->slip[n] + p * r->spread) / (1.0 - r->spread));
    *tol = ORACLE_SECOND_ORDER * (drift + r->k * ORACLE_U * p) + ORACLE_TINY_WEIGHT;
    return p;
}
