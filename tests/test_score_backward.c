/* SPDX-License-Identifier: MIT
 * test_score_backward.c: gradients of scores of every kind against the formulas in double
 * precision, which central differences check in turn: any subset, layouts, heads in groups,
 * accumulation, threads; misuse; allocations that fail.
 *
 *   RAPT_TEST_CASES   number of random cases
 *   RAPT_TEST_SEED    seed of the first one; the others follow by adding 1 */
#include "compare.h"
#include "counter.h"
#include "guarded.h"
#include "harness.h"
#include "message.h"

#include <criterion/criterion.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define U 0x1p-24

static char why[512];

/* Inputs, the gradient of the scores, then a gradient for each input. */
enum { Q, K, W_QUERY, W_KEY, V, INPUTS, DSCORES = INPUTS, FIRST, TENSORS = FIRST + INPUTS };
static const char *const names[TENSORS] = {"q",
                                           "k",
                                           "w_query",
                                           "w_key",
                                           "score.v",
                                           "dscores",
                                           "gradients.dq",
                                           "gradients.dk",
                                           "gradients.dw_query",
                                           "gradients.dw_key",
                                           "gradients.dv"};

typedef struct call {
    guarded g[TENSORS];
    rapt_score_kind kind;
    int32_t accumulate, threads;
} call;

static void call_free(call *c) { guarded_free(c->g, TENSORS); }

static rapt_score score_of(const call *c) {
    return (rapt_score){c->kind, guarded_tensor(&c->g[W_QUERY]), guarded_tensor(&c->g[W_KEY]),
                        guarded_tensor(&c->g[V])};
}

static rapt_scores_gradients gradients_of(const call *c) {
    return (rapt_scores_gradients){
        guarded_tensor(&c->g[FIRST + Q]),       guarded_tensor(&c->g[FIRST + K]),
        guarded_tensor(&c->g[FIRST + W_QUERY]), guarded_tensor(&c->g[FIRST + W_KEY]),
        guarded_tensor(&c->g[FIRST + V]),       c->accumulate};
}

static rapt_status run(const call *c, rapt_context *context) {
    const rapt_score score = score_of(c);
    const rapt_scores_gradients gradients = gradients_of(c);
    return rapt_scores_backward(context, &score, &c->g[Q].t, &c->g[K].t, &c->g[DSCORES].t,
                                &gradients);
}

/* ---- Oracle: dense copies in double precision ---- */

typedef struct numbers {
    double *x[TENSORS]; /* values; of the gradients, what is wanted */
    double *tol[TENSORS], *magnitude[TENSORS], *terms[TENSORS]; /* of the gradients */
    int64_t b, hq, hkv, tq, tk, d, dk, units;
} numbers;

static double *dense(const guarded *g, bool zero) {
    double *x = calloc((size_t)(g->t.rank ? guarded_count(&g->t) : 0) + 1, sizeof(double));
    int64_t n = 0;
    REQUIRE(x, "out of memory");
    for (walk w = walk_begin(&g->t); !zero && g->t.rank && !w.done; walk_next(&w)) {
        x[n++] = (double)*walk_f32(&w);
    }
    return x;
}

static void numbers_make(numbers *n, const call *c) {
    const int64_t *q = c->g[Q].t.size, *k = c->g[K].t.size;
    *n = (numbers){
        .b = q[0], .hq = q[1], .hkv = k[1], .tq = q[2], .tk = k[2], .d = q[3], .dk = k[3]};
    n->units = c->g[V].t.rank ? c->g[V].t.size[0] : 0;
    for (int id = 0; id < TENSORS; id++) {
        n->x[id] = id < FIRST ? dense(&c->g[id], false) : dense(&c->g[id - FIRST], true);
        if (id < FIRST) { continue; }
        n->tol[id] = dense(&c->g[id - FIRST], true);
        n->magnitude[id] = dense(&c->g[id - FIRST], true);
        n->terms[id] = dense(&c->g[id - FIRST], true);
    }
}

static void numbers_free(numbers *n) {
    for (int id = 0; id < TENSORS; id++) {
        free(n->x[id]);
        free(n->tol[id]);
        free(n->magnitude[id]);
        free(n->terms[id]);
    }
}

