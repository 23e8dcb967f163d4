/* SPDX-License-Identifier: MIT
 * test_module_init.c: what init and conversions refuse, and allocations that fail in them and in
 * forward: nothing is written, nothing drawn, nothing lost. */
#include "harness.h"
#include "message.h"
#include "module_case.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(module_init, .fini = pool_free);

static rapt_context *context(void) { return harness_context(2); }

#define EXPECT(call, status, words)                                                                \
    do {                                                                                           \
        const rapt_status status_ = (call);                                                        \
        cr_expect_eq(status_, status, "line %d: %s", __LINE__, rapt_status_name(status_));         \
        expect_message(rapt_context_message(context()), words, __LINE__);                          \
    } while (0)

/* ---- init ---- */

static rapt_generator drawn_from;

static bool nothing_drawn(void) {
    rapt_generator fresh;
    rapt_generator_seed(&fresh, 5);
    return memcmp(&fresh, &drawn_from, sizeof fresh) == 0;
}

static void start(void) { rapt_generator_seed(&drawn_from, 5); }

/* A module whose init fails is zero throughout and can be freed. */
#define EXPECT_INIT(kind, call, status, words)                                                     \
    do {                                                                                           \
        start();                                                                                   \
        memset(&kind, 0x5A, sizeof kind);                                                          \
        EXPECT(call, status, words);                                                               \
        cr_expect(kind.context == NULL && nothing_drawn(), "line %d", __LINE__);                   \
        rapt_##kind##_free(&kind);                                                                 \
    } while (0)

#define HUGE_SIZE (INT64_C(1) << 50)

Test(module_init, init_of_self) {
    rapt_self_v1 self_v1;
    rapt_self_v2 self_v2;
    rapt_generator *g = &drawn_from;
#define V1(...) EXPECT_INIT(self_v1, rapt_self_v1_init(context(), &self_v1, __VA_ARGS__, g),
    V1(0, 2) RAPT_ERR_SHAPE, "d_in 0");
    V1(3, -1) RAPT_ERR_SHAPE, "d_out -1");
    V1(3, RAPT_MAX_HEAD_SIZE + 1) RAPT_ERR_SHAPE, "d_out 16777217");
    V1(HUGE_SIZE, 1 << 24) RAPT_ERR_SHAPE, "d_in d_out");
#undef V1
    EXPECT(rapt_self_v1_init(context(), NULL, 3, 2, g), RAPT_ERR_ARGUMENT, "module null");
    cr_expect_eq(rapt_self_v1_init(NULL, &self_v1, 3, 2, g), RAPT_ERR_ARGUMENT);
    cr_expect_null(self_v1.context);

#define V2(...)                                                                                    \
    EXPECT_INIT(self_v2,                                                                           \
                rapt_self_v2_init(context(), &self_v2, &(rapt_self_v2_config){__VA_ARGS__}, g),
    V2(0, 2, 0) RAPT_ERR_SHAPE, "d_in 0");
    V2(3, 0, 0) RAPT_ERR_SHAPE, "d_out 0");
    V2(3, 2, 2) RAPT_ERR_ARGUMENT, "qkv_bias 2");
    V2(HUGE_SIZE, 1 << 24, 1) RAPT_ERR_SHAPE, "d_in d_out");
#undef V2
    EXPECT_INIT(self_v2, rapt_self_v2_init(context(), &self_v2, NULL, g), RAPT_ERR_ARGUMENT,
                "config null");
    rapt_self_v1_free(NULL);
    rapt_self_v2_free(NULL);
}

