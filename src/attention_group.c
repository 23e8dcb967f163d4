/* SPDX-License-Identifier: MIT
 * attention_group.c: groups of queries: their scratch memory, queries in, outputs out. */
#include "attention_task.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void *rapti_carve(rapti_carver *c, size_t bytes) {
    void *piece = c->base ? c->base + c->used : NULL;
    c->used += rapti_aligned(bytes);
    return piece;
}

size_t rapti_attention_carve(rapti_task_state *s, void *scratch) {
    const rapti_plan *plan = s->plan;
    const size_t lanes = (size_t)plan->group_lanes, keys = (size_t)plan->kernels->key_block;
    const size_t tile_row = (size_t)rapti_odd_lines(plan->group_lanes) * sizeof(float);
    rapti_carver c = {scratch, 0};
    s->value_ld = plan->value_vectors * plan->kernels->lanes;
    s->scores = rapti_carve(&c, (size_t)plan->tile_keys * tile_row);
    s->seen = rapti_carve(&c, keys * tile_row);
    s->packed = rapti_carve(&c, keys * (size_t)s->value_ld * sizeof(float));
    s->prefetch = rapti_carve(&c, sizeof(rapti_prefetch));
    s->groups = rapti_carve(&c, (size_t)plan->task_groups * sizeof(rapti_group));
    for (int32_t g = 0; g < plan->task_groups; g++) {
        rapti_group counted, *to = scratch ? &s->groups[g] : &counted;
        to->row = rapti_carve(&c, lanes * sizeof(rapti_row));
        to->q_row = rapti_carve(&c, lanes * sizeof(float *));
        to->out_row = rapti_carve(&c, lanes * sizeof(float *));
        to->row_begin = rapti_carve(&c, lanes * sizeof(int64_t));
        to->row_end = rapti_carve(&c, lanes * sizeof(int64_t));
        to->qt = rapti_carve(&c, (size_t)s->p->dim * lanes * sizeof(float));
        to->o = rapti_carve(&c, lanes * (size_t)s->value_ld * sizeof(float));
        to->state.max = rapti_carve(&c, lanes * sizeof(float));
        to->state.sum = rapti_carve(&c, lanes * sizeof(float));
        to->state.shift = rapti_carve(&c, lanes * sizeof(float));
        to->state.rescale = rapti_carve(&c, lanes * sizeof(float));
    }
    return c.used;
}

size_t rapti_attention_thread_bytes(const rapti_problem *p, const rapti_plan *plan) {
    rapti_task_state counted = {.p = p, .plan = plan};
    return rapti_attention_carve(&counted, NULL);
}

void rapti_attention_place_group(const rapti_task_state *s, int64_t index, rapti_group *g) {
    const rapti_problem *p = s->p;
    const int64_t width = s->plan->kernels->lanes;
    const int64_t first = rapti_attention_group_start(s->plan, index);
    g->vectors = rapti_attention_group_start(s->plan, index + 1) - first;
    g->lanes = g->vectors * width;
    g->tile_ld = rapti_odd_lines(g->lanes);
    assert(g->lanes <= s->plan->group_lanes);
    g->first_row = first * width;
    g->rows = rapti_min(g->lanes, s->plan->rows - g->first_row);
    g->opened = g->started = 0;
    const int64_t first_head = s->kv_head * p->heads_per_kv;
    const rapti_limits limits = rapti_attention_limits(p, s->batch);
    rapti_row r = {first_head + g->first_row % p->heads_per_kv, g->first_row / p->heads_per_kv};
    for (int64_t lane = 0; lane < g->lanes; lane++) {
        const rapti_range range = rapti_limited_range(limits, r.query);
        g->row[lane] = r;
        g->q_row[lane] = (const float *)p->q.data + rapti_row_offset(p->q.stride, s->batch, r);
        g->out_row[lane] = (float *)p->out.data + rapti_row_offset(p->out.stride, s->batch, r);
        g->row_begin[lane] = range.begin;
        g->row_end[lane] = range.end;
        if (lane + 1 < g->rows && ++r.head == first_head + p->heads_per_kv) {
            r = (rapti_row){first_head, r.query + 1};
        }
    }
    const int64_t last = g->rows - 1;
    g->begin = g->row_begin[0];
    g->full_begin = g->row_begin[last];
    g->full_end = g->row_end[0];
    g->end = g->row_end[last];
}

void rapti_attention_open_group(const rapti_task_state *s, rapti_group *g) {
    const int64_t width = s->plan->kernels->lanes;
    for (int64_t lane = 0; lane < g->lanes; lane++) {
        g->state.max[lane] = -INFINITY;
        g->state.sum[lane] = g->state.shift[lane] = 0.0f;
    }
    for (int64_t lane = 0; lane < g->lanes; lane += width) {
        s->plan->kernels->gather_lanes(g->q_row + lane, s->p->q.stride[3], s->p->dim,
                                       s->p->tile_scale, g->qt + lane, g->lanes);
        g->tries[lane / width] = s->tries;
    }
    g->opened = 1;
}

void rapti_attention_close_group(const rapti_task_state *s, rapti_group *g) {
    const rapti_kernels *kernels = s->plan->kernels;
    const int64_t width = kernels->lanes;
    if (!g->opened) { rapti_attention_open_group(s, g); }
    if (!g->started) { memset(g->o, 0, (size_t)(g->lanes * s->value_ld) * sizeof(float)); }
    for (int64_t lane = 0; lane < g->rows; lane += width) {
        const int64_t count = rapti_min(g->rows - lane, width);
        float lse[RAPTI_MAX_LANES];
        kernels->finish_rows(g->o + lane * s->value_ld, s->value_ld, count, s->p->value_dim,
                             s->p->kept_scale, 1.0f / s->p->unit, rapti_vector_state(g, lane),
                             g->out_row + lane, s->p->out.stride[3], lse);
        for (int64_t i = 0; s->p->lse.data && i < count; i++) {
            const rapti_row r = g->row[lane + i];
            ((float *)s->p->lse.data)[rapti_row_offset(s->p->lse.stride, s->batch, r)] = lse[i];
        }
    }
}
