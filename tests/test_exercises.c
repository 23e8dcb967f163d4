/* SPDX-License-Identifier: MIT
 * test_exercises.c: the chapter's exercises, its further notebooks, and values derived by running
 * its code: parameters bit for bit, results to rounding. */
#include "chapter.h"

#include "layout.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(exercises, .fini = pool_free);

/* Builds in which 15 Gflop take minutes leave out the largest forward. */
#ifdef RAPT_TEST_SMALL
enum { SMALL = 1 };
#else
enum { SMALL = 0 };
#endif

/* The parameter of that name. */
static rapt_tensor named(const rapt_parameter *list, int64_t count, const char *name) {
    for (int64_t n = 0; n < count; n++) {
        if (strcmp(list[n].name, name) == 0) return list[n].tensor;
    }
    REQUIRE(0, "no parameter %s", name);
    return (rapt_tensor){0};
}

/* Expects <golden>/<W_query|W_key|W_value>/float32_bits of three layers in the list, named
 * <prefix>W_query<suffix> and so on. */
static void expect_bits(const rapt_parameter *list, int64_t count, const char *prefix,
                        const char *suffix, const char *golden) {
    static const char *const role[] = {"W_query", "W_key", "W_value"};
    for (int n = 0; n < 3; n++) {
        char name[64], path[128];
        snprintf(name, sizeof name, "%s%s%s", prefix, role[n], suffix);
        snprintf(path, sizeof path, "derived/%s/%s/float32_bits", golden, role[n]);
        const rapt_tensor t = named(list, count, name);
        golden_bits(&t, path, __LINE__);
    }
}

/* ---- Exercise 3.1: v1 with the weights of v2 ---- */

static rapt_self_v2 make_v2(uint64_t seed, int32_t bias) {
    rapt_generator g = seeded(seed);
    const rapt_self_v2_config config = {.d_in = 3, .d_out = 2, .qkv_bias = bias};
    rapt_self_v2 m;
    OK(rapt_self_v2_init(context(), &m, &config, &g));
    return m;
}

Test(exercises, exercise_3_1) {
    rapt_self_v2 v2 = make_v2(123, 0);
    rapt_self_v1 v1;
    OK(rapt_self_v1_init(context(), &v1, 3, 2, NULL));
    OK(rapt_self_v1_from_v2(&v1, &v2));
    const rapt_tensor x = sentence(), out_1 = POOL_F32(6, 2), out_2 = POOL_F32(6, 2);
    OK(rapt_self_v1_forward(context(), &v1, &(rapt_module_call){.x = &x, .out = &out_1}));
    OK(rapt_self_v2_forward(context(), &v2, &(rapt_module_call){.x = &x, .out = &out_2}));
    PRINTED(&out_1, "exercise_3_1/context_vecs_v1");
    PRINTED(&out_2, "exercise_3_1/context_vecs_v2");
    rapt_self_v1_free(&v1);
    rapt_self_v2_free(&v2);
}

/* ---- Exercise 3.2: two-dimensional outputs from two heads ---- */

#define E32 "exercise_3_2/"

/* A causal head whose softmax goes over the queries: the mistake behind the printed numbers. */
static void wrong_axis(const rapt_causal_attention *head, const rapt_tensor *x,
                       const rapt_tensor *out) {
    const rapt_tensor q = POOL_F32(2, 6, 1), k = POOL_F32(2, 6, 1), v = POOL_F32(2, 6, 1);
    const rapt_tensor scores = POOL_F32(2, 6, 6);
    OK(rapt_linear_forward(context(), &head->query, x, &q));
    OK(rapt_linear_forward(context(), &head->key, x, &k));
    OK(rapt_linear_forward(context(), &head->value, x, &v));
    multiply(&q, rapt_tensor_transpose(k), 1.0f, &scores);
    OK(rapt_mask_fill(context(), RAPT_CAUSAL_TOP_LEFT, -INFINITY, &scores));
    OK(rapt_softmax_axis(context(), &scores, -2, &scores));
    multiply(&scores, v, 1.0f, out);
}

