/* SPDX-License-Identifier: MIT
 * attention_tile.c: what changes single scores and weights of a tile: bias, mask, limits, dropout.
 * Forward and backward, fused and materialised, all go through these. */
#include "attention_task.h"

/* Keys of the block that a lane sees, relative to the block's start, cut to [from, to]. */
static rapti_range lane_range(const rapti_group *g, const rapti_block *b, int64_t lane) {
    const int64_t begin = rapti_clamp(g->row_begin[lane] - b->start, b->from, b->to);
    return (rapti_range){begin, rapti_clamp(g->row_end[lane] - b->start, begin, b->to)};
}

/* Both ends of the lanes' ranges grow with the lane. */
rapti_range rapti_attention_seen(const rapti_group *g, const rapti_block *b, int64_t first,
                                 int64_t last) {
    const int64_t begin = lane_range(g, b, first).begin;
    return (rapti_range){begin, rapti_max(begin, lane_range(g, b, last).end)};
}

int rapti_attention_limited(const rapti_group *g, const rapti_block *b) {
    return b->start + b->from < g->full_begin || b->start + b->to > g->full_end;
}

int rapti_attention_hides(const rapti_task_state *s, const rapti_group *g, const rapti_block *b) {
    return s->p->mask.data || s->p->bias.data || rapti_attention_limited(g, b);
}

/* Address of the block's first key in a broadcast tensor of `size`-byte elements, per lane. */
static void block_rows(const rapti_task_state *s, const rapti_group *g, const rapti_block *b,
                       int64_t lane, const rapti_broadcast *t, int64_t size, const char **rows) {
    for (int64_t i = 0; i < s->plan->kernels->lanes; i++) {
        const int64_t offset =
            b->start * t->stride[3] + rapti_row_offset(t->stride, s->batch, g->row[lane + i]);
        rows[i] = (const char *)t->data + size * offset;
    }
}

static void hide_limits(const rapti_task_state *s, const rapti_group *g, const rapti_block *b,
                        int64_t lane, int64_t from, int64_t to, float *tile) {
    const rapti_kernels *kernels = s->plan->kernels;
    const int64_t width = kernels->lanes;
    int32_t begin[RAPTI_MAX_LANES], end[RAPTI_MAX_LANES];
    for (int64_t i = 0; i < width; i++) {
        const rapti_range r = lane_range(g, b, lane + i);
        begin[i] = (int32_t)r.begin;
        end[i] = (int32_t)r.end;
    }
    /* all lanes see [last begin, first end): only the keys around it need a look */
    const int64_t inner_begin = rapti_clamp(begin[width - 1], from, to);
    const int64_t inner_end = rapti_clamp(end[0], inner_begin, to);
    kernels->hide_outside(tile + lane, g->tile_ld, from, inner_begin, begin, end);
    kernels->hide_outside(tile + lane, g->tile_ld, inner_end, to, begin, end);
}

void rapti_attention_add_bias(const rapti_task_state *s, const rapti_group *g, const rapti_block *b,
                              int64_t lane, rapti_range keys, float *tile) {
    const rapti_broadcast *bias = &s->p->bias;
    const char *rows[RAPTI_MAX_LANES];
    if (!bias->data) { return; }
    block_rows(s, g, b, lane, bias, sizeof(float), rows);
    s->plan->kernels->add_bias((const float *const *)rows, bias->stride[3], keys.begin, keys.end,
                               s->p->unit, tile + lane, g->tile_ld);
}

/* Each step replaces what it hides, so limits come last: a hidden bias may be NaN. */
void rapti_attention_hide(const rapti_task_state *s, const rapti_group *g, const rapti_block *b,
                          int64_t lane, int64_t from, int64_t to, float *tile) {
    const rapti_kernels *kernels = s->plan->kernels;
    const rapti_broadcast *bias = &s->p->bias, *mask = &s->p->mask;
    const char *rows[RAPTI_MAX_LANES];
    if (bias->data) {
        block_rows(s, g, b, lane, bias, sizeof(float), rows);
        kernels->apply_bias((const float *const *)rows, bias->stride[3], from, to, s->p->unit,
                            tile + lane, g->tile_ld);
    }
    if (mask->data) {
        block_rows(s, g, b, lane, mask, 1, rows);
        kernels->apply_mask((const uint8_t *const *)rows, mask->stride[3], from, to, tile + lane,
                            g->tile_ld);
    }
    if (rapti_attention_limited(g, b)) { hide_limits(s, g, b, lane, from, to, tile); }
}

void rapti_attention_drop(const rapti_task_state *s, const rapti_group *g, const rapti_block *b,
                          int64_t lane, int64_t from, int64_t to, float *tile) {
    const rapti_problem *p = s->p;
    const rapti_kernels *kernels = s->plan->kernels;
    if (!p->drops) { return; }
    if (p->keep.data) {
        const char *rows[RAPTI_MAX_LANES];
        block_rows(s, g, b, lane, &p->keep, 1, rows);
        kernels->apply_keep((const uint8_t *const *)rows, p->keep.stride[3], from, to, tile + lane,
                            g->tile_ld);
        return;
    }
    int32_t query[RAPTI_MAX_LANES], item[RAPTI_MAX_LANES];
    for (int64_t i = 0; i < kernels->lanes; i++) {
        const rapti_row r = g->row[lane + i];
        query[i] = (int32_t)(uint32_t)r.query;
        item[i] = (int32_t)(uint32_t)(s->batch * p->heads + r.head);
    }
    kernels->drop_lanes(&p->dropout, query, item, b->start, from, to, tile + lane, g->tile_ld);
}
