/* SPDX-License-Identifier: MIT
 * measure.h: the timing loop. Short samples of the work, each between two bursts of its ceiling;
 * what is reported is the median over the samples whose bursts show a quiet core. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "ceiling.h"

enum { BENCH_SAMPLES = BENCH_CEILING_BURSTS };

typedef struct bench_sample {
    double seconds;       /* of the whole work: one call times the parts */
    double before, after; /* rates of the bursts on either side */
    double on_cpu;        /* CPU time of the threads / their wall time: below 1 if another process
                             had a core */
} bench_sample;

/* What is timed: call(argument), which keeps that many threads busy. Work that takes long comes in
 * `parts` of equal cost, one per call in turn, so that a sample stays short. */
typedef struct bench_work {
    void (*call)(void *argument);
    void *argument;
    int threads;
    int parts;
} bench_work;

/* Zero-initialised is empty; measuring again adds to it. */
typedef struct bench_samples {
    int count;
    bench_sample item[BENCH_SAMPLES];
} bench_samples;

/* Medians over the kept samples. If none was kept, times are over all samples, no better than an
 * upper limit, and there is no share. Without samples all is NaN. */
typedef struct bench_summary {
    int kept, set_aside;
    double seconds, best_seconds; /* of the whole work */
    double share;                 /* rate / mean of the two bursts */
    double spread;                /* interquartile range of the time, divided by its median */
} bench_summary;

/* Times the work for about `budget` seconds: longer, up to four times, while fewer than five
 * samples are kept. A sample is as many calls as take 3 ms, or one longer call. */
void bench_measure(bench_ceiling *ceiling, const bench_work *work, double budget,
                   bench_samples *samples);

/* `work` of all parts, in 1e9 units of the ceiling. */
bench_summary bench_summarise(const bench_samples *samples, const bench_ceiling *ceiling,
                              double work);

/* The same over the ceiling's own bursts; `seconds` are of one burst. */
bench_summary bench_summarise_ceiling(const bench_ceiling *ceiling);

#endif
