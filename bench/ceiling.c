/* SPDX-License-Identifier: MIT
 * ceiling.c: times the ceiling kernels (ceiling.h). The kernels themselves are in ceiling_*.c. */
#include "ceiling.h"

#include "clock.h"

#include <rapt/rapt.h>
#include <stdlib.h>
#include <string.h>

static const double burst_seconds = 2e-3;
static const double warm_up_seconds = 0.3;
enum { FEWEST_ITERATIONS = 64 }; /* the FMA chains have settled by then */

static const bench_ceiling_kernel *const kernels[] = {
#ifdef RAPT_HAVE_AVX512
    &bench_ceiling_fma_avx512,
#endif
#ifdef RAPT_HAVE_AVX2
    &bench_ceiling_fma_avx2,
#endif
#ifdef RAPT_HAVE_NEON
    &bench_ceiling_fma_neon,
#endif
    &bench_ceiling_fma_scalar, &bench_ceiling_read,
};

const bench_ceiling_kernel *bench_ceiling_kernel_at(int index) {
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        const int runs = !kernels[i]->isa || rapt_isa_supported(kernels[i]->isa);
        if (runs && index-- == 0) { return kernels[i]; }
    }
    return NULL;
}

const bench_ceiling_kernel *bench_ceiling_kernel_for(const char *isa) {
    const bench_ceiling_kernel *kernel = NULL;
    for (int i = 0; (kernel = bench_ceiling_kernel_at(i)); i++) {
        if (kernel->isa && strcmp(kernel->isa, isa) == 0) { break; }
    }
    return kernel;
}

/* Wall time from the first thread's start to the last one's end: a thread that had to wait for a
 * core lowers the ceiling, as it would lower the work's rate. */
static double run_threads(bench_ceiling *c) {
    const bench_ceiling_kernel *kernel = c->kernel;
    const int threads = c->threads;
    const long iterations = c->iterations;
    const double expected =
        kernel->expected_fixed + kernel->expected_per_iteration * (double)iterations;
    double start = bench_now() + 1e9, end = 0;
    int wrong = 0;
#pragma omp parallel num_threads(threads) reduction(min : start) reduction(max : end)              \
    reduction(+ : wrong)
    {
#pragma omp barrier
#pragma omp for schedule(static, 1)
        for (int thread = 0; thread < threads; thread++) {
            const double before = bench_now();
            const double checksum = kernel->run(c->state, thread, iterations);
            const double after = bench_now();
            start = before < start ? before : start;
            end = after > end ? after : end;
            wrong += !(checksum == expected);
        }
    }
    c->verified = c->verified && !wrong;
    return end - start;
}

double bench_ceiling_burst(bench_ceiling *c) {
    const double seconds = run_threads(c);
    const double work = c->kernel->work_per_iteration * (double)c->iterations * c->threads;
    const double rate = work / seconds * 1e-9;
    c->rate[c->bursts++ % BENCH_CEILING_BURSTS] = rate;
    c->best = rate > c->best ? rate : c->best;
    return rate;
}

void bench_ceiling_bursts(bench_ceiling *c, double seconds) {
    const double start = bench_now();
    do { bench_ceiling_burst(c); } while (bench_now() - start < seconds);
}

/* Finds how many iterations make a burst; the clock of the core settles meanwhile. */
static void warm_up(bench_ceiling *c) {
    double seconds = 0;
    for (c->iterations = FEWEST_ITERATIONS; seconds < burst_seconds / 2; c->iterations *= 2) {
        seconds = run_threads(c);
    }
    bench_ceiling_bursts(c, warm_up_seconds);
    c->iterations =
        (long)(burst_seconds * 1e9 * c->best / c->threads / c->kernel->work_per_iteration) + 1;
}

bench_ceiling *bench_ceiling_get(bench_ceilings *set, const bench_ceiling_kernel *kernel,
                                 int threads) {
    for (int i = 0; i < set->count; i++) {
        if (set->item[i]->kernel == kernel && set->item[i]->threads == threads) {
            return set->item[i];
        }
    }
    bench_ceiling *c = set->count < BENCH_CEILINGS ? calloc(1, sizeof *c) : NULL;
    if (!c) { return NULL; }
    c->kernel = kernel;
    c->threads = threads;
    c->verified = 1;
    if (kernel->create && !(c->state = kernel->create(threads))) {
        free(c);
        return NULL;
    }
    warm_up(c);
    set->item[set->count++] = c;
    return c;
}

void bench_ceilings_free(bench_ceilings *set) {
    for (int i = 0; i < set->count; i++) {
        if (set->item[i]->kernel->destroy) { set->item[i]->kernel->destroy(set->item[i]->state); }
        free(set->item[i]);
    }
    set->count = 0;
}
