/* SPDX-License-Identifier: MIT
 * run.c: measures rows, each on every instruction set and thread count asked for, one after the
 * other on the same data, and at the end the ceilings. */
#include "run.h"

#include "bars.h"
#include "job.h"
#include "result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ENGINES = 64 };

typedef struct run {
    const bench_options *options;
    bench_ceilings ceilings;
    bench_engine engine[MAX_ENGINES];
    int engines;
    bench_history history;
    bench_samples samples;
    int failed;
} run;

/* Shown, and counted as a failure if it is one. */
static void print(run *r, const bench_result *x) {
    r->failed |= !x->verified;
    bench_result_print(r->options->format, x);
}

/* The engine for this instruction set (null: the library's choice) and thread count; null, with a
 * message, if there is none. */
static const bench_engine *get_engine(run *r, const char *isa, int threads) {
    for (int i = 0; i < r->engines; i++) {
        const bench_engine *e = &r->engine[i];
        if (e->threads == threads && (!isa || strcmp(e->isa, isa) == 0)) { return e; }
    }
    bench_engine *e = &r->engine[r->engines];
    if (r->engines == MAX_ENGINES) {
        fprintf(stderr, "rapt-bench: too many instruction sets and thread counts\n");
        return NULL;
    }
    if (!bench_engine_create(e, &r->ceilings, isa, threads)) {
        bench_engine_destroy(e);
        return NULL;
    }
    r->engines++;
    return e;
}

/* Verifies and times one row on one engine. */
static void run_on(run *r, const bench_row *row, const bench_case *c, const bench_engine *e) {
    const char *isa = c->kind->baseline ? "baseline" : e->isa;
    bench_result x = bench_result_empty(row->name, isa, e->threads);
    bench_job job;
    x.verified = bench_job_create(&job, c, e);
    if (x.verified) {
        r->samples.count = 0;
        const bench_work work = bench_job_work(&job);
        bench_measure(e->ceiling, &work, r->options->seconds, &r->samples);
        x.verified = bench_job_ok(&job);
    }
    if (x.verified) {
        x.summary = bench_summarise(&r->samples, e->ceiling, job.cost.gflop);
        x.ms = 1e3 * x.summary.seconds;
        x.rate = job.cost.gflop / x.summary.seconds;
        x.best = job.cost.gflop / x.summary.best_seconds;
        x.share = x.summary.share;
    }
    if (row->most_us > 0) { /* overhead: no arithmetic to speak of, hence no ceiling */
        x.unit = "us";
        x.rate = 1e3 * x.ms;
        x.best = 1e6 * x.summary.best_seconds;
        x.share = NAN;
        x.reached = x.summary.kept == 0 || e->threads > 1 ? -1 : x.rate <= row->most_us;
    } else {
        const bench_measured now = {row->name, x.isa, x.threads, job.cost.gflop, x.share};
        x.bar = bench_bar(row, &now, &r->history);
        x.reached = isnan(x.bar) || isnan(x.share) ? -1 : x.share >= x.bar;
        bench_history_add(&r->history, now);
    }
    print(r, &x);
}

/* Calls run_on for every engine that the options ask for; null row and case: only makes them.
 * Returns 1, or 0 if one cannot be made. */
static int run_on_all(run *r, const bench_row *row, const bench_case *c) {
    static char *const library_choice[] = {NULL};
    const bench_options *o = r->options;
    char *const *isas = o->isas ? o->isas : library_choice;
    int i = 0;
    do {
        for (int t = 0; t < o->thread_counts; t++) {
            const bench_engine *e = get_engine(r, isas[i], o->threads[t]);
            if (!e) { return 0; }
            if (row) { run_on(r, row, c, e); }
        }
    } while (isas[i] && isas[++i]);
    return 1;
}

static void run_row(run *r, const bench_row *row) {
    bench_case c;
    if (!bench_case_create(&c, row->name)) {
        const bench_result x = bench_result_empty(row->name, "-", 0);
        fprintf(stderr, "rapt-bench: no memory for row %s\n", row->name);
        print(r, &x);
        return;
    }
    if (c.kind->baseline) {
        const bench_engine *e = get_engine(r, r->engine[0].isa, 1);
        r->failed |= !e;
        if (e) { run_on(r, row, &c, e); }
    } else {
        run_on_all(r, row, &c);
    }
    bench_case_destroy(&c);
}

/* Makes the ceilings that the patterns ask for, and gives each the time of a row. */
static void run_ceilings(run *r) {
    const bench_options *o = r->options;
    const bench_ceiling_kernel *kernel = NULL;
    for (int i = 0; (kernel = bench_ceiling_kernel_at(i)); i++) {
        if (!bench_name_matches(kernel->name, o->rows) ||
            (kernel->isa && !bench_name_matches(kernel->isa, o->isas))) {
            continue;
        }
        for (int t = 0; t < o->thread_counts; t++) {
            bench_ceiling *c = bench_ceiling_get(&r->ceilings, kernel, o->threads[t]);
            if (!c) {
                fprintf(stderr, "rapt-bench: no memory for %s\n", kernel->name);
                r->failed = 1;
                continue;
            }
            bench_ceiling_bursts(c, o->seconds);
        }
    }
}

int bench_run(const bench_options *options) {
    static bench_row rows[BENCH_MAX_ROWS];
    const int count = bench_rows_select(options->rows, rows, BENCH_MAX_ROWS);
    run *r = calloc(1, sizeof *r);
    if (!r) {
        fprintf(stderr, "rapt-bench: out of memory\n");
        return 1;
    }
    r->options = options;
    r->failed = count > 0 && !run_on_all(r, NULL, NULL);
    if (!r->failed) {
        bench_result_begin(options->format);
        for (int i = 0; i < count; i++) { run_row(r, &rows[i]); }
        run_ceilings(r);
        for (int i = 0; i < r->ceilings.count; i++) {
            const bench_result x = bench_result_of_ceiling(r->ceilings.item[i]);
            print(r, &x);
        }
    }
    for (int i = 0; i < r->engines; i++) { bench_engine_destroy(&r->engine[i]); }
    bench_ceilings_free(&r->ceilings);
    const int failed = r->failed;
    free(r);
    return failed;
}
