/* SPDX-License-Identifier: MIT
 * kind_forward.c: rows of rapt_attention_forward. */
#include "attention_case.h"
#include "kind.h"

static int accepts(const char *rest) {
    bench_problem p;
    return bench_problem_parse(rest, &p);
}

static void *create(const char *rest) {
    bench_problem p;
    return bench_problem_parse(rest, &p) ? bench_attention_create(&p) : NULL;
}

/* A long head of its own is cut further: into pairs of slices of its queries, one from the front
 * and one from the back, as causal slices differ in cost and pairs do not. */
static int count_pairs(const bench_problem *p, double head_gflop) {
    const double least_gflop = 1.0; /* 7 ms at 150 Gflop/s: a few tasks in each slice */
    const int sliced = p->form == BENCH_FULL || (p->form == BENCH_CAUSAL && p->queries <= p->keys);
    int pairs = 1;
    while (sliced && head_gflop / (2 * pairs) >= least_gflop && p->queries % (4 * pairs) == 0) {
        pairs *= 2;
    }
    return pairs;
}

/* 2 * visible pairs * (D + Dv) */
static rapt_status cost(const void *data, rapt_context *context, bench_cost *cost) {
    const bench_attention *c = data;
    rapt_attention_info info = {0};
    const rapt_status status = rapt_attention_forward_info(context, &c->what, &c->operands, &info);
    int parts = bench_attention_parts(c, 1e-9 * info.flops);
    if (parts == c->problem.kv_heads) {
        parts *= count_pairs(&c->problem, 1e-9 * info.flops / parts);
    }
    *cost = (bench_cost){1e-9 * info.flops, info.threads, parts, c->problem.form == BENCH_DROPOUT};
    return status;
}

/* Slice `slice` of the queries with the keys that it sees. */
static rapt_status run_slice(const bench_attention *c, rapt_context *context,
                             rapt_attention_operands operands, int slice, int slices) {
    const bench_problem *p = &c->problem;
    const int64_t rows = p->queries / slices;
    const int64_t after = p->form == BENCH_CAUSAL ? p->queries - (slice + 1) * rows : 0;
    const rapt_tensor q = rapt_tensor_slice(*operands.q, 2, slice * rows, rows);
    const rapt_tensor k = rapt_tensor_slice(*operands.k, 2, 0, p->keys - after);
    const rapt_tensor v = rapt_tensor_slice(*operands.v, 2, 0, p->keys - after);
    const rapt_tensor out = rapt_tensor_slice(*operands.out, 2, slice * rows, rows);
    operands.q = &q;
    operands.k = &k;
    operands.v = &v;
    operands.out = &out;
    return rapt_attention_forward(context, &c->what, &operands);
}

static rapt_status run_part(const bench_attention *c, rapt_context *context, int part, int parts) {
    const int pairs = parts > c->problem.kv_heads ? parts / (int)c->problem.kv_heads : 1;
    const int pair = part % pairs;
    part /= pairs;
    parts /= pairs;
    const rapt_tensor q = bench_attention_part(&c->q, part, parts);
    const rapt_tensor k = bench_attention_part(&c->k, part, parts);
    const rapt_tensor v = bench_attention_part(&c->v, part, parts);
    const rapt_tensor out = bench_attention_part(&c->out, part, parts);
    const rapt_tensor mask = bench_attention_part(&c->mask, part, parts);
    const rapt_tensor bias = bench_attention_part(&c->bias, part, parts);
    rapt_attention_operands operands = c->operands;
    operands.q = &q;
    operands.k = &k;
    operands.v = &v;
    operands.out = &out;
    if (operands.mask) { operands.mask = &mask; }
    if (operands.bias) { operands.bias = &bias; }
    if (pairs == 1) { return rapt_attention_forward(context, &c->what, &operands); }
    const rapt_status status = run_slice(c, context, operands, pair, 2 * pairs);
    if (status != RAPT_OK) { return status; }
    return run_slice(c, context, operands, 2 * pairs - 1 - pair, 2 * pairs);
}

static rapt_status run(void *data, rapt_context *context, int part, int parts) {
    const bench_attention *c = data;
    if (parts > 1) { return run_part(c, context, part, parts); }
    return rapt_attention_forward(context, &c->what, &c->operands);
}

static rapt_status tasks(const void *data, rapt_context *context, double *costs, int64_t *steps,
                         int64_t capacity, int64_t *count) {
    const bench_attention *c = data;
    (void)steps; /* one */
    rapt_attention_info info = {0};
    rapt_status status = rapt_attention_forward_info(context, &c->what, &c->operands, &info);
    *count = info.tasks;
    if (status == RAPT_OK) {
        status = rapt_attention_forward_tasks(context, &c->what, &c->operands, costs, capacity);
    }
    return status;
}

const bench_kind bench_kind_forward = {.prefix = "fwd-f32-",
                                       .accepts = accepts,
                                       .create = create,
                                       .destroy = bench_attention_destroy,
                                       .cost = cost,
                                       .run = run,
                                       .spoil = bench_attention_spoil,
                                       .verify = bench_attention_verify,
                                       .tasks = tasks};
