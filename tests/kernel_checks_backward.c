/* SPDX-License-Identifier: MIT
 * kernel_checks_backward.c: the kernels of attention's backward pass: score_gradient, gather_dots,
 * add_rows and add_lanes, each against the same operations on single floats, bit by bit. */
#include "kernel_checks.h"

#include "kernel_tools.h"

#include <math.h>

/* ---- score_gradient ---- */

typedef struct gradient_case {
    int64_t from, begin, end, to;
    bool sparse, wants_ds, drops; /* sparse: some scores are -inf */
    bool calm;                    /* lse and delta are finite */
    bool far;                     /* lse of a lane is large, and scores are about as large */
} gradient_case;

typedef struct gradient_tiles {
    plane s, dp, kept, lanes; /* lanes: lse, delta */
} gradient_tiles;

enum { TILE_KEYS = 40 };

static float random_score(rng *r, bool sparse) {
    if (sparse && rng_chance(r, 30)) { return -INFINITY; }
    return rng_chance(r, 20) ? -200.0f : (float)rng_uniform(r, -130.0, 0.0);
}

static const float far_lse[] = {4095, -4097, 1e5f, -1.1e7f, 1e9f, -1e12f, 2.2e38f, -2.3e38f};
enum { FAR_COUNT = sizeof far_lse / sizeof far_lse[0] };

static void fill_tiles(const gradient_tiles *x, const gradient_case *c, int64_t width, rng *r) {
    for (int64_t k = 0; k < TILE_KEYS; k++) {
        for (int64_t i = 0; i < width; i++) {
            const int64_t at = k * x->s.ld + i;
            x->s.at[at] = random_score(r, c->sparse);
            x->dp.at[at] = random_float(r, 9);
            x->kept.at[at] = rng_chance(r, 50) ? 0.0f : 1.25f;
        }
    }
    for (int64_t i = 0; i < width; i++) {
        x->lanes.at[i] =
            i == 1 && !c->calm ? (c->drops ? NAN : INFINITY) : (float)rng_uniform(r, -1.0, 1.0);
        x->lanes.at[x->lanes.ld + i] = random_float(r, c->calm ? 0 : 9);
    }
    if (c->far) {
        const float lse = far_lse[rng_range(r, 0, FAR_COUNT - 1)];
        x->lanes.at[width - 1] = lse;
        for (int64_t k = 0; k < TILE_KEYS; k++) {
            const float score = lse * RAPTI_OCTAVES, beside = nextafterf(score, -INFINITY);
            x->s.at[k * x->s.ld + width - 1] = k % 3 == 0   ? score
                                               : k % 3 == 1 ? beside
                                                            : score - (float)k;
        }
    }
}

/* P and dS of one element, from what the tiles held before. */
static void expect_gradient(const rapti_kernels *k, const gradient_case *c, float s, float dp,
                            float kept, float lse, float delta, float *p, float *ds) {
    float x = multiply_add(kernels_fused(k), -lse, RAPTI_OCTAVES, s);
    if (fabsf(lse) >= 4096.0f && isfinite(lse)) {
        const float rounded = lse * RAPTI_OCTAVES;
        x = fminf(0.0f, s - rounded + fabsf(lse) * 0x1.8p-23f);
    }
    k->exp2_inline(&x, p, 1);
    if (x < -100.0f) { *p = 0.0f; }
    const float product = c->drops ? dp * kept : dp;
    *ds = *p * (product - delta);
    if (s == -INFINITY) { *p = *ds = 0.0f; }
    if (*p == 0.0f && isfinite(lse) && isfinite(delta)) { *ds = 0.0f; }
    if (c->drops) { *p = *p * kept; }
}