Test(module_init, init_of_causal_and_stacked) {
    rapt_causal_attention causal;
    rapt_stacked stacked;
    rapt_generator *g = &drawn_from;
    const struct {
        rapt_causal_config config;
        rapt_status status;
        const char *words;
    } rows[] = {
        {{.d_in = 0, .d_out = 2, .context_length = 6}, RAPT_ERR_SHAPE, "d_in 0"},
        {{.d_in = 3, .d_out = 0, .context_length = 6}, RAPT_ERR_SHAPE, "d_out 0"},
        {{.d_in = 3, .d_out = 2, .context_length = 0}, RAPT_ERR_SHAPE, "context_length 0"},
        {{3, 2, 6, .dropout = -0.1}, RAPT_ERR_ARGUMENT, "dropout -0.1"},
        {{3, 2, 6, .dropout = 1.5}, RAPT_ERR_ARGUMENT, "dropout 1.5"},
        {{3, 2, 6, .dropout = (double)NAN}, RAPT_ERR_ARGUMENT, "dropout nan"},
        {{3, 2, 6, .qkv_bias = -1}, RAPT_ERR_ARGUMENT, "qkv_bias -1"},
        {{3, 2, 6, .route = (rapt_mask_route)2}, RAPT_ERR_ARGUMENT, "route 2"},
        {{HUGE_SIZE, 1 << 24, 6, .qkv_bias = 1}, RAPT_ERR_SHAPE, "d_in d_out"},
    };
    for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
        EXPECT_INIT(causal, rapt_causal_init(context(), &causal, &rows[n].config, g),
                    rows[n].status, rows[n].words);
        EXPECT_INIT(stacked, rapt_stacked_init(context(), &stacked, &rows[n].config, 2, g),
                    rows[n].status, rows[n].words);
    }
    const rapt_causal_config good = {.d_in = 3, .d_out = 2, .context_length = 6};
    EXPECT_INIT(causal, rapt_causal_init(context(), &causal, NULL, g), RAPT_ERR_ARGUMENT,
                "config null");
    EXPECT_INIT(stacked, rapt_stacked_init(context(), &stacked, &good, 0, g), RAPT_ERR_SHAPE,
                "heads 0");
    EXPECT_INIT(stacked, rapt_stacked_init(context(), &stacked, &good, HUGE_SIZE << 8, g),
                RAPT_ERR_SHAPE, "d_in d_out");
    EXPECT(rapt_causal_init(context(), NULL, &good, g), RAPT_ERR_ARGUMENT, "module null");
    EXPECT(rapt_stacked_init(context(), NULL, &good, 2, g), RAPT_ERR_ARGUMENT, "module null");
    rapt_causal_free(NULL);
    rapt_stacked_free(NULL);
}

Test(module_init, init_of_split) {
    rapt_split split;
    rapt_generator *g = &drawn_from;
    const struct {
        rapt_split_config config;
        rapt_status status;
        const char *words;
    } rows[] = {
        {{.d_in = 0, .d_out = 4, .heads = 2}, RAPT_ERR_SHAPE, "d_in 0"},
        {{.d_in = 3, .d_out = 0, .heads = 2}, RAPT_ERR_SHAPE, "d_out 0"},
        {{.d_in = 3, .d_out = 4, .heads = 0}, RAPT_ERR_SHAPE, "heads 0"},
        {{.d_in = 3, .d_out = 4, .heads = 3}, RAPT_ERR_SHAPE, "d_out 4 3"},
        {{.d_in = 3, .d_out = 4, .heads = 8}, RAPT_ERR_SHAPE, "d_out 4 8"},
        {{3, 1 << 26, .heads = 1}, RAPT_ERR_SHAPE, "d_out heads 67108864"},
        {{3, 4, .context_length = -1, .heads = 2}, RAPT_ERR_SHAPE, "context_length -1"},
        {{3, 4, .heads = 2, .dropout = 1.0001}, RAPT_ERR_ARGUMENT, "dropout 1.0001"},
        {{3, 4, .heads = 2, .dropout = (double)NAN}, RAPT_ERR_ARGUMENT, "dropout nan"},
        {{3, 4, .heads = 2, .qkv_bias = 3}, RAPT_ERR_ARGUMENT, "qkv_bias 3"},
        {{3, 4, .heads = 2, .no_out_bias = 3}, RAPT_ERR_ARGUMENT, "no_out_bias 3"},
        {{3, 4, .heads = 2, .no_out_proj = 3}, RAPT_ERR_ARGUMENT, "no_out_proj 3"},
        {{3, 4, .heads = 2, .not_causal = 3}, RAPT_ERR_ARGUMENT, "not_causal 3"},
        {{3, 4, .heads = 2, .key_dim = -2}, RAPT_ERR_SHAPE, "key_dim -2"},
        {{3, 4, .heads = 2, .value_dim = -2}, RAPT_ERR_SHAPE, "value_dim -2"},
        {{HUGE_SIZE, 1 << 24, .heads = 2}, RAPT_ERR_SHAPE, "d_in d_out"},
        {{3, HUGE_SIZE, .heads = 1 << 30}, RAPT_ERR_SHAPE, "d_in d_out"},
    };
    for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
        EXPECT_INIT(split, rapt_split_init(context(), &split, &rows[n].config, g), rows[n].status,
                    rows[n].words);
    }
    EXPECT_INIT(split, rapt_split_init(context(), &split, NULL, g), RAPT_ERR_ARGUMENT,
                "config null");
    EXPECT(rapt_split_init(context(), NULL, &rows[0].config, g), RAPT_ERR_ARGUMENT, "module null");
    rapt_split_free(NULL);
}

