/* SPDX-License-Identifier: MIT
 * test_safetensors_modules.c: every module goes into a file and comes back; state_dicts of the
 * chapter's modules, as the Python package wrote them, masks included, are what the same seed draws
 * here. */
#include "folder.h"

#include <criterion/criterion.h>

#include <rapt/rapt.h>
#include <rapt/safetensors.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATA(name) RAPT_TEST_DATA "/" name ".safetensors"

enum { CAPACITY = 32 };

/* The parameters of one module. */
typedef struct listing {
    rapt_parameter item[CAPACITY];
    int64_t count;
} listing;

static rapt_context *context;
static rapt_generator generator;

static void set_up(void) {
    cr_assert_eq(rapt_context_create(&context, NULL), RAPT_OK);
    rapt_generator_seed(&generator, 123);
}

static void tear_down(void) { rapt_context_destroy(context); }

TestSuite(safetensors_modules, .init = set_up, .fini = tear_down);

static void expect_equal(const listing *got, const listing *want, const char *what) {
    cr_assert_eq(got->count, want->count, "%s", what);
    for (int64_t i = 0; i < got->count; i++) {
        const rapt_tensor *g = &got->item[i].tensor, *w = &want->item[i].tensor;
        const size_t bytes = 4 * (size_t)rapt_parameter_count(&want->item[i], 1);
        cr_expect_str_eq(got->item[i].name, want->item[i].name);
        cr_expect_gt(bytes, 0);
        cr_expect_neq(g->data, w->data);
        cr_expect_eq(memcmp(g->data, w->data, bytes), 0, "%s: %s", what, want->item[i].name);
    }
}

static void load(const char *path, const char *prefix, const listing *list) {
    rapt_safetensors *file = NULL;
    cr_assert_eq(rapt_safetensors_open(&file, path), RAPT_OK);
    const rapt_status status = rapt_safetensors_load(file, prefix, list->item, list->count);
    cr_expect_eq(status, RAPT_OK, "%s", rapt_safetensors_message(file));
    rapt_safetensors_close(file);
}

/* `zeros` lists a second module of the same configuration, initialised without a generator. */
static void expect_round_trip(const listing *drawn, const listing *zeros, int64_t elements) {
    char message[256] = "";
    folder f;
    folder_make(&f);
    cr_expect_eq(rapt_parameter_count(drawn->item, drawn->count), elements);
    const char *path = folder_file(&f, "module.safetensors");
    const rapt_status status = rapt_safetensors_save(path, drawn->item, drawn->count, message);
    cr_assert_eq(status, RAPT_OK, "%s", message);
    load(path, NULL, zeros);
    expect_equal(zeros, drawn, "round trip");
    folder_remove(&f);
}

Test(safetensors_modules, self_v1) {
    rapt_self_v1 a, b;
    listing la, lb;
    cr_assert_eq(rapt_self_v1_init(context, &a, 3, 2, &generator), RAPT_OK);
    cr_assert_eq(rapt_self_v1_init(context, &b, 3, 2, NULL), RAPT_OK);
    la.count = rapt_self_v1_parameters(&a, la.item, CAPACITY);
    lb.count = rapt_self_v1_parameters(&b, lb.item, CAPACITY);
    cr_expect_str_eq(la.item[0].name, "W_query");
    expect_round_trip(&la, &lb, 18);
    rapt_self_v1_free(&a);
    rapt_self_v1_free(&b);
}

Test(safetensors_modules, self_v2) {
    const rapt_self_v2_config config = {.d_in = 5, .d_out = 4, .qkv_bias = 1};
    rapt_self_v2 a, b;
    listing la, lb;
    cr_assert_eq(rapt_self_v2_init(context, &a, &config, &generator), RAPT_OK);
    cr_assert_eq(rapt_self_v2_init(context, &b, &config, NULL), RAPT_OK);
    la.count = rapt_self_v2_parameters(&a, la.item, CAPACITY);
    lb.count = rapt_self_v2_parameters(&b, lb.item, CAPACITY);
    expect_round_trip(&la, &lb, INT64_C(3) * (20 + 4));
    rapt_self_v2_free(&a);
    rapt_self_v2_free(&b);
}

