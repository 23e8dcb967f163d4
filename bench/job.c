/* SPDX-License-Identifier: MIT
 * job.c: runs a case (job.h). */
#include "job.h"

#include "textbook.h"
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>

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

static void call_textbook(bench_job *job) {
    const bench_problem *p = &job->c->problem;
    bench_textbook(p->batch * p->q_heads, p->queries, p->head_dim, p->form == BENCH_CAUSAL,
                   job->c->q.data, job->c->k.data, job->c->v.data, job->scores, job->c->out.data);
}

static void call(void *argument) {
    bench_job *job = argument;
    if (job->scores) {
        call_textbook(job);
    } else if (job->status == RAPT_OK) {
        job->status = rapt_attention_forward(job->context, &job->c->what, &job->c->operands);
    }
}

/* The heads on axis 1 that go with one of `kv_heads` key/value heads; all of a broadcast tensor. */
static rapt_tensor part_of(const rapt_tensor *t, int64_t kv_heads, int part) {
    const int64_t heads = t->size[1] / kv_heads;
    return t->size[1] > 1 ? rapt_tensor_slice(*t, 1, part * heads, heads) : *t;
}

static void call_part(void *argument) {
    bench_job *job = argument;
    const bench_case *c = job->c;
    const int64_t kv_heads = c->problem.kv_heads;
    const int part = job->next_part++ % job->parts;
    const rapt_tensor q = part_of(&c->q, kv_heads, part), k = part_of(&c->k, kv_heads, part),
                      v = part_of(&c->v, kv_heads, part), out = part_of(&c->out, kv_heads, part);
    const rapt_tensor mask = part_of(&c->mask, kv_heads, part),
                      bias = part_of(&c->bias, kv_heads, part);
    rapt_attention_operands operands = c->operands;
    operands.q = &q;
    operands.k = &k;
    operands.v = &v;
    operands.out = &out;
    if (operands.mask) { operands.mask = &mask; }
    if (operands.bias) { operands.bias = &bias; }
    if (job->status == RAPT_OK) {
        job->status = rapt_attention_forward(job->context, &c->what, &operands);
    }
}

int bench_job_ok(const bench_job *job) {
    if (job->status != RAPT_OK) {
        fprintf(stderr, "rapt-bench: %s\n", rapt_context_message(job->context));
    }
    return job->status == RAPT_OK;
}

int bench_job_create(bench_job *job, bench_case *c, const bench_engine *engine) {
    const bench_problem *p = &c->problem;
    rapt_attention_info info = {0};
    *job = (bench_job){.c = c, .context = engine->context};
    job->status = rapt_attention_forward_info(engine->context, &c->what, &c->operands, &info);
    job->gflop = 1e-9 * info.flops;
    job->threads = p->pass == BENCH_TEXTBOOK ? 1 : info.threads;
    const int whole = p->pass == BENCH_TEXTBOOK || job->threads > 1 || job->gflop < long_gflop;
    job->parts = whole ? 1 : (int)p->kv_heads;
    if (p->pass == BENCH_TEXTBOOK) {
        job->scores = malloc((size_t)(p->queries * p->queries) * sizeof *job->scores);
        if (!job->scores) {
            fprintf(stderr, "rapt-bench: out of memory\n");
            return 0;
        }
    }
    bench_case_spoil_output(c);
    call(job);
    if (!bench_job_ok(job)) { return 0; }
    const double error = bench_verify(c);
    if (!(error <= 1)) {
        fprintf(stderr, "rapt-bench: wrong result, error %.3g times the tolerance\n", error);
        return 0;
    }
    return 1;
}

bench_work bench_job_work(bench_job *job) {
    return (bench_work){job->parts > 1 ? call_part : call, job, job->threads, job->parts};
}

void bench_job_destroy(bench_job *job) { free(job->scores); }
