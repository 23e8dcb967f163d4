/* SPDX-License-Identifier: MIT
 * job.h: a row's problem and who computes it: the library on one instruction set and thread count.
 * What is verified and what is timed is the same call. */
#ifndef BENCH_JOB_H
#define BENCH_JOB_H

#include "kind.h"
#include "measure.h"

/* The library, ready to run, and the ceiling that binds it. */
typedef struct bench_engine {
    rapt_context *context;
    const char *isa;
    int threads;
    bench_ceiling *ceiling;
} bench_engine;

/* isa null: the library's choice. Prints what is wrong to standard error and returns 0 then. */
int bench_engine_create(bench_engine *engine, bench_ceilings *ceilings, const char *isa,
                        int threads);
void bench_engine_destroy(bench_engine *engine);

/* A problem with its data, used by any number of jobs. */
typedef struct bench_case {
    const bench_kind *kind;
    void *data;
} bench_case;

/* Returns 1, or 0 if the name is none or memory ran out (nothing is kept then). */
int bench_case_create(bench_case *c, const char *name);
void bench_case_destroy(bench_case *c);

typedef struct bench_job {
    const bench_case *c;
    rapt_context *context;
    rapt_status status;
    bench_cost cost; /* parts: those that are timed one at a time, in turn; 1 = all in one call */
    int next_part;
} bench_job;

/* Makes the job and verifies its result. Returns 1 if it may be timed; otherwise says why on
 * standard error. */
int bench_job_create(bench_job *job, const bench_case *c, const bench_engine *engine);

/* The work to time; the job must outlive it. */
bench_work bench_job_work(bench_job *job);

/* 1 unless a call failed since; prints the library's message then. */
int bench_job_ok(const bench_job *job);

#endif