/* ---- Conversions ---- */

Test(module_init, conversions) {
    rapt_self_v1 v1, none_v1 = {0};
    rapt_self_v2 v2, none_v2 = {0};
    start();
    cr_assert_eq(rapt_self_v1_init(context(), &v1, 3, 2, NULL), RAPT_OK);
    const rapt_self_v2_config biased = {3, 2, 1}, other = {2, 3, 0};
    cr_assert_eq(rapt_self_v2_init(context(), &v2, &biased, &drawn_from), RAPT_OK);
    EXPECT(rapt_self_v1_from_v2(&v1, NULL), RAPT_ERR_ARGUMENT, "from null");
    EXPECT(rapt_self_v1_from_v2(&v1, &none_v2), RAPT_ERR_ARGUMENT, "from initialised");
    EXPECT(rapt_self_v2_from_v1(&v2, NULL), RAPT_ERR_ARGUMENT, "from null");
    EXPECT(rapt_self_v2_from_v1(&v2, &none_v1), RAPT_ERR_ARGUMENT, "from initialised");
    cr_expect_eq(rapt_self_v1_from_v2(NULL, &v2), RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_self_v2_from_v1(&none_v2, &v1), RAPT_ERR_ARGUMENT);
    EXPECT(rapt_self_v1_from_v2(&v1, &v2), RAPT_ERR_ARGUMENT, "from bias");
    cr_expect_eq(*(float *)v1.w_query.data, 0.0f, "nothing written");
    rapt_self_v2_free(&v2);
    cr_assert_eq(rapt_self_v2_init(context(), &v2, &other, NULL), RAPT_OK);
    EXPECT(rapt_self_v1_from_v2(&v1, &v2), RAPT_ERR_SHAPE, "d_in d_out 3 2");
    EXPECT(rapt_self_v2_from_v1(&v2, &v1), RAPT_ERR_SHAPE, "d_in d_out 2 3");
    rapt_self_v1_free(&v1);
    rapt_self_v2_free(&v2);
}

Test(module_init, conversions_of_heads) {
    const struct {
        rapt_split_config split;
        const char *words;
    } rows[] = {{{.d_in = 6, .d_out = 8, .heads = 4}, "heads 4 2"},
                {{.d_in = 6, .d_out = 6, .heads = 2}, "W_query 3 4"},
                {{.d_in = 5, .d_out = 8, .heads = 2}, "W_query 5 6"},
                {{.d_in = 6, .d_out = 8, .heads = 2, .value_dim = 7}, "W_value 7 6"},
                {{.d_in = 6, .d_out = 8, .heads = 2, .qkv_bias = 1}, "W_query split bias"}};
    const rapt_causal_config config = {.d_in = 6, .d_out = 4, .context_length = 5};
    rapt_stacked stacked, none = {0};
    rapt_split split, no_split = {0};
    start();
    cr_assert_eq(rapt_stacked_init(context(), &stacked, &config, 2, &drawn_from), RAPT_OK);
    for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
        cr_assert_eq(rapt_split_init(context(), &split, &rows[n].split, NULL), RAPT_OK);
        EXPECT(rapt_split_from_stacked(&split, &stacked), RAPT_ERR_SHAPE, rows[n].words);
        EXPECT(rapt_stacked_from_split(&stacked, &split), RAPT_ERR_SHAPE, rows[n].words);
        cr_expect_eq(*(float *)split.query.weight.data, 0.0f, "nothing written");
        rapt_split_free(&split);
    }
    cr_assert_eq(rapt_split_init(context(), &split, &rows[0].split, NULL), RAPT_OK);
    EXPECT(rapt_split_from_stacked(&split, NULL), RAPT_ERR_ARGUMENT, "from null");
    EXPECT(rapt_split_from_stacked(&split, &none), RAPT_ERR_ARGUMENT, "from initialised");
    EXPECT(rapt_stacked_from_split(&stacked, NULL), RAPT_ERR_ARGUMENT, "from null");
    EXPECT(rapt_stacked_from_split(&stacked, &no_split), RAPT_ERR_ARGUMENT, "from initialised");
    cr_expect_eq(rapt_split_from_stacked(NULL, &stacked), RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_stacked_from_split(&none, &split), RAPT_ERR_ARGUMENT);
    rapt_split_free(&split);
    rapt_stacked_free(&stacked);
}

