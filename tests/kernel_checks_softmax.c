/* SPDX-License-Identifier: MIT
 * kernel_checks_softmax.c: softmax_max with softmax_exp or softmax_exp_any, one step of the online
 * softmax: one block against double precision, blocks in sequence against the softmax of the whole,
 * and the bits that must not depend on the visible range; softmax_try and softmax_near against
 * the two. */
#include "kernel_checks.h"

#include "kernel_tools.h"

#include <math.h>
#include <string.h>

enum { MAX_KEYS = 200 };

/* A tile of scores and the running state of its lanes. */
typedef struct tile {
    plane s, state;
    rapti_softmax_state run;
} tile;

static tile tile_take(int64_t keys, int64_t lanes, int64_t ld) {
    tile x = {plane_take(keys, lanes, ld), plane_take(4, lanes, lanes), {0}};
    x.run.max = x.state.at;
    x.run.sum = x.state.at + lanes;
    x.run.shift = x.state.at + 2 * lanes;
    x.run.rescale = x.state.at + 3 * lanes;
    for (int64_t i = 0; i < lanes; i++) {
        x.run.max[i] = -INFINITY;
        x.run.sum[i] = x.run.shift[i] = 0.0f;
    }
    return x;
}

/* Which exponential a check is about. */
typedef enum exponential { EXP2_INLINE, EXP_ANY } exponential;

/* One step: keys [begin, end) of those in [from, to), which begin at `s`. Returns whether a shift
 * moved. */
static bool softmax_step(const rapti_kernels *k, exponential which, const tile *x, float *s,
                         int64_t from, int64_t begin, int64_t end, int64_t to) {
    const bool moved = k->softmax_max(s, x->s.ld, begin, end, x->run) != 0;
    (which == EXP_ANY ? k->softmax_exp_any : k->softmax_exp)(s, x->s.ld, from, begin, end, to,
                                                             x->run);
    return moved;
}

static void tile_return(tile *x) {
    plane_return(&x->s);
    plane_return(&x->state);
}

/* The kinds of lanes: what their scores are like. */
typedef enum lane_kind {
    LANE_PLAIN,  /* standard normal */
    LANE_WIDE,   /* +-90: some weights vanish */
    LANE_HUGE,   /* +-1e5 and +-3e38 */
    LANE_SPARSE, /* three of four hidden */
    LANE_EMPTY,  /* all hidden */
    LANE_EQUAL,
    LANE_LATE,   /* hidden but for the last sixth */
    LANE_BROKEN, /* NaN or +inf in places */
    LANE_KINDS
} lane_kind;

static float lane_score(rng *r, lane_kind kind, int64_t key, int64_t keys) {
    const float x = random_float(r, 0);
    switch (kind) {
    case LANE_WIDE: return 90.0f * x;
    case LANE_HUGE: return x * (rng_chance(r, 10) ? 0.9e38f : 1e5f);
    case LANE_SPARSE: return rng_chance(r, 75) ? -INFINITY : x;
    case LANE_EMPTY: return -INFINITY;
    case LANE_EQUAL: return -7.25f;
    case LANE_LATE: return key * 6 < keys * 5 ? -INFINITY : x - 300.0f;
    case LANE_BROKEN: return rng_chance(r, 8) ? (x > 0.0f ? NAN : INFINITY) : x;
    default: return x;
    }
}

static lane_kind kind_of(int64_t lane, uint64_t seed) {
    return (lane_kind)(((uint64_t)lane + seed) % LANE_KINDS);
}

static void fill_scores(const plane *s, int64_t lanes, uint64_t seed) {
    for (int64_t i = 0; i < lanes; i++) {
        rng r = rng_make(seed, (uint64_t)i);
        for (int64_t key = 0; key < s->rows; key++) {
            s->at[key * s->ld + i] = lane_score(&r, kind_of(i, seed), key, s->rows);
        }
    }
}

