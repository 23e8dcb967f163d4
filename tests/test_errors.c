/* SPDX-License-Identifier: MIT
 * test_errors.c: every misuse of a call that a sentence of the headers forbids. Each is refused
 * with the status that the header names and a one-line message with the argument's name and the
 * offending sizes; nothing is written. Context creation is in test_context.c, scratch in
 * test_memory.c. */
#include "message.h"
#include "misuse.h"

#include <rapt/rapt.h>

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(errors, .init = misuse_open, .fini = misuse_close);

Test(errors, unspoilt_call_is_taken) {
    valid();
    TAKEN();
    cr_expect_str_eq(rapt_context_message(misuse_context), "");
}

Test(errors, null_arguments) {
    misuse_call *c = valid();
    rapt_attention_info info;
    double cost;
    cr_expect_eq(rapt_attention_forward(NULL, &c->what, &c->operands), RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_attention_forward_info(NULL, &c->what, &c->operands, &info),
                 RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_attention_forward_tasks(NULL, &c->what, &c->operands, &cost, 1),
                 RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_attention_forward(misuse_context, NULL, &c->operands), RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(misuse_context), "what null", __LINE__);
    cr_expect_eq(rapt_attention_forward(misuse_context, &c->what, NULL), RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(misuse_context), "operands null", __LINE__);
    cr_expect_eq(rapt_attention_forward_info(misuse_context, &c->what, &c->operands, NULL),
                 RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(misuse_context), "info null", __LINE__);
    cr_expect_eq(rapt_attention_forward_tasks(misuse_context, &c->what, &c->operands, NULL, 1),
                 RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(misuse_context), "costs null", __LINE__);
    cr_expect_eq(rapt_attention_forward_tasks(misuse_context, &c->what, &c->operands, &cost, -1),
                 RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(misuse_context), "capacity -1", __LINE__);
}

Test(errors, null_operands) {
    valid()->operands.q = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "q null");
    valid()->operands.k = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "k null");
    valid()->operands.v = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "v null");
    valid()->operands.out = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "out null");
}

Test(errors, null_data) {
    valid()->t[Q].data = NULL;
    FORWARD_REFUSED(RAPT_ERR_ARGUMENT, "q null");
    valid()->t[K].data = NULL;
    FORWARD_REFUSED(RAPT_ERR_ARGUMENT, "k null");
    valid()->t[V].data = NULL;
    FORWARD_REFUSED(RAPT_ERR_ARGUMENT, "v null");
    valid()->t[MASK].data = NULL;
    FORWARD_REFUSED(RAPT_ERR_ARGUMENT, "mask null");
    valid()->t[BIAS].data = NULL;
    FORWARD_REFUSED(RAPT_ERR_ARGUMENT, "bias null");
    valid()->t[OUT].data = NULL;
    FORWARD_REFUSED(RAPT_ERR_ARGUMENT, "out null");
    valid()->t[LSE].data = NULL;
    FORWARD_REFUSED(RAPT_ERR_ARGUMENT, "lse null");
    valid()->t[WEIGHTS].data = NULL;
    FORWARD_REFUSED(RAPT_ERR_ARGUMENT, "weights null");
    valid()->t[KEEP].data = NULL;
    FORWARD_REFUSED(RAPT_ERR_ARGUMENT, "keep null");
    valid()->t[KEY_LENGTHS].data = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "key_lengths null");
}

Test(errors, unknown_enum_values_and_flags) {
    valid()->what.causal = (rapt_causal)3;
    REFUSED(RAPT_ERR_ARGUMENT, "causal 3");
    valid()->what.causal = (rapt_causal)-1;
    REFUSED(RAPT_ERR_ARGUMENT, "causal");
    valid()->what.scale.on = 2;
    REFUSED(RAPT_ERR_ARGUMENT, "scale 2");
    valid()->what.scale.on = -1;
    REFUSED(RAPT_ERR_ARGUMENT, "scale -1");
    valid()->what.window.on = 7;
    REFUSED(RAPT_ERR_ARGUMENT, "window 7");
}

