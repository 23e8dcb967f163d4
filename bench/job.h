/* SPDX-License-Identifier: MIT
 * job.h: a case and who computes it: the library on one instruction set and thread count, or the
 * textbook loops. What is verified and what is timed is the same call. */
#ifndef BENCH_JOB_H
#define BENCH_JOB_H

#include "case.h"
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

typedef struct bench_job {
    bench_case *c;
    rapt_context *context;
    float *scores; /* of the textbook loops */
    rapt_status status;
    double gflop; /* of one call: 2 * visible pairs * (D + Dv) * 1e-9 */
    int threads;  /* that one call uses */
    int parts;    /* key/value heads that are timed one at a time, in turn; 1 = all in one call */
    int next_part;
} bench_job;

/* Makes the job and verifies its result. Returns 1 if it may be timed; otherwise says why on
 * standard error. To be destroyed in both cases. */
int bench_job_create(bench_job *job, bench_case *c, const bench_engine *engine);
void bench_job_destroy(bench_job *job);

/* Whether all its calls so far succeeded; otherwise says why on standard error. */
int bench_job_ok(const bench_job *job);

/* The job as something to time. A long case on one thread is timed one key/value head at a time:
 * the same work on the same memory, in samples short enough to find the core quiet. */
bench_work bench_job_work(bench_job *job);

#endif
