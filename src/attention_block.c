/* SPDX-License-Identifier: MIT
 * attention_block.c: one group of queries against one block of keys while it sits in cache:
 *
 *   S[key][query] = K Qt             product: K in place, read by broadcast
 *   P             = softmax step     bias, mask and limits first, where there are any
 *   O[query][dv]  = rescale O + P V  product: P read across, V in place
 *
 * Sums run in key order whatever part of a block is visible, so a row's bits depend on nothing but
 * the row and the keys that it sees. */
#include "attention_task.h"

#include <string.h>

/* Keys of the block that a lane sees, relative to the block's start, cut to [from, to]. */
static void lane_range(const rapti_group *g, const rapti_block *b, int64_t lane, int64_t *begin,
                       int64_t *end) {
    *begin = rapti_clamp(g->row_begin[lane] - b->start, b->from, b->to);
    *end = rapti_clamp(g->row_end[lane] - b->start, *begin, b->to);
}

/* The same for any of the lanes [first, last]: both ends grow with the lane. */
static void lanes_range(const rapti_group *g, const rapti_block *b, int64_t first, int64_t last,
                        int64_t *begin, int64_t *end) {
    int64_t unused;
    lane_range(g, b, first, begin, &unused);
    lane_range(g, b, last, &unused, end);
    *end = rapti_max(*begin, *end);
}

int rapti_attention_limited(const rapti_group *g, const rapti_block *b) {
    return b->start + b->from < g->full_begin || b->start + b->to > g->full_end;
}

static void score_keys(const rapti_task_state *s, const rapti_group *g, const rapti_block *b,
                       int64_t from, int64_t to, int64_t first_vector, int64_t vectors) {
    const int64_t width = s->plan->kernels->lanes;
    const rapti_product product = {
        .a = rapti_kv_row(s, &s->p->k, b->start + from),
        .a_row = s->p->k.stride[2],
        .a_k = s->p->k.stride[3],
        .b = g->qt + first_vector * width,
        .b_k = g->lanes,
        .c = s->scores + from * g->lanes + first_vector * width,
        .c_row = g->lanes,
        .rows = to - from,
        .inner = s->p->dim,
        .vectors = vectors,
        .prefetch = g->started ? NULL : s->prefetch,
    };
    s->plan->kernels->product(&product);
}

/* Across a diagonal, keys are scored only for the lane vectors that see them: these are always
 * neighbours. Keys between two ends of ranges have the same ones. */
static void score_limited(const rapti_task_state *s, const rapti_group *g, const rapti_block *b) {
    const int64_t width = s->plan->kernels->lanes;
    for (int64_t key = b->from; key < b->to;) {
        int64_t first = g->vectors, past = 0, next = b->to;
        for (int64_t v = 0; v < g->vectors; v++) {
            int64_t begin, end;
            lanes_range(g, b, v * width, (v + 1) * width - 1, &begin, &end);
            if (begin <= key && key < end) {
                first = rapti_min(first, v);
                past = v + 1;
            }
            if (begin > key) { next = rapti_min(next, begin); }
            if (end > key) { next = rapti_min(next, end); }
        }
        if (first < past) { score_keys(s, g, b, key, next, first, past - first); }
        key = next;
    }
}

/* Adds the bias, and hides what the lanes of one vector do not see, of keys [from, to) of a tile.
 * Each step replaces what it hides, so limits come last: a hidden bias may be NaN. */
static void hide(const rapti_task_state *s, const rapti_group *g, const rapti_block *b,
                 int64_t lane, int64_t from, int64_t to, float *tile) {
    const rapti_kernels *kernels = s->plan->kernels;
    const rapti_broadcast *bias = &s->p->bias, *mask = &s->p->mask;
    const int64_t width = kernels->lanes;
    if (bias->data) {
        const float *rows[RAPTI_MAX_LANES];
        for (int64_t i = 0; i < width; i++) {
            rows[i] = (const float *)bias->data + b->start * bias->stride[3] +
                      rapti_row_offset(bias->stride, s->batch, g->row[lane + i]);
        }
        kernels->apply_bias(rows, bias->stride[3], from, to, tile + lane, g->lanes);
    }
    if (mask->data) {
        const uint8_t *rows[RAPTI_MAX_LANES];
        for (int64_t i = 0; i < width; i++) {
            rows[i] = (const uint8_t *)mask->data + b->start * mask->stride[3] +
                      rapti_row_offset(mask->stride, s->batch, g->row[lane + i]);
        }
        kernels->apply_mask(rows, mask->stride[3], from, to, tile + lane, g->lanes);
    }
    if (rapti_attention_limited(g, b)) {
        int32_t begin[RAPTI_MAX_LANES], end[RAPTI_MAX_LANES];
        for (int64_t i = 0; i < width; i++) {
            int64_t lane_begin, lane_end;
            lane_range(g, b, lane + i, &lane_begin, &lane_end);
            begin[i] = (int32_t)lane_begin;
            end[i] = (int32_t)lane_end;
        }
        /* all lanes see [last begin, first end): only the keys around it need a look */
        const int64_t inner_begin = rapti_clamp(begin[width - 1], from, to);
        const int64_t inner_end = rapti_clamp(end[0], inner_begin, to);
        kernels->hide_outside(tile + lane, g->lanes, from, inner_begin, begin, end);
        kernels->hide_outside(tile + lane, g->lanes, inner_end, to, begin, end);
    }
}