Test(errors, numbers_out_of_range) {
    const float refused[] = {NAN, -NAN, INFINITY, -INFINITY, 2.4e38f, 2.31e38f, -2.4e38f};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        valid()->what.scale = (rapt_scale){1, refused[i]};
        REFUSED(RAPT_ERR_ARGUMENT, "scale");
    }
    valid()->what.window = (rapt_window){1, -1, 0};
    REFUSED(RAPT_ERR_ARGUMENT, "window left -1");
    valid()->what.window = (rapt_window){1, 4, -3};
    REFUSED(RAPT_ERR_ARGUMENT, "window right -3");
    valid()->what.window = (rapt_window){1, INT64_MIN, INT64_MIN};
    REFUSED(RAPT_ERR_ARGUMENT, "window");
}

Test(errors, dropout_out_of_range) {
    const double refused[] = {-0.1, -1e-300, 1.0000001, 2.0, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        valid()->what.dropout.p = refused[i];
        REFUSED(RAPT_ERR_ARGUMENT, "dropout p");
        valid()->what.dropout = (rapt_dropout){.training = 0, .p = refused[i]};
        TAKEN();
    }
    valid()->what.dropout.p = -0.25;
    REFUSED(RAPT_ERR_ARGUMENT, "dropout 0.25");
    valid()->what.dropout.training = 2;
    REFUSED(RAPT_ERR_ARGUMENT, "dropout training 2");
    valid()->what.dropout.training = -1;
    REFUSED(RAPT_ERR_ARGUMENT, "dropout training 1");
    valid()->what.weights_before_dropout = 2;
    REFUSED(RAPT_ERR_ARGUMENT, "weights_before_dropout 2");
    valid()->what.weights_before_dropout = -1;
    REFUSED(RAPT_ERR_ARGUMENT, "weights_before_dropout");
    valid()->what.dropout.p = 1.0;
    TAKEN();
    valid()->what.dropout.p = 0.0;
    TAKEN();
}

Test(errors, key_lengths_out_of_range) {
    valid()->data.lengths32[1] = -1;
    REFUSED(RAPT_ERR_ARGUMENT, "key_lengths -1");
    valid()->data.lengths32[0] = TK + 1;
    REFUSED(RAPT_ERR_ARGUMENT, "key_lengths 6 5");
    const int64_t refused[] = {-1, TK + 1, INT64_MIN, INT64_MAX, INT64_C(1) << 32};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        misuse_call *c = valid();
        c->t[KEY_LENGTHS] = rapt_tensor_1d(RAPT_I64, c->data.lengths64, B);
        c->data.lengths64[1] = refused[i];
        REFUSED(RAPT_ERR_ARGUMENT, "key_lengths");
    }
}

Test(errors, wrong_dtypes) {
    const rapt_dtype all[] = {RAPT_F32, RAPT_BOOL,     RAPT_I32,
                              RAPT_I64, (rapt_dtype)0, (rapt_dtype)99};
    for (int o = 0; o < OPERANDS; o++) {
        const rapt_dtype taken = valid()->t[o].dtype;
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            const bool length = o == KEY_LENGTHS && (all[i] == RAPT_I32 || all[i] == RAPT_I64);
            if (all[i] == taken || length) { continue; }
            valid()->t[o].dtype = all[i];
            REFUSED(RAPT_ERR_DTYPE, misuse_operand_names[o]);
        }
    }
}

Test(errors, wrong_ranks) {
    /* mask, bias and keep take ranks 1 to 4 */
    for (int o = 0; o < OPERANDS; o++) {
        const bool broadcast = o == MASK || o == BIAS || o == KEEP;
        const int32_t taken = valid()->t[o].rank;
        const int32_t ranks[] = {-1, 0, 1, 2, 3, 4, 5, 6, 7, INT32_MAX, INT32_MIN};
        for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
            const bool legal = broadcast ? ranks[i] >= 1 && ranks[i] <= 4 : ranks[i] == taken;
            if (legal) { continue; }
            valid()->t[o].rank = ranks[i];
            char words[64];
            snprintf(words, sizeof words, "%s rank %d", misuse_operand_names[o], ranks[i]);
            REFUSED(RAPT_ERR_SHAPE, words);
        }
    }
}

