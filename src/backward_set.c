/* SPDX-License-Identifier: MIT
 * backward_set.c: sets of queries: their scratch memory, queries and output gradients in, query
 * gradients out; and the key gradients of a range out. */
#include "backward_cell.h"

#include <math.h>
#include <string.h>

static float *carve_floats(rapti_carver *c, int64_t rows, int64_t row) {
    return rapti_carve(c, (size_t)rows * (size_t)row * sizeof(float));
}

static void carve_rows(const rapti_back_state *s, rapti_back_set *set, rapti_carver *c) {
    const size_t lanes = (size_t)s->plan->set_lanes;
    set->row = rapti_carve(c, lanes * sizeof(rapti_row));
    set->q_row = rapti_carve(c, lanes * sizeof(float *));
    set->out_row = rapti_carve(c, lanes * sizeof(float *));
    set->dout_row = rapti_carve(c, lanes * sizeof(float *));
    set->dq_row = rapti_carve(c, lanes * sizeof(float *));
    set->row_begin = rapti_carve(c, lanes * sizeof(int64_t));
    set->row_end = rapti_carve(c, lanes * sizeof(int64_t));
    set->group = rapti_carve(c, (size_t)s->plan->set_groups * sizeof(rapti_back_group));
}

static void carve_queries(rapti_back_state *s, rapti_carver *c) {
    const rapti_problem *f = &s->p->forward;
    const rapti_back_plan *plan = s->plan;
    const int64_t lanes = plan->set_lanes;
    rapti_back_queries *open = &s->open;
    open->lse = carve_floats(c, lanes, 1);
    open->delta = carve_floats(c, lanes, 1);
    open->qt = carve_floats(c, lanes, f->dim);
    open->dot = carve_floats(c, lanes, f->value_dim);
    open->q_packed = carve_floats(c, s->p->wants_dk ? lanes : 0, plan->dim_ld);
    open->dout_packed = carve_floats(c, s->p->wants_dv ? lanes : 0, plan->value_ld);
    open->dq = carve_floats(c, s->p->wants_dq ? lanes : 0, plan->dim_ld);
    open->bias_sum = carve_floats(c, lanes, 1);
}

size_t rapti_back_carve(rapti_back_state *s, void *scratch) {
    const rapti_back_plan *plan = s->plan;
    const int64_t keys = plan->key_block;
    rapti_carver c = {scratch, 0};
    s->weights = carve_floats(&c, keys, plan->tile_ld);
    s->ds = carve_floats(&c, keys, plan->tile_ld);
    s->seen = carve_floats(&c, keys, plan->tile_ld);
    s->keys_packed = carve_floats(&c, s->p->wants_dq ? keys : 0, plan->dim_ld);
    s->dk = carve_floats(&c, s->p->wants_dk ? plan->range_keys : 0, plan->dim_ld);
    s->dv = carve_floats(&c, s->p->wants_dv ? plan->range_keys : 0, plan->value_ld);
    s->bias_keys =
        carve_floats(&c, rapti_back_sums_to_keys(s->p) ? plan->range_keys : 0, plan->sum_ld);
    s->progress = rapti_carve(&c, (size_t)(plan->range_keys / keys + 1));
    for (int i = 0; i < 4; i++) { s->ahead[i] = rapti_carve(&c, (size_t)keys * sizeof(float *)); }
    s->prefetch = rapti_carve(&c, sizeof(rapti_prefetch));
    const int64_t ones = rapti_max(keys, plan->set_lanes);
    s->ones = carve_floats(&c, ones, 1);
    for (int64_t i = 0; scratch && i < ones; i++) { s->ones[i] = 1.0f; }
    carve_rows(s, &s->sets[0], &c);
    carve_rows(s, &s->sets[1], &c);
    carve_queries(s, &c);
    return c.used;
}

size_t rapti_back_thread_bytes(const rapti_back_problem *p, const rapti_back_plan *plan) {
    rapti_back_state counted = {.p = p, .plan = plan};
    return rapti_back_carve(&counted, NULL);
}