/* Printed with five significant digits. */
static void expect_scientific(const rapt_tensor *got, const char *path) {
    const rapt_tensor want = golden_tensor(path);
    walk w = walk_begin(&want);
    for (walk v = walk_begin(got); !v.done; walk_next(&v), walk_next(&w)) {
        const double number = (double)*walk_f32(&w), digit = floor(log10(fabs(number))) - 4;
        REQUIRE(fabs((double)*walk_f32(&v) - number) <= 0.5 * pow(10.0, digit) + 4e-7, "%s: %.9g",
                path, number);
    }
}

Test(exercises, exercise_3_2) {
    rapt_generator g = seeded(123);
    const rapt_causal_config config = {.d_in = 3, .d_out = 1, .context_length = 6};
    rapt_stacked m;
    OK(rapt_stacked_init(context(), &m, &config, 2, &g));
    rapt_parameter list[6];
    REQUIRE(rapt_stacked_parameters(&m, list, 6) == 6, "six weights");
    expect_bits(list, 6, "heads.0.", ".weight", "linear_seed_123_3_to_1_heads/head_0");
    expect_bits(list, 6, "heads.1.", ".weight", "linear_seed_123_3_to_1_heads/head_1");

    const rapt_tensor x = sentence_twice(), out = POOL_F32(2, 6, 2), wrong = POOL_F32(2, 6, 2);
    OK(rapt_stacked_forward(context(), &m, &(rapt_module_call){.x = &x, .out = &out}));
    DERIVED(&out, E32 "context_vecs_correct/values");
    REQUIRE(golden_distance(&out, E32 "context_vecs_printed_stale_wrong_axis") > 0.5,
            "the printed numbers come from a softmax over the wrong axis");
    for (int64_t h = 0; h < 2; h++) {
        const rapt_tensor column = rapt_tensor_slice(wrong, 2, h, 1);
        wrong_axis(&m.head[h], &x, &column);
    }
    expect_scientific(&wrong, E32 "context_vecs_printed_stale_wrong_axis");
    rapt_stacked_free(&m);
}

/* ---- Exercise 3.3: GPT-2's attention module ---- */

#define E33 "derived/exercise_3_3_module_seed_123/"

static rapt_tensor first_8(const rapt_tensor *t) { return rapt_tensor_1d(RAPT_F32, t->data, 8); }

static void expect_samples(const rapt_tensor *out) {
    for (int n = 0; n < 5; n++) {
        char path[128];
        snprintf(path, sizeof path, E33 "output_samples_first_8_features/%d/batch", n);
        const int64_t b = (int64_t)golden_number(path);
        snprintf(path, sizeof path, E33 "output_samples_first_8_features/%d/token", n);
        const int64_t t = (int64_t)golden_number(path);
        snprintf(path, sizeof path, E33 "output_samples_first_8_features/%d/values", n);
        const rapt_tensor row =
            rapt_tensor_1d(RAPT_F32, (float *)out->data + (b * 1024 + t) * 768, 8);
        golden_derived(&row, path, 1.2e-6, __LINE__); /* twice PyTorch's own distance */
    }
}

static void expect_statistics(const rapt_tensor *out) {
    const float *value = out->data;
    double sum = 0, absolute = 0, largest = 0;
    const int64_t count = pool_count(out);
    for (int64_t n = 0; n < count; n++) {
        const double x = (double)value[n];
        sum += x;
        absolute += fabs(x);
        largest = fmax(largest, fabs(x));
    }
    REQUIRE(fabs(sum - golden_number(E33 "output_sum")) < 1e-2, "sum %.9g", sum);
    REQUIRE(fabs(absolute / (double)count - golden_number(E33 "output_mean_abs")) < 1e-8, "mean");
    REQUIRE(fabs(largest - golden_number(E33 "output_max_abs")) < 1.2e-6, "max %.9g", largest);
}