Test(errors, negative_sizes) {
    for (int o = 0; o < OPERANDS; o++) {
        for (int32_t axis = 0; axis < valid()->t[o].rank; axis++) {
            valid()->t[o].size[axis] = -2;
            char words[64];
            snprintf(words, sizeof words, "%s -2", misuse_operand_names[o]);
            REFUSED(RAPT_ERR_SHAPE, words);
            valid()->t[o].size[axis] = INT64_MIN;
            REFUSED(RAPT_ERR_SHAPE, misuse_operand_names[o]);
        }
    }
}

Test(errors, sizes_that_disagree) {
    /* each axis of each operand one too large: the message shows the size */
    for (int o = 0; o < OPERANDS; o++) {
        for (int32_t axis = 0; axis < valid()->t[o].rank; axis++) {
            const int64_t size = ++valid()->t[o].size[axis];
            char words[64];
            snprintf(words, sizeof words, "%d", (int)size);
            REFUSED(RAPT_ERR_SHAPE, words);
        }
    }
    valid()->t[K].size[0] = 1; /* only mask, bias and keep broadcast */
    REFUSED(RAPT_ERR_SHAPE, "k 1 2");
    valid()->t[V].size[1] = 1;
    REFUSED(RAPT_ERR_SHAPE, "v 1 2");
    valid()->t[V].size[2] = 4;
    REFUSED(RAPT_ERR_SHAPE, "v 4 5");
    valid()->t[K].size[3] = 3;
    REFUSED(RAPT_ERR_SHAPE, "k 3 4");
    valid()->t[OUT].size[3] = 4;
    REFUSED(RAPT_ERR_SHAPE, "out 4 6");
    valid()->t[LSE].size[2] = 2;
    REFUSED(RAPT_ERR_SHAPE, "lse 2 3");
    valid()->t[MASK].size[1] = 2;
    REFUSED(RAPT_ERR_SHAPE, "mask 2 5");
    valid()->t[BIAS].size[0] = 2;
    REFUSED(RAPT_ERR_SHAPE, "bias 2 3");
    valid()->t[KEEP].size[1] = 4;
    REFUSED(RAPT_ERR_SHAPE, "keep 4 5");
    valid()->t[WEIGHTS].size[3] = 6;
    REFUSED(RAPT_ERR_SHAPE, "weights 6 5");
    valid()->t[MASK].size[0] = 0;
    REFUSED(RAPT_ERR_SHAPE, "mask 0 3");
    valid()->t[KEY_LENGTHS].size[0] = 0;
    REFUSED(RAPT_ERR_SHAPE, "key_lengths 0 2");
}

/* q, out and lse get `hq` query heads, k and v get `hkv`; stride 0 keeps the inputs in memory. */
static void set_heads(int64_t hq, int64_t hkv) {
    misuse_call *c = valid();
    c->t[Q].size[1] = c->t[OUT].size[1] = c->t[LSE].size[1] = c->t[WEIGHTS].size[1] = hq;
    c->t[K].size[1] = c->t[V].size[1] = hkv;
    c->t[Q].stride[1] = c->t[K].stride[1] = c->t[V].stride[1] = 0;
}