void rapti_back_place_set(const rapti_back_state *s, rapti_back_set *set, int64_t first,
                          int64_t past) {
    const rapti_problem *f = &s->p->forward;
    const rapt_tensor *dout = &s->p->dout, *dq = &s->p->dq;
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
                                         .qt = s->open.qt + lane * f->dim},
                                .lane = lane,
                                .dot = s->open.dot + lane * f->value_dim};
        rapti_attention_place_group(&s->task, first + i, &g->base);
        g->base.tile_ld = s->plan->tile_ld;
        set->rows += g->base.rows;
        for (const int64_t past_lane = lane + g->base.lanes; lane < past_lane; lane++) {
            const rapti_row r = set->row[lane];
            set->dout_row[lane] =
                (const float *)dout->data + rapti_row_offset(dout->stride, s->task.batch, r);
            if (!s->p->wants_dq) { continue; }
            set->dq_row[lane] = (float *)dq->data + rapti_row_offset(dq->stride, s->task.batch, r);
        }
    }
    set->begin = set->group[0].base.begin;
    set->end = set->group[set->groups - 1].base.end;
}

/* ---- Queries in ---- */

/* The set's rows of a tensor: in place where they follow one another as whole vectors, else to be
 * packed as groups open. */
static rapti_back_rows view_rows(const rapti_back_state *s, const rapt_tensor *t,
                                 const float *const *rows, int64_t size, int64_t ld,
                                 float *packed) {
    if (s->p->forward.heads_per_kv == 1 && t->stride[3] == 1 && size == ld) {
        return (rapti_back_rows){rows[0], t->stride[2], 1};
    }
    return (rapti_back_rows){packed, ld, 1};
}

void rapti_back_open_set(rapti_back_state *s) {
    const rapti_back_set *set = s->set;
    const rapti_back_plan *plan = s->plan;
    rapti_back_queries *open = &s->open;
    open->q =
        view_rows(s, &s->p->forward.q, set->q_row, s->p->forward.dim, plan->dim_ld, open->q_packed);
    open->dout = view_rows(s, &s->p->dout, set->dout_row, s->p->forward.value_dim, plan->value_ld,
                           open->dout_packed);
    rapti_back_bias_open(s);
}

/* The group's rows as contiguous vectors; looks whether they are finite. */
static void open_rows(const rapti_back_state *s, const rapti_back_group *g, const rapt_tensor *t,
                      const float *const *rows, int64_t size, int64_t ld, float *packed,
                      rapti_back_rows *view) {
    const rapti_kernels *kernels = s->plan->cut.kernels;
    for (int64_t i = 0; view->at == packed && i < g->base.rows; i++) {
        kernels->pack_rows(rows[i], 0, t->stride[3], 1, size, packed + (g->lane + i) * ld, ld);
    }
    view->finite &= kernels->all_finite(view->at + g->lane * view->row, view->row, g->base.rows,
                                        ld / kernels->lanes);
}

/* lse, and delta without dlse. */
static void open_numbers(rapti_back_state *s, const rapti_back_group *g) {
    const rapt_tensor *lse = &s->p->forward.lse, *dlse = &s->p->dlse;
    for (int64_t i = 0; i < g->base.lanes; i++) {
        const rapti_row r = g->base.row[i];
        const float at =
            ((const float *)lse->data)[rapti_row_offset(lse->stride, s->task.batch, r)];
        s->open.lse[g->lane + i] = at == -INFINITY ? 0.0f : at;
    }
    for (int64_t i = 0; dlse->data && i < g->base.lanes; i++) {
        s->open.delta[g->lane + i] -=
            ((const float *)
                 dlse->data)[rapti_row_offset(dlse->stride, s->task.batch, g->base.row[i])];
    }
}

/* While the products of a group's first block run, they ask for the rows of the next group. */
static void ask_for_next(const rapti_back_state *s, const rapti_back_group *g) {
    const rapti_problem *f = &s->p->forward;
    const rapti_back_set *set = s->set;
    const int last = g == &set->group[set->groups - 1];
    if (last && !s->next) { return; }
    if (last) { set = s->next; }
    const rapti_group *next = last ? &set->group[0].base : &g[1].base;
    const int64_t lane = last ? 0 : g[1].lane;
    if (next->opened) { return; }
    rapti_back_ask(s, &f->q, next->q_row, next->rows, f->dim);
    rapti_back_ask(s, &s->p->dout, set->dout_row + lane, next->rows, f->value_dim);
    rapti_back_ask(s, &f->out, (const float *const *)next->out_row, next->rows, f->value_dim);
}

