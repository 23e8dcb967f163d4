/* SPDX-License-Identifier: MIT
 * test_backward_values.c: what gradients are made of: poison in hidden memory, NaN in visible data,
 * dropout, and how accurate they are. */
#include "backward_call.h"
#include "compare.h"
#include "harness.h"

#include <criterion/criterion.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static problem p;
static backward_call c;

static void finish(void) {
    backward_free(&c);
    problem_free(&p);
}

/* ---- Poison ---- */

typedef enum hiding { BY_MASK, BY_BIAS, BY_CAUSAL, BY_WINDOW, BY_LENGTH, HIDINGS } hiding;

enum { KEYS = 140, SHOWN = 99 }; /* keys from SHOWN on are hidden */

static void poisoned(problem *to, backward_call *call, hiding by, float value) {
    problem_init(to, (shape){2, 2, 1, 5, KEYS, 16, 12});
    fill_normal(to, 5);
    if (by == BY_MASK) { problem_mask(to, 1, (int64_t[]){KEYS}, LAYOUT_DENSE); }
    if (by == BY_BIAS) { problem_bias(to, 2, (int64_t[]){1, KEYS}, LAYOUT_DENSE); }
    for (int64_t j = SHOWN; j < KEYS; j++) {
        if (by == BY_MASK) { ((uint8_t *)to->op[OP_MASK].t.data)[j] = 0; }
        if (by == BY_BIAS) { ((float *)to->op[OP_BIAS].t.data)[j] = -INFINITY; }
    }
    if (by == BY_CAUSAL) { to->what.causal = RAPT_CAUSAL_TOP_LEFT; }
    if (by == BY_WINDOW) { to->what.window = (rapt_window){1, INT64_MAX, SHOWN - 5}; }
    if (by == BY_LENGTH) { problem_lengths(to, RAPT_I32, 1, (int64_t[]){SHOWN}); }
    fill_keys(to, SHOWN, KEYS, value);
    backward_init(call, to);
    backward_bias(call, 4, (int64_t[]){2, 2, 5, KEYS}, LAYOUT_DENSE);
    backward_fill_normal(call, 6);
    expect_backward_run(call);
}

Test(backward_values, poison_behind_limits) {
    static const float values[] = {NAN, INFINITY, -INFINITY, 1e38f};
    for (hiding by = BY_MASK; by < HIDINGS; by++) {
        poisoned(&p, &c, by, 0.0f);
        for (size_t n = 0; n < sizeof values / sizeof *values; n++) {
            problem other;
            backward_call poison;
            poisoned(&other, &poison, by, values[n]);
            expect_same_gradients(&c, &poison);
            for (int64_t j = SHOWN; j < KEYS; j++) {
                expect_gradient_row(&poison, GRAD_DK, 1, 0, j, 0.0f);
                expect_gradient_row(&poison, GRAD_DV, 1, 0, j, 0.0f);
            }
            backward_free(&poison);
            problem_free(&other);
        }
        finish();
    }
}

/* Queries that see nothing: what their rows of q, out, dout and dlse hold is not used. */
static void blind_rows(problem *to, backward_call *call, float value) {
    problem_init(to, (shape){1, 2, 1, 90, 130, 16, 16});
    fill_normal(to, 7);
    problem_mask(to, 2, (int64_t[]){90, 1}, LAYOUT_DENSE);
    for (int64_t i = 0; i < 90; i += 4) { ((uint8_t *)to->op[OP_MASK].t.data)[i] = 0; }
    backward_init(call, to);
    backward_layout(call, GRAD_DLSE, LAYOUT_DENSE);
    backward_fill_normal(call, 8);
    for (int64_t row = 0; row < 2 * 90; row++) {
        const int64_t h = row / 90, i = row % 90;
        if (i % 4) { continue; }
        for (int64_t d = 0; d < 16; d++) {
            *problem_at(to, OP_Q, 0, h, i, d) = value;
            *problem_at(to, OP_OUT, 0, h, i, d) = value;
            *backward_at(call, GRAD_DOUT, 0, h, i, d) = value;
        }
        *backward_at(call, GRAD_DLSE, 0, h, i, 0) = value;
    }
    expect_backward_run(call);
}

