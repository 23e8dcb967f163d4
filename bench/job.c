/* SPDX-License-Identifier: MIT
 * job.c: runs a case (job.h). */
#include "job.h"

#include <stdio.h>

static const double long_gflop = 0.5; /* about 5 ms at full speed */

int bench_engine_create(bench_engine *e, bench_ceilings *ceilings, const char *isa, int threads) {
    *e = (bench_engine){.threads = threads};
    const rapt_context_options options = {.threads = threads, .isa = isa};
    if (rapt_context_create(&e->context, &options) != RAPT_OK) {
        fprintf(stderr, "rapt-bench: %s\n", rapt_context_message(e->context));
        return 0;
    }
    e->isa = rapt_context_isa(e->context);
    const bench_ceiling_kernel *kernel = bench_ceiling_kernel_for(e->isa);
    e->ceiling = kernel ? bench_ceiling_get(ceilings, kernel, threads) : NULL;
    if (!e->ceiling) {
        fprintf(stderr, "rapt-bench: no ceiling for %s on %d threads\n", e->isa, threads);
        return 0;
    }
    return 1;
}

void bench_engine_destroy(bench_engine *e) {
    rapt_context_destroy(e->context);
    *e = (bench_engine){0};
}

int bench_case_create(bench_case *c, const char *name) {
    const char *rest = NULL;
    c->kind = bench_kind_of(name, &rest);
    c->data = c->kind ? c->kind->create(rest) : NULL;
    return c->data != NULL;
}

void bench_case_destroy(bench_case *c) {
    c->kind->destroy(c->data);
    *c = (bench_case){0};
}

static void call(void *argument) {
    bench_job *job = argument;
    const int part = job->next_part;
    job->next_part = (part + 1) % job->cost.parts;
    if (job->status == RAPT_OK) {
        job->status = job->c->kind->run(job->c->data, job->context, part, job->cost.parts);
    }
}

int bench_job_ok(const bench_job *job) {
    if (job->status != RAPT_OK) {
        fprintf(stderr, "rapt-bench: %s\n", rapt_context_message(job->context));
    }
    return job->status == RAPT_OK;
}

/* All parts, as they will be timed, against the formula. */
static int verified(bench_job *job) {
    const bench_kind *kind = job->c->kind;
    kind->spoil(job->c->data);
    for (int part = 0; part < job->cost.parts; part++) { call(job); }
    if (!bench_job_ok(job)) { return 0; }
    const double error = kind->verify(job->c->data);
    if (!(error <= 1)) {
        fprintf(stderr, "rapt-bench: wrong result, error %.3g times the tolerance\n", error);
        return 0;
    }
    return 1;
}

int bench_job_create(bench_job *job, const bench_case *c, const bench_engine *engine) {
    *job = (bench_job){.c = c, .context = engine->context};
    job->status = c->kind->cost(c->data, engine->context, &job->cost);
    if (job->cost.threads > 1 || job->cost.gflop < long_gflop) { job->cost.parts = 1; }
    const int parts = job->cost.parts;
    if (job->cost.apart) { job->cost.parts = 1; }
    const int right = verified(job);
    job->cost.parts = parts;
    return right;
}

bench_work bench_job_work(bench_job *job) {
    return (bench_work){call, job, job->cost.threads, job->cost.parts};
}
