/* SPDX-License-Identifier: MIT
 * softmax_rows.c: softmax of rows along the lanes, and of columns side by side in them. Threads
 * share the rows, a few at a time; scratch memory holds a strided row, or a strip of columns. */
#include "numbers.h"
#include "parallel.h"
#include "softmax_call.h"
#include "walk.h"

enum { TASK_ELEMENTS = 8192 }; /* at least so many per task, where there are */

typedef struct rows_call {
    const rapti_softmax *s;
    rapti_row_fn *row;
    int64_t task_rows; /* rows, or columns of a matrix, per task */
    float *scratch;
    int64_t thread_floats;
} rows_call;

void rapti_softmax_gather(const float *x, int64_t step, int64_t n, float *to) {
    for (int64_t i = 0; i < n; i++) { to[i] = x[i * step]; }
}

void rapti_softmax_scatter(const float *from, int64_t n, float *x, int64_t step) {
    for (int64_t i = 0; i < n; i++) { x[i * step] = from[i]; }
}

/* Whole cache lines for each thread, at most a long row or a strip: far from overflow. */
static rapt_status take_scratch(rapt_context *context, int32_t threads, int64_t floats,
                                rows_call *call) {
    void *scratch = NULL;
    call->thread_floats = rapti_round_up(floats, RAPTI_LINE);
    const size_t bytes = (size_t)threads * (size_t)call->thread_floats * sizeof(float);
    const rapt_status status =
        bytes ? rapti_context_scratch(context, NULL, 0, bytes, &scratch) : RAPT_OK;
    call->scratch = scratch;
    return status;
}

static float *thread_scratch(const rows_call *call, int32_t thread) {
    return call->scratch ? call->scratch + thread * call->thread_floats : NULL;
}

/* ---- Rows ---- */

static void run_rows(void *argument, int64_t task, int32_t thread) {
    const rows_call *call = argument;
    const rapti_softmax *s = call->s;
    const int32_t axes = s->in.rank - 1;
    const int64_t first = task * call->task_rows;
    rapti_walk in = rapti_walk_start(&s->in, axes, first);
    rapti_walk out = rapti_walk_start(&s->out, axes, first);
    for (int64_t n = rapti_min(call->task_rows, s->rows - first); n > 0; n--) {
        call->row(s, (const float *)s->in.data + in.offset, (float *)s->out.data + out.offset,
                  thread_scratch(call, thread));
        rapti_walk_next(&in);
        rapti_walk_next(&out);
    }
}

rapt_status rapti_softmax_each_row(rapt_context *context, const rapti_softmax *s, rapti_row_fn *row,
                                   int64_t scratch_floats) {
    rows_call call = {.s = s, .row = row};
    call.task_rows = rapti_divide_up(TASK_ELEMENTS, rapti_max(s->size, 1));
    const int32_t threads = rapti_softmax_threads(context, (double)s->rows * (double)s->size);
    const rapt_status status = take_scratch(context, threads, scratch_floats, &call);
    if (status != RAPT_OK) { return status; }
    rapti_parallel_run(threads, rapti_divide_up(s->rows, call.task_rows), run_rows, &call);
    return RAPT_OK;
}

static void softmax_row(const rapti_softmax *s, const float *in, float *out, float *scratch) {
    const int32_t last = s->in.rank - 1;
    const int64_t in_step = s->in.stride[last], out_step = s->out.stride[last];
    float *to = out_step == 1 ? out : scratch;
    if (in_step == 1) {
        s->kernels->softmax_row(in, s->size, to);
    } else {
        rapti_softmax_gather(in, in_step, s->size, to);
        s->kernels->softmax_row(to, s->size, to);
    }
    if (to != out) { rapti_softmax_scatter(to, s->size, out, out_step); }
}

rapt_status rapti_softmax_run_rows(rapt_context *context, const rapti_softmax *s) {
    const int contiguous = s->out.stride[s->out.rank - 1] == 1;
    return rapti_softmax_each_row(context, s, softmax_row, contiguous ? 0 : s->size);
}

/* ---- Columns ---- */

/* Task: some of the columns of one matrix. */
static void run_columns(void *argument, int64_t task, int32_t thread) {
    const rows_call *call = argument;
    const rapti_softmax *s = call->s;
    const int32_t last = s->in.rank - 1;
    const int64_t columns = s->in.size[last - 1];
    const int64_t matrix_tasks = rapti_divide_up(columns, call->task_rows);
    const int64_t matrix = task / matrix_tasks, first = task % matrix_tasks * call->task_rows;
    s->kernels->softmax_columns(
        (const float *)s->in.data + rapti_walk_start(&s->in, last - 1, matrix).offset + first,
        s->in.stride[last],
        (float *)s->out.data + rapti_walk_start(&s->out, last - 1, matrix).offset + first,
        s->out.stride[last], s->size, rapti_min(call->task_rows, columns - first),
        thread_scratch(call, thread));
}

rapt_status rapti_softmax_run_columns(rapt_context *context, const rapti_softmax *s) {
    const int64_t strip = RAPTI_STRIP_COLUMNS / s->kernels->lanes * s->kernels->lanes;
    const int64_t columns = s->in.size[s->in.rank - 2];
    const int64_t task_columns = rapti_divide_up(TASK_ELEMENTS, s->size * strip) * strip;
    const int64_t tasks = s->rows / columns * rapti_divide_up(columns, task_columns);
    const int32_t threads = rapti_softmax_threads(context, (double)s->rows * (double)s->size);
    rows_call call = {.s = s, .task_rows = task_columns};
    const int64_t keys = rapti_min(s->size, RAPTI_STRIP_KEYS);
    const rapt_status status = take_scratch(context, threads, RAPTI_STRIP_COLUMNS * keys, &call);
    if (status == RAPT_OK) { rapti_parallel_run(threads, tasks, run_columns, &call); }
    return status;
}