Test(errors, grouped_heads) {
    misuse_call *c = &the_call;
    set_heads(3, 2);
    REFUSED(RAPT_ERR_SHAPE, "3 2");
    set_heads(2, 4);
    REFUSED(RAPT_ERR_SHAPE, "2 4");
    set_heads(4, 0);
    REFUSED(RAPT_ERR_SHAPE, "4 0");
    set_heads(3, 2);
    c->t[Q].size[2] = c->t[OUT].size[2] = c->t[LSE].size[2] = c->t[WEIGHTS].size[2] = 0;
    c->operands.mask = c->operands.bias = c->operands.keep = NULL; /* empty, still wrong */
    REFUSED(RAPT_ERR_SHAPE, "3 2");
    set_heads(4, 1);
    TAKEN();
    set_heads(0, 0);
    TAKEN();
    set_heads(0, 2);
    TAKEN();
}

Test(errors, products_and_spans_over_2_to_62) {
    /* stride 0 everywhere, so that only the number of elements is too large */
    const int64_t large = INT64_C(1) << 40;
    misuse_call *c = valid();
    c->operands.mask = c->operands.bias = NULL;
    c->operands.lse = NULL;
    c->t[Q].size[2] = c->t[OUT].size[2] = large;
    c->t[Q].size[3] = c->t[K].size[3] = large;
    memset(c->t[Q].stride, 0, sizeof c->t[Q].stride);
    memset(c->t[K].stride, 0, sizeof c->t[K].stride);
    REFUSED(RAPT_ERR_SHAPE, "q 1099511627776");

    const int64_t strides[] = {INT64_C(1) << 61, -(INT64_C(1) << 61), INT64_MAX, INT64_MIN};
    for (int o = 0; o < OPERANDS; o++) {
        for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
            misuse_call *spoilt = valid();
            if (o == KEY_LENGTHS) { /* two elements: only a stride beyond 2^62 spans too much */
                if (i < 2) { continue; }
            }
            spoilt->t[o].stride[spoilt->t[o].rank - 1] = strides[i];
            REFUSED(RAPT_ERR_SHAPE, misuse_operand_names[o]);
        }
    }
}

Test(errors, outputs_that_overlap_themselves) {
    for (int32_t axis = 0; axis < 4; axis++) {
        valid()->t[OUT].stride[axis] = 0;
        REFUSED(RAPT_ERR_OVERLAP, "out");
    }
    for (int32_t axis = 0; axis < 3; axis++) {
        valid()->t[LSE].stride[axis] = 0;
        REFUSED(RAPT_ERR_OVERLAP, "lse");
    }
    for (int32_t axis = 0; axis < 4; axis++) {
        valid()->t[WEIGHTS].stride[axis] = 0;
        REFUSED(RAPT_ERR_OVERLAP, "weights");
    }
    valid()->t[WEIGHTS].stride[2] = TK - 1;
    REFUSED(RAPT_ERR_OVERLAP, "weights");
    valid()->t[OUT].stride[2] = DV - 1; /* the last of one row is the first of the next */
    REFUSED(RAPT_ERR_OVERLAP, "out");
    valid()->t[OUT].stride[2] = -(DV - 1);
    REFUSED(RAPT_ERR_OVERLAP, "out");
    misuse_call *c = valid(); /* no shared element, but strides that do not nest: 3 * i + 2 * j */
    c->t[LSE].stride[1] = 3;
    c->t[LSE].stride[2] = 2;
    c->t[LSE].stride[0] = 16;
    REFUSED(RAPT_ERR_OVERLAP, "lse");
    c = valid(); /* axes of size 1 do not count */
    c->t[Q].size[0] = c->t[K].size[0] = c->t[V].size[0] = c->t[OUT].size[0] = c->t[LSE].size[0] = 1;
    c->t[KEY_LENGTHS].size[0] = c->t[WEIGHTS].size[0] = 1;
    c->t[OUT].stride[0] = c->t[WEIGHTS].stride[0] = 0;
    c->t[LSE].stride[0] = 1;
    TAKEN();
}

