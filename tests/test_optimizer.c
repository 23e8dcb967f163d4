/* SPDX-License-Identifier: MIT
 * test_optimizer.c: gradients to zero, their norm, clipping, SGD and AdamW: some steps against the
 * formulas of optimizer.h in double precision; strides, thread counts, misuse, failing memory. */
#include "message.h"
#include "plain.h"
#include "rng.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LISTED = 4, SPAN = 60000, MOST = 120000 };

/* Four parameters: more than a piece, strided and transposed, a scalar, and an empty one. */
typedef struct training {
    rapt_parameter w[LISTED], g[LISTED];
    float *memory, *before; /* parameters, then gradients; and as they were */
    int64_t elements;
    float *state;
} training;

static rapt_tensor listed(const float *data, int n) {
    const int64_t size[3] = {17, 29, 11}, stride[3] = {900, -2, 61};
    switch (n) {
    case 0: return rapt_tensor_2d(RAPT_F32, data, 173, 211);
    case 1: return rapt_tensor_strided(RAPT_F32, data + 37000 + 56, 3, size, stride);
    case 2: return rapt_tensor_contiguous(RAPT_F32, data + 55000, 0, NULL);
    default: return rapt_tensor_1d(RAPT_F32, NULL, 0);
    }
}

static void make(training *t, uint64_t seed) {
    rng r = rng_make(71, seed);
    *t = (training){.memory = calloc(2 * SPAN, sizeof(float)),
                    .before = calloc(2 * SPAN, sizeof(float)),
                    .state = calloc(MOST, sizeof(float))};
    cr_assert(t->memory && t->before && t->state);
    for (int64_t n = 0; n < 2 * SPAN; n++) { t->memory[n] = (float)rng_normal(&r); }
    memcpy(t->before, t->memory, 2 * SPAN * sizeof(float));
    for (int n = 0; n < LISTED; n++) {
        t->w[n].tensor = listed(t->memory, n);
        t->g[n].tensor = listed(t->memory + SPAN, n);
    }
    t->elements = rapt_parameter_count(t->w, LISTED);
    cr_assert(2 * t->elements <= MOST);
}

static void drop(training *t) {
    free(t->memory);
    free(t->before);
    free(t->state);
}

/* Offset in `memory` of the n-th element of the parameters in list order. */
static int64_t place(int64_t n) {
    if (n < 173 * 211) { return n; }
    n -= 173 * 211;
    if (n < 17 * 29 * 11) { return 37056 + n / (29 * 11) * 900 - n / 11 % 29 * 2 + n % 11 * 61; }
    return 55000;
}

/* No element outside the lists has changed, nor one of those that the call may not write. */
static void expect_kept(const training *t, int parameters, int gradients) {
    char *listed_here = calloc(SPAN, 1);
    cr_assert(listed_here);
    for (int64_t n = 0; n < t->elements; n++) { listed_here[place(n)] = 1; }
    for (int64_t n = 0; n < 2 * SPAN; n++) {
        if (listed_here[n % SPAN] && (n < SPAN ? parameters : gradients)) { continue; }
        cr_assert_eq(memcmp(&t->memory[n], &t->before[n], sizeof(float)), 0, "float %lld changed",
                     (long long)n);
    }
    free(listed_here);
}

static void expect_near(double got, double want, double bound, int64_t n, const char *what) {
    cr_assert(fabs(got - want) <= bound, "%s %lld: %.9g, want %.9g within %.2g", what, (long long)n,
              got, want, bound);
}

static rapt_context *context_of(int32_t threads) { return plain_context(threads, NULL); }

/* New gradients in the same places, the same for every training of a step. */
static void next_gradients(training *t, uint64_t step) {
    rng r = rng_make(72, step);
    for (int64_t n = 0; n < t->elements; n++) {
        t->memory[SPAN + place(n)] = (float)rng_normal(&r);
    }
}

Test(optimizer, zero) {
    rapt_context *context = context_of(2);
    training t;
    make(&t, 1);
    cr_assert_eq(rapt_gradients_zero(context, t.g, LISTED), RAPT_OK);
    for (int64_t n = 0; n < t.elements; n++) { cr_assert_eq(t.memory[SPAN + place(n)], 0.0f); }
    expect_kept(&t, 0, 1);
    drop(&t);
    rapt_context_destroy(context);
}

