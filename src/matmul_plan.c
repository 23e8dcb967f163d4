/* SPDX-License-Identifier: MIT
 * matmul_plan.c: cuts a matrix product into waves and tasks and sizes scratch. Only the ranges of k
 * touch a result; they depend on `inner` alone. Everything else follows the caches and threads. */
#include "matmul.h"

enum {
    SPAN = 1024,           /* indices k that are packed at a time */
    BLOCK = 256,           /* most indices k that a tile sums in registers */
    ROWS_FLOATS = 1 << 17, /* rows of A that stay in the second cache level over a task's panels */
    LEAST_ROWS = 48,       /* per task: fewer do not pay for reading the packed panels */
    MOST_ROWS = 480,
    WAVE_FLOATS = 1 << 21, /* packed at a time: the third cache level's */
    LINE_FLOATS = 16,      /* a cache line */
    NEAR_FLOATS = 4,       /* a step along k so short that a line of A serves several */
    TASKS_PER_THREAD = 4
};
static const double THREAD_COST = 400e3; /* multiply-adds worth a thread of its own */
static const double WAVE_COST = 40e6;    /* ... and, per thread, worth waiting for all at its end */

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- Ranges of k ---- */

rapti_matmul_range rapti_matmul_span(const rapti_matmul_problem *p, int64_t span) {
    return (rapti_matmul_range){span * SPAN, least((span + 1) * SPAN, p->inner)};
}

int64_t rapti_matmul_blocks(rapti_matmul_range span) {
    return most(divide_up(span.end - span.begin, BLOCK), 1);
}

/* Blocks of even sizes: a last one of a few indices would cost as much as a full one. */
rapti_matmul_range rapti_matmul_block(rapti_matmul_range span, int64_t block) {
    const int64_t size = divide_up(span.end - span.begin, rapti_matmul_blocks(span));
    const int64_t begin = span.begin + block * size;
    return (rapti_matmul_range){least(begin, span.end), least(begin + size, span.end)};
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
    return (double)p->rows * (double)p->columns * (double)most(p->inner, 16) *
           (double)p->repeats.items;
}

static int32_t choose_threads(const rapt_context *context, const rapti_matmul_problem *p) {
    const double threads = unit_cost(p) * (double)p->units.items / THREAD_COST;
    if (threads < 2) { return 1; }
    return threads < context->threads ? (int32_t)threads : context->threads;
}

/* As much as may be packed at a time; units enough to be worth a wave, one if nobody waits. */
static void choose_wave(const rapti_matmul_problem *p, rapti_matmul_plan *plan) {
    const int64_t span = most(least(p->inner, SPAN), 1);
    const rapti_kernels *kernels = plan->kernels;
    const int64_t lanes = kernels->lanes, width = kernels->column_vectors * lanes;
    plan->wave_panels = most(least(WAVE_FLOATS / (span * width), plan->panels), 1);
    const int64_t vectors = least(plan->wave_panels * kernels->column_vectors, plan->vectors);
    plan->unit_floats = (size_t)(vectors * lanes * span);
    plan->wave_units = 1;
    if (plan->threads > 1 && plan->wave_panels == plan->panels) {
        const double worth = WAVE_COST * plan->threads / unit_cost(p);
        const int64_t room = WAVE_FLOATS / (int64_t)plan->unit_floats;
        plan->wave_units = worth < (double)room ? (int64_t)worth + 1 : most(room, 1);
        plan->wave_units = least(plan->wave_units, p->units.items);
    }
}

static int64_t rows_that_stay(const rapti_matmul_problem *p, const rapti_matmul_plan *plan) {
    const int64_t rows = ROWS_FLOATS / most(least(p->inner, SPAN), 1);
    const int64_t blocks = divide_up(p->rows, most(least(rows, MOST_ROWS), LEAST_ROWS));
    const int64_t tile = plan->kernels->tile_rows;
    return divide_up(divide_up(p->rows, blocks), tile) * tile;
}

/* Rows that stay in cache; then, if that leaves threads without work, fewer panels and rows. */
static void choose_tasks(const rapti_matmul_problem *p, rapti_matmul_plan *plan) {
    const int64_t wanted = plan->threads > 1 ? plan->threads * TASKS_PER_THREAD : 1;
    const int64_t items = least(plan->wave_units * p->repeats.items, wanted);
    plan->row_block = rows_that_stay(p, plan);
    plan->row_blocks = divide_up(p->rows, plan->row_block);
    plan->column_tasks =
        least(plan->wave_panels, divide_up(wanted, items * least(plan->row_blocks, wanted)));
    while (items * plan->row_blocks * plan->column_tasks < wanted &&
           plan->row_block >= 2 * LEAST_ROWS) {
        const int64_t tile = plan->kernels->tile_rows;
        plan->row_block = divide_up(plan->row_block / 2, tile) * tile;
        plan->row_blocks = divide_up(p->rows, plan->row_block);
    }
}

/* A is read in place if its rows go on along k. In a transposed view, each step along k is a line
 * of its own, on few sets of the first cache level and beyond the hardware's prefetch: half the
 * speed of rows that a task copied, from the second panel on. Rows of a copy lie on many sets. */
static void choose_copy(const rapti_matmul_problem *p, rapti_matmul_plan *plan) {
    const int near = -NEAR_FLOATS <= p->a_k && p->a_k <= NEAR_FLOATS;
    if (near || plan->panels < 2 * plan->column_tasks) { return; }
    const int64_t lanes = plan->kernels->lanes, span = least(p->inner, SPAN);
    plan->copied_k = divide_up(span, lanes) * lanes + LINE_FLOATS;
}

void rapti_matmul_make_plan(const rapt_context *context, const rapti_matmul_problem *p,
                            rapti_matmul_plan *plan) {
    const int64_t lanes = context->kernels->lanes;
    *plan = (rapti_matmul_plan){.kernels = context->kernels, .threads = 1};
    if (p->units.items == 0) { return; }
    plan->vectors = divide_up(p->columns, lanes);
    plan->panels = divide_up(plan->vectors, plan->kernels->column_vectors);
    plan->spans = most(divide_up(p->inner, SPAN), 1);
    plan->threads = choose_threads(context, p);
    choose_wave(p, plan);
    choose_tasks(p, plan);
    choose_copy(p, plan);
    const size_t packed = (size_t)plan->wave_units * plan->unit_floats * sizeof(float);
    plan->packed_bytes = (packed + RAPTI_ALIGNMENT - 1) / RAPTI_ALIGNMENT * RAPTI_ALIGNMENT;
    plan->thread_bytes = rapti_matmul_thread_bytes(plan);
    plan->scratch_bytes = plan->packed_bytes + (size_t)plan->threads * plan->thread_bytes;
}