Test(exercises, exercise_3_3, .timeout = 120) {
    rapt_generator g = seeded(123);
    const rapt_split_config config = {
        .d_in = 768, .d_out = 768, .context_length = 1024, .heads = 12};
    rapt_split m;
    OK(rapt_split_init(context(), &m, &config, &g));
    rapt_parameter list[8];
    const int64_t count = rapt_split_parameters(&m, list, 8);
    REQUIRE(count == 5, "%d parameters", (int)count);
    const int64_t elements = rapt_parameter_count(list, count);
    REQUIRE((double)elements == golden_number("exercise_3_3/parameter_count"), "%lld elements",
            (long long)elements);
    static const char *const name[5][2] = {{"W_query.weight", "W_query"},
                                           {"W_key.weight", "W_key"},
                                           {"W_value.weight", "W_value"},
                                           {"out_proj.weight", "out_proj_weight"},
                                           {"out_proj.bias", "out_proj_bias"}};
    for (int n = 0; n < 5; n++) {
        char path[96];
        snprintf(path, sizeof path, "exercise_3_3/parameter_breakdown/%s", name[n][1]);
        REQUIRE(strcmp(list[n].name, name[n][0]) == 0, "%s", list[n].name);
        REQUIRE((double)pool_count(&list[n].tensor) == golden_number(path), "%s", path);
    }
    const rapt_tensor x = POOL_F32(2, 1024, 768), out = POOL_F32(2, 1024, 768);
    OK(rapt_generator_uniform(context(), &g, 0.0f, 1.0f, &x));
    const rapt_tensor heads[] = {first_8(&x), first_8(&m.query.weight), first_8(&m.out_proj.bias)};
    golden_derived(&heads[0], E33 "input_first_8", 1e-9, __LINE__);
    golden_derived(&heads[1], E33 "W_query_first_8", 1e-9, __LINE__);
    golden_derived(&heads[2], E33 "out_proj_bias_first_8", 1e-9, __LINE__);
    if (!SMALL) {
        OK(rapt_split_forward(context(), &m, &(rapt_module_call){.x = &x, .out = &out}));
        expect_samples(&out);
        expect_statistics(&out);
    }
    rapt_split_free(&m);
}

/* ---- "Understanding buffers" ---- */

static void expect_causal(const rapt_causal_attention *m, const char *golden, const char *derived) {
    static const char *const role[] = {"W_query", "W_key", "W_value"};
    rapt_parameter list[3];
    char path[128];
    REQUIRE(rapt_causal_parameters(m, list, 3) == 3, "three weights");
    for (int n = 0; n < 3; n++) {
        snprintf(path, sizeof path, "bonus_understanding_buffers/%s/%s", golden, role[n]);
        PRINTED(&list[n].tensor, path);
    }
    expect_bits(list, 3, "", ".weight", derived);
    const rapt_tensor x = sentence_twice(), out = POOL_F32(2, 6, 2);
    OK(rapt_causal_forward(context(), m, &(rapt_module_call){.x = &x, .out = &out}));
    snprintf(path, sizeof path, "bonus_understanding_buffers/%s/context_vecs", golden);
    PRINTED(&out, path);
}

Test(exercises, understanding_buffers) {
    rapt_generator g = seeded(123);
    const rapt_causal_config config = {.d_in = 3, .d_out = 2, .context_length = 6};
    rapt_causal_attention first, second;
    OK(rapt_causal_init(context(), &first, &config, &g));
    OK(rapt_causal_init(context(), &second, &config, &g));
    expect_causal(&first, "first_module", "linear_seed_123_3_to_2_head_0");
    expect_causal(&second, "second_module", "linear_seed_123_3_to_2_head_1");
    const rapt_tensor mask = POOL_F32(6, 6);
    for (int n = 0; n < 36; n++) ((float *)mask.data)[n] = 0.0f;
    OK(rapt_mask_fill(context(), RAPT_CAUSAL_TOP_LEFT, 1.0f, &mask));
    golden_derived(&mask, "bonus_understanding_buffers/mask_buffer", 0.0, __LINE__);
    rapt_causal_free(&first);
    rapt_causal_free(&second);
}