Test(backward_values, poison_in_blind_queries) {
    static const float values[] = {NAN, INFINITY, 1e38f};
    blind_rows(&p, &c, 0.0f);
    expect_gradient_row(&c, GRAD_DQ, 0, 1, 4, 0.0f);
    for (size_t n = 0; n < sizeof values / sizeof *values; n++) {
        problem other;
        backward_call poison;
        blind_rows(&other, &poison, values[n]);
        expect_same_gradients(&c, &poison);
        backward_free(&poison);
        problem_free(&other);
    }
    finish();
}

/* ---- NaN in visible data ---- */

enum { ROWS = 70 };

typedef enum broken { BROKEN_NOT, BROKEN_Q, BROKEN_DOUT, BROKEN_K, BROKEN_V } broken;

/* Causal, with a NaN in row 20 of one operand. */
static void break_one(problem *to, backward_call *call, broken what, int64_t column) {
    problem_init(to, (shape){1, 1, 1, ROWS, ROWS, 20, 20});
    fill_normal(to, 9);
    to->what.causal = RAPT_CAUSAL_TOP_LEFT;
    if (what == BROKEN_Q) { *problem_at(to, OP_Q, 0, 0, 20, column) = NAN; }
    if (what == BROKEN_K) { *problem_at(to, OP_K, 0, 0, 20, column) = NAN; }
    if (what == BROKEN_V) { *problem_at(to, OP_V, 0, 0, 20, column) = NAN; }
    backward_init(call, to);
    backward_fill_normal(call, 10);
    if (what == BROKEN_DOUT) { *backward_at(call, GRAD_DOUT, 0, 0, 20, column) = NAN; }
    expect_backward_run(call);
}

/* Rows [begin, end) of a gradient are NaN in `column` (-1: all), all else has the bits of the
 * call without NaN. */
static void expect_broken(const backward_call *call, gradient_id id, int64_t begin, int64_t end,
                          int64_t column) {
    for (int64_t n = 0; n < ROWS * 20; n++) {
        const int64_t i = n / 20, d = n % 20;
        const float got = *backward_at(call, id, 0, 0, i, d),
                    whole = *backward_at(&c, id, 0, 0, i, d);
        const bool nan = i >= begin && i < end && (column < 0 || d == column);
        REQUIRE(nan ? isnan(got) : memcmp(&got, &whole, sizeof got) == 0,
                "gradient %d [%lld,%lld] = %.9g, without NaN %.9g", (int)id, (long long)i,
                (long long)d, (double)got, (double)whole);
    }
}

Test(backward_values, nan_reaches_what_uses_it) {
    static const int64_t columns[] = {0, 7, 19};
    break_one(&p, &c, BROKEN_NOT, 0);
    for (size_t n = 0; n < sizeof columns / sizeof *columns; n++) {
        for (broken what = BROKEN_Q; what <= BROKEN_V; what++) {
            problem other;
            backward_call call;
            break_one(&other, &call, what, columns[n]);
            const bool query = what <= BROKEN_DOUT; /* row 20, and the keys 0 .. 20 that it sees */
            expect_broken(&call, GRAD_DQ, 20, query ? 21 : ROWS, -1);
            expect_broken(&call, GRAD_DK, 0, query ? 21 : ROWS, -1);
            if (what == BROKEN_DOUT) {
                expect_broken(&call, GRAD_DV, 0, 21, columns[n]);
            } else if (what == BROKEN_V) { /* weights do not know of values */
                expect_broken(&call, GRAD_DV, 0, 0, -1);
            } else {
                expect_broken(&call, GRAD_DV, 0, query ? 21 : ROWS, -1);
            }
            backward_free(&call);
            problem_free(&other);
        }
    }
    finish();
}

/* One key is NaN, the scores of another are -inf: p and ds of the latter are 0, whether or not
 * there is a mask (which hides nothing). */
