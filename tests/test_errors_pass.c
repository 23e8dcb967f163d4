/* SPDX-License-Identifier: MIT
 * test_errors_pass.c: misuse of rapt_attention_softmax and its size query, and sizes that the
 * dropout generator cannot count. Each is refused with the status that the header names and a
 * message; nothing is written. */
#include "message.h"

#include <rapt/rapt.h>

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { B = 2, H = 3, TQ = 4, TK = 5, ALL = B * H * TQ * TK };

typedef enum operand_id { SCORES, MASK, BIAS, KEY_LENGTHS, KEEP, LSE, OPERANDS } operand_id;
static const char *const names[OPERANDS] = {"scores", "mask", "bias", "key_lengths", "keep", "lse"};

/* Room before each operand, so that scores moved over its first element meet no other. */
typedef struct memory {
    float scores[ALL], before_bias[ALL], bias[TQ * TK], before_mask[ALL];
    unsigned char mask[TQ * TK];
    float before_keep[ALL];
    unsigned char keep[TQ * TK];
    float before_lengths[ALL];
    int32_t lengths[B];
    float before_lse[ALL], lse[B * H * TQ];
} memory;

static struct {
    memory data;
    rapt_tensor t[OPERANDS];
    rapt_attention what;
    rapt_attention_softmax_operands ops;
} call;

static rapt_context *context;
static void open_context(void) { rapt_context_create(&context, NULL); }
static void close_context(void) { rapt_context_destroy(context); }

TestSuite(errors_pass, .init = open_context, .fini = close_context);

static void valid(void) {
    memset(&call, 0, sizeof call);
    memory *m = &call.data;
    for (int n = 0; n < ALL; n++) { m->scores[n] = (float)n; }
    memset(m->mask, 1, sizeof m->mask);
    memset(m->lse, 0xA5, sizeof m->lse);
    m->lengths[1] = TK;
    call.t[SCORES] = rapt_tensor_4d(RAPT_F32, m->scores, B, H, TQ, TK);
    call.t[MASK] = rapt_tensor_2d(RAPT_BOOL, m->mask, TQ, TK);
    call.t[BIAS] = rapt_tensor_2d(RAPT_F32, m->bias, TQ, TK);
    call.t[KEY_LENGTHS] = rapt_tensor_1d(RAPT_I32, m->lengths, B);
    call.t[KEEP] = rapt_tensor_2d(RAPT_BOOL, m->keep, TQ, TK);
    call.t[LSE] = rapt_tensor_3d(RAPT_F32, m->lse, B, H, TQ);
    call.what.dropout = (rapt_dropout){.training = 1, .p = 0.5};
    call.ops = (rapt_attention_softmax_operands){.scores = &call.t[SCORES],
                                                 .mask = &call.t[MASK],
                                                 .bias = &call.t[BIAS],
                                                 .key_lengths = &call.t[KEY_LENGTHS],
                                                 .keep = &call.t[KEEP],
                                                 .lse = &call.t[LSE]};
}

static void expect_status(rapt_status got, rapt_status want, const char *words, int line) {
    cr_expect(got == want, "line %d: %s (\"%s\"), expected %s", line, rapt_status_name(got),
              rapt_context_message(context), rapt_status_name(want));
    if (got != RAPT_OK) { expect_message(rapt_context_message(context), words, line); }
}

/* The pass gives `pass`, its size query `query`. */
static void expect_both(rapt_status pass, rapt_status query, const char *words, int line) {
    static memory before;
    before = call.data;
    int64_t bytes = -77;
    expect_status(rapt_attention_softmax_scratch(context, &call.what, &call.ops, &bytes), query,
                  words, line);
    cr_expect((bytes == -77) == (query != RAPT_OK), "line %d: bytes %lld", line, (long long)bytes);
    const rapt_status status = rapt_attention_softmax(context, &call.what, &call.ops);
    expect_status(status, pass, words, line);
    cr_expect(status == RAPT_OK || memcmp(&before, &call.data, sizeof before) == 0,
              "line %d: memory was written", line);
}