/* A term of a gradient, and its error beyond that of the sum, in units of u |term|. */
static void add(numbers *n, int id, int64_t at, double term, double error) {
    n->x[FIRST + id][at] += term;
    n->tol[FIRST + id][at] += error;
    n->magnitude[FIRST + id][at] += fabs(term);
    n->terms[FIRST + id][at] += 1;
}

/* Unit u of a row times a weight, and the sum of absolute products. */
static double project(const double *row, const double *weight, int64_t size, double *magnitude) {
    double sum = 0;
    for (int64_t n = 0; n < size; n++) {
        sum += row[n] * weight[n];
        *magnitude += fabs(row[n] * weight[n]);
    }
    return sum;
}

/* All of one score's contributions. The argument of tanh has an error of about (sizes + 3) u times
 * its absolute terms; t and 1 - t^2 have slopes of at most 1, and 2 u of their own each. What is
 * summed later gets its share in `finish`. */
static void add_score(const call *c, numbers *n, int64_t q_row, int64_t k_row, double ds) {
    const double *q = n->x[Q] + q_row * n->d, *k = n->x[K] + k_row * n->dk;
    if (c->kind != RAPT_SCORE_ADDITIVE) {
        const double scale = c->kind == RAPT_SCORE_SCALED_DOT && n->d ? 1 / sqrt((double)n->d) : 1;
        for (int64_t i = 0; i < n->d; i++) {
            add(n, Q, q_row * n->d + i, scale * ds * k[i], 0);
            add(n, K, k_row * n->dk + i, scale * ds * q[i], 0);
        }
        return;
    }
    for (int64_t u = 0; u < n->units; u++) {
        const double *wq = n->x[W_QUERY] + u * n->d, *wk = n->x[W_KEY] + u * n->dk;
        double magnitude = 0;
        const double t = tanh(project(q, wq, n->d, &magnitude) + project(k, wk, n->dk, &magnitude));
        const double wrong = (double)(n->d + n->dk + 3) * 2 * magnitude + 6;
        const double v = n->x[V][u], down = v * ds * (1 - t * t), error = fabs(v * ds) * wrong;
        add(n, V, u, ds * t, fabs(ds) * wrong);
        for (int64_t i = 0; i < n->d; i++) {
            add(n, Q, q_row * n->d + i, down * wq[i], error * fabs(wq[i]));
            add(n, W_QUERY, u * n->d + i, down * q[i], error * fabs(q[i]));
        }
        for (int64_t i = 0; i < n->dk; i++) {
            add(n, K, k_row * n->dk + i, down * wk[i], error * fabs(wk[i]));
            add(n, W_KEY, u * n->dk + i, down * k[i], error * fabs(k[i]));
        }
    }
}

/* Sums: at most as many roundings as there are terms, twice (unfused), each of a partial sum, which
 * that of the absolute terms bounds; scale, v and the old value a few more. */
static void expect(const call *c, numbers *n) {
    int64_t at = 0;
    for (int64_t b = 0; b < n->b; b++) {
        for (int64_t h = 0; h < n->hq; h++) {
            for (int64_t i = 0; i < n->tq; i++) {
                for (int64_t j = 0; j < n->tk; j++) {
                    const int64_t kv = b * n->hkv + h / (n->hq / n->hkv);
                    add_score(c, n, (b * n->hq + h) * n->tq + i, kv * n->tk + j,
                              n->x[DSCORES][at++]);
                }
            }
        }
    }
    for (int id = 0; id < INPUTS; id++) {
        const guarded *g = &c->g[FIRST + id];
        at = 0;
        for (walk w = walk_begin(&g->t); g->t.rank && !w.done; walk_next(&w), at++) {
            double *tol = &n->tol[FIRST + id][at];
            const double old = c->accumulate ? (double)*walk_f32(&w) : 0;
            *tol = 1.01 * U *
                       (*tol + (2 * n->terms[FIRST + id][at] + 12) * n->magnitude[FIRST + id][at] +
                        4 * fabs(old)) +
                   0x1p-140;
            n->x[FIRST + id][at] += old;
        }
    }
}

