/* SPDX-License-Identifier: MIT
 * kind_textbook.c: rows of the textbook loops (textbook.h), for comparison. */
#include "attention_case.h"
#include "kind.h"
#include "textbook.h"

#include <stdlib.h>

static int parse(const char *rest, bench_problem *p) {
    return bench_problem_parse(rest, p) && p->q_heads == p->kv_heads && p->queries == p->keys &&
           p->head_dim == p->value_dim && p->form <= BENCH_CAUSAL;
}

static int accepts(const char *rest) {
    bench_problem p;
    return parse(rest, &p);
}

static void *create(const char *rest) {
    bench_problem p;
    bench_attention *c = parse(rest, &p) ? bench_attention_create(&p) : NULL;
    if (!c) { return NULL; }
    c->scores = malloc((size_t)(p.queries * p.queries) * sizeof *c->scores);
    if (c->scores) { return c; }
    bench_attention_destroy(c);
    return NULL;
}

static rapt_status cost(const void *data, rapt_context *context, bench_cost *cost) {
    const rapt_status status = bench_kind_forward.cost(data, context, cost);
    cost->threads = cost->parts = 1;
    return status;
}

static rapt_status run(void *data, rapt_context *context, int part, int parts) {
    const bench_attention *c = data;
    const bench_problem *p = &c->problem;
    (void)context, (void)part, (void)parts;
    bench_textbook(p->batch * p->q_heads, p->queries, p->head_dim, p->form == BENCH_CAUSAL,
                   c->q.data, c->k.data, c->v.data, c->scores, c->out.data);
    return RAPT_OK;
}

const bench_kind bench_kind_textbook = {.prefix = "textbook-f32-",
                                        .baseline = 1,
                                        .accepts = accepts,
                                        .create = create,
                                        .destroy = bench_attention_destroy,
                                        .cost = cost,
                                        .run = run,
                                        .spoil = bench_attention_spoil,
                                        .verify = bench_attention_verify};
