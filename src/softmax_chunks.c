/* SPDX-License-Identifier: MIT
 * softmax_chunks.c: rows so long that threads share each of them. Three passes: the maximum of each
 * chunk; the sum of exponentials of each chunk; the exponentials times 1 / sum. Computing them
 * twice costs less than writing and reading them once more. Chunks are cut where the sum of a row
 * in one piece has its partial sums, and merged in their order: the bits are the same. */
#include "numbers.h"
#include "parallel.h"
#include "softmax_call.h"
#include "walk.h"

#include <math.h>

typedef struct chunks_call {
    const rapti_softmax *s;
    int64_t chunk, row_chunks;
    float *part;        /* [rows][row_chunks] of the present pass */
    float *max, *value; /* [rows]: the maximum; the sum, later 1 / sum */
    float *scratch;     /* a strided chunk for each thread */
} chunks_call;

/* Where the sums of a row have their parts (simd/softmax_rows.h). */
static int64_t chunk_size(const rapti_kernels *kernels) {
    return (int64_t)RAPTI_SUM_VECTORS * RAPTI_SUM_BLOCKS * kernels->lanes;
}

float rapti_softmax_lse(float max, float sum) {
    if (max == INFINITY) { return max; } /* the sum is NaN then */
    return (float)((double)max + log((double)sum));
}

/* One chunk of a row: where it lies, and how many elements it has. */
typedef struct piece {
    int64_t row, from, n;
    const float *in; /* first element, strided */
} piece;

static piece find_piece(const chunks_call *call, int64_t task) {
    const rapt_tensor *in = &call->s->in;
    piece p = {.row = task / call->row_chunks, .from = task % call->row_chunks * call->chunk};
    p.n = rapti_min(call->chunk, call->s->size - p.from);
    p.in = (const float *)in->data + rapti_walk_start(in, in->rank - 1, p.row).offset +
           p.from * in->stride[in->rank - 1];
    return p;
}

/* Its elements side by side: in place, or gathered. */
static const float *elements(const chunks_call *call, const piece *p, int32_t thread) {
    const int64_t step = call->s->in.stride[call->s->in.rank - 1];
    if (step == 1) { return p->in; }
    float *scratch = call->scratch + thread * call->chunk;
    rapti_softmax_gather(p->in, step, p->n, scratch);
    return scratch;
}

static void chunk_max(void *argument, int64_t task, int32_t thread) {
    const chunks_call *call = argument;
    const piece p = find_piece(call, task);
    call->part[task] = call->s->kernels->row_max(elements(call, &p, thread), p.n);
}

static void chunk_sum(void *argument, int64_t task, int32_t thread) {
    const chunks_call *call = argument;
    const piece p = find_piece(call, task);
    call->part[task] =
        call->s->kernels->row_sum_exp(elements(call, &p, thread), p.n, call->max[p.row]);
}

static void chunk_write(void *argument, int64_t task, int32_t thread) {
    const chunks_call *call = argument;
    const piece p = find_piece(call, task);
    const rapt_tensor *t = &call->s->out;
    const int64_t step = t->stride[t->rank - 1];
    float *out = (float *)t->data + rapti_walk_start(t, t->rank - 1, p.row).offset + p.from * step;
    float *to = step == 1 ? out : call->scratch + thread * call->chunk;
    call->s->kernels->row_exp(elements(call, &p, thread), p.n, call->max[p.row], call->value[p.row],
                              to);
    if (to != out) { rapti_softmax_scatter(to, p.n, out, step); }
}

/* NaN wins. */
static void merge_max(const chunks_call *call) {
    for (int64_t row = 0; row < call->s->rows; row++) {
        const float *part = call->part + row * call->row_chunks;
        float max = part[0];
        for (int64_t c = 1; c < call->row_chunks; c++) {
            if (!(part[c] <= max)) { max = isnan(max) ? max : part[c]; }
        }
        call->max[row] = max;
    }
}

static void merge_sum(const chunks_call *call) {
    for (int64_t row = 0; row < call->s->rows; row++) {
        const float *part = call->part + row * call->row_chunks;
        float sum = 0.0f;
        for (int64_t c = 0; c < call->row_chunks; c++) { sum += part[c]; }
        call->value[row] = sum;
    }
}

/* Scratch, then max and sum of all rows. */
static rapt_status start(rapt_context *context, const rapti_softmax *s, int32_t threads,
                         chunks_call *call) {
    const int64_t chunk = chunk_size(s->kernels);
    *call = (chunks_call){.s = s, .chunk = chunk, .row_chunks = rapti_divide_up(s->size, chunk)};
    const int64_t parts = s->rows * call->row_chunks; /* far below the elements of `in` */
    /* both may need to be gathered; inputs that repeat an element have more rows than memory */
    size_t bytes;
    if (__builtin_mul_overflow((size_t)(parts + 2 * s->rows), sizeof(float), &bytes) ||
        __builtin_add_overflow(bytes, (size_t)threads * (size_t)chunk * sizeof(float), &bytes)) {
        return rapti_fail(context, RAPT_ERR_MEMORY, "scratch: %lld parts of %lld rows",
                          (long long)parts, (long long)s->rows);
    }
    void *scratch = NULL;
    const rapt_status status = rapti_context_scratch(context, NULL, 0, bytes, &scratch);
    if (status != RAPT_OK) { return status; }
    call->scratch = scratch;
    call->part = call->scratch + threads * chunk;
    call->max = call->part + parts;
    call->value = call->max + s->rows;
    rapti_parallel_run(threads, parts, chunk_max, call);
    merge_max(call);
    rapti_parallel_run(threads, parts, chunk_sum, call);
    merge_sum(call);
    return RAPT_OK;
}

rapt_status rapti_softmax_run_chunks(rapt_context *context, const rapti_softmax *s) {
    chunks_call call;
    const int32_t threads = rapti_softmax_threads(context, (double)s->rows * (double)s->size);
    const rapt_status status = start(context, s, threads, &call);
    if (status != RAPT_OK) { return status; }
    for (int64_t row = 0; row < s->rows; row++) {
        call.value[row] = call.value[row] == 0.0f ? 0.0f : 1.0f / call.value[row];
    }
    rapti_parallel_run(threads, s->rows * call.row_chunks, chunk_write, &call);
    return RAPT_OK;
}

rapt_status rapti_softmax_lse_chunks(rapt_context *context, const rapti_softmax *s) {
    chunks_call call;
    const int32_t threads = rapti_softmax_threads(context, (double)s->rows * (double)s->size);
    const rapt_status status = start(context, s, threads, &call);
    if (status != RAPT_OK) { return status; }
    if (s->rows == 0) { return RAPT_OK; }
    rapti_walk w = rapti_walk_start(&s->out, s->out.rank, 0);
    for (int64_t row = 0; row < s->rows; row++, rapti_walk_next(&w)) {
        ((float *)s->out.data)[w.offset] = rapti_softmax_lse(call.max[row], call.value[row]);
    }
    return RAPT_OK;
}
