/* SPDX-License-Identifier: MIT
 * attention_task.c: one task of the forward pass: a few groups of queries against the keys that they
 * can see, one key block at a time while it sits in cache. For each block and group
 *
 *   S[key][query] = K Qt            product: K in place, read by broadcast
 *   P             = softmax step    mask and bias first, where there are any
 *   O[query][dv]  = rescale O + P V product: P read across, V in place
 *
 * Blocks lie at multiples of the block size from key 0 and sums run in key order, so a row's bits
 * depend on nothing but the row and its keys. */
#include "attention.h"

#include <math.h>
#include <string.h>

enum { MAX_GROUP = RAPTI_MAX_LANES * RAPTI_MAX_GROUP_VECTORS };

/* Which query of which head a lane holds. */
typedef struct row_index {
    int64_t head, query;
} row_index;

/* A group: up to group_vectors lane vectors of queries; one lane is one row (attention.h). */
typedef struct group {
    int64_t first_row, rows; /* rows beyond the last are copies of the last; never written */
    int64_t vectors, lanes;
    int64_t begin, end;           /* keys that some row sees */
    int64_t full_begin, full_end; /* keys that every row sees */
    row_index *row;               /* [lanes] */
    int64_t *row_begin, *row_end; /* [lanes] */
    float *qt;                    /* [dim][lanes], scaled */
    float *o;                     /* [lanes][value_dim, padded] */
    rapti_softmax_state state;    /* [lanes] each */
    int started;                  /* o holds something */
} group;

typedef struct task_state {
    const rapti_problem *p;
    const rapti_plan *plan;
    int64_t batch, kv_head;
    int64_t o_ld;   /* floats between rows of o and of packed values */
    float *scores;  /* [key_block][lanes] */
    float *seen;    /* the same shape: -inf where hidden, for the careful product */
    float *packed;  /* [key_block][o_ld] */
    group *groups;
} task_state;

/* The keys of one block, relative to its start, that a task or group looks at. */
typedef struct block {
    int64_t start; /* first key of the block: a multiple of key_block */
    int64_t from, to;
    const float *v; /* row of key start + from: in place or packed */
    int64_t v_row;
    int finite; /* 1: no NaN or infinity in these rows; 0: some; -1: not looked yet */
} block;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t clamp(int64_t x, int64_t low, int64_t high) { return max64(low, min64(x, high)); }

/* ---- Scratch ---- */

/* Hands out aligned pieces; with base null it only counts. */
typedef struct carver {
    char *base;
    size_t used;
} carver;

static void *carve(carver *c, size_t bytes) {
    void *piece = c->base ? c->base + c->used : NULL;
    c->used += (bytes + RAPTI_ALIGNMENT - 1) / RAPTI_ALIGNMENT * RAPTI_ALIGNMENT;
    return piece;
}

static void carve_state(carver *c, const rapti_problem *p, const rapti_plan *plan, task_state *s) {
    const size_t lanes = (size_t)plan->group_lanes, keys = (size_t)plan->kernels->key_block;
    s->o_ld = plan->value_vectors * plan->kernels->lanes;
    s->scores = carve(c, keys * lanes * sizeof(float));
    s->seen = carve(c, keys * lanes * sizeof(float));
    s->packed = carve(c, keys * (size_t)s->o_ld * sizeof(float));
    s->groups = carve(c, (size_t)plan->task_groups * sizeof(group));
    for (int32_t g = 0; g < plan->task_groups; g++) {
        group unused = {0}, *to = s->groups ? &s->groups[g] : &unused;
        to->row = carve(c, lanes * sizeof(row_index));
        to->row_begin = carve(c, lanes * sizeof(int64_t));
        to->row_end = carve(c, lanes * sizeof(int64_t));
        to->qt = carve(c, (size_t)p->dim * lanes * sizeof(float));
        to->o = carve(c, lanes * (size_t)s->o_ld * sizeof(float));
        to->state.max = carve(c, lanes * sizeof(float));
        to->state.sum = carve(c, lanes * sizeof(float));
        to->state.rescale = carve(c, lanes * sizeof(float));
    }
}

size_t rapti_attention_thread_bytes(const rapti_problem *p, const rapti_plan *plan) {
    /* head sizes are below 2^62 elements; keep the products below far from overflow */
    if (p->dim > INT32_MAX || p->value_dim > INT32_MAX) { return SIZE_MAX; }
    carver counting = {NULL, 0};
    task_state unused;
    carve_state(&counting, p, plan, &unused);
    return counting.used;
}

