/* SPDX-License-Identifier: MIT
 * matmul_task.c: one task of a matrix product: a strip of rows of A against a few packed panels.
 * The strip stays in the second cache level while panels pass by; what comes next is asked for in
 * time, a little at a time, so that the product meets no memory slower than that. */
#include "matmul_task.h"
#include "numbers.h"

enum { PREFETCH_ROWS_PER_TILE = 6 };

/* Rows of A and C, and the unit whose B they meet. */
typedef struct strip {
    const float *a; /* A[0, first k of the block] */
    int64_t a_row, a_k;
    float *c;
    int64_t count, unit;
    int packs; /* 1: packs B, nobody has before */
} strip;

/* A thread's scratch. */
typedef struct local {
    float *sum;         /* [row_block][lanes of a panel]: sums that cannot go to C at once */
    float *bias;        /* [lanes of a panel] */
    float *a;           /* [k of a block][row_ld]: a strip of A whose columns are contiguous */
    const float **next; /* [row_block]: rows of C that the next panel will write */
    rapti_prefetch prefetch;
} local;

/* Hands out aligned pieces; with base null it only counts. */
typedef struct carver {
    char *base;
    size_t used;
} carver;

static void *carve(carver *c, int64_t count, size_t each) {
    void *piece = c->base ? c->base + c->used : NULL;
    const size_t bytes = (size_t)count * each;
    c->used += rapti_aligned(bytes);
    return piece;
}

static size_t carve_local(const rapti_matmul_plan *plan, char *base, local *s) {
    const int64_t width = plan->kernels->column_vectors * plan->kernels->lanes;
    carver c = {base, 0};
    s->sum = carve(&c, plan->row_block * width, sizeof(float));
    s->bias = carve(&c, width, sizeof(float));
    s->a = carve(&c, plan->packed_a_floats, sizeof(float));
    s->next = carve(&c, plan->row_block, sizeof(float *));
    return c.used;
}

size_t rapti_matmul_thread_bytes(const rapti_matmul_plan *plan) {
    local s;
    return carve_local(plan, NULL, &s);
}

/* ---- Tasks: strips, one after the other, each cut into parts of the wave's panels ---- */

int64_t rapti_matmul_product_tasks(const rapti_matmul_wave *w) {
    return w->units * w->p->repeats.items * w->plan->row_blocks * w->plan->column_tasks;
}

static strip find_strip(const rapti_matmul_wave *w, int64_t index) {
    const rapti_matmul_problem *p = w->p;
    const int64_t row = index % w->plan->row_blocks * w->plan->row_block;
    const int64_t item = index / w->plan->row_blocks, repeat = item % p->repeats.items;
    const int64_t unit = item / p->repeats.items;
    const rapti_matmul_axis u = rapti_matmul_offset(&p->units, w->first_unit + unit);
    const rapti_matmul_axis r = rapti_matmul_offset(&p->repeats, repeat);
    return (strip){.a = p->a + u.a + r.a + row * p->a_row +
                        rapti_matmul_wave_block(w).begin * p->a_k,
                   .a_row = p->a_row,
                   .a_k = p->a_k,
                   .c = p->c + u.c + r.c + row * p->c_row,
                   .count = rapti_min(w->plan->row_block, p->rows - row),
                   .unit = unit,
                   .packs = w->plan->fused && row == 0 && repeat == 0};
}

/* First panel of part `part` of `column_tasks`; a part of a last, short wave may have none. */
static int64_t first_panel(const rapti_matmul_wave *w, int64_t part) {
    return part * w->panels / w->plan->column_tasks;
}

/* One panel of a task. */
typedef struct step {
    const rapti_matmul_wave *w;
    const strip *m;
    const rapti_matmul_panel *n, *next; /* next: null at the last */
    int64_t later;                      /* the task that this thread will probably have next */
    int parts;
    local *s;
} step;

/* ---- What comes next ---- */

/* Memory that a product asks for. */
typedef struct ahead {
    const float *at;
    int64_t floats;
} ahead;

/* `count` rows of `size` floats, `distance` apart; nothing if they lie far apart. */
static ahead rows_ahead(const float *first, int64_t count, int64_t size, int64_t distance) {
    const int near = distance >= size && distance <= 2 * size;
    return (ahead){first, near ? count * distance : 0};
}

static ahead packed_ahead(const step *t, const rapti_matmul_panel *n) {
    const rapti_matmul_range k = rapti_matmul_wave_block(t->w);
    return (ahead){rapti_matmul_packed(t->w, t->m->unit, n),
                   (k.end - k.begin) * n->vectors * t->w->plan->kernels->lanes};
}

/* With the last panel of a task: the next task's strip of A or, if it is this one, first panel. */
static ahead look_at_task(const step *t) {
    const rapti_matmul_wave *w = t->w;
    if (t->later >= rapti_matmul_product_tasks(w)) { return (ahead){0}; }
    const strip m = find_strip(w, t->later / w->plan->column_tasks);
    const rapti_matmul_range k = rapti_matmul_wave_block(w);
    if (m.c == t->m->c) {
        const int64_t part = t->later % w->plan->column_tasks;
        const rapti_matmul_panel n = rapti_matmul_find_panel(w, first_panel(w, part));
        return packed_ahead(t, &n);
    }
    return m.a_k == 1 ? rows_ahead(m.a, m.count, k.end - k.begin, m.a_row) : (ahead){0};
}

/* While a panel is multiplied: the next panel, packed; for the task that packs it, first the
 * columns of B and then the place where they go. */
