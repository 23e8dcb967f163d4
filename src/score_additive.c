/* SPDX-License-Identifier: MIT
 * score_additive.c: v . tanh(Wq q + Wk k). Two matrix products project all queries and all keys
 * (keys turned, so that they lie along the lanes); then tasks take tiles of scores. */
#include "numbers.h"
#include "operand.h"
#include "parallel.h"
#include "score_call.h"
#include "steps.h"

enum { TILE_QUERIES = 16, TILE_KEYS = 256 };
static const double THREAD_COST = 16384.0; /* hyperbolic tangents worth a thread of their own */

typedef struct additive_call {
    const rapti_kernels *kernels;
    rapt_tensor q;      /* [B, Hq, Tq, U] */
    rapt_tensor k;      /* [B, Hkv, U, Tk] */
    rapt_tensor v;      /* [U], contiguous */
    rapt_tensor scores; /* normal */
    int64_t query_tiles, key_tiles;
    float *tile; /* [threads][TILE_QUERIES][TILE_KEYS], for scores with strided rows */
} additive_call;

static void run_tile(void *argument, int64_t task, int32_t thread) {
    const additive_call *c = argument;
    const int64_t heads = c->q.size[1], queries = c->q.size[2], keys = c->k.size[3];
    const int64_t item = task / (c->query_tiles * c->key_tiles);
    const int64_t i = task / c->key_tiles % c->query_tiles * TILE_QUERIES;
    const int64_t j = task % c->key_tiles * TILE_KEYS;
    const int64_t batch = item / heads, head = item % heads;
    const int64_t kv_head = head / (heads / c->k.size[1]);
    const rapt_tensor *s = &c->scores;
    float *out = (float *)s->data + batch * s->stride[0] + head * s->stride[1] + i * s->stride[2] +
                 j * s->stride[3];
    rapti_additive a = {
        .q = (const float *)c->q.data + item * c->q.stride[1] + i * c->q.stride[2],
        .q_row = c->q.stride[2],
        .k = (const float *)c->k.data + batch * c->k.stride[0] + kv_head * c->k.stride[1] + j,
        .k_unit = c->k.stride[2],
        .v = c->v.data,
        .units = c->v.size[0],
        .queries = rapti_min(TILE_QUERIES, queries - i),
        .keys = rapti_min(TILE_KEYS, keys - j),
        .s = out,
        .s_row = s->stride[2],
    };
    if (s->stride[3] == 1) {
        c->kernels->additive_scores(&a);
        return;
    }
    a.s = c->tile + thread * TILE_QUERIES * TILE_KEYS;
    a.s_row = TILE_KEYS;
    c->kernels->additive_scores(&a);
    for (int64_t m = 0; m < a.queries; m++) {
        for (int64_t n = 0; n < a.keys; n++) {
            out[m * s->stride[2] + n * s->stride[3]] = a.s[m * TILE_KEYS + n];
        }
    }
}

rapt_status rapti_score_project(rapti_steps *steps, const rapt_score *score, const rapt_tensor *q,
                                const rapt_tensor *k, const rapt_tensor *q_units,
                                const rapt_tensor *k_units) {
    const rapt_matmul plain = {.beta = 0.0f};
    const rapt_tensor w_query = rapt_tensor_transpose(*score->w_query);
    const rapt_tensor k_turned = rapt_tensor_transpose(*k);
    rapt_status status = rapti_step_matmul(
        steps, &plain, (rapt_matmul_operands){.a = q, .b = &w_query, .c = q_units});
    if (status == RAPT_OK) {
        status = rapti_step_matmul(
            steps, &plain, (rapt_matmul_operands){.a = score->w_key, .b = &k_turned, .c = k_units});
    }
    return status;
}

/* Memory for everything, and the projections. Runs twice: steps.h. */
static rapt_status project(rapti_steps *steps, rapti_arena *arena, const rapt_score *score,
                           const rapt_tensor *q, const rapt_tensor *k, int32_t threads,
                           additive_call *c) {
    const int64_t units = score->v->size[0];
    const int64_t q_size[4] = {q->size[0], q->size[1], q->size[2], units};
    const int64_t k_size[4] = {k->size[0], k->size[1], units, k->size[2]};
    const int64_t tiles[3] = {threads, TILE_QUERIES, TILE_KEYS};
    c->q = rapti_arena_tensor(arena, RAPT_F32, 4, q_size, RAPTI_ALIGNMENT);
    c->k = rapti_arena_tensor(arena, RAPT_F32, 4, k_size, RAPTI_ALIGNMENT);
    c->v = rapti_arena_tensor(arena, RAPT_F32, 1, &units, RAPTI_ALIGNMENT);
    c->tile = rapti_arena_tensor(arena, RAPT_F32, 3, tiles, RAPTI_ALIGNMENT).data;
    if (arena->too_large) {
        return rapti_fail(steps->context, RAPT_ERR_SHAPE,
                          "score.v: projections to %lld units need more than 2^62 bytes",
                          (long long)units);
    }
    const rapt_status status = rapti_score_project(steps, score, q, k, &c->q, &c->k);
    for (int64_t u = 0; u < units && !steps->counting; u++) {
        ((float *)c->v.data)[u] = ((const float *)score->v->data)[u * score->v->stride[0]];
    }
    return status;
}

int32_t rapti_score_threads(const rapt_context *context, double count) {
    return rapti_threads_worth(context, count / THREAD_COST);
}

rapt_status rapti_score_additive(rapt_context *context, const rapt_score *score,
                                 const rapt_tensor *q, const rapt_tensor *k,
                                 const rapt_tensor *scores) {
    additive_call c = {.kernels = context->kernels, .scores = rapti_tensor_normal(scores)};
    c.query_tiles = rapti_divide_up(q->size[2], TILE_QUERIES);
    c.key_tiles = rapti_divide_up(k->size[2], TILE_KEYS);
    const int64_t tasks = q->size[0] * q->size[1] * c.query_tiles * c.key_tiles;
    const double cost = (double)(q->size[0] * q->size[1]) * (double)(q->size[2] * k->size[2]) *
                        (double)score->v->size[0];
    const int32_t threads = rapti_score_threads(context, cost);
    rapti_steps steps = {.context = context, .counting = 1};
    rapti_arena arena = {.base = NULL};
    rapt_status status = project(&steps, &arena, score, q, k, threads, &c);
    if (status == RAPT_OK) { status = rapti_steps_begin(&steps, &arena); }
    if (status == RAPT_OK) { status = project(&steps, &arena, score, q, k, threads, &c); }
    if (status == RAPT_OK) { rapti_parallel_run(threads, tasks, run_tile, &c); }
    return status;
}