#define REFUSED(status, words) expect_both(status, status, words, __LINE__)
#define PASS_REFUSED(status, words) expect_both(status, RAPT_OK, words, __LINE__)
#define TAKEN() expect_both(RAPT_OK, RAPT_OK, "", __LINE__)

Test(errors_pass, unspoilt_call_is_taken) {
    valid();
    TAKEN();
    valid();
    call.ops = (rapt_attention_softmax_operands){.scores = &call.t[SCORES]};
    TAKEN();
}

Test(errors_pass, null_pointers) {
    int64_t bytes = 0;
    valid();
    cr_expect_eq(rapt_attention_softmax(NULL, &call.what, &call.ops), RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_attention_softmax_scratch(NULL, &call.what, &call.ops, &bytes),
                 RAPT_ERR_ARGUMENT);
    expect_status(rapt_attention_softmax(context, NULL, &call.ops), RAPT_ERR_ARGUMENT, "what null",
                  __LINE__);
    expect_status(rapt_attention_softmax(context, &call.what, NULL), RAPT_ERR_ARGUMENT,
                  "operands null", __LINE__);
    expect_status(rapt_attention_softmax_scratch(context, &call.what, &call.ops, NULL),
                  RAPT_ERR_ARGUMENT, "bytes null", __LINE__);
    call.ops.scores = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "scores null");
    for (operand_id o = 0; o < OPERANDS; o++) {
        char words[64];
        snprintf(words, sizeof words, "%s null", names[o]);
        valid();
        call.t[o].data = NULL;
        if (o == KEY_LENGTHS) {
            REFUSED(RAPT_ERR_ARGUMENT, words);
        } else {
            PASS_REFUSED(RAPT_ERR_ARGUMENT, words);
        }
    }
}

Test(errors_pass, dtypes_ranks_and_sizes) {
    for (operand_id o = 0; o < OPERANDS; o++) {
        char words[64];
        valid();
        call.t[o].dtype = (rapt_dtype)99;
        REFUSED(RAPT_ERR_DTYPE, names[o]);
        valid();
        call.t[o].dtype = call.t[o].dtype == RAPT_BOOL ? RAPT_F32 : RAPT_BOOL;
        REFUSED(RAPT_ERR_DTYPE, names[o]);
        for (int32_t rank = 0; rank <= 7; rank += rank == 0 ? 5 : 1) {
            valid();
            call.t[o].rank = rank;
            snprintf(words, sizeof words, "%s rank %d", names[o], rank);
            REFUSED(RAPT_ERR_SHAPE, words);
        }
        valid();
        const int32_t rank = call.t[o].rank;
        for (int32_t axis = 0; axis < rank; axis++) {
            valid();
            call.t[o].size[axis] = -3;
            snprintf(words, sizeof words, "%s -3", names[o]);
            REFUSED(RAPT_ERR_SHAPE, words);
            valid();
            call.t[o].size[axis]++;
            snprintf(words, sizeof words, "%d", (int)call.t[o].size[axis]);
            REFUSED(RAPT_ERR_SHAPE, o == SCORES ? "" : words); /* any of the others may be named */
        }
        valid();
        call.t[o].stride[rank - 1] = INT64_MAX;
        REFUSED(RAPT_ERR_SHAPE, names[o]);
    }
}

Test(errors_pass, values) {
    valid();
    call.what.causal = (rapt_causal)3;
    REFUSED(RAPT_ERR_ARGUMENT, "causal 3");
    valid();
    call.what.scale = (rapt_scale){1, NAN};
    REFUSED(RAPT_ERR_ARGUMENT, "scale");
    valid();
    call.what.window = (rapt_window){1, -1, 0};
    REFUSED(RAPT_ERR_ARGUMENT, "window left -1");
    valid();
    call.what.dropout.p = 1.5;
    REFUSED(RAPT_ERR_ARGUMENT, "dropout p 1.5");
    valid();
    call.what.dropout.p = NAN;
    REFUSED(RAPT_ERR_ARGUMENT, "dropout p");
    valid();
    call.what.weights_before_dropout = 3;
    REFUSED(RAPT_ERR_ARGUMENT, "weights_before_dropout 3");
    valid();
    call.data.lengths[1] = TK + 1;
    REFUSED(RAPT_ERR_ARGUMENT, "key_lengths 6 5");
}

