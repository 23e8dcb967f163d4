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

#include <assert.h>
#include <string.h>

/* 1 if product_few is the faster one for the last of the product's vectors. */
static int few_pays(const rapti_kernels *kernels, const rapti_product *p, int64_t last_rows) {
    return last_rows <= kernels->few_lanes && p->a_k == 1 && p->rows >= kernels->lanes &&
           p->inner >= kernels->lanes;
}

static void multiply_part(const rapti_task_state *s, const rapti_group *g, const rapti_block *b,
                          const rapti_key_rows *k, rapti_range keys, int64_t first_vector,
                          int64_t vectors) {
    const rapti_kernels *kernels = s->plan->kernels;
    const int64_t width = kernels->lanes;
    const int64_t last_vector = g->vectors - 1, last_rows = g->rows - last_vector * width;
    rapti_product product = {
        .a = rapti_kv_row(s, k->rows, b->start + keys.begin),
        .a_row = k->rows->stride[2],
        .a_k = k->rows->stride[3],
        .b = k->lanes + first_vector * width,
        .b_k = g->lanes,
        .c = k->tile + keys.begin * g->tile_ld + first_vector * width,
        .c_row = g->tile_ld,
        .rows = keys.end - keys.begin,
        .inner = k->size,
        .vectors = vectors,
        .prefetch = k->prefetch,
        .stream = k->ahead.at,
        .stream_bytes = k->ahead.bytes,
    };
    const int few = first_vector + vectors > last_vector && few_pays(kernels, &product, last_rows);
    if (few) { product.vectors--; }
    if (product.vectors > 0) {
        kernels->product(&product);
        product.stream_bytes = 0; /* asked for once */
    }
    if (few) {
        product.b += product.vectors * width;
        product.c += product.vectors * width;
        kernels->product_few(&product, last_rows);
    }
}

/* Across a diagonal, keys are multiplied only with the lane vectors that see them: these are always
 * neighbours. Keys between two ends of ranges have the same ones. */
static void multiply_limited(const rapti_task_state *s, const rapti_group *g, const rapti_block *b,
                             rapti_key_rows k) {
    const int64_t width = s->plan->kernels->lanes;
    for (int64_t key = b->from; key < b->to;) {
        int64_t first = g->vectors, past = 0, next = b->to;
        for (int64_t v = 0; v < g->vectors; v++) {
            const rapti_range r = rapti_attention_seen(g, b, v * width, (v + 1) * width - 1);
            if (r.begin <= key && key < r.end) {
                first = rapti_min(first, v);
                past = v + 1;
            }
            if (r.begin > key) { next = rapti_min(next, r.begin); }
            if (r.end > key) { next = rapti_min(next, r.end); }
        }
        if (first < past) {
            multiply_part(s, g, b, &k, (rapti_range){key, next}, first, past - first);
            k.ahead.bytes = 0; /* asked for once */
        }
        key = next;
    }
}

void rapti_attention_multiply_keys(const rapti_task_state *s, const rapti_group *g,
                                   const rapti_block *b, const rapti_key_rows *k) {
    if (rapti_attention_limited(g, b)) {
        multiply_limited(s, g, b, *k);
    } else {
        multiply_part(s, g, b, k, (rapti_range){b->from, b->to}, 0, g->vectors);
    }
}

static rapti_key_rows score_rows(const rapti_task_state *s, const rapti_group *g) {
    return (rapti_key_rows){.rows = &s->p->k, .size = s->p->dim, .lanes = g->qt, .tile = s->scores};
}

void rapti_attention_score(const rapti_task_state *s, const rapti_group *g, const rapti_block *b,
                           rapti_ahead ahead) {
    rapti_key_rows keys = score_rows(s, g);
    keys.prefetch = g->started ? NULL : s->prefetch;
    keys.ahead = ahead;
    rapti_attention_multiply_keys(s, g, b, &keys);
}

/* One lane vector, whose keys [seen.begin, seen.end) are visible to some lane. The shift of the
 * blocks before is tried first, unless that was in vain in the vector's last block: a try that
 * fails costs the vector's scores. near: the try was made while they were computed; null = not. */
static void softmax_vector(rapti_task_state *s, rapti_group *g, const rapti_block *b, int64_t v,
                           rapti_range seen, const rapti_near_sums *near) {
    const rapti_kernels *kernels = s->plan->kernels;
    const int64_t lane = v * kernels->lanes;
    const rapti_softmax_state state = rapti_vector_state(g, lane);
    rapti_tries *tries = &g->tries[v];
    float *scores = s->scores + lane;
    assert(!near || !tries->vain);
    if (near) {
        if (kernels->softmax_end_near(near, state)) { return; }
    } else {
        rapti_attention_hide(s, g, b, lane, seen.begin, seen.end, s->scores);
        if (!tries->vain &&
            kernels->softmax_try(scores, g->tile_ld, b->from, seen.begin, seen.end, b->to, state)) {
            return;
        }
    }
    if (!tries->vain) {
        const rapti_key_rows keys = score_rows(s, g);
        multiply_part(s, g, b, &keys, seen, v, 1);
        rapti_attention_hide(s, g, b, lane, seen.begin, seen.end, s->scores);
    }
    tries->vain = kernels->softmax_max(scores, g->tile_ld, seen.begin, seen.end, state);
    if (near && !tries->vain) { tries->wide = 1; }
    s->tries = *tries;
    kernels->softmax_exp(scores, g->tile_ld, b->from, seen.begin, seen.end, b->to, state);
}

/* A near try is made where neither mask nor limits put -inf into the tile (a bias may, too, but
 * most hold numbers: it is added as one, and only a try may see that), until one failed without
 * need. */
