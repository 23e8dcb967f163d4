/* SPDX-License-Identifier: MIT
 * backward_set.c: sets of queries: their scratch memory, queries and output gradients in, query
 * gradients out; and the key gradients of a range out. */
#include "backward_cell.h"

#include <math.h>
#include <string.h>

static float *carve_floats(rapti_carver *c, int64_t rows, int64_t row) {
    return rapti_carve(c, (size_t)rows * (size_t)row * sizeof(float));
}

static void carve_set(rapti_back_state *s, rapti_carver *c) {
    const rapti_problem *f = &s->p->forward;
    const rapti_back_plan *plan = s->plan;
    rapti_back_set *set = &s->set;
    const int64_t lanes = plan->set_lanes;
    const size_t count = (size_t)lanes;
    set->row = rapti_carve(c, count * sizeof(rapti_row));
    set->q_row = rapti_carve(c, count * sizeof(float *));
    set->out_row = rapti_carve(c, count * sizeof(float *));
    set->dout_row = rapti_carve(c, count * sizeof(float *));
    set->row_begin = rapti_carve(c, count * sizeof(int64_t));
    set->row_end = rapti_carve(c, count * sizeof(int64_t));
    set->lse = carve_floats(c, lanes, 1);
    set->delta = carve_floats(c, lanes, 1);
    set->qt = carve_floats(c, lanes, f->dim);
    set->dot = carve_floats(c, lanes, f->value_dim);
    set->q_packed = carve_floats(c, s->p->wants_dk ? lanes : 0, plan->dim_ld);
    set->dout_packed = carve_floats(c, s->p->wants_dv ? lanes : 0, plan->value_ld);
    set->dq = carve_floats(c, s->p->wants_dq ? lanes : 0, plan->dim_ld);
    set->bias_sum = carve_floats(c, lanes, 1);
    set->group = rapti_carve(c, (size_t)plan->set_groups * sizeof(rapti_back_group));
}

size_t rapti_back_carve(rapti_back_state *s, void *scratch) {
    const rapti_back_plan *plan = s->plan;
    rapti_carver c = {scratch, 0};
    s->weights = carve_floats(&c, plan->key_block, plan->tile_ld);
    s->ds = carve_floats(&c, plan->key_block, plan->tile_ld);
    s->seen = carve_floats(&c, plan->key_block, plan->tile_ld);
    s->keys_packed = carve_floats(&c, s->p->wants_dq ? plan->key_block : 0, plan->dim_ld);
    s->dk = carve_floats(&c, s->p->wants_dk ? plan->range_keys : 0, plan->dim_ld);
    s->dv = carve_floats(&c, s->p->wants_dv ? plan->range_keys : 0, plan->value_ld);
    s->bias_keys =
        carve_floats(&c, rapti_back_sums_to_keys(s->p) ? plan->range_keys : 0, plan->sum_ld);
    s->started = rapti_carve(&c, (size_t)(plan->range_keys / plan->key_block + 1));
    const int64_t ones = rapti_max(plan->key_block, plan->set_lanes);
    s->ones = carve_floats(&c, ones, 1);
    for (int64_t i = 0; scratch && i < ones; i++) { s->ones[i] = 1.0f; }
    carve_set(s, &c);
    return c.used;
}

size_t rapti_back_thread_bytes(const rapti_back_problem *p, const rapti_back_plan *plan) {
    rapti_back_state counted = {.p = p, .plan = plan};
    return rapti_back_carve(&counted, NULL);
}

void rapti_back_place_set(rapti_back_state *s, int64_t first, int64_t past) {
    rapti_back_set *set = &s->set;
    const rapti_problem *f = &s->p->forward;
    int64_t lane = 0;
    set->groups = past - first;
    set->rows = 0;
    for (int64_t i = 0; i < set->groups; i++) {
        rapti_back_group *g = &set->group[i];
        *g = (rapti_back_group){.base = {.row = set->row + lane,
                                         .q_row = set->q_row + lane,
                                         .out_row = set->out_row + lane,
                                         .row_begin = set->row_begin + lane,
                                         .row_end = set->row_end + lane,
                                         .qt = set->qt + lane * f->dim},
                                .lane = lane,
                                .dot = set->dot + lane * f->value_dim};
        rapti_attention_place_group(&s->task, first + i, &g->base);
        g->base.tile_ld = s->plan->tile_ld;
        set->rows += g->base.rows;
        lane += g->base.lanes;
    }
    set->begin = set->group[0].base.begin;
    set->end = set->group[set->groups - 1].base.end;
}

/* lse and delta of the group's lanes. */
static void open_rows(rapti_back_state *s, const rapti_back_group *g) {
    const rapti_problem *f = &s->p->forward;
    const rapti_kernels *kernels = s->plan->cut.kernels;
    rapti_back_set *set = &s->set;
    for (int64_t lane = g->lane; lane < g->lane + g->base.lanes; lane++) {
        const rapti_row r = set->row[lane];
        const float lse =
            ((const float *)f->lse.data)[rapti_row_offset(f->lse.stride, s->task.batch, r)];
        set->lse[lane] = lse == -INFINITY ? 0.0f : lse;
        set->dout_row[lane] =
            (const float *)s->p->dout.data + rapti_row_offset(s->p->dout.stride, s->task.batch, r);
    }
    if (!s->wants_ds) { return; }
    for (int64_t lane = g->lane; lane < g->lane + g->base.lanes; lane += kernels->lanes) {
        kernels->dot_rows((const float *const *)set->out_row + lane, f->out.stride[3],
                          set->dout_row + lane, s->p->dout.stride[3], f->value_dim,
                          set->delta + lane);
    }
    for (int64_t lane = g->lane; s->p->dlse.data && lane < g->lane + g->base.lanes; lane++) {
        set->delta[lane] -=
            ((const float *)s->p->dlse
                 .data)[rapti_row_offset(s->p->dlse.stride, s->task.batch, set->row[lane])];
    }
}

