/* SPDX-License-Identifier: MIT
 * test_modules.c: every module with every kind of call, drawn at random, against the oracle; the
 * same bits for any number of threads, for an item alone, with and without what should change
 * nothing.
 *
 *   RAPT_TEST_CASES   number of cases (at most; the default of other suites is larger)
 *   RAPT_TEST_SEED    seed of the first one */
#include "harness.h"
#include "layout.h"
#include "module_case.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CASES = 2000 };

TestSuite(modules, .fini = pool_free);

static uint64_t number_from(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static uint64_t cases(void) {
    const uint64_t wanted = number_from("RAPT_TEST_CASES", MOST_CASES);
    return wanted < MOST_CASES ? wanted : MOST_CASES;
}

static uint64_t first_seed(void) { return number_from("RAPT_TEST_SEED", 1); }

#define CASE_OK(call, context, c)                                                                  \
    do {                                                                                           \
        const rapt_status status_ = (call);                                                        \
        REQUIRE(status_ == RAPT_OK, "line %d: %s, %s\n%s", __LINE__, rapt_status_name(status_),    \
                rapt_context_message(context), module_sizes_text(&(c)->s));                        \
    } while (0)

/* The gaps between rows of a strided output are as they were. */
static bool gaps_kept(const module_case *c, const float *before) {
    if (c->s.strided != 1) return true;
    const int64_t rows = c->s.batch * c->s.tokens, row = c->features + 3;
    for (int64_t n = 0; n < rows; n++) {
        const float *gap = (const float *)c->out.data + n * row + c->features;
        if (memcmp(gap, before + n * row + c->features, 3 * sizeof(float)) != 0) return false;
    }
    return true;
}

static double run_case(uint64_t seed) {
    rapt_context *context = harness_context(1 + (int32_t)(seed % 3));
    const module_sizes s = module_sizes_draw(seed, MODULE_KINDS);
    module_case c;
    module_case_make(&c, context, &s, seed);
    const module_form form = module_case_form(&c, context);
    module_result want = module_oracle(&form, &c.call);
    const int64_t memory = s.batch * s.tokens * (c.features + 3);
    const rapt_tensor before = POOL_F32(memory);
    if (s.strided == 1 && memory > 0) {
        memcpy(before.data, c.out.data, (size_t)memory * sizeof(float));
    }
    CASE_OK(module_case_forward(&c, context), context, &c);
    REQUIRE(gaps_kept(&c, before.data), "gaps written\n%s", module_sizes_text(&s));
    char what[640];
    snprintf(what, sizeof what, "seed %llu: %s", (unsigned long long)seed, module_sizes_text(&s));
    const double worst = module_expect(&want, &c.call, what);
    module_oracle_free(&want);
    module_case_free(&c);
    pool_free();
    return worst;
}

Test(modules, random_calls_against_the_oracle) {
    double worst = 0;
    for (uint64_t n = 0; n < cases(); n++) {
        const double used = run_case(first_seed() + n);
        if (used > worst) worst = used;
    }
    fprintf(stderr, "modules: the worst element used %.0f %% of its bound\n", 100 * worst);
}

/* ---- Rounds of several items, threads ---- */

/* More tokens than a round takes: full rounds, a last one that is smaller, one item a round. */
static const module_sizes large[] = {{.kind = MODULE_SPLIT,
                                      .d_in = 20,
                                      .heads = 2,
                                      .head_dim = 9,
                                      .bias = 1,
                                      .batch = 5,
                                      .tokens = 260,
                                      .keys = 260,
                                      .rank = 3,
                                      .masked = 1,
                                      .lengths = 1,
                                      .weights = 1,
                                      .training = 2,
                                      .dropout = 0.3,
                                      .strided = 1},
                                     {.kind = MODULE_SPLIT,
                                      .d_in = 7,
                                      .heads = 3,
                                      .head_dim = 4,
                                      .batch = 4,
                                      .tokens = 40,
                                      .keys = 400,
                                      .key_dim = 5,
                                      .value_dim = 6,
                                      .not_causal = 1,
                                      .rank = 3,
                                      .masked = 3,
                                      .lengths = 1,
                                      .weights = 2},
                                     {.kind = MODULE_STACKED,
                                      .d_in = 16,
                                      .heads = 3,
                                      .head_dim = 5,
                                      .batch = 2,
                                      .tokens = 520,
                                      .keys = 520,
                                      .rank = 3,
                                      .masked = 2,
                                      .lengths = 2,
                                      .weights = 2,
                                      .training = 2,
                                      .dropout = 0.5},
                                     {.kind = MODULE_STACKED,
                                      .d_in = 16,
                                      .heads = 3,
                                      .head_dim = 8,
                                      .batch = 5,
                                      .tokens = 210,
                                      .keys = 210,
                                      .rank = 3,
                                      .weights = 1,
                                      .training = 1,
                                      .dropout = 0.5},
                                     {.kind = MODULE_AFTER,
                                      .d_in = 5,
                                      .heads = 1,
                                      .head_dim = 6,
                                      .batch = 3,
                                      .tokens = 350,
                                      .keys = 350,
                                      .rank = 3,
                                      .lengths = 1,
                                      .weights = 1,
                                      .training = 2,
                                      .dropout = 0.2},
                                     {.kind = MODULE_AFTER,
                                      .d_in = 5,
                                      .heads = 1,
                                      .head_dim = 6,
                                      .batch = 3,
                                      .tokens = 350,
                                      .keys = 350,
                                      .rank = 3,
                                      .training = 1,
                                      .dropout = 0.2}};

enum { LARGE = sizeof large / sizeof large[0] };

/* The context length of the modules here is 80: the sizes above need more. */
static void lift_limit(module_case *c) {
    if (c->s.kind == MODULE_AFTER) c->m.causal.config.context_length = 1024;
    for (int64_t h = 0; c->s.kind == MODULE_STACKED && h < c->s.heads; h++) {
        c->m.stacked.head[h].config.context_length = 1024;
    }
}

Test(modules, rounds) {
    for (int n = 0; n < LARGE; n++) {
        rapt_context *context = harness_context(2);
        module_case c;
        module_case_make(&c, context, &large[n], 5);
        lift_limit(&c);
        const module_form form = module_case_form(&c, context);
        module_result want = module_oracle(&form, &c.call);
        CASE_OK(module_case_forward(&c, context), context, &c);
        module_expect(&want, &c.call, module_sizes_text(&large[n]));
        module_oracle_free(&want);
        module_case_free(&c);
    }
}

/* out and weights of a case with so many threads; the generator starts as the case has it. */
static void run_again(module_case *c, int32_t threads, rapt_tensor *out, rapt_tensor *weights) {
    rapt_context *context = harness_context(threads);
    rapt_generator g = c->generator;
    const rapt_module_call before = c->call;
    *out = pool_tensor(RAPT_F32, c->out.rank, c->out.size);
    c->call.out = out;
    if (before.weights) {
        *weights = pool_tensor(RAPT_F32, c->weights.rank, c->weights.size);
        c->call.weights = weights;
    }
    if (before.generator) c->call.generator = &g;
    CASE_OK(module_case_forward(c, context), context, c);
    c->call = before;
}

static void expect_threads(module_case *c) {
    rapt_tensor out[2], weights[2];
    run_again(c, 1, &out[0], &weights[0]);
    for (int32_t threads = 2; threads <= 5; threads++) {
        run_again(c, threads, &out[1], &weights[1]);
        pool_same_bits(&out[0], &out[1], __LINE__);
        if (c->call.weights) pool_same_bits(&weights[0], &weights[1], __LINE__);
    }
}

Test(modules, threads_change_no_bit) {
    for (int n = 0; n < LARGE; n++) {
        module_case c;
        module_case_make(&c, harness_context(2), &large[n], 6);
        lift_limit(&c);
        expect_threads(&c);
        module_case_free(&c);
    }
}

/* ---- Batches ---- */

static rapt_tensor batch_item(const rapt_tensor *t, int32_t rank, int64_t b) {
    return t->rank == rank && t->size[0] > 1 ? rapt_tensor_slice(*t, 0, b, 1) : *t;
}

/* Each item of a batch alone gives the bits that it gives in the batch. */
static void expect_items(module_case *c) {
    rapt_context *context = harness_context(2);
    const rapt_module_call whole = c->call;
    CASE_OK(module_case_forward(c, context), context, c);
    for (int64_t b = 0; b < c->s.batch; b++) {
        const rapt_tensor x = batch_item(&c->x, 3, b), mask = batch_item(&c->mask, 4, b);
        const rapt_tensor key_lengths = batch_item(&c->key_lengths, 1, b);
        const rapt_tensor keys = batch_item(&c->key_source, 3, b);
        const rapt_tensor values = batch_item(&c->value_source, 3, b);
        const rapt_tensor wanted = batch_item(&c->out, 3, b);
        const rapt_tensor out = pool_tensor(RAPT_F32, 3, wanted.size);
        c->call.x = &x;
        c->call.out = &out;
        c->call.weights = NULL;
        if (whole.mask) c->call.mask = &mask;
        if (whole.key_lengths) c->call.key_lengths = &key_lengths;
        if (whole.key_source) c->call.key_source = &keys;
        if (whole.value_source) c->call.value_source = &values;
        if (whole.weights) { /* the same path */
            rapt_tensor weights = batch_item(&c->weights, c->s.weights == 1 ? 4 : 3, b);
            const rapt_tensor own = pool_tensor(RAPT_F32, weights.rank, weights.size);
            c->call.weights = &own;
            CASE_OK(module_case_forward(c, context), context, c);
            pool_same_bits(&own, &weights, __LINE__);
        } else {
            CASE_OK(module_case_forward(c, context), context, c);
        }
        pool_same_bits(&out, &wanted, __LINE__);
        c->call = whole;
    }
}

Test(modules, batched_equals_item_by_item) {
    const uint64_t count = cases() < 400 ? cases() : 400;
    for (uint64_t n = 0; n < count; n++) {
        module_sizes s = module_sizes_draw(first_seed() + n, MODULE_KINDS);
        s.training = 0; /* the pattern depends on the item's number */
        s.rank = 3;
        module_case c;
        module_case_make(&c, harness_context(2), &s, n);
        expect_items(&c);
        module_case_free(&c);
        pool_free();
    }
    for (int n = 0; n < LARGE; n++) {
        module_case c;
        module_sizes s = large[n];
        s.training = 0;
        module_case_make(&c, harness_context(2), &s, 7);
        lift_limit(&c);
        expect_items(&c);
        module_case_free(&c);
    }
}
