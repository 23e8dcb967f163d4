/* SPDX-License-Identifier: MIT
 * kind_backward.c: rows of rapt_attention_backward, all three gradients. Visible work is 2.5 times
 * that of the forward call. */
#include "kind_backward.h"

#include "data.h"
#include "kind.h"

#include <stdlib.h>

static int accepts(const char *rest) {
    bench_problem p;
    return bench_problem_parse(rest, &p);
}

/* out and lse of the forward call; what the library says is wrong shows in the first run. */
static int run_forward(bench_backward *c) {
    rapt_context *context = NULL;
    rapt_status status = rapt_context_create(&context, NULL);
    rapt_attention_operands operands = c->forward->operands;
    operands.lse = &c->lse;
    if (status == RAPT_OK) {
        status = rapt_attention_forward(context, &c->forward->what, &operands);
    }
    rapt_context_destroy(context);
    return status == RAPT_OK;
}

static void destroy(void *data) {
    bench_backward *c = data;
    if (c->forward) { bench_attention_destroy(c->forward); }
    free(c->lse.data);
    free(c->dout.data);
    free(c->dq.data);
    free(c->dk.data);
    free(c->dv.data);
    free(c);
}

static void *create(const char *rest) {
    bench_problem p;
    bench_backward *c = calloc(1, sizeof *c);
    if (!c || !bench_problem_parse(rest, &p)) { return NULL; }
    c->forward = bench_attention_create(&p);
    if (c->forward) {
        const bench_attention *f = c->forward;
        c->lse = bench_data_allocate(RAPT_F32, 3, f->out.size);
        c->dout = bench_data_normal(6, 4, f->out.size);
        c->dq = bench_data_allocate(RAPT_F32, 4, f->q.size);
        c->dk = bench_data_allocate(RAPT_F32, 4, f->k.size);
        c->dv = bench_data_allocate(RAPT_F32, 4, f->v.size);
        c->operands = (rapt_attention_backward_operands){.q = &f->q,
                                                         .k = &f->k,
                                                         .v = &f->v,
                                                         .mask = f->operands.mask,
                                                         .bias = f->operands.bias,
                                                         .key_lengths = f->operands.key_lengths,
                                                         .out = &f->out,
                                                         .lse = &c->lse,
                                                         .dout = &c->dout,
                                                         .dq = &c->dq,
                                                         .dk = &c->dk,
                                                         .dv = &c->dv};
    }
    if (c->forward && c->lse.data && c->dout.data && c->dq.data && c->dk.data && c->dv.data &&
        run_forward(c)) {
        return c;
    }
    destroy(c);
    return NULL;
}

static rapt_status cost(const void *data, rapt_context *context, bench_cost *cost) {
    const bench_backward *c = data;
    rapt_attention_info info = {0};
    const rapt_status status =
        rapt_attention_backward_info(context, &c->forward->what, &c->operands, &info);
    *cost = (bench_cost){1e-9 * info.flops, info.threads,
                         bench_attention_parts(c->forward, 1e-9 * info.flops),
                         c->forward->problem.form == BENCH_DROPOUT};
    return status;
}

static rapt_status run(void *data, rapt_context *context, int part, int parts) {
    const bench_backward *c = data;
    rapt_attention_backward_operands o = c->operands;
    const rapt_tensor **const per_head[] = {&o.q,   &o.k,    &o.v,  &o.mask, &o.bias, &o.out,
                                            &o.lse, &o.dout, &o.dq, &o.dk,   &o.dv};
    enum { COUNT = sizeof per_head / sizeof per_head[0] };
    rapt_tensor heads[COUNT];
    for (int n = 0; parts > 1 && n < COUNT; n++) {
        if (!*per_head[n]) { continue; }
        heads[n] = bench_attention_part(*per_head[n], part, parts);
        *per_head[n] = &heads[n];
    }
    return rapt_attention_backward(context, &c->forward->what, &o);
}

static void spoil(void *data) {
    const bench_backward *c = data;
    bench_data_spoil(&c->dq);
    bench_data_spoil(&c->dk);
    bench_data_spoil(&c->dv);
}

static rapt_status tasks(const void *data, rapt_context *context, double *costs, int64_t *steps,
                         int64_t capacity, int64_t *count) {
    const bench_backward *c = data;
    rapt_attention_info info = {0};
    rapt_status status =
        rapt_attention_backward_info(context, &c->forward->what, &c->operands, &info);
    *count = info.tasks;
    if (status == RAPT_OK) {
        status = rapt_attention_backward_tasks(context, &c->forward->what, &c->operands, costs,
                                               steps, capacity);
    }
    return status;
}

const bench_kind bench_kind_backward = {.prefix = "bwd-f32-",
                                        .accepts = accepts,
                                        .create = create,
                                        .destroy = destroy,
                                        .cost = cost,
                                        .run = run,
                                        .spoil = spoil,
                                        .verify = bench_backward_verify,
                                        .tasks = tasks};
