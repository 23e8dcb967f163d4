/* SPDX-License-Identifier: MIT
 * test_module_errors.c: every misuse of a module's call has its status and a message that names the
 * argument; nothing is written and nothing is drawn then. */
#include "harness.h"
#include "message.h"
#include "module_case.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(module_errors, .fini = pool_free);

static rapt_context *context(void) { return harness_context(2); }

#define EXPECT(call, status, words)                                                                \
    do {                                                                                           \
        const rapt_status status_ = (call);                                                        \
        cr_expect_eq(status_, status, "line %d: %s", __LINE__, rapt_status_name(status_));         \
        expect_message(rapt_context_message(context()), words, __LINE__);                          \
    } while (0)

/* ---- forward ---- */

/* A call whose outputs hold canaries and whose generator is known. */
static void make(module_case *c, module_kind kind) {
    module_sizes s = {.kind = kind,
                      .d_in = 6,
                      .heads = kind >= MODULE_STACKED ? 2 : 1,
                      .head_dim = 4,
                      .batch = 2,
                      .tokens = 9,
                      .keys = 9,
                      .rank = 3,
                      .masked = 3,
                      .lengths = 1,
                      .weights = 1,
                      .training = 2,
                      .dropout = 0.5};
    if (kind < MODULE_CAUSAL) s.dropout = 0;
    module_case_make(c, context(), &s, 5);
    pool_clear(&c->out);
    pool_clear(&c->weights);
}

static void refused(module_case *c, rapt_status status, const char *words, int line) {
    const rapt_generator before = c->generator;
    const rapt_status got = module_case_forward(c, context());
    cr_expect_eq(got, status, "line %d: %s", line, rapt_status_name(got));
    expect_message(rapt_context_message(context()), words, line);
    cr_expect(pool_untouched(&c->out) && pool_untouched(&c->weights), "line %d: written", line);
    cr_expect(memcmp(&before, &c->generator, sizeof before) == 0, "line %d: drawn", line);
}

/* Forward with one member of the call replaced. */
#define REFUSED(c, member, value, status, words)                                                   \
    do {                                                                                           \
        const rapt_module_call before_ = (c)->call;                                                \
        (c)->call.member = (value);                                                                \
        refused(c, status, words, __LINE__);                                                       \
        (c)->call = before_;                                                                       \
    } while (0)

static rapt_tensor as(rapt_tensor t, rapt_dtype dtype) {
    t.dtype = dtype;
    return t;
}

static rapt_tensor no_data(rapt_tensor t) {
    t.data = NULL;
    return t;
}

static rapt_tensor with_size(rapt_tensor t, int32_t axis, int64_t size) {
    t.size[axis] = size;
    return t;
}

static rapt_tensor with_rank(rapt_tensor t, int32_t rank) {
    t.rank = rank;
    return t;
}

static void refuse_tensors(module_case *c) {
    const rapt_tensor x[] = {as(c->x, RAPT_I32), no_data(c->x),         with_rank(c->x, 1),
                             with_rank(c->x, 4), with_size(c->x, 2, 5), with_size(c->x, 1, -1)};
    REFUSED(c, x, NULL, RAPT_ERR_ARGUMENT, "x null");
    REFUSED(c, x, &x[0], RAPT_ERR_DTYPE, "x RAPT_F32");
    REFUSED(c, x, &x[1], RAPT_ERR_ARGUMENT, "x null");
    REFUSED(c, x, &x[2], RAPT_ERR_SHAPE, "x rank 1");
    REFUSED(c, x, &x[3], RAPT_ERR_SHAPE, "x rank 4");
    REFUSED(c, x, &x[4], RAPT_ERR_SHAPE, "x 5 6");
    REFUSED(c, x, &x[5], RAPT_ERR_SHAPE, "x -1");

    const rapt_tensor out[] = {as(c->out, RAPT_I32),    no_data(c->out),
                               with_rank(c->out, 2),    with_size(c->out, 0, 1),
                               with_size(c->out, 1, 8), with_size(c->out, 2, 3)};
    REFUSED(c, out, NULL, RAPT_ERR_ARGUMENT, "out null");
    REFUSED(c, out, &out[0], RAPT_ERR_DTYPE, "out RAPT_F32");
    REFUSED(c, out, &out[1], RAPT_ERR_ARGUMENT, "out null");
    REFUSED(c, out, &out[2], RAPT_ERR_SHAPE, "out rank 2");
    REFUSED(c, out, &out[3], RAPT_ERR_SHAPE, "out 1 2");
    REFUSED(c, out, &out[4], RAPT_ERR_SHAPE, "out 8 9");
    REFUSED(c, out, &out[5], RAPT_ERR_SHAPE, "out 3");

    const rapt_tensor w[] = {as(c->weights, RAPT_I32),    no_data(c->weights),
                             with_rank(c->weights, 2),    with_rank(c->weights, 5),
                             with_size(c->weights, 1, 3), with_size(c->weights, 3, 8)};
    REFUSED(c, weights, &w[0], RAPT_ERR_DTYPE, "weights RAPT_F32");
    REFUSED(c, weights, &w[1], RAPT_ERR_ARGUMENT, "weights null");
    REFUSED(c, weights, &w[2], RAPT_ERR_SHAPE, "weights rank 2");
    REFUSED(c, weights, &w[3], RAPT_ERR_SHAPE, "weights rank 5");
    REFUSED(c, weights, &w[4], RAPT_ERR_SHAPE, "weights 3");
    REFUSED(c, weights, &w[5], RAPT_ERR_SHAPE, "weights 8 9");
}