static double norm_of(const training *t) {
    double sum = 0;
    for (int64_t n = 0; n < t->elements; n++) {
        const double g = (double)t->before[SPAN + place(n)];
        sum += g * g;
    }
    return sqrt(sum);
}

Test(optimizer, norm_and_clip) {
    rapt_context *context = context_of(2);
    training t;
    double norm = 0;
    make(&t, 2);
    const double want = norm_of(&t);
    cr_assert_eq(rapt_gradients_clip(context, t.g, LISTED, INFINITY, &norm), RAPT_OK);
    expect_near(norm, want, 1e-12 * want, 0, "norm");
    cr_assert_eq(rapt_gradients_clip(context, t.g, LISTED, 2 * want, NULL), RAPT_OK);
    expect_kept(&t, 0, 0);
    cr_assert_eq(rapt_gradients_clip(context, t.g, LISTED, 0.5, &norm), RAPT_OK);
    expect_near(norm, want, 1e-12 * want, 0, "norm before");
    for (int64_t n = 0; n < t.elements; n++) {
        const double g = (double)t.before[SPAN + place(n)] * 0.5 / (want + 1e-6);
        /* the factor is rounded, and the product */
        expect_near((double)t.memory[SPAN + place(n)], g, 0x1.02p-23 * fabs(g), n, "clipped");
    }
    expect_kept(&t, 0, 1);
    cr_assert_eq(rapt_gradients_clip(context, t.g, LISTED, 0.0, NULL), RAPT_OK);
    cr_assert_eq(t.memory[SPAN], 0.0f);
    drop(&t);
    rapt_context_destroy(context);
}

Test(optimizer, norm_not_finite) {
    rapt_context *context = context_of(1);
    training t;
    double norm = 0;
    make(&t, 3);
    t.memory[SPAN + place(40000)] = t.before[SPAN + place(40000)] = NAN;
    cr_assert_eq(rapt_gradients_clip(context, t.g, LISTED, 1.0, &norm), RAPT_OK);
    cr_assert(isnan(norm));
    expect_kept(&t, 0, 0);
    drop(&t);
    rapt_context_destroy(context);
}

/* ---- Steps. The oracle follows in double precision; each f32 operation of a step is off by half
 * a unit of the last place, and errors of earlier steps are carried along. ---- */

enum { STEPS = 5 };

static void run_sgd(double momentum, double decay) {
    rapt_context *context = context_of(2);
    training t;
    make(&t, 4);
    double *w = calloc(MOST, sizeof *w), *m = calloc(MOST, sizeof *m);
    cr_assert(w && m);
    for (int64_t n = 0; n < t.elements; n++) { w[n] = (double)t.memory[place(n)]; }
    const rapt_sgd what = {0.125, momentum, decay};
    for (int64_t step = 1; step <= STEPS; step++) {
        next_gradients(&t, (uint64_t)step);
        cr_assert_eq(
            rapt_sgd_step(context, &what, t.w, t.g, LISTED, step, momentum > 0 ? t.state : NULL),
            RAPT_OK);
        for (int64_t n = 0; n < t.elements; n++) {
            const double g = (double)t.memory[SPAN + place(n)] + decay * w[n];
            m[n] = step == 1 ? g : momentum * m[n] + g;
            w[n] -= what.lr * m[n];
            expect_near((double)t.memory[place(n)], w[n], 1e-6 * (4 + fabs(w[n])), n, "w");
        }
    }
    free(w);
    free(m);
    drop(&t);
    rapt_context_destroy(context);
}

Test(optimizer, sgd) {
    run_sgd(0, 0);
    run_sgd(0.9, 0);
    run_sgd(0.5, 0.01);
}

