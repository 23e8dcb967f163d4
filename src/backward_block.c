/* SPDX-License-Identifier: MIT
 * backward_block.c: one set of queries against one block of keys. For each group of the set:
 *
 *   S[key][query]  = K Qt             product: K in place, read by broadcast
 *   dP[key][query] = V dOt            product: V in place, read by broadcast
 *   P, dS          = elementwise      bias, mask, limits and dropout first, where there are any
 *   dQ[query][d]  += dS K             product: dS read across, K in place
 *
 * and then for all groups that see some of the block at once, so that sums over queries are long:
 *
 *   dV[key][dv]   += P dO             product: dO in place
 *   dK[key][d]    += dS Q             product: Q in place
 *
 * Tiles hold all groups side by side. They are 0 where a key is hidden from a query, as far as sums
 * reach: elsewhere they hold anything. */
#include "backward_cell.h"

#include <string.h>

static void fill_lanes(const rapti_back_state *s, int64_t lane, rapti_range keys, float value) {
    for (int64_t key = keys.begin; key < keys.end; key++) {
        float *to = s->seen + key * s->plan->tile_ld + lane;
        for (int64_t i = 0; i < s->plan->cut.kernels->lanes; i++) { to[i] = value; }
    }
}

/* One lane vector: hidden scores become -inf, then P and dS. */
static void gradient_vector(const rapti_back_state *s, const rapti_back_group *g,
                            const rapti_block *b, int64_t lane) {
    const rapti_kernels *kernels = s->plan->cut.kernels;
    const int64_t ld = s->plan->tile_ld, at = g->lane + lane;
    const rapti_range keys = rapti_attention_seen(&g->base, b, lane, lane + kernels->lanes - 1);
    rapti_attention_hide(&s->task, &g->base, b, lane, keys.begin, keys.end, s->weights + g->lane);
    rapti_gradient step = {
        .s = s->weights + at,
        .dp = s->wants_ds ? s->ds + at : NULL,
        .ld = ld,
        .from = b->from,
        .begin = keys.begin,
        .end = keys.end,
        .to = b->to,
        .lse = s->open.lse + at,
        .delta = s->open.delta + at,
    };
    if (s->p->forward.drops) { /* the pattern: all kept, then some dropped */
        fill_lanes(s, at, keys, s->p->forward.kept_scale);
        rapti_attention_drop(&s->task, &g->base, b, lane, keys.begin, keys.end, s->seen + g->lane);
        step.kept = s->seen + at;
    }
    kernels->score_gradient(&step);
}

/* -inf in s->seen where the group does not see a key of the block, 0 where it does. */
static void mark_seen(const rapti_back_state *s, const rapti_back_group *g, const rapti_block *b) {
    for (int64_t key = b->from; key < b->to; key++) {
        memset(s->seen + key * s->plan->tile_ld + g->lane, 0,
               (size_t)g->base.lanes * sizeof(float));
    }
    for (int64_t lane = 0; lane < g->base.lanes; lane += s->plan->cut.kernels->lanes) {
        rapti_attention_hide(&s->task, &g->base, b, lane, b->from, b->to, s->seen + g->lane);
    }
}

/* dQ[first .. first + rows) += dS K over keys [from, to) of the block. */
static rapti_product query_product(const rapti_back_state *s, const rapti_back_group *g,
                                   int64_t first, int64_t rows, int64_t from, int64_t to) {
    const int64_t dim_ld = s->plan->dim_ld;
    return (rapti_product){
        .a = s->ds + from * s->plan->tile_ld + g->lane + first,
        .a_row = 1,
        .a_k = s->plan->tile_ld,
        .b = s->keys.at + from * s->keys.row,
        .b_k = s->keys.row,
        .c = s->open.dq + (g->lane + first) * dim_ld,
        .c_row = dim_ld,
        .factor = g->started ? s->ones : NULL,
        .rows = rows,
        .inner = to - from,
        .vectors = dim_ld / s->plan->cut.kernels->lanes,
        .prefetch = rapti_back_prefetch(s),
    };
}

static void run_product(const rapti_kernels *kernels, const rapti_product *product) {
    if (product->factor) {
        kernels->product_add(product);
    } else {
        kernels->product(product);
    }
}

static int keys_finite(rapti_back_state *s, const rapti_block *b) {
    const rapti_kernels *kernels = s->plan->cut.kernels;
    if (s->keys.finite < 0) {
        s->keys.finite =
            kernels->all_finite(s->keys.at, s->keys.row, b->to, s->plan->dim_ld / kernels->lanes);
    }
    return s->keys.finite;
}