Test(errors, outputs_that_overlap_operands) {
    for (int o = 0; o < INPUTS; o++) { /* every input: one element at out's end; lse on its first */
        char words[64];
        misuse_call *c = valid();
        c->t[OUT].data = (float *)c->t[o].data - (ROOM - 1);
        snprintf(words, sizeof words, "out %s", misuse_operand_names[o]);
        REFUSED(RAPT_ERR_OVERLAP, words);
        c = valid();
        c->t[LSE].data = c->t[o].data;
        snprintf(words, sizeof words, "lse %s", misuse_operand_names[o]);
        REFUSED(RAPT_ERR_OVERLAP, words);
        c = valid();
        c->t[WEIGHTS].data = (float *)c->t[o].data - (B * HQ * TQ * TK - 1);
        snprintf(words, sizeof words, "weights %s", misuse_operand_names[o]);
        REFUSED(RAPT_ERR_OVERLAP, words);
    }
    valid()->t[LSE].data = the_call.data.out + 5;
    REFUSED(RAPT_ERR_OVERLAP, "out lse");
    valid()->t[WEIGHTS].data = the_call.data.out + 1;
    REFUSED(RAPT_ERR_OVERLAP, "out weights");
    valid()->t[WEIGHTS].data = the_call.data.lse + 1;
    REFUSED(RAPT_ERR_OVERLAP, "lse weights");
}

/* out lies in q's memory, `shift` elements further on. */
static misuse_call *valid_in_place(int64_t shift) {
    misuse_call *c = valid();
    c->t[V] = rapt_tensor_4d(RAPT_F32, c->data.v, B, HKV, TK, D);
    c->t[OUT] = c->t[Q];
    c->t[OUT].data = c->data.q + shift;
    return c;
}

Test(errors, out_in_place_of_q) {
    valid_in_place(0);
    TAKEN();
    valid_in_place(1);
    REFUSED(RAPT_ERR_OVERLAP, "out q");
    valid_in_place(D);
    REFUSED(RAPT_ERR_OVERLAP, "out q");
    misuse_call *c = valid_in_place(0); /* the same elements in another order */
    c->t[Q] = rapt_tensor_swap_axes(rapt_tensor_4d(RAPT_F32, c->data.q, B, TQ, HQ, D), 1, 2);
    REFUSED(RAPT_ERR_OVERLAP, "out q");
    valid_in_place(0)->t[LSE].data = the_call.data.q;
    REFUSED(RAPT_ERR_OVERLAP, "lse");
}

Test(errors, what_the_headers_allow) {
    valid()->t[KEY_LENGTHS].size[0] = 1;
    TAKEN();
    misuse_call *c = valid();
    c->t[KEY_LENGTHS] = rapt_tensor_1d(RAPT_I64, c->data.lengths64, B);
    TAKEN();
    valid()->what.window = (rapt_window){1, INT64_MAX, INT64_MAX};
    TAKEN();
    valid()->what.window = (rapt_window){1, 0, 0};
    TAKEN();
    valid()->what.scale = (rapt_scale){1, 0.0f};
    TAKEN();
    c = valid();
    c->operands =
        (rapt_attention_operands){.q = &c->t[Q], .k = &c->t[K], .v = &c->t[V], .out = &c->t[OUT]};
    TAKEN();
    c = valid(); /* mask [1], bias [B, 1, 1, TK] */
    c->t[MASK] = rapt_tensor_1d(RAPT_BOOL, c->data.mask, 1);
    c->t[BIAS] = rapt_tensor_4d(RAPT_F32, c->data.bias, B, 1, 1, TK);
    TAKEN();
    c = valid(); /* heads interleaved in one buffer: out's strides nest in another order */
    c->t[OUT] = rapt_tensor_swap_axes(rapt_tensor_4d(RAPT_F32, c->data.out, B, TQ, HQ, DV), 1, 2);
    TAKEN();
    c = valid(); /* backwards */
    c->t[OUT].data = c->data.out + B * HQ * TQ * DV - 1;
    for (int axis = 0; axis < 4; axis++) { c->t[OUT].stride[axis] = -c->t[OUT].stride[axis]; }
    TAKEN();
}