static void compare_gradient(tally *t, const gradient_case *c, const gradient_tiles *x,
                             const gradient_tiles *before) {
    for (int64_t k = c->from; k < c->to; k++) {
        for (int64_t i = 0; i < t->k->lanes; i++) {
            const int64_t at = k * x->s.ld + i;
            float p = 0.0f, ds = 0.0f;
            if (k >= c->begin && k < c->end) {
                expect_gradient(t->k, c, before->s.at[at], before->dp.at[at], before->kept.at[at],
                                x->lanes.at[i], x->lanes.at[x->lanes.ld + i], &p, &ds);
            }
            if (!c->wants_ds) { ds = before->dp.at[at]; }
            if (same_float(x->s.at[at], p) && same_float(x->dp.at[at], ds)) { continue; }
            tally_fail(t,
                       "keys %lld %lld %lld %lld, sparse %d ds %d drops %d: [%lld][%lld] = "
                       "%.9g %.9g, want %.9g %.9g",
                       (long long)c->from, (long long)c->begin, (long long)c->end, (long long)c->to,
                       c->sparse, c->wants_ds, c->drops, (long long)k, (long long)i,
                       (double)x->s.at[at], (double)x->dp.at[at], (double)p, (double)ds);
        }
    }
}

static void run_gradient(tally *t, const gradient_case *c, uint64_t seed) {
    const int64_t lanes = t->k->lanes, ld = 2 * lanes + 3;
    gradient_tiles x[2];
    for (int n = 0; n < 2; n++) { /* the same numbers twice: one to work on, one to remember */
        rng r = rng_make(61, seed);
        x[n] = (gradient_tiles){plane_take(TILE_KEYS, lanes, ld), plane_take(TILE_KEYS, lanes, ld),
                                plane_take(TILE_KEYS, lanes, ld), plane_take(2, lanes, lanes)};
        fill_tiles(&x[n], c, lanes, &r);
    }
    plane_seal(&x[0].s);
    plane_seal(&x[0].dp);
    const rapti_gradient step = {.s = x[0].s.at,
                                 .dp = c->wants_ds ? x[0].dp.at : NULL,
                                 .kept = c->drops ? x[0].kept.at : NULL,
                                 .ld = ld,
                                 .from = c->from,
                                 .begin = c->begin,
                                 .end = c->end,
                                 .to = c->to,
                                 .lse = x[0].lanes.at,
                                 .delta = x[0].lanes.at + lanes};
    t->k->score_gradient(&step);
    compare_gradient(t, c, &x[0], &x[1]);
    if (!plane_kept(&x[0].s, c->from, c->to) || !plane_kept(&x[0].dp, c->from, c->to)) {
        tally_fail(t, "keys %lld to %lld: written outside", (long long)c->from, (long long)c->to);
    }
    for (int n = 0; n < 2; n++) {
        plane_return(&x[n].s);
        plane_return(&x[n].dp);
        plane_return(&x[n].kept);
        plane_return(&x[n].lanes);
    }
}

int check_score_gradient(const rapti_kernels *k, FILE *log) {
    tally t = {k, "score_gradient", log, 0};
    for (uint64_t seed = 0; seed < 400; seed++) {
        rng r = rng_make(60, seed);
        gradient_case c = {.sparse = seed & 1,
                           .wants_ds = seed >> 1 & 1,
                           .drops = seed >> 2 & 1,
                           .calm = seed >> 3 & 1,
                           .far = seed >> 4 & 1};
        c.from = rng_range(&r, 0, 9);
        c.begin = rng_range(&r, c.from, TILE_KEYS);
        c.end = rng_range(&r, c.begin, TILE_KEYS);
        c.to = rng_range(&r, c.end, TILE_KEYS);
        run_gradient(&t, &c, seed);
    }
    return t.failures;
}

/* ---- Rows of floats, any stride ---- */

static const int64_t strides[] = {1, 2, 3, -1, -2};
enum { STRIDES = sizeof strides / sizeof strides[0] };

typedef struct row_set {
    span row[RAPTI_MAX_LANES];
    float *at[RAPTI_MAX_LANES];
    int64_t count, size, stride;
} row_set;

