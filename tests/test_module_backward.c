/* SPDX-License-Identifier: MIT
 * test_module_backward.c: gradients of every module with every kind of call, drawn at random,
 * against central differences of the oracle's forward pass; golden gradients; what PyTorch's users
 * expect of accumulation; records; misuse.
 *
 *   RAPT_TEST_CASES   number of random cases (at most 400)
 *   RAPT_TEST_SEED    seed of the first one */
#include "golden.h"
#include "harness.h"
#include "message.h"
#include "module_case.h"
#include "walk.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CASES = 400, PARAMETERS = 40, PROBES = 2 };

TestSuite(module_backward, .fini = pool_free);

static uint64_t number_from(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

/* ---- Any module ---- */

static int64_t parameters_of(const module_case *c, rapt_parameter *list) {
    switch (c->s.kind) {
    case MODULE_V1: return rapt_self_v1_parameters(&c->m.v1, list, PARAMETERS);
    case MODULE_V2: return rapt_self_v2_parameters(&c->m.v2, list, PARAMETERS);
    case MODULE_STACKED: return rapt_stacked_parameters(&c->m.stacked, list, PARAMETERS);
    case MODULE_SPLIT: return rapt_split_parameters(&c->m.split, list, PARAMETERS);
    default: return rapt_causal_parameters(&c->m.causal, list, PARAMETERS);
    }
}

static rapt_status record_bytes(const module_case *c, rapt_context *context, int64_t *bytes) {
    switch (c->s.kind) {
    case MODULE_V1: return rapt_self_v1_record_bytes(context, &c->m.v1, &c->call, bytes);
    case MODULE_V2: return rapt_self_v2_record_bytes(context, &c->m.v2, &c->call, bytes);
    case MODULE_STACKED: return rapt_stacked_record_bytes(context, &c->m.stacked, &c->call, bytes);
    case MODULE_SPLIT: return rapt_split_record_bytes(context, &c->m.split, &c->call, bytes);
    default: return rapt_causal_record_bytes(context, &c->m.causal, &c->call, bytes);
    }
}

/* to null: no parameter gradients */
static rapt_status backward(const module_case *c, rapt_context *context,
                            const rapt_module_backward *b, const module_case *to) {
    switch (c->s.kind) {
    case MODULE_V1:
        return rapt_self_v1_backward(context, &c->m.v1, &c->call, b, to ? &to->m.v1 : NULL);
    case MODULE_V2:
        return rapt_self_v2_backward(context, &c->m.v2, &c->call, b, to ? &to->m.v2 : NULL);
    case MODULE_STACKED:
        return rapt_stacked_backward(context, &c->m.stacked, &c->call, b,
                                     to ? &to->m.stacked : NULL);
    case MODULE_SPLIT:
        return rapt_split_backward(context, &c->m.split, &c->call, b, to ? &to->m.split : NULL);
    default:
        return rapt_causal_backward(context, &c->m.causal, &c->call, b, to ? &to->m.causal : NULL);
    }
}

/* ---- A training step: forward with a record, and everything that backward gives ---- */

typedef struct step {
    module_case c, gradients;
    module_form form;
    rapt_record record;
    rapt_tensor dout, dinput[3];
    rapt_module_backward given;
} step;

/* Multiples of 2^-12, so that small powers of two can be added exactly. */
static void make_coarse(const rapt_tensor *t) {
    const int64_t count = rapti_walk_count(t, t->rank);
    if (count == 0) { return; }
    rapti_walk w = rapti_walk_start(t, t->rank, 0);
    for (int64_t n = 0; n < count; n++, rapti_walk_next(&w)) {
        float *x = (float *)t->data + w.offset;
        *x = roundf(*x * 0x1p12f) * 0x1p-12f;
    }
}

static const rapt_tensor *input_of(const module_case *c, int n) {
    return n == 0 ? c->call.x : n == 1 ? c->call.key_source : c->call.value_source;
}

static void take_record(step *t, rapt_context *context) {
    int64_t bytes = 0;
    REQUIRE(record_bytes(&t->c, context, &bytes) == RAPT_OK, "%s", rapt_context_message(context));
    const int64_t padded = bytes + 64;
    const rapt_tensor memory = pool_tensor(RAPT_BOOL, 1, &padded);
    t->record.data = (void *)(((uintptr_t)memory.data + 63) / 64 * 64);
    t->record.bytes = (size_t)bytes;
    t->c.call.record = &t->record;
}

static void make_step(step *t, rapt_context *context, const module_sizes *s, uint64_t seed) {
    rng r = rng_make(seed, 23);
    rapt_parameter list[PARAMETERS];
    *t = (step){0};
    module_case_make(&t->c, context, s, seed);
    for (int64_t n = parameters_of(&t->c, list) - 1; n >= 0; n--) { make_coarse(&list[n].tensor); }
    const rapt_status status = module_case_init(&t->gradients, context, s, NULL);
    REQUIRE(status == RAPT_OK, "%s", rapt_context_message(context));
    t->form = module_case_form(&t->c, context);
    t->dout = pool_normal(&r, t->c.call.out->rank, t->c.call.out->size);
    t->given.dout = &t->dout;
    for (int n = 0; n < 3; n++) {
        const rapt_tensor *input = input_of(&t->c, n);
        if (!input) { continue; }
        make_coarse(input);
        t->dinput[n] = pool_tensor(RAPT_F32, input->rank, input->size);
    }
    t->given.dx = &t->dinput[0];
    if (t->c.call.key_source) { t->given.dkey_source = &t->dinput[1]; }
    if (t->c.call.value_source) { t->given.dvalue_source = &t->dinput[2]; }
    take_record(t, context);
}

static void run_step(step *t, rapt_context *context) {
    REQUIRE(module_case_forward(&t->c, context) == RAPT_OK, "%s", rapt_context_message(context));
    REQUIRE(backward(&t->c, context, &t->given, &t->gradients) == RAPT_OK, "%s",
            rapt_context_message(context));
}

static void free_step(step *t) {
    module_case_free(&t->c);
    module_case_free(&t->gradients);
}

/* ---- Central differences of the loss sum(dout * out) ---- */

static double loss(const step *t, rapt_context *context) {
    module_form form = module_case_form(&t->c, context);
    form.keep = t->form.keep; /* drawn before the forward pass */
    module_result result = module_oracle(&form, &t->c.call);
    const float *dout = t->dout.data;
    double sum = 0;
    for (int64_t n = 0; n < pool_count(&t->dout); n++) {
        sum += (double)dout[n] * result.out[n].value;
    }
    module_oracle_free(&result);
    return sum;
}

static double loss_at(const step *t, rapt_context *context, float *x, float there) {
    const float here = *x;
    *x = there;
    const double value = loss(t, context);
    *x = here;
    return value;
}

/* Fourth order: what is left is below 1e-7 for the sizes drawn. */
static double difference(const step *t, rapt_context *context, float *x) {
    const float d = 0x1p-8f, here = *x;
    const double near = loss_at(t, context, x, here + d) - loss_at(t, context, x, here - d);
    const double far = loss_at(t, context, x, here + 2 * d) - loss_at(t, context, x, here - 2 * d);
    return (8 * near - far) / (12 * (double)d);
}

static double largest(const rapt_tensor *t) {
    double most = 0;
    for (int64_t n = 0; n < pool_count(t); n++) {
        most = fmax(most, fabs((double)((const float *)t->data)[n]));
    }
    return most;
}

/* f32 gradients are sums of some hundred rounded products, whose size the largest ones show. */
static void probe(const step *t, rapt_context *context, rng *r, const char *name,
                  const rapt_tensor *x, const rapt_tensor *gradient) {
    const int64_t count = pool_count(x);
    for (int n = 0; n < PROBES && count > 0; n++) {
        const int64_t at = rng_range(r, 0, count - 1);
        const rapti_walk wx = rapti_walk_start(x, x->rank, at);
        const rapti_walk wg = rapti_walk_start(gradient, gradient->rank, at);
        const double want = difference(t, context, (float *)x->data + wx.offset);
        const double got = (double)((const float *)gradient->data)[wg.offset];
        const double bound = 2e-5 * (1 + largest(gradient) + fabs(want));
        REQUIRE(fabs(got - want) <= bound, "%s[%lld]: %.9g, differences give %.9g, bound %.2g\n%s",
                name, (long long)at, got, want, bound, module_sizes_text(&t->c.s));
    }
}

static void run_case(uint64_t seed) {
    static const char *const input_name[] = {"dx", "dkey_source", "dvalue_source"};
    rapt_context *context = harness_context(1 + (int32_t)(seed % 3));
    const module_sizes s = module_sizes_draw(seed, MODULE_KINDS);
    rapt_parameter list[PARAMETERS], gradients[PARAMETERS];
    rng r = rng_make(seed, 29);
    step t;
    make_step(&t, context, &s, seed);
    run_step(&t, context);
    const int64_t count = parameters_of(&t.c, list);
    parameters_of(&t.gradients, gradients);
    for (int64_t n = 0; n < count; n++) {
        probe(&t, context, &r, list[n].name, &list[n].tensor, &gradients[n].tensor);
    }
    for (int n = 0; n < 3; n++) {
        const rapt_tensor *input = input_of(&t.c, n);
        if (input) { probe(&t, context, &r, input_name[n], input, &t.dinput[n]); }
    }
    free_step(&t);
    pool_free();
}

Test(module_backward, random_calls_against_differences) {
    const uint64_t wanted = number_from("RAPT_TEST_CASES", MOST_CASES);
    const uint64_t first = number_from("RAPT_TEST_SEED", 1);
    for (uint64_t n = 0; n < wanted && n < MOST_CASES; n++) { run_case(first + n); }
}

/* ---- Golden gradients: section 3.6.2's module and batch ---- */

static void run_golden(int64_t d_out, const char *path, int squares) {
    rapt_context *context = harness_context(1);
    const rapt_split_config config = {.d_in = 3, .d_out = d_out, .context_length = 6, .heads = 2};
    rapt_generator g;
    rapt_generator_seed(&g, 123);
    rapt_split m, dm;
    REQUIRE(rapt_split_init(context, &m, &config, &g) == RAPT_OK, "init");
    REQUIRE(rapt_split_init(context, &dm, &config, NULL) == RAPT_OK, "init");
    const rapt_tensor sentence = golden_tensor("inputs/values");
    const rapt_tensor x = POOL_F32(2, 6, 3), out = POOL_F32(2, 6, d_out), dx = POOL_F32(2, 6, 3);
    for (int64_t n = 0; n < 36; n++) {
        ((float *)x.data)[n] = ((const float *)sentence.data)[n % 18];
    }
    rapt_module_call call = {.x = &x, .out = &out};
    rapt_record record = {0};
    int64_t bytes = 0;
    REQUIRE(rapt_split_record_bytes(context, &m, &call, &bytes) == RAPT_OK, "bytes");
    record.data = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
    record.bytes = (size_t)bytes;
    call.record = &record;
    REQUIRE(rapt_split_forward(context, &m, &call) == RAPT_OK, "forward");
    const rapt_tensor dout = POOL_F32(2, 6, d_out);
    for (int64_t n = 0; n < 12 * d_out; n++) {
        ((float *)dout.data)[n] = squares ? 2 * ((const float *)out.data)[n] : 1.0f;
    }
    const rapt_module_backward given = {.dout = &dout, .dx = &dx};
    REQUIRE(rapt_split_backward(context, &m, &call, &given, &dm) == RAPT_OK, "%s",
            rapt_context_message(context));
    const struct {
        const char *name;
        rapt_tensor t;
    } expected[] = {{"W_query", dm.query.weight},
                    {"W_key", dm.key.weight},
                    {"W_value", dm.value.weight},
                    {"out_proj_weight", dm.out_proj.weight},
                    {"out_proj_bias", dm.out_proj.bias},
                    {"input_batch_0", rapt_tensor_2d(RAPT_F32, dx.data, 6, 3)}};
    for (size_t n = 0; n < sizeof expected / sizeof expected[0]; n++) {
        char full[128];
        snprintf(full, sizeof full, "derived/%s/%s", path, expected[n].name);
        golden_derived(&expected[n].t, full, 2e-6 * (1 + largest(&expected[n].t)), __LINE__);
    }
    free(record.data);
    rapt_split_free(&m);
    rapt_split_free(&dm);
}

Test(module_backward, golden_gradients) {
    run_golden(2, "gradients_multi_head_attention_seed_123_loss_sum", 0);
    run_golden(4, "gradients_multi_head_attention_seed_123_d_out_4_loss_sum_of_squares", 1);
}

/* ---- Accumulation, records, threads ---- */

static const module_sizes usual = {.kind = MODULE_SPLIT,
                                   .d_in = 12,
                                   .heads = 3,
                                   .head_dim = 5,
                                   .bias = 1,
                                   .dropout = 0.25,
                                   .batch = 3,
                                   .tokens = 40,
                                   .keys = 40,
                                   .rank = 3,
                                   .masked = 1,
                                   .lengths = 1,
                                   .training = 1};

/* Every gradient of `a` is `times` that of `b`. */
static void expect_times(const step *a, const step *b, float times, int parameters) {
    rapt_parameter of_a[PARAMETERS], of_b[PARAMETERS];
    const int64_t count = parameters_of(&a->gradients, of_a);
    parameters_of(&b->gradients, of_b);
    for (int64_t n = 0; n < count && parameters; n++) {
        const float *x = of_a[n].tensor.data, *y = of_b[n].tensor.data;
        const float tolerance = 1e-5f * (1 + (float)largest(&of_b[n].tensor));
        for (int64_t i = 0; i < pool_count(&of_a[n].tensor); i++) {
            REQUIRE(fabsf(x[i] - times * y[i]) <= tolerance, "%s[%lld]: %g, not %g x %g",
                    of_a[n].name, (long long)i, (double)x[i], (double)times, (double)y[i]);
        }
    }
}

Test(module_backward, parameter_gradients_add_up) {
    rapt_context *context = harness_context(2);
    step a, b;
    make_step(&a, context, &usual, 5);
    make_step(&b, context, &usual, 5);
    run_step(&a, context);
    run_step(&b, context);
    pool_same_bits(&a.dinput[0], &b.dinput[0], __LINE__);
    cr_assert_eq(backward(&a.c, context, &a.given, &a.gradients), RAPT_OK);
    expect_times(&a, &b, 2.0f, 1);
    pool_same_bits(&a.dinput[0], &b.dinput[0], __LINE__); /* overwritten */
    a.given.accumulate = 1;
    cr_assert_eq(backward(&a.c, context, &a.given, &a.gradients), RAPT_OK);
    expect_times(&a, &b, 3.0f, 1);
    for (int64_t n = 0; n < pool_count(&a.dinput[0]); n++) {
        const float once = ((const float *)b.dinput[0].data)[n];
        const float twice = ((const float *)a.dinput[0].data)[n];
        cr_assert_float_eq((double)twice, 2 * (double)once, 1e-5);
    }
    rapt_parameter gradients[PARAMETERS];
    const int64_t count = parameters_of(&a.gradients, gradients);
    cr_assert_eq(rapt_gradients_zero(context, gradients, count), RAPT_OK);
    a.given.accumulate = 0;
    cr_assert_eq(backward(&a.c, context, &a.given, &a.gradients), RAPT_OK);
    expect_times(&a, &b, 1.0f, 1);
    free_step(&a);
    free_step(&b);
}

Test(module_backward, two_forwards_before_two_backwards) {
    rapt_context *context = harness_context(2);
    step first, second, alone;
    make_step(&first, context, &usual, 6);
    make_step(&second, context, &usual, 7);
    make_step(&alone, context, &usual, 6);
    run_step(&alone, context);
    cr_assert_eq(module_case_forward(&first.c, context), RAPT_OK);
    cr_assert_eq(module_case_forward(&second.c, context), RAPT_OK);
    cr_assert_eq(backward(&second.c, context, &second.given, &second.gradients), RAPT_OK);
    cr_assert_eq(backward(&first.c, context, &first.given, &first.gradients), RAPT_OK);
    expect_times(&first, &alone, 1.0f, 1);
    pool_same_bits(&first.dinput[0], &alone.dinput[0], __LINE__);
    free_step(&first);
    free_step(&second);
    free_step(&alone);
}

static void expect_same_gradients(const step *a, const step *b) {
    rapt_parameter of_a[PARAMETERS], of_b[PARAMETERS];
    const int64_t count = parameters_of(&a->gradients, of_a);
    parameters_of(&b->gradients, of_b);
    for (int64_t n = 0; n < count; n++) {
        pool_same_bits(&of_a[n].tensor, &of_b[n].tensor, __LINE__);
    }
    pool_same_bits(&a->dinput[0], &b->dinput[0], __LINE__);
}

Test(module_backward, same_bits_for_any_thread_count) {
    static const module_kind kinds[] = {MODULE_V2, MODULE_CAUSAL, MODULE_STACKED, MODULE_SPLIT};
    for (int n = 0; n < 4; n++) {
        module_sizes s = usual;
        s.kind = kinds[n];
        s.tokens = s.keys = 79;
        s.training = n == 0 ? 0 : 1;
        if (s.kind == MODULE_V2 || s.kind == MODULE_CAUSAL) { s.heads = 1; }
        step one, other;
        make_step(&one, harness_context(1), &s, 8);
        run_step(&one, harness_context(1));
        for (int32_t threads = 2; threads <= 3; threads++) {
            make_step(&other, harness_context(threads), &s, 8);
            run_step(&other, harness_context(threads));
            expect_same_gradients(&one, &other);
            free_step(&other);
        }
        free_step(&one);
    }
}

Test(module_backward, a_record_changes_no_bit_of_out) {
    rapt_context *context = harness_context(2);
    module_sizes s = usual;
    s.no_out_proj = 1;
    for (int n = 0; n < 2; n++, s.no_out_proj = 0) {
        step a, b;
        make_step(&a, context, &s, 9);
        make_step(&b, context, &s, 9);
        b.c.call.record = NULL;
        cr_assert_eq(module_case_forward(&a.c, context), RAPT_OK);
        cr_assert_eq(module_case_forward(&b.c, context), RAPT_OK);
        pool_same_bits(&a.c.out, &b.c.out, __LINE__);
        free_step(&a);
        free_step(&b);
    }
}

/* Asked without data, a record is large enough for sources that are x, each other or neither. */
static void expect_enough(rapt_context *context, const rapt_split *m, const int same[3]) {
    const int64_t width = m->config.d_in;
    rapt_tensor t[3] = {POOL_F32(2, 4, width), POOL_F32(2, 4, width), POOL_F32(2, 4, width)};
    const rapt_tensor out = POOL_F32(2, 4, m->config.d_out);
    rapt_tensor absent = t[0];
    absent.data = NULL;
    for (int known = 0; known < 8; known++) { /* a bit for each input whose data is given */
        int64_t bytes = 0;
        const rapt_module_call asked = {.x = known & 1 ? &t[same[0]] : &absent,
                                        .key_source = known & 2 ? &t[same[1]] : &absent,
                                        .value_source = known & 4 ? &t[same[2]] : &absent};
        REQUIRE(rapt_split_record_bytes(context, m, &asked, &bytes) == RAPT_OK, "%s",
                rapt_context_message(context));
        rapt_record record = {aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64), (size_t)bytes};
        const rapt_module_call call = {.x = &t[same[0]],
                                       .key_source = &t[same[1]],
                                       .value_source = &t[same[2]],
                                       .out = &out,
                                       .record = &record};
        REQUIRE(rapt_split_forward(context, m, &call) == RAPT_OK, "width %lld: %s",
                (long long)width, rapt_context_message(context));
        free(record.data);
    }
}