static void refuse_masks(module_case *c) {
    const rapt_tensor mask[] = {as(c->mask, RAPT_F32), no_data(c->mask), with_size(c->mask, 3, 5),
                                with_size(c->mask, 0, 3)};
    REFUSED(c, mask, &mask[0], RAPT_ERR_DTYPE, "mask RAPT_BOOL");
    REFUSED(c, mask, &mask[1], RAPT_ERR_ARGUMENT, "mask null");
    REFUSED(c, mask, &mask[2], RAPT_ERR_SHAPE, "mask 5 9");
    REFUSED(c, mask, &mask[3], RAPT_ERR_SHAPE, "mask 3 2");
    const rapt_tensor lengths[] = {as(c->key_lengths, RAPT_F32), no_data(c->key_lengths),
                                   with_size(c->key_lengths, 0, 3)};
    REFUSED(c, key_lengths, &lengths[0], RAPT_ERR_DTYPE, "key_lengths RAPT_I32");
    REFUSED(c, key_lengths, &lengths[1], RAPT_ERR_ARGUMENT, "key_lengths null");
    REFUSED(c, key_lengths, &lengths[2], RAPT_ERR_SHAPE, "key_lengths 3 2");
    int32_t *length = c->key_lengths.data;
    const int32_t before = length[1];
    length[1] = 10;
    refused(c, RAPT_ERR_ARGUMENT, "key_lengths 10", __LINE__);
    length[1] = before;
}

static void refuse_overlaps(module_case *c, const rapt_tensor *parameter) {
    rapt_tensor out = c->out, weights = c->weights;
    out.data = c->x.data;
    REFUSED(c, out, &out, RAPT_ERR_OVERLAP, "out x");
    out.data = parameter->data;
    REFUSED(c, out, &out, RAPT_ERR_OVERLAP, "out overlaps");
    out = c->out;
    out.stride[1] = 0;
    REFUSED(c, out, &out, RAPT_ERR_OVERLAP, "out overlap");
    out = c->out;
    out.data = c->weights.data;
    REFUSED(c, out, &out, RAPT_ERR_OVERLAP, "weights out");
    weights.data = c->x.data;
    REFUSED(c, weights, &weights, RAPT_ERR_OVERLAP, "weights x");
    weights.data = c->mask.data;
    REFUSED(c, weights, &weights, RAPT_ERR_OVERLAP, "weights mask");
}

static const rapt_tensor *first_parameter(const module_case *c) {
    switch (c->s.kind) {
    case MODULE_V1: return &c->m.v1.w_key;
    case MODULE_V2: return &c->m.v2.key.weight;
    case MODULE_STACKED: return &c->m.stacked.head[1].value.weight;
    case MODULE_SPLIT: return &c->m.split.key.weight;
    default: return &c->m.causal.key.weight;
    }
}

