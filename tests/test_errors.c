/* SPDX-License-Identifier: MIT
 * test_errors.c: every misuse of a call that a sentence of the headers forbids. Each is refused
 * with the status that the header names and a one-line message with the argument's name and the
 * offending sizes; nothing is written. Context creation is in test_context.c, scratch in
 * test_memory.c. */
#include "message.h"

#include <rapt/rapt.h>

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { B = 2, HQ = 4, HKV = 2, TQ = 3, TK = 5, D = 4, DV = 6 };

enum { ROOM = B * HQ * TQ * DV };

/* The memory of all operands; a refused call may change none of it. Each input has room before and
 * after it, so that an output moved over its ends meets no other. */
typedef struct memory {
    float before_q[ROOM], q[B * HQ * TQ * D];
    float before_k[ROOM], k[B * HKV * TK * D];
    float before_v[ROOM], v[B * HKV * TK * DV];
    float before_bias[ROOM], bias[TQ * TK];
    float before_lengths64[ROOM];
    int64_t lengths64[B];
    float before_lengths32[ROOM];
    int32_t lengths32[B];
    float before_mask[ROOM];
    unsigned char mask[TQ * TK];
    float before_out[ROOM], out[B * HQ * TQ * DV], lse[B * HQ * TQ];
} memory;

typedef struct call {
    memory data;
    rapt_tensor q, k, v, mask, bias, key_lengths, out, lse;
    rapt_attention what;
    rapt_attention_operands operands;
} call;

static call the_call;
static rapt_context *context;

/* A fresh valid call with every operand, for a test to spoil in one place. */
static call *valid(void) {
    call *c = &the_call;
    memset(c, 0, sizeof *c);
    memset(c->data.mask, 1, sizeof c->data.mask);
    memset(c->data.out, 0xA5, sizeof c->data.out);
    memset(c->data.lse, 0xA5, sizeof c->data.lse);
    c->data.lengths32[0] = TK;
    c->data.lengths64[0] = TK;
    c->q = rapt_tensor_4d(RAPT_F32, c->data.q, B, HQ, TQ, D);
    c->k = rapt_tensor_4d(RAPT_F32, c->data.k, B, HKV, TK, D);
    c->v = rapt_tensor_4d(RAPT_F32, c->data.v, B, HKV, TK, DV);
    c->mask = rapt_tensor_2d(RAPT_BOOL, c->data.mask, TQ, TK);
    c->bias = rapt_tensor_2d(RAPT_F32, c->data.bias, TQ, TK);
    c->key_lengths = rapt_tensor_1d(RAPT_I32, c->data.lengths32, B);
    c->out = rapt_tensor_4d(RAPT_F32, c->data.out, B, HQ, TQ, DV);
    c->lse = rapt_tensor_3d(RAPT_F32, c->data.lse, B, HQ, TQ);
    c->operands = (rapt_attention_operands){.q = &c->q,
                                            .k = &c->k,
                                            .v = &c->v,
                                            .mask = &c->mask,
                                            .bias = &c->bias,
                                            .key_lengths = &c->key_lengths,
                                            .out = &c->out,
                                            .lse = &c->lse};
    return c;
}

typedef enum function { FORWARD, INFO, TASKS, FUNCTIONS } function;
static const char *const function_names[FUNCTIONS] = {"forward", "info", "tasks"};

static rapt_status run(function f) {
    const call *c = &the_call;
    rapt_attention_info info;
    double costs[2];
    switch (f) {
    case FORWARD: return rapt_attention_forward(context, &c->what, &c->operands);
    case INFO: return rapt_attention_forward_info(context, &c->what, &c->operands, &info);
    default: return rapt_attention_forward_tasks(context, &c->what, &c->operands, costs, 2);
    }
}

static void expect_status(function f, rapt_status expected, const char *words, int line) {
    const memory before = the_call.data;
    const rapt_status status = run(f);
    cr_expect(status == expected, "line %d, %s: %s (\"%s\"), expected %s", line, function_names[f],
              rapt_status_name(status), rapt_context_message(context), rapt_status_name(expected));
    if (status != RAPT_OK) {
        expect_message(rapt_context_message(context), words, line);
        cr_expect(memcmp(&before, &the_call.data, sizeof before) == 0,
                  "line %d, %s: memory was written", line, function_names[f]);
    }
}

/* Every function that takes the call refuses it. `words` must stand in the message. */
static void expect_refused(rapt_status expected, const char *words, int line) {
    for (function f = FORWARD; f < FUNCTIONS; f++) { expect_status(f, expected, words, line); }
}

/* forward refuses it; the functions that touch no tensor data take it. */
static void expect_forward_refused(rapt_status expected, const char *words, int line) {
    expect_status(FORWARD, expected, words, line);
    expect_status(INFO, RAPT_OK, "", line);
    expect_status(TASKS, RAPT_OK, "", line);
}

