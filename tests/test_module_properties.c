/* SPDX-License-Identifier: MIT
 * test_module_properties.c: what must hold for modules whatever the numbers: order of items and
 * heads, later tokens, sums of weights, shifts of scores, dropout. */
#include "harness.h"
#include "layout.h"
#include "module_case.h"

#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

TestSuite(module_properties, .fini = pool_free);

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

static rapt_tensor backwards(rapt_tensor t, int32_t axis) {
    t.data = (float *)t.data + (t.size[axis] - 1) * t.stride[axis];
    t.stride[axis] = -t.stride[axis];
    return t;
}

/* ---- Order ---- */

Test(module_properties, items_in_another_order_give_results_in_that_order) {
    for (int kind = 0; kind < MODULE_KINDS; kind++) {
        module_case c;
        module_sizes s = some((module_kind)kind);
        s.weights = 1;
        make(&c, s);
        OK(module_case_forward(&c, context()));
        const rapt_tensor out = dense_copy(&c.out), weights = dense_copy(&c.weights);
        const rapt_tensor x = backwards(c.x, 0);
        c.call.x = &x;
        OK(module_case_forward(&c, context()));
        const rapt_tensor want_out = backwards(out, 0), want_weights = backwards(weights, 0);
        pool_same_bits(&c.out, &want_out, __LINE__);
        pool_same_bits(&c.weights, &want_weights, __LINE__);
        module_case_free(&c);
    }
}

/* Rows [h d, (h + 1) d) of a layer in the opposite order of h. */
static void reverse_heads(const rapt_tensor *rows, int64_t heads) {
    const rapt_tensor before = dense_copy(rows);
    const size_t bytes = (size_t)(pool_count(rows) / heads) * sizeof(float);
    for (int64_t h = 0; h < heads; h++) {
        memcpy((char *)rows->data + (size_t)h * bytes,
               (const char *)before.data + (size_t)(heads - 1 - h) * bytes, bytes);
    }
}

Test(module_properties, heads_in_another_order_give_results_in_that_order) {
    module_case c;
    module_sizes s = some(MODULE_SPLIT);
    s.weights = 1;
    s.bias = s.no_out_proj = 1;
    make(&c, s);
    OK(module_case_forward(&c, context()));
    const rapt_tensor out = dense_copy(&c.out), weights = dense_copy(&c.weights);
    const rapt_linear *const layers[] = {&c.m.split.query, &c.m.split.key, &c.m.split.value};
    for (int n = 0; n < 3; n++) {
        reverse_heads(&layers[n]->weight, s.heads);
        reverse_heads(&layers[n]->bias, s.heads);
    }
    OK(module_case_forward(&c, context()));
    const rapt_tensor want_weights = backwards(weights, 1);
    pool_same_bits(&c.weights, &want_weights, __LINE__);
    for (int64_t h = 0; h < s.heads; h++) {
        const rapt_tensor got = rapt_tensor_slice(c.out, 2, h * s.head_dim, s.head_dim);
        const rapt_tensor want =
            rapt_tensor_slice(out, 2, (s.heads - 1 - h) * s.head_dim, s.head_dim);
        pool_same_bits(&got, &want, __LINE__);
    }
    module_case_free(&c);
}

/* ---- Later tokens ---- */

/* Causal rows do not change when tokens follow, not even tokens of NaN. */
Test(module_properties, later_tokens_change_no_earlier_row) {
    static const module_kind kinds[] = {MODULE_CAUSAL, MODULE_STACKED, MODULE_SPLIT};
    for (int n = 0; n < 3; n++) {
        module_sizes s = some(kinds[n]);
        s.weights = 1;
        module_case c;
        make(&c, s);
        const rapt_tensor last = rapt_tensor_slice(c.x, 1, s.tokens - 1, 1);
        for (walk w = walk_begin(&last); !w.done; walk_next(&w)) *walk_f32(&w) = NAN;
        OK(module_case_forward(&c, context()));
        for (int64_t tokens = s.tokens - 1; tokens > 0; tokens -= 5) {
            const rapt_tensor x = rapt_tensor_slice(c.x, 1, 0, tokens);
            const rapt_tensor out = POOL_F32(s.batch, tokens, c.features);
            const rapt_tensor weights = POOL_F32(s.batch, s.heads, tokens, tokens);
            module_case shorter = c;
            shorter.call.x = &x;
            shorter.call.out = &out;
            shorter.call.weights = &weights;
            OK(module_case_forward(&shorter, context()));
            const rapt_tensor want = rapt_tensor_slice(c.out, 1, 0, tokens);
            rapt_tensor seen = rapt_tensor_slice(c.weights, 2, 0, tokens);
            seen = rapt_tensor_slice(seen, 3, 0, tokens);
            pool_same_bits(&out, &want, __LINE__);
            pool_same_bits(&weights, &seen, __LINE__);
        }
        module_case_free(&c);
    }
}