/* ---- Allocations that fail ---- */

/* An allocator that counts, and fails one allocation on request. */
typedef struct counter {
    int64_t allocations, live;
    int64_t fail_at; /* index of the allocation that fails; -1: none */
} counter;

static void *counted_allocate(void *user, size_t bytes, size_t alignment) {
    counter *c = user;
    (void)alignment;
    if (c->allocations++ == c->fail_at) return NULL;
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (memory) memset(memory, 0xFF, bytes); /* NaN: nothing may rely on zeros */
    c->live++;
    return memory;
}

static void counted_release(void *user, void *memory) {
    counter *c = user;
    c->live--;
    free(memory);
}

static bool all_zero(const void *memory, size_t bytes) {
    for (size_t n = 0; n < bytes; n++) {
        if (((const unsigned char *)memory)[n]) return false;
    }
    return true;
}

/* Context, init, forward, free, with an allocation that fails: the status of the step at fault. */
static rapt_status whole_life(counter *counted, const module_case *model, const rapt_tensor *want) {
    const rapt_context_options options = {
        .threads = 2, .allocator = {counted_allocate, counted_release, counted}};
    rapt_context *own = NULL;
    rapt_status status = rapt_context_create(&own, &options);
    if (status != RAPT_OK) return status;
    module_case c = *model;
    rapt_generator_seed(&c.generator, 5);
    const rapt_generator fresh = c.generator;
    c.call.generator = &c.generator;
    pool_clear(&c.out);
    pool_clear(&c.weights);
    status = module_case_init(&c, own, &model->s, &c.generator);
    if (status == RAPT_OK) {
        const rapt_generator drawn = c.generator;
        status = module_case_forward(&c, own);
        if (status == RAPT_OK) {
            pool_same_bits(&c.out, want, __LINE__);
        } else {
            cr_expect(pool_untouched(&c.out) && pool_untouched(&c.weights), "written");
            cr_expect(memcmp(&drawn, &c.generator, sizeof drawn) == 0, "drawn");
            expect_message(rapt_context_message(own), "bytes", __LINE__);
            counted->fail_at = -1;
            cr_expect_eq(module_case_forward(&c, own), RAPT_OK, "memory is there again");
            pool_same_bits(&c.out, want, __LINE__);
        }
    } else {
        cr_expect(all_zero(&c.m, sizeof c.m), "a module whose init failed is zero");
        cr_expect(memcmp(&fresh, &c.generator, sizeof fresh) == 0, "drawn");
        expect_message(rapt_context_message(own), "parameters bytes", __LINE__);
    }
    module_case_free(&c);
    cr_expect(all_zero(&c.m, sizeof c.m), "freed");
    module_case_free(&c); /* again: nothing happens */
    rapt_context_destroy(own);
    return status;
}

Test(module_init, each_allocation_fails_in_turn) {
    for (int kind = 0; kind < MODULE_KINDS; kind++) {
        module_sizes s = {.kind = (module_kind)kind,
                          .d_in = 20,
                          .heads = 1,
                          .head_dim = 9,
                          .bias = kind != MODULE_V1,
                          .batch = 2,
                          .tokens = 30,
                          .keys = 30,
                          .rank = 3,
                          .weights = 2};
        s.heads = kind >= MODULE_STACKED ? 3 : 1;
        s.training = kind >= MODULE_CAUSAL ? 2 : 0;
        s.dropout = kind >= MODULE_CAUSAL ? 0.25 : 0;
        module_case model;
        module_case_make(&model, context(), &s, 5);
        cr_assert_eq(module_case_forward(&model, context()), RAPT_OK);
        const rapt_tensor want = POOL_F32(2, 30, model.features);
        memcpy(want.data, model.out.data, (size_t)pool_count(&want) * sizeof(float));
        module_case_free(&model);
        memset(&model.m, 0, sizeof model.m);
        int64_t n = 0;
        for (rapt_status status = RAPT_ERR_MEMORY; status != RAPT_OK; n++) {
            cr_assert_lt(n, 20);
            counter counted = {.fail_at = n};
            status = whole_life(&counted, &model, &want);
            cr_expect(status == RAPT_OK || status == RAPT_ERR_MEMORY, "%s",
                      rapt_status_name(status));
            cr_expect_eq(counted.live, 0, "%d blocks lost after failure of %d", (int)counted.live,
                         (int)n);
        }
        cr_expect_eq(n, 4, "the context, the parameters, and scratch in one piece");
    }
}