Test(backward_values, scores_of_minus_infinity_beside_nan) {
    enum { T = 4, D = 3, N = T * D };
    const uint8_t all = 1;
    float q[N], k[N], v[N], out[N], lse[T], dout[N], got[2][2 * N];
    for (int n = 0; n < N; n++) {
        q[n] = 1e20f;
        k[n] = n / D == 1 ? -1e20f : n / D == 3 ? NAN : 1e-20f * (float)n;
        v[n] = dout[n] = (float)n;
    }
    const rapt_tensor tq = rapt_tensor_4d(RAPT_F32, q, 1, 1, T, D),
                      tk = rapt_tensor_4d(RAPT_F32, k, 1, 1, T, D),
                      tv = rapt_tensor_4d(RAPT_F32, v, 1, 1, T, D),
                      tout = rapt_tensor_4d(RAPT_F32, out, 1, 1, T, D),
                      tlse = rapt_tensor_3d(RAPT_F32, lse, 1, 1, T),
                      tdout = rapt_tensor_4d(RAPT_F32, dout, 1, 1, T, D),
                      mask = rapt_tensor_1d(RAPT_BOOL, &all, 1);
    rapt_context *context = harness_context(1);
    const rapt_attention what = {.causal = RAPT_CAUSAL_NONE};
    for (int masked = 0; masked < 2; masked++) {
        const rapt_tensor dk = rapt_tensor_4d(RAPT_F32, got[masked], 1, 1, T, D),
                          dv = rapt_tensor_4d(RAPT_F32, got[masked] + N, 1, 1, T, D);
        const rapt_tensor *m = masked ? &mask : NULL;
        const rapt_attention_operands forward = {
            .q = &tq, .k = &tk, .v = &tv, .mask = m, .out = &tout, .lse = &tlse};
        const rapt_attention_backward_operands backward = {.q = &tq,
                                                           .k = &tk,
                                                           .v = &tv,
                                                           .mask = m,
                                                           .out = &tout,
                                                           .lse = &tlse,
                                                           .dout = &tdout,
                                                           .dk = &dk,
                                                           .dv = &dv};
        REQUIRE(rapt_attention_forward(context, &what, &forward) == RAPT_OK, "forward");
        REQUIRE(rapt_attention_backward(context, &what, &backward) == RAPT_OK, "backward");
        for (int n = 0; n < 2 * N; n++) {
            const bool none = n % N / D == 1;
            REQUIRE(none ? got[masked][n] == 0.0f : isnan(got[masked][n]),
                    "mask %d: gradient %d is %g", masked, n, (double)got[masked][n]);
        }
    }
}

/* Scores that the data make -inf: such a row counts as empty. */
Test(backward_values, scores_of_minus_infinity) {
    problem_init(&p, (shape){1, 1, 1, 40, 50, 1, 8});
    fill_normal(&p, 11);
    p.what.scale = (rapt_scale){1, 1.0f};
    for (int64_t j = 0; j < 50; j++) *problem_at(&p, OP_K, 0, 0, j, 0) = -1e30f;
    for (int64_t i = 0; i < 40; i++) *problem_at(&p, OP_Q, 0, 0, i, 0) = i % 3 ? 0.0f : 1e30f;
    backward_init(&c, &p);
    backward_fill_normal(&c, 12);
    expect_backward(&c);
    expect_gradient_row(&c, GRAD_DQ, 0, 0, 3, 0.0f);
    finish();
}

/* ---- Dropout ---- */

static void dropped(problem *to, backward_call *call, rapt_dropout dropout) {
    problem_init(to, (shape){2, 3, 3, 130, 130, 8, 130});
    fill_identity(to);
    to->what.dropout = dropout;
    backward_init(call, to);
    for (walk w = walk_begin(&call->op[GRAD_DOUT].t); !w.done; walk_next(&w)) {
        *walk_f32(&w) = w.index[2] == w.index[3];
    }
    call->threads = 1;
    expect_backward_run(call);
}

/* With q = 0, v and dout = identity: dv transposed is the matrix of weights that the forward call
 * kept, bit for bit dropped at the same places. */
static void expect_same_pattern(int64_t *dropped_weights) {
    *dropped_weights = 0;
    for (walk w = walk_begin(&c.op[GRAD_DV].t); !w.done; walk_next(&w)) {
        const int64_t *at = w.index;
        const float weight = *tensor_f32(problem_out(&p), at[0], at[1], at[3], at[2]);
        const float got = *walk_f32(&w);
        REQUIRE((got == 0.0f) == (weight == 0.0f) && fabsf(got - weight) <= 1e-6f * weight,
                "[%lld,%lld,%lld,%lld] backward %.9g, forward %.9g", (long long)at[0],
                (long long)at[1], (long long)at[3], (long long)at[2], (double)got, (double)weight);
        *dropped_weights += got == 0.0f;
    }
}

