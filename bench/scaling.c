/* SPDX-License-Identifier: MIT
 * scaling.c: thread scaling, measured from one thread to all cores and, beside it, predicted up to
 * 256 threads from the library's own task list (predict.h). */
#include "job.h"
#include "measure.h"
#include "predict.h"
#include "rows.h"
#include "run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 4, PREDICTED_THREADS = 256 };

static const bench_column columns[] = {
    {"row", "row", 32, BENCH_TEXT},
    {"isa", "isa", 8, BENCH_TEXT},
    {"threads", "threads", 7, BENCH_NUMBER},
    {"ms", "ms", 8, BENCH_NUMBER},
    {"speedup", "speed-up", 8, BENCH_NUMBER},
    {"efficiency", "efficiency", 10, BENCH_PERCENT},
    {"predicted_speedup", "predicted", 9, BENCH_NUMBER},
    {"predicted_efficiency", "efficiency", 10, BENCH_PERCENT},
    {"verified", "verified", 8, BENCH_YES_NO},
    {"kept", "kept", 5, BENCH_NUMBER},
    {"set_aside", "aside", 5, BENCH_NUMBER},
    {NULL, NULL, 0, BENCH_TEXT},
};

static char *const default_rows[] = {"fwd-f32-1x12x1024x64-full", "fwd-f32-1x12x1024x64-causal",
                                     "fwd-f32-1x1x4096x64-causal", "fwd-f32-1x32/8x1024x128-causal",
                                     NULL};

/* One thread count: its engine, job and samples. */
typedef struct point {
    bench_engine engine;
    bench_job job;
    bench_samples samples;
    int verified;
} point;

/* `p` null: this thread count was not measured. */
static void print(bench_format format, const char *row, int threads, const point *one,
                  const point *p, double predicted) {
    bench_summary summary = {.seconds = NAN};
    double speedup = NAN;
    if (p) {
        const bench_summary base =
            bench_summarise(&one->samples, one->engine.ceiling, one->job.cost.gflop);
        summary = bench_summarise(&p->samples, p->engine.ceiling, p->job.cost.gflop);
        speedup = base.kept > 0 && summary.kept > 0 ? base.seconds / summary.seconds : NAN;
    }
    bench_output_line(format, columns,
                      json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:i}", "row",
                                row, "isa", one->engine.isa, "threads", threads, "ms",
                                bench_json_number(1e3 * summary.seconds), "speedup",
                                bench_json_number(speedup), "efficiency",
                                bench_json_number(speedup / threads), "predicted_speedup",
                                bench_json_number(predicted), "predicted_efficiency",
                                bench_json_number(predicted / threads), "verified",
                                bench_json_flag(p ? p->verified : -1), "kept", summary.kept,
                                "set_aside", summary.set_aside));
}

/* The thread counts take turns, so that a slow phase of the machine meets all of them. */
static int measure(point *points, int cores, const bench_case *c, double seconds) {
    int verified = 1;
    for (int n = 0; n < cores; n++) {
        points[n].samples.count = 0;
        points[n].verified = bench_job_create(&points[n].job, c, &points[n].engine);
        verified &= points[n].verified;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int n = 0; n < cores; n++) {
            if (points[n].verified) {
                const bench_work work = bench_job_work(&points[n].job);
                bench_measure(points[n].engine.ceiling, &work, seconds / ROUNDS,
                              &points[n].samples);
                points[n].verified = bench_job_ok(&points[n].job);
                verified &= points[n].verified;
            }
        }
    }
    return verified;
}

static int scale_row(const bench_options *o, const char *row, point *points, int cores) {
    const char *isa = points[0].engine.isa;
    const int last = cores > PREDICTED_THREADS ? cores : PREDICTED_THREADS;
    bench_case c;
    if (!bench_case_create(&c, row)) {
        fprintf(stderr, "rapt-bench: no memory for row %s\n", row);
        return 0;
    }
    const int verified = measure(points, cores, &c, o->seconds);
    for (int n = 1; n <= last; n++) {
        if (n <= cores || (n & (n - 1)) == 0) {
            print(o->format, row, n, &points[0], n <= cores ? &points[n - 1] : NULL,
                  bench_predict_speedup(&c, isa, n));
        }
    }
    bench_case_destroy(&c);
    return verified;
}

/* All rows on one instruction set (null: the library's choice). */
static int scale_isa(const bench_options *o, const char *isa, int cores) {
    static bench_row rows[BENCH_MAX_ROWS];
    const int count = bench_rows_select(o->rows ? o->rows : default_rows, rows, BENCH_MAX_ROWS);
    bench_ceilings ceilings = {0};
    point *points = calloc((size_t)cores, sizeof *points);
    int ok = points != NULL;
    for (int n = 0; ok && n < cores; n++) {
        ok = bench_engine_create(&points[n].engine, &ceilings, isa, n + 1);
    }
    for (int i = 0; ok && i < count; i++) { ok = scale_row(o, rows[i].name, points, cores); }
    for (int n = 0; points && n < cores; n++) { bench_engine_destroy(&points[n].engine); }
    free(points);
    bench_ceilings_free(&ceilings);
    return ok;
}

int bench_scaling(const bench_options *o) {
    static char *const library_choice[] = {NULL};
    char *const *isas = o->isas ? o->isas : library_choice;
    rapt_context *context = NULL;
    int ok = rapt_context_create(&context, NULL) == RAPT_OK;
    const int cores = ok ? rapt_context_threads(context) : 0;
    if (!ok) { fprintf(stderr, "rapt-bench: %s\n", rapt_context_message(context)); }
    rapt_context_destroy(context);
    if (ok) { bench_output_begin(o->format, columns); }
    int i = 0;
    do { ok = ok && scale_isa(o, isas[i], cores); } while (isas[i] && isas[++i]);
    return !ok;
}