Test(module_backward, record_bytes_without_data) {
    static const int same[][3] = {{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1}, {0, 1, 2}};
    rapt_context *context = harness_context(1);
    for (int64_t width = 15; width <= 48; width += 11) {
        const rapt_split_config config = {.d_in = width, .d_out = width, .heads = 1};
        rapt_split m;
        REQUIRE(rapt_split_init(context, &m, &config, NULL) == RAPT_OK, "init");
        for (size_t n = 0; n < sizeof same / sizeof same[0]; n++) {
            expect_enough(context, &m, same[n]);
        }
        rapt_split_free(&m);
    }
}

Test(module_backward, inputs_alone_and_parameters_alone) {
    rapt_context *context = harness_context(2);
    step all, part;
    make_step(&all, context, &usual, 10);
    run_step(&all, context);
    make_step(&part, context, &usual, 10);
    cr_assert_eq(module_case_forward(&part.c, context), RAPT_OK);
    cr_assert_eq(backward(&part.c, context, &part.given, NULL), RAPT_OK);
    pool_same_bits(&all.dinput[0], &part.dinput[0], __LINE__);
    pool_clear(&part.dinput[0]);
    part.given.dx = NULL;
    cr_assert_eq(backward(&part.c, context, &part.given, &part.gradients), RAPT_OK);
    cr_assert(pool_untouched(&part.dinput[0]));
    expect_times(&part, &all, 1.0f, 1);
    free_step(&all);
    free_step(&part);
}

