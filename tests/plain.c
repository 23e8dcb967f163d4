/* SPDX-License-Identifier: MIT
 * plain.c: see plain.h. */
#include "plain.h"

#include "rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANARY = 0xA5 };

static float *take(size_t count) {
    float *memory = malloc((count ? count : 1) * sizeof *memory);
    if (!memory) { abort(); }
    return memory;
}

static float *random_floats(size_t count, uint64_t seed, uint64_t stream) {
    float *values = take(count);
    rng r = rng_make(seed, stream);
    for (size_t i = 0; i < count; i++) { values[i] = (float)rng_normal(&r); }
    return values;
}

void plain_make(plain *p, plain_sizes s, uint64_t seed) {
    memset(p, 0, sizeof *p);
    p->sizes = s;
    p->out_count = (size_t)(s.b * s.hq * s.tq * s.dv);
    p->lse_count = (size_t)(s.b * s.hq * s.tq);
    const size_t q_count = (size_t)(s.b * s.hq * s.tq * s.d);
    const size_t k_count = (size_t)(s.b * s.hkv * s.tk * s.d);
    const size_t v_count = (size_t)(s.b * s.hkv * s.tk * s.dv);
    p->q = rapt_tensor_4d(RAPT_F32, random_floats(q_count, seed, 1), s.b, s.hq, s.tq, s.d);
    p->k = rapt_tensor_4d(RAPT_F32, random_floats(k_count, seed, 2), s.b, s.hkv, s.tk, s.d);
    p->v = rapt_tensor_4d(RAPT_F32, random_floats(v_count, seed, 3), s.b, s.hkv, s.tk, s.dv);
    p->out = rapt_tensor_4d(RAPT_F32, take(p->out_count), s.b, s.hq, s.tq, s.dv);
    p->lse = rapt_tensor_3d(RAPT_F32, take(p->lse_count), s.b, s.hq, s.tq);
    p->operands = (rapt_attention_operands){
        .q = &p->q, .k = &p->k, .v = &p->v, .out = &p->out, .lse = &p->lse};
    plain_clear(p);
}

void plain_free(plain *p) {
    free(p->q.data);
    free(p->k.data);
    free(p->v.data);
    free(p->out.data);
    free(p->lse.data);
}

void plain_clear(plain *p) {
    memset(p->out.data, CANARY, p->out_count * sizeof(float));
    memset(p->lse.data, CANARY, p->lse_count * sizeof(float));
}

static bool all_canary(const void *memory, size_t bytes) {
    const unsigned char *byte = memory;
    for (size_t i = 0; i < bytes; i++) {
        if (byte[i] != CANARY) { return false; }
    }
    return true;
}

bool plain_untouched(const plain *p) {
    return all_canary(p->out.data, p->out_count * sizeof(float)) &&
           all_canary(p->lse.data, p->lse_count * sizeof(float));
}

rapt_status plain_run(plain *p, rapt_context *context) {
    plain_clear(p);
    return rapt_attention_forward(context, &p->what, &p->operands);
}

bool plain_same(const plain *a, const plain *b) {
    return a->out_count == b->out_count && a->lse_count == b->lse_count &&
           memcmp(a->out.data, b->out.data, a->out_count * sizeof(float)) == 0 &&
           memcmp(a->lse.data, b->lse.data, a->lse_count * sizeof(float)) == 0;
}

rapt_context *plain_context(int32_t threads, const char *isa) {
    const rapt_context_options options = {.threads = threads, .isa = isa};
    rapt_context *context = NULL;
    const rapt_status status = rapt_context_create(&context, &options);
    if (status != RAPT_OK) {
        fprintf(stderr, "%s: %s\n", rapt_status_name(status), rapt_context_message(context));
        abort();
    }
    const char *forced = isa ? isa : getenv("RAPT_ISA");
    if (forced && strcmp(forced, rapt_context_isa(context)) != 0) {
        fprintf(stderr, "%s runs where %s was forced\n", rapt_context_isa(context), forced);
        abort();
    }
    return context;
}
