/* SPDX-License-Identifier: MIT
 * result.h: one line of a run's output: a row on an instruction set and thread count, or a ceiling.
 * What each key means: bench/README.md. */
#ifndef BENCH_RESULT_H
#define BENCH_RESULT_H

#include "measure.h"
#include "output.h"

/* NaN and -1 stand for nothing to say. */
typedef struct bench_result {
    const char *row, *isa, *unit;
    int threads;
    double ms, rate, best, share, bar;
    int reached; /* 1 or 0 */
    int verified;
    bench_summary summary;
} bench_result;

/* A result with nothing measured, not verified. */
bench_result bench_result_empty(const char *row, const char *isa, int threads);

/* What the run saw of a ceiling. */
bench_result bench_result_of_ceiling(const bench_ceiling *ceiling);

/* The heading, and a line. */
void bench_result_begin(bench_format format);
void bench_result_print(bench_format format, const bench_result *result);

#endif