/* ---- Simplified self-attention ---- */

Test(module_backward, simple_attention) {
    rapt_context *context = harness_context(1);
    rng r = rng_make(3, 31);
    rapt_tensor x = POOL_NORMAL(&r, 2, 7, 5);
    const rapt_tensor dout = POOL_NORMAL(&r, 2, 7, 5), dx = POOL_F32(2, 7, 5);
    make_coarse(&x);
    cr_assert_eq(rapt_simple_attention_backward(context, &x, &dout, &dx, 0), RAPT_OK, "%s",
                 rapt_context_message(context));
    for (int64_t n = 0; n < 70; n++) { /* the oracle: identity projections, scale 1 */
        double value[5];
        for (int side = -2; side <= 2; side++) {
            double sum = 0;
            float *data = x.data;
            const float here = data[n];
            data[n] = here + (float)side * 0x1p-8f;
            for (int64_t row = 0; row < 14; row++) {
                const float *q = data + row * 5, *keys = data + row / 7 * 35;
                double p[7], total = 0;
                for (int64_t j = 0; j < 7; j++) {
                    double s = 0;
                    for (int d = 0; d < 5; d++) { s += (double)q[d] * (double)keys[j * 5 + d]; }
                    total += p[j] = exp(s);
                }
                for (int d = 0; d < 5; d++) {
                    double out = 0;
                    for (int64_t j = 0; j < 7; j++) {
                        out += p[j] / total * (double)keys[j * 5 + d];
                    }
                    sum += out * (double)((const float *)dout.data)[row * 5 + d];
                }
            }
            data[n] = here;
            value[side + 2] = sum;
        }
        const double want = (8 * (value[3] - value[1]) - (value[4] - value[0])) * 0x1p8 / 12;
        const double got = (double)((const float *)dx.data)[n];
        cr_assert(fabs(got - want) <= 1e-5 * (10 + fabs(want)), "dx[%lld]: %g, not %g",
                  (long long)n, got, want);
    }
}