/* ---- Values of the chapter's modules with more digits ---- */

Test(exercises, derived_self_attention) {
    const rapt_tensor x = sentence(), out = POOL_F32(6, 2);
    const rapt_module_call call = {.x = &x, .out = &out};
    rapt_parameter list[6];
    rapt_generator g = seeded(123);
    rapt_self_v1 v1;
    OK(rapt_self_v1_init(context(), &v1, 3, 2, &g));
    REQUIRE(rapt_self_v1_parameters(&v1, list, 6) == 3, "three matrices");
    expect_bits(list, 3, "", "", "rand_seed_123");
    OK(rapt_self_v1_forward(context(), &v1, &call));
    DERIVED(&out, "derived/self_attention_v1_seed_123/context");
    const rapt_tensor q = POOL_F32(6, 2), k = POOL_F32(6, 2), scores = POOL_F32(6, 6);
    multiply(&x, v1.w_query, 1.0f, &q);
    multiply(&x, v1.w_key, 1.0f, &k);
    multiply(&q, rapt_tensor_transpose(k), 1.0f, &scores);
    DERIVED(&scores, "derived/self_attention_v1_seed_123/attn_scores");
    rapt_self_v1_free(&v1);

    rapt_self_v2 v2 = make_v2(789, 0);
    REQUIRE(rapt_self_v2_parameters(&v2, list, 6) == 3, "three weights");
    expect_bits(list, 3, "", ".weight", "linear_seed_789_3_to_2");
    OK(rapt_self_v2_forward(context(), &v2, &call));
    DERIVED(&out, "derived/self_attention_v2_seed_789/context");
    OK(rapt_linear_forward(context(), &v2.query, &x, &q));
    OK(rapt_linear_forward(context(), &v2.key, &x, &k));
    multiply(&q, rapt_tensor_transpose(k), 1.0f, &scores);
    DERIVED(&scores, "derived/self_attention_v2_seed_789/attn_scores");
    rapt_self_v2_free(&v2);
}

Test(exercises, derived_biases) {
    const rapt_tensor x = sentence(), out = POOL_F32(6, 2);
    rapt_self_v2 m = make_v2(789, 1);
    rapt_parameter list[6];
    REQUIRE(rapt_self_v2_parameters(&m, list, 6) == 6, "weights and biases");
    static const char *const role[] = {"W_query", "W_key", "W_value"};
    for (int n = 0; n < 3; n++) {
        char path[128];
        snprintf(path, sizeof path,
                 "derived/self_attention_v2_seed_789_with_qkv_bias/params/%s/weight/float32_bits",
                 role[n]);
        golden_bits(&list[2 * n].tensor, path, __LINE__);
        snprintf(path, sizeof path,
                 "derived/self_attention_v2_seed_789_with_qkv_bias/params/%s/bias/float32_bits",
                 role[n]);
        golden_bits(&list[2 * n + 1].tensor, path, __LINE__);
    }
    OK(rapt_self_v2_forward(context(), &m, &(rapt_module_call){.x = &x, .out = &out}));
    DERIVED(&out, "derived/self_attention_v2_seed_789_with_qkv_bias/context");
    rapt_self_v2_free(&m);
}

#define CAUSAL_123 "derived/causal_attention_seed_123/"

