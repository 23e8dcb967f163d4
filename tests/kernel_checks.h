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

kernel_check_fn check_table; /* the table itself */
kernel_check_fn check_add_lanes;
kernel_check_fn check_add_rows;
kernel_check_fn check_additive_gradients;
kernel_check_fn check_additive_scores;
kernel_check_fn check_all_finite;
kernel_check_fn check_add_bias;
kernel_check_fn check_apply_bias;
kernel_check_fn check_apply_keep;
kernel_check_fn check_apply_mask;
kernel_check_fn check_drop_lanes;
kernel_check_fn check_exp;
kernel_check_fn check_exp2;
kernel_check_fn check_finish_product;
kernel_check_fn check_finish_rows;
kernel_check_fn check_fn;
kernel_check_fn check_gather_dots;
kernel_check_fn check_gather_lanes;
kernel_check_fn check_hide_outside;
kernel_check_fn check_pack_rows;
kernel_check_fn check_product;
kernel_check_fn check_product_add;
kernel_check_fn check_product_few;
kernel_check_fn check_product_seen;
kernel_check_fn check_scatter_lanes;
kernel_check_fn check_score_gradient;
kernel_check_fn check_softmax_columns;
kernel_check_fn check_softmax_far;
kernel_check_fn check_softmax_gradients;
kernel_check_fn check_softmax_ranges;
kernel_check_fn check_softmax_row;
kernel_check_fn check_softmax_sequence;
kernel_check_fn check_softmax_step;
kernel_check_fn check_softmax_step_any;
kernel_check_fn check_sum_rows;

typedef struct kernel_check {
    const char *name;
    kernel_check_fn *run;
} kernel_check;

extern const kernel_check kernel_checks[]; /* the last one has a null name */

#endif
