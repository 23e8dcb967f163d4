/* SPDX-License-Identifier: MIT
 * test_golden.c: every number printed in Raschka's chapter 3, to its last digit, through the public
 * calls alone and in the order of the text. */
#include "chapter.h"

#include <criterion/criterion.h>

TestSuite(golden, .fini = pool_free);

static rapt_tensor row(const rapt_tensor *matrix, int64_t i) {
    return rapt_tensor_slice(*matrix, 0, i, 1);
}

/* ---- 3.3 ---- */

#define S331 "sec_3_3_1_simple_self_attention_token_2/"

Test(golden, section_3_3_1_one_query) {
    const rapt_tensor x = sentence(), scores = POOL_F32(6), weights = POOL_F32(6),
                      out = POOL_F32(3);
    OK(rapt_simple_attention_query(context(), &x, 1, &scores, &weights, &out));
    PRINTED(&scores, S331 "attn_scores");
    PRINTED(&weights, S331 "attn_weights_softmax");
    PRINTED(&out, S331 "context_vector");
    const rapt_tensor first = rapt_tensor_contiguous(RAPT_F32, scores.data, 0, NULL);
    PRINTED(&first, S331 "dot_product_of_input_0_and_query");

    const rapt_tensor again = POOL_F32(6);
    OK(rapt_softmax(context(), &scores, &again));
    PRINTED(&again, S331 "attn_weights_softmax");
    OK(rapt_softmax_naive(context(), &scores, &again));
    PRINTED(&again, S331 "attn_weights_naive_softmax");
    const rapt_tensor shares = rapt_tensor_2d(RAPT_F32, scores.data, 1, 6);
    OK(rapt_normalise_rows(context(), &shares));
    PRINTED(&scores, S331 "attn_weights_divided_by_sum");

    const rapt_tensor *const rows[] = {&weights, &again, &scores};
    for (int n = 0; n < 3; n++) {
        double error = 1.0;
        OK(rapt_row_sum_error(context(), rows[n], &error));
        REQUIRE(error < 0.5e-4, "the sum is printed as 1.0000"); /* as all three sums are */
    }
}

#define S332 "sec_3_3_2_simple_self_attention_all_tokens/"

Test(golden, section_3_3_2_all_tokens) {
    const rapt_tensor x = sentence(), scores = POOL_F32(6, 6), weights = POOL_F32(6, 6),
                      out = POOL_F32(6, 3);
    OK(rapt_simple_attention(context(), &x, &scores, &weights, &out));
    PRINTED(&scores, S332 "attn_scores");
    PRINTED(&weights, S332 "attn_weights");
    PRINTED(&out, S332 "context_vecs");
    double error = 1.0;
    OK(rapt_row_sum_error(context(), &weights, &error));
    REQUIRE(error < 0.5e-4, "row sums are printed as 1.0000");
    rapt_tensor second = row(&out, 1);
    second = rapt_tensor_1d(RAPT_F32, second.data, 3);
    PRINTED(&second, S332 "context_vector_row_1_again");
}

/* ---- 3.4 ---- */

#define S341 "sec_3_4_1_trainable_step_by_step/"

Test(golden, section_3_4_1_step_by_step) {
    rapt_generator g = seeded(123);
    rapt_self_v1 m;
    OK(rapt_self_v1_init(context(), &m, 3, 2, &g));
    const rapt_tensor x = sentence(), x_2 = row(&x, 1);
    const rapt_tensor query_2 = POOL_F32(1, 2), keys = POOL_F32(6, 2), values = POOL_F32(6, 2);
    multiply(&x_2, m.w_query, 1.0f, &query_2);
    multiply(&x, m.w_key, 1.0f, &keys);
    multiply(&x, m.w_value, 1.0f, &values);
    const rapt_tensor scores = POOL_F32(1, 6), scaled = POOL_F32(1, 6), out = POOL_F32(1, 2);
    multiply(&query_2, rapt_tensor_transpose(keys), 1.0f, &scores);
    multiply(&query_2, rapt_tensor_transpose(keys), 0.70710678f, &scaled); /* 1 / sqrt(d_k) */
    OK(rapt_softmax(context(), &scaled, &scaled));
    multiply(&scaled, values, 1.0f, &out);

    const rapt_tensor flat[] = {
        rapt_tensor_1d(RAPT_F32, query_2.data, 2), rapt_tensor_1d(RAPT_F32, scores.data, 6),
        rapt_tensor_1d(RAPT_F32, scaled.data, 6), rapt_tensor_1d(RAPT_F32, out.data, 2),
        rapt_tensor_contiguous(RAPT_F32, (float *)scores.data + 1, 0, 0)};
    PRINTED(&flat[0], S341 "query_2");
    PRINTED(&flat[1], S341 "attn_scores_2");
    PRINTED(&flat[2], S341 "attn_weights_2");
    PRINTED(&flat[3], S341 "context_vec_2");
    PRINTED(&flat[4], S341 "attn_score_22");
    rapt_self_v1_free(&m);
}

