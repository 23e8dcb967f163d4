/* SPDX-License-Identifier: MIT
 * kernel_checks.c: the list of kernel checks, and the check of the table itself. */
#include "kernel_checks.h"

#include "kernel_tools.h"

#include <stddef.h>
#include <string.h>

const kernel_check kernel_checks[] = {
    {"table", check_table},
    {"product", check_product},
    {"product_few", check_product_few},
    {"product_add", check_product_add},
    {"product_seen", check_product_seen},
    {"finish_product", check_finish_product},
    {"gather_lanes", check_gather_lanes},
    {"pack_rows", check_pack_rows},
    {"sum_rows", check_sum_rows},
    {"all_finite", check_all_finite},
    {"finish_rows", check_finish_rows},
    {"hide_outside", check_hide_outside},
    {"apply_mask", check_apply_mask},
    {"apply_bias", check_apply_bias},
    {"add_bias", check_add_bias},
    {"softmax_max, softmax_exp, softmax_try, softmax_near", check_softmax_step},
    {"softmax_near, far scores", check_softmax_far},
    {"softmax_max, softmax_exp_any", check_softmax_step_any},
    {"softmax, blocks in sequence", check_softmax_sequence},
    {"softmax, visible ranges", check_softmax_ranges},
    {"row_max, row_sum_exp, row_exp, softmax_row", check_softmax_row},
    {"softmax_columns", check_softmax_columns},
    {"additive_scores", check_additive_scores},
    {"drop_lanes", check_drop_lanes},
    {"apply_keep", check_apply_keep},
    {"scatter_lanes", check_scatter_lanes},
    {"row_dot, row_gradient, gradient_columns, lane_dots, lane_gradient", check_softmax_gradients},
    {"additive_gradients", check_additive_gradients},
    {"score_gradient", check_score_gradient},
    {"gather_dots", check_gather_dots},
    {"add_rows", check_add_rows},
    {"add_lanes", check_add_lanes},
    {"exp2_inline, exp2_any", check_exp2},
    {"exp_any", check_exp},
    {0},
};

int check_table(const rapti_kernels *k, FILE *log) {
    tally t = {k, "table", log, 0};
    if (!k->isa || strlen(k->isa) == 0) { tally_fail(&t, "no name"); }
    if (k->lanes < 1 || k->lanes > RAPTI_MAX_LANES) { tally_fail(&t, "%d lanes", (int)k->lanes); }
    if (k->group_vectors < 1 || k->group_vectors > RAPTI_MAX_GROUP_VECTORS) {
        tally_fail(&t, "%d vectors in a group", (int)k->group_vectors);
    }
    if (k->few_lanes < 0 || k->few_lanes >= k->lanes || k->few_lanes > RAPTI_MAX_FEW_LANES) {
        tally_fail(&t, "%d lanes are few", (int)k->few_lanes);
    }
    if (k->column_vectors < 1 || k->column_vectors > 4 || k->tile_rows < 1 || k->key_block < 1) {
        tally_fail(&t, "tile_rows %d, key_block %d", (int)k->tile_rows, (int)k->key_block);
    }
    /* from the first kernel on, the table holds nothing but pointers to functions */
    for (size_t at = offsetof(rapti_kernels, product); at < sizeof *k; at += sizeof k->product) {
        void (*kernel)(const rapti_product *) = NULL;
        memcpy(&kernel, (const char *)k + at, sizeof kernel);
        if (!kernel) { tally_fail(&t, "kernel at byte %zu is missing", at); }
    }
    return t.failures;
}