/* ---- Misuse: a status, a message, nothing written ---- */

static void expect_refused(step *t, rapt_context *context, const module_case *to, rapt_status want,
                           const char *word, int line) {
    pool_clear(&t->dinput[0]);
    cr_expect_eq(backward(&t->c, context, &t->given, to), want, "line %d", line);
    expect_message(rapt_context_message(context), word, line);
    cr_expect(pool_untouched(&t->dinput[0]), "line %d: written", line);
}

Test(module_backward, misuse) {
    rapt_context *context = harness_context(1);
    step t, other;
    module_sizes wider = usual;
    wider.head_dim = 6;
    make_step(&t, context, &usual, 11);
    make_step(&other, context, &wider, 11);
    cr_assert_eq(module_case_forward(&t.c, context), RAPT_OK);
    expect_refused(&t, context, &other.gradients, RAPT_ERR_SHAPE, "gradients", __LINE__);
    expect_refused(&t, context, &t.c, RAPT_ERR_OVERLAP, "gradients", __LINE__);
    module_case shared = t.gradients;
    shared.m.split.query.bias = t.c.m.split.query.bias;
    expect_refused(&t, context, &shared, RAPT_ERR_OVERLAP, "a bias", __LINE__);
    shared = t.gradients;
    shared.m.split.query.bias.data = shared.m.split.query.weight.data;
    expect_refused(&t, context, &shared, RAPT_ERR_OVERLAP, "a bias its weight", __LINE__);
    shared = t.gradients;
    shared.m.split.key.weight.stride[0] = 0;
    expect_refused(&t, context, &shared, RAPT_ERR_OVERLAP, "a weight strides", __LINE__);
    const void *const taken[] = {t.dinput[0].data, t.dout.data, t.c.call.x->data};
    for (int n = 0; n < 3; n++) {
        shared = t.gradients;
        shared.m.split.query.weight.data = (void *)(uintptr_t)taken[n];
        expect_refused(&t, context, &shared, RAPT_ERR_OVERLAP, "a weight", __LINE__);
    }
    t.given.accumulate = 2;
    expect_refused(&t, context, NULL, RAPT_ERR_ARGUMENT, "accumulate", __LINE__);
    t.given.accumulate = 0;
    t.given.dkey_source = &t.dinput[0];
    expect_refused(&t, context, NULL, RAPT_ERR_ARGUMENT, "dkey_source", __LINE__);
    t.given.dkey_source = NULL;
    t.given.dout = NULL;
    expect_refused(&t, context, NULL, RAPT_ERR_ARGUMENT, "dout", __LINE__);
    t.given.dout = t.c.call.x;
    expect_refused(&t, context, NULL, RAPT_ERR_SHAPE, "dout", __LINE__);
    t.given.dout = &t.dout;
    t.given.dx = t.c.call.x;
    expect_refused(&t, context, NULL, RAPT_ERR_OVERLAP, "dx", __LINE__);
    t.given.dx = &t.dinput[0];
    rapt_tensor inside = t.dinput[0];
    inside.data = (char *)t.record.data + 64;
    t.given.dx = &inside;
    expect_refused(&t, context, NULL, RAPT_ERR_OVERLAP, "record", __LINE__);
    t.given.dx = &t.dinput[0];
    t.c.call.seed++;
    expect_refused(&t, context, NULL, RAPT_ERR_ARGUMENT, "record", __LINE__);
    t.c.call.seed--;
    t.c.call.training = 0;
    expect_refused(&t, context, NULL, RAPT_ERR_ARGUMENT, "record", __LINE__);
    t.c.call.training = 1;
    const rapt_tensor kept = t.c.out;
    t.c.out.data = (char *)t.record.data + 64;
    cr_expect_eq(module_case_forward(&t.c, context), RAPT_ERR_OVERLAP);
    t.c.out = kept;
    memset(t.record.data, 0, 64);
    expect_refused(&t, context, NULL, RAPT_ERR_ARGUMENT, "record", __LINE__);
    t.record.bytes--;
    expect_refused(&t, context, NULL, RAPT_ERR_SCRATCH, "record", __LINE__);
    cr_expect_eq(module_case_forward(&t.c, context), RAPT_ERR_SCRATCH);
    t.record.bytes++;
    t.record.data = (char *)t.record.data + 4;
    expect_refused(&t, context, NULL, RAPT_ERR_SCRATCH, "record", __LINE__);
    t.c.call.record = NULL;
    expect_refused(&t, context, NULL, RAPT_ERR_ARGUMENT, "record", __LINE__);
    cr_expect_eq(backward(&t.c, context, NULL, NULL), RAPT_ERR_ARGUMENT);
    free_step(&t);
    free_step(&other);
}
