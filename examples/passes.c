/* SPDX-License-Identifier: MIT
 * Chapter 3 of Raschka, "Build a Large Language Model (from Scratch)", token by token: the sentence
 * of six tokens through the four passes, each number beside the one that the book prints. Exit
 * status 1 if one of them differs in the last printed digit.
 *
 *   passes [--json FILE]      FILE: the weights of each pass, for scripts/plot_passes.py */
#include "passes_book.h"
#include "passes_report.h"

#include <rapt/rapt.h>

#include <string.h>

enum { SQUARE = TOKENS * TOKENS, BATCH = 2 };

/* What all sections use. */
typedef struct walk {
    rapt_context *ctx;
    report report;
    rapt_tensor x;     /* [TOKENS, D_IN] */
    rapt_tensor batch; /* [BATCH, TOKENS, D_IN]: the sentence twice, in the same memory */
} walk;

static rapt_tensor matrix(float *data, int64_t rows, int64_t columns) {
    return rapt_tensor_2d(RAPT_F32, data, rows, columns);
}

static rapt_tensor square(float *data) { return matrix(data, TOKENS, TOKENS); }

/* product = a b^T */
static rapt_status multiply(rapt_context *ctx, rapt_tensor a, rapt_tensor b, rapt_tensor product) {
    const rapt_tensor transposed = rapt_tensor_transpose(b);
    const rapt_matmul what = {.beta = 0};
    const rapt_matmul_operands operands = {.a = &a, .b = &transposed, .c = &product};
    return rapt_matmul_run(ctx, &what, &operands);
}

/* ---- 3.3 Simple self-attention: scores x x^T, no scaling, nothing to train ---- */

static rapt_status simple_query(walk *w) {
    float scores[TOKENS], weights[TOKENS], context[D_IN];
    const rapt_tensor s = rapt_tensor_1d(RAPT_F32, scores, TOKENS);
    const rapt_tensor p = rapt_tensor_1d(RAPT_F32, weights, TOKENS);
    const rapt_tensor out = rapt_tensor_1d(RAPT_F32, context, D_IN);
    const rapt_status status = rapt_simple_attention_query(w->ctx, &w->x, JOURNEY, &s, &p, &out);
    if (status != RAPT_OK) { return status; }
    report_rows(&w->report, "3.3.1 scores of one query", 1, TOKENS, scores, book_journey_scores);
    report_rows(&w->report, "3.3.1 weights", 1, TOKENS, weights, book_journey_weights);
    report_rows(&w->report, "3.3.1 context vector", 1, D_IN, context, book_journey_context);
    return RAPT_OK;
}

static rapt_status simple_all(walk *w) {
    float scores[SQUARE], weights[SQUARE], context[TOKENS * D_IN];
    const rapt_tensor s = square(scores), p = square(weights), out = matrix(context, TOKENS, D_IN);
    const rapt_status status = rapt_simple_attention(w->ctx, &w->x, &s, &p, &out);
    if (status != RAPT_OK) { return status; }
    report_rows(&w->report, "3.3.2 scores", TOKENS, TOKENS, scores, book_simple_scores);
    report_rows(&w->report, "3.3.2 weights", TOKENS, TOKENS, weights, book_simple_weights);
    report_rows(&w->report, "3.3.2 context vectors", TOKENS, D_IN, context, book_simple_context);
    report_weights(&w->report, "3.3", "simple", weights);
    return RAPT_OK;
}

/* ---- 3.4 Trainable weights ---- */

/* 3.4.1: the query, scores, weights and context vector of "journey", from the matrices of v1. */
static rapt_status one_query(walk *w, const rapt_self_v1 *v1, const float *weights,
                             const float *context) {
    float query[D_OUT], keys[TOKENS * D_OUT], scores[TOKENS];
    const rapt_tensor x2 = rapt_tensor_slice(w->x, 0, JOURNEY, 1), q2 = matrix(query, 1, D_OUT);
    rapt_status status = multiply(w->ctx, x2, rapt_tensor_transpose(v1->w_query), q2);
    if (status == RAPT_OK) {
        status =
            multiply(w->ctx, w->x, rapt_tensor_transpose(v1->w_key), matrix(keys, TOKENS, D_OUT));
    }
    if (status == RAPT_OK) {
        status = multiply(w->ctx, q2, matrix(keys, TOKENS, D_OUT), matrix(scores, 1, TOKENS));
    }
    if (status != RAPT_OK) { return status; }
    report_rows(&w->report, "3.4.1 query", 1, D_OUT, query, book_query_2);
    report_rows(&w->report, "3.4.1 scores", 1, TOKENS, scores, book_scores_2);
    report_rows(&w->report, "3.4.1 weights, scores / sqrt(2)", 1, TOKENS,
                weights + JOURNEY * TOKENS, book_weights_2);
    report_rows(&w->report, "3.4.1 context vector", 1, D_OUT, context + JOURNEY * D_OUT,
                book_context_2);
    return RAPT_OK;
}