static void expect_taken(int line) {
    for (function f = FORWARD; f < FUNCTIONS; f++) { expect_status(f, RAPT_OK, "", line); }
}

#define REFUSED(status, words) expect_refused(status, words, __LINE__)
#define FORWARD_REFUSED(status, words) expect_forward_refused(status, words, __LINE__)
#define TAKEN() expect_taken(__LINE__)

static void open_context(void) { rapt_context_create(&context, NULL); }
static void close_context(void) { rapt_context_destroy(context); }

TestSuite(errors, .init = open_context, .fini = close_context);

Test(errors, unspoilt_call_is_taken) {
    valid();
    TAKEN();
    cr_expect_str_eq(rapt_context_message(context), "");
}

Test(errors, null_arguments) {
    call *c = valid();
    rapt_attention_info info;
    double cost;
    cr_expect_eq(rapt_attention_forward(NULL, &c->what, &c->operands), RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_attention_forward_info(NULL, &c->what, &c->operands, &info),
                 RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_attention_forward_tasks(NULL, &c->what, &c->operands, &cost, 1),
                 RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_attention_forward(context, NULL, &c->operands), RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "what null", __LINE__);
    cr_expect_eq(rapt_attention_forward(context, &c->what, NULL), RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "operands null", __LINE__);
    cr_expect_eq(rapt_attention_forward_info(context, &c->what, &c->operands, NULL),
                 RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "info null", __LINE__);
    cr_expect_eq(rapt_attention_forward_tasks(context, &c->what, &c->operands, NULL, 1),
                 RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "costs null", __LINE__);
    cr_expect_eq(rapt_attention_forward_tasks(context, &c->what, &c->operands, &cost, -1),
                 RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "capacity -1", __LINE__);
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
    valid()->q.data = NULL;
    FORWARD_REFUSED(RAPT_ERR_ARGUMENT, "q null");
    valid()->k.data = NULL;
    FORWARD_REFUSED(RAPT_ERR_ARGUMENT, "k null");
    valid()->v.data = NULL;
    FORWARD_REFUSED(RAPT_ERR_ARGUMENT, "v null");
    valid()->mask.data = NULL;
    FORWARD_REFUSED(RAPT_ERR_ARGUMENT, "mask null");
    valid()->bias.data = NULL;
    FORWARD_REFUSED(RAPT_ERR_ARGUMENT, "bias null");
    valid()->out.data = NULL;
    FORWARD_REFUSED(RAPT_ERR_ARGUMENT, "out null");
    valid()->lse.data = NULL;
    FORWARD_REFUSED(RAPT_ERR_ARGUMENT, "lse null");
    valid()->key_lengths.data = NULL;
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
    const float refused[] = {NAN, -NAN, INFINITY, -INFINITY};
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

Test(errors, key_lengths_out_of_range) {
    valid()->data.lengths32[1] = -1;
    REFUSED(RAPT_ERR_ARGUMENT, "key_lengths -1");
    valid()->data.lengths32[0] = TK + 1;
    REFUSED(RAPT_ERR_ARGUMENT, "key_lengths 6 5");
    const int64_t refused[] = {-1, TK + 1, INT64_MIN, INT64_MAX, INT64_C(1) << 32};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        call *c = valid();
        c->key_lengths = rapt_tensor_1d(RAPT_I64, c->data.lengths64, B);
        c->data.lengths64[1] = refused[i];
        REFUSED(RAPT_ERR_ARGUMENT, "key_lengths");
    }
}

/* All eight operands, in the order of the header. */
static rapt_tensor *operand(call *c, int index) {
    rapt_tensor *const all[] = {&c->q,    &c->k,           &c->v,   &c->mask,
                                &c->bias, &c->key_lengths, &c->out, &c->lse};
    return all[index];
}

enum { OPERANDS = 8 };
static const char *const operand_names[OPERANDS] = {"q",    "k",           "v",   "mask",
                                                    "bias", "key_lengths", "out", "lse"};

Test(errors, wrong_dtypes) {
    const rapt_dtype all[] = {RAPT_F32, RAPT_BOOL,     RAPT_I32,
                              RAPT_I64, (rapt_dtype)0, (rapt_dtype)99};
    for (int o = 0; o < OPERANDS; o++) {
        const rapt_dtype taken = operand(valid(), o)->dtype;
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            const bool length = o == 5 && (all[i] == RAPT_I32 || all[i] == RAPT_I64);
            if (all[i] == taken || length) { continue; }
            operand(valid(), o)->dtype = all[i];
            REFUSED(RAPT_ERR_DTYPE, operand_names[o]);
        }
    }
}