static ahead look_ahead(const step *t, int part) {
    const rapti_matmul_problem *p = t->w->p;
    const rapti_matmul_range k = rapti_matmul_wave_block(t->w);
    if (!t->next) { return look_at_task(t); }
    if (part == 0 && t->parts == 2) {
        return rows_ahead(rapti_matmul_source(t->w, t->m->unit, t->next), t->next->columns,
                          k.end - k.begin, p->b_k == 1 ? p->b_column : 0);
    }
    return packed_ahead(t, t->next);
}

/* Between tiles, products ask for the rows of C where the next panel's sums will go. */
static void prefetch_rows_of_c(const rapti_matmul_wave *w, const strip *m,
                               const rapti_matmul_panel *next, local *s) {
    s->prefetch = (rapti_prefetch){.per_tile = PREFETCH_ROWS_PER_TILE};
    if (!next || w->p->c_column != 1) { return; }
    const float *c = m->c + next->column;
    for (int64_t i = 0; i < m->count; i++) { s->next[i] = c + i * w->p->c_row; }
    s->prefetch.list[0] = (rapti_prefetch_rows){s->next, m->count, 0, next->columns};
}

/* ---- Products ---- */

/* The sums over the block; in two halves of the rows if there are two things to ask for. */
static void sum_panel(const step *t, float *sum, int64_t ld) {
    const rapti_kernels *kernels = t->w->plan->kernels;
    const rapti_matmul_range k = rapti_matmul_wave_block(t->w);
    const int64_t tiles = 2 * kernels->tile_rows; /* whole tiles of narrower panels as well */
    const int64_t half = rapti_round_up(t->m->count / t->parts, tiles);
    for (int part = 0; part < t->parts && part * half < t->m->count; part++) {
        const int64_t from = part * half, left = t->m->count - from;
        const ahead soon = look_ahead(t, part);
        const rapti_product product = {.a = t->m->a + from * t->m->a_row,
                                       .a_row = t->m->a_row,
                                       .a_k = t->m->a_k,
                                       .b = rapti_matmul_packed(t->w, t->m->unit, t->n),
                                       .b_k = t->n->vectors * kernels->lanes,
                                       .c = sum + from * ld,
                                       .c_row = ld,
                                       .rows = part + 1 < t->parts && half < left ? half : left,
                                       .inner = k.end - k.begin,
                                       .vectors = t->n->vectors,
                                       .prefetch = &t->s->prefetch,
                                       .stream = soon.at,
                                       .stream_bytes = soon.floats * (int64_t)sizeof(float)};
        kernels->product(&product);
    }
}

/* C of one panel. Sums go straight to C if whole vectors fit and its old values are not needed. */
static void multiply_panel(const step *t) {
    const rapti_matmul_problem *p = t->w->p;
    const rapti_kernels *kernels = t->w->plan->kernels;
    const int first = t->w->block == 0, last = t->w->block == t->w->plan->blocks - 1;
    const int direct = first && p->beta == 0.0f && p->c_column == 1 &&
                       t->n->columns == t->n->vectors * kernels->lanes;
    const int biased = p->bias && last;
    float *c = t->m->c + t->n->column * p->c_column;
    float *sum = direct ? c : t->s->sum;
    const int64_t ld = direct ? p->c_row : t->n->vectors * kernels->lanes;
    sum_panel(t, sum, ld);
    if (direct && p->alpha == 1.0f && !biased) { return; }
    if (biased) {
        kernels->pack_rows(p->bias + t->n->column * p->bias_step, 0, p->bias_step, 1, t->n->columns,
                           t->s->bias, 0);
    }
    const rapti_product_end end = {.sum = sum,
                                   .ld = ld,
                                   .c = c,
                                   .row = p->c_row,
                                   .column = p->c_column,
                                   .count = t->m->count,
                                   .size = t->n->columns,
                                   .alpha = p->alpha,
                                   .beta = first ? p->beta : 1.0f,
                                   .bias = biased ? t->s->bias : NULL};
    kernels->finish_product(&end);
}

/* A transposed A would be read across many pages at a time: the strip is copied, [k][row]. */
static void pack_strip(const rapti_matmul_wave *w, strip *m, local *s) {
    const rapti_matmul_range k = rapti_matmul_wave_block(w);
    w->plan->kernels->pack_rows(m->a, m->a_k, 1, k.end - k.begin, m->count, s->a, w->plan->row_ld);
    m->a = s->a;
    m->a_row = 1;
    m->a_k = w->plan->row_ld;
}

void rapti_matmul_run_product(void *wave, int64_t task, int32_t thread) {
    const rapti_matmul_wave *w = wave;
    const rapti_matmul_plan *plan = w->plan;
    const int64_t part = task % plan->column_tasks;
    const int64_t first = first_panel(w, part), past = first_panel(w, part + 1);
    local s = {0};
    strip m = find_strip(w, task / plan->column_tasks);
    carve_local(plan, w->scratch + (size_t)thread * plan->thread_bytes, &s);
    if (plan->packed_a_floats > 0) { pack_strip(w, &m, &s); }
    for (int64_t i = first; i < past; i++) {
        const rapti_matmul_panel n = rapti_matmul_find_panel(w, i);
        const rapti_matmul_panel following = rapti_matmul_find_panel(w, i + 1);
        const step t = {.w = w,
                        .m = &m,
                        .later = task + plan->threads,
                        .n = &n,
                        .next = i + 1 < past ? &following : NULL,
                        .parts = m.packs && !rapti_matmul_packs_rows(w) ? 2 : 1,
                        .s = &s};
        if (m.packs) { rapti_matmul_pack_now(w, m.unit, &n); }
        prefetch_rows_of_c(w, &m, t.next, &s);
        multiply_panel(&t);
    }
}