static void open_group(rapti_back_state *s, const rapti_back_group *g) {
    const rapti_problem *f = &s->p->forward;
    const rapti_kernels *kernels = s->plan->cut.kernels;
    open_rows(s, g);
    for (int64_t lane = 0; lane < g->base.lanes; lane += kernels->lanes) {
        kernels->gather_lanes(g->base.q_row + lane, f->q.stride[3], f->dim, f->scale,
                              g->base.qt + lane, g->base.lanes);
        if (s->wants_ds) {
            kernels->gather_lanes(s->set.dout_row + g->lane + lane, s->p->dout.stride[3],
                                  f->value_dim, f->kept_scale, g->dot + lane, g->base.lanes);
        }
    }
}

/* The set's rows of a tensor: in place where they follow one another as whole vectors. */
static rapti_back_rows view_rows(const rapti_back_state *s, const rapt_tensor *t,
                                 const float *const *rows, int64_t size, int64_t ld,
                                 float *packed) {
    if (s->p->forward.heads_per_kv == 1 && t->stride[3] == 1 && size == ld) {
        return (rapti_back_rows){rows[0], t->stride[2], -1};
    }
    for (int64_t i = 0; i < s->set.rows; i++) {
        s->plan->cut.kernels->pack_rows(rows[i], 0, t->stride[3], 1, size, packed + i * ld, ld);
    }
    return (rapti_back_rows){packed, ld, -1};
}

void rapti_back_open_set(rapti_back_state *s) {
    rapti_back_set *set = &s->set;
    const rapti_problem *f = &s->p->forward;
    for (int64_t i = 0; i < set->groups; i++) { open_group(s, &set->group[i]); }
    if (s->p->wants_dk) {
        set->q = view_rows(s, &f->q, set->q_row, f->dim, s->plan->dim_ld, set->q_packed);
    }
    if (s->p->wants_dv) {
        set->dout = view_rows(s, &s->p->dout, set->dout_row, f->value_dim, s->plan->value_ld,
                              set->dout_packed);
    }
    rapti_back_bias_open(s);
}

void rapti_back_close_set(rapti_back_state *s) {
    const rapti_back_set *set = &s->set;
    const rapt_tensor *dq = &s->p->dq;
    const int64_t lanes = s->plan->cut.kernels->lanes, ld = s->plan->dim_ld;
    for (int64_t i = 0; s->p->wants_dq && i < set->groups; i++) {
        const rapti_back_group *g = &set->group[i];
        float *from = set->dq + g->lane * ld;
        if (!g->started && !s->fresh_queries) { continue; }
        if (!g->started) { memset(from, 0, (size_t)(g->base.lanes * ld) * sizeof(float)); }
        for (int64_t lane = 0; lane < g->base.rows; lane += lanes) {
            const int64_t count = rapti_min(g->base.rows - lane, lanes);
            float *rows[RAPTI_MAX_LANES];
            for (int64_t r = 0; r < count; r++) {
                rows[r] = (float *)dq->data +
                          rapti_row_offset(dq->stride, s->task.batch, g->base.row[lane + r]);
            }
            s->plan->cut.kernels->add_rows(from + lane * ld, ld, count, s->p->forward.dim,
                                           s->p->forward.scale, !s->fresh_queries, rows,
                                           dq->stride[3]);
        }
    }
}

/* Rows of one key gradient: `from` holds those of the range, or is null for zeros. */
static void close_rows(const rapti_back_state *s, const rapt_tensor *t, int64_t size, int64_t ld,
                       float factor, const float *from, int64_t begin, int64_t count) {
    const int64_t lanes = s->plan->cut.kernels->lanes;
    for (int64_t key = begin; key < begin + count; key += lanes) {
        const int64_t n = rapti_min(begin + count - key, lanes);
        float *rows[RAPTI_MAX_LANES];
        for (int64_t r = 0; r < n; r++) {
            rows[r] = (float *)t->data + s->task.batch * t->stride[0] +
                      s->task.kv_head * t->stride[1] + (s->begin + key + r) * t->stride[2];
        }
        s->plan->cut.kernels->add_rows(from + key * ld, ld, n, size, factor, !s->fresh_keys, rows,
                                       t->stride[3]);
    }
}

void rapti_back_close_keys(const rapti_back_state *s, int64_t begin, int64_t count, int started) {
    const rapti_problem *f = &s->p->forward;
    const int64_t dim_ld = s->plan->dim_ld, value_ld = s->plan->value_ld;
    if (!started && !s->fresh_keys) { return; }
    if (s->p->wants_dk) {
        float *from = s->dk + begin * dim_ld;
        if (!started) { memset(from, 0, (size_t)(count * dim_ld) * sizeof(float)); }
        close_rows(s, &s->p->dk, f->dim, dim_ld, f->scale, s->dk, begin, count);
    }
    if (s->p->wants_dv) {
        float *from = s->dv + begin * value_ld;
        if (!started) { memset(from, 0, (size_t)(count * value_ld) * sizeof(float)); }
        close_rows(s, &s->p->dv, f->value_dim, value_ld, f->kept_scale, s->dv, begin, count);
    }
    if (started && rapti_back_sums_to_keys(s->p)) { rapti_back_bias_keys(s, begin, count); }
}