Test(errors, wrong_ranks) {
    /* mask and bias take ranks 1 to 4 */
    for (int o = 0; o < OPERANDS; o++) {
        const bool broadcast = o == 3 || o == 4;
        const int32_t taken = operand(valid(), o)->rank;
        const int32_t ranks[] = {-1, 0, 1, 2, 3, 4, 5, 6, 7, INT32_MAX, INT32_MIN};
        for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
            const bool legal = broadcast ? ranks[i] >= 1 && ranks[i] <= 4 : ranks[i] == taken;
            if (legal) { continue; }
            operand(valid(), o)->rank = ranks[i];
            char words[64];
            snprintf(words, sizeof words, "%s rank %d", operand_names[o], ranks[i]);
            REFUSED(RAPT_ERR_SHAPE, words);
        }
    }
}

Test(errors, negative_sizes) {
    for (int o = 0; o < OPERANDS; o++) {
        for (int32_t axis = 0; axis < operand(valid(), o)->rank; axis++) {
            operand(valid(), o)->size[axis] = -2;
            char words[64];
            snprintf(words, sizeof words, "%s -2", operand_names[o]);
            REFUSED(RAPT_ERR_SHAPE, words);
            operand(valid(), o)->size[axis] = INT64_MIN;
            REFUSED(RAPT_ERR_SHAPE, operand_names[o]);
        }
    }
}

Test(errors, sizes_that_disagree) {
    /* each axis of each operand one too large: the message shows the size */
    for (int o = 0; o < OPERANDS; o++) {
        for (int32_t axis = 0; axis < operand(valid(), o)->rank; axis++) {
            const int64_t size = ++operand(valid(), o)->size[axis];
            char words[64];
            snprintf(words, sizeof words, "%d", (int)size);
            REFUSED(RAPT_ERR_SHAPE, words);
        }
    }
    valid()->k.size[0] = 1; /* only mask and bias broadcast */
    REFUSED(RAPT_ERR_SHAPE, "k 1 2");
    valid()->v.size[1] = 1;
    REFUSED(RAPT_ERR_SHAPE, "v 1 2");
    valid()->v.size[2] = 4;
    REFUSED(RAPT_ERR_SHAPE, "v 4 5");
    valid()->k.size[3] = 3;
    REFUSED(RAPT_ERR_SHAPE, "k 3 4");
    valid()->out.size[3] = 4;
    REFUSED(RAPT_ERR_SHAPE, "out 4 6");
    valid()->lse.size[2] = 2;
    REFUSED(RAPT_ERR_SHAPE, "lse 2 3");
    valid()->mask.size[1] = 2;
    REFUSED(RAPT_ERR_SHAPE, "mask 2 5");
    valid()->bias.size[0] = 2;
    REFUSED(RAPT_ERR_SHAPE, "bias 2 3");
    valid()->mask.size[0] = 0;
    REFUSED(RAPT_ERR_SHAPE, "mask 0 3");
    valid()->key_lengths.size[0] = 0;
    REFUSED(RAPT_ERR_SHAPE, "key_lengths 0 2");
}

/* q, out and lse get `hq` query heads, k and v get `hkv`; stride 0 keeps the inputs in memory. */
static void set_heads(int64_t hq, int64_t hkv) {
    call *c = valid();
    c->q.size[1] = c->out.size[1] = c->lse.size[1] = hq;
    c->k.size[1] = c->v.size[1] = hkv;
    c->q.stride[1] = c->k.stride[1] = c->v.stride[1] = 0;
}

Test(errors, grouped_heads) {
    set_heads(3, 2);
    REFUSED(RAPT_ERR_SHAPE, "3 2");
    set_heads(2, 4);
    REFUSED(RAPT_ERR_SHAPE, "2 4");
    set_heads(4, 0);
    REFUSED(RAPT_ERR_SHAPE, "4 0");
    set_heads(3, 2);
    the_call.q.size[2] = the_call.out.size[2] = the_call.lse.size[2] = 0; /* empty, still wrong */
    the_call.operands.mask = the_call.operands.bias = NULL;
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
    call *c = valid();
    c->operands.mask = c->operands.bias = NULL;
    c->operands.lse = NULL;
    c->q.size[2] = c->out.size[2] = large;
    c->q.size[3] = c->k.size[3] = large;
    memset(c->q.stride, 0, sizeof c->q.stride);
    memset(c->k.stride, 0, sizeof c->k.stride);
    REFUSED(RAPT_ERR_SHAPE, "q 1099511627776");

    const int64_t strides[] = {INT64_C(1) << 61, -(INT64_C(1) << 61), INT64_MAX, INT64_MIN};
    for (int o = 0; o < OPERANDS; o++) {
        for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
            call *spoilt = valid();
            if (o == 5) { /* two elements: only a stride beyond 2^62 spans too much */
                if (i < 2) { continue; }
            }
            operand(spoilt, o)->stride[operand(spoilt, o)->rank - 1] = strides[i];
            REFUSED(RAPT_ERR_SHAPE, operand_names[o]);
        }
    }
}