/* Scores that move no shift; every other time one of them is NaN. */
static void fill_calm(const plane *s, int64_t lanes, uint64_t seed) {
    rng r = rng_make(seed, 99);
    for (int64_t n = 0; n < s->rows * lanes; n++) {
        const lane_kind kind = n % lanes % 3 == 0 ? LANE_EQUAL : LANE_PLAIN;
        s->at[n / lanes * s->ld + n % lanes] = lane_score(&r, kind, 0, s->rows);
    }
    const int64_t broken = rng_range(&r, 0, s->rows * lanes - 1);
    if (seed % 2) { s->at[broken / lanes * s->ld + broken % lanes] = NAN; }
}

/* ---- One block ---- */

typedef struct block_case {
    exponential which;
    int64_t from, begin, end, to, ld;
    uint64_t seed;
    bool started; /* the state already holds a maximum and a sum */
    bool calm;    /* no shift has to move */
} block_case;

static void block_fail(tally *t, const block_case *c, int64_t lane, const char *what, double got,
                       double want) {
    tally_fail(t, "keys %lld, %lld, %lld, %lld seed %lld lane %lld: %s %.9g, want %.9g",
               (long long)c->from, (long long)c->begin, (long long)c->end, (long long)c->to,
               (long long)c->seed, (long long)lane, what, got, want);
}

/* The power of the rounded difference, 0 below 2^-126, as the words of the kernels promise. */
static double exp_shifted(exponential which, float x, float shift) {
    const float difference = x - shift;
    const double e = which == EXP_ANY ? exp((double)difference) : exp2((double)difference);
    return e < 0x1p-126 ? 0.0 : e;
}

static bool within_ulp(float got, double want) {
    return want == 0.0 ? got == 0.0f : fabs((double)got - want) <= ulp_of(want);
}

/* The largest visible score; *broken if one is NaN or +inf. */
static float largest(const block_case *c, const float *s, float max, bool *broken) {
    for (int64_t key = c->begin; key < c->end; key++) {
        const float x = s[key * c->ld];
        if (isnan(x) || x == INFINITY) { *broken = true; }
        if (x > max) { max = x; }
    }
    return max;
}

/* Whether a shift may stay: within 12 of the maximum, but for a maximum that fell behind later. */
static bool shift_fits(float shift, float old_max, float max) {
    const bool first = old_max == -INFINITY && max > -INFINITY;
    return max - shift < 12.0f && (!first || max - shift >= -12.0f);
}

/* Sum: each of n weights is within 2 roundings, n + 2 additions and products follow. */
static void compare_lane(tally *t, const block_case *c, int64_t lane, const plane *before,
                         const tile *x, float old_max, float old_sum, float old_shift) {
    const float *s = before->at + lane, *p = x->s.at + lane;
    bool broken = false;
    const float max = largest(c, s, old_max, &broken);
    const float got_sum = x->run.sum[lane], got_rescale = x->run.rescale[lane];
    if (broken) {
        if (!isnan(got_sum)) { block_fail(t, c, lane, "sum", (double)got_sum, NAN); }
        return;
    }
    const float shift = shift_fits(old_shift, old_max, max) ? old_shift : max;
    const double rescale = old_max == -INFINITY ? 1.0 : exp_shifted(EXP2_INLINE, old_shift, shift);
    double sum = (double)old_sum * rescale;
    for (int64_t key = c->begin; key < c->end; key++) {
        const double want = exp_shifted(c->which, s[key * c->ld], shift);
        const float got = p[key * c->ld];
        if (!within_ulp(got, want)) { block_fail(t, c, lane, "weight", (double)got, want); }
        sum += want;
    }
    const double bound = (double)(c->end - c->begin + 6) * 1.01 * UNIT_ROUNDOFF * sum;
    if (x->run.max[lane] != max) {
        block_fail(t, c, lane, "max", (double)x->run.max[lane], (double)max);
    }
    if (x->run.shift[lane] != shift) {
        block_fail(t, c, lane, "shift", (double)x->run.shift[lane], (double)shift);
    }
    if (!within_ulp(got_rescale, rescale)) {
        block_fail(t, c, lane, "rescale", (double)got_rescale, rescale);
    }
    if (!(fabs((double)got_sum - sum) <= bound)) {
        block_fail(t, c, lane, "sum", (double)got_sum, sum);
    }
}