static bool try(call *c) {
    rapt_context *context = harness_context(c->threads ? c->threads : 1);
    numbers n;
    for (int id = FIRST; id < TENSORS && !c->accumulate; id++) { guarded_set(&c->g[id], NAN); }
    numbers_make(&n, c);
    expect(c, &n);
    guarded_seal(c->g, TENSORS);
    const rapt_status status = run(c, context);
    bool good = guarded_intact(c->g, TENSORS, status != RAPT_OK, why, sizeof why);
    if (good && status != RAPT_OK) {
        snprintf(why, sizeof why, "%s: %s", rapt_status_name(status),
                 rapt_context_message(context));
        good = false;
    }
    for (int id = FIRST; id < TENSORS && good; id++) {
        if (!c->g[id].t.rank) { continue; }
        good = guarded_matches(&c->g[id], n.x[id], n.tol[id], why, sizeof why);
    }
    numbers_free(&n);
    return good;
}

/* ---- Random cases ---- */

static void place(call *c, int id, layout l, guard_side side, int32_t rank, const int64_t *size) {
    guarded_place(&c->g[id], names[id], id >= FIRST, l, side, RAPT_F32, rank, size);
}

typedef struct sizes {
    int64_t b, hkv, group, tq, tk, d, dk, units;
} sizes;

/* Inputs and dscores, all gradients that `wanted` has a bit for. Null `r`: dense. */
static void lay_out(call *c, const sizes *s, unsigned wanted, rng *r) {
    const int64_t size[INPUTS + 1][4] = {
        {s->b, s->hkv * s->group, s->tq, s->d},
        {s->b, s->hkv, s->tk, c->kind == RAPT_SCORE_ADDITIVE ? s->dk : s->d},
        {s->units, s->d},
        {s->units, s->dk},
        {s->units},
        {s->b, s->hkv * s->group, s->tq, s->tk}};
    static const int32_t rank[INPUTS + 1] = {4, 4, 2, 2, 1, 4};
    const guard_side side = r && rng_chance(r, 50) ? GUARD_BEFORE : GUARD_AFTER;
    for (int id = 0; id <= INPUTS; id++) {
        if (c->kind != RAPT_SCORE_ADDITIVE && (id == W_QUERY || id == W_KEY || id == V)) {
            continue;
        }
        const bool any = r && rng_chance(r, 60);
        place(c, id, any ? (layout)rng_range(r, 0, LAYOUT_COUNT - 1) : LAYOUT_DENSE, side, rank[id],
              size[id]);
        if (id == DSCORES || !(wanted >> id & 1)) { continue; }
        place(c, FIRST + id, any ? (layout)rng_range(r, 0, LAYOUT_WRITABLE - 1) : LAYOUT_DENSE,
              side, rank[id], size[id]);
    }
}

static void draw(call *c, uint64_t seed) {
    rng r = rng_make(seed, 47);
    *c = (call){.kind = (rapt_score_kind)rng_range(&r, 0, 2)};
    const int least = rng_chance(&r, 5) ? 0 : 1;
    const sizes s = {.b = rng_range(&r, least, 3),
                     .hkv = rng_range(&r, 1, 2),
                     .group = rng_range(&r, 1, 3),
                     .tq = rng_range(&r, least, 20),
                     .tk = rng_chance(&r, 6) ? rng_range(&r, 255, 520) : rng_range(&r, least, 20),
                     .d = rng_range(&r, least, 9),
                     .dk = rng_range(&r, least, 9),
                     .units = rng_range(&r, least, 12)};
    lay_out(c, &s, (unsigned)rng_range(&r, 0, 31), &r);
    for (int id = 0; id < TENSORS; id++) { guarded_fill(&c->g[id], &r); }
    c->accumulate = rng_chance(&r, 40);
    c->threads = rng_chance(&r, 70) ? 1 : (int32_t)rng_range(&r, 2, 4);
}

Test(score_backward, random) {
    const uint64_t cases = number_from("RAPT_TEST_CASES", 100000) / 100;
    const uint64_t seed = number_from("RAPT_TEST_SEED", 1);
    for (uint64_t n = 0; n < cases; n++) {
        call c;
        draw(&c, seed + n);
        REQUIRE(try(&c), "RAPT_TEST_SEED=%" PRIu64 ": %s\nkind %d, accumulate %d%s", seed + n, why,
                (int)c.kind, c.accumulate, guarded_text(c.g, TENSORS));
        call_free(&c);
    }
}

/* ---- The oracle ---- */

