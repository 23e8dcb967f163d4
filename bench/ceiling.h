/* SPDX-License-Identifier: MIT
 * ceiling.h: what the machine can do at most, measured in the same process and interleaved with the
 * work: short bursts of a ceiling kernel, on as many threads as the work uses, at the same time. */
#ifndef BENCH_CEILING_H
#define BENCH_CEILING_H

#include "ceiling_kernel.h"

enum { BENCH_CEILING_BURSTS = 4096, BENCH_CEILINGS = 1024 };

/* A sample between bursts below this share of the run's best is set aside: a neighbour that cannot
 * be seen had part of the core. */
#define BENCH_CEILING_QUIET 0.90

typedef struct bench_ceiling {
    const bench_ceiling_kernel *kernel;
    int threads;
    int verified; /* 1 while every burst's checksum is right */
    void *state;
    long iterations;                   /* per thread and burst */
    double best;                       /* 1e9 units per second, all threads together */
    double rate[BENCH_CEILING_BURSTS]; /* the last bursts, round and round */
    long bursts;
} bench_ceiling;

/* The ceilings of a run, each made when first asked for. Zero-initialised is empty. */
typedef struct bench_ceilings {
    bench_ceiling *item[BENCH_CEILINGS];
    int count;
} bench_ceilings;

/* Ceiling kernels that this machine can run, null past the end. */
const bench_ceiling_kernel *bench_ceiling_kernel_at(int index);

/* The kernel of the f32 products of an instruction set; null if there is none for it. */
const bench_ceiling_kernel *bench_ceiling_kernel_for(const char *isa);

/* The run's ceiling of this kernel and thread count, warmed up; null if memory or room ran out. */
bench_ceiling *bench_ceiling_get(bench_ceilings *set, const bench_ceiling_kernel *kernel,
                                 int threads);

/* One burst of about 2 ms. Returns its rate, in the kernel's unit. */
double bench_ceiling_burst(bench_ceiling *ceiling);

/* Bursts for that many seconds. */
void bench_ceiling_bursts(bench_ceiling *ceiling, double seconds);

void bench_ceilings_free(bench_ceilings *set);

#endif
