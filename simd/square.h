/* SPDX-License-Identifier: MIT
 * square.h: VEC_LANES rows turned into lanes: column j of the rows becomes vector j. */
#ifndef RAPTI_SQUARE_H
#define RAPTI_SQUARE_H

#include "common.h"

#include <stdint.h>

/* tile[j] lane i = rows[i][(from + j) * stride] for j < n <= VEC_LANES; the others do not matter.
 * For any stride and n, hence not inline: whole squares of stride 1 are for vf_load_square, in a
 * loop of their own, where nothing keeps them from staying in registers. */
RAPTI_NOINLINE void load_columns(const float *const *rows, int64_t stride, int64_t from, int64_t n,
                                 vf tile[VEC_LANES]) {
    if (stride == 1 && n == VEC_LANES) {
        vf_load_square(rows, from, tile);
        return;
    }
    if (stride == 1) {
        for (int i = 0; i < VEC_LANES; i++) { tile[i] = vf_load_n(rows[i] + from, (int)n); }
        vf_transpose(tile);
        return;
    }
    if (stride == 0) { /* one number per row */
        float column[VEC_LANES];
        for (int i = 0; i < VEC_LANES; i++) { column[i] = rows[i][0]; }
        for (int j = 0; j < VEC_LANES; j++) { tile[j] = vf_load(column); }
        return;
    }
    for (int i = 0; i < VEC_LANES; i++) {
        float row[VEC_LANES] = {0};
        for (int64_t j = 0; j < n; j++) { row[j] = rows[i][(from + j) * stride]; }
        tile[i] = vf_load(row);
    }
    vf_transpose(tile);
}

#endif
