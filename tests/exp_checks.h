/* SPDX-License-Identifier: MIT
 * exp_checks.h: the two exponentials of the kernel table over ranges of floats: exp_nonpositive
 * against double precision, against SLEEF's (the table's exp), and against its own formula with
 * fmaf. No Criterion, no threads: test_exp.c goes through all floats <= 0 in parallel, the plain
 * program takes samples. */
#ifndef RAPT_TESTS_EXP_CHECKS_H
#define RAPT_TESTS_EXP_CHECKS_H

#include "kernels.h"

#include <stdint.h>
#include <stdio.h>

/* Bits grow with |x|: those of -0; of the largest float whose exp does not round to 1; of the
 * lowest whose exp is >= 2^-126; of -inf. */
#define EXP_FIRST 0x80000000u
#define EXP_FIRST_CURVED 0xb3000001u
#define EXP_LAST_NORMAL 0xc2aeac4fu
#define EXP_LAST 0xff800000u

typedef struct exp_report {
    double worst,
        worst_sleef; /* |y - exp(x)| in ulps of exp(x) rounded, where that is neither 1 nor
                                  below 2^-126 */
    double apart;    /* between the two, in the same ulps */
    float worst_at;
    int64_t failures; /* values for which a promise of simd/exp.h does not hold */
    float failed_at;  /* the first of them */
} exp_report;

/* Adds to *report what happens for the floats with bits first, first + step, ... <= last, all of
 * them <= 0 and not NaN. */
void exp_check_range(const rapti_kernels *k, uint32_t first, uint32_t last, uint32_t step,
                     exp_report *report);

/* Adds the other report to *report. */
void exp_report_merge(exp_report *report, const exp_report *other);
void exp_report_print(const exp_report *report, const char *isa, FILE *log);

/* Floats first, first + step, ... <= last for which the two tables give different bits. */
int64_t exp_count_different(const rapti_kernels *a, const rapti_kernels *b, uint32_t first,
                            uint32_t last, uint32_t step);

/* exp_nonpositive as simd/exp.h spells it, each word a C operator or fmaf: what every set with
 * fused multiply-add must give. */
void exp_fused(const float *x, float *y, int64_t n);

#endif
