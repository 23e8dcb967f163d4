/* SPDX-License-Identifier: MIT
 * column_sums.c: see column_sums.h. */
#include "column_sums.h"

#include "numbers.h"
#include "parallel.h"
#include "tensor.h"
#include "walk.h"

enum {
    CHUNK = 512,         /* rows whose sum is one partial sum: decides bits */
    STRIP_VECTORS = 32,  /* columns that a task sums */
    PIECE = 16,          /* rows that are packed at a time where columns have strides */
    THREAD_COST = 65536, /* elements worth a thread of their own */
};

void rapti_column_sums_plan(const rapt_context *context, const rapt_tensor *t,
                            rapti_column_sums *s) {
    const int64_t lanes = context->kernels->lanes;
    *s = (rapti_column_sums){.kernels = context->kernels, .t = rapti_tensor_normal(t)};
    for (int32_t axis = t->rank - 3; axis >= 0; axis--) {
        if (rapti_tensor_joins(&s->t, axis)) { rapti_tensor_join(&s->t, axis); }
    }
    s->columns = t->size[t->rank - 1];
    s->rows = rapti_walk_count(t, t->rank - 1);
    s->chunks = s->rows > CHUNK ? rapti_divide_up(s->rows, CHUNK) : 1;
    s->strip = STRIP_VECTORS * lanes;
    s->strips = rapti_divide_up(s->columns, s->strip);
    s->ld = rapti_round_up(s->columns, lanes);
    s->threads = rapti_threads_worth(context, (double)s->rows * (double)s->columns / THREAD_COST);
    const size_t partial = (size_t)(s->chunks * s->ld) * sizeof(float);
    s->partial_bytes = rapti_aligned(partial);
    const size_t packed = (size_t)(PIECE * s->strip) * sizeof(float);
    const int dense = s->t.stride[s->t.rank - 1] == 1;
    s->thread_bytes = dense ? 0 : rapti_aligned(packed);
    s->scratch_bytes = s->partial_bytes + (size_t)s->threads * s->thread_bytes;
}

/* Adds rows of one stride, `columns` wide. Columns with strides become dense a few rows at a time:
 * lanes past the last one repeat it, and nobody reads their sums. */
static void add_rows(const rapti_column_sums *s, const float *rows, int64_t row, int64_t count,
                     int64_t columns, float *packed, float *sum) {
    const int64_t column = s->t.stride[s->t.rank - 1], lanes = s->kernels->lanes;
    if (column == 1) {
        s->kernels->sum_rows(rows, row, count, columns, sum);
        return;
    }
    for (int64_t r = 0; r < count; r += PIECE) {
        const int64_t n = rapti_min(PIECE, count - r);
        for (int64_t c = 0; c < columns; c += lanes) {
            const float *lane[RAPTI_MAX_LANES];
            for (int64_t i = 0; i < lanes; i++) {
                lane[i] = rows + r * row + rapti_min(c + i, columns - 1) * column;
            }
            s->kernels->gather_lanes(lane, row, n, 1.0f, packed + c, s->strip);
        }
        s->kernels->sum_rows(packed, s->strip, n, columns, sum);
    }
}

/* One strip of a chunk: rows of the last leading axis lie at one distance from each other. */
static void run_chunk(void *sums, int64_t task, int32_t thread) {
    const rapti_column_sums *s = sums;
    const rapt_tensor *t = &s->t;
    const int64_t first = task / s->strips * CHUNK, from = task % s->strips * s->strip;
    const int64_t columns = rapti_min(s->strip, s->columns - from);
    float *sum = s->partial + task / s->strips * s->ld + from;
    float *packed = (float *)(void *)(s->scratch + (size_t)thread * s->thread_bytes);
    for (int64_t j = 0; j < rapti_round_up(columns, s->kernels->lanes); j++) { sum[j] = 0.0f; }
    const int32_t axes = t->rank - 1;
    const int64_t run = axes > 0 ? t->size[axes - 1] : 1;
    const int64_t row = axes > 0 ? t->stride[axes - 1] : 0;
    const float *data = (const float *)t->data + from * t->stride[axes];
    const int64_t past = rapti_min(first + CHUNK, s->rows);
    for (int64_t at = first; at < past;) {
        const int64_t inside = at % run, count = rapti_min(run - inside, past - at);
        const rapti_walk w = rapti_walk_start(t, axes > 0 ? axes - 1 : 0, at / run);
        add_rows(s, data + w.offset + inside * row, row, count, columns, packed, sum);
        at += count;
    }
}

/* One strip of the partial sums: to the first one, then out. */
static void run_strip(void *sums, int64_t task, int32_t thread) {
    (void)thread;
    const rapti_column_sums *s = sums;
    const int64_t from = task * s->strip, columns = rapti_min(s->strip, s->columns - from);
    float *sum = s->partial + from;
    s->kernels->sum_rows(sum + s->ld, s->ld, s->chunks - 1, columns, sum);
    for (int64_t j = 0; j < columns; j++) {
        float *out = s->out + (from + j) * s->step;
        *out = s->accumulate ? *out + sum[j] : sum[j];
    }
}

void rapti_column_sums_run(rapti_column_sums *s, const rapt_tensor *out, int accumulate,
                           void *scratch) {
    const rapt_tensor normal = rapti_tensor_normal(out);
    s->partial = scratch;
    s->scratch = (char *)scratch + s->partial_bytes;
    s->out = normal.data;
    s->step = normal.stride[0];
    s->accumulate = accumulate;
    rapti_parallel_run(s->threads, s->chunks * s->strips, run_chunk, s);
    rapti_parallel_run(s->threads, s->strips, run_strip, s);
}