Test(golden, section_3_4_2_v1) {
    rapt_generator g = seeded(123);
    rapt_self_v1 m;
    OK(rapt_self_v1_init(context(), &m, 3, 2, &g));
    const rapt_tensor x = sentence(), out = POOL_F32(6, 2);
    OK(rapt_self_v1_forward(context(), &m, &(rapt_module_call){.x = &x, .out = &out}));
    PRINTED(&out, "sec_3_4_2_self_attention_v1/context_vecs");
    rapt_self_v1_free(&m);
}

/* The module that sections 3.4.2 and 3.5.1 share. */
static rapt_self_v2 make_v2(void) {
    rapt_generator g = seeded(789);
    rapt_self_v2 m;
    OK(rapt_self_v2_init(context(), &m, &(rapt_self_v2_config){.d_in = 3, .d_out = 2}, &g));
    return m;
}

Test(golden, section_3_4_2_v2) {
    rapt_self_v2 m = make_v2();
    const rapt_tensor x = sentence(), out = POOL_F32(6, 2);
    OK(rapt_self_v2_forward(context(), &m, &(rapt_module_call){.x = &x, .out = &out}));
    PRINTED(&out, "sec_3_4_2_self_attention_v2/context_vecs");
    rapt_self_v2_free(&m);
}

/* ---- 3.5 ---- */

#define S351 "sec_3_5_1_causal_mask_steps/"

static const rapt_causal causal = RAPT_CAUSAL_TOP_LEFT;

Test(golden, section_3_5_1_softmax_then_zero_then_renormalise) {
    rapt_self_v2 m = make_v2();
    const rapt_tensor x = sentence(), out = POOL_F32(6, 2), weights = POOL_F32(6, 6);
    const rapt_module_call call = {.x = &x, .out = &out, .weights = &weights};
    OK(rapt_self_v2_forward(context(), &m, &call));
    PRINTED(&weights, S351 "attn_weights_unmasked");
    OK(rapt_mask_fill(context(), causal, 0.0f, &weights));
    PRINTED(&weights, S351 "weights_times_mask");
    OK(rapt_normalise_rows(context(), &weights));
    PRINTED(&weights, S351 "weights_times_mask_renormalised");

    const rapt_tensor ones = POOL_F32(6, 6);
    for (int n = 0; n < 36; n++) ((float *)ones.data)[n] = 1.0f;
    OK(rapt_mask_fill(context(), causal, 0.0f, &ones));
    golden_derived(&ones, S351 "mask_lower_triangular", 0.0, __LINE__);
    rapt_self_v2_free(&m);
}

/* Scores of the section, unscaled, the future at minus infinity. */
static rapt_tensor masked_scores(void) {
    rapt_self_v2 m = make_v2();
    const rapt_tensor x = sentence(), queries = POOL_F32(6, 2), keys = POOL_F32(6, 2);
    const rapt_tensor scores = POOL_F32(6, 6);
    OK(rapt_linear_forward(context(), &m.query, &x, &queries));
    OK(rapt_linear_forward(context(), &m.key, &x, &keys));
    multiply(&queries, rapt_tensor_transpose(keys), 1.0f, &scores);
    OK(rapt_mask_fill(context(), causal, -__builtin_inff(), &scores));
    rapt_self_v2_free(&m);
    return scores;
}

static const rapt_scale root_half = {1, 0.70710678f}; /* 1 / sqrt(d_out) */

Test(golden, section_3_5_1_minus_infinity_then_softmax) {
    const rapt_tensor scores = masked_scores();
    PRINTED(&scores, S351 "masked_scores_unscaled");
    const rapt_tensor heads = rapt_tensor_4d(RAPT_F32, scores.data, 1, 1, 6, 6);
    OK(rapt_attention_softmax(context(), &(rapt_attention){.scale = root_half},
                              &(rapt_attention_softmax_operands){.scores = &heads}));
    PRINTED(&scores, S351 "attn_weights_causal");
}

#define S352 "sec_3_5_2_dropout/"