Test(optimizer, adamw) {
    rapt_context *context = context_of(2);
    training t;
    make(&t, 5);
    double *w = calloc(MOST, sizeof *w), *m = calloc(MOST, sizeof *m), *v = calloc(MOST, sizeof *v);
    cr_assert(w && m && v);
    for (int64_t n = 0; n < t.elements; n++) { w[n] = (double)t.memory[place(n)]; }
    rapt_adamw what = rapt_adamw_default();
    what.lr = 0.05;
    for (int64_t step = 1; step <= STEPS; step++) {
        next_gradients(&t, (uint64_t)step);
        cr_assert_eq(rapt_adamw_step(context, &what, t.w, t.g, LISTED, step, t.state), RAPT_OK);
        for (int64_t n = 0; n < t.elements; n++) {
            const double g = (double)t.memory[SPAN + place(n)];
            m[n] = 0.9 * m[n] + 0.1 * g;
            v[n] = 0.999 * v[n] + 0.001 * g * g;
            w[n] -= what.lr * what.weight_decay * w[n];
            w[n] -= what.lr * (m[n] / (1 - pow(0.9, (double)step))) /
                    (sqrt(v[n] / (1 - pow(0.999, (double)step))) + 1e-8);
            expect_near((double)t.memory[place(n)], w[n], 1e-6 * (1 + fabs(w[n])), n, "w");
        }
    }
    expect_kept(&t, 1, 1);
    free(w);
    free(m);
    free(v);
    drop(&t);
    rapt_context_destroy(context);
}

Test(optimizer, default_is_pytorchs) {
    const rapt_adamw d = rapt_adamw_default();
    cr_expect(d.lr == 1e-3 && d.beta1 == 0.9 && d.beta2 == 0.999);
    cr_expect(d.eps == 1e-8 && d.weight_decay == 0.01);
}

Test(optimizer, same_bits_for_any_thread_count) {
    training a, b;
    double norm_a = 0, norm_b = 0;
    rapt_context *one = context_of(1), *three = context_of(3);
    const rapt_adamw what = rapt_adamw_default();
    make(&a, 6);
    make(&b, 6);
    for (int64_t step = 1; step <= 2; step++) {
        cr_assert_eq(rapt_gradients_clip(one, a.g, LISTED, 1.0, &norm_a), RAPT_OK);
        cr_assert_eq(rapt_gradients_clip(three, b.g, LISTED, 1.0, &norm_b), RAPT_OK);
        cr_assert_eq(rapt_adamw_step(one, &what, a.w, a.g, LISTED, step, a.state), RAPT_OK);
        cr_assert_eq(rapt_adamw_step(three, &what, b.w, b.g, LISTED, step, b.state), RAPT_OK);
    }
    cr_expect(norm_a == norm_b);
    cr_expect_eq(memcmp(a.memory, b.memory, 2 * SPAN * sizeof(float)), 0);
    cr_expect_eq(memcmp(a.state, b.state, MOST * sizeof(float)), 0);
    drop(&a);
    drop(&b);
    rapt_context_destroy(one);
    rapt_context_destroy(three);
}

/* ---- Misuse ---- */

static void expect_error(rapt_context *context, const training *t, rapt_status got,
                         rapt_status want, const char *word, int line) {
    cr_expect_eq(got, want, "line %d: status %d", line, (int)got);
    expect_message(rapt_context_message(context), word, line);
    expect_kept(t, 0, 0);
}

