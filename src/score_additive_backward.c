/* SPDX-License-Identifier: MIT
 * score_additive_backward.c: gradients of s[i,j] = v . t[i,j], t = tanh(Q[i] + K[j]), with the
 * projections Q = Wq q and K = Wk k computed again and t never stored:
 *
 *   dQ[i,u] = v[u] sum_j ds[i,j] (1 - t^2)    dK[u,j] = v[u] sum_i ds[i,j] (1 - t^2)
 *   dv[u]   = sum_ij ds[i,j] t                dq, dWq from dQ and dk, dWk from dK: products
 *
 * A task takes one block of keys of a key head against all queries of the heads that share it. It
 * owns its part of dK; of dQ and dv it writes a partial sum, and these are added in order. */
#include "numbers.h"
#include "operand.h"
#include "parallel.h"
#include "score_call.h"

#include <string.h>

enum { TILE_QUERIES = 16, BLOCK_KEYS = 256 };

typedef struct gradients_call {
    const rapti_kernels *kernels;
    rapt_tensor q;  /* [B, Hq, Tq, U] */
    rapt_tensor k;  /* [B, Hkv, U, Tk] */
    rapt_tensor v;  /* [U], contiguous */
    rapt_tensor ds; /* normal */
    rapt_tensor dq; /* [blocks, B, Hq, Tq, U]: the first becomes the sum */
    rapt_tensor dk; /* [B, Hkv, U, Tk] that lies as [U, B, Hkv, Tk] */
    rapt_tensor dv; /* [tasks, U] */
    int64_t blocks, group, tasks;
    float *sums; /* per thread: e, g (kernels.h) */
    float *copy; /* per thread: rows of ds that are not contiguous */
    int64_t e_floats, g_floats;
} gradients_call;

/* Lanes by halves, to out[n], with a factor for each. */
static void add_lanes(const gradients_call *c, float *sums, int64_t n, const float *factor,
                      float *out) {
    const int64_t lanes = c->kernels->lanes;
    for (int64_t m = 0; m < n; m++) {
        float *lane = sums + m * lanes;
        for (int64_t width = lanes, half; width > 1; width = half) {
            half = (width + 1) / 2;
            for (int64_t i = 0; i + half < width; i++) { lane[i] += lane[i + half]; }
        }
        out[m] = factor ? lane[0] * factor[m] : lane[0];
    }
}

/* A tile of ds: in place, or its rows copied. */
static const float *tile_rows(const gradients_call *c, const float *ds, int64_t queries,
                              int64_t keys, float *copy, int64_t *row) {
    const int64_t stride = c->ds.stride[3];
    *row = c->ds.stride[2];
    if (stride == 1) { return ds; }
    for (int64_t i = 0; i < queries; i++) {
        for (int64_t j = 0; j < keys; j++) {
            copy[i * BLOCK_KEYS + j] = ds[i * c->ds.stride[2] + j * stride];
        }
    }
    *row = BLOCK_KEYS;
    return copy;
}

/* A few queries of one head against the task's keys; their rows of dQ. */
static void run_tile(const gradients_call *c, rapti_additive_gradient *a, int64_t batch,
                     int64_t head, int64_t block, int64_t query, float *copy) {
    const int64_t heads = c->q.size[1], queries = c->q.size[2], units = a->units;
    const int64_t first = ((batch * heads + head) * queries + query) * units;
    const rapt_tensor *s = &c->ds;
    const float *ds = (const float *)s->data + batch * s->stride[0] + head * s->stride[1] +
                      query * s->stride[2] + block * BLOCK_KEYS * s->stride[3];
    a->queries = rapti_min(TILE_QUERIES, queries - query);
    a->q = (const float *)c->q.data + first;
    a->q_row = units;
    a->ds = tile_rows(c, ds, a->queries, a->keys, copy, &a->ds_row);
    memset(a->e, 0, (size_t)c->e_floats * sizeof(float));
    c->kernels->additive_gradients(a);
    float *out = (float *)c->dq.data + block * c->dq.stride[0] + first;
    for (int64_t i = 0; i < a->queries; i++) {
        add_lanes(c, a->e + i * units * c->kernels->lanes, units, c->v.data, out + i * units);
    }
}