Test(safetensors_modules, causal) {
    const rapt_causal_config config = {.d_in = 3, .d_out = 2, .context_length = 6};
    rapt_causal_attention a, b;
    listing la, lb;
    cr_assert_eq(rapt_causal_init(context, &a, &config, &generator), RAPT_OK);
    cr_assert_eq(rapt_causal_init(context, &b, &config, NULL), RAPT_OK);
    la.count = rapt_causal_parameters(&a, la.item, CAPACITY);
    lb.count = rapt_causal_parameters(&b, lb.item, CAPACITY);
    expect_round_trip(&la, &lb, 18);
    memset(b.query.weight.data, 0, 6 * sizeof(float));
    load(DATA("causal"), NULL, &lb);
    expect_equal(&lb, &la, "state_dict");
    memset(b.query.weight.data, 0, 6 * sizeof(float));
    load(DATA("stacked"), "heads.0.", &lb);
    expect_equal(&lb, &la, "state_dict of a larger module");
    rapt_causal_free(&a);
    rapt_causal_free(&b);
}

Test(safetensors_modules, stacked) {
    const rapt_causal_config config = {.d_in = 3, .d_out = 2, .context_length = 6};
    rapt_stacked a, b;
    listing la, lb;
    cr_assert_eq(rapt_stacked_init(context, &a, &config, 2, &generator), RAPT_OK);
    cr_assert_eq(rapt_stacked_init(context, &b, &config, 2, NULL), RAPT_OK);
    la.count = rapt_stacked_parameters(&a, la.item, CAPACITY);
    lb.count = rapt_stacked_parameters(&b, lb.item, CAPACITY);
    expect_round_trip(&la, &lb, 36);
    memset(b.head[1].key.weight.data, 0, 6 * sizeof(float));
    load(DATA("stacked"), NULL, &lb);
    expect_equal(&lb, &la, "state_dict");
    rapt_stacked_free(&a);
    rapt_stacked_free(&b);
}

Test(safetensors_modules, split) {
    const rapt_split_config config = {.d_in = 3, .d_out = 2, .context_length = 6, .heads = 2};
    rapt_split a, b;
    listing la, lb;
    cr_assert_eq(rapt_split_init(context, &a, &config, &generator), RAPT_OK);
    cr_assert_eq(rapt_split_init(context, &b, &config, NULL), RAPT_OK);
    la.count = rapt_split_parameters(&a, la.item, CAPACITY);
    lb.count = rapt_split_parameters(&b, lb.item, CAPACITY);
    expect_round_trip(&la, &lb, 18 + 4 + 2);
    memset(b.out_proj.weight.data, 0, 4 * sizeof(float));
    load(DATA("split"), NULL, &lb);
    expect_equal(&lb, &la, "state_dict");
    rapt_split_free(&a);
    rapt_split_free(&b);
}

/* Cross-attention with all biases; another shape than the file's is refused and changes nothing. */
Test(safetensors_modules, split_in_full) {
    rapt_split_config config = {
        .d_in = 6, .d_out = 4, .heads = 2, .qkv_bias = 1, .key_dim = 5, .value_dim = 3};
    rapt_split a, b;
    listing la, lb;
    cr_assert_eq(rapt_split_init(context, &a, &config, &generator), RAPT_OK);
    cr_assert_eq(rapt_split_init(context, &b, &config, NULL), RAPT_OK);
    la.count = rapt_split_parameters(&a, la.item, CAPACITY);
    lb.count = rapt_split_parameters(&b, lb.item, CAPACITY);
    cr_expect_eq(la.count, 8);
    expect_round_trip(&la, &lb, 4 * (6 + 5 + 3 + 4) + 4 * 4);
    rapt_safetensors *file = NULL;
    cr_assert_eq(rapt_safetensors_open(&file, DATA("split")), RAPT_OK);
    const rapt_status status = rapt_safetensors_load(file, NULL, lb.item, lb.count);
    cr_expect(status == RAPT_ERR_SHAPE || status == RAPT_ERR_ARGUMENT);
    expect_equal(&lb, &la, "after a refused file");
    rapt_safetensors_close(file);
    rapt_split_free(&a);
    rapt_split_free(&b);
}
