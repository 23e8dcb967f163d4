/* SPDX-License-Identifier: MIT
 * matmul_task.h: what the tasks of a matrix product share: panels of a wave, and their packing. */
#ifndef RAPTI_MATMUL_TASK_H
#define RAPTI_MATMUL_TASK_H

#include "matmul.h"

/* A panel of the wave's columns. */
typedef struct rapti_matmul_panel {
    int64_t index;           /* in the wave */
    int64_t column, columns; /* the first of C; how many exist */
    int64_t vectors;
    int64_t lanes_before; /* of the wave's panels before it */
} rapti_matmul_panel;

rapti_matmul_panel rapti_matmul_find_panel(const rapti_matmul_wave *w, int64_t index);

/* The wave's block of k. */
rapti_matmul_range rapti_matmul_wave_block(const rapti_matmul_wave *w);

/* The first row (k) of the block of a panel: in B, and packed as [k][lanes of the panel]. */
const float *rapti_matmul_source(const rapti_matmul_wave *w, int64_t unit,
                                 const rapti_matmul_panel *n);
float *rapti_matmul_packed(const rapti_matmul_wave *w, int64_t unit, const rapti_matmul_panel *n);

/* 1 if B is packed row by row, all panels of the wave at a time; 0: panel by panel. */
int rapti_matmul_packs_rows(const rapti_matmul_wave *w);

/* For a task that packs what it uses: packs this panel, or all of them before the first. */
void rapti_matmul_pack_now(const rapti_matmul_wave *w, int64_t unit, const rapti_matmul_panel *n);

#endif