/* sum ds s, from the dense inputs: no gradient in it. */
static double loss(const call *c, const numbers *n) {
    double total = 0;
    int64_t at = 0;
    for (int64_t item = 0; item < n->b * n->hq; item++) {
        const int64_t kv = item / n->hq * n->hkv + item % n->hq / (n->hq / n->hkv);
        for (int64_t i = 0; i < n->tq; i++) {
            for (int64_t j = 0; j < n->tk; j++) {
                const double *q = n->x[Q] + (item * n->tq + i) * n->d;
                const double *k = n->x[K] + (kv * n->tk + j) * n->dk;
                double score = 0, unused = 0;
                if (c->kind != RAPT_SCORE_ADDITIVE) {
                    score = project(q, k, n->d, &unused) /
                            (c->kind == RAPT_SCORE_DOT ? 1 : sqrt((double)n->d));
                }
                for (int64_t u = 0; u < n->units; u++) {
                    score += n->x[V][u] * tanh(project(q, n->x[W_QUERY] + u * n->d, n->d, &unused) +
                                               project(k, n->x[W_KEY] + u * n->dk, n->dk, &unused));
                }
                total += n->x[DSCORES][at++] * score;
            }
        }
    }
    return total;
}

Test(score_backward, oracle_by_central_differences) {
    const sizes s = {2, 2, 2, 3, 4, 3, 2, 3};
    for (int kind = 0; kind <= 2; kind++) {
        call c = {.kind = (rapt_score_kind)kind};
        rng r = rng_make(2, 2);
        numbers n;
        lay_out(&c, &s, 31, NULL);
        for (int id = 0; id < FIRST; id++) { guarded_fill(&c.g[id], &r); }
        numbers_make(&n, &c);
        expect(&c, &n);
        for (int id = 0; id < INPUTS; id++) {
            const int64_t count = c.g[id].t.rank ? guarded_count(&c.g[id].t) : 0;
            for (int64_t at = 0; at < count; at++) {
                double *x = &n.x[id][at];
                const double kept = *x, step = 1e-4;
                *x = kept + step;
                const double above = loss(&c, &n);
                *x = kept - step;
                const double below = loss(&c, &n);
                *x = kept;
                REQUIRE(fabs((above - below) / (2 * step) - n.x[FIRST + id][at]) < 1e-5,
                        "kind %d, %s[%d]", kind, names[FIRST + id], (int)at);
            }
        }
        numbers_free(&n);
        call_free(&c);
    }
}

Test(score_backward, any_thread_count_gives_the_same_bits) {
    const sizes s = {2, 2, 2, 40, 600, 20, 24, 16};
    for (int kind = 0; kind <= 2; kind++) {
        call first = {0};
        for (int32_t threads = 1; threads <= 4; threads++) {
            call c = {.kind = (rapt_score_kind)kind, .threads = threads};
            rng r = rng_make(3, 3);
            lay_out(&c, &s, 31, NULL);
            for (int id = 0; id < TENSORS; id++) { guarded_fill(&c.g[id], &r); }
            if (threads == 1) {
                REQUIRE(try(&c), "%s", why);
                first = c;
                continue;
            }
            cr_assert_eq(run(&c, harness_context(threads)), RAPT_OK);
            for (int id = FIRST; id < TENSORS; id++) {
                if (!c.g[id].t.rank) { continue; }
                REQUIRE(compare_bits(&first.g[id].t, &c.g[id].t, why, sizeof why), "%s: %s",
                        names[id], why);
            }
            call_free(&c);
        }
        call_free(&first);
    }
}

/* ---- Misuse ---- */

static void small(call *c, rapt_score_kind kind) {
    const sizes s = {2, 2, 2, 3, 4, 5, 6, 7};
    rng r = rng_make(4, 4);
    *c = (call){.kind = kind};
    lay_out(c, &s, 31, NULL);
    for (int id = 0; id < TENSORS; id++) { guarded_fill(&c->g[id], &r); }
}

