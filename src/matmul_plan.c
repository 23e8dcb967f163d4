/* SPDX-License-Identifier: MIT
 * matmul_plan.c: cuts a matrix product into waves and tasks and sizes scratch. Only the ranges of k
 * touch a result; they depend on `inner` alone. Everything else follows the caches and threads. */
#include "matmul.h"
#include "numbers.h"

enum {
    BLOCK = 1024,          /* most indices k that a tile sums in registers */
    ROWS_FLOATS = 1 << 17, /* rows of A that stay in the second cache level over a task's panels */
    LEAST_ROWS = 48,       /* per task: fewer do not pay for reading the packed panels */
    MOST_ROWS = 480,
    WAVE_FLOATS = 1 << 21, /* packed at a time: the third cache level's */
    TASKS_PER_THREAD = 4
};
static const double THREAD_COST = 400e3; /* multiply-adds worth a thread of its own */
static const double WAVE_COST = 40e6;    /* ... and, per thread, worth waiting for all at its end */

static int64_t blocks(const rapti_matmul_problem *p) {
    return rapti_max(rapti_divide_up(p->inner, BLOCK), 1);
}

/* Even sizes: a last block of a few indices would cost as much as a full one. */
rapti_matmul_range rapti_matmul_block(const rapti_matmul_problem *p, int64_t block) {
    const int64_t size = rapti_divide_up(p->inner, blocks(p)), begin = block * size;
    return (rapti_matmul_range){rapti_min(begin, p->inner), rapti_min(begin + size, p->inner)};
}

/* At least 1. */
static int64_t longest_block(const rapti_matmul_problem *p) {
    return rapti_max(rapti_matmul_block(p, 0).end, 1);
}

/* ---- Panels ---- */

/* Full panels; a last one of a single vector would waste registers: the last two share evenly. */
int64_t rapti_matmul_panel_start(const rapti_matmul_plan *plan, int64_t panel) {
    const int64_t width = plan->kernels->column_vectors;
    const int64_t start = panel * width;
    if (start >= plan->vectors) { return plan->vectors; }
    if (panel > 0 && width > 2 && plan->vectors - start == 1) {
        return start - width + (width + 1) / 2;
    }
    return start;
}

/* ---- Waves and tasks ---- */

/* Multiply-adds of one unit and all its repeats. */
static double unit_cost(const rapti_matmul_problem *p) {
    return (double)p->rows * (double)p->columns * (double)rapti_max(p->inner, 16) *
           (double)p->repeats.items;
}

static int32_t choose_threads(const rapt_context *context, const rapti_matmul_problem *p) {
    return rapti_threads_worth(context, unit_cost(p) * (double)p->units.items / THREAD_COST);
}

/* As much as may be packed at a time; units enough to be worth a wave, one if nobody waits. */
static void choose_wave(const rapti_matmul_problem *p, rapti_matmul_plan *plan) {
    const int64_t block = longest_block(p);
    const rapti_kernels *kernels = plan->kernels;
    const int64_t lanes = kernels->lanes, width = kernels->column_vectors * lanes;
    plan->wave_panels = rapti_max(rapti_min(WAVE_FLOATS / (block * width), plan->panels), 1);
    const int64_t vectors = rapti_min(plan->wave_panels * kernels->column_vectors, plan->vectors);
    plan->unit_floats = (size_t)(vectors * lanes * block);
    plan->wave_units = 1;
    if (plan->threads > 1 && plan->wave_panels == plan->panels) {
        const double worth = WAVE_COST * plan->threads / unit_cost(p);
        const int64_t room = WAVE_FLOATS / (int64_t)plan->unit_floats;
        plan->wave_units = worth < (double)room ? (int64_t)worth + 1 : rapti_max(room, 1);
        plan->wave_units = rapti_min(plan->wave_units, p->units.items);
    }
}

static int64_t rows_that_stay(const rapti_matmul_problem *p, const rapti_matmul_plan *plan) {
    const int64_t rows = ROWS_FLOATS / longest_block(p);
    const int64_t blocks = rapti_divide_up(p->rows, rapti_clamp(rows, LEAST_ROWS, MOST_ROWS));
    const int64_t tile = plan->kernels->tile_rows;
    return rapti_round_up(rapti_divide_up(p->rows, blocks), tile);
}

/* Rows that stay in cache; then, if that leaves threads without work, fewer panels and rows. */
static void choose_tasks(const rapti_matmul_problem *p, rapti_matmul_plan *plan) {
    const int64_t wanted = plan->threads > 1 ? plan->threads * TASKS_PER_THREAD : 1;
    const int64_t items = rapti_min(plan->wave_units * p->repeats.items, wanted);
    plan->row_block = rows_that_stay(p, plan);
    plan->row_blocks = rapti_divide_up(p->rows, plan->row_block);
    plan->column_tasks = rapti_min(
        plan->wave_panels, rapti_divide_up(wanted, items * rapti_min(plan->row_blocks, wanted)));
    while (items * plan->row_blocks * plan->column_tasks < wanted &&
           plan->row_block >= 2 * LEAST_ROWS) {
        const int64_t tile = plan->kernels->tile_rows;
        plan->row_block = rapti_round_up(plan->row_block / 2, tile);
        plan->row_blocks = rapti_divide_up(p->rows, plan->row_block);
    }
}

/* Where A's columns are contiguous and not its rows, and the copy is used often enough. */
static void choose_packed_a(const rapti_matmul_problem *p, rapti_matmul_plan *plan) {
    const int64_t lanes = plan->kernels->lanes;
    const int transposed = p->a_row == 1 && p->a_k != 1;
    plan->row_ld = rapti_round_up(plan->row_block, lanes);
    if (transposed && p->rows >= lanes && plan->panels > plan->column_tasks) {
        plan->packed_a_floats = plan->row_ld * longest_block(p);
    }
}

void rapti_matmul_make_plan(const rapt_context *context, const rapti_matmul_problem *p,
                            rapti_matmul_plan *plan) {
    const int64_t lanes = context->kernels->lanes;
    *plan = (rapti_matmul_plan){.kernels = context->kernels, .threads = 1};
    if (p->units.items == 0) { return; }
    plan->vectors = rapti_divide_up(p->columns, lanes);
    plan->panels = rapti_divide_up(plan->vectors, plan->kernels->column_vectors);
    plan->blocks = blocks(p);
    plan->threads = choose_threads(context, p);
    choose_wave(p, plan);
    choose_tasks(p, plan);
    plan->fused = plan->threads == 1 ||
                  (plan->row_blocks == 1 && plan->column_tasks == 1 && p->repeats.items == 1);
    choose_packed_a(p, plan);
    const size_t packed = (size_t)plan->wave_units * plan->unit_floats * sizeof(float);
    plan->packed_bytes = rapti_aligned(packed);
    plan->thread_bytes = rapti_matmul_thread_bytes(plan);
    plan->scratch_bytes = plan->packed_bytes + (size_t)plan->threads * plan->thread_bytes;
}
