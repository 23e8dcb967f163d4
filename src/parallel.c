/* SPDX-License-Identifier: MIT
 * parallel.c: the only file with OpenMP in it. Nothing global is set; the team is used as large as
 * it turns out to be. Built without OpenMP, everything runs on the caller's thread. */
#define _POSIX_C_SOURCE 200809L
#include "parallel.h"

#include <stdatomic.h>
#include <unistd.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

static _Atomic long first_process;

void rapti_parallel_note_process(void) {
    long none = 0;
    atomic_compare_exchange_strong(&first_process, &none, (long)getpid());
}

#if defined(_OPENMP)

int32_t rapti_parallel_default(void) { return omp_get_max_threads(); }

static void run_team(int32_t threads, int64_t tasks, rapti_task_fn *run, void *argument) {
    _Atomic int64_t next = 0;
    /* many small tasks are taken a few at a time: at most 1/64 of a thread's share */
    const int64_t share = tasks / ((int64_t)threads * 64), step = share > 1 ? share : 1;
#pragma omp parallel num_threads(threads) default(none) shared(next, tasks, step, run, argument)
    {
        const int32_t thread = omp_get_thread_num();
        for (;;) {
            int64_t task = atomic_fetch_add_explicit(&next, step, memory_order_relaxed);
            if (task >= tasks) { break; }
            for (const int64_t past = task + step; task < past && task < tasks; task++) {
                run(argument, task, thread);
            }
        }
    }
}

#else

int32_t rapti_parallel_default(void) { return 1; }

static void run_team(int32_t threads, int64_t tasks, rapti_task_fn *run, void *argument) {
    (void)threads;
    for (int64_t task = 0; task < tasks; task++) { run(argument, task, 0); }
}

#endif

void rapti_parallel_run(int32_t threads, int64_t tasks, rapti_task_fn *run, void *argument) {
    if (threads > 1 && tasks > 1 && atomic_load(&first_process) == (long)getpid()) {
        run_team(threads, tasks, run, argument);
        return;
    }
    for (int64_t task = 0; task < tasks; task++) { run(argument, task, 0); }
}
