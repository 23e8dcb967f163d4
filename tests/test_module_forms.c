/* SPDX-License-Identifier: MIT
 * test_module_forms.c: one module in other forms: stacked and split, v1 and v2, with and without
 * biases and weights; parameters by name. */
#include "harness.h"
#include "layout.h"
#include "module_case.h"

#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

TestSuite(module_forms, .fini = pool_free);

static rapt_context *context(void) { return harness_context(2); }

#define OK(call)                                                                                   \
    do {                                                                                           \
        const rapt_status status_ = (call);                                                        \
        REQUIRE(status_ == RAPT_OK, "line %d: %s, %s", __LINE__, rapt_status_name(status_),        \
                rapt_context_message(context()));                                                  \
    } while (0)

static void make(module_case *c, module_sizes s) { module_case_make(c, context(), &s, 11); }

/* Sizes that each kind of module takes. */
static module_sizes some(module_kind kind) {
    module_sizes s = {.kind = kind, .d_in = 10, .heads = 1, .head_dim = 7};
    s.heads = kind == MODULE_STACKED || kind == MODULE_SPLIT ? 3 : 1;
    s.batch = 3;
    s.tokens = s.keys = 37;
    s.rank = 3;
    return s;
}

static rapt_tensor dense_copy(const rapt_tensor *t) {
    rapt_tensor copy = pool_tensor(RAPT_F32, t->rank, t->size);
    walk w = walk_begin(&copy);
    for (walk v = walk_begin(t); !v.done; walk_next(&v), walk_next(&w)) {
        *walk_f32(&w) = *walk_f32(&v);
    }
    return copy;
}

/* ---- Conversions ---- */

/* Philox numbers heads alike, so that even dropout agrees. */
Test(module_forms, stacked_and_split_agree_bit_for_bit) {
    for (int32_t bias = 0; bias < 2; bias++) {
        for (int direction = 0; direction < 2; direction++) {
            module_sizes s = some(MODULE_STACKED);
            s.bias = bias;
            s.weights = 1;
            s.training = 1;
            s.dropout = 0.4;
            module_case stacked, split;
            make(&stacked, s);
            s.kind = MODULE_SPLIT;
            s.no_out_proj = 1;
            module_case_make(&split, context(), &s, 12);
            split.call.seed = stacked.call.seed;
            split.call.x = &stacked.x;
            if (direction) {
                OK(rapt_stacked_from_split(&stacked.m.stacked, &split.m.split));
            } else {
                OK(rapt_split_from_stacked(&split.m.split, &stacked.m.stacked));
            }
            OK(module_case_forward(&stacked, context()));
            OK(module_case_forward(&split, context()));
            pool_same_bits(&stacked.out, &split.out, __LINE__);
            pool_same_bits(&stacked.weights, &split.weights, __LINE__);
            module_case_free(&stacked);
            module_case_free(&split);
        }
    }
}

/* Parts of a module that lie elsewhere take products of their own, and give the same bits. */
Test(module_forms, parameters_may_lie_apart) {
    module_sizes s = some(MODULE_SPLIT);
    s.bias = 1;
    module_case c;
    make(&c, s);
    OK(module_case_forward(&c, context()));
    const rapt_tensor together = dense_copy(&c.out);
    for (int part = 0; part < 6; part++) {
        module_case apart = c;
        rapt_linear *const layers[] = {&apart.m.split.query, &apart.m.split.key,
                                       &apart.m.split.value};
        rapt_tensor *moved = part < 3 ? &layers[part]->weight : &layers[part - 3]->bias;
        *moved = dense_copy(moved);
        OK(module_case_forward(&apart, context()));
        pool_same_bits(&apart.out, &together, __LINE__);
    }
    module_case_free(&c);
}

Test(module_forms, v1_and_v2_become_each_other) {
    module_case v1, v2, back;
    make(&v1, some(MODULE_V1));
    module_sizes s = some(MODULE_V2);
    s.bias = 1;
    make(&v2, s);
    make(&back, some(MODULE_V1));
    OK(rapt_self_v2_from_v1(&v2.m.v2, &v1.m.v1));
    OK(rapt_self_v1_from_v2(&back.m.v1, &v2.m.v2)); /* its biases are zero now */
    pool_same_bits(&back.m.v1.w_query, &v1.m.v1.w_query, __LINE__);
    pool_same_bits(&back.m.v1.w_key, &v1.m.v1.w_key, __LINE__);
    pool_same_bits(&back.m.v1.w_value, &v1.m.v1.w_value, __LINE__);
    v2.call.x = &v1.x;
    OK(module_case_forward(&v1, context()));
    OK(module_case_forward(&v2, context()));
    pool_same_bits(&v1.out, &v2.out, __LINE__);
    module_case_free(&v1);
    module_case_free(&v2);
    module_case_free(&back);
}