static int tries_near(const rapti_task_state *s, const rapti_group *g, const rapti_block *b,
                      int64_t v) {
    return !g->tries[v].vain && !g->tries[v].wide && !s->p->mask.data &&
           !rapti_attention_limited(g, b);
}

/* Scores of all lane vectors, and weights of those that try near: part by part, so that a part's
 * scores (the lanes: nothing touches what lies between tile rows) are still in the first cache
 * level. */
static void score_near(const rapti_task_state *s, const rapti_group *g, const rapti_block *b,
                       rapti_ahead ahead, rapti_near_sums *sums) {
    const rapti_kernels *kernels = s->plan->kernels;
    const int64_t most = rapti_max(2, kernels->near_floats / g->lanes), all = b->to - b->from;
    const int64_t parts = rapti_divide_up(all, most);
    const int64_t part = rapti_round_up(rapti_divide_up(all, parts), 2);
    rapti_key_rows rows = score_rows(s, g);
    rows.prefetch = g->started ? NULL : s->prefetch;
    rows.ahead.at = ahead.at;
    for (rapti_range keys = {b->from, b->from}; keys.end < b->to; keys.begin = keys.end) {
        keys.end = rapti_min(keys.begin + part, b->to);
        rows.ahead.at += rows.ahead.bytes;
        rows.ahead.bytes = ahead.bytes * (keys.end - keys.begin) / all;
        multiply_part(s, g, b, &rows, keys, 0, g->vectors);
        for (int64_t v = 0; v < g->vectors; v++) {
            const int64_t lane = v * kernels->lanes;
            if (!tries_near(s, g, b, v)) { continue; }
            rapti_attention_add_bias(s, g, b, lane, keys, s->scores);
            kernels->softmax_near(s->scores + keys.begin * g->tile_ld + lane, g->tile_ld,
                                  keys.end - keys.begin, rapti_vector_state(g, lane), &sums[v]);
        }
    }
}

/* Scores, and P in their place. */
static void score_and_weigh(rapti_task_state *s, rapti_group *g, const rapti_block *b,
                            rapti_ahead ahead) {
    const int64_t width = s->plan->kernels->lanes;
    rapti_near_sums sums[RAPTI_MAX_GROUP_VECTORS] = {0};
    int near = 0;
    for (int64_t v = 0; v < g->vectors; v++) { near |= tries_near(s, g, b, v); }
    if (near) {
        score_near(s, g, b, ahead, sums);
    } else {
        rapti_attention_score(s, g, b, ahead);
    }
    for (int64_t v = 0; v < g->vectors; v++) {
        const int64_t lane = v * width;
        const rapti_range seen = rapti_attention_seen(g, b, lane, lane + width - 1);
        softmax_vector(s, g, b, v, seen, sums[v].keys > 0 ? &sums[v] : NULL);
        rapti_attention_drop(s, g, b, lane, seen.begin, seen.end, s->scores);
    }
}

/* O[first .. first + rows) += P V over keys [from, to) of the block. */
static rapti_product value_product(const rapti_task_state *s, const rapti_group *g,
                                   const rapti_block *b, int64_t first, int64_t rows, int64_t from,
                                   int64_t to) {
    return (rapti_product){
        .a = s->scores + from * g->tile_ld + first,
        .a_row = 1,
        .a_k = g->tile_ld,
        .b = b->v + (from - b->from) * b->v_row,
        .b_k = b->v_row,
        .c = g->o + first * s->value_ld,
        .c_row = s->value_ld,
        .factor = g->started ? g->state.rescale + first : NULL,
        .rows = rows,
        .inner = to - from,
        .vectors = s->plan->value_vectors,
        .prefetch = g->started ? NULL : s->prefetch,
        .b_far = first == 0,
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
static void add_all_values(const rapti_task_state *s, const rapti_group *g, const rapti_block *b) {
    const rapti_kernels *kernels = s->plan->kernels;
    const int64_t step = rapti_attention_limited(g, b) ? kernels->tile_rows : g->rows;
    for (int64_t row = 0; row < g->rows; row += step) {
        const int64_t rows = rapti_min(step, g->rows - row);
        const rapti_range r = rapti_attention_seen(g, b, row, row + rows - 1);
        const rapti_product part = value_product(s, g, b, row, rows, r.begin, r.end);
        run_value_product(kernels, &part);
    }
}

/* A hidden key has weight 0, but 0 times NaN is NaN: leaves hidden terms out instead. */
static void add_seen_values(const rapti_task_state *s, const rapti_group *g, const rapti_block *b) {
    const int64_t width = s->plan->kernels->lanes;
    memset(s->seen, 0, (size_t)(b->to * g->tile_ld) * sizeof(float));
    for (int64_t v = 0; v < g->vectors; v++) {
        rapti_attention_hide(s, g, b, v * width, b->from, b->to, s->seen);
    }
    const rapti_product all = value_product(s, g, b, 0, g->rows, b->from, b->to);
    s->plan->kernels->product_seen(&all, s->seen + b->from * g->tile_ld);
}

void rapti_attention_add_values(const rapti_task_state *s, rapti_group *g, const rapti_block *b,
                                int values_finite) {
    if (values_finite) {
        add_all_values(s, g, b);
    } else {
        add_seen_values(s, g, b);
    }
    g->started = 1;
}

void rapti_attention_attend(rapti_task_state *s, rapti_group *g, const rapti_block *b,
                            int values_finite, rapti_ahead ahead) {
    score_and_weigh(s, g, b, ahead);
    rapti_attention_add_values(s, g, b, values_finite);
}
