/* SPDX-License-Identifier: MIT
 * random_mt19937.c: PyTorch's CPU generator, bit for bit: the 32-bit Mersenne Twister (Matsumoto
 * and Nishimura 1998), and what PyTorch makes of its words. The multiply-add of a uniform number is
 * fused, as in PyTorch's vector code; C's fmaf gives these bits on every machine. */
#include "operand.h"
#include "walk.h"

#include <math.h>

enum { WORDS = 624, SHIFT = 397 };

void rapt_generator_seed(rapt_generator *generator, uint64_t seed) {
    uint32_t *state = generator->state;
    state[0] = (uint32_t)seed;
    for (uint32_t j = 1; j < WORDS; j++) {
        state[j] = UINT32_C(1812433253) * (state[j - 1] ^ (state[j - 1] >> 30)) + j;
    }
    generator->next = WORDS;
}

/* The top bit of one word and the rest of the next, shifted and mixed. */
static uint32_t twist(uint32_t word, uint32_t next) {
    const uint32_t mixed = (word & 0x80000000u) | (next & 0x7fffffffu);
    return (mixed >> 1) ^ (next & 1 ? 0x9908b0dfu : 0);
}

static void regenerate(rapt_generator *generator) {
    uint32_t *state = generator->state;
    for (int j = 0; j < WORDS - SHIFT; j++) {
        state[j] = state[j + SHIFT] ^ twist(state[j], state[j + 1]);
    }
    for (int j = WORDS - SHIFT; j < WORDS - 1; j++) {
        state[j] = state[j + SHIFT - WORDS] ^ twist(state[j], state[j + 1]);
    }
    state[WORDS - 1] = state[SHIFT - 1] ^ twist(state[WORDS - 1], state[0]);
    generator->next = 0;
}

uint32_t rapt_generator_next(rapt_generator *generator) {
    if (generator->next < 0 || generator->next >= WORDS) { regenerate(generator); }
    uint32_t y = generator->state[generator->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

/* ---- Tensors ---- */

static rapt_status check_filled(rapt_context *context, const rapt_generator *generator,
                                const char *name, const rapt_tensor *t, rapt_dtype dtype) {
    if (!generator) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "generator: null pointer"); }
    rapt_status status = rapti_operand_check(context, name, t, dtype, 0, RAPT_MAX_RANK);
    if (status == RAPT_OK) { status = rapti_operand_written(context, name, t); }
    return status;
}

static void fill_uniform(rapt_generator *generator, float from, float to, const rapt_tensor *out) {
    const rapt_tensor t = rapti_tensor_normal(out);
    const int64_t count = rapti_walk_count(&t, t.rank);
    if (count == 0) { return; }
    rapti_walk w = rapti_walk_start(&t, t.rank, 0);
    for (int64_t n = 0; n < count; n++, rapti_walk_next(&w)) {
        const float u = (float)(rapt_generator_next(generator) & 0xffffffu) * 0x1p-24f;
        ((float *)t.data)[w.offset] = fmaf(u, to - from, from);
    }
}

rapt_status rapt_generator_uniform(rapt_context *context, rapt_generator *generator, float from,
                                   float to, const rapt_tensor *out) {
    rapt_status status = rapti_operand_context(context);
    if (status != RAPT_OK) { return status; }
    status = check_filled(context, generator, "out", out, RAPT_F32);
    if (status == RAPT_OK && !(isfinite(from) && isfinite(to) && isfinite(to - from))) {
        status = rapti_fail(context, RAPT_ERR_ARGUMENT,
                            "from, to: %g and %g, expected finite numbers a finite distance apart",
                            (double)from, (double)to);
    }
    if (status != RAPT_OK) { return status; }
    fill_uniform(generator, from, to, out);
    return RAPT_OK;
}

rapt_status rapt_generator_linear(rapt_context *context, rapt_generator *generator,
                                  const rapt_tensor *weight, const rapt_tensor *bias) {
    const int64_t any[2] = {-1, -1};
    rapt_status status = rapti_operand_context(context);
    if (status != RAPT_OK) { return status; }
    status = check_filled(context, generator, "weight", weight, RAPT_F32);
    if (status == RAPT_OK) { status = rapti_operand_sizes(context, "weight", weight, 2, any); }
    if (status == RAPT_OK && bias) {
        status = check_filled(context, generator, "bias", bias, RAPT_F32);
        if (status == RAPT_OK) {
            status = rapti_operand_sizes(context, "bias", bias, 1, weight->size);
        }
        if (status == RAPT_OK) {
            status = rapti_operand_apart(context, "bias", bias, "weight", weight);
        }
    }
    if (status != RAPT_OK) { return status; }
    const int64_t in = weight->size[1];
    const float bound = in > 0 ? (float)(1.0 / sqrt((double)in)) : 0.0f;
    fill_uniform(generator, -bound, bound, weight);
    if (bias) { fill_uniform(generator, -bound, bound, bias); }
    return RAPT_OK;
}

/* A double of 53 random bits: the first word is the high one. */
static double uniform_double(rapt_generator *generator) {
    const uint64_t high = rapt_generator_next(generator), low = rapt_generator_next(generator);
    return (double)((high << 32 | low) & ((UINT64_C(1) << 53) - 1)) * 0x1p-53;
}

rapt_status rapt_generator_keep(rapt_context *context, rapt_generator *generator, double p,
                                const rapt_tensor *keep) {
    rapt_status status = rapti_operand_context(context);
    if (status != RAPT_OK) { return status; }
    status = check_filled(context, generator, "keep", keep, RAPT_BOOL);
    if (status == RAPT_OK && !(p >= 0.0 && p <= 1.0)) {
        status = rapti_fail(context, RAPT_ERR_ARGUMENT, "p: %g, expected 0 .. 1", p);
    }
    if (status != RAPT_OK) { return status; }
    const rapt_tensor t = rapti_tensor_normal(keep);
    const int64_t count = rapti_walk_count(&t, t.rank);
    if (count == 0) { return RAPT_OK; }
    const int drawn = p > 0.0 && p < 1.0;
    rapti_walk w = rapti_walk_start(&t, t.rank, 0);
    for (int64_t n = 0; n < count; n++, rapti_walk_next(&w)) {
        const int kept = drawn ? uniform_double(generator) < 1.0 - p : p < 1.0;
        ((uint8_t *)t.data)[w.offset] = (uint8_t)kept;
    }
    return RAPT_OK;
}