/* ---- Rows ---- */

/* Offset in elements of [batch, head, query, 0] in a tensor of that order of axes. */
static int64_t row_offset(const int64_t stride[4], int64_t batch, row_index r) {
    return batch * stride[0] + r.head * stride[1] + r.query * stride[2];
}

static const float *kv_row(const task_state *s, const rapt_tensor *t, int64_t key) {
    return (const float *)t->data + s->batch * t->stride[0] + s->kv_head * t->stride[1] +
           key * t->stride[2];
}

static void open_group(const task_state *s, int64_t index, group *g) {
    const rapti_kernels *kernels = s->plan->kernels;
    const int64_t width = kernels->lanes;
    const int64_t first = rapti_attention_group_start(s->plan, index);
    g->vectors = rapti_attention_group_start(s->plan, index + 1) - first;
    g->lanes = g->vectors * width;
    g->first_row = first * width;
    g->rows = min64(g->lanes, s->plan->rows - g->first_row);
    g->started = 0;
    const float *rows[MAX_GROUP];
    const int64_t first_head = s->kv_head * s->p->group;
    row_index r = {first_head + g->first_row % s->p->group, g->first_row / s->p->group};
    for (int64_t lane = 0; lane < g->lanes; lane++) {
        const rapti_range range = rapti_attention_range(s->p, s->batch, r.query);
        rows[lane] = (const float *)s->p->q.data + row_offset(s->p->q.stride, s->batch, r);
        g->row[lane] = r;
        g->row_begin[lane] = range.begin;
        g->row_end[lane] = range.end;
        g->state.max[lane] = -INFINITY;
        g->state.sum[lane] = 0.0f;
        if (lane + 1 >= g->rows) { continue; }
        if (++r.head == first_head + s->p->group) {
            r.head = first_head;
            r.query++;
        }
    }
    for (int64_t v = 0; v < g->vectors; v++) {
        kernels->gather_lanes(rows + v * width, s->p->q.stride[3], s->p->dim, s->p->scale,
                              g->qt + v * width, g->lanes);
    }
    g->begin = g->row_begin[0];
    g->full_begin = g->row_begin[g->rows - 1];
    g->full_end = g->row_end[0];
    g->end = g->row_end[g->rows - 1];
}

static void close_group(const task_state *s, group *g) {
    const rapti_kernels *kernels = s->plan->kernels;
    const int64_t width = kernels->lanes;
    if (!g->started) { memset(g->o, 0, (size_t)(g->lanes * s->o_ld) * sizeof(float)); }
    for (int64_t v = 0; v < g->vectors; v++) {
        const int64_t lane = v * width, count = clamp(g->rows - lane, 0, width);
        float *out[RAPTI_MAX_LANES], lse[RAPTI_MAX_LANES];
        for (int64_t i = 0; i < count; i++) {
            out[i] = (float *)s->p->out.data +
                     row_offset(s->p->out.stride, s->batch, g->row[lane + i]);
        }
        const rapti_softmax_state state = {g->state.max + lane, g->state.sum + lane, NULL};
        kernels->finish_rows(g->o + lane * s->o_ld, s->o_ld, count, s->p->value_dim, state, out,
                             s->p->out.stride[3], lse);
        for (int64_t i = 0; s->p->lse.data && i < count; i++) {
            const int64_t at = row_offset(s->p->lse.stride, s->batch, g->row[lane + i]);
            ((float *)s->p->lse.data)[at] = lse[i];
        }
    }
}

/* ---- One block ---- */

/* Keys of the block that a row sees, relative to the block's start, cut to [from, to]. */
static void relative_range(const group *g, int64_t lane, const block *b, int64_t *begin,
                           int64_t *end) {
    *begin = clamp(g->row_begin[lane] - b->start, b->from, b->to);
    *end = clamp(g->row_end[lane] - b->start, *begin, b->to);
}

static void score_keys(const task_state *s, const group *g, const block *b, int64_t from,
                       int64_t to, int64_t first_vector, int64_t vectors) {
    const int64_t width = s->plan->kernels->lanes;
    const rapti_product product = {
        .a = kv_row(s, &s->p->k, b->start + from),
        .a_row = s->p->k.stride[2],
        .a_k = s->p->k.stride[3],
        .b = g->qt + first_vector * width,
        .b_k = g->lanes,
        .c = s->scores + from * g->lanes + first_vector * width,
        .c_row = g->lanes,
        .rows = to - from,
        .inner = s->p->dim,
        .vectors = vectors,
    };
    s->plan->kernels->product(&product);
}

