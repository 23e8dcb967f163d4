/* SPDX-License-Identifier: MIT
 * backward_cell.c: one cell of the backward pass: a segment of queries, set by set, against a range
 * of keys, block by block. The gradients of the range's keys gather in scratch over all sets, those
 * of a set's queries over all blocks. */
#include "backward_cell.h"

#include <string.h>

static void run_set(rapti_back_state *s, int64_t first, int64_t past) {
    rapti_back_place_set(s, first, past);
    const int64_t begin = rapti_max(s->set.begin, s->begin), end = rapti_min(s->set.end, s->end);
    if (begin < end) {
        const int64_t size = s->plan->key_block;
        rapti_back_open_set(s);
        for (int64_t start = s->begin + (begin - s->begin) / size * size; start < end;
             start += size) {
            rapti_block b = {.start = start, .to = rapti_min(size, s->end - start)};
            rapti_back_block(s, &b);
            s->started[(start - s->begin) / size] = 1;
        }
        rapti_back_bias_close(s);
        rapti_back_close_set(s);
    } else if (s->fresh_queries) {
        rapti_back_close_set(s);
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
    const int64_t size = plan->key_block;
    memset(s.started, 0, (size_t)((s.end - s.begin + size - 1) / size));
    const int64_t first = rapti_back_segment_start(plan, cell.segment);
    const int64_t groups = rapti_back_segment_start(plan, cell.segment + 1) - first;
    const int64_t sets = (groups + plan->set_groups - 1) / plan->set_groups;
    for (int64_t i = 0; i < sets; i++) {
        run_set(&s, first + groups * i / sets, first + groups * (i + 1) / sets);
    }
    for (int64_t start = s.begin; start < s.end; start += size) {
        rapti_back_close_keys(&s, start - s.begin, rapti_min(size, s.end - start),
                              s.started[(start - s.begin) / size]);
    }
}
