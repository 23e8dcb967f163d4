/* SPDX-License-Identifier: MIT
 * pass_gradient_task.c: units of the pass's gradient: queries in the lanes, as the forward pass has
 * them, so that dropout finds its pattern again by the same code. */
#include "pass_gradient.h"

#include <string.h>

/* A thread's tiles, [keys][lanes]. */
typedef struct tiles {
    float *p, *x; /* weights; their gradient, which becomes that of the scores */
    float *sum;   /* of x, over units */
} tiles;

/* One lane vector of queries of one head. */
typedef struct unit {
    int64_t batch, head, query, count;
} unit;

static unit find_unit(const rapti_pass_gradient *w, int64_t slice, int64_t index) {
    const int64_t lanes = w->plan.kernels->lanes;
    int64_t at[3];
    for (int axis = 2; axis >= 0; axis--) {
        at[axis] = slice % w->slices[axis] + (index ? index % w->summed[axis] : 0);
        slice /= w->slices[axis];
        index = index ? index / w->summed[axis] : 0; /* there may be none to sum */
    }
    const int64_t query = at[2] * lanes;
    return (unit){at[0], at[1], query, rapti_min(lanes, w->p.queries - query)};
}

/* Rows of the unit in a tensor [B, H, Tq, ..]; lanes past the last repeat it. */
static void unit_rows(const rapti_pass_gradient *w, const unit *u, const rapt_tensor *t,
                      float **rows) {
    for (int64_t i = 0; i < w->plan.kernels->lanes; i++) {
        const rapti_row r = {u->head, u->query + rapti_min(i, u->count - 1)};
        rows[i] = (float *)t->data + rapti_row_offset(t->stride, u->batch, r);
    }
}

static void read_tile(const rapti_pass_gradient *w, const unit *u, const rapt_tensor *t,
                      float *tile) {
    const rapti_kernels *kernels = w->plan.kernels;
    float *rows[RAPTI_MAX_LANES];
    unit_rows(w, u, t, rows);
    kernels->gather_lanes((const float *const *)rows, t->stride[3], w->p.keys, 1.0f, tile,
                          kernels->lanes);
}

/* Weights of lanes that hold no query are 0: they add nothing to any sum. */
static void clear_lanes(const rapti_pass_gradient *w, const unit *u, float *tile) {
    const int64_t lanes = w->plan.kernels->lanes;
    for (int64_t k = 0; u->count < lanes && k < w->p.keys; k++) {
        for (int64_t i = u->count; i < lanes; i++) { tile[k * lanes + i] = 0.0f; }
    }
}

static void drop(const rapti_pass_gradient *w, const unit *u, float *tile) {
    rapti_row row[RAPTI_MAX_LANES];
    const int64_t lanes = w->plan.kernels->lanes;
    if (w->p.kept_scale == 0.0f) { /* everything, whatever a pattern says */
        memset(tile, 0, (size_t)w->tile_floats * sizeof(float));
        return;
    }
    for (int64_t i = 0; i < lanes; i++) {
        row[i] = (rapti_row){u->head, u->query + rapti_min(i, u->count - 1)};
    }
    const rapti_task_state state = {.p = &w->p, .plan = &w->plan, .batch = u->batch};
    const rapti_group group = {.rows = u->count, .lanes = lanes, .tile_ld = lanes, .row = row};
    const rapti_block all = {.to = w->p.keys};
    rapti_attention_drop(&state, &group, &all, 0, 0, w->p.keys, tile);
}

/* dS = P (z dW - sum z P dW + dlse), with z = keep * kept_scale. */
static void differentiate(const rapti_pass_gradient *w, const unit *u, const tiles *t) {
    const rapti_kernels *kernels = w->plan.kernels;
    const int64_t lanes = kernels->lanes, keys = w->p.keys;
    float shift[RAPTI_MAX_LANES] = {0};
    read_tile(w, u, &w->p.weights, t->p);
    read_tile(w, u, &w->dweights, t->x);
    clear_lanes(w, u, t->p);
    drop(w, u, t->x);
    for (int64_t from = 0; from < keys; from += kernels->key_block) {
        kernels->lane_dots(t->p, t->x, lanes, from, rapti_min(from + kernels->key_block, keys),
                           shift);
    }
    for (int64_t i = 0; i < u->count; i++) {
        const rapti_row r = {u->head, u->query + i};
        shift[i] *= w->p.kept_scale;
        if (w->dlse.data) {
            const int64_t at = rapti_row_offset(w->dlse.stride, u->batch, r);
            shift[i] -= ((const float *)w->dlse.data)[at];
        }
    }
    kernels->lane_gradient(t->p, t->x, lanes, 0, keys, w->p.kept_scale, shift);
}