static void add_to_queries(rapti_back_state *s, rapti_back_group *g, const rapti_block *b,
                           const rapti_block *whole) {
    const rapti_kernels *kernels = s->plan->cut.kernels;
    const int limited = rapti_attention_limited(&g->base, b);
    if (rapti_attention_hides(&s->task, &g->base, b) && !keys_finite(s, whole)) {
        /* 0 times NaN is NaN: hidden terms are left out */
        mark_seen(s, g, b);
        const rapti_product all = query_product(s, g, 0, g->base.rows, b->from, b->to);
        kernels->product_seen(&all, s->seen + b->from * s->plan->tile_ld + g->lane);
    } else {
        /* rows across a diagonal end at different keys: each register tile takes only its own */
        const int64_t step = limited ? kernels->tile_rows : g->base.rows;
        for (int64_t row = 0; row < g->base.rows; row += step) {
            const int64_t rows = rapti_min(step, g->base.rows - row);
            const rapti_range keys = rapti_attention_seen(&g->base, b, row, row + rows - 1);
            const rapti_product part = query_product(s, g, row, rows, keys.begin, keys.end);
            run_product(kernels, &part);
        }
    }
    g->started = 1;
}

/* Tiles of keys reach over the ends of what a group sees: zeros there. */
static void clear_keys(const rapti_back_state *s, const rapti_back_group *g, int64_t from,
                       int64_t to) {
    const size_t bytes = (size_t)g->base.lanes * sizeof(float);
    for (int64_t key = from; key < to; key++) {
        memset(s->weights + key * s->plan->tile_ld + g->lane, 0, bytes);
        memset(s->ds + key * s->plan->tile_ld + g->lane, 0, bytes);
    }
}

/* Returns 0 if the group sees nothing of the block: its part of the tiles then holds anything. */
static int run_group(rapti_back_state *s, rapti_back_group *g, const rapti_block *whole) {
    const rapti_problem *f = &s->p->forward;
    const int sums_all = rapti_back_sums_to_keys(s->p); /* over all rows and keys of the tile */
    const int64_t reach = sums_all ? whole->to : s->plan->cut.kernels->tile_rows;
    rapti_block b = *whole;
    b.from = rapti_clamp(g->base.begin - whole->start, 0, whole->to);
    b.to = rapti_clamp(g->base.end - whole->start, b.from, whole->to);
    if (b.from == b.to && !sums_all) { return 0; }
    clear_keys(s, g, rapti_max(0, b.from - reach), b.from);
    clear_keys(s, g, b.to, rapti_min(b.to + reach, whole->to));
    if (b.from == b.to) { return 0; }
    if (!g->base.opened) { rapti_back_open_group(s, g); }
    rapti_key_rows rows = {.rows = &f->k,
                           .size = f->dim,
                           .lanes = g->base.qt,
                           .tile = s->weights + g->lane,
                           .prefetch = rapti_back_prefetch(s)};
    rapti_attention_multiply_keys(&s->task, &g->base, &b, &rows);
    if (s->wants_ds) {
        rows = (rapti_key_rows){.rows = &f->v,
                                .size = f->value_dim,
                                .lanes = g->dot,
                                .tile = s->ds + g->lane,
                                .prefetch = rapti_back_prefetch(s)};
        rapti_attention_multiply_keys(&s->task, &g->base, &b, &rows);
    }
    for (int64_t lane = 0; lane < g->base.lanes; lane += s->plan->cut.kernels->lanes) {
        gradient_vector(s, g, &b, lane);
    }
    if (s->p->wants_dq) { add_to_queries(s, g, &b, whole); }
    if (s->p->wants_dbias) { rapti_back_bias_group(s, g, &b); }
    return 1;
}

/* ---- Sums over the set's queries ---- */

/* C[key][j] += sum over rows of A[key][row] B[row][j], for keys of the block. */
typedef struct query_sum {
    const float *a; /* tile */
    const rapti_back_rows *b;
    float *c;   /* of the block's first key */
    int64_t ld; /* of c */
} query_sum;

/* What all sums over queries of a block share. */
typedef struct query_span {
    rapti_range rows; /* of the groups that see some of the block: these are neighbours */
    int started;      /* c holds something */
    int hides, limited;
} query_span;