/* ---- All forms of multi-head attention agree ---- */

static void set_zero(const rapt_tensor *t) {
    if (t->data) memset(t->data, 0, (size_t)pool_count(t) * sizeof(float));
}

static void copy_values(const rapt_tensor *to, const rapt_tensor *from) {
    memcpy(to->data, from->data, (size_t)pool_count(to) * sizeof(float));
}

/* The weights of `from`; biases zero. */
static void copy_weights(rapt_split *to, const rapt_split *from) {
    rapt_linear *const a[] = {&to->query, &to->key, &to->value, &to->out_proj};
    const rapt_linear *const b[] = {&from->query, &from->key, &from->value, &from->out_proj};
    for (int n = 0; n < 4; n++) {
        copy_values(&a[n]->weight, &b[n]->weight);
        set_zero(&a[n]->bias);
    }
}

/* Query 4 of item 1 sees nothing. */
static void hide_a_row(const rapt_tensor *mask, const module_sizes *s) {
    memset(mask->data, 1, (size_t)pool_count(mask));
    memset((uint8_t *)mask->data + (s->tokens + 4) * s->keys, 0, (size_t)s->keys);
}

static void expect_hidden_row(const module_case *c) {
    const rapt_linear *project = &c->m.split.out_proj;
    for (int64_t n = 0; n < c->features; n++) {
        const float want = project->bias.data ? ((float *)project->bias.data)[n] : 0.0f;
        const float got = ((float *)c->out.data)[(c->s.tokens + 4) * c->features + n];
        REQUIRE(got == want, "a row that sees nothing is the output projection of 0: %g",
                (double)got);
    }
}

/* out without weights, with the mean, with those of each head. */
static void expect_forms_agree(module_case *c) {
    const module_sizes *s = &c->s;
    const rapt_tensor mean = POOL_F32(s->batch, s->tokens, s->keys);
    const rapt_tensor each = POOL_F32(s->batch, s->heads, s->tokens, s->keys);
    rapt_tensor out[3];
    const rapt_tensor *const weights[] = {NULL, &mean, &each};
    for (int n = 0; n < 3; n++) {
        const rapt_generator before = c->generator;
        c->call.weights = weights[n];
        OK(module_case_forward(c, context()));
        out[n] = dense_copy(&c->out);
        expect_hidden_row(c);
        c->generator = before;
    }
    pool_same_bits(&out[1], &out[2], __LINE__);
    /* the same sums in another order: up to 11 keys of numbers below 8 */
    REQUIRE(pool_distance(&out[0], &out[1]) <= 8 * 12 * 0x1p-23, "with weights and without");
    double error = 1;
    OK(rapt_row_sum_error(context(), &each, &error));
    REQUIRE(error < 20 * 0x1p-24, "rows sum to 1 or are 0");
    const int64_t square = s->tokens * s->keys;
    for (int64_t n = 0; n < s->batch * square; n++) {
        double sum = 0;
        for (int64_t h = 0; h < s->heads; h++) {
            sum += (double)((float *)each.data)[(n / square * s->heads + h) * square + n % square];
        }
        const double got = (double)((float *)mean.data)[n];
        REQUIRE(fabs(got - sum / (double)s->heads) <= 4 * 0x1p-24, "mean over heads");
        if (n / s->keys == s->tokens + 4) REQUIRE(got == 0, "hidden row");
    }
    c->call.weights = NULL;
}

