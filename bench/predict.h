/* SPDX-License-Identifier: MIT
 * predict.h: what the task list alone says about thread scaling: the effect of balance, beyond the
 * cores of this machine, without memory, caches and start-up. */
#ifndef BENCH_PREDICT_H
#define BENCH_PREDICT_H

#include "job.h"

/* Time of all tasks on one thread divided by the time on `threads` threads, where each task is
 * taken, in the list's order, by the first free thread. NaN if the library gives no list. */
double bench_predict_speedup(const bench_case *c, const char *isa, int threads);

#endif