/* Across a diagonal, keys are scored only for the lane vectors that see them. Both ends of the
 * visible range grow with the lane, so these are always neighbours. */
static void score_block(const task_state *s, const group *g, const block *b, int limited) {
    if (!limited) {
        score_keys(s, g, b, b->from, b->to, 0, g->vectors);
        return;
    }
    const int64_t width = s->plan->kernels->lanes;
    for (int64_t key = b->from; key < b->to;) {
        int64_t first = g->vectors, past = 0, next = b->to;
        for (int64_t v = 0; v < g->vectors; v++) {
            int64_t begin, end, unused;
            relative_range(g, v * width, b, &begin, &unused);
            relative_range(g, (v + 1) * width - 1, b, &unused, &end);
            if (begin <= key && key < end) {
                first = min64(first, v);
                past = v + 1;
            }
            if (begin > key) { next = min64(next, begin); }
            if (end > key) { next = min64(next, end); }
        }
        if (first < past) { score_keys(s, g, b, key, next, first, past - first); }
        key = next;
    }
}

/* Hides what lane vector v does not see of [from, to) in a tile: limits, then bias, then mask. */
static void hide_in_vector(const task_state *s, const group *g, const block *b, int64_t v,
                           int64_t from, int64_t to, float *tile, int limited) {
    const rapti_kernels *kernels = s->plan->kernels;
    const int64_t width = kernels->lanes, lane = v * width;
    float *scores = tile + lane;
    if (limited) {
        int32_t begin[RAPTI_MAX_LANES], end[RAPTI_MAX_LANES];
        for (int64_t i = 0; i < width; i++) {
            int64_t row_begin, row_end;
            relative_range(g, lane + i, b, &row_begin, &row_end);
            begin[i] = (int32_t)row_begin;
            end[i] = (int32_t)row_end;
        }
        /* all lanes see [last begin, first end): only the keys around it need a look */
        const int64_t inner_begin = clamp(begin[width - 1], from, to);
        const int64_t inner_end = clamp(end[0], inner_begin, to);
        kernels->hide_outside(scores, g->lanes, from, inner_begin, begin, end);
        kernels->hide_outside(scores, g->lanes, inner_end, to, begin, end);
    }
    if (s->p->bias.data) {
        const float *rows[RAPTI_MAX_LANES];
        for (int64_t i = 0; i < width; i++) {
            rows[i] = (const float *)s->p->bias.data + b->start * s->p->bias.stride[3] +
                      row_offset(s->p->bias.stride, s->batch, g->row[lane + i]);
        }
        kernels->apply_bias(rows, s->p->bias.stride[3], from, to, scores, g->lanes);
    }
    if (s->p->mask.data) {
        const uint8_t *rows[RAPTI_MAX_LANES];
        for (int64_t i = 0; i < width; i++) {
            rows[i] = (const uint8_t *)s->p->mask.data + b->start * s->p->mask.stride[3] +
                      row_offset(s->p->mask.stride, s->batch, g->row[lane + i]);
        }
        kernels->apply_mask(rows, s->p->mask.stride[3], from, to, scores, g->lanes);
    }
}

static void softmax_block(const task_state *s, const group *g, const block *b, int limited) {
    const rapti_kernels *kernels = s->plan->kernels;
    const int64_t width = kernels->lanes;
    for (int64_t v = 0; v < g->vectors; v++) {
        int64_t begin = b->from, end = b->to, unused;
        if (limited) {
            relative_range(g, v * width, b, &begin, &unused);
            relative_range(g, (v + 1) * width - 1, b, &unused, &end);
            if (end < begin) { end = begin; }
        }
        hide_in_vector(s, g, b, v, begin, end, s->scores, limited);
        const rapti_softmax_state state = {g->state.max + v * width, g->state.sum + v * width,
                                           g->state.rescale + v * width};
        kernels->softmax_block(s->scores + v * width, g->lanes, b->from, begin, end, b->to, state);
    }
}