static rapt_status self_v1(walk *w) {
    float weights[SQUARE], context[TOKENS * D_OUT];
    const rapt_tensor p = square(weights), out = matrix(context, TOKENS, D_OUT);
    const rapt_module_call call = {.x = &w->x, .out = &out, .weights = &p};
    rapt_generator generator;
    rapt_self_v1 module;
    rapt_generator_seed(&generator, 123);
    rapt_status status = rapt_self_v1_init(w->ctx, &module, D_IN, D_OUT, &generator);
    if (status == RAPT_OK) { status = rapt_self_v1_forward(w->ctx, &module, &call); }
    if (status == RAPT_OK) { status = one_query(w, &module, weights, context); }
    if (status == RAPT_OK) {
        report_rows(&w->report, "3.4.2 form v1, context vectors", TOKENS, D_OUT, context,
                    book_self_v1);
        report_weights(&w->report, "3.4.2", "self, v1", weights);
    }
    rapt_self_v1_free(&module);
    return status;
}

/* v2 with the book's seed; `weights` are those of 3.5.1 before the mask. */
static rapt_status self_v2(walk *w, rapt_self_v2 *module, float *weights) {
    float context[TOKENS * D_OUT];
    const rapt_tensor p = square(weights), out = matrix(context, TOKENS, D_OUT);
    const rapt_module_call call = {.x = &w->x, .out = &out, .weights = &p};
    const rapt_self_v2_config config = {.d_in = D_IN, .d_out = D_OUT};
    rapt_generator generator;
    rapt_generator_seed(&generator, 789);
    rapt_status status = rapt_self_v2_init(w->ctx, module, &config, &generator);
    if (status == RAPT_OK) { status = rapt_self_v2_forward(w->ctx, module, &call); }
    if (status != RAPT_OK) { return status; }
    report_rows(&w->report, "3.4.2 form v2, context vectors", TOKENS, D_OUT, context, book_self_v2);
    report_weights(&w->report, "3.4.2", "self, v2", weights);
    return RAPT_OK;
}

/* ---- 3.5 Causal ---- */

/* 3.5.1, first route: softmax, zero, renormalise. In place, step by step. */
static rapt_status mask_after_softmax(walk *w, float *weights) {
    const rapt_tensor p = square(weights);
    report_rows(&w->report, "3.5.1 weights without a mask", TOKENS, TOKENS, weights, book_unmasked);
    rapt_status status = rapt_mask_fill(w->ctx, RAPT_CAUSAL_TOP_LEFT, 0.0f, &p);
    if (status != RAPT_OK) { return status; }
    report_rows(&w->report, "3.5.1 zero above the diagonal", TOKENS, TOKENS, weights, book_zeroed);
    status = rapt_normalise_rows(w->ctx, &p);
    if (status != RAPT_OK) { return status; }
    report_rows(&w->report, "3.5.1 renormalised", TOKENS, TOKENS, weights, book_renormalised);
    return RAPT_OK;
}

/* 3.5.1, second route: -inf, then softmax. The scores of v2's queries and keys come from its linear
 * layers; `weights` receives what softmax makes of them. */