/* A state that earlier blocks could have left. */
static void start_state(const tile *x, int64_t lanes, uint64_t seed, bool calm) {
    rng r = rng_make(41, seed);
    for (int64_t i = 0; i < lanes; i++) {
        if (!calm && rng_chance(&r, 25)) { continue; }
        x->run.max[i] = calm ? 0.0f : 30.0f * random_float(&r, 0);
        x->run.shift[i] = x->run.max[i] + (float)rng_uniform(&r, calm ? 0.0 : -11.9, 11.9);
        x->run.sum[i] = (float)rng_uniform(&r, 1.0, 500.0);
    }
}

static void tile_copy(tile *to, const tile *from) {
    memcpy(to->s.block.data, from->s.block.data, from->s.block.bytes);
    memcpy(to->state.block.data, from->state.block.data, from->state.block.bytes);
}

static bool has_nan(const tile *x, int64_t lanes) {
    for (int64_t i = 0; i < lanes; i++) {
        if (isnan(x->run.sum[i])) { return true; }
    }
    return false;
}

/* What of a tile's lanes is not the same in both; keys [from, to) of their scores. */
static const char *tile_difference(const tile *a, const tile *b, int64_t lanes, int64_t from,
                                   int64_t to) {
    for (int64_t i = 0; i < lanes; i++) {
        if (!same_float(a->run.sum[i], b->run.sum[i])) { return "sum"; }
        if (a->run.max[i] != b->run.max[i]) { return "max"; }
        if (!same_float(a->run.shift[i], b->run.shift[i])) { return "shift"; }
        if (!same_float(a->run.rescale[i], b->run.rescale[i])) { return "rescale"; }
        for (int64_t key = from; key < to; key++) {
            const int64_t at = key * a->s.ld + i;
            if (!same_float(a->s.at[at], b->s.at[at])) { return "weight"; }
        }
    }
    return NULL;
}

static tile sealed_copy(const tile *from, int64_t lanes, int64_t ld) {
    tile x = tile_take(from->s.rows, lanes, ld);
    tile_copy(&x, from);
    plane_seal(&x.s);
    return x;
}

/* A try leaves what the two halves left if it is done, else the state as it was. */
static void end_try(tally *t, const block_case *c, const tile *before, const tile *after, tile *x,
                    bool done) {
    const int64_t lanes = t->k->lanes;
    const char *difference = done ? tile_difference(x, after, lanes, c->from, c->to)
                                  : tile_difference(x, before, lanes, 0, 0);
    if (difference) { block_fail(t, c, -1, difference, 0.0, 0.0); }
    if (!plane_kept(&x->s, c->from, c->to)) { block_fail(t, c, -1, "try outside", 0.0, 0.0); }
    tile_return(x);
}

/* softmax_try from the state `before` gives what the two halves gave, or refuses where a shift
 * moved and leaves the state alone. */
static void check_try(tally *t, const block_case *c, const tile *before, const tile *after,
                      bool moved, int *outcomes) {
    const int64_t lanes = t->k->lanes;
    tile x = sealed_copy(before, lanes, c->ld);
    const bool done =
        t->k->softmax_try(x.s.at, c->ld, c->from, c->begin, c->end, c->to, x.run) != 0;
    outcomes[done]++;
    if (done != (!moved && !has_nan(after, lanes))) {
        block_fail(t, c, -1, "softmax_try returns", done, !moved);
    }
    end_try(t, c, before, after, &x, done);
}

