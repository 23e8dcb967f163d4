/* SPDX-License-Identifier: MIT
 * backward_bias.c: the gradient of the bias: dS itself, or its sums over the axes that the bias
 * broadcasts. Sums over keys and over queries are made by products with ones, whose result stands
 * in every lane of a vector; sums over heads and batch items by adding to the same elements in turn
 * (backward.h: chains). */
#include "backward_cell.h"

#include <string.h>

/* Element of [batch, head, query, key 0] in dbias. */
static float *bias_row(const rapti_back_state *s, rapti_row r) {
    const rapti_broadcast *t = &s->p->bias_gradient;
    return (float *)(uintptr_t)t->data + rapti_row_offset(t->stride, s->task.batch, r);
}

void rapti_back_bias_open(rapti_back_state *s) {
    if (s->p->wants_dbias && s->p->sums_keys) {
        memset(s->open.bias_sum, 0, (size_t)s->plan->set_lanes * sizeof(float));
    }
}

void rapti_back_bias_group(rapti_back_state *s, const rapti_back_group *g, const rapti_block *b) {
    const rapti_kernels *kernels = s->plan->cut.kernels;
    const int64_t ld = s->plan->tile_ld;
    const float *tile = s->ds + g->lane;
    if (s->p->sums_keys) {
        const rapti_product sum = {
            .a = s->ones,
            .a_k = 1,
            .b = tile + b->from * ld,
            .b_k = ld,
            .c = s->open.bias_sum + g->lane,
            .factor = s->ones,
            .rows = 1,
            .inner = b->to - b->from,
            .vectors = g->base.vectors,
        };
        kernels->product_add(&sum);
    } else if (!s->p->sums_queries) {
        for (int64_t lane = 0; lane < g->base.rows; lane += kernels->lanes) {
            const int64_t count = rapti_min(g->base.rows - lane, kernels->lanes);
            const int64_t stride = s->p->bias_gradient.stride[3];
            float *rows[RAPTI_MAX_LANES];
            for (int64_t i = 0; i < count; i++) {
                rows[i] = bias_row(s, g->base.row[lane + i]) + b->start * stride;
            }
            kernels->add_lanes(tile + lane, ld, b->from, b->to, count, rows, stride);
        }
    }
}

/* Heads whose sums over queries stay apart. The heads of a group take turns in the set's rows. */
static int64_t separate_heads(const rapti_back_state *s) {
    return s->p->sums_heads ? 1 : s->p->forward.heads_per_kv;
}

void rapti_back_bias_block(const rapti_back_state *s, const rapti_block *b) {
    const rapti_kernels *kernels = s->plan->cut.kernels;
    const int64_t heads = separate_heads(s), at = b->start - s->begin;
    const int64_t first_head = s->task.kv_head * s->p->forward.heads_per_kv;
    const int started = *rapti_back_progress(s, b->start) == RAPTI_BACK_STARTED;
    for (int64_t row = 0; row < heads; row++) { /* the first row of each head, if it has any */
        const int64_t rows = row < s->set->rows ? (s->set->rows - row - 1) / heads + 1 : 0;
        const int64_t head = (s->set->row[0].head - first_head + row) % heads;
        const rapti_product sum = {
            .a = s->ds + (rows ? row : 0),
            .a_row = s->plan->tile_ld,
            .a_k = heads,
            .b = s->ones,
            .c = s->bias_keys + at * s->plan->sum_ld + head * kernels->lanes,
            .c_row = s->plan->sum_ld,
            .factor = started ? s->ones : NULL,
            .rows = b->to,
            .inner = rows,
            .vectors = 1,
        };
        if (started) {
            kernels->product_add(&sum);
        } else {
            kernels->product(&sum);
        }
    }
}

void rapti_back_bias_close(const rapti_back_state *s) {
    const rapti_back_set *set = s->set;
    const int64_t heads = s->p->forward.heads_per_kv;
    if (!s->p->wants_dbias || !s->p->sums_keys) { return; }
    if (!s->p->sums_queries) {
        for (int64_t r = 0; r < set->rows; r++) {
            *bias_row(s, set->row[r]) += s->open.bias_sum[r];
        }
        return;
    }
    for (int64_t first = 0; first < heads && first < set->rows; first++) { /* head by head */
        double sum = 0;
        for (int64_t r = first; r < set->rows; r += heads) { sum += (double)s->open.bias_sum[r]; }
        *bias_row(s, set->row[first]) += (float)sum;
    }
}

void rapti_back_bias_keys(const rapti_back_state *s, int64_t begin, int64_t count) {
    const rapti_problem *f = &s->p->forward;
    const int64_t ld = s->plan->sum_ld, stride = s->p->bias_gradient.stride[3];
    const int64_t first = s->task.kv_head * f->heads_per_kv;
    for (int64_t head = 0; head < separate_heads(s); head++) {
        const float *sums = s->bias_keys + head * s->plan->cut.kernels->lanes;
        float *row = bias_row(s, (rapti_row){first + head, 0}) + s->begin * stride;
        for (int64_t key = begin; key < begin + count; key++) {
            row[key * stride] += sums[key * ld];
        }
    }
}
