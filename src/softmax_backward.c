/* SPDX-License-Identifier: MIT
 * softmax_backward.c: gradients of softmax from its own result. Rows are read once: what the sum
 * has read is still in cache when the gradient is written. Long rows are shared by threads in
 * chunks, where the sum of a row in one piece has its parts: the bits are the same. */
#include "numbers.h"
#include "operand.h"
#include "parallel.h"
#include "softmax_call.h"
#include "walk.h"

enum { TASK_ELEMENTS = 8192 }; /* at least so many per task, where there are */

/* The result, its gradient, the gradient of the input. */
enum { Y, DY, DX, TENSORS };

typedef struct gradient {
    const rapti_kernels *kernels;
    rapt_tensor t[TENSORS]; /* normal, the axis of the rows last */
    int64_t rows, size;
    int64_t chunk, row_chunks;
    int64_t task_rows;     /* rows, or columns of a matrix, per task */
    int64_t thread_floats; /* of scratch: two chunks where elements have strides */
    float *scratch, *dots; /* dots: [rows][row_chunks], where threads share rows */
} gradient;

/* ---- Checks ---- */

static rapt_status check(rapt_context *context, const rapt_tensor *const t[TENSORS]) {
    static const char *const name[TENSORS] = {"out", "dout", "din"};
    rapt_status status = rapti_operand_context(context);
    for (int i = 0; i < TENSORS && status == RAPT_OK; i++) {
        status = rapti_operand_check(context, name[i], t[i], RAPT_F32, 1, RAPT_MAX_RANK);
        if (status == RAPT_OK && i > 0) {
            status = rapti_operand_sizes(context, name[i], t[i], t[0]->rank, t[0]->size);
        }
    }
    if (status == RAPT_OK) { status = rapti_operand_written(context, "din", t[DX]); }
    if (status == RAPT_OK) { status = rapti_operand_apart(context, "din", t[DX], "out", t[Y]); }
    if (status == RAPT_OK && !rapti_tensors_equal(t[DX], t[DY])) {
        status = rapti_operand_apart(context, "din", t[DX], "dout", t[DY]);
    }
    return status;
}

/* ---- Layout ---- */

static void move_axis(gradient *g, int32_t axis, int32_t to) {
    for (; axis < to; axis++) {
        for (int i = 0; i < TENSORS; i++) {
            g->t[i] = rapt_tensor_swap_axes(g->t[i], axis, axis + 1);
        }
    }
}

static int contiguous(const gradient *g, int32_t axis) {
    return g->t[Y].stride[axis] == 1 && g->t[DY].stride[axis] == 1 && g->t[DX].stride[axis] == 1;
}

/* Rows that are not contiguous, but lie side by side: that axis becomes the second last. */
static int beside_each_other(gradient *g) {
    const int32_t last = g->t[Y].rank - 1;
    if (g->size < 2 || contiguous(g, last)) { return 0; }
    for (int32_t axis = 0; axis < last; axis++) {
        if (contiguous(g, axis) && 2 * g->t[Y].size[axis] > g->kernels->lanes) {
            move_axis(g, axis, last - 1);
            return 1;
        }
    }
    return 0;
}

static float *address(const gradient *g, int i, int32_t axes, int64_t index) {
    return (float *)g->t[i].data + rapti_walk_start(&g->t[i], axes, index).offset;
}

/* ---- Rows ---- */

/* Elements [from, from + n) of a row, side by side: in place, or gathered. */
static const float *elements(const gradient *g, int i, const float *row, int64_t from, int64_t n,
                             float *scratch) {
    const int64_t step = g->t[i].stride[g->t[i].rank - 1];
    if (step == 1) { return row + from; }
    rapti_softmax_gather(row + from * step, step, n, scratch);
    return scratch;
}

/* The second chunk of a thread's scratch. */
static float *second(const gradient *g, float *scratch) {
    return scratch ? scratch + g->chunk : NULL;
}

