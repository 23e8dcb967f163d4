/* SPDX-License-Identifier: MIT
 * matmul_pack.c: copies B into panels. Where columns of B are contiguous, as in x W^T, they are
 * turned into lanes panel by panel. Where rows are, they are copied a few at a time to all panels,
 * so that memory is read in its order. */
#include "matmul_task.h"
#include "numbers.h"

enum { CHUNK = 16 }; /* rows that are copied at a time */

rapti_matmul_range rapti_matmul_wave_block(const rapti_matmul_wave *w) {
    return rapti_matmul_block(w->p, w->block);
}

rapti_matmul_panel rapti_matmul_find_panel(const rapti_matmul_wave *w, int64_t index) {
    const rapti_matmul_plan *plan = w->plan;
    const int64_t lanes = plan->kernels->lanes;
    const int64_t start = rapti_matmul_panel_start(plan, w->first_panel + index);
    const int64_t past = rapti_matmul_panel_start(plan, w->first_panel + index + 1);
    const int64_t left = w->p->columns - start * lanes, full = (past - start) * lanes;
    return (rapti_matmul_panel){
        .index = index,
        .column = start * lanes,
        .columns = rapti_min(left, full),
        .vectors = past - start,
        .lanes_before = (start - rapti_matmul_panel_start(plan, w->first_panel)) * lanes};
}

const float *rapti_matmul_source(const rapti_matmul_wave *w, int64_t unit,
                                 const rapti_matmul_panel *n) {
    const rapti_matmul_problem *p = w->p;
    return p->b + rapti_matmul_offset(&p->units, w->first_unit + unit).b +
           rapti_matmul_wave_block(w).begin * p->b_k + n->column * p->b_column;
}

float *rapti_matmul_packed(const rapti_matmul_wave *w, int64_t unit, const rapti_matmul_panel *n) {
    const rapti_matmul_range k = rapti_matmul_wave_block(w);
    return w->packed + (size_t)unit * w->plan->unit_floats + n->lanes_before * (k.end - k.begin);
}

int rapti_matmul_packs_rows(const rapti_matmul_wave *w) { return w->p->b_column == 1; }

static int64_t chunks(const rapti_matmul_wave *w) {
    const rapti_matmul_range k = rapti_matmul_wave_block(w);
    return rapti_divide_up(k.end - k.begin, CHUNK);
}

/* Rows [chunk * CHUNK, ...) of the block, all panels. */
static void pack_chunk(const rapti_matmul_wave *w, int64_t unit, int64_t chunk) {
    const rapti_matmul_range k = rapti_matmul_wave_block(w);
    const int64_t row = chunk * CHUNK, left = k.end - k.begin - row;
    for (int64_t i = 0; i < w->panels; i++) {
        const rapti_matmul_panel n = rapti_matmul_find_panel(w, i);
        const int64_t ld = n.vectors * w->plan->kernels->lanes;
        w->plan->kernels->pack_rows(rapti_matmul_source(w, unit, &n) + row * w->p->b_k, w->p->b_k,
                                    1, rapti_min(left, CHUNK), n.columns,
                                    rapti_matmul_packed(w, unit, &n) + row * ld, ld);
    }
}

/* Lanes past the last column repeat it: nobody reads their sums. */
static void pack_panel(const rapti_matmul_wave *w, int64_t unit, const rapti_matmul_panel *n) {
    const rapti_kernels *kernels = w->plan->kernels;
    const rapti_matmul_range k = rapti_matmul_wave_block(w);
    const float *b = rapti_matmul_source(w, unit, n);
    float *out = rapti_matmul_packed(w, unit, n);
    const int64_t lanes = kernels->lanes, size = k.end - k.begin;
    for (int64_t v = 0; size > 0 && v < n->vectors; v++) {
        const float *column[RAPTI_MAX_LANES];
        for (int64_t i = 0; i < lanes; i++) {
            const int64_t j = v * lanes + i < n->columns ? v * lanes + i : n->columns - 1;
            column[i] = b + j * w->p->b_column;
        }
        kernels->gather_lanes(column, w->p->b_k, size, 1.0f, out + v * lanes, n->vectors * lanes);
    }
}

int64_t rapti_matmul_pack_tasks(const rapti_matmul_wave *w) {
    return w->units * (rapti_matmul_packs_rows(w) ? chunks(w) : w->panels);
}

void rapti_matmul_run_pack(void *wave, int64_t task, int32_t thread) {
    (void)thread;
    const rapti_matmul_wave *w = wave;
    if (rapti_matmul_packs_rows(w)) {
        pack_chunk(w, task / chunks(w), task % chunks(w));
    } else {
        const rapti_matmul_panel n = rapti_matmul_find_panel(w, task % w->panels);
        pack_panel(w, task / w->panels, &n);
    }
}

void rapti_matmul_pack_now(const rapti_matmul_wave *w, int64_t unit, const rapti_matmul_panel *n) {
    if (!rapti_matmul_packs_rows(w)) {
        pack_panel(w, unit, n);
        return;
    }
    for (int64_t chunk = 0; n->index == 0 && chunk < chunks(w); chunk++) {
        pack_chunk(w, unit, chunk);
    }
}