static rapti_product sum_product(const rapti_back_state *s, const query_sum *q, int started,
                                 rapti_range keys, rapti_range rows) {
    return (rapti_product){
        .a = q->a + keys.begin * s->plan->tile_ld + rows.begin,
        .a_row = s->plan->tile_ld,
        .a_k = 1,
        .b = q->b->at + rows.begin * q->b->row,
        .b_k = q->b->row,
        .c = q->c + keys.begin * q->ld,
        .c_row = q->ld,
        .factor = started ? s->ones : NULL,
        .rows = keys.end - keys.begin,
        .inner = rows.end - rows.begin,
        .vectors = q->ld / s->plan->cut.kernels->lanes,
    };
}

/* Across a diagonal, each register tile of keys takes only the rows that see some of it. These are
 * neighbours, and both ends grow with the key, as ranges grow with the row. */
static void sum_limited(const rapti_back_state *s, const query_sum *q, const query_span *span,
                        const rapti_block *b) {
    const rapti_kernels *kernels = s->plan->cut.kernels;
    rapti_range rows = {span->rows.begin, span->rows.begin};
    for (int64_t key = 0; key < b->to; key += kernels->tile_rows) {
        const rapti_range keys = {key, rapti_min(key + kernels->tile_rows, b->to)};
        while (rows.begin < span->rows.end &&
               s->set->row_end[rows.begin] <= b->start + keys.begin) {
            rows.begin++;
        }
        while (rows.end < span->rows.end && s->set->row_begin[rows.end] < b->start + keys.end) {
            rows.end++;
        }
        rows.end = rapti_max(rows.begin, rows.end);
        const rapti_product part = sum_product(s, q, span->started, keys, rows);
        run_product(kernels, &part);
    }
}

static void sum_queries(const rapti_back_state *s, const query_sum *q, const query_span *span,
                        const rapti_block *b) {
    if (span->limited && (q->b->finite || !span->hides)) {
        sum_limited(s, q, span, b);
        return;
    }
    const rapti_product all = sum_product(s, q, span->started, (rapti_range){0, b->to}, span->rows);
    if (span->hides && !q->b->finite) {
        for (int64_t i = 0; i < s->set->groups; i++) { mark_seen(s, &s->set->group[i], b); }
        s->plan->cut.kernels->product_seen(&all, s->seen + span->rows.begin);
    } else {
        run_product(s->plan->cut.kernels, &all);
    }
}

/* The block's keys as contiguous vectors: in place if they are, else packed. */
static void view_keys(rapti_back_state *s, const rapti_block *b) {
    const rapt_tensor *k = &s->p->forward.k;
    s->keys = (rapti_back_rows){rapti_kv_row(&s->task, k, b->start), k->stride[2], -1};
    if (k->stride[3] == 1 && s->p->forward.dim == s->plan->dim_ld) { return; }
    s->plan->cut.kernels->pack_rows(s->keys.at, k->stride[2], k->stride[3], b->to,
                                    s->p->forward.dim, s->keys_packed, s->plan->dim_ld);
    s->keys.at = s->keys_packed;
    s->keys.row = s->plan->dim_ld;
}

void rapti_back_block(rapti_back_state *s, const rapti_block *b) {
    const int64_t at = b->start - s->begin;
    query_span span = {.rows = {s->set->rows, 0},
                       .started = *rapti_back_progress(s, b->start) == RAPTI_BACK_STARTED};
    if (s->p->wants_dq) { view_keys(s, b); }
    for (int64_t i = 0; i < s->set->groups; i++) {
        rapti_back_group *g = &s->set->group[i];
        span.limited |= rapti_attention_limited(&g->base, b);
        if (!run_group(s, g, b)) { continue; }
        span.rows.begin = rapti_min(span.rows.begin, g->lane);
        span.rows.end = g->lane + g->base.rows;
    }
    span.rows.begin = rapti_min(span.rows.begin, span.rows.end);
    span.hides = span.limited || s->p->forward.mask.data || s->p->forward.bias.data;
    if (s->p->wants_dv) {
        const int64_t ld = s->plan->value_ld;
        const query_sum dv = {s->weights, &s->open.dout, s->dv + at * ld, ld};
        sum_queries(s, &dv, &span, b);
    }
    if (s->p->wants_dk) {
        const int64_t ld = s->plan->dim_ld;
        const query_sum dk = {s->ds, &s->open.q, s->dk + at * ld, ld};
        sum_queries(s, &dk, &span, b);
    }
    if (rapti_back_sums_to_keys(s->p)) { rapti_back_bias_block(s, b); }
}
