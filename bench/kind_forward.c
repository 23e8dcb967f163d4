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

/* 2 * visible pairs * (D + Dv) */
static rapt_status cost(const void *data, rapt_context *context, bench_cost *cost) {
    const bench_attention *c = data;
    rapt_attention_info info = {0};
    const rapt_status status = rapt_attention_forward_info(context, &c->what, &c->operands, &info);
    *cost =
        (bench_cost){1e-9 * info.flops, info.threads, bench_attention_parts(c, 1e-9 * info.flops)};
    return status;
}

static rapt_status run_part(const bench_attention *c, rapt_context *context, int part, int parts) {
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
    return rapt_attention_forward(context, &c->what, &operands);
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