/* The call with one tensor changed. */
static void refused(call *c, int id, const rapt_tensor *t, rapt_status want, const char *words,
                    int line) {
    rapt_context *context = harness_context(1);
    rapt_score score = score_of(c);
    rapt_scores_gradients g = gradients_of(c);
    const rapt_tensor *q = &c->g[Q].t, *k = &c->g[K].t, *ds = &c->g[DSCORES].t;
    const rapt_tensor **const slot[TENSORS] = {&q,          &k,        &score.w_query, &score.w_key,
                                               &score.v,    &ds,       &g.dq,          &g.dk,
                                               &g.dw_query, &g.dw_key, &g.dv};
    *slot[id] = t;
    guarded_seal(c->g, TENSORS);
    const rapt_status status = rapt_scores_backward(context, &score, q, k, ds, &g);
    cr_expect_eq(status, want, "line %d: %s", line, rapt_status_name(status));
    expect_message(rapt_context_message(context), words, line);
    cr_expect(guarded_intact(c->g, TENSORS, true, why, sizeof why), "line %d: %s", line, why);
}

Test(score_backward, errors) {
    call c;
    small(&c, RAPT_SCORE_ADDITIVE);
    rapt_context *context = harness_context(1);
    const rapt_score score = score_of(&c);
    const rapt_scores_gradients g = gradients_of(&c);
    const rapt_tensor *q = &c.g[Q].t, *k = &c.g[K].t, *ds = &c.g[DSCORES].t;
    cr_expect_eq(rapt_scores_backward(NULL, &score, q, k, ds, &g), RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_scores_backward(context, NULL, q, k, ds, &g), RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_scores_backward(context, &score, q, k, ds, NULL), RAPT_ERR_ARGUMENT);
    c.accumulate = 2;
    refused(&c, Q, q, RAPT_ERR_ARGUMENT, "gradients.accumulate 2", __LINE__);
    c.accumulate = 0;
    c.kind = (rapt_score_kind)3;
    refused(&c, Q, q, RAPT_ERR_ARGUMENT, "score.kind 3", __LINE__);
    c.kind = RAPT_SCORE_ADDITIVE;
    for (int id = 0; id < TENSORS; id++) {
        rapt_tensor t = c.g[id].t;
        if (id < FIRST) { refused(&c, id, NULL, RAPT_ERR_ARGUMENT, names[id], id); }
        t.data = NULL;
        refused(&c, id, &t, RAPT_ERR_ARGUMENT, names[id], id);
        t = c.g[id].t;
        t.dtype = RAPT_BOOL;
        refused(&c, id, &t, RAPT_ERR_DTYPE, names[id], id);
        t = c.g[id].t;
        t.rank--;
        refused(&c, id, &t, RAPT_ERR_SHAPE, names[id], id);
        if (id < FIRST) { continue; }
        t = c.g[id].t;
        t.size[0]--;
        refused(&c, id, &t, RAPT_ERR_SHAPE, names[id], id);
        t = c.g[id].t;
        t.stride[0] = 0;
        refused(&c, id, &t, RAPT_ERR_OVERLAP, names[id], id);
        t = c.g[id].t;
        for (int other = 0; other < TENSORS; other++) {
            t.data = c.g[other].t.data;
            if (other != id) { refused(&c, id, &t, RAPT_ERR_OVERLAP, names[id], id); }
        }
    }
    call_free(&c);
    small(&c, RAPT_SCORE_DOT);
    float data[7 * 6];
    const rapt_tensor weight = rapt_tensor_2d(RAPT_F32, data, 7, 6);
    for (int id = FIRST + W_QUERY; id < TENSORS; id++) {
        refused(&c, id, &weight, RAPT_ERR_ARGUMENT, names[id], id);
    }
    call_free(&c);
}

Test(score_backward, an_allocation_fails) {
    for (int kind = 0; kind <= 2; kind++) {
        call c;
        small(&c, (rapt_score_kind)kind);
        counter count = {.fail_at = 1};
        rapt_context *context = NULL;
        cr_assert_eq(counter_context(&context, &count, 2), RAPT_OK);
        guarded_seal(c.g, TENSORS);
        cr_expect_eq(run(&c, context), RAPT_ERR_MEMORY);
        cr_expect(guarded_intact(c.g, TENSORS, true, why, sizeof why), "%s", why);
        cr_expect_eq(run(&c, context), RAPT_OK);
        cr_expect_eq(count.allocations, 3);
        rapt_context_destroy(context);
        cr_expect_eq(count.live, 0);
        call_free(&c);
    }
}