Test(backward_values, dropout_pattern_is_the_forward_one) {
    int64_t count = 0;
    dropped(&p, &c, (rapt_dropout){1, 0.3, 11, 12});
    expect_same_pattern(&count);
    const double weights = 6.0 * 130 * 130, spread = sqrt(weights * 0.3 * 0.7);
    REQUIRE(fabs((double)count - 0.3 * weights) <= 5 * spread, "%lld dropped", (long long)count);
    for (int n = 0; n < 4; n++) {
        static const rapt_dropout others[] = {
            {1, 0.3, 11, 12}, {1, 0.3, 11, 12}, {1, 0.3, 12, 12}, {1, 0.3, 11, 13}};
        problem other;
        backward_call call;
        char why[256];
        dropped(&other, &call, others[n]);
        call.threads = n ? 8 : 3;
        expect_backward_run(&call);
        const bool same = compare_bits(&c.op[GRAD_DV].t, &call.op[GRAD_DV].t, why, sizeof why);
        REQUIRE(same == (n < 2), "dropout %d", n);
        backward_free(&call);
        problem_free(&other);
    }
    finish();
}

static void drop_some(problem *to, backward_call *call, rapt_dropout dropout) {
    problem_init(to, (shape){2, 4, 2, 40, 110, 16, 12});
    fill_normal(to, 13);
    to->what.dropout = dropout;
    backward_init(call, to);
    backward_fill_normal(call, 14);
    expect_backward(call);
}

Test(backward_values, dropout_edges) {
    drop_some(&p, &c, (rapt_dropout){0});
    for (int n = 0; n < 2; n++) {
        problem other;
        backward_call call;
        drop_some(&other, &call, n ? (rapt_dropout){1, 0.0, 3, 4} : (rapt_dropout){0, 0.7, 3, 4});
        expect_same_gradients(&c, &call);
        backward_free(&call);
        problem_free(&other);
    }
    finish();
    drop_some(&p, &c, (rapt_dropout){1, 1.0, 3, 4}); /* everything is dropped */
    for (gradient_id id = GRAD_DQ; id <= GRAD_DV; id++) {
        for (walk w = walk_begin(&c.op[id].t); !w.done; walk_next(&w)) {
            REQUIRE(*walk_f32(&w) == 0.0f, "%.9g", (double)*walk_f32(&w));
        }
    }
    finish();
}

/* ---- Accuracy ---- */

enum { T = 1024, DIM = 64 };

typedef struct exact {
    double dq[T][DIM], dk[T][DIM], dv[T][DIM];
} exact;

static double dot(const float *a, const float *b) {
    double sum = 0;
    for (int d = 0; d < DIM; d++) { sum += (double)a[d] * (double)b[d]; }
    return sum;
}

/* The formula in double precision, of one head. */
static void compute(exact *x, const float *q, const float *k, const float *v, const float *dout,
                    bool causal) {
    static double weight[T], dp[T];
    const double scale = 1 / sqrt(DIM);
    memset(x, 0, sizeof *x);
    for (int i = 0; i < T; i++) {
        const int keys = causal ? i + 1 : T;
        double sum = 0, delta = 0;
        for (int j = 0; j < keys; j++) {
            weight[j] = exp(scale * dot(q + i * DIM, k + j * DIM));
            sum += weight[j];
        }
        for (int j = 0; j < keys; j++) {
            weight[j] /= sum;
            dp[j] = dot(dout + i * DIM, v + j * DIM);
            delta += weight[j] * dp[j];
        }
        for (int j = 0; j < keys; j++) {
            const double ds = scale * weight[j] * (dp[j] - delta);
            for (int d = 0; d < DIM; d++) {
                x->dq[i][d] += ds * (double)k[j * DIM + d];
                x->dk[j][d] += ds * (double)q[i * DIM + d];
                x->dv[j][d] += weight[j] * (double)dout[i * DIM + d];
            }
        }
    }
}