static void run_block(void *argument, int64_t task, int32_t thread) {
    const gradients_call *c = argument;
    const int64_t block = task % c->blocks, item = task / c->blocks, kv_heads = c->k.size[1];
    const int64_t batch = item / kv_heads, kv_head = item % kv_heads, units = c->v.size[0];
    const int64_t keys = rapti_min(BLOCK_KEYS, c->k.size[3] - block * BLOCK_KEYS);
    float *sums = c->sums + thread * (c->e_floats + c->g_floats);
    float *copy = c->copy + (int64_t)thread * TILE_QUERIES * BLOCK_KEYS;
    float *f = (float *)c->dk.data + batch * c->dk.stride[0] + kv_head * c->dk.stride[1] +
               block * BLOCK_KEYS;
    rapti_additive_gradient a = {.k = (const float *)c->k.data + item * c->k.stride[1] +
                                      block * BLOCK_KEYS,
                                 .k_unit = c->k.stride[2],
                                 .units = units,
                                 .keys = keys,
                                 .e = sums,
                                 .f = f,
                                 .f_unit = c->dk.stride[2],
                                 .g = sums + c->e_floats};
    memset(a.g, 0, (size_t)c->g_floats * sizeof(float));
    for (int64_t u = 0; u < units; u++) {
        memset(f + u * a.f_unit, 0, (size_t)keys * sizeof(float));
    }
    for (int64_t head = kv_head * c->group; head < (kv_head + 1) * c->group; head++) {
        for (int64_t query = 0; query < c->q.size[2]; query += TILE_QUERIES) {
            run_tile(c, &a, batch, head, block, query, copy);
        }
    }
    for (int64_t u = 0; u < units; u++) {
        const float v = ((const float *)c->v.data)[u];
        for (int64_t j = 0; j < keys; j++) { f[u * a.f_unit + j] *= v; }
    }
    add_lanes(c, a.g, units, NULL, (float *)c->dv.data + task * units);
}

/* Partial sums of dQ, some rows at a time. */
enum { ROW_FLOATS = 4096 };

static void add_blocks(void *argument, int64_t task, int32_t thread) {
    (void)thread;
    const gradients_call *c = argument;
    const int64_t from = task * ROW_FLOATS, n = rapti_min(ROW_FLOATS, c->dq.stride[0] - from);
    float *sum = (float *)c->dq.data + from;
    if (c->blocks == 0) { memset(sum, 0, (size_t)n * sizeof(float)); }
    for (int64_t b = 1; b < c->blocks; b++) {
        const float *part = sum + b * c->dq.stride[0];
        for (int64_t i = 0; i < n; i++) { sum[i] += part[i]; }
    }
}

/* Memory for everything but the products' scratch. */
static rapt_status lay_out(rapti_steps *steps, rapti_arena *arena, const rapt_tensor *q,
                           const rapt_tensor *k, int32_t threads, gradients_call *c) {
    const int64_t units = c->v.size[0], lanes = c->kernels->lanes;
    const int64_t q_size[5] = {c->blocks ? c->blocks : 1, q->size[0], q->size[1], q->size[2],
                               units};
    const int64_t k_size[4] = {k->size[0], k->size[1], units, k->size[2]};
    const int64_t turned[4] = {units, k->size[0], k->size[1], k->size[2]};
    const int64_t sums[3] = {threads, units, (TILE_QUERIES + 1) * lanes};
    const int64_t copy[3] = {threads, TILE_QUERIES, BLOCK_KEYS};
    c->q = rapti_arena_tensor(arena, RAPT_F32, 4, q_size + 1, RAPTI_ALIGNMENT);
    c->k = rapti_arena_tensor(arena, RAPT_F32, 4, k_size, RAPTI_ALIGNMENT);
    c->v = rapti_arena_tensor(arena, RAPT_F32, 1, &units, RAPTI_ALIGNMENT);
    c->dq = rapti_arena_tensor(arena, RAPT_F32, 5, q_size, RAPTI_ALIGNMENT);
    c->dk = rapti_arena_tensor(arena, RAPT_F32, 4, turned, RAPTI_ALIGNMENT);
    c->dk = rapt_tensor_swap_axes(rapt_tensor_swap_axes(c->dk, 0, 1), 1, 2);
    c->dv = rapti_arena_tensor(arena, RAPT_F32, 2, (int64_t[]){c->tasks, units}, RAPTI_ALIGNMENT);
    c->sums = rapti_arena_tensor(arena, RAPT_F32, 3, sums, RAPTI_ALIGNMENT).data;
    c->copy = rapti_arena_tensor(arena, RAPT_F32, 3, copy, RAPTI_ALIGNMENT).data;
    if (arena->too_large) {
        return rapti_fail(steps->context, RAPT_ERR_SHAPE,
                          "score.v: gradients of %lld units need more than 2^62 bytes",
                          (long long)units);
    }
    c->e_floats = TILE_QUERIES * units * lanes;
    c->g_floats = units * lanes;
    return RAPT_OK;
}

