/* SPDX-License-Identifier: MIT
 * attention_weights.c: the materialised path: where the caller wants the weights, all scores of a
 * group of queries are kept, [key][query], until their maximum and sum are known:
 *
 *   S = K Qt for all keys, or given     bias, mask, limits, maximum
 *   P = exp(S - max)                    and their sum
 *   weights = P / sum                   dropout before or after
 *   O = P V
 *
 * Scores that are given are read from the caller's tensor and the weights written over them: once
 * each. Sums run block by block as in the fused path. */
#include "attention_task.h"

#include <math.h>
#include <string.h>

/* The task's state with the block's part of the tile. */
static rapti_task_state at_block(const rapti_task_state *s, const rapti_group *g, int64_t start) {
    const int64_t size = s->plan->kernels->key_block;
    rapti_task_state at = *s;
    at.scores += (start - g->begin / size * size) * g->tile_ld;
    return at;
}

static rapti_block block_at(const rapti_task_state *s, const rapti_group *g, int64_t start) {
    return (rapti_block){.start = start,
                         .from = rapti_max(g->begin - start, 0),
                         .to = rapti_min(g->end - start, s->plan->kernels->key_block)};
}

/* Row of weights, from a key on, of the group's lanes beginning at `lane`. */
static void weight_rows(const rapti_task_state *s, const rapti_group *g, int64_t lane, int64_t key,
                        float **rows) {
    const rapt_tensor *w = &s->p->weights;
    for (int64_t i = 0; i < s->plan->kernels->lanes; i++) {
        rows[i] = (float *)w->data + rapti_row_offset(w->stride, s->batch, g->row[lane + i]) +
                  key * w->stride[3];
    }
}

/* The block's scores, computed or given, with those hidden by limits unspecified. */
static void take_scores(const rapti_task_state *s, const rapti_group *g, const rapti_block *b) {
    const rapti_kernels *kernels = s->plan->kernels;
    if (!s->p->scores_given) {
        rapti_attention_score(s, g, b, (rapti_ahead){0});
        return;
    }
    for (int64_t lane = 0; lane < g->lanes; lane += kernels->lanes) {
        float *rows[RAPTI_MAX_LANES];
        weight_rows(s, g, lane, b->start + b->from, rows);
        kernels->gather_lanes((const float *const *)rows, s->p->weights.stride[3], b->to - b->from,
                              s->p->tile_scale, s->scores + b->from * g->tile_ld + lane,
                              g->tile_ld);
    }
}

static void find_max(const rapti_task_state *s, const rapti_group *g, const rapti_block *b) {
    const int64_t width = s->plan->kernels->lanes;
    for (int64_t lane = 0; lane < g->lanes; lane += width) {
        const rapti_range seen = rapti_attention_seen(g, b, lane, lane + width - 1);
        rapti_attention_hide(s, g, b, lane, seen.begin, seen.end, s->scores);
        s->plan->kernels->softmax_max(s->scores + lane, g->tile_ld, seen.begin, seen.end,
                                      rapti_vector_state(g, lane));
    }
}

static void exponentiate(const rapti_task_state *s, const rapti_group *g, const rapti_block *b) {
    const int64_t width = s->plan->kernels->lanes;
    for (int64_t lane = 0; lane < g->lanes; lane += width) {
        const rapti_range seen = rapti_attention_seen(g, b, lane, lane + width - 1);
        s->plan->kernels->softmax_exp_any(s->scores + lane, g->tile_ld, b->from, seen.begin,
                                          seen.end, b->to, rapti_vector_state(g, lane));
    }
}

/* Where rows have a NaN for their sum, weights of 0 must be told from others: the scores once more,
 * in s->seen, before weights are written over those that are given. */
static void restore_scores(const rapti_task_state *s, const rapti_group *g, const rapti_block *b) {
    const int64_t width = s->plan->kernels->lanes;
    rapti_task_state again = *s;
    again.scores = s->seen;
    take_scores(&again, g, b);
    for (int64_t lane = 0; lane < g->lanes; lane += width) {
        rapti_attention_hide(s, g, b, lane, b->from, b->to, s->seen);
    }
}

/* A row whose sum is NaN: NaN, and 0 where the score is -inf, hidden or not. */
static void write_nan_rows(const rapti_task_state *s, const rapti_group *g, const rapti_block *b,
                           int64_t lane, int64_t count, float *const *rows) {
    const int64_t stride = s->p->weights.stride[3];
    for (int64_t i = 0; i < count; i++) {
        if (!isnan(g->state.sum[lane + i])) { continue; }
        for (int64_t k = b->from; k < b->to; k++) {
            const int none = s->seen[k * g->tile_ld + lane + i] == -INFINITY;
            rows[i][k * stride] = none ? 0.0f : NAN;
        }
    }
}