/* One chunk of a row: its part of the dot product, or with that of the row, its gradient. */
static float chunk_dot(const gradient *g, float *const row[TENSORS], int64_t chunk,
                       float *scratch) {
    const int64_t from = chunk * g->chunk, n = rapti_min(g->chunk, g->size - from);
    const float *y = elements(g, Y, row[Y], from, n, scratch);
    return g->kernels->row_dot(y, elements(g, DY, row[DY], from, n, second(g, scratch)), n);
}

static void chunk_gradient(const gradient *g, float *const row[TENSORS], int64_t chunk, float dot,
                           float *scratch) {
    const int64_t from = chunk * g->chunk, n = rapti_min(g->chunk, g->size - from);
    const int64_t step = g->t[DX].stride[g->t[DX].rank - 1];
    float *const dx = row[DX] + from * step, *const to = step == 1 ? dx : second(g, scratch);
    const float *y = elements(g, Y, row[Y], from, n, scratch);
    const float *dy = elements(g, DY, row[DY], from, n, second(g, scratch));
    g->kernels->row_gradient(y, dy, n, dot, to);
    if (to != dx) { rapti_softmax_scatter(to, n, dx, step); }
}

/* Null where nothing is gathered. */
static float *thread_scratch(const gradient *g, int32_t thread) {
    return g->scratch && g->thread_floats ? g->scratch + thread * g->thread_floats : NULL;
}

static void find_row(const gradient *g, int64_t index, float *row[TENSORS]) {
    for (int i = 0; i < TENSORS; i++) { row[i] = address(g, i, g->t[i].rank - 1, index); }
}

static void run_rows(void *argument, int64_t task, int32_t thread) {
    const gradient *g = argument;
    const int64_t first = task * g->task_rows;
    float *const scratch = thread_scratch(g, thread);
    rapti_walk w[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        w[i] = rapti_walk_start(&g->t[i], g->t[i].rank - 1, first);
    }
    for (int64_t n = rapti_min(g->task_rows, g->rows - first); n > 0; n--) {
        float *row[TENSORS], dot = 0.0f;
        for (int i = 0; i < TENSORS; i++) {
            row[i] = (float *)g->t[i].data + w[i].offset;
            rapti_walk_next(&w[i]);
        }
        for (int64_t c = 0; c < g->row_chunks; c++) { dot += chunk_dot(g, row, c, scratch); }
        for (int64_t c = 0; c < g->row_chunks; c++) { chunk_gradient(g, row, c, dot, scratch); }
    }
}

static void run_chunk_dot(void *argument, int64_t task, int32_t thread) {
    const gradient *g = argument;
    float *row[TENSORS];
    find_row(g, task / g->row_chunks, row);
    g->dots[task] = chunk_dot(g, row, task % g->row_chunks, thread_scratch(g, thread));
}

static void run_chunk_gradient(void *argument, int64_t task, int32_t thread) {
    const gradient *g = argument;
    const int64_t index = task / g->row_chunks;
    float *row[TENSORS], dot = 0.0f;
    find_row(g, index, row);
    for (int64_t c = 0; c < g->row_chunks; c++) { dot += g->dots[index * g->row_chunks + c]; }
    chunk_gradient(g, row, task % g->row_chunks, dot, thread_scratch(g, thread));
}