static row_set rows_take(rng *r, int64_t count, int64_t size, int64_t stride, guard_side side) {
    row_set x = {.count = count, .size = size, .stride = stride};
    for (int64_t i = 0; i < count; i++) {
        x.row[i] = span_take(size, stride, sizeof(float), side);
        x.at[i] = x.row[i].first;
        for (int64_t c = 0; c < size; c++) { x.at[i][c * stride] = random_float(r, 9); }
        guard_seal(&x.row[i].block);
    }
    return x;
}

/* Gives the rows back; false if anything but their elements has changed. */
static bool rows_return(row_set *x) {
    bool kept = true;
    for (int64_t i = 0; i < x->count; i++) {
        ptrdiff_t offset = 0;
        for (int64_t c = 0; c < x->size; c++) {
            guard_accept(&x->row[i].block, (const uint8_t *)&x->at[i][c * x->stride],
                         sizeof(float));
        }
        kept &= guard_intact(&x->row[i].block, &offset);
        span_return(&x->row[i]);
    }
    return kept;
}

/* ---- gather_dots ---- */

static void run_gather_dots(tally *t, int64_t size, int64_t a_stride, int64_t b_stride,
                            guard_side side) {
    const int64_t lanes = t->k->lanes, ld = lanes + size % 3;
    const bool fused = kernels_fused(t->k);
    rng r = rng_make(62, (uint64_t)size);
    row_set a = rows_take(&r, lanes, size, a_stride, side);
    row_set b = rows_take(&r, lanes, size, b_stride, side);
    plane out = plane_take(size, lanes, ld), dots = plane_take(1, lanes, lanes);
    plane_seal(&out);
    t->k->gather_dots((const float *const *)a.at, a_stride, (const float *const *)b.at, b_stride,
                      size, out.at, ld, dots.at);
    for (int64_t i = 0; i < lanes; i++) {
        float dot = 0.0f;
        for (int64_t c = 0; c < size; c++) {
            const float x = a.at[i][c * a_stride], got = out.at[c * ld + i];
            dot = multiply_add(fused, x, b.at[i][c * b_stride], dot);
            if (same_float(got, x)) { continue; }
            tally_fail(t, "size %lld: [%lld][%lld] = %.9g, want %.9g", (long long)size,
                       (long long)c, (long long)i, (double)got, (double)x);
        }
        if (same_float(dots.at[i], dot)) { continue; }
        tally_fail(t, "size %lld: dot %lld = %.9g, want %.9g", (long long)size, (long long)i,
                   (double)dots.at[i], (double)dot);
    }
    if (!plane_kept(&out, 0, size) || !rows_return(&a) || !rows_return(&b)) {
        tally_fail(t, "size %lld: written outside", (long long)size);
    }
    plane_return(&out);
    plane_return(&dots);
}

int check_gather_dots(const rapti_kernels *k, FILE *log) {
    tally t = {k, "gather_dots", log, 0};
    for (int64_t size = 0; size <= 50; size++) {
        for (int n = 0; n < STRIDES; n++) {
            run_gather_dots(&t, size, strides[n], strides[(n + (int)size) % STRIDES], GUARD_AFTER);
            run_gather_dots(&t, size, strides[n], 1, GUARD_BEFORE);
        }
    }
    return t.failures;
}

/* ---- add_rows ---- */