Test(errors, outputs_that_overlap_themselves) {
    for (int32_t axis = 0; axis < 4; axis++) {
        valid()->out.stride[axis] = 0;
        REFUSED(RAPT_ERR_OVERLAP, "out");
    }
    for (int32_t axis = 0; axis < 3; axis++) {
        valid()->lse.stride[axis] = 0;
        REFUSED(RAPT_ERR_OVERLAP, "lse");
    }
    valid()->out.stride[2] = DV - 1; /* the last of one row is the first of the next */
    REFUSED(RAPT_ERR_OVERLAP, "out");
    valid()->out.stride[2] = -(DV - 1);
    REFUSED(RAPT_ERR_OVERLAP, "out");
    call *c = valid(); /* no shared element, but strides that do not nest: 3 * i + 2 * j */
    c->lse.stride[1] = 3;
    c->lse.stride[2] = 2;
    c->lse.stride[0] = 16;
    REFUSED(RAPT_ERR_OVERLAP, "lse");
    c = valid(); /* axes of size 1 do not count */
    c->q.size[0] = c->k.size[0] = c->v.size[0] = c->out.size[0] = c->lse.size[0] = 1;
    c->key_lengths.size[0] = 1;
    c->out.stride[0] = 0;
    c->lse.stride[0] = 1;
    TAKEN();
}

Test(errors, outputs_that_overlap_operands) {
    for (int o = 0; o < 6; o++) { /* every input: one element at out's end; lse on its first */
        char words[64];
        call *c = valid();
        c->out.data = (float *)operand(c, o)->data - (ROOM - 1);
        snprintf(words, sizeof words, "out %s", operand_names[o]);
        REFUSED(RAPT_ERR_OVERLAP, words);
        c = valid();
        c->lse.data = operand(c, o)->data;
        snprintf(words, sizeof words, "lse %s", operand_names[o]);
        REFUSED(RAPT_ERR_OVERLAP, words);
    }
    valid()->lse.data = the_call.data.out + 5;
    REFUSED(RAPT_ERR_OVERLAP, "out lse");
}

/* out lies in q's memory, `shift` elements further on. */
static call *valid_in_place(int64_t shift) {
    call *c = valid();
    c->v = rapt_tensor_4d(RAPT_F32, c->data.v, B, HKV, TK, D);
    c->out = c->q;
    c->out.data = c->data.q + shift;
    return c;
}

Test(errors, out_in_place_of_q) {
    valid_in_place(0);
    TAKEN();
    valid_in_place(1);
    REFUSED(RAPT_ERR_OVERLAP, "out q");
    valid_in_place(D);
    REFUSED(RAPT_ERR_OVERLAP, "out q");
    call *c = valid_in_place(0); /* the same elements in another order */
    c->q = rapt_tensor_swap_axes(rapt_tensor_4d(RAPT_F32, c->data.q, B, TQ, HQ, D), 1, 2);
    REFUSED(RAPT_ERR_OVERLAP, "out q");
    valid_in_place(0)->lse.data = the_call.data.q;
    REFUSED(RAPT_ERR_OVERLAP, "lse");
}

Test(errors, what_the_headers_allow) {
    valid()->key_lengths.size[0] = 1;
    TAKEN();
    call *c = valid();
    c->key_lengths = rapt_tensor_1d(RAPT_I64, c->data.lengths64, B);
    TAKEN();
    valid()->what.window = (rapt_window){1, INT64_MAX, INT64_MAX};
    TAKEN();
    valid()->what.window = (rapt_window){1, 0, 0};
    TAKEN();
    valid()->what.scale = (rapt_scale){1, 0.0f};
    TAKEN();
    c = valid();
    c->operands = (rapt_attention_operands){.q = &c->q, .k = &c->k, .v = &c->v, .out = &c->out};
    TAKEN();
    c = valid(); /* mask [1], bias [B, 1, 1, TK] */
    c->mask = rapt_tensor_1d(RAPT_BOOL, c->data.mask, 1);
    c->bias = rapt_tensor_4d(RAPT_F32, c->data.bias, B, 1, 1, TK);
    TAKEN();
    c = valid(); /* heads interleaved in one buffer: out's strides nest in another order */
    c->out = rapt_tensor_swap_axes(rapt_tensor_4d(RAPT_F32, c->data.out, B, TQ, HQ, DV), 1, 2);
    TAKEN();
    c = valid(); /* backwards */
    c->out.data = c->data.out + B * HQ * TQ * DV - 1;
    for (int axis = 0; axis < 4; axis++) { c->out.stride[axis] = -c->out.stride[axis]; }
    TAKEN();
}