Test(module_forms, all_forms_of_multi_head_attention_agree) {
    for (int form = 0; form < 16; form++) {
        module_sizes s = {.kind = MODULE_SPLIT,
                          .d_in = 12,
                          .heads = 3,
                          .head_dim = 4,
                          .batch = 2,
                          .tokens = 9,
                          .keys = 11,
                          .rank = 3,
                          .masked = 1,
                          .not_causal = 1};
        s.bias = form & 1;
        s.no_out_bias = !s.bias;
        s.training = form & 2 ? 1 + (form & 8) / 8 : 0;
        s.dropout = 0.3;
        s.key_dim = form & 4 ? 5 : 12;
        s.value_dim = form & 4 ? 7 : 0;
        module_case c, zero;
        make(&c, s);
        hide_a_row(&c.mask, &s);
        expect_forms_agree(&c);
        if (s.bias) {
            module_case_free(&c);
            continue;
        }

        s.bias = 1; /* no bias is the same as a bias of zero, in all four projections */
        s.no_out_bias = 0;
        make(&zero, s);
        copy_weights(&zero.m.split, &c.m.split);
        zero.generator = c.generator;
        hide_a_row(&zero.mask, &s);
        zero.call.x = c.call.x;
        zero.call.key_source = c.call.key_source;
        zero.call.value_source = c.call.value_source;
        OK(module_case_forward(&c, context()));
        OK(module_case_forward(&zero, context()));
        for (int64_t n = 0; n < pool_count(&c.out); n++) { /* -0 + 0 is 0 */
            REQUIRE(((float *)c.out.data)[n] == ((float *)zero.out.data)[n], "no bias, bias of 0");
        }
        module_case_free(&c);
        module_case_free(&zero);
    }
}

/* ---- Parameters ---- */

Test(module_forms, parameters_have_pytorchs_names_and_order) {
    static const char *const want[MODULE_KINDS][13] = {
        {"W_query", "W_key", "W_value"},
        {"W_query.weight", "W_query.bias", "W_key.weight", "W_key.bias", "W_value.weight",
         "W_value.bias"},
        {"W_query.weight", "W_query.bias", "W_key.weight", "W_key.bias", "W_value.weight",
         "W_value.bias"},
        {"W_query.weight", "W_query.bias", "W_key.weight", "W_key.bias", "W_value.weight",
         "W_value.bias"},
        {"heads.0.W_query.weight", "heads.0.W_query.bias", "heads.0.W_key.weight",
         "heads.0.W_key.bias", "heads.0.W_value.weight", "heads.0.W_value.bias",
         "heads.1.W_query.weight", "heads.1.W_query.bias", "heads.1.W_key.weight",
         "heads.1.W_key.bias", "heads.1.W_value.weight", "heads.1.W_value.bias"},
        {"W_query.weight", "W_query.bias", "W_key.weight", "W_key.bias", "W_value.weight",
         "W_value.bias", "out_proj.weight", "out_proj.bias"}};
    for (int kind = 0; kind < MODULE_KINDS; kind++) {
        module_sizes s = some((module_kind)kind);
        s.heads = s.heads > 1 ? 2 : 1;
        s.bias = kind != MODULE_V1;
        module_case c;
        make(&c, s);
        int64_t count = 0;
        while (want[kind][count]) count++;
        for (int64_t capacity = 0; capacity <= 14; capacity++) {
            rapt_parameter list[15];
            memset(list, 0x5A, sizeof list);
            const int64_t got =
                kind == MODULE_V1        ? rapt_self_v1_parameters(&c.m.v1, list, capacity)
                : kind == MODULE_V2      ? rapt_self_v2_parameters(&c.m.v2, list, capacity)
                : kind == MODULE_STACKED ? rapt_stacked_parameters(&c.m.stacked, list, capacity)
                : kind == MODULE_SPLIT   ? rapt_split_parameters(&c.m.split, list, capacity)
                                         : rapt_causal_parameters(&c.m.causal, list, capacity);
            REQUIRE(got == count, "%d parameters of kind %d", (int)got, kind);
            for (int64_t n = 0; n < 15; n++) {
                const bool written = n < count && n < capacity;
                REQUIRE(!written || strcmp(list[n].name, want[kind][n]) == 0, "%s", list[n].name);
                REQUIRE(written || list[n].name[0] == 0x5A, "entry %d written", (int)n);
            }
        }
        module_case_free(&c);
    }
    REQUIRE(rapt_self_v1_parameters(NULL, NULL, 0) == 0, "no module");
    REQUIRE(rapt_parameter_count(NULL, 0) == 0, "no list");
}

/* Without a generator all parameters are zero, and so is everything that is computed. */
Test(module_forms, without_a_generator_all_parameters_are_zero) {
    for (int kind = 0; kind < MODULE_KINDS; kind++) {
        module_sizes s = some((module_kind)kind);
        s.bias = kind != MODULE_V1;
        module_case c, zero;
        make(&c, s);
        OK(module_case_init(&zero, context(), &s, NULL));
        zero.call = c.call;
        OK(module_case_forward(&zero, context()));
        for (walk w = walk_begin(&c.out); !w.done; walk_next(&w)) {
            REQUIRE(*walk_f32(&w) == 0.0f, "kind %d", kind);
        }
        module_case_free(&c);
        module_case_free(&zero);
    }
}