Test(exercises, derived_causal) {
    const rapt_causal_config config = {.d_in = 3, .d_out = 2, .context_length = 6};
    rapt_generator g = seeded(123);
    rapt_causal_attention m;
    OK(rapt_causal_init(context(), &m, &config, &g));
    const rapt_tensor x = sentence_twice(), out = POOL_F32(2, 6, 2), weights = POOL_F32(2, 6, 6);
    OK(rapt_causal_forward(context(), &m,
                           &(rapt_module_call){.x = &x, .out = &out, .weights = &weights}));
    const rapt_tensor first[] = {item(&out, 0), item(&weights, 0)};
    DERIVED(&first[0], CAUSAL_123 "context_batch_0");
    DERIVED(&first[1], CAUSAL_123 "attn_weights_batch_0");
    const rapt_tensor words = sentence(), q = POOL_F32(6, 2), k = POOL_F32(6, 2);
    const rapt_tensor scores = POOL_F32(6, 6);
    OK(rapt_linear_forward(context(), &m.query, &words, &q));
    OK(rapt_linear_forward(context(), &m.key, &words, &k));
    multiply(&q, rapt_tensor_transpose(k), 1.0f, &scores);
    DERIVED(&scores, CAUSAL_123 "scores_unscaled_unmasked_batch_0");

    /* the weights of section 3.4.2's v2 in a causal module */
    rapt_self_v2 v2 = make_v2(789, 0);
    rapt_causal_attention same = m;
    same.query = v2.query;
    same.key = v2.key;
    same.value = v2.value;
    const rapt_tensor alone = POOL_F32(6, 2);
    OK(rapt_causal_forward(context(), &same, &(rapt_module_call){.x = &words, .out = &alone}));
    DERIVED(&alone, "derived/self_attention_v2_seed_789/causal_context");
    rapt_self_v2_free(&v2);
    rapt_causal_free(&m);
}

#define DROPOUT_123 "derived/causal_attention_seed_123_dropout_0_5_training/"

/* The pattern that a generator in the state of `g` gives nn.Dropout, beside the golden one. */
static void expect_pattern(rapt_generator g) {
    const rapt_tensor keep = POOL_BOOL(2, 6, 6), drawn = POOL_F32(2, 6, 6);
    OK(rapt_generator_keep(context(), &g, 0.5, &keep));
    for (int n = 0; n < 72; n++) ((float *)drawn.data)[n] = ((uint8_t *)keep.data)[n];
    golden_derived(&drawn, DROPOUT_123 "full_keep_mask_before_causal_zeros", 0.0, __LINE__);
    OK(rapt_mask_fill(context(), RAPT_CAUSAL_TOP_LEFT, 0.0f, &drawn));
    golden_derived(&drawn, DROPOUT_123 "keep_mask", 0.0, __LINE__);
}

Test(exercises, derived_dropout) {
    for (int route = 0; route < 2; route++) {
        const rapt_causal_config config = {.d_in = 3,
                                           .d_out = 2,
                                           .context_length = 6,
                                           .dropout = 0.5,
                                           .route = (rapt_mask_route)route};
        rapt_generator g = seeded(123);
        rapt_causal_attention m;
        OK(rapt_causal_init(context(), &m, &config, &g));
        expect_pattern(g);
        const rapt_tensor x = sentence_twice(), out = POOL_F32(2, 6, 2);
        const rapt_module_call call = {.x = &x, .out = &out, .training = 1, .generator = &g};
        OK(rapt_causal_forward(context(), &m, &call));
        DERIVED(&out, DROPOUT_123 "context");
        rapt_generator expected = seeded(123);
        for (int n = 0; n < 18 + 144; n++) rapt_generator_next(&expected);
        REQUIRE(rapt_generator_next(&g) == rapt_generator_next(&expected), "144 words drawn");
        rapt_causal_free(&m);
    }
}

#define SPLIT_123 "derived/multi_head_attention_seed_123/"

static rapt_split make_split(int64_t d_out) {
    rapt_generator g = seeded(123);
    const rapt_split_config config = {.d_in = 3, .d_out = d_out, .context_length = 6, .heads = 2};
    rapt_split m;
    OK(rapt_split_init(context(), &m, &config, &g));
    return m;
}

