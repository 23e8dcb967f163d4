/* SPDX-License-Identifier: MIT
 * table.h: all kernel bodies for the vector words included before it, and their table
 * rapti_kernels_<isa>, the one symbol that a stub source exports. */
#include "dropout.h"
#include "gradient.h"
#include "kernels.h"
#include "product.h"
#include "product_few.h"
#include "rows.h"
#include "score.h"
#include "softmax.h"
#include "softmax_columns.h"
#include "softmax_gradient.h"
#include "softmax_rows.h"
#include "visibility.h"

#define RAPTI_JOIN_(a, b) a##b
#define RAPTI_JOIN(a, b) RAPTI_JOIN_(a, b)
#define RAPTI_TEXT_(a) #a
#define RAPTI_TEXT(a) RAPTI_TEXT_(a)

enum {
    TILE_ROWS = TILE_COLUMN_VECTORS == 4   ? TILE_ROWS_4
                : TILE_COLUMN_VECTORS == 3 ? TILE_ROWS_3
                                           : TILE_ROWS_2
};
_Static_assert((int)VEC_LANES <= (int)RAPTI_MAX_LANES, "wider vectors than kernels.h admits");
_Static_assert((int)TILE_GROUP_VECTORS <= (int)RAPTI_MAX_GROUP_VECTORS,
               "larger groups than it admits");

_Static_assert((int)TILE_FEW_LANES < (int)VEC_LANES, "a full vector is not few");
_Static_assert((int)TILE_FEW_LANES <= (int)RAPTI_MAX_FEW_LANES,
               "more lanes than product_few takes");

extern const rapti_kernels RAPTI_JOIN(rapti_kernels_, VEC_ISA);
const rapti_kernels RAPTI_JOIN(rapti_kernels_, VEC_ISA) = {
    .isa = RAPTI_TEXT(VEC_ISA),
    .lanes = VEC_LANES,
    .group_vectors = TILE_GROUP_VECTORS,
    .column_vectors = TILE_COLUMN_VECTORS,
    .tile_rows = TILE_ROWS,
    .key_block = TILE_KEY_BLOCK,
    .near_floats = TILE_NEAR_FLOATS,
    .few_lanes = TILE_FEW_LANES,
    .product = product,
    .product_few = product_few,
    .product_add = product_add,
    .product_seen = product_seen,
    .gather_lanes = gather_lanes,
    .hide_outside = hide_outside,
    .apply_mask = apply_mask,
    .apply_bias = apply_bias,
    .add_bias = add_bias,
    .softmax_max = softmax_max,
    .softmax_try = softmax_try,
    .softmax_near = softmax_near,
    .softmax_end_near = softmax_end_near,
    .softmax_exp = softmax_exp,
    .softmax_exp_any = softmax_exp_any,
    .drop_lanes = drop_lanes,
    .apply_keep = apply_keep,
    .finish_rows = finish_rows,
    .finish_product = finish_product,
    .scatter_lanes = scatter_lanes,
    .score_gradient = score_gradient,
    .gather_dots = gather_dots,
    .lane_dots = lane_dots,
    .lane_gradient = lane_gradient,
    .add_rows = add_rows,
    .add_lanes = add_lanes,
    .pack_rows = pack_rows,
    .sum_rows = sum_rows,
    .all_finite = all_finite,
    .additive_scores = additive_scores,
    .additive_gradients = additive_gradients,
    .row_max = row_max,
    .row_sum_exp = row_sum_exp,
    .row_exp = row_exp,
    .softmax_row = softmax_row,
    .softmax_columns = softmax_columns,
    .row_dot = row_dot,
    .row_gradient = row_gradient,
    .gradient_columns = gradient_columns,
    .exp2_inline = exp2_inline,
    .exp2_any = exp2_any,
    .exp_any = exp_any,
};