/* O[first .. first + rows) += P V over keys [from, to) of the block. */
static rapti_product value_product(const task_state *s, const group *g, const block *b,
                                   int64_t first, int64_t rows, int64_t from, int64_t to) {
    return (rapti_product){
        .a = s->scores + from * g->lanes + first,
        .a_row = 1,
        .a_k = g->lanes,
        .b = b->v + (from - b->from) * b->v_row,
        .b_k = b->v_row,
        .c = g->o + first * s->o_ld,
        .c_row = s->o_ld,
        .factor = g->started ? g->state.rescale + first : NULL,
        .rows = rows,
        .inner = to - from,
        .vectors = s->plan->value_vectors,
    };
}

static void run_value_product(const rapti_kernels *kernels, const rapti_product *product) {
    if (product->factor) {
        kernels->product_add(product);
    } else {
        kernels->product(product);
    }
}

static void accumulate_values(const task_state *s, const group *g, block *b, int limited) {
    const rapti_kernels *kernels = s->plan->kernels;
    if (limited || s->p->mask.data || s->p->bias.data) {
        /* a hidden key has weight 0, and 0 times NaN is NaN */
        if (b->finite < 0) {
            b->finite = kernels->all_finite(b->v, b->v_row, b->to - b->from, s->plan->value_vectors);
        }
        if (!b->finite) {
            memset(s->seen, 0, (size_t)(b->to * g->lanes) * sizeof(float));
            for (int64_t v = 0; v < g->vectors; v++) {
                hide_in_vector(s, g, b, v, b->from, b->to, s->seen, limited);
            }
            const rapti_product all = value_product(s, g, b, 0, g->lanes, b->from, b->to);
            kernels->product_seen(&all, s->seen + b->from * g->lanes);
            return;
        }
    }
    if (!limited) {
        const rapti_product all = value_product(s, g, b, 0, g->rows, b->from, b->to);
        run_value_product(kernels, &all);
        return;
    }
    for (int64_t row = 0; row < g->rows; row += kernels->tile_rows) {
        const int64_t rows = min64(kernels->tile_rows, g->rows - row);
        int64_t begin, end, unused;
        relative_range(g, row, b, &begin, &unused);
        relative_range(g, row + rows - 1, b, &unused, &end);
        const rapti_product part = value_product(s, g, b, row, rows, begin, max64(begin, end));
        run_value_product(kernels, &part);
    }
}

/* The block's values as contiguous vectors: in place if they are, else packed. */
static void view_values(const task_state *s, block *b) {
    const rapt_tensor *v = &s->p->v;
    b->v = kv_row(s, v, b->start + b->from);
    b->v_row = v->stride[2];
    if (v->stride[3] == 1 && s->p->value_dim == s->o_ld) { return; }
    s->plan->kernels->pack_rows(b->v, v->stride[2], v->stride[3], b->to - b->from, s->p->value_dim,
                                s->packed, s->o_ld);
    b->v = s->packed;
    b->v_row = s->o_ld;
}

static void attend_block(const task_state *s, int64_t groups, block *whole) {
    view_values(s, whole);
    for (int64_t i = 0; i < groups; i++) {
        group *g = &s->groups[i];
        block b = *whole;
        b.from = max64(whole->from, g->begin - whole->start);
        b.to = min64(whole->to, g->end - whole->start);
        if (b.from >= b.to) { continue; }
        b.v += (b.from - whole->from) * b.v_row;
        const int limited =
            b.start + b.from < g->full_begin || b.start + b.to > g->full_end;
        score_block(s, g, &b, limited);
        softmax_block(s, g, &b, limited);
        accumulate_values(s, g, &b, limited);
        g->started = 1;
    }
}

void rapti_attention_run_task(const rapti_problem *p, const rapti_plan *plan, const rapti_task *task,
                              void *scratch) {
    task_state s = {.p = p, .plan = plan, .batch = task->batch, .kv_head = task->kv_head};
    carver c = {scratch, 0};
    carve_state(&c, p, plan, &s);
    const int64_t groups = min64(plan->task_groups, plan->groups - task->first_group);
    int64_t begin = p->keys, end = 0;
    for (int64_t i = 0; i < groups; i++) {
        open_group(&s, task->first_group + i, &s.groups[i]);
        begin = min64(begin, s.groups[i].begin);
        end = max64(end, s.groups[i].end);
    }
    const int64_t size = plan->kernels->key_block;
    for (int64_t start = begin / size * size; start < end; start += size) {
        block b = {.start = start,
                   .from = max64(begin - start, 0),
                   .to = min64(end - start, size),
                   .finite = -1};
        attend_block(&s, groups, &b);
    }
    for (int64_t i = 0; i < groups; i++) { close_group(&s, &s.groups[i]); }
}