static int has_nan_rows(const rapti_group *g) {
    int nan = 0;
    for (int64_t lane = 0; lane < g->rows; lane++) { nan |= isnan(g->state.sum[lane]); }
    return nan;
}

/* weights = scale P / sum for the block's keys. */
static void write_weights(const rapti_task_state *s, const rapti_group *g, const rapti_block *b,
                          float scale) {
    const rapti_kernels *kernels = s->plan->kernels;
    const int nan = has_nan_rows(g);
    if (nan) { restore_scores(s, g, b); }
    for (int64_t lane = 0; lane < g->rows; lane += kernels->lanes) {
        const int64_t count = rapti_min(g->rows - lane, kernels->lanes);
        float *rows[RAPTI_MAX_LANES], factor[RAPTI_MAX_LANES];
        for (int64_t i = 0; i < kernels->lanes; i++) {
            const float sum = g->state.sum[lane + i];
            factor[i] = sum == 0.0f ? 0.0f : scale / sum;
        }
        weight_rows(s, g, lane, b->start, rows);
        kernels->scatter_lanes(s->scores + lane, g->tile_ld, b->from, b->to, count, factor, rows,
                               s->p->weights.stride[3]);
        if (nan) { write_nan_rows(s, g, b, lane, count, rows); }
    }
}

/* Keys [from, to), which no row of the group sees. */
static void write_zeros(const rapti_task_state *s, const rapti_group *g, int64_t from, int64_t to) {
    const int64_t stride = s->p->weights.stride[3], width = s->plan->kernels->lanes;
    for (int64_t lane = 0; lane < g->rows; lane += width) {
        float *rows[RAPTI_MAX_LANES];
        weight_rows(s, g, lane, from, rows);
        for (int64_t i = 0; i < rapti_min(g->rows - lane, width); i++) {
            if (stride == 1) {
                memset(rows[i], 0, (size_t)(to - from) * sizeof(float));
            } else {
                for (int64_t k = 0; k < to - from; k++) { rows[i][k * stride] = 0.0f; }
            }
        }
    }
}

static void drop(const rapti_task_state *s, const rapti_group *g, const rapti_block *b) {
    const int64_t width = s->plan->kernels->lanes;
    for (int64_t lane = 0; lane < g->lanes; lane += width) {
        const rapti_range seen = rapti_attention_seen(g, b, lane, lane + width - 1);
        rapti_attention_drop(s, g, b, lane, seen.begin, seen.end, s->scores);
    }
}

static void finish_block(const rapti_task_state *s, rapti_group *g, rapti_block *b) {
    if (s->p->weights_before_dropout) { write_weights(s, g, b, 1.0f); }
    drop(s, g, b);
    if (!s->p->weights_before_dropout) { write_weights(s, g, b, s->p->kept_scale); }
    if (s->p->value_dim == 0) { return; }
    rapti_attention_view_values(s, b);
    const int hides = rapti_attention_hides(s, g, b);
    rapti_attention_add_values(s, g, b, !hides || rapti_attention_values_finite(s, b));
}

void rapti_attention_attend_whole(const rapti_task_state *s, rapti_group *g) {
    const int64_t size = s->plan->kernels->key_block;
    const int64_t begin = rapti_min(g->begin, s->p->keys), end = rapti_max(begin, g->end);
    const int64_t first = begin / size * size;
    rapti_attention_open_group(s, g);
    for (int64_t start = first; start < end; start += size) {
        const rapti_task_state at = at_block(s, g, start);
        const rapti_block b = block_at(s, g, start);
        take_scores(&at, g, &b);
        find_max(&at, g, &b);
    }
    for (int64_t lane = 0; lane < g->lanes; lane++) { /* the maximum of all keys is known */
        const float max = g->state.max[lane];
        g->state.shift[lane] = max == -INFINITY ? 0.0f : max;
        g->state.rescale[lane] = 1.0f;
    }
    for (int64_t start = first; start < end; start += size) {
        const rapti_task_state at = at_block(s, g, start);
        const rapti_block b = block_at(s, g, start);
        exponentiate(&at, g, &b);
    }
    for (int64_t start = first; start < end; start += size) {
        const rapti_task_state at = at_block(s, g, start);
        rapti_block b = block_at(s, g, start);
        finish_block(&at, g, &b);
    }
    write_zeros(s, g, 0, begin);
    write_zeros(s, g, end, s->p->keys);
}
