/* SPDX-License-Identifier: MIT
 * attention_ahead.c: what will be used soon. The first task of a head finds its keys and values in
 * no cache nearby: while it works on a block it asks for the next one, and a task's last block asks
 * for the queries that the next task begins with and, as far as its products reach (on a causal
 * diagonal they are few), for the first block of a head that comes next.
 * A head's other tasks find most of their keys and values where the first left them, and asking
 * again would cost them a hundredth of their time. */
#include "attention_task.h"

/* Rows [from, to) of a tensor [batch, head, row, column]; nothing if they do not follow one
 * another: products ask for one address per k, and may not stop to think which is next. */
static rapti_ahead rows_of(const rapt_tensor *t, int64_t batch, int64_t head, int64_t from,
                           int64_t to) {
    if (t->stride[3] != 1 || t->stride[2] != t->size[3] || from >= to) { return (rapti_ahead){0}; }
    const float *row =
        (const float *)t->data + batch * t->stride[0] + head * t->stride[1] + from * t->stride[2];
    return (rapti_ahead){(const char *)row, (to - from) * t->size[3] * (int64_t)sizeof(float)};
}

/* The rest of the block of keys that holds `start`, cut at `end`, of the head of `task`. */
static void look_at_keys(rapti_task_state *s, const rapti_task *task, int64_t start, int64_t end) {
    const int64_t size = s->plan->kernels->key_block;
    const int64_t past = rapti_min(start / size * size + size, end);
    s->ahead[1] = rows_of(&s->p->k, task->batch, task->kv_head, start, past);
    s->ahead[2] = rows_of(&s->p->v, task->batch, task->kv_head, start, past);
}

/* The first group's queries of the first of the heads that share keys and values. */
static void look_at_queries(rapti_task_state *s, const rapti_task *task, int64_t first_query) {
    const int64_t count = rapti_divide_up(s->plan->group_lanes, s->p->heads_per_kv);
    s->ahead[0] = rows_of(&s->p->q, task->batch, task->kv_head * s->p->heads_per_kv, first_query,
                          rapti_min(first_query + count, s->p->queries));
}

static void look_at_task(rapti_task_state *s, int64_t index) {
    const rapti_problem *p = s->p;
    const rapti_task *task = &s->tasks[index];
    const int64_t row =
        rapti_attention_group_start(s->plan, task->first_group) * s->plan->kernels->lanes;
    const int64_t query = row / p->heads_per_kv;
    look_at_queries(s, task, query);
    if (rapti_attention_keys_far(p, s->plan, index)) {
        const rapti_range seen = rapti_attention_range(p, task->batch, query);
        look_at_keys(s, task, seen.begin, seen.end);
    }
}

void rapti_attention_look_ahead(rapti_task_state *s, int64_t start, int64_t end) {
    const int64_t next = s->task + s->plan->threads;
    for (int i = 0; i < RAPTI_AHEAD; i++) { s->ahead[i] = (rapti_ahead){0}; }
    if (!s->plan->far) { return; }
    if (start >= end) {
        if (next < s->plan->tasks) { look_at_task(s, next); }
    } else if (rapti_attention_keys_far(s->p, s->plan, s->task)) {
        look_at_keys(s, &s->tasks[s->task], start, end);
    }
}

rapti_ahead rapti_attention_take_ahead(rapti_task_state *s, int64_t shares) {
    int64_t bytes = 0;
    for (int i = 0; i < RAPTI_AHEAD; i++) { bytes += s->ahead[i].bytes; }
    for (int i = 0; i < RAPTI_AHEAD; i++) {
        rapti_ahead *left = &s->ahead[i];
        if (left->bytes == 0) { continue; }
        const rapti_ahead taken = {left->at,
                                   rapti_min(rapti_divide_up(bytes, shares), left->bytes)};
        left->at += taken.bytes;
        left->bytes -= taken.bytes;
        return taken;
    }
    return (rapti_ahead){0};
}