Test(errors_pass, overlaps) {
    for (operand_id o = 1; o < OPERANDS; o++) {
        char words[64];
        snprintf(words, sizeof words, "scores %s", names[o]);
        valid(); /* the last score is the operand's first element */
        call.t[SCORES].data = (float *)call.t[o].data - (ALL - 1);
        REFUSED(RAPT_ERR_OVERLAP, words);
        if (o == LSE) { continue; }
        snprintf(words, sizeof words, "lse %s", names[o]);
        valid();
        call.t[LSE].data = call.t[o].data;
        REFUSED(RAPT_ERR_OVERLAP, words);
    }
    for (int axis = 0; axis < 4; axis++) {
        valid();
        call.t[SCORES].stride[axis] = 0;
        REFUSED(RAPT_ERR_OVERLAP, "scores");
    }
    valid();
    call.t[SCORES].stride[2] = TK - 1;
    REFUSED(RAPT_ERR_OVERLAP, "scores");
    valid();
    call.t[LSE].stride[1] = 0;
    REFUSED(RAPT_ERR_OVERLAP, "lse");
    valid(); /* heads interleaved: strides nest in another order */
    call.t[SCORES] =
        rapt_tensor_swap_axes(rapt_tensor_4d(RAPT_F32, call.data.scores, B, TQ, H, TK), 1, 2);
    TAKEN();
}

/* ---- What the generator can count: 2^32 heads of all batch items, 2^32 queries, 2^34 keys ---- */

static rapt_status sizes(int64_t b, int64_t h, int64_t tq, int64_t tk, bool keep, bool training) {
    const rapt_tensor q = rapt_tensor_4d(RAPT_F32, NULL, b, h, tq, 1);
    const rapt_tensor k = rapt_tensor_4d(RAPT_F32, NULL, b, h, tk, 1);
    const rapt_tensor pattern = rapt_tensor_1d(RAPT_BOOL, &pattern, 1);
    const rapt_attention what = {.dropout = {.training = training, .p = 0.5}};
    const rapt_attention_operands ops = {
        .q = &q, .k = &k, .v = &k, .out = &q, .keep = keep ? &pattern : NULL};
    rapt_attention_info info;
    return rapt_attention_forward_info(context, &what, &ops, &info);
}

Test(errors_pass, sizes_beyond_the_generator) {
    const int64_t two32 = INT64_C(1) << 32;
    cr_expect_eq(sizes(1, 1, 1, 4 * two32, false, true), RAPT_OK);
    cr_expect_eq(sizes(1, 1, 1, 4 * two32 + 1, false, true), RAPT_ERR_SHAPE);
    expect_message(rapt_context_message(context), "dropout 17179869185 keys", __LINE__);
    cr_expect_eq(sizes(1, 1, 1, 4 * two32 + 1, true, true), RAPT_OK, "a pattern needs no counter");
    cr_expect_eq(sizes(1, 1, 1, 4 * two32 + 1, false, false), RAPT_OK, "not training");
    cr_expect_eq(sizes(1, 1, two32 + 1, 1, false, true), RAPT_ERR_SHAPE);
    expect_message(rapt_context_message(context), "dropout 4294967297 queries", __LINE__);
    cr_expect_eq(sizes(1 << 16, (1 << 16) + 1, 1, 1, false, true), RAPT_ERR_SHAPE);
    expect_message(rapt_context_message(context), "dropout 65536 65537 heads", __LINE__);
    cr_expect_eq(sizes(1 << 16, 1 << 16, 1, 1, false, true), RAPT_OK);
}