static void softmax_step(const rapti_task_state *s, const rapti_group *g, const rapti_block *b) {
    const rapti_kernels *kernels = s->plan->kernels;
    const int64_t width = kernels->lanes;
    int64_t begin[RAPTI_MAX_GROUP_VECTORS], end[RAPTI_MAX_GROUP_VECTORS];
    for (int64_t v = 0; v < g->vectors; v++) {
        const int64_t lane = v * width;
        lanes_range(g, b, lane, lane + width - 1, &begin[v], &end[v]);
        hide(s, g, b, lane, begin[v], end[v], s->scores);
        kernels->softmax_max(s->scores + lane, g->lanes, begin[v], end[v],
                             rapti_vector_state(g, lane));
    }
    for (int64_t v = 0; v < g->vectors; v++) {
        const int64_t lane = v * width;
        kernels->softmax_exp(s->scores + lane, g->lanes, b->from, begin[v], end[v], b->to,
                             rapti_vector_state(g, lane));
    }
}

/* O[first .. first + rows) += P V over keys [from, to) of the block. */
static rapti_product value_product(const rapti_task_state *s, const rapti_group *g,
                                   const rapti_block *b, int64_t first, int64_t rows, int64_t from,
                                   int64_t to) {
    return (rapti_product){
        .a = s->scores + from * g->lanes + first,
        .a_row = 1,
        .a_k = g->lanes,
        .b = b->v + (from - b->from) * b->v_row,
        .b_k = b->v_row,
        .c = g->o + first * s->value_ld,
        .c_row = s->value_ld,
        .factor = g->started ? g->state.rescale + first : NULL,
        .rows = rows,
        .inner = to - from,
        .vectors = s->plan->value_vectors,
        .prefetch = g->started ? NULL : s->prefetch,
    };
}

static void run_value_product(const rapti_kernels *kernels, const rapti_product *product) {
    if (product->factor) {
        kernels->product_add(product);
    } else {
        kernels->product(product);
    }
}

/* Rows across a diagonal end at different keys: each register tile takes only its own. */
static void add_values(const rapti_task_state *s, const rapti_group *g, const rapti_block *b) {
    const rapti_kernels *kernels = s->plan->kernels;
    const int64_t step = rapti_attention_limited(g, b) ? kernels->tile_rows : g->rows;
    for (int64_t row = 0; row < g->rows; row += step) {
        const int64_t rows = rapti_min(step, g->rows - row);
        int64_t begin, end;
        lanes_range(g, b, row, row + rows - 1, &begin, &end);
        const rapti_product part = value_product(s, g, b, row, rows, begin, end);
        run_value_product(kernels, &part);
    }
}

/* A hidden key has weight 0, but 0 times NaN is NaN: leaves hidden terms out instead. */
static void add_seen_values(const rapti_task_state *s, const rapti_group *g, const rapti_block *b) {
    const int64_t width = s->plan->kernels->lanes;
    memset(s->seen, 0, (size_t)(b->to * g->lanes) * sizeof(float));
    for (int64_t v = 0; v < g->vectors; v++) { hide(s, g, b, v * width, b->from, b->to, s->seen); }
    const rapti_product all = value_product(s, g, b, 0, g->rows, b->from, b->to);
    s->plan->kernels->product_seen(&all, s->seen + b->from * g->lanes);
}

void rapti_attention_attend(const rapti_task_state *s, rapti_group *g, const rapti_block *b,
                            int values_finite) {
    if (rapti_attention_limited(g, b)) {
        score_limited(s, g, b);
    } else {
        score_keys(s, g, b, b->from, b->to, 0, g->vectors);
    }
    softmax_step(s, g, b);
    if (values_finite) {
        add_values(s, g, b);
    } else {
        add_seen_values(s, g, b);
    }
    g->started = 1;
}
