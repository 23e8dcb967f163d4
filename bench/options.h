/* SPDX-License-Identifier: MIT
 * options.h: the command line. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "output.h"

enum { BENCH_MAX_THREADS = 16 };

typedef struct bench_options {
    int list, scaling;
    char **rows; /* patterns, null-terminated; null: all */
    char **isas; /* names, null-terminated; null: the library's own choice */
    int threads[BENCH_MAX_THREADS];
    int thread_counts;
    double seconds; /* per row, instruction set and thread count */
    bench_format format;
} bench_options;

/* Reads the command line; prints what is wrong with it to standard error and returns 0 then.
 * --help prints and exits. */
int bench_options_parse(bench_options *options, int argc, const char **argv);
void bench_options_free(bench_options *options);

#endif
