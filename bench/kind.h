/* SPDX-License-Identifier: MIT
 * kind.h: a kind of row: what the first word of a name stands for. The rest of the program knows
 * rows only through this interface. */
#ifndef BENCH_KIND_H
#define BENCH_KIND_H

#include <rapt/rapt.h>

/* One call, as a context would make it. */
typedef struct bench_cost {
    double gflop; /* that count: visible work only */
    int threads;  /* that it uses */
    int parts;    /* parts of equal cost that it can be cut into; 1 = none */
    int apart;    /* 1: the parts have other results than the whole (dropout by position) */
} bench_cost;

typedef struct bench_kind {
    const char *prefix; /* of its names, "fwd-f32-" */
    int baseline;       /* 1: the compiler's default target on one thread, not the library */

    /* 1 if the rest of a name is a problem that can be run. */
    int (*accepts)(const char *rest);

    /* A problem with its data, of a name that is accepted; null if memory ran out. */
    void *(*create)(const char *rest);
    void (*destroy)(void *data);

    rapt_status (*cost)(const void *data, rapt_context *context, bench_cost *cost);

    /* The call that is verified and timed: part `part` of `parts`, 0 of 1 = all of it. */
    rapt_status (*run)(void *data, rapt_context *context, int part, int parts);

    /* Fills the outputs with NaN; and the worst error of a sample of them against the formula in
     * double precision, as a multiple of what rounding explains: <= 1 is right; infinity if a
     * number is NaN or memory ran out. */
    void (*spoil)(void *data);
    double (*verify)(const void *data);

    /* Costs of the call's tasks, in their order: the first `capacity`; and the step of each, all 0
     * before the call, where a step waits for the one before it. Null: unknown. */
    rapt_status (*tasks)(const void *data, rapt_context *context, double *costs, int64_t *steps,
                         int64_t capacity, int64_t *count);
} bench_kind;

extern const bench_kind bench_kind_forward, bench_kind_backward, bench_kind_textbook,
    bench_kind_matmul, bench_kind_module;

/* The kind whose prefix a name has, and what follows the prefix; null: no kind takes the name. */
const bench_kind *bench_kind_of(const char *name, const char **rest);

/* ---- Reading names: each moves *at past what it takes; 1, or 0 if it is not there. ---- */

int bench_take_text(const char **at, const char *text);
int bench_take_number(const char **at, int64_t *number);
int bench_take_pair(const char **at, int64_t *first, int64_t *second); /* "12" = "12/12" */

#endif