/* Weighs the block in two parts, cut at an even key or the end, or in one. */
static bool try_near(const rapti_kernels *k, const block_case *c, const tile *x) {
    const int64_t keys = c->end - c->begin, cut = (int64_t)(c->seed % 7) * keys / 6 / 2 * 2;
    rapti_near_sums sums = {0};
    float *s = x->s.at + c->begin * c->ld;
    if (cut > 0) { k->softmax_near(s, c->ld, cut, x->run, &sums); }
    if (cut < keys) { k->softmax_near(s + cut * c->ld, c->ld, keys - cut, x->run, &sums); }
    return k->softmax_end_near(&sums, x->run) != 0;
}

/* The same for softmax_near and softmax_end_near, which may refuse more often and keep less of the
 * maximum. Returns whether they did their work. */
static bool check_near(tally *t, const block_case *c, const tile *before, const tile *after,
                       bool moved) {
    const int64_t lanes = t->k->lanes;
    tile x = sealed_copy(before, lanes, c->ld);
    const bool done = try_near(t->k, c, &x);
    for (int64_t key = c->from; key < c->to; key++) { /* other keys are not theirs */
        const bool inside = key >= c->begin && key < c->end;
        for (int64_t i = 0; i < lanes && !inside; i++) {
            float *at = x.s.at + key * c->ld + i;
            if (!same_float(*at, before->s.at[key * c->ld + i])) {
                block_fail(t, c, i, "near outside", (double)*at, 0.0);
            }
            *at = 0.0f;
        }
    }
    if (done && (moved || has_nan(after, lanes))) { block_fail(t, c, -1, "near did", 1.0, 0.0); }
    for (int64_t i = 0; i < lanes && done; i++) {
        if (!(fabsf(x.run.max[i] - x.run.shift[i]) <= 12.0f)) {
            block_fail(t, c, i, "near's max", (double)x.run.max[i], (double)x.run.shift[i]);
        }
        x.run.max[i] = after->run.max[i];
    }
    end_try(t, c, before, after, &x, done);
    return done;
}

/* outcomes: tries refused, tries done. */
static void run_block(tally *t, const block_case *c, int *outcomes) {
    const int64_t lanes = t->k->lanes;
    tile before = tile_take(c->to + 2, lanes, c->ld), x = tile_take(c->to + 2, lanes, c->ld);
    (c->calm ? fill_calm : fill_scores)(&before.s, lanes, c->seed);
    if (c->started) { start_state(&before, lanes, c->seed, c->calm); }
    tile_copy(&x, &before);
    plane_seal(&x.s);
    const bool moved = softmax_step(t->k, c->which, &x, x.s.at, c->from, c->begin, c->end, c->to);
    for (int64_t i = 0; i < lanes; i++) {
        compare_lane(t, c, i, &before.s, &x, before.run.max[i], before.run.sum[i],
                     before.run.shift[i]);
        for (int64_t key = c->from; key < c->to; key++) {
            const float p = x.s.at[key * c->ld + i];
            if (key >= c->begin && key < c->end) { continue; }
            if (bits_of(p) != 0) { block_fail(t, c, i, "weight outside", (double)p, 0.0); }
        }
    }
    if (!plane_kept(&x.s, c->from, c->to)) { block_fail(t, c, -1, "written outside", 0.0, 0.0); }
    if (c->which == EXP2_INLINE) { check_try(t, c, &before, &x, moved, outcomes); }
    if (c->which == EXP2_INLINE && c->begin < c->end) {
        const bool done = check_near(t, c, &before, &x, moved);
        if (!done && c->calm && !has_nan(&x, lanes)) { block_fail(t, c, -1, "near", 0.0, 1.0); }
    }
    tile_return(&x);
    tile_return(&before);
}

