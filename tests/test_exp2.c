/* SPDX-License-Identifier: MIT
 * test_exp2.c: the promises of simd/exp2.h for every float <= 0, on the instruction set that
 * RAPT_ISA names (the best one without it). RAPT_EXP_STEP > 1 takes every n-th float: builds that
 * are too slow for all of them define it. */
#include "dispatch.h"
#include "exp2_checks.h"
#include "kernel_tools.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>

#ifndef RAPT_EXP_STEP
#define RAPT_EXP_STEP 1
#endif

enum { SLICES = 2048 };

static const rapti_kernels *under_test(void) {
    const char *isa = getenv("RAPT_ISA");
    const rapti_kernels *k = isa && *isa ? rapti_dispatch_find(isa) : rapti_dispatch_best();
    cr_assert_not_null(k, "no instruction set %s in this build", isa);
    cr_assert(rapti_dispatch_supported(k), "%s is not supported here", k->isa);
    return k;
}

/* Bits at which slice n of [first, last] begins; the slices' steps join without a gap. */
static uint32_t slice_begin(uint32_t first, uint32_t last, uint32_t step, int n) {
    const uint64_t floats = ((uint64_t)last - first) / step + 1;
    return first + (uint32_t)(floats * (uint64_t)n / SLICES * step);
}

static uint32_t slice_end(uint32_t first, uint32_t last, uint32_t step, int n) {
    return n + 1 < SLICES ? slice_begin(first, last, step, n + 1) - 1 : last;
}

static void check_range(const rapti_kernels *k, uint32_t first, uint32_t last, uint32_t step,
                        exp2_report *total) {
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic)
#endif
    for (int n = 0; n < SLICES; n++) {
        exp2_report part = {0};
        exp2_check_range(k, slice_begin(first, last, step, n), slice_end(first, last, step, n),
                         step, &part);
#ifdef _OPENMP
#pragma omp critical
#endif
        exp2_report_merge(total, &part);
    }
}

/* Sets that round twice square |x| < 2^-63 into denormals, which processors do slowly: every 61st
 * of these, for all of which the result is 1. */
Test(exp2, every_float_up_to_zero) {
    enum { TINY = 61 };
    const uint32_t squares_normal = EXP2_FIRST | 0x20000000u;
    const rapti_kernels *k = under_test();
    exp2_report total = {0};
    check_range(k, EXP2_FIRST, squares_normal - 1, RAPT_EXP_STEP * (kernels_fused(k) ? 1 : TINY),
                &total);
    check_range(k, squares_normal, EXP2_LAST, RAPT_EXP_STEP, &total);
    exp2_report_print(&total, k->isa, stdout);
    fflush(stdout);
    cr_expect_eq(total.failures, 0, "%lld floats, first %.9g", (long long)total.failures,
                 (double)total.failed_at);
    cr_expect_leq(total.worst, 1.0);
    cr_expect_leq(total.worst_sleef, 1.0);
    cr_expect_leq(total.apart, 2.0);
}

static int64_t count_different(const rapti_kernels *a, const rapti_kernels *b) {
    const uint32_t first = EXP2_FIRST, last = EXP2_LAST_NORMAL, step = RAPT_EXP_STEP;
    int64_t different = 0;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) reduction(+ : different)
#endif
    for (int n = 0; n < SLICES; n++) {
        different += exp2_count_different(a, b, slice_begin(first, last, step, n),
                                          slice_end(first, last, step, n), step);
    }
    return different;
}

/* Where results are 0 the test above has seen each of them. */
Test(exp2, same_bits_on_all_fused_sets) {
    const rapti_kernels *k = under_test();
    if (!kernels_fused(k)) { return; }
    for (int32_t n = 0; rapti_dispatch_row(n); n++) {
        const rapti_kernels *other = rapti_dispatch_row(n);
        if (other == k || !rapti_dispatch_supported(other) || !kernels_fused(other)) { continue; }
        const int64_t different = count_different(k, other);
        cr_expect_eq(different, 0, "%s and %s differ for %lld floats", k->isa, other->isa,
                     (long long)different);
    }
}
