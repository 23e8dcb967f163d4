/* SPDX-License-Identifier: MIT
 * ceiling_fma.h: the FMA peak of one core, written once; a stub source per instruction set defines
 *   FMA_ISA      name of the set
 *   FMA_LANES    floats in a register
 *   FMA_CHAINS   independent accumulators: enough to hide the latency, few enough for the registers
 * and includes this.
 *
 *   x[c] <- x[c] * 1/2 + 1/2        for every chain c, again and again
 *
 * Every x[c] ends at exactly 1, so the sum of all lanes tells whether the work was done. The
 * compiler fuses the multiply and the add where the set has FMA (-ffp-contract=fast); the scalar
 * row's baseline may have none, and then its peak is that of multiply and add. */
#include "ceiling_kernel.h"

#define FMA_JOIN_(a, b) a##b
#define FMA_JOIN(a, b) FMA_JOIN_(a, b)
#define FMA_TEXT_(a) #a
#define FMA_TEXT(a) FMA_TEXT_(a)

typedef float fma_vector __attribute__((vector_size(4 * FMA_LANES)));

static double fma_run(void *state, int thread, long iterations) {
    static const volatile float opaque_half = 0.5f; /* volatile: not to be folded away */
    const float one_half = opaque_half;
    fma_vector half, x[FMA_CHAINS];
    (void)state;
    (void)thread;

#pragma GCC unroll 32
    for (int lane = 0; lane < FMA_LANES; lane++) { half[lane] = one_half; }
#pragma GCC unroll 32
    for (int c = 0; c < FMA_CHAINS; c++) { x[c] = half * (float)c; }
    for (long i = 0; i < iterations; i++) {
#pragma GCC unroll 32
        for (int c = 0; c < FMA_CHAINS; c++) { x[c] = x[c] * half + half; }
    }
#pragma GCC unroll 32
    for (int c = 1; c < FMA_CHAINS; c++) { x[0] += x[c]; }
    double sum = 0;
#pragma GCC unroll 32
    for (int lane = 0; lane < FMA_LANES; lane++) { sum += (double)x[0][lane]; }
    return sum;
}

const bench_ceiling_kernel FMA_JOIN(bench_ceiling_fma_, FMA_ISA) = {
    .name = "ceiling-fma-" FMA_TEXT(FMA_ISA),
    .isa = FMA_TEXT(FMA_ISA),
    .unit = "Gflop/s",
    .work_per_iteration = 2.0 * FMA_LANES * FMA_CHAINS,
    .run = fma_run,
    .expected_fixed = FMA_LANES * FMA_CHAINS,
};