static void write_scores(const rapti_pass_gradient *w, const unit *u, const tiles *t) {
    const rapti_kernels *kernels = w->plan.kernels;
    const int64_t lanes = kernels->lanes, keys = w->p.keys, stride = w->dscores.stride[3];
    float *rows[RAPTI_MAX_LANES], factor[RAPTI_MAX_LANES];
    unit_rows(w, u, &w->dscores, rows);
    for (int64_t i = 0; i < lanes; i++) { factor[i] = w->p.scale; }
    if (!w->accumulate) {
        kernels->scatter_lanes(t->x, lanes, 0, keys, u->count, factor, rows, stride);
        return;
    }
    for (int64_t n = 0; n < keys * lanes; n++) { t->x[n] *= w->p.scale; }
    kernels->add_lanes(t->x, lanes, 0, keys, u->count, rows, stride);
}

/* Adds dS to the sum: as it is, or its rows. */
static void add_to_sum(const rapti_pass_gradient *w, const tiles *t) {
    const rapti_kernels *kernels = w->plan.kernels;
    const int64_t lanes = kernels->lanes, keys = w->p.keys;
    if (w->sums_keys) {
        kernels->sum_rows(t->x, lanes, keys, lanes, t->sum);
    } else {
        kernels->sum_rows(t->x, 0, 1, keys * lanes, t->sum);
    }
}

/* Lanes in pairs, then pairs of pairs: an order of its own for any number. */
static float add_up(const float *lane, int64_t lanes) {
    float part[RAPTI_MAX_LANES];
    memcpy(part, lane, (size_t)lanes * sizeof(float));
    for (int64_t width = lanes, half; width > 1; width = half) {
        half = (width + 1) / 2;
        for (int64_t i = 0; i + half < width; i++) { part[i] += part[i + half]; }
    }
    return part[0];
}

/* A slice's sum, complete, to dbias. */
static void write_bias(const rapti_pass_gradient *w, int64_t slice, const float *sum) {
    const rapti_kernels *kernels = w->plan.kernels;
    const int64_t lanes = kernels->lanes, stride = w->bias.stride[3];
    const int64_t columns = w->sum_floats / lanes;
    const unit u = find_unit(w, slice, 0);
    float *rows[RAPTI_MAX_LANES], factor[RAPTI_MAX_LANES];
    for (int64_t i = 0; i < lanes; i++) {
        const rapti_row r = {u.head, u.query + rapti_min(i, rapti_max(u.count, 1) - 1)};
        rows[i] = (float *)w->dbias.data + rapti_row_offset(w->bias.stride, u.batch, r);
        factor[i] = 1.0f;
    }
    if (w->sums_queries) {
        for (int64_t k = 0; k < columns; k++) {
            float *to = rows[0] + k * stride;
            *to = add_up(sum + k * lanes, lanes) + (w->accumulate ? *to : 0.0f);
        }
    } else if (w->accumulate) {
        kernels->add_lanes(sum, lanes, 0, columns, u.count, rows, stride);
    } else {
        kernels->scatter_lanes(sum, lanes, 0, columns, u.count, factor, rows, stride);
    }
}

void rapti_pass_gradient_task(void *argument, int64_t task, int32_t thread) {
    const rapti_pass_gradient *w = argument;
    const int64_t slice = task / w->chunks, first = task % w->chunks * RAPTI_PASS_CHUNK;
    const int64_t past = rapti_min(first + RAPTI_PASS_CHUNK, w->slice_units);
    float *scratch = w->scratch + thread * w->thread_floats;
    const tiles t = {scratch, scratch + w->tile_floats,
                     w->chunks > 1 ? w->partial + task * w->sum_floats
                                   : scratch + 2 * w->tile_floats};
    if (w->dbias.data) { memset(t.sum, 0, (size_t)w->sum_floats * sizeof(float)); }
    for (int64_t index = first; index < past; index++) {
        const unit u = find_unit(w, slice, index);
        differentiate(w, &u, &t);
        if (w->dbias.data) { add_to_sum(w, &t); }
        write_scores(w, &u, &t);
    }
    if (w->dbias.data && w->chunks == 1) { write_bias(w, slice, t.sum); }
}

void rapti_pass_gradient_merge(void *argument, int64_t slice, int32_t thread) {
    (void)thread;
    const rapti_pass_gradient *w = argument;
    float *sum = w->partial + slice * w->chunks * w->sum_floats;
    w->plan.kernels->sum_rows(sum + w->sum_floats, w->sum_floats, w->chunks - 1, w->sum_floats,
                              sum);
    write_bias(w, slice, sum);
}