static void run_add_rows(tally *t, int64_t size, int64_t stride, int add, guard_side side) {
    const int64_t lanes = t->k->lanes, count = size % (lanes + 1);
    const int64_t ld = (size + lanes - 1) / lanes * lanes + lanes * (size % 2);
    const bool fused = kernels_fused(t->k);
    const float factor = size % 3 ? -0.3f : 1.0f;
    rng r = rng_make(63, (uint64_t)size), again = r;
    row_set out = rows_take(&r, count, size, stride, side);
    row_set old = rows_take(&again, count, size, stride, side);
    plane in = plane_take(count, ld, ld);
    for (int64_t n = 0; n < count * ld; n++) { in.at[n] = random_float(&r, 9); }
    t->k->add_rows(in.at, ld, count, size, factor, add, out.at, stride);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t c = 0; c < size; c++) {
            const float before = add ? old.at[i][c * stride] : 0.0f;
            const float want = multiply_add(fused, in.at[i * ld + c], factor, before);
            const float got = out.at[i][c * stride];
            if (same_float(got, want)) { continue; }
            tally_fail(t, "size %lld stride %lld add %d: [%lld][%lld] = %.9g, want %.9g",
                       (long long)size, (long long)stride, add, (long long)i, (long long)c,
                       (double)got, (double)want);
        }
    }
    if (!rows_return(&out)) {
        tally_fail(t, "size %lld stride %lld: written outside", (long long)size, (long long)stride);
    }
    rows_return(&old);
    plane_return(&in);
}

int check_add_rows(const rapti_kernels *k, FILE *log) {
    tally t = {k, "add_rows", log, 0};
    for (int64_t size = 0; size <= 70; size++) {
        for (int n = 0; n < STRIDES; n++) {
            run_add_rows(&t, size, strides[n], 0, GUARD_AFTER);
            run_add_rows(&t, size, strides[n], 1, GUARD_AFTER);
            run_add_rows(&t, size, strides[n], 1, GUARD_BEFORE);
        }
    }
    return t.failures;
}

/* ---- add_lanes ---- */

/* shared: all lanes add to the first row, one after the other. */
static void run_add_lanes(tally *t, int64_t from, int64_t to, int64_t stride, bool shared,
                          guard_side side) {
    const int64_t lanes = t->k->lanes, count = 1 + to % lanes, ld = lanes + 2;
    rng r = rng_make(64, (uint64_t)to), again = r;
    row_set out = rows_take(&r, count, to, stride, side);
    row_set want = rows_take(&again, count, to, stride, side);
    plane s = plane_take(to, lanes, ld);
    for (int64_t k = 0; k < to; k++) {
        for (int64_t i = 0; i < lanes; i++) { s.at[k * ld + i] = random_float(&r, 9); }
    }
    float *rows[RAPTI_MAX_LANES];
    for (int64_t i = 0; i < count; i++) { rows[i] = out.at[shared ? 0 : i]; }
    t->k->add_lanes(s.at, ld, from, to, count, rows, stride);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t k = from; k < to; k++) {
            want.at[shared ? 0 : i][k * stride] += s.at[k * ld + i];
        }
    }
    for (int64_t i = 0; i < count; i++) {
        for (int64_t k = 0; k < to; k++) {
            const float got = out.at[i][k * stride], right = want.at[i][k * stride];
            if (same_float(got, right)) { continue; }
            tally_fail(t,
                       "keys %lld to %lld, stride %lld, shared %d: [%lld][%lld] = %.9g, want %.9g",
                       (long long)from, (long long)to, (long long)stride, shared, (long long)i,
                       (long long)k, (double)got, (double)right);
        }
    }
    if (!rows_return(&out)) {
        tally_fail(t, "keys to %lld, stride %lld: written outside", (long long)to,
                   (long long)stride);
    }
    rows_return(&want);
    plane_return(&s);
}

int check_add_lanes(const rapti_kernels *k, FILE *log) {
    tally t = {k, "add_lanes", log, 0};
    for (int64_t to = 0; to <= 40; to++) {
        for (int n = 0; n < STRIDES; n++) {
            run_add_lanes(&t, to / 3, to, strides[n], false, GUARD_AFTER);
            run_add_lanes(&t, 0, to, strides[n], true, GUARD_AFTER);
            run_add_lanes(&t, 0, to, strides[n], false, GUARD_BEFORE);
        }
    }
    return t.failures;
}