static rapt_status mask_before_softmax(walk *w, const rapt_self_v2 *v2, float *scores,
                                       float *weights) {
    float queries[TOKENS * D_OUT], keys[TOKENS * D_OUT];
    const rapt_tensor q = matrix(queries, TOKENS, D_OUT), k = matrix(keys, TOKENS, D_OUT);
    const rapt_tensor s = square(scores);
    rapt_status status = rapt_linear_forward(w->ctx, &v2->query, &w->x, &q);
    if (status == RAPT_OK) { status = rapt_linear_forward(w->ctx, &v2->key, &w->x, &k); }
    if (status == RAPT_OK) { status = multiply(w->ctx, q, k, s); }
    if (status == RAPT_OK) { status = rapt_mask_fill(w->ctx, RAPT_CAUSAL_TOP_LEFT, -INFINITY, &s); }
    if (status != RAPT_OK) { return status; }
    report_rows(&w->report, "3.5.1 masked scores", TOKENS, TOKENS, scores, book_masked_scores);

    const float scale = 1.0f / sqrtf((float)D_OUT);
    for (int i = 0; i < SQUARE; i++) { weights[i] = scores[i] * scale; }
    const rapt_tensor p = square(weights);
    status = rapt_softmax(w->ctx, &p, &p);
    if (status != RAPT_OK) { return status; }
    report_rows(&w->report, "3.5.1 softmax of masked scores / sqrt(2)", TOKENS, TOKENS, weights,
                book_causal_weights);
    report_weights(&w->report, "3.5.1", "causal", weights);
    return RAPT_OK;
}

/* 3.5.2: half of the weights dropped, by the draws that PyTorch makes after the same seed. Scale,
 * mask, softmax and dropout are one pass over the scores. */
static rapt_status dropout(walk *w, float *scores) {
    unsigned char kept[SQUARE];
    float ones[SQUARE];
    const rapt_tensor keep = rapt_tensor_2d(RAPT_BOOL, kept, TOKENS, TOKENS);
    rapt_generator generator;
    rapt_generator_seed(&generator, 123);
    rapt_status status = rapt_generator_keep(w->ctx, &generator, 0.5, &keep);
    if (status != RAPT_OK) { return status; }
    for (int i = 0; i < SQUARE; i++) { ones[i] = kept[i] ? 2.0f : 0.0f; }
    report_rows(&w->report, "3.5.2 dropout 0.5 of ones", TOKENS, TOKENS, ones, book_dropped_ones);

    const rapt_tensor s = rapt_tensor_4d(RAPT_F32, scores, 1, 1, TOKENS, TOKENS);
    const rapt_attention what = {.causal = RAPT_CAUSAL_TOP_LEFT,
                                 .scale = {.on = 1, .value = 1.0f / sqrtf((float)D_OUT)},
                                 .dropout = {.training = 1, .p = 0.5}};
    const rapt_attention_softmax_operands operands = {.scores = &s, .keep = &keep};
    status = rapt_attention_softmax(w->ctx, &what, &operands);
    if (status != RAPT_OK) { return status; }
    report_rows(&w->report, "3.5.2 dropout 0.5 of the causal weights", TOKENS, TOKENS, scores,
                book_dropped_weights);
    report_weights(&w->report, "3.5.2", "causal, dropout 0.5", scores);
    return RAPT_OK;
}

/* From v2 of 3.4.2 to its masked and dropped weights. */
static rapt_status self_v2_and_masks(walk *w) {
    float weights[SQUARE], scores[SQUARE];
    rapt_self_v2 module;
    rapt_status status = self_v2(w, &module, weights);
    if (status == RAPT_OK) { status = mask_after_softmax(w, weights); }
    if (status == RAPT_OK) { status = mask_before_softmax(w, &module, scores, weights); }
    if (status == RAPT_OK) { status = dropout(w, scores); }
    rapt_self_v2_free(&module);
    return status;
}

/* 3.5.3: the module, on a batch, by either route. */
static rapt_status causal(walk *w, rapt_mask_route route, const char *title) {
    float context[BATCH * TOKENS * D_OUT];
    const rapt_tensor out = rapt_tensor_3d(RAPT_F32, context, BATCH, TOKENS, D_OUT);
    const rapt_module_call call = {.x = &w->batch, .out = &out};
    const rapt_causal_config config = {
        .d_in = D_IN, .d_out = D_OUT, .context_length = TOKENS, .route = route};
    rapt_generator generator;
    rapt_causal_attention module;
    rapt_generator_seed(&generator, 123);
    rapt_status status = rapt_causal_init(w->ctx, &module, &config, &generator);
    if (status == RAPT_OK) { status = rapt_causal_forward(w->ctx, &module, &call); }
    if (status == RAPT_OK) {
        report_rows(&w->report, title, BATCH * TOKENS, D_OUT, context, book_causal);
    }
    rapt_causal_free(&module);
    return status;
}

/* ---- 3.6 Multi-head ---- */