/* From the gradients of the projections to those of what they are made of. */
static rapt_status project_back(rapti_steps *steps, const rapt_score *score, const rapt_tensor *q,
                                const rapt_tensor *k, const rapt_scores_gradients *g,
                                const gradients_call *c) {
    const rapt_matmul plain = {.beta = 0.0f};
    const rapt_tensor w_query = rapt_tensor_transpose(*score->w_query);
    const rapt_tensor k_turned = rapt_tensor_transpose(*k);
    const int64_t *size = c->dq.size + 1;
    const rapt_tensor dq_units = rapt_tensor_contiguous(RAPT_F32, c->dq.data, 4, size);
    rapt_tensor dw_query, dk;
    if (g->dw_query) { dw_query = rapt_tensor_transpose(*g->dw_query); }
    if (g->dk) { dk = rapt_tensor_transpose(*g->dk); }
    const rapt_matmul_backward_operands of_queries = {.a = q,
                                                      .b = &w_query,
                                                      .dc = &dq_units,
                                                      .da = g->dq,
                                                      .db = g->dw_query ? &dw_query : NULL,
                                                      .accumulate = g->accumulate};
    const rapt_matmul_backward_operands of_keys = {.a = score->w_key,
                                                   .b = &k_turned,
                                                   .dc = &c->dk,
                                                   .da = g->dw_key,
                                                   .db = g->dk ? &dk : NULL,
                                                   .accumulate = g->accumulate};
    const rapt_status status = rapti_step_matmul_backward(steps, &plain, of_queries);
    return status == RAPT_OK ? rapti_step_matmul_backward(steps, &plain, of_keys) : status;
}

static void write_units(const gradients_call *c, const rapt_tensor *dv, int32_t accumulate) {
    for (int64_t u = 0; dv && u < c->v.size[0]; u++) {
        float sum = 0.0f;
        for (int64_t task = 0; task < c->tasks; task++) {
            sum += ((const float *)c->dv.data)[task * c->v.size[0] + u];
        }
        float *to = (float *)dv->data + u * dv->stride[0];
        *to = accumulate ? *to + sum : sum;
    }
}

rapt_status rapti_score_additive_backward(rapt_context *context, const rapt_score *score,
                                          const rapt_tensor *q, const rapt_tensor *k,
                                          const rapt_tensor *dscores,
                                          const rapt_scores_gradients *g) {
    const int64_t units = score->v->size[0];
    gradients_call c = {.kernels = context->kernels, .ds = rapti_tensor_normal(dscores)};
    c.v.size[0] = units;
    c.blocks = rapti_divide_up(k->size[2], BLOCK_KEYS);
    c.group = k->size[1] ? q->size[1] / k->size[1] : 0;
    c.tasks = k->size[0] * k->size[1] * c.blocks;
    const int32_t threads =
        rapti_score_threads(context, (double)(q->size[0] * q->size[1]) *
                                         (double)(q->size[2] * k->size[2]) * (double)units);
    rapti_steps steps = {.context = context, .counting = 1};
    rapti_arena arena = {.base = NULL};
    rapt_status status = lay_out(&steps, &arena, q, k, threads, &c);
    if (status == RAPT_OK) { status = rapti_score_project(&steps, score, q, k, &c.q, &c.k); }
    if (status == RAPT_OK) { status = project_back(&steps, score, q, k, g, &c); }
    if (status == RAPT_OK) { status = rapti_steps_begin(&steps, &arena); }
    if (status == RAPT_OK) { status = lay_out(&steps, &arena, q, k, threads, &c); }
    if (status == RAPT_OK) { status = rapti_score_project(&steps, score, q, k, &c.q, &c.k); }
    if (status != RAPT_OK) { return status; }
    for (int64_t u = 0; u < units; u++) {
        ((float *)c.v.data)[u] = ((const float *)score->v->data)[u * score->v->stride[0]];
    }
    rapti_parallel_run(threads, c.tasks, run_block, &c);
    rapti_parallel_run(threads, rapti_divide_up(c.dq.stride[0], ROW_FLOATS), add_blocks, &c);
    status = project_back(&steps, score, q, k, g, &c);
    if (status == RAPT_OK) { write_units(&c, g->dv, g->accumulate); }
    return status;
}