Test(module_errors, calls_of_every_module) {
    for (int kind = 0; kind < MODULE_KINDS; kind++) {
        module_case c;
        make(&c, (module_kind)kind);
        refuse_tensors(&c);
        refuse_masks(&c);
        refuse_overlaps(&c, first_parameter(&c));
        REFUSED(&c, training, 2, RAPT_ERR_ARGUMENT, "training 2");
        if (kind != MODULE_SPLIT) {
            REFUSED(&c, key_source, &c.x, RAPT_ERR_ARGUMENT, "key_source value_source");
            REFUSED(&c, value_source, &c.x, RAPT_ERR_ARGUMENT, "key_source value_source");
        }
        const rapt_status status = module_case_forward(&c, context());
        cr_expect_eq(status, RAPT_OK, "the call as it was");
        module_case_free(&c);
    }
}

Test(module_errors, sources) {
    module_case c;
    make(&c, MODULE_SPLIT);
    rng r = rng_make(1, 1);
    const rapt_tensor good = POOL_NORMAL(&r, 2, 9, 6), wide = POOL_NORMAL(&r, 2, 9, 7);
    const rapt_tensor longer = POOL_NORMAL(&r, 2, 10, 6), flat = POOL_NORMAL(&r, 9, 6);
    const rapt_tensor few = POOL_NORMAL(&r, 1, 9, 6);
    REFUSED(&c, key_source, &wide, RAPT_ERR_SHAPE, "key_source 7 6");
    REFUSED(&c, key_source, &flat, RAPT_ERR_SHAPE, "key_source rank 2");
    REFUSED(&c, key_source, &few, RAPT_ERR_SHAPE, "key_source 1 2");
    REFUSED(&c, value_source, &longer, RAPT_ERR_SHAPE, "value_source 10 9");
    REFUSED(&c, value_source, &wide, RAPT_ERR_SHAPE, "value_source 7 6");
    c.call.key_source = &good;
    rapt_tensor out = c.out;
    out.data = good.data;
    REFUSED(&c, out, &out, RAPT_ERR_OVERLAP, "out key_source");
    c.call.value_source = &few;
    refused(&c, RAPT_ERR_SHAPE, "value_source 1 2", __LINE__);
    module_case_free(&c);

    const rapt_split_config config = {
        .d_in = 6, .d_out = 8, .heads = 2, .key_dim = 5, .context_length = 9};
    c.s.kind = MODULE_SPLIT;
    cr_assert_eq(rapt_split_init(context(), &c.m.split, &config, NULL), RAPT_OK);
    c.call.key_source = c.call.value_source = NULL;
    refused(&c, RAPT_ERR_SHAPE, "key_source null key_dim 5 6", __LINE__);
    const rapt_tensor keys = POOL_NORMAL(&r, 2, 10, 5);
    c.call.key_source = &keys;
    refused(&c, RAPT_ERR_SHAPE, "key_source 10 context_length 9", __LINE__);
    module_case_free(&c);
}

Test(module_errors, sequences_beyond_context_length) {
    for (int kind = MODULE_CAUSAL; kind < MODULE_KINDS; kind++) {
        module_case c;
        make(&c, (module_kind)kind);
        if (kind == MODULE_STACKED) {
            c.m.stacked.head[0].config.context_length = 8;
        } else if (kind == MODULE_SPLIT) {
            c.m.split.config.context_length = 8;
        } else {
            c.m.causal.config.context_length = 8;
        }
        refused(&c, RAPT_ERR_SHAPE, "x 9 context_length 8", __LINE__);
        module_case_free(&c);
    }
}

/* Buffers would take more than 2^62 bytes. */
Test(module_errors, scratch_beyond_all_bounds) {
    const rapt_split_config config = {.d_in = 1, .d_out = 64, .heads = 2, .not_causal = 1};
    rapt_split m;
    cr_assert_eq(rapt_split_init(context(), &m, &config, NULL), RAPT_OK);
    float one_float = 0;
    const int64_t tokens = INT64_C(1) << 55;
    const rapt_tensor x =
        rapt_tensor_strided(RAPT_F32, &one_float, 2, (int64_t[]){tokens, 1}, (int64_t[]){0, 1});
    const rapt_tensor out = rapt_tensor_2d(RAPT_F32, &one_float, tokens, 64);
    EXPECT(rapt_split_forward(context(), &m, &(rapt_module_call){.x = &x, .out = &out}),
           RAPT_ERR_SHAPE, "2^62");
    rapt_split_free(&m);
}