static double relative_rms(gradient_id id, double want[T][DIM]) {
    double error = 0, size = 0;
    for (int64_t n = 0; n < T * DIM; n++) {
        const double right = want[n / DIM][n % DIM];
        const double got = (double)*backward_at(&c, id, 0, 0, n / DIM, n % DIM);
        error += (got - right) * (got - right);
        size += right * right;
    }
    return sqrt(error / size);
}

/* ---- Large scores ---- */

/* `keys` keys, of whose values the gradient is 3 times their weight, all with one score: that of
 * the key, or a bias. */
static void equal_scores(float score, int64_t keys, bool as_bias) {
    problem_init(&p, (shape){1, 1, 1, 3, keys, 1, 1});
    p.what.scale = (rapt_scale){1, 1.0f};
    problem_full_bias(&p);
    fill_constant(&p, OP_Q, 1.0f);
    fill_constant(&p, OP_K, as_bias ? 0.0f : score);
    fill_constant(&p, OP_BIAS, as_bias ? score : 0.0f);
    fill_constant(&p, OP_V, 1.0f);
    snprintf(p.note, sizeof p.note, "%lld scores of %g", (long long)keys, (double)score);
    backward_init(&c, &p);
    for (int64_t i = 0; i < 3; i++) { *backward_at(&c, GRAD_DOUT, 0, 0, i, 0) = 1.0f; }
    expect_backward(&c);
    const double share = 1.0 / (double)keys, slip = fmin(1.0, 0x1p-21 * fabs((double)score));
    for (int64_t j = 0; j < keys; j++) {
        const double weight = (double)*backward_at(&c, GRAD_DV, 0, 0, j, 0) / 3.0;
        const bool far = fabsf(score) > 6000.0f;
        REQUIRE(far ? weight >= share - slip && weight <= 1.0 : fabs(weight - share) <= 1e-6 + slip,
                "weight %.9g", weight);
        REQUIRE(keys > 1 || !far || weight == 1.0, "weight %.9g", weight);
        REQUIRE(isfinite(*backward_at(&c, GRAD_DK, 0, 0, j, 0)), "dk");
    }
    finish();
}

/* Half an ulp of lse can be many octaves: weights end at 1, and that of an only key is there. */
Test(backward_values, large_scores) {
    static const float sizes[] = {10,     300,  4090,   4100,   6001,  1e4f,  65504, 1.1e6f,
                                  1.1e7f, 1e9f, 1.3e9f, 1.9e9f, 1e12f, 1e20f, 1e30f, 2.3e38f};
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        for (int way = 0; way < 8; way++) {
            equal_scores(way & 1 ? -sizes[n] : sizes[n], way & 2 ? 4 : 1, way & 4);
        }
    }
    for (int n = 0; n < 300; n++) { equal_scores(1e9f + 3333e3f * (float)n, 1, n % 2); }
    equal_scores(-FLT_MAX, 4, true);
    equal_scores(-FLT_MAX, 1, true);
}

/* ---- Accuracy ---- */

/* PyTorch's error; plain C rounds once more than others, lse times log2(e). */
static double error_bound(void) {
    const char *isa = rapt_context_isa(harness_context(1));
    return strcmp(isa, "scalar") == 0 || strcmp(isa, "odd") == 0 ? 5.5e-7 : 5e-7;
}

Test(backward_values, accuracy_in_numbers) {
    static exact x;
    const double bound = error_bound();
    for (int causal = 0; causal < 2; causal++) {
        problem_init(&p, (shape){1, 1, 1, T, T, DIM, DIM});
        fill_normal(&p, 15);
        p.what.causal = causal ? RAPT_CAUSAL_TOP_LEFT : RAPT_CAUSAL_NONE;
        backward_init(&c, &p);
        backward_fill_normal(&c, 16);
        expect_backward_run(&c);
        compute(&x, p.op[OP_Q].t.data, p.op[OP_K].t.data, p.op[OP_V].t.data, c.op[GRAD_DOUT].t.data,
                causal);
        const double dq = relative_rms(GRAD_DQ, x.dq), dk = relative_rms(GRAD_DK, x.dk),
                     dv = relative_rms(GRAD_DV, x.dv);
        fprintf(stderr, "relative RMS error of dq, dk, dv: %.2e %.2e %.2e\n", dq, dk, dv);
        REQUIRE(dq < bound && dk < bound && dv < bound, "%g %g %g", dq, dk, dv);
        finish();
    }
}
