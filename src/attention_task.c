/* SPDX-License-Identifier: MIT
 * attention_task.c: one task of the forward pass: a few groups of queries against the keys that
 * they see, one block of keys at a time. Blocks lie at multiples of the block size from key 0, so
 * that the same keys always meet in the same block. */
#include "attention_task.h"

#include "tensor.h"

/* Rows that are no whole vectors are read in place if they are short: what is read beyond their
 * ends belongs to other rows and lands in columns that nobody looks at. Longer ones would cost more
 * than a copy, as their vectors lie across the ends of cache lines. */
enum { SHORT_ROW = 64 };

static int values_in_place(const rapti_task_state *s, const rapti_block *b) {
    const rapt_tensor *v = &s->p->v;
    if (v->stride[3] != 1) { return 0; }
    if (s->p->value_dim == s->value_ld) { return 1; }
    const float *last = b->v + (b->to - b->from - 1) * b->v_row;
    return s->p->value_dim < SHORT_ROW && rapti_tensor_holds(v, last, s->value_ld);
}

/* The block's values as contiguous vectors: in place if they can be read so, else packed. */
void rapti_attention_view_values(const rapti_task_state *s, rapti_block *b) {
    const rapt_tensor *v = &s->p->v;
    b->v = rapti_kv_row(s, v, b->start + b->from);
    b->v_row = v->stride[2];
    if (values_in_place(s, b)) { return; }
    s->plan->kernels->pack_rows(b->v, v->stride[2], v->stride[3], b->to - b->from, s->p->value_dim,
                                s->packed, s->value_ld);
    b->v = s->packed;
    b->v_row = s->value_ld;
}

int rapti_attention_values_finite(const rapti_task_state *s, const rapti_block *b) {
    return s->plan->kernels->all_finite(b->v, b->v_row, b->to - b->from, s->plan->value_vectors);
}

/* With every tile: as much as a task of few keys needs to find its queries in cache. */
enum { PREFETCH_FLOATS_PER_TILE = 384 };

/* During a group's first block: the next group's queries, and where its own output will go. */
static void prefetch_groups(const rapti_task_state *s, const rapti_group *g,
                            const rapti_group *next) {
    const int64_t floats = rapti_max(1, rapti_max(s->p->dim, s->p->value_dim));
    *s->prefetch = (rapti_prefetch){.per_tile = rapti_max(1, PREFETCH_FLOATS_PER_TILE / floats)};
    if (next && !next->opened && s->p->q.stride[3] == 1) {
        s->prefetch->list[0] = (rapti_prefetch_rows){next->q_row, next->rows, 0, s->p->dim};
    }
    if (s->p->out.stride[3] == 1) {
        s->prefetch->list[1] =
            (rapti_prefetch_rows){(const float *const *)g->out_row, g->rows, 0, s->p->value_dim};
    }
}

/* The part of the block that a group sees; 0 if there is none. */
static int cut_block(const rapti_block *whole, const rapti_group *g, rapti_block *part) {
    *part = *whole;
    part->from = rapti_max(whole->from, g->begin - whole->start);
    part->to = rapti_min(whole->to, g->end - whole->start);
    part->v += (part->from - whole->from) * part->v_row;
    return part->from < part->to;
}

/* Groups of the task that see some of the block. */
static int64_t count_groups(const rapti_task_state *s, const rapti_block *b) {
    int64_t count = 0;
    for (int64_t i = 0; i < s->group_count; i++) {
        const rapti_group *g = &s->groups[i];
        count += g->begin < b->start + b->to && b->start + b->from < g->end && g->begin < g->end;
    }
    return count;
}

static void attend_block(rapti_task_state *s, rapti_block *whole) {
    int finite = -1; /* not looked yet: needed only where something is hidden */
    int64_t left = count_groups(s, whole);
    rapti_attention_view_values(s, whole);
    for (int64_t i = 0; i < s->group_count; i++) {
        rapti_group *g = &s->groups[i];
        rapti_block b;
        if (!cut_block(whole, g, &b)) { continue; }
        if (!g->opened) {
            rapti_attention_open_group(s, g);
            if (s->plan->far) { prefetch_groups(s, g, i + 1 < s->group_count ? g + 1 : NULL); }
        }
        const int hides = rapti_attention_hides(s, g, &b);
        if (hides && finite < 0) { finite = rapti_attention_values_finite(s, whole); }
        const rapti_ahead ahead = rapti_attention_take_ahead(s, left--);
        rapti_attention_attend(s, g, &b, !hides || finite, ahead);
    }
}

/* One block after the other, each by all groups while it is in cache. */
static void attend_blocks(rapti_task_state *s) {
    int64_t begin = s->p->keys, end = 0;
    for (int64_t i = 0; i < s->group_count; i++) {
        begin = rapti_min(begin, s->groups[i].begin);
        end = rapti_max(end, s->groups[i].end);
    }
    const int64_t size = s->plan->kernels->key_block;
    for (int64_t start = begin / size * size; start < end; start += size) {
        rapti_block b = {.start = start,
                         .from = rapti_max(begin - start, 0),
                         .to = rapti_min(end - start, size)};
        rapti_attention_look_ahead(s, start + size, end);
        attend_block(s, &b);
    }
}

void rapti_attention_run_task(const rapti_problem *p, const rapti_plan *plan,
                              const rapti_task *tasks, int64_t index, void *scratch) {
    const rapti_task *task = &tasks[index];
    rapti_task_state s = {.p = p,
                          .plan = plan,
                          .tasks = tasks,
                          .task = index,
                          .batch = task->batch,
                          .kv_head = task->kv_head,
                          .group_count =
                              rapti_min(plan->task_groups, plan->groups - task->first_group)};
    rapti_attention_carve(&s, scratch);
    *s.prefetch = (rapti_prefetch){0};
    for (int64_t i = 0; i < s.group_count; i++) {
        rapti_attention_place_group(&s, task->first_group + i, &s.groups[i]);
    }
    if (!p->materialised) { attend_blocks(&s); }
    for (int64_t i = 0; i < s.group_count; i++) {
        if (p->materialised) { rapti_attention_attend_whole(&s, &s.groups[i]); }
        rapti_attention_close_group(&s, &s.groups[i]);
    }
}