/* What lies behind a key length changes no bit: NaN there, in x or in sources of their own. */
Test(module_properties, keys_beyond_their_length_change_no_bit) {
    for (int cross = 0; cross < 2; cross++) {
        module_sizes s = some(MODULE_SPLIT);
        s.not_causal = s.lengths = s.bias = 1;
        s.weights = 2;
        if (cross) {
            s.key_dim = 5;
            s.value_dim = 7;
            s.keys = 50;
        }
        module_case c;
        make(&c, s);
        int32_t *length = c.key_lengths.data;
        length[0] = 0;
        length[1] = 17;
        length[2] = (int32_t)s.keys;
        OK(module_case_forward(&c, context()));
        const rapt_tensor before = dense_copy(&c.out), weights = dense_copy(&c.weights);
        const rapt_tensor *const sources[] = {cross ? &c.key_source : &c.x,
                                              cross ? &c.value_source : &c.x};
        for (int n = 0; n < 2; n++) {
            for (walk w = walk_begin(sources[n]); !w.done; walk_next(&w)) {
                if (w.index[1] >= length[w.index[0]]) *walk_f32(&w) = NAN;
            }
        }
        OK(module_case_forward(&c, context()));
        for (int64_t b = 0; b < 3;
             b++) { /* without cross-attention, such tokens' queries are NaN */
            const int64_t rows = cross ? s.tokens : length[b];
            rapt_tensor got = rapt_tensor_slice(rapt_tensor_slice(c.out, 0, b, 1), 1, 0, rows);
            rapt_tensor want = rapt_tensor_slice(rapt_tensor_slice(before, 0, b, 1), 1, 0, rows);
            pool_same_bits(&got, &want, __LINE__);
            got = rapt_tensor_slice(rapt_tensor_slice(c.weights, 0, b, 1), 1, 0, rows);
            want = rapt_tensor_slice(rapt_tensor_slice(weights, 0, b, 1), 1, 0, rows);
            pool_same_bits(&got, &want, __LINE__);
        }
        module_case_free(&c);
    }
}

/* ---- Weights ---- */

Test(module_properties, rows_of_weights_sum_to_one_or_zero) {
    for (uint64_t seed = 0; seed < 300; seed++) {
        module_sizes s = module_sizes_draw(seed, MODULE_KINDS);
        s.weights = 1 + (int32_t)(seed % 2);
        if (s.weights == 2 && s.masked == 3) s.masked = 1; /* heads may differ: means in between */
        module_case c;
        module_case_make(&c, context(), &s, seed);
        OK(module_case_forward(&c, context()));
        double error = 1;
        OK(rapt_row_sum_error(context(), &c.weights, &error));
        /* a sum of as many roundings as there are keys, the division, the mean over heads */
        REQUIRE(error <= (double)(s.keys + s.heads + 6) * 0x1p-24, "%.3g\n%s", error,
                module_sizes_text(&s));
        module_case_free(&c);
    }
}

/* One vector added to all keys adds a number to all scores of a row, which softmax takes out. */
Test(module_properties, a_shift_of_all_scores_changes_nothing) {
    module_sizes s = some(MODULE_SPLIT);
    s.bias = 1;
    s.weights = 1;
    module_case c;
    make(&c, s);
    OK(module_case_forward(&c, context()));
    const rapt_tensor out = dense_copy(&c.out), weights = dense_copy(&c.weights);
    float *bias = c.m.split.key.bias.data;
    for (int64_t n = 0; n < c.features; n++) bias[n] += 2.0f;
    OK(module_case_forward(&c, context()));
    /* scores below 8 in magnitude, rounded some 10 times on the way */
    REQUIRE(pool_distance(&c.weights, &weights) < 8 * 10 * 0x1p-23, "weights");
    REQUIRE(pool_distance(&c.out, &out) < 8 * 10 * 0x1p-22, "out");
    module_case_free(&c);
}

/* ---- Dropout ---- */

static bool same_state(const rapt_generator *a, const rapt_generator *b) {
    return a->next == b->next && memcmp(a->state, b->state, sizeof a->state) == 0;
}

Test(module_properties, evaluation_draws_no_number) {
    static const struct {
        int32_t training;
        double p;
        int draws;
    } forms[] = {{0, 0.5, 0}, {1, 0.0, 0}, {1, 1.0, 0}, {1, 0.5, 1}};
    for (int kind = MODULE_CAUSAL; kind < MODULE_KINDS; kind++) {
        for (int n = 0; n < 4; n++) {
            module_sizes s = some((module_kind)kind);
            s.dropout = forms[n].p;
            module_case c;
            make(&c, s);
            OK(module_case_forward(&c, context()));
            const rapt_tensor evaluated = dense_copy(&c.out);
            const rapt_generator before = c.generator;
            c.call.training = forms[n].training;
            c.call.generator = &c.generator;
            OK(module_case_forward(&c, context()));
            REQUIRE(same_state(&before, &c.generator) == !forms[n].draws, "kind %d, p %g", kind,
                    forms[n].p);
            if (!forms[n].draws && forms[n].p < 1) pool_same_bits(&c.out, &evaluated, __LINE__);
            if (forms[n].draws) {
                REQUIRE(pool_distance(&c.out, &evaluated) > 0.01, "dropout changes the result");
                rapt_generator expected = before;
                for (int64_t word = 0; word < 2 * 3 * s.heads * 37 * 37; word++) {
                    rapt_generator_next(&expected);
                }
                REQUIRE(rapt_generator_next(&expected) == rapt_generator_next(&c.generator),
                        "two words for each weight, hidden ones too");
            }
            module_case_free(&c);
        }
    }
}