Test(module_errors, modules_that_are_not_there) {
    const rapt_tensor t = POOL_F32(2, 2);
    const rapt_module_call call = {.x = &t, .out = &t};
    rapt_self_v1 v1 = {0};
    rapt_self_v2 v2 = {0};
    rapt_causal_attention causal = {0};
    rapt_stacked stacked = {0};
    rapt_split split = {0};
    EXPECT(rapt_self_v1_forward(context(), NULL, &call), RAPT_ERR_ARGUMENT, "module null");
    EXPECT(rapt_self_v2_forward(context(), NULL, &call), RAPT_ERR_ARGUMENT, "module null");
    EXPECT(rapt_causal_forward(context(), NULL, &call), RAPT_ERR_ARGUMENT, "module null");
    EXPECT(rapt_stacked_forward(context(), NULL, &call), RAPT_ERR_ARGUMENT, "module null");
    EXPECT(rapt_split_forward(context(), NULL, &call), RAPT_ERR_ARGUMENT, "module null");
    EXPECT(rapt_self_v1_forward(context(), &v1, &call), RAPT_ERR_ARGUMENT, "module initialised");
    EXPECT(rapt_self_v2_forward(context(), &v2, &call), RAPT_ERR_ARGUMENT, "module initialised");
    EXPECT(rapt_causal_forward(context(), &causal, &call), RAPT_ERR_ARGUMENT, "initialised");
    EXPECT(rapt_stacked_forward(context(), &stacked, &call), RAPT_ERR_ARGUMENT, "initialised");
    EXPECT(rapt_split_forward(context(), &split, &call), RAPT_ERR_ARGUMENT, "initialised");
    cr_expect_eq(rapt_split_forward(NULL, &split, &call), RAPT_ERR_ARGUMENT);
    cr_assert_eq(rapt_self_v1_init(context(), &v1, 2, 2, NULL), RAPT_OK);
    EXPECT(rapt_self_v1_forward(context(), &v1, NULL), RAPT_ERR_ARGUMENT, "call null");
    cr_expect_eq(rapt_self_v1_forward(NULL, &v1, &call), RAPT_ERR_ARGUMENT);
    rapt_self_v1_free(&v1);
}

/* ---- Linear layers, simplified attention ---- */

Test(module_errors, linear) {
    rng r = rng_make(2, 1);
    const rapt_linear good = {.weight = POOL_NORMAL(&r, 4, 3), .bias = POOL_NORMAL(&r, 4)};
    const rapt_tensor x = POOL_NORMAL(&r, 5, 3), out = POOL_F32(5, 4);
    rapt_linear bad = good;
    EXPECT(rapt_linear_forward(context(), NULL, &x, &out), RAPT_ERR_ARGUMENT, "linear null");
    EXPECT(rapt_linear_forward(context(), &good, NULL, &out), RAPT_ERR_ARGUMENT, "x null");
    EXPECT(rapt_linear_forward(context(), &good, &x, NULL), RAPT_ERR_ARGUMENT, "out null");
    bad.weight = with_rank(good.weight, 1);
    EXPECT(rapt_linear_forward(context(), &bad, &x, &out), RAPT_ERR_SHAPE, "weight rank 1");
    bad.weight = no_data(good.weight);
    EXPECT(rapt_linear_forward(context(), &bad, &x, &out), RAPT_ERR_ARGUMENT, "weight null");
    bad.weight = as(good.weight, RAPT_I32);
    EXPECT(rapt_linear_forward(context(), &bad, &x, &out), RAPT_ERR_DTYPE, "weight RAPT_F32");
    bad = good;
    bad.bias = with_size(good.bias, 0, 3);
    EXPECT(rapt_linear_forward(context(), &bad, &x, &out), RAPT_ERR_SHAPE, "bias 3 4");
    bad.bias = as(good.bias, RAPT_I32);
    EXPECT(rapt_linear_forward(context(), &bad, &x, &out), RAPT_ERR_DTYPE, "bias RAPT_F32");
    rapt_tensor t = with_rank(x, 0);
    EXPECT(rapt_linear_forward(context(), &good, &t, &out), RAPT_ERR_SHAPE, "x rank 0");
    t = with_size(x, 1, 2);
    EXPECT(rapt_linear_forward(context(), &good, &t, &out), RAPT_ERR_SHAPE, "x 2 3");
    t = with_size(out, 0, 4);
    EXPECT(rapt_linear_forward(context(), &good, &x, &t), RAPT_ERR_SHAPE, "out 4 5");
    t = with_size(out, 1, 3);
    EXPECT(rapt_linear_forward(context(), &good, &x, &t), RAPT_ERR_SHAPE, "out 3 4");
    t = with_rank(out, 1);
    EXPECT(rapt_linear_forward(context(), &good, &x, &t), RAPT_ERR_SHAPE, "out rank 1");
    t = out;
    t.stride[0] = 1;
    EXPECT(rapt_linear_forward(context(), &good, &x, &t), RAPT_ERR_OVERLAP, "out overlap");
    const rapt_tensor *const shared[] = {&x, &good.weight, &good.bias};
    static const char *const words[] = {"out x", "out weight", "out bias"};
    for (int n = 0; n < 3; n++) {
        t = out;
        t.data = shared[n]->data;
        EXPECT(rapt_linear_forward(context(), &good, &x, &t), RAPT_ERR_OVERLAP, words[n]);
    }
    cr_expect_eq(rapt_linear_forward(NULL, &good, &x, &out), RAPT_ERR_ARGUMENT);
    cr_expect(pool_untouched(&out));
}