static rapt_status stacked(walk *w) {
    float context[BATCH * TOKENS * HEADS * D_OUT], weights[BATCH * HEADS * SQUARE];
    const rapt_tensor out = rapt_tensor_3d(RAPT_F32, context, BATCH, TOKENS, HEADS * D_OUT);
    const rapt_tensor p = rapt_tensor_4d(RAPT_F32, weights, BATCH, HEADS, TOKENS, TOKENS);
    const rapt_module_call call = {.x = &w->batch, .out = &out, .weights = &p};
    const rapt_causal_config config = {.d_in = D_IN, .d_out = D_OUT, .context_length = TOKENS};
    rapt_generator generator;
    rapt_stacked module;
    rapt_generator_seed(&generator, 123);
    rapt_status status = rapt_stacked_init(w->ctx, &module, &config, HEADS, &generator);
    if (status == RAPT_OK) { status = rapt_stacked_forward(w->ctx, &module, &call); }
    if (status == RAPT_OK) {
        report_rows(&w->report, "3.6.1 two causal heads, stacked", BATCH * TOKENS, HEADS * D_OUT,
                    context, book_stacked);
        report_weights(&w->report, "3.6.1", "stacked, head 0", weights);
        report_weights(&w->report, "3.6.1", "stacked, head 1", weights + SQUARE);
    }
    rapt_stacked_free(&module);
    return status;
}

static rapt_status split(walk *w) {
    float context[BATCH * TOKENS * D_OUT], weights[BATCH * HEADS * SQUARE];
    const rapt_tensor out = rapt_tensor_3d(RAPT_F32, context, BATCH, TOKENS, D_OUT);
    const rapt_tensor p = rapt_tensor_4d(RAPT_F32, weights, BATCH, HEADS, TOKENS, TOKENS);
    const rapt_module_call call = {.x = &w->batch, .out = &out, .weights = &p};
    const rapt_split_config config = {
        .d_in = D_IN, .d_out = D_OUT, .context_length = TOKENS, .heads = HEADS};
    rapt_generator generator;
    rapt_split module;
    rapt_generator_seed(&generator, 123);
    rapt_status status = rapt_split_init(w->ctx, &module, &config, &generator);
    if (status == RAPT_OK) { status = rapt_split_forward(w->ctx, &module, &call); }
    if (status == RAPT_OK) {
        report_rows(&w->report, "3.6.2 one projection, split into two heads", BATCH * TOKENS, D_OUT,
                    context, book_split);
        report_weights(&w->report, "3.6.2", "split, head 0", weights);
        report_weights(&w->report, "3.6.2", "split, head 1", weights + SQUARE);
    }
    rapt_split_free(&module);
    return status;
}

static rapt_status all_passes(walk *w) {
    printf("\"Your journey starts with one step\": ours | the book's\n");
    rapt_status status = simple_query(w);
    if (status == RAPT_OK) { status = simple_all(w); }
    if (status == RAPT_OK) { status = self_v1(w); }
    if (status == RAPT_OK) { status = self_v2_and_masks(w); }
    if (status == RAPT_OK) {
        status = causal(w, RAPT_MASK_BEFORE_SOFTMAX, "3.5.3 causal, -inf before softmax");
    }
    if (status == RAPT_OK) {
        status = causal(w, RAPT_MASK_AFTER_SOFTMAX, "3.5.3 causal, zero and renormalise after");
    }
    if (status == RAPT_OK) { status = stacked(w); }
    if (status == RAPT_OK) { status = split(w); }
    return status;
}

int main(int argc, char *argv[]) {
    const int64_t size[3] = {BATCH, TOKENS, D_IN}, stride[3] = {0, D_IN, 1};
    walk w = {.x = rapt_tensor_2d(RAPT_F32, inputs, TOKENS, D_IN),
              .batch = rapt_tensor_strided(RAPT_F32, inputs, 3, size, stride)};
    if (argc != 1 && !(argc == 3 && strcmp(argv[1], "--json") == 0)) {
        fprintf(stderr, "usage: passes [--json FILE]\n");
        return 2;
    }
    if (argc == 3 && !report_open(&w.report, argv[2])) {
        perror(argv[2]);
        return 1;
    }
    rapt_status status = rapt_context_create(&w.ctx, NULL);
    if (status == RAPT_OK) { status = all_passes(&w); }
    if (status != RAPT_OK) {
        fprintf(stderr, "%s: %s\n", rapt_status_name(status), rapt_context_message(w.ctx));
    }
    rapt_context_destroy(w.ctx);
    return report_close(&w.report) && status == RAPT_OK ? 0 : 1;
}
