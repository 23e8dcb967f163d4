/* SPDX-License-Identifier: MIT
 * test_generator.c: PyTorch's CPU generator, bit for bit, against what PyTorch itself drew
 * (data/torch_rng.h); any layout; and misuse, after which nothing is drawn. */
#include "data/torch_rng.h"
#include "guard.h"
#include "layout.h"
#include "message.h"
#include "plain.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static rapt_context *context;

static void make_context(void) { context = plain_context(1, NULL); }
static void drop_context(void) { rapt_context_destroy(context); }

TestSuite(generator, .init = make_context, .fini = drop_context);

static uint64_t fnv(uint64_t hash, uint32_t value, int bytes) {
    for (int n = 0; n < bytes; n++) { hash = (hash ^ (value >> 8 * n & 0xff)) * 0x100000001b3u; }
    return hash;
}

static const uint64_t fnv_start = UINT64_C(0xcbf29ce484222325);

/* `bytes` is 4, or 1 for bools. */
static void expect_values(const torch_values *want, const void *values, int64_t count, int bytes,
                          const char *what, size_t n) {
    uint64_t hash = fnv_start;
    cr_assert_eq(count, want->count, "%s %zu: %lld values", what, n, (long long)count);
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        memcpy(&bits, (const char *)values + i * bytes, (size_t)bytes);
        if (i < 12) {
            cr_expect_eq(bits, want->first[i], "%s %zu: element %d is %08x, not %08x", what, n,
                         (int)i, bits, want->first[i]);
        }
        hash = fnv(hash, bits, bytes);
    }
    cr_expect_eq(hash, want->hash, "%s %zu: some element differs", what, n);
}