Test(module_errors, simple) {
    rng r = rng_make(3, 1);
    const rapt_tensor x = POOL_NORMAL(&r, 5, 3), square = POOL_F32(5, 5), again = POOL_F32(5, 5);
    const rapt_tensor out = POOL_F32(5, 3), row = POOL_F32(5), one = POOL_F32(3);
    rapt_context *c = context();
    EXPECT(rapt_simple_attention(c, NULL, NULL, NULL, &out), RAPT_ERR_ARGUMENT, "x null");
    rapt_tensor t = with_rank(x, 1);
    EXPECT(rapt_simple_attention(c, &t, NULL, NULL, &out), RAPT_ERR_SHAPE, "x rank 1");
    t = as(x, RAPT_I32);
    EXPECT(rapt_simple_attention(c, &t, NULL, NULL, &out), RAPT_ERR_DTYPE, "x RAPT_F32");
    EXPECT(rapt_simple_attention(c, &x, &out, NULL, NULL), RAPT_ERR_SHAPE, "scores 3 5");
    EXPECT(rapt_simple_attention(c, &x, NULL, &row, NULL), RAPT_ERR_SHAPE, "weights rank 1");
    EXPECT(rapt_simple_attention(c, &x, NULL, NULL, &square), RAPT_ERR_SHAPE, "out 5 3");
    EXPECT(rapt_simple_attention(c, &x, NULL, NULL, &x), RAPT_ERR_OVERLAP, "out x");
    EXPECT(rapt_simple_attention(c, &x, &square, &square, NULL), RAPT_ERR_OVERLAP,
           "scores weights");
    t = rapt_tensor_2d(RAPT_F32, square.data, 5, 3);
    EXPECT(rapt_simple_attention(c, &x, &square, &again, &t), RAPT_ERR_OVERLAP, "scores out");
    EXPECT(rapt_simple_attention(c, &x, &again, &square, &t), RAPT_ERR_OVERLAP, "weights out");
    t = square;
    t.stride[0] = 0;
    EXPECT(rapt_simple_attention(c, &x, &t, NULL, NULL), RAPT_ERR_OVERLAP, "scores overlap");
    EXPECT(rapt_simple_attention_query(c, &x, 5, &row, NULL, NULL), RAPT_ERR_ARGUMENT, "query 5");
    EXPECT(rapt_simple_attention_query(c, &x, -1, &row, NULL, NULL), RAPT_ERR_ARGUMENT, "query -1");
    EXPECT(rapt_simple_attention_query(c, &x, 0, &one, NULL, NULL), RAPT_ERR_SHAPE, "scores 3 5");
    EXPECT(rapt_simple_attention_query(c, &x, 0, NULL, NULL, &row), RAPT_ERR_SHAPE, "out 5 3");
    EXPECT(rapt_simple_attention_query(c, &x, 0, &row, &row, NULL), RAPT_ERR_OVERLAP,
           "scores weights");
    cr_expect_eq(rapt_simple_attention(NULL, &x, NULL, NULL, &out), RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_simple_attention_query(NULL, &x, 0, &row, NULL, NULL), RAPT_ERR_ARGUMENT);
    cr_expect(pool_untouched(&square) && pool_untouched(&again) && pool_untouched(&out) &&
              pool_untouched(&row) && pool_untouched(&one));
}
