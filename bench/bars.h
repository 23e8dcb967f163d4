/* SPDX-License-Identifier: MIT
 * bars.h: the bar of a row as a share of its ceiling, computed from the row table and, for bars
 * that compare two rows or two thread counts, from what this run measured before. */
#ifndef BENCH_BARS_H
#define BENCH_BARS_H

#include "rows.h"

enum { BENCH_HISTORY = 2048 };

typedef struct bench_measured {
    const char *row, *isa;
    int threads;
    double gflop; /* of one call */
    double share; /* NaN if nothing was measured */
} bench_measured;

/* All measurements of the run so far. Zero-initialised is empty. */
typedef struct bench_history {
    int count;
    bench_measured item[BENCH_HISTORY];
} bench_history;

void bench_history_add(bench_history *history, bench_measured measured);

/* The share that `now` should reach; NaN if there is no bar or nothing to compare with. Comparing
 * shares, not times, takes a change of the machine's speed between two rows out. */
double bench_bar(const bench_row *row, const bench_measured *now, const bench_history *history);

#endif