static void *take(int64_t count, size_t bytes) {
    void *memory = malloc((size_t)count * bytes + 1);
    if (!memory) { abort(); }
    return memory;
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

Test(generator, words) {
    for (size_t n = 0; n < COUNT(torch_words_of); n++) {
        const torch_words *w = &torch_words_of[n];
        uint32_t *words = take(w->words.count, sizeof *words);
        rapt_generator g;
        rapt_generator_seed(&g, w->seed + (UINT64_C(5) << 32)); /* the low 32 bits count */
        for (int64_t i = 0; i < w->words.count; i++) { words[i] = rapt_generator_next(&g); }
        expect_values(&w->words, words, w->words.count, 4, "words", n);
        free(words);
    }
}

Test(generator, a_copy_is_a_fork) {
    rapt_generator g, fork;
    rapt_generator_seed(&g, 1);
    for (int i = 0; i < 1000; i++) { rapt_generator_next(&g); }
    fork = g;
    for (int i = 0; i < 2000; i++) {
        cr_assert_eq(rapt_generator_next(&fork), rapt_generator_next(&g));
    }
}

Test(generator, uniform) {
    for (size_t n = 0; n < COUNT(torch_uniform_of); n++) {
        const torch_uniform *u = &torch_uniform_of[n];
        float *values = take(u->values.count, sizeof *values);
        const rapt_tensor t = rapt_tensor_1d(RAPT_F32, values, u->values.count);
        rapt_generator g;
        rapt_generator_seed(&g, u->seed);
        cr_assert_eq(rapt_generator_uniform(context, &g, u->from, u->to, &t), RAPT_OK);
        expect_values(&u->values, values, u->values.count, 4, "uniform", n);
        free(values);
    }
}

Test(generator, linear) {
    for (size_t n = 0; n < COUNT(torch_linear_of); n++) {
        const torch_linear *l = &torch_linear_of[n];
        float *weight = take(l->in * l->out, sizeof *weight), *bias = take(l->out, sizeof *bias);
        const rapt_tensor w = rapt_tensor_2d(RAPT_F32, weight, l->out, l->in);
        const rapt_tensor b = rapt_tensor_1d(RAPT_F32, bias, l->out);
        rapt_generator g;
        rapt_generator_seed(&g, l->seed);
        for (int layer = 0; layer < 2; layer++) {
            cr_assert_eq(rapt_generator_linear(context, &g, &w, l->bias.count ? &b : NULL),
                         RAPT_OK);
        }
        expect_values(&l->weight, weight, l->in * l->out, 4, "weight", n);
        if (l->bias.count) { expect_values(&l->bias, bias, l->out, 4, "bias", n); }
        free(weight);
        free(bias);
    }
}

static uint32_t next_bits(rapt_generator *g) {
    float x;
    uint32_t bits;
    const rapt_tensor t = rapt_tensor_1d(RAPT_F32, &x, 1);
    cr_assert_eq(rapt_generator_uniform(context, g, 0.0f, 1.0f, &t), RAPT_OK);
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

Test(generator, keep) {
    for (size_t n = 0; n < COUNT(torch_keep_of); n++) {
        const torch_keep *k = &torch_keep_of[n];
        uint8_t *keep = take(k->keep.count, 1);
        const rapt_tensor t = rapt_tensor_1d(RAPT_BOOL, keep, k->keep.count);
        rapt_generator g;
        rapt_generator_seed(&g, k->seed);
        cr_assert_eq(rapt_generator_keep(context, &g, k->p, &t), RAPT_OK);
        expect_values(&k->keep, keep, k->keep.count, 1, "keep", n);
        cr_expect_eq(next_bits(&g), k->follows, "keep %zu: the next draw", n);
        free(keep);
    }
}

/* The book's masks, whole: section 3.5.2 (a 6 x 6 matrix of ones), and the causal module of seed
 * 123 in training, whose three layers of 3 to 2 features were drawn before. */
Test(generator, masks_of_the_book) {
    static const char *const ones = "110110000101111101011001010101011110";
    static const char *const causal =
        "101111101011001010101011110100000001011011111001101000011110111001110110";
    uint8_t keep[72];
    float weight[6];
    rapt_generator g;
    const rapt_tensor matrix = rapt_tensor_2d(RAPT_BOOL, keep, 6, 6);
    rapt_generator_seed(&g, 123);
    cr_assert_eq(rapt_generator_keep(context, &g, 0.5, &matrix), RAPT_OK);
    for (int i = 0; i < 36; i++) { cr_expect_eq(keep[i], ones[i] - '0', "element %d", i); }

    const rapt_tensor batch = rapt_tensor_3d(RAPT_BOOL, keep, 2, 6, 6);
    const rapt_tensor w = rapt_tensor_2d(RAPT_F32, weight, 2, 3);
    rapt_generator_seed(&g, 123);
    for (int layer = 0; layer < 3; layer++) {
        cr_assert_eq(rapt_generator_linear(context, &g, &w, NULL), RAPT_OK);
    }
    cr_assert_eq(rapt_generator_keep(context, &g, 0.5, &batch), RAPT_OK);
    for (int i = 0; i < 72; i++) { cr_expect_eq(keep[i], causal[i] - '0', "element %d", i); }
}

Test(generator, certain_outcomes_draw_nothing) {
    uint8_t keep[40];
    const rapt_tensor t = rapt_tensor_2d(RAPT_BOOL, keep, 5, 8);
    rapt_generator g, before;
    rapt_generator_seed(&g, 3);
    before = g;
    for (int p = 0; p <= 1; p++) {
        memset(keep, 0xA5, sizeof keep);
        cr_assert_eq(rapt_generator_keep(context, &g, p, &t), RAPT_OK);
        for (int i = 0; i < 40; i++) { cr_expect_eq(keep[i], 1 - p); }
        cr_expect(memcmp(&g, &before, sizeof g) == 0, "p = %d drew", p);
    }
}

/* Any layout holds, by index, what the dense one does; nothing else is written. */
static void expect_layout(layout l, rapt_dtype dtype, const rapt_generator *start) {
    const int64_t size[4] = {2, 3, 5, 7};
    float dense[210]; /* the bools lie at its start */
    const size_t bytes = (size_t)rapt_dtype_bytes(dtype);
    rapt_tensor t = layout_tensor(l, dtype, 4, size);
    const rapt_tensor packed = rapt_tensor_contiguous(dtype, dense, 4, size);
    int64_t before, after;
    layout_reach(&t, &before, &after);
    guard_block block = guard_take((size_t)(before + after + 1) * bytes, bytes, GUARD_AFTER, 0xA5);
    t.data = block.data + (size_t)before * bytes;
    guard_seal(&block);
    for (int strided = 0; strided < 2; strided++) {
        rapt_generator g = *start;
        const rapt_tensor *out = strided ? &t : &packed;
        const rapt_status status = dtype == RAPT_F32
                                       ? rapt_generator_uniform(context, &g, -1.0f, 2.0f, out)
                                       : rapt_generator_keep(context, &g, 0.5, out);
        cr_assert_eq(status, RAPT_OK, "%s: %s", layout_name(l), rapt_context_message(context));
    }
    int64_t n = 0;
    for (walk w = walk_begin(&t); !w.done; walk_next(&w), n++) {
        cr_expect(memcmp(walk_byte(&w), (char *)dense + (size_t)n * bytes, bytes) == 0,
                  "%s: element %d", layout_name(l), (int)n);
        guard_accept(&block, walk_byte(&w), bytes);
    }
    ptrdiff_t offset;
    cr_expect(guard_intact(&block, &offset), "%s: wrote outside", layout_name(l));
    guard_return(&block);
}

Test(generator, layouts) {
    rapt_generator start;
    rapt_generator_seed(&start, 77);
    for (layout l = 0; l < LAYOUT_WRITABLE; l++) {
        expect_layout(l, RAPT_F32, &start);
        expect_layout(l, RAPT_BOOL, &start);
    }
}

Test(generator, empty_and_single) {
    float x = 5.0f, bias[3];
    rapt_generator g, before;
    rapt_generator_seed(&g, 4);
    before = g;
    const rapt_tensor empty = rapt_tensor_3d(RAPT_F32, NULL, 3, 0, 2);
    cr_expect_eq(rapt_generator_uniform(context, &g, 0.0f, 1.0f, &empty), RAPT_OK);
    const rapt_tensor no_mask = rapt_tensor_2d(RAPT_BOOL, NULL, 0, 9);
    cr_expect_eq(rapt_generator_keep(context, &g, 0.5, &no_mask), RAPT_OK);
    cr_expect(memcmp(&g, &before, sizeof g) == 0, "an empty tensor drew");

    const rapt_tensor scalar = rapt_tensor_contiguous(RAPT_F32, &x, 0, NULL);
    cr_expect_eq(rapt_generator_uniform(context, &g, 0.0f, 1.0f, &scalar), RAPT_OK);
    cr_expect(x == (float)(rapt_generator_next(&before) % 16777216u) / 16777216.0f);

    const rapt_tensor no_weight = rapt_tensor_2d(RAPT_F32, NULL, 3, 0);
    const rapt_tensor b = rapt_tensor_1d(RAPT_F32, bias, 3);
    cr_expect_eq(rapt_generator_linear(context, &g, &no_weight, &b), RAPT_OK);
    for (int i = 0; i < 3; i++) { cr_expect(bias[i] == 0.0f); }
}

/* ---- Misuse ---- */

enum { UNIFORM, LINEAR, LINEAR_BIAS, KEEP, CALLS };

static float memory[64];
static rapt_generator the_generator;

/* One call on `t` (for LINEAR_BIAS, as the bias of a weight [2, 3] at memory + 32). */
static rapt_status call(int which, rapt_context *c, rapt_generator *g, const rapt_tensor *t) {
    const rapt_tensor weight = rapt_tensor_2d(RAPT_F32, memory + 32, 2, 3);
    switch (which) {
    case UNIFORM: return rapt_generator_uniform(c, g, 0.0f, 1.0f, t);
    case LINEAR: return rapt_generator_linear(c, g, t, NULL);
    case LINEAR_BIAS: return rapt_generator_linear(c, g, &weight, t);
    default: return rapt_generator_keep(c, g, 0.5, t);
    }
}

static void expect_refused(int which, const rapt_tensor *t, rapt_status want, const char *words,
                           int line) {
    float before[64];
    memset(memory, 0xA5, sizeof memory);
    memcpy(before, memory, sizeof before);
    rapt_generator_seed(&the_generator, 1);
    const rapt_generator unused = the_generator;
    const rapt_status status = call(which, context, &the_generator, t);
    cr_expect(status == want, "line %d: %s", line, rapt_status_name(status));
    expect_message(rapt_context_message(context), words, line);
    cr_expect(memcmp(before, memory, sizeof before) == 0, "line %d: wrote", line);
    cr_expect(memcmp(&unused, &the_generator, sizeof unused) == 0, "line %d: drew", line);
}

static const char *const names[CALLS] = {"out", "weight", "bias", "keep"};

Test(generator, refuses_bad_tensors) {
    for (int which = 0; which < CALLS; which++) {
        const rapt_dtype dtype = which == KEEP ? RAPT_BOOL : RAPT_F32;
        const rapt_tensor good = which == LINEAR_BIAS ? rapt_tensor_1d(dtype, memory, 2)
                                                      : rapt_tensor_2d(dtype, memory, 2, 3);
        const char *name = names[which];
        cr_expect_eq(call(which, context, &the_generator, &good), RAPT_OK);
        if (which != LINEAR_BIAS) {
            expect_refused(which, NULL, RAPT_ERR_ARGUMENT, name, __LINE__);
        }
        rapt_tensor t = good;
        t.data = NULL;
        expect_refused(which, &t, RAPT_ERR_ARGUMENT, name, __LINE__);
        t = good;
        t.dtype = RAPT_I32;
        expect_refused(which, &t, RAPT_ERR_DTYPE, name, __LINE__);
        t = good;
        t.size[0] = -1;
        expect_refused(which, &t, RAPT_ERR_SHAPE, name, __LINE__);
        t = good;
        t.rank = 7;
        expect_refused(which, &t, RAPT_ERR_SHAPE, name, __LINE__);
        t = good;
        t.stride[0] = 0;
        expect_refused(which, &t, RAPT_ERR_OVERLAP, name, __LINE__);
    }
    rapt_tensor t = rapt_tensor_1d(RAPT_F32, memory, 6);
    expect_refused(LINEAR, &t, RAPT_ERR_SHAPE, "weight 1 2", __LINE__);
    t = rapt_tensor_1d(RAPT_F32, memory, 3);
    expect_refused(LINEAR_BIAS, &t, RAPT_ERR_SHAPE, "bias 3 2", __LINE__);
    t = rapt_tensor_2d(RAPT_F32, memory, 1, 2);
    expect_refused(LINEAR_BIAS, &t, RAPT_ERR_SHAPE, "bias 2 1", __LINE__);
    t = rapt_tensor_1d(RAPT_F32, memory + 33, 2);
    expect_refused(LINEAR_BIAS, &t, RAPT_ERR_OVERLAP, "bias weight", __LINE__);
}

Test(generator, refuses_null_generator_and_context) {
    const rapt_context_options unknown = {.isa = "none such"};
    rapt_context *broken = NULL;
    cr_assert_eq(rapt_context_create(&broken, &unknown), RAPT_ERR_ISA);
    const rapt_tensor good = rapt_tensor_2d(RAPT_F32, memory, 2, 3);
    for (int which = 0; which < CALLS; which++) {
        if (which == LINEAR_BIAS) { continue; }
        rapt_tensor t = good;
        t.dtype = which == KEEP ? RAPT_BOOL : RAPT_F32;
        cr_expect_eq(call(which, context, NULL, &t), RAPT_ERR_ARGUMENT);
        expect_message(rapt_context_message(context), "generator", __LINE__);
        cr_expect_eq(call(which, NULL, &the_generator, &t), RAPT_ERR_ARGUMENT);
        cr_expect_eq(call(which, broken, &the_generator, &t), RAPT_ERR_ARGUMENT);
        expect_message(rapt_context_message(broken), "unknown", __LINE__);
    }
    rapt_context_destroy(broken);
}

Test(generator, refuses_bad_numbers) {
    const rapt_tensor out = rapt_tensor_2d(RAPT_F32, memory, 2, 3);
    const rapt_tensor keep = rapt_tensor_2d(RAPT_BOOL, memory, 2, 3);
    static const float pairs[][2] = {
        {NAN, 1.0f}, {0.0f, NAN}, {-INFINITY, 0.0f}, {0.0f, INFINITY}, {-3e38f, 3e38f}};
    static const double ps[] = {-0.001, 1.001, (double)NAN, (double)INFINITY};
    rapt_generator g, before;
    rapt_generator_seed(&g, 1);
    before = g;
    memset(memory, 0xA5, sizeof memory);
    for (size_t n = 0; n < COUNT(pairs); n++) {
        cr_expect_eq(rapt_generator_uniform(context, &g, pairs[n][0], pairs[n][1], &out),
                     RAPT_ERR_ARGUMENT);
        expect_message(rapt_context_message(context), "from to", __LINE__);
    }
    for (size_t n = 0; n < COUNT(ps); n++) {
        cr_expect_eq(rapt_generator_keep(context, &g, ps[n], &keep), RAPT_ERR_ARGUMENT);
        expect_message(rapt_context_message(context), "p", __LINE__);
    }
    cr_expect(memcmp(&g, &before, sizeof g) == 0, "drew");
    for (int i = 0; i < 24; i++) { cr_expect_eq(((uint8_t *)memory)[i], 0xA5); }
}