Test(golden, section_3_5_2_dropout) {
    const rapt_attention what = {.scale = root_half, .dropout = {.training = 1, .p = 0.5}};
    rapt_generator g = seeded(123);
    const rapt_tensor keep = POOL_BOOL(6, 6);
    OK(rapt_generator_keep(context(), &g, 0.5, &keep));
    const rapt_tensor drawn = POOL_F32(6, 6);
    for (int n = 0; n < 36; n++) ((float *)drawn.data)[n] = ((uint8_t *)keep.data)[n];
    golden_derived(&drawn, S352 "keep_mask_default_generator/values", 0.0, __LINE__);

    /* ones: the softmax over a single key */
    const rapt_tensor ones = POOL_F32(1, 6, 6, 1);
    for (int n = 0; n < 36; n++) ((float *)ones.data)[n] = 0.0f;
    const rapt_tensor each = rapt_tensor_3d(RAPT_BOOL, keep.data, 6, 6, 1);
    OK(rapt_attention_softmax(context(), &what,
                              &(rapt_attention_softmax_operands){.scores = &ones, .keep = &each}));
    const rapt_tensor square = rapt_tensor_2d(RAPT_F32, ones.data, 6, 6);
    golden_derived(&square, S352 "dropout_of_ones", 0.0, __LINE__);

    const rapt_tensor scores = masked_scores();
    const rapt_tensor heads = rapt_tensor_4d(RAPT_F32, scores.data, 1, 1, 6, 6);
    OK(rapt_attention_softmax(context(), &what,
                              &(rapt_attention_softmax_operands){.scores = &heads, .keep = &keep}));
    PRINTED(&scores, S352 "dropout_of_causal_weights");
}

Test(golden, section_3_5_3_causal_attention) {
    const rapt_tensor x = sentence_twice();
    for (int route = 0; route < 2; route++) {
        rapt_generator g = seeded(123);
        const rapt_causal_config config = {
            .d_in = 3, .d_out = 2, .context_length = 6, .route = (rapt_mask_route)route};
        rapt_causal_attention m;
        OK(rapt_causal_init(context(), &m, &config, &g));
        const rapt_tensor out = POOL_F32(2, 6, 2);
        OK(rapt_causal_forward(context(), &m, &(rapt_module_call){.x = &x, .out = &out}));
        PRINTED(&out, "sec_3_5_3_causal_attention/context_vecs");
        rapt_causal_free(&m);
    }
}

/* ---- 3.6 ---- */

Test(golden, section_3_6_1_stacked) {
    rapt_generator g = seeded(123);
    const rapt_causal_config config = {.d_in = 3, .d_out = 2, .context_length = 6};
    rapt_stacked m;
    OK(rapt_stacked_init(context(), &m, &config, 2, &g));
    const rapt_tensor x = sentence_twice(), out = POOL_F32(2, 6, 4);
    OK(rapt_stacked_forward(context(), &m, &(rapt_module_call){.x = &x, .out = &out}));
    PRINTED(&out, "sec_3_6_1_multi_head_attention_wrapper/context_vecs");
    rapt_stacked_free(&m);
}

Test(golden, section_3_6_2_split) {
    rapt_generator g = seeded(123);
    const rapt_split_config config = {.d_in = 3, .d_out = 2, .context_length = 6, .heads = 2};
    rapt_split m;
    OK(rapt_split_init(context(), &m, &config, &g));
    const rapt_tensor x = sentence_twice(), out = POOL_F32(2, 6, 2);
    OK(rapt_split_forward(context(), &m, &(rapt_module_call){.x = &x, .out = &out}));
    PRINTED(&out, "sec_3_6_2_multi_head_attention/context_vecs");
    rapt_split_free(&m);
}

#define S362 "sec_3_6_2_batched_matmul_demo/"

Test(golden, section_3_6_2_batched_product) {
    const rapt_tensor a = golden_tensor(S362 "a"), c = POOL_F32(1, 2, 3, 3);
    multiply(&a, rapt_tensor_transpose(a), 1.0f, &c);
    PRINTED(&c, S362 "a_times_a_transposed");
    static const char *const path[] = {S362 "first_head_2d", S362 "second_head_2d"};
    for (int64_t h = 0; h < 2; h++) {
        const rapt_tensor head = rapt_tensor_2d(RAPT_F32, (float *)a.data + h * 12, 3, 4);
        const rapt_tensor product = POOL_F32(3, 3);
        multiply(&head, rapt_tensor_transpose(head), 1.0f, &product);
        PRINTED(&product, path[h]);
    }
}
