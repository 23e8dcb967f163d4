/* SPDX-License-Identifier: MIT
 * exp2_checks.h: the two powers of two in the kernel table over ranges of floats: exp2_inline
 * against double precision, against SLEEF's exp2_any, and against its own formula with fmaf; and
 * exp_any. No Criterion, no threads: test_exp2.c goes through all floats <= 0 in parallel, the
 * plain program takes samples. */
#ifndef RAPT_TESTS_EXP2_CHECKS_H
#define RAPT_TESTS_EXP2_CHECKS_H

#include "kernels.h"

#include <stdint.h>
#include <stdio.h>

/* Bits grow with |x|: those of -0; of the largest float whose 2^x does not round to 1; of the
 * lowest whose 2^x is >= 2^-126; of -inf. */
#define EXP2_FIRST 0x80000000u
#define EXP2_FIRST_CURVED 0xb338aa3cu
#define EXP2_LAST_NORMAL 0xc2fc0000u
#define EXP2_LAST 0xff800000u

typedef struct exp2_report {
    double worst, worst_sleef; /* |y - 2^x| in ulps of 2^x rounded, where that is neither 1 nor
                                  below 2^-126 */
    double apart;              /* between the two, in the same ulps */
    float worst_at;
    int64_t failures; /* values for which a promise of simd/exp2.h does not hold */
    float failed_at;  /* the first of them */
} exp2_report;

/* Adds to *report what happens for the floats with bits first, first + step, ... <= last, all of
 * them <= 0 and not NaN. */
void exp2_check_range(const rapti_kernels *k, uint32_t first, uint32_t last, uint32_t step,
                      exp2_report *report);

/* Adds the other report to *report. */
void exp2_report_merge(exp2_report *report, const exp2_report *other);
void exp2_report_print(const exp2_report *report, const char *isa, FILE *log);

/* Floats first, first + step, ... <= last for which the two tables give different bits. */
int64_t exp2_count_different(const rapti_kernels *a, const rapti_kernels *b, uint32_t first,
                             uint32_t last, uint32_t step);

/* exp2_inline as simd/exp2.h spells it, each word a C operator or fmaf: what every set with
 * fused multiply-add must give. */
void exp2_fused(const float *x, float *y, int64_t n);

#endif
