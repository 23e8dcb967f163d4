/* SPDX-License-Identifier: MIT
 * rows.h: what is measured. A row is a name, and the name says everything:
 *
 *   <pass>-<dtype>-<B>x<H>x<T>x<D>-<form>       "fwd-f32-1x12x1024x64-causal"
 *
 * with H = <query heads>/<kv heads>, T = <queries>/<keys> and D = <head size>/<value head size>
 * where the two differ. Passes and forms: bench/README.md. */
#ifndef BENCH_ROWS_H
#define BENCH_ROWS_H

#include <stddef.h>
#include <stdint.h>

typedef enum bench_pass {
    BENCH_FWD,     /* rapt_attention_forward */
    BENCH_TEXTBOOK /* three loops in plain C, for comparison */
} bench_pass;

typedef enum bench_form {
    BENCH_FULL,
    BENCH_CAUSAL,  /* bottom right */
    BENCH_WINDOW,  /* causal, the last `window` keys */
    BENCH_MASK,    /* bool [B, 1, Tq, Tk] */
    BENCH_LENGTHS, /* key lengths [B] */
    BENCH_BIAS     /* f32 [1, Hq, Tq, Tk] */
} bench_form;

typedef struct bench_problem {
    bench_pass pass;
    bench_form form;
    int64_t batch, q_heads, kv_heads, queries, keys, head_dim, value_dim;
    int64_t window; /* BENCH_WINDOW: keys that a query sees, its own included */
} bench_problem;

/* A row and the bar that it should reach; zero and null = no bar of this kind. */
typedef struct bench_row {
    const char *name;
    double share[2];    /* one thread: least share of the ceiling, on AVX-512 and AVX2 */
    double two_threads; /* two threads: least speed-up against one, ceilings considered */
    double most_us;     /* most microseconds per call; such a row has no ceiling */
    double times;       /* most time, as a multiple of that of row `against` (one thread) */
    const char *against;
} bench_row;

/* The table, null past the end. */
const bench_row *bench_row_at(int index);

/* Reads a name. Returns 1, or 0 if it names no problem that can be run. */
int bench_problem_parse(const char *name, bench_problem *problem);

/* Whether a name matches one of the shell-style patterns (null-terminated list; null: all do). */
int bench_name_matches(const char *name, char *const *patterns);

/* The rows that match, in the table's order, then those patterns that are themselves names of
 * problems outside the table. Writes up to `capacity`, returns how many. */
int bench_rows_select(char *const *patterns, bench_row *rows, int capacity);

#endif
