/* SPDX-License-Identifier: MIT
 * case.c: makes a problem's data (case.h). */
#define _DEFAULT_SOURCE
#include "case.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

/* xorshift64* (Vigna 2016) */
static uint64_t next_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

/* Sum of four uniform numbers, scaled to variance 1: close to a normal number, and cheap. */
static float next_normal(uint64_t *state) {
    const uint64_t r = next_random(state);
    const int64_t sum =
        (int64_t)((r & 0xFFFF) + (r >> 16 & 0xFFFF) + (r >> 32 & 0xFFFF) + (r >> 48)) - 2 * 0xFFFF;
    return (float)((double)sum * (1.7320508075688772 / 65536));
}

static int64_t elements(const rapt_tensor *t) {
    int64_t n = 1;
    for (int axis = 0; axis < t->rank; axis++) { n *= t->size[axis]; }
    return n;
}

/* Large tensors ask for huge pages: where small ones happen to lie changes times by 2 %. */
static void *take(size_t bytes) {
    const size_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : 64;
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void *memory = aligned_alloc(alignment, rounded);
#if defined(MADV_HUGEPAGE)
    if (memory && alignment == HUGE_PAGE) { (void)madvise(memory, rounded, MADV_HUGEPAGE); }
#endif
    return memory;
}

static rapt_tensor allocate(rapt_dtype dtype, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
    rapt_tensor t = rapt_tensor_4d(dtype, NULL, n0, n1, n2, n3);
    const size_t bytes = (size_t)(elements(&t) * rapt_dtype_bytes(dtype));
    t.data = take(bytes);
    return t;
}

static uint64_t first_state(uint64_t seed) { return seed * UINT64_C(0x9E3779B97F4A7C15); }

static rapt_tensor normal_tensor(uint64_t seed, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
    rapt_tensor t = allocate(RAPT_F32, n0, n1, n2, n3);
    float *x = t.data;
    uint64_t state = first_state(seed);
    for (int64_t i = 0; x && i < elements(&t); i++) { x[i] = next_normal(&state); }
    return t;
}

/* Three quarters of the entries may attend. */
static rapt_tensor mask_tensor(uint64_t seed, const bench_problem *p) {
    rapt_tensor t = allocate(RAPT_BOOL, p->batch, 1, p->queries, p->keys);
    uint8_t *x = t.data;
    uint64_t state = first_state(seed);
    for (int64_t i = 0; x && i < elements(&t); i++) { x[i] = next_random(&state) >> 62 != 0; }
    return t;
}

/* From all keys in the first batch item down to half of them. */
static rapt_tensor lengths_tensor(const bench_problem *p) {
    rapt_tensor t = allocate(RAPT_I64, 1, 1, 1, p->batch);
    int64_t *x = t.data;
    for (int64_t b = 0; x && b < p->batch; b++) { x[b] = p->keys - p->keys * b / (2 * p->batch); }
    return rapt_tensor_1d(RAPT_I64, t.data, p->batch);
}

int bench_case_create(bench_case *c, const bench_problem *p) {
    *c = (bench_case){.problem = *p};
    c->q = normal_tensor(1, p->batch, p->q_heads, p->queries, p->head_dim);
    c->k = normal_tensor(2, p->batch, p->kv_heads, p->keys, p->head_dim);
    c->v = normal_tensor(3, p->batch, p->kv_heads, p->keys, p->value_dim);
    c->out = allocate(RAPT_F32, p->batch, p->q_heads, p->queries, p->value_dim);
    c->operands = (rapt_attention_operands){.q = &c->q, .k = &c->k, .v = &c->v, .out = &c->out};
    int ok = c->q.data && c->k.data && c->v.data && c->out.data;

    switch (p->form) {
    case BENCH_FULL: break;
    case BENCH_WINDOW: c->what.window = (rapt_window){1, p->window, 0}; /* fall through */
    case BENCH_CAUSAL: c->what.causal = RAPT_CAUSAL_BOTTOM_RIGHT; break;
    case BENCH_MASK:
        c->mask = mask_tensor(4, p);
        c->operands.mask = &c->mask;
        ok = ok && c->mask.data;
        break;
    case BENCH_LENGTHS:
        c->key_lengths = lengths_tensor(p);
        c->operands.key_lengths = &c->key_lengths;
        ok = ok && c->key_lengths.data;
        break;
    case BENCH_BIAS:
        c->bias = normal_tensor(5, 1, p->q_heads, p->queries, p->keys);
        c->operands.bias = &c->bias;
        ok = ok && c->bias.data;
        break;
    }
    if (!ok) { bench_case_destroy(c); }
    return ok;
}

void bench_case_destroy(bench_case *c) {
    free(c->q.data);
    free(c->k.data);
    free(c->v.data);
    free(c->out.data);
    free(c->mask.data);
    free(c->bias.data);
    free(c->key_lengths.data);
    *c = (bench_case){0};
}

void bench_case_spoil_output(bench_case *c) {
    float *x = c->out.data;
    for (int64_t i = 0; i < elements(&c->out); i++) { x[i] = NAN; }
}
