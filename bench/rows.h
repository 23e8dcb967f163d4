/* SPDX-License-Identifier: MIT
 * rows.h: what is measured. A row is a name, and the name says everything: what is called, on which
 * type, sizes and form, "fwd-f32-1x12x1024x64-causal". Each kind of row (kind.h) reads its own
 * names; bench/README.md lists them. */
#ifndef BENCH_ROWS_H
#define BENCH_ROWS_H

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

/* Whether a name matches one of the shell-style patterns (null-terminated list; null: all do). */
int bench_name_matches(const char *name, char *const *patterns);

/* The rows that match, in the table's order, then those patterns that are themselves names of
 * problems outside the table. Writes up to `capacity`, returns how many. */
int bench_rows_select(char *const *patterns, bench_row *rows, int capacity);

#endif