static int check_step(tally t, exponential which) {
    const int64_t lanes = t.k->lanes;
    int outcomes[2] = {0}, calm[2] = {0};
    for (int64_t keys = 0; keys <= 21; keys++) {
        for (int64_t begin = 0; begin <= keys; begin++) {
            for (int64_t end = begin; end <= keys; end++) {
                const uint64_t seed = (uint64_t)(keys * 1000 + begin * 30 + end);
                block_case c = {which, 0, begin, end, keys, lanes, seed, seed % 2, false};
                run_block(&t, &c, outcomes);
                c = (block_case){which,         begin / 2, begin, end,  keys,
                                 3 * lanes + 1, seed,      true,  false};
                run_block(&t, &c, outcomes);
                c.calm = true;
                c.started = seed / 2 % 2;
                run_block(&t, &c, calm);
            }
        }
    }
    for (uint64_t seed = 0; seed < 64; seed++) {
        const int64_t begin = (int64_t)seed % 9;
        block_case c = {which, 0, begin, 128, 128, lanes, seed, seed % 3 != 0, false};
        run_block(&t, &c, outcomes);
        c.calm = true;
        run_block(&t, &c, calm);
        c = (block_case){which, 5, 5, 190 + (int64_t)seed % 10, 200, 2 * lanes, seed, false, false};
        run_block(&t, &c, outcomes);
    }
    if (which == EXP2_INLINE && (outcomes[0] < 100 || calm[0] < 100 || calm[1] < 100)) {
        tally_fail(&t, "tries refused %d, of calm lanes refused %d and done %d", outcomes[0],
                   calm[0], calm[1]);
    }
    return t.failures;
}

int check_softmax_step(const rapti_kernels *k, FILE *log) {
    return check_step((tally){k, "softmax_max, softmax_exp, softmax_try, softmax_near", log, 0},
                      EXP2_INLINE);
}

int check_softmax_step_any(const rapti_kernels *k, FILE *log) {
    return check_step((tally){k, "softmax_max, softmax_exp_any", log, 0}, EXP_ANY);
}

/* ---- Scores far from the shift ---- */

enum { ALL_KEYS = -1 };

/* Three keys with the shift for their scores, but the one named, or all of them, has `score` in the
 * last lane. Returns whether a near try did its work. */
static bool try_far(tally *t, float score, int64_t far_key, float shift) {
    const int64_t lanes = t->k->lanes;
    const block_case c = {EXP2_INLINE, 0, 0, 3, 3, lanes, bits_of(score), false, false};
    tile before = tile_take(3, lanes, lanes), after = tile_take(3, lanes, lanes);
    for (int64_t n = 0; n < 3 * lanes; n++) { before.s.at[n] = shift; }
    for (int64_t i = 0; i < lanes && shift > 0.0f; i++) {
        before.run.max[i] = before.run.shift[i] = shift;
        before.run.sum[i] = 1.0f;
    }
    for (int64_t key = 0; key < 3; key++) {
        if (far_key == ALL_KEYS || key == far_key) { before.s.at[(key + 1) * lanes - 1] = score; }
    }
    tile_copy(&after, &before);
    const bool moved = softmax_step(t->k, EXP2_INLINE, &after, after.s.at, 0, 0, 3, 3);
    const bool done = check_near(t, &c, &before, &after, moved);
    tile_return(&after);
    tile_return(&before);
    return done;
}

/* Floats between two of one sign, every `step`-th. */
static void try_floats(tally *t, float from, float to, uint32_t step) {
    for (uint32_t bits = bits_of(from); bits <= bits_of(to); bits += step) {
        (void)try_far(t, float_of(bits), bits % 3, 0.0f);
    }
}

/* About where weights become denormal, where powers of two leave the floats, where the number that
 * shows them (vf_split) leaves its binade on either side, and everywhere. */