void rapti_back_open_group(rapti_back_state *s, rapti_back_group *g) {
    const rapti_problem *f = &s->p->forward;
    const rapti_kernels *kernels = s->plan->cut.kernels;
    const float *const *dout_row = s->set->dout_row + g->lane;
    for (int64_t i = 0; i < g->base.lanes; i += kernels->lanes) {
        kernels->gather_lanes(g->base.q_row + i, f->q.stride[3], f->dim, f->tile_scale,
                              g->base.qt + i, g->base.lanes);
        if (!s->wants_ds) { continue; }
        kernels->gather_dots(dout_row + i, s->p->dout.stride[3],
                             (const float *const *)g->base.out_row + i, f->out.stride[3],
                             f->value_dim, g->dot + i, g->base.lanes, s->open.delta + g->lane + i);
    }
    open_numbers(s, g);
    if (s->p->wants_dk) {
        open_rows(s, g, &f->q, g->base.q_row, f->dim, s->plan->dim_ld, s->open.q_packed,
                  &s->open.q);
    }
    if (s->p->wants_dv) {
        open_rows(s, g, &s->p->dout, dout_row, f->value_dim, s->plan->value_ld, s->open.dout_packed,
                  &s->open.dout);
    }
    g->base.opened = 1;
    ask_for_next(s, g);
}

/* ---- Gradients out ---- */

void rapti_back_close_set(rapti_back_state *s) {
    const rapti_back_set *set = s->set;
    const int64_t ld = s->plan->dim_ld;
    for (int64_t i = 0; s->p->wants_dq && i < set->groups; i++) {
        const rapti_back_group *g = &set->group[i];
        float *from = s->open.dq + g->lane * ld;
        if (!g->started && !s->fresh_queries) { continue; }
        if (!g->started) { memset(from, 0, (size_t)(g->base.lanes * ld) * sizeof(float)); }
        s->plan->cut.kernels->add_rows(from, ld, g->base.rows, s->p->forward.dim,
                                       s->p->forward.scale, !s->fresh_queries,
                                       set->dq_row + g->lane, s->p->dq.stride[3]);
    }
}

float *rapti_back_key_row(const rapti_back_state *s, const rapt_tensor *t, int64_t key) {
    return (float *)t->data + s->task.batch * t->stride[0] + s->task.kv_head * t->stride[1] +
           key * t->stride[2];
}

/* Rows of one key gradient, summed in `from`. */
static void close_rows(const rapti_back_state *s, const rapt_tensor *t, int64_t size, int64_t ld,
                       float factor, float *from, int64_t start, int64_t count, int started) {
    const int64_t lanes = s->plan->cut.kernels->lanes;
    if (!started) { memset(from, 0, (size_t)(count * ld) * sizeof(float)); }
    for (int64_t key = 0; key < count; key += lanes) {
        const int64_t n = rapti_min(count - key, lanes);
        float *rows[RAPTI_MAX_LANES];
        for (int64_t r = 0; r < n; r++) { rows[r] = rapti_back_key_row(s, t, start + key + r); }
        s->plan->cut.kernels->add_rows(from + key * ld, ld, n, size, factor, !s->fresh_keys, rows,
                                       t->stride[3]);
    }
}

void rapti_back_close_keys(rapti_back_state *s, int64_t start) {
    const rapti_problem *f = &s->p->forward;
    const int64_t dim_ld = s->plan->dim_ld, value_ld = s->plan->value_ld, at = start - s->begin;
    const int64_t count = rapti_min(s->plan->key_block, s->end - start);
    const int started = *rapti_back_progress(s, start) == RAPTI_BACK_STARTED;
    *rapti_back_progress(s, start) = RAPTI_BACK_CLOSED;
    if (!started && !s->fresh_keys) { return; }
    if (s->p->wants_dk) {
        close_rows(s, &s->p->dk, f->dim, dim_ld, f->scale, s->dk + at * dim_ld, start, count,
                   started);
    }
    if (s->p->wants_dv) {
        close_rows(s, &s->p->dv, f->value_dim, value_ld, 1.0f, s->dv + at * value_ld, start, count,
                   started);
    }
    if (started && rapti_back_sums_to_keys(s->p)) { rapti_back_bias_keys(s, at, count); }
}
