/* SPDX-License-Identifier: MIT
 * measure.c: the timing loop and its statistics (measure.h). */
#include "measure.h"

#include "clock.h"

#include <math.h>
#include <stdlib.h>

static const double sample_seconds = 3e-3;
static const double least_on_cpu = 0.97;
enum { ENOUGH_KEPT = 5 };

/* The bursts show a neighbour that shares the core unseen; the CPU time shows another process that
 * took a core in the middle of the sample. Threads that wait for others spin, and count as busy. */
static int quiet(const bench_sample *sample, double best) {
    const double least = BENCH_CEILING_QUIET * best;
    return sample->before >= least && sample->after >= least && sample->on_cpu >= least_on_cpu;
}

static int count_quiet(const bench_samples *samples, double best) {
    int kept = 0;
    for (int i = 0; i < samples->count; i++) { kept += quiet(&samples->item[i], best); }
    return kept;
}

/* Seconds per call, over `calls` calls. */
static double time_calls(const bench_work *work, long calls) {
    const double start = bench_now();
    for (long i = 0; i < calls; i++) { work->call(work->argument); }
    return (bench_now() - start) / (double)calls;
}

static long calls_per_sample(const bench_work *work) {
    for (long calls = 1;; calls *= 2) {
        const double seconds = time_calls(work, calls);
        if (seconds * (double)calls >= sample_seconds) {
            return (long)ceil(sample_seconds / seconds);
        }
    }
}

void bench_measure(bench_ceiling *ceiling, const bench_work *work, double budget,
                   bench_samples *samples) {
    const int count_before = count_quiet(samples, ceiling->best);
    const double start = bench_now();
    const long calls = calls_per_sample(work);
    double before = bench_ceiling_burst(ceiling);
    while (samples->count < BENCH_SAMPLES) {
        bench_sample *sample = &samples->item[samples->count++];
        const double cpu_before = bench_cpu_time();
        sample->before = before;
        const double seconds = time_calls(work, calls);
        sample->seconds = seconds * work->parts;
        sample->on_cpu =
            (bench_cpu_time() - cpu_before) / (seconds * (double)calls * work->threads);
        sample->after = before = bench_ceiling_burst(ceiling);
        const double spent = bench_now() - start;
        const int kept = count_quiet(samples, ceiling->best) - count_before;
        if (spent > 4 * budget || (spent > budget && kept >= ENOUGH_KEPT)) { break; }
    }
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Linear between the two nearest of n > 0 sorted values. */
static double quantile(const double *sorted, int n, double q) {
    const double at = q * (n - 1);
    const int low = (int)at, high = low + 1 < n ? low + 1 : low;
    return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}

bench_summary bench_summarise(const bench_samples *samples, const bench_ceiling *ceiling,
                              double work) {
    bench_summary summary = {0, samples->count, NAN, NAN, NAN, NAN};
    const int kept = count_quiet(samples, ceiling->best);
    double seconds[BENCH_SAMPLES], share[BENCH_SAMPLES];
    int n = 0;
    for (int i = 0; i < samples->count; i++) {
        const bench_sample *s = &samples->item[i];
        if (kept == 0 || quiet(s, ceiling->best)) {
            seconds[n] = s->seconds;
            share[n++] = work / s->seconds / (0.5 * (s->before + s->after));
        }
    }
    if (n > 0) {
        qsort(seconds, (size_t)n, sizeof *seconds, ascending);
        qsort(share, (size_t)n, sizeof *share, ascending);
        summary.kept = kept;
        summary.set_aside = samples->count - kept;
        summary.best_seconds = seconds[0];
        summary.seconds = quantile(seconds, n, 0.5);
        summary.share = kept > 0 ? quantile(share, n, 0.5) : NAN;
        summary.spread =
            (quantile(seconds, n, 0.75) - quantile(seconds, n, 0.25)) / summary.seconds;
    }
    return summary;
}

bench_summary bench_summarise_ceiling(const bench_ceiling *ceiling) {
    static bench_samples samples;
    const double work =
        1e-9 * ceiling->kernel->work_per_iteration * (double)ceiling->iterations * ceiling->threads;
    samples.count =
        ceiling->bursts < BENCH_CEILING_BURSTS ? (int)ceiling->bursts : BENCH_CEILING_BURSTS;
    for (int i = 0; i < samples.count; i++) {
        const double rate = ceiling->rate[i];
        samples.item[i] = (bench_sample){work / rate, rate, rate, 1};
    }
    return bench_summarise(&samples, ceiling, work);
}
