/* SPDX-License-Identifier: MIT
 * backward_cell.c: one cell of the backward pass: a segment of queries, set by set, against a range
 * of keys, block by block. The gradients of the range's keys gather in scratch over all sets, those
 * of a set's queries over all blocks. */
#include "backward_cell.h"

#include <string.h>

/* More at a time would get in the way of the products' own loads: 2 % of the time. */
enum { PREFETCH_ROWS_PER_TILE = 3 };

void rapti_back_ask(const rapti_back_state *s, const rapt_tensor *t, const float *const *rows,
                    int64_t count, int64_t size) {
    for (int n = 0; t->stride[3] == 1 && n < RAPTI_PREFETCH_LISTS; n++) {
        rapti_prefetch_rows *list = &s->prefetch->list[n];
        if (list->next < list->count) { continue; }
        *list = (rapti_prefetch_rows){rows, count, 0, size};
        return;
    }
}

rapti_prefetch *rapti_back_prefetch(const rapti_back_state *s) {
    for (int n = 0; n < RAPTI_PREFETCH_LISTS; n++) {
        if (s->prefetch->list[n].next < s->prefetch->list[n].count) { return s->prefetch; }
    }
    return NULL;
}

/* Rows of keys [start, start + count) of a tensor; their addresses go to `rows`. */
static void ask_for_keys(const rapti_back_state *s, const rapt_tensor *t, int64_t size,
                         int64_t start, int64_t count, const float **rows) {
    for (int64_t key = 0; key < count; key++) {
        rows[key] = rapti_kv_row(&s->task, t, start + key);
    }
    rapti_back_ask(s, t, rows, count, size);
}

/* What the block's products ask for: the rows of the next block, and where gradients go: those of
 * the set's queries after its last block, those of the block's keys after the last set. */
static void ask_ahead(const rapti_back_state *s, const rapti_block *b, int64_t end) {
    const rapti_back_problem *p = s->p;
    const rapti_problem *f = &p->forward;
    const int64_t next = b->start + s->plan->key_block;
    const int64_t count = rapti_min(s->plan->key_block, s->end - next);
    *s->prefetch = (rapti_prefetch){.per_tile = PREFETCH_ROWS_PER_TILE};
    if (next < end && !*rapti_back_progress(s, next)) {
        ask_for_keys(s, &f->k, f->dim, next, count, s->ahead[0]);
        if (s->wants_ds) { ask_for_keys(s, &f->v, f->value_dim, next, count, s->ahead[1]); }
    }
    if (next >= end && p->wants_dq) {
        rapti_back_ask(s, &p->dq, (const float *const *)s->set->dq_row, s->set->rows, f->dim);
    }
    if (s->next) { return; }
    if (p->wants_dk) { ask_for_keys(s, &p->dk, f->dim, b->start, b->to, s->ahead[2]); }
    if (p->wants_dv) { ask_for_keys(s, &p->dv, f->value_dim, b->start, b->to, s->ahead[3]); }
}

static void run_blocks(rapti_back_state *s, int64_t begin, int64_t end) {
    const int64_t size = s->plan->key_block;
    for (int64_t start = s->begin + (begin - s->begin) / size * size; start < end; start += size) {
        rapti_block b = {.start = start, .to = rapti_min(size, s->end - start)};
        ask_ahead(s, &b, end);
        rapti_back_block(s, &b);
        *rapti_back_progress(s, start) = RAPTI_BACK_STARTED;
        if (!s->next) { rapti_back_close_keys(s, start); }
    }
}

static void run_set(rapti_back_state *s) {
    const int64_t begin = rapti_max(s->set->begin, s->begin);
    const int64_t end = rapti_min(s->set->end, s->end);
    if (begin < end) {
        rapti_back_open_set(s);
        run_blocks(s, begin, end);
        rapti_back_bias_close(s);
        rapti_back_close_set(s);
    } else if (s->fresh_queries) {
        rapti_back_close_set(s);
    }
}

/* The cell's groups as sets of nearly equal size, each placed before its forerunner is at work. */
static void run_segment(rapti_back_state *s, int64_t segment) {
    const int64_t first = rapti_back_segment_start(s->plan, segment);
    const int64_t groups = rapti_back_segment_start(s->plan, segment + 1) - first;
    const int64_t sets = rapti_divide_up(groups, s->plan->set_groups);
    for (int64_t i = 0; i <= sets; i++) {
        rapti_back_set *placed = &s->sets[i % 2];
        s->set = i > 0 ? &s->sets[(i - 1) % 2] : NULL;
        s->next = i < sets ? placed : NULL;
        if (i < sets) {
            rapti_back_place_set(s, placed, first + groups * i / sets,
                                 first + groups * (i + 1) / sets);
        }
        if (i > 0) { run_set(s); }
    }
}

void rapti_back_run_cell(const rapti_back_problem *p, const rapti_back_plan *plan,
                         rapti_back_cell cell, void *scratch) {
    rapti_back_state s = {
        .task = {.p = &p->forward,
                 .plan = &plan->cut,
                 .batch = cell.batch,
                 .kv_head = cell.kv_head},
        .p = p,
        .plan = plan,
        .begin = rapti_back_range_start(p, plan, cell.range),
        .end = rapti_back_range_start(p, plan, cell.range + 1),
        .wants_ds = p->wants_dq || p->wants_dk || p->wants_dbias,
    };
    /* in the order of steps, a range begins with its own segment, a segment with its own range */
    const int64_t first_segment = cell.range < plan->segments ? cell.range : 0;
    const int64_t first_range = rapti_min(cell.segment, plan->ranges - 1);
    s.fresh_keys = !p->accumulate && cell.segment == first_segment;
    s.fresh_queries = !p->accumulate && cell.range == first_range;
    rapti_back_carve(&s, scratch);
    *s.prefetch = (rapti_prefetch){0};
    memset(s.progress, 0, (size_t)rapti_divide_up(s.end - s.begin, plan->key_block));
    run_segment(&s, cell.segment);
    for (int64_t start = s.begin; start < s.end; start += plan->key_block) {
        if (*rapti_back_progress(&s, start) != RAPTI_BACK_CLOSED) {
            rapti_back_close_keys(&s, start);
        }
    }
}