int check_softmax_far(const rapti_kernels *k, FILE *log) {
    tally t = {k, "softmax_near, far scores", log, 0};
    static const struct {
        float score;
        bool all, done;
    } edges[] = {{-111.4f, false, true},    {-126.5f, false, false}, {11.5f, false, true},
                 {-INFINITY, false, false}, {12.5f, false, false},   {-11.5f, true, true},
                 {-12.5f, true, false},     {10.2f, true, true},     {10.5f, true, false}};
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        for (int64_t key = edges[i].all ? ALL_KEYS : 0; key < (edges[i].all ? 0 : 3); key++) {
            if (try_far(&t, edges[i].score, key, 0.0f) == edges[i].done) { continue; }
            tally_fail(&t, "score %g at key %lld %s", (double)edges[i].score, (long long)key,
                       edges[i].done ? "refused" : "done");
        }
    }
    for (float n = 0x1p16f; n < 0x1p27f; n *= 2) { /* a sum with 12 that is rounded */
        for (float below = n - 12.0f; below < n; below = nextafterf(below, n)) {
            for (float above = below + 11.0f; above < below + 13.0f;
                 above = nextafterf(above, 2 * n)) {
                (void)try_far(&t, above, 2, below);
                if (n < 0x1p22f) { above += 0.3f; }
            }
            if (n < 0x1p22f) { below += 0.3f; }
        }
    }
    try_floats(&t, -125.4f, -126.1f, 31);
    try_floats(&t, -126.1f, -151.0f, 3001);
    try_floats(&t, 126.0f, 134.0f, 1009);
    try_floats(&t, 4194200.0f, 4194400.0f, 1);
    try_floats(&t, -4194200.0f, -4194400.0f, 1);
    try_floats(&t, 0x1p-20f, INFINITY, 600011);
    try_floats(&t, -0x1p-20f, -INFINITY, 600011);
    return t.failures;
}

/* ---- Blocks in sequence ---- */

/* What the blocks made of a lane against the softmax of the whole in double precision. A weight is
 * off by 1 ulp, and 1.5 per later rescale; its exponent by one rounding of the distance to each
 * block's shift, all of them within `reach`. */
static void compare_whole(tally *t, const tile *x, const float *scores, int64_t lane,
                          int64_t blocks, uint64_t seed) {
    const int64_t ld = x->s.ld, keys = x->s.rows;
    double max = -INFINITY, sum = 0.0, lowest = INFINITY;
    for (int64_t key = 0; key < keys; key++) {
        const double s = (double)scores[key * ld + lane];
        if (s > max) { max = s; }
        if (s < lowest && s != -INFINITY) { lowest = s; }
    }
    const double shift = (double)x->run.shift[lane];
    for (int64_t key = 0; key < keys && max > -INFINITY; key++) {
        sum += exp2((double)scores[key * ld + lane] - shift);
    }
    const float got_max = x->run.max[lane], got_sum = x->run.sum[lane];
    const double reach = max > -INFINITY ? fmin(max - lowest + 24.0, 150.0) : 0.0;
    const double relative = ((double)blocks * (3.0 + reach) + (double)keys + 8.0) * UNIT_ROUNDOFF;
    const bool near = max == -INFINITY ? shift == 0.0 : fabs(max - shift) <= 12.0;
    const bool good =
        (double)got_max == max && near && fabs((double)got_sum - sum) <= 2.0 * relative * sum;
    if (!good) {
        tally_fail(t, "seed %lld lane %lld: max %.9g shift %.9g sum %.9g, want max %.9g sum %.9g",
                   (long long)seed, (long long)lane, (double)got_max, shift, (double)got_sum, max,
                   sum);
    }
    for (int64_t key = 0; key < keys && max > -INFINITY; key++) {
        const float got = x->s.at[key * ld + lane];
        const double want = exp2((double)scores[key * ld + lane] - shift);
        /* weights that became 0 on the way, each at most 2^12 above what was subtracted */
        const double slack = (double)(blocks + 1) * 4096.0 * 0x1p-126;
        if (fabs((double)got - want) <= 2.0 * relative * want + slack) { continue; }
        tally_fail(t, "seed %lld lane %lld: weight of key %lld %.9g, want %.9g", (long long)seed,
                   (long long)lane, (long long)key, (double)got, want);
    }
}

