/* SPDX-License-Identifier: MIT
 * kernel_checks.h: a check for every field of the kernel table (simd/kernels.h has the contracts)
 * against naive code, over all edges of tiles and vectors. A check returns its number of failures
 * and prints the first one to `log`. test_kernels.c runs them under Criterion, kernels_plain.c as a
 * plain program. A new kernel gets a function here and a line in the list. */
#ifndef RAPT_TESTS_KERNEL_CHECKS_H
#define RAPT_TESTS_KERNEL_CHECKS_H

#include "kernels.h"

#include <stdio.h>

typedef int kernel_check_fn(const rapti_kernels *k, FILE *log);

kernel_check_fn check_table, check_product, check_product_add, check_product_seen;
kernel_check_fn check_gather_lanes, check_pack_rows, check_all_finite, check_finish_rows;
kernel_check_fn check_sum_rows, check_softmax_gradients, check_additive_gradients;
kernel_check_fn check_hide_outside, check_apply_mask, check_apply_bias;
kernel_check_fn check_softmax_step, check_softmax_sequence, check_softmax_ranges;
kernel_check_fn check_softmax_row, check_softmax_columns, check_additive_scores;
kernel_check_fn check_softmax_step_any;
kernel_check_fn check_drop_lanes, check_apply_keep, check_scatter_lanes;
kernel_check_fn check_exp_nonpositive, check_exp;

typedef struct kernel_check {
    const char *name;
    kernel_check_fn *run;
} kernel_check;

enum { KERNEL_CHECKS = 26 };
extern const kernel_check kernel_checks[KERNEL_CHECKS];

#endif