Test(optimizer, misuse) {
    rapt_context *c = context_of(1);
    training t;
    make(&t, 7);
    const rapt_sgd sgd = {0.1, 0.9, 0};
    rapt_adamw adamw = rapt_adamw_default();
    cr_expect_eq(rapt_gradients_zero(NULL, t.g, LISTED), RAPT_ERR_ARGUMENT);
    expect_error(c, &t, rapt_gradients_zero(c, t.g, -1), RAPT_ERR_ARGUMENT, "-1", __LINE__);
    expect_error(c, &t, rapt_gradients_zero(c, NULL, 1), RAPT_ERR_ARGUMENT, "null", __LINE__);
    expect_error(c, &t, rapt_gradients_clip(c, t.g, LISTED, -1.0, NULL), RAPT_ERR_ARGUMENT,
                 "max_norm", __LINE__);
    expect_error(c, &t, rapt_gradients_clip(c, t.g, LISTED, NAN, NULL), RAPT_ERR_ARGUMENT,
                 "max_norm", __LINE__);
    expect_error(c, &t, rapt_sgd_step(c, NULL, t.w, t.g, LISTED, 1, t.state), RAPT_ERR_ARGUMENT,
                 "what", __LINE__);
    expect_error(c, &t, rapt_sgd_step(c, &sgd, t.w, t.g, LISTED, 1, NULL), RAPT_ERR_ARGUMENT,
                 "state", __LINE__);
    expect_error(c, &t, rapt_sgd_step(c, &sgd, NULL, t.g, LISTED, 1, t.state), RAPT_ERR_ARGUMENT,
                 "parameters", __LINE__);
    expect_error(c, &t, rapt_adamw_step(c, &adamw, t.w, t.g, LISTED, 0, t.state), RAPT_ERR_ARGUMENT,
                 "step", __LINE__);
    adamw.beta2 = 1;
    expect_error(c, &t, rapt_adamw_step(c, &adamw, t.w, t.g, LISTED, 1, t.state), RAPT_ERR_ARGUMENT,
                 "beta2", __LINE__);
    adamw.beta2 = 0.999;
    adamw.lr = NAN;
    expect_error(c, &t, rapt_adamw_step(c, &adamw, t.w, t.g, LISTED, 1, t.state), RAPT_ERR_ARGUMENT,
                 "lr", __LINE__);
    adamw.lr = 0.1;
    expect_error(c, &t, rapt_adamw_step(c, &adamw, t.w, t.g, LISTED, 1, NULL), RAPT_ERR_ARGUMENT,
                 "state", __LINE__);
    t.g[1].tensor.size[2] = 10;
    expect_error(c, &t, rapt_adamw_step(c, &adamw, t.w, t.g, LISTED, 1, t.state), RAPT_ERR_SHAPE,
                 "gradients[1]", __LINE__);
    t.g[1].tensor = t.w[1].tensor;
    expect_error(c, &t, rapt_adamw_step(c, &adamw, t.w, t.g, LISTED, 1, t.state), RAPT_ERR_OVERLAP,
                 "gradients[1]", __LINE__);
    t.w[0].tensor.dtype = RAPT_I32;
    expect_error(c, &t, rapt_adamw_step(c, &adamw, t.w, t.g, LISTED, 1, t.state), RAPT_ERR_DTYPE,
                 "parameters[0]", __LINE__);
    t.w[0].tensor = listed(t.memory, 0);
    t.w[0].tensor.stride[0] = 1;
    expect_error(c, &t, rapt_adamw_step(c, &adamw, t.w, t.g, LISTED, 1, t.state), RAPT_ERR_OVERLAP,
                 "parameters[0]", __LINE__);
    cr_expect_eq(rapt_adamw_step(c, &adamw, NULL, NULL, 0, 1, t.state), RAPT_OK);
    drop(&t);
    rapt_context_destroy(c);
}

static int allocations_left;

static void *scarce_allocate(void *user, size_t bytes, size_t alignment) {
    (void)user, (void)alignment;
    return allocations_left-- > 0 ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
}

static void scarce_release(void *user, void *memory) {
    (void)user;
    free(memory);
}

Test(optimizer, no_memory) {
    const rapt_context_options options = {.threads = 1,
                                          .allocator = {scarce_allocate, scarce_release, NULL}};
    const rapt_adamw what = rapt_adamw_default();
    rapt_context *c = NULL;
    training t;
    make(&t, 8);
    allocations_left = 1;
    cr_assert_eq(rapt_context_create(&c, &options), RAPT_OK);
    cr_expect_eq(rapt_adamw_step(c, &what, t.w, t.g, LISTED, 1, t.state), RAPT_ERR_MEMORY);
    cr_expect_eq(rapt_gradients_zero(c, t.g, LISTED), RAPT_ERR_MEMORY);
    cr_expect_eq(rapt_gradients_clip(c, t.g, LISTED, 1, NULL), RAPT_ERR_MEMORY);
    expect_kept(&t, 0, 0);
    drop(&t);
    rapt_context_destroy(c);
}