/* Cuts MAX_KEYS keys at random, also into empty blocks; carries earlier weights along as the output
 * is carried along. */
static void run_sequence(tally *t, uint64_t seed) {
    const int64_t lanes = t->k->lanes, ld = lanes;
    rng r = rng_make(42, seed);
    tile x = tile_take(MAX_KEYS, lanes, ld);
    float scores[MAX_KEYS * RAPTI_MAX_LANES];
    fill_scores(&x.s, lanes, seed);
    memcpy(scores, x.s.at, (size_t)(MAX_KEYS * ld) * sizeof(float));
    int64_t blocks = 0;
    for (int64_t key = 0; key < MAX_KEYS; blocks++) {
        const int64_t left = MAX_KEYS - key, most = rng_chance(&r, 50) ? 9 : 130;
        const int64_t size = rng_range(&r, 0, left < most ? left : most);
        softmax_step(t->k, EXP2_INLINE, &x, x.s.at + key * ld, 0, 0, size, size);
        for (int64_t n = 0; n < key * ld; n++) { x.s.at[n] *= x.run.rescale[n % lanes]; }
        key += size;
    }
    for (int64_t i = 0; i < lanes; i++) {
        if (kind_of(i, seed) != LANE_BROKEN) { compare_whole(t, &x, scores, i, blocks, seed); }
        if (kind_of(i, seed) == LANE_BROKEN && !isnan(x.run.sum[i])) {
            tally_fail(t, "seed %lld lane %lld: sum %.9g, want NaN", (long long)seed, (long long)i,
                       (double)x.run.sum[i]);
        }
    }
    tile_return(&x);
}

int check_softmax_sequence(const rapti_kernels *k, FILE *log) {
    tally t = {k, "softmax, blocks in sequence", log, 0};
    for (uint64_t seed = 0; seed < 400; seed++) { run_sequence(&t, seed); }
    return t.failures;
}

/* ---- The same bits for any range around what is visible ---- */

static tile run_range(const rapti_kernels *k, uint64_t seed, int64_t first, int64_t past,
                      int64_t begin, int64_t end) {
    tile x = tile_take(40, k->lanes, k->lanes);
    fill_scores(&x.s, k->lanes, seed);
    for (int64_t n = 0; n < x.s.rows * k->lanes; n++) {
        const int64_t key = n / k->lanes;
        if (!(x.s.at[n] < INFINITY)) { x.s.at[n] = 0.0f; } /* a broken lane's weights may differ */
        if (key < first || key >= past) { x.s.at[n] = -INFINITY; }
    }
    softmax_step(k, EXP2_INLINE, &x, x.s.at, 0, begin, end, x.s.rows);
    return x;
}

static bool same_plane(const plane *a, const plane *b) {
    for (int64_t n = 0; n < a->rows * a->width; n++) {
        if (!same_float(a->at[n], b->at[n])) { return false; }
    }
    return true;
}

int check_softmax_ranges(const rapti_kernels *k, FILE *log) {
    tally t = {k, "softmax, visible ranges", log, 0};
    for (int64_t first = 0; first < 40; first++) {
        for (int64_t past = first; past <= 40; past += 1 + first % 4) {
            const uint64_t seed = (uint64_t)first * 8 + 1;
            tile narrow = run_range(k, seed, first, past, first, past);
            for (int64_t n = 0; n < 4; n++) {
                const int64_t begin = n == 3 ? 0 : first * n / 3;
                const int64_t end = n == 3 ? 40 : past + (40 - past) * n / 3;
                tile wide = run_range(k, seed, first, past, begin, end);
                if (!same_plane(&narrow.s, &wide.s) || !same_plane(&narrow.state, &wide.state)) {
                    tally_fail(&t, "keys %lld to %lld alone and inside %lld to %lld differ",
                               (long long)first, (long long)past, (long long)begin, (long long)end);
                }
                tile_return(&wide);
            }
            tile_return(&narrow);
        }
    }
    return t.failures;
}