Test(exercises, derived_split) {
    rapt_split m = make_split(2);
    golden_bits(&m.out_proj.weight, SPLIT_123 "out_proj_weight/float32_bits", __LINE__);
    golden_bits(&m.out_proj.bias, SPLIT_123 "out_proj_bias/float32_bits", __LINE__);
    const rapt_tensor x = sentence_twice(), out = POOL_F32(2, 6, 2), weights = POOL_F32(2, 2, 6, 6);
    const rapt_module_call call = {.x = &x, .out = &out, .weights = &weights};
    OK(rapt_split_forward(context(), &m, &call));
    const rapt_tensor first[] = {item(&out, 0), item(&weights, 0)};
    DERIVED(&first[0], SPLIT_123 "output_batch_0");
    DERIVED(&first[1], SPLIT_123 "attn_weights_batch_0");
    m.config.no_out_proj = 1;
    OK(rapt_split_forward(context(), &m, &call));
    DERIVED(&first[0], SPLIT_123 "context_before_out_proj_batch_0");
    rapt_split_free(&m);
}

#define SPLIT_4 "derived/multi_head_attention_seed_123_d_out_4/"

Test(exercises, derived_split_of_four_features) {
    rapt_split m = make_split(4);
    const rapt_tensor x = sentence(), out = POOL_F32(6, 4);
    OK(rapt_split_forward(context(), &m, &(rapt_module_call){.x = &x, .out = &out}));
    DERIVED(&out, SPLIT_4 "output_batch_0");
    m.config.no_out_proj = 1;
    OK(rapt_split_forward(context(), &m, &(rapt_module_call){.x = &x, .out = &out}));
    DERIVED(&out, SPLIT_4 "context_before_out_proj_batch_0");
    rapt_split_free(&m);
}

/* ---- Sizes ---- */

static rapt_tensor sized(const char *path) {
    const rapt_tensor sizes = golden_tensor(path);
    int64_t size[3];
    for (int n = 0; n < 3; n++) size[n] = (int64_t)((const float *)sizes.data)[n];
    rapt_tensor t = pool_tensor(RAPT_F32, 3, size);
    if (strstr(path, "input")) memset(t.data, 0, (size_t)pool_count(&t) * sizeof(float));
    return t;
}

Test(exercises, shapes_of_the_other_notebooks) {
    const rapt_tensor x = sized("shapes_only/minimal_notebook/input");
    const rapt_tensor joined = sized("shapes_only/minimal_notebook/wrapper/output");
    const rapt_tensor out = sized("shapes_only/minimal_notebook/multi_head/output");
    rapt_stacked stacked;
    OK(rapt_stacked_init(context(), &stacked,
                         &(rapt_causal_config){.d_in = 256, .d_out = 128, .context_length = 4}, 2,
                         NULL));
    OK(rapt_stacked_forward(context(), &stacked, &(rapt_module_call){.x = &x, .out = &joined}));
    const rapt_tensor square = POOL_F32(256, 256);
    memset(square.data, 0, 256 * 256 * sizeof(float));
    OK(rapt_linear_forward(context(), &(rapt_linear){.weight = square}, &joined, &out));
    rapt_stacked_free(&stacked);

    const struct {
        const char *in, *out;
        int64_t d_in, d_out, context_length;
    } split[] = {{"minimal_notebook/input", "minimal_notebook/multi_head/output", 256, 256, 4},
                 {"package_unit_test/input", "package_unit_test/output", 256, 16, 100}};
    for (int n = 0; n < 2; n++) {
        char path[128];
        snprintf(path, sizeof path, "shapes_only/%s", split[n].in);
        const rapt_tensor from = sized(path);
        snprintf(path, sizeof path, "shapes_only/%s", split[n].out);
        const rapt_tensor to = sized(path);
        const rapt_split_config config = {.d_in = split[n].d_in,
                                          .d_out = split[n].d_out,
                                          .context_length = split[n].context_length,
                                          .heads = 2};
        rapt_split m;
        OK(rapt_split_init(context(), &m, &config, NULL));
        OK(rapt_split_forward(context(), &m, &(rapt_module_call){.x = &from, .out = &to}));
        for (walk w = walk_begin(&to); !w.done; walk_next(&w)) {
            REQUIRE(*walk_f32(&w) == 0.0f, "all of the output is written, zeros from zeros");
        }
        rapt_split_free(&m);
    }
}
