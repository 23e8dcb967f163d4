/* SPDX-License-Identifier: MIT
 * run.h: what the command line asks for: a run over rows, or a study of thread scaling. Both print
 * their results and return the exit status: 0, or 1 if anything failed its verification. */
#ifndef BENCH_RUN_H
#define BENCH_RUN_H

#include "options.h"

enum { BENCH_MAX_ROWS = 256 };

int bench_run(const bench_options *options);
int bench_scaling(const bench_options *options);

#endif
