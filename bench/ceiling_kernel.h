/* SPDX-License-Identifier: MIT
 * ceiling_kernel.h: what one ceiling kernel is: work without attention, as much of it as the
 * machine can do. ceiling.c times it; ceiling_fma_<isa>.c and ceiling_read.c are the kernels. */
#ifndef BENCH_CEILING_KERNEL_H
#define BENCH_CEILING_KERNEL_H

typedef struct bench_ceiling_kernel {
    const char *name;             /* row name, "ceiling-fma-avx512" */
    const char *isa;              /* instruction set it needs; null: the baseline */
    const char *unit;             /* of 1e9 units of work per second */
    double work_per_iteration;    /* flops or bytes, one thread */
    void *(*create)(int threads); /* state for that many threads, null on failure; may be null */
    void (*destroy)(void *state); /* null if create is */

    /* Does the work on behalf of one of the threads and returns a checksum. It must be
     * expected_fixed + expected_per_iteration * iterations, or the work was not done. */
    double (*run)(void *state, int thread, long iterations);
    double expected_fixed;
    double expected_per_iteration;
} bench_ceiling_kernel;

extern const bench_ceiling_kernel bench_ceiling_fma_scalar;
extern const bench_ceiling_kernel bench_ceiling_fma_avx2;
extern const bench_ceiling_kernel bench_ceiling_fma_avx512;
extern const bench_ceiling_kernel bench_ceiling_fma_neon;
extern const bench_ceiling_kernel bench_ceiling_read;

#endif
