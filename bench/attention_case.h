/* SPDX-License-Identifier: MIT
 * attention_case.h: the problem that a row's name describes, with its data: contiguous tensors of
 * standard normal numbers.
 *
 *   <B>x<H>x<T>x<D>-<form>       "1x12x1024x64-causal"
 *
 * with H = <query heads>/<kv heads>, T = <queries>/<keys> and D = <head size>/<value head size>
 * where the two differ. Forms: bench/README.md. */
#ifndef BENCH_ATTENTION_CASE_H
#define BENCH_ATTENTION_CASE_H

#include <rapt/rapt.h>

typedef enum bench_form {
    BENCH_FULL,
    BENCH_CAUSAL,  /* bottom right */
    BENCH_WINDOW,  /* causal, the last `window` keys */
    BENCH_MASK,    /* bool [B, 1, Tq, Tk] */
    BENCH_LENGTHS, /* key lengths [B] */
    BENCH_BIAS,    /* f32 [1, Hq, Tq, Tk] */
    BENCH_DROPOUT  /* training, p = 0.1 */
} bench_form;

typedef struct bench_problem {
    bench_form form;
    int64_t batch, q_heads, kv_heads, queries, keys, head_dim, value_dim;
    int64_t window; /* BENCH_WINDOW: keys that a query sees, its own included */
} bench_problem;

typedef struct bench_attention {
    bench_problem problem;
    rapt_attention what;
    rapt_attention_operands operands; /* point at the tensors below: not to be copied */
    rapt_tensor q, k, v, out;
    rapt_tensor mask, bias, key_lengths; /* those of the problem's form; data null otherwise */
    float *scores;                       /* of the textbook loops */
} bench_attention;

/* Reads a name. Returns 1, or 0 if it names no problem that can be run. */
int bench_problem_parse(const char *text, bench_problem *problem);

/* Allocates and fills all tensors. Null if memory ran out. */
bench_attention *bench_attention_create(const bench_problem *problem);
void bench_attention_destroy(void *attention);

/* Parts of a call that are timed in turn: key/value heads, a few at a time if one is short, as
 * heads that follow one another are work of another kind than heads alone. */
int bench_attention_parts(const bench_attention *c, double gflop);

/* A part of the heads of an operand; operands that are broadcast over heads stay whole. */
rapt_tensor bench_attention_part(const rapt_tensor *t, int part, int parts);

/* What the form says of a query-key pair: 1 if visible; the bias; keep / (1 - p). */
int bench_attention_visible(const bench_attention *c, int64_t b, int64_t h, int64_t i, int64_t j);
double bench_attention_bias(const bench_attention *c, int64_t b, int64_t h, int64_t i, int64_t j);
double bench_attention_kept(const bench_attention *c, int64_t b, int64_t h, int64_t i, int64_t j);

void bench_attention_spoil(void *attention);

/* Compares up to 64 rows of the output, chosen at random, with the formula: bench_kind.verify. */
double bench_attention_verify(const void *attention);

#endif