static rapt_status run_along_rows(rapt_context *context, gradient *g, int32_t threads) {
    const int shared = g->size > RAPTI_SOFTMAX_LONG;
    const int strided = !contiguous(g, g->t[Y].rank - 1);
    size_t dots = 0, bytes = 0;
    void *scratch = NULL;
    g->chunk = (int64_t)RAPTI_SUM_VECTORS * RAPTI_SUM_BLOCKS * g->kernels->lanes;
    g->row_chunks = rapti_divide_up(g->size, g->chunk);
    g->chunk = rapti_min(g->chunk, g->size);
    g->thread_floats = strided ? rapti_round_up(2 * g->chunk, RAPTI_LINE) : 0;
    const size_t gathered = (size_t)threads * (size_t)g->thread_floats * sizeof(float);
    if (shared && __builtin_mul_overflow((size_t)(g->rows * g->row_chunks), sizeof(float), &dots)) {
        return rapti_fail(context, RAPT_ERR_MEMORY, "scratch: %lld parts of %lld rows",
                          (long long)(g->rows * g->row_chunks), (long long)g->rows);
    }
    bytes = gathered + dots;
    const rapt_status status =
        bytes ? rapti_context_scratch(context, NULL, 0, bytes, &scratch) : RAPT_OK;
    if (status != RAPT_OK) { return status; }
    g->scratch = scratch;
    if (!shared) {
        g->task_rows = rapti_divide_up(TASK_ELEMENTS, g->size);
        rapti_parallel_run(threads, rapti_divide_up(g->rows, g->task_rows), run_rows, g);
        return RAPT_OK;
    }
    g->dots = (float *)(void *)((char *)scratch + gathered);
    rapti_parallel_run(threads, g->rows * g->row_chunks, run_chunk_dot, g);
    rapti_parallel_run(threads, g->rows * g->row_chunks, run_chunk_gradient, g);
    return RAPT_OK;
}

/* ---- Columns ---- */

/* Task: some of the columns of one matrix. */
static void run_columns(void *argument, int64_t task, int32_t thread) {
    (void)thread;
    const gradient *g = argument;
    const int32_t last = g->t[Y].rank - 1;
    const int64_t columns = g->t[Y].size[last - 1];
    const int64_t matrix_tasks = rapti_divide_up(columns, g->task_rows);
    const int64_t matrix = task / matrix_tasks, first = task % matrix_tasks * g->task_rows;
    const rapti_softmax_columns part = {.y = address(g, Y, last - 1, matrix) + first,
                                        .dy = address(g, DY, last - 1, matrix) + first,
                                        .dx = address(g, DX, last - 1, matrix) + first,
                                        .y_k = g->t[Y].stride[last],
                                        .dy_k = g->t[DY].stride[last],
                                        .dx_k = g->t[DX].stride[last],
                                        .n = g->size,
                                        .columns = rapti_min(g->task_rows, columns - first)};
    g->kernels->gradient_columns(&part);
}

static void run_down_columns(gradient *g, int32_t threads) {
    const int64_t strip = RAPTI_STRIP_COLUMNS, columns = g->t[Y].size[g->t[Y].rank - 2];
    g->task_rows = rapti_divide_up(TASK_ELEMENTS, g->size * strip) * strip;
    rapti_parallel_run(threads, g->rows / columns * rapti_divide_up(columns, g->task_rows),
                       run_columns, g);
}

/* ---- Calls ---- */

rapt_status rapt_softmax_axis_backward(rapt_context *context, const rapt_tensor *out,
                                       const rapt_tensor *dout, int32_t axis,
                                       const rapt_tensor *din) {
    const rapt_status status = check(context, (const rapt_tensor *const[]){out, dout, din});
    if (status != RAPT_OK) { return status; }
    if (axis < -out->rank || axis >= out->rank) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "axis: %d, expected %d .. %d", axis,
                          -out->rank, out->rank - 1);
    }
    gradient g = {
        .kernels = context->kernels,
        .t = {rapti_tensor_normal(out), rapti_tensor_normal(dout), rapti_tensor_normal(din)}};
    move_axis(&g, axis < 0 ? axis + out->rank : axis, out->rank - 1);
    g.rows = rapti_walk_count(&g.t[Y], out->rank - 1);
    g.size = g.t[Y].size[out->rank - 1];
    if (g.rows == 0 || g.size == 0) { return RAPT_OK; }
    /* without exponentials, an element is about a quarter of the work */
    const int32_t threads = rapti_softmax_threads(context, (double)g.rows * (double)g.size / 4);
    if (!beside_each_other(&g)) { return run_along_rows(context, &g, threads); }
    run_down_columns(&g, threads);
    return RAPT_OK;
}

rapt_status rapt_softmax_backward(rapt_context *context, const rapt_tensor *out,
                                  const rapt_tensor *dout, const rapt_tensor *din) {
    return rapt_softmax_axis_backward(context, out, dout, -1, din);
}
