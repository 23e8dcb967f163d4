/* SPDX-License-Identifier: MIT
 * parallel.h: running a list of independent tasks on several threads. */
#ifndef RAPTI_PARALLEL_H
#define RAPTI_PARALLEL_H

#include <stdint.h>

/* thread: 0 .. threads - 1, for picking scratch memory */
typedef void rapti_task_fn(void *argument, int64_t task, int32_t thread);

/* Threads that OpenMP would use for a parallel region here, 1 without OpenMP. */
int32_t rapti_parallel_default(void);

/* Remembers the first process that asks; see rapti_parallel_run. */
void rapti_parallel_note_process(void);

/* Calls run(argument, task, thread) once for every task in 0 .. tasks - 1, in order of demand, on
 * at most `threads` threads: fewer if OpenMP gives fewer, one in any process but the first that
 * called rapti_parallel_note_process (a forked child cannot start a team). */
void rapti_parallel_run(int32_t threads, int64_t tasks, rapti_task_fn *run, void *argument);

#endif
