/* SPDX-License-Identifier: MIT
 * matmul_task.c: the two kinds of tasks of a wave: one packs a block of k of a panel of B, the
 * other multiplies a block of rows of A with a few packed panels. */
#include "matmul.h"

/* A panel of the wave's columns. */
typedef struct panel {
    int64_t column, columns; /* first; how many exist */
    int64_t vectors;
    int64_t packed; /* lanes that the panels before it hold */
} panel;

static panel find_panel(const rapti_matmul_wave *w, int64_t index) {
    const rapti_matmul_plan *plan = w->plan;
    const int64_t lanes = plan->kernels->lanes;
    const int64_t start = rapti_matmul_panel_start(plan, w->first_panel + index);
    const int64_t past = rapti_matmul_panel_start(plan, w->first_panel + index + 1);
    const int64_t left = w->p->columns - start * lanes, full = (past - start) * lanes;
    return (panel){
        .column = start * lanes,
        .columns = left < full ? left : full,
        .vectors = past - start,
        .packed = (start - rapti_matmul_panel_start(plan, w->first_panel)) * lanes,
    };
}

/* Where row k of the span stands in a packed panel. */
static float *packed_row(const rapti_matmul_wave *w, int64_t unit, const panel *n, int64_t k) {
    const rapti_matmul_range span = rapti_matmul_span(w->p, w->span);
    return w->packed + (size_t)unit * w->plan->unit_floats + n->packed * (span.end - span.begin) +
           (k - span.begin) * n->vectors * w->plan->kernels->lanes;
}

/* ---- Packing: [k][lanes of the panel] ---- */

int64_t rapti_matmul_pack_tasks(const rapti_matmul_wave *w) {
    return w->units * w->panels * rapti_matmul_blocks(rapti_matmul_span(w->p, w->span));
}

/* Columns of B become lanes. Lanes past the last column repeat it: nobody reads their sums. */
static void gather_panel(const rapti_matmul_wave *w, const float *b, const panel *n, int64_t size,
                         float *out) {
    const rapti_kernels *kernels = w->plan->kernels;
    const int64_t lanes = kernels->lanes;
    for (int64_t v = 0; v < n->vectors; v++) {
        const float *column[RAPTI_MAX_LANES];
        for (int64_t i = 0; i < lanes; i++) {
            const int64_t j = v * lanes + i < n->columns ? v * lanes + i : n->columns - 1;
            column[i] = b + j * w->p->b_column;
        }
        kernels->gather_lanes(column, w->p->b_k, size, 1.0f, out + v * lanes, n->vectors * lanes);
    }
}

void rapti_matmul_run_pack(void *wave, int64_t task, int32_t thread) {
    (void)thread;
    const rapti_matmul_wave *w = wave;
    const rapti_matmul_problem *p = w->p;
    const rapti_matmul_range span = rapti_matmul_span(p, w->span);
    const int64_t blocks = rapti_matmul_blocks(span);
    const rapti_matmul_range k = rapti_matmul_block(span, task % blocks);
    const panel n = find_panel(w, task / blocks % w->panels);
    const int64_t unit = task / blocks / w->panels, size = k.end - k.begin;
    const float *b = p->b + rapti_matmul_offset(&p->units, w->first_unit + unit).b +
                     k.begin * p->b_k + n.column * p->b_column;
    float *out = packed_row(w, unit, &n, k.begin);
    if (size == 0) { return; }
    if (p->b_column == 1) {
        w->plan->kernels->pack_rows(b, p->b_k, 1, size, n.columns, out,
                                    n.vectors * w->plan->kernels->lanes);
    } else {
        gather_panel(w, b, &n, size, out);
    }
}

/* ---- Products ---- */

/* A thread's scratch. */
typedef struct local {
    float *sum;         /* [row_block][lanes of a panel]: sums that cannot go to C at once */
    float *bias;        /* [lanes of a panel] */
    float *ones;        /* [row_block] */
    const float **next; /* [row_block]: rows of C that the next panel will write */
    rapti_prefetch prefetch;
} local;

static size_t round_up(size_t bytes) {
    return (bytes + RAPTI_ALIGNMENT - 1) / RAPTI_ALIGNMENT * RAPTI_ALIGNMENT;
}

/* Lays the scratch out at `base`; with null it only counts. */
static size_t carve(const rapti_matmul_plan *plan, char *base, local *s) {
    const size_t rows = (size_t)plan->row_block;
    const size_t width = (size_t)(plan->kernels->column_vectors * plan->kernels->lanes);
    const size_t sum = round_up(rows * width * sizeof(float));
    const size_t bias = sum + round_up(width * sizeof(float));
    const size_t ones = bias + round_up(rows * sizeof(float));
    if (base) {
        s->sum = (float *)(void *)base;
        s->bias = (float *)(void *)(base + sum);
        s->ones = (float *)(void *)(base + bias);
        s->next = (const float **)(void *)(base + ones);
    }
    return ones + round_up(rows * sizeof(float *));
}

size_t rapti_matmul_thread_bytes(const rapti_matmul_plan *plan) { return carve(plan, NULL, NULL); }

int64_t rapti_matmul_product_tasks(const rapti_matmul_wave *w) {
    return w->units * w->p->repeats.items * w->plan->row_blocks * w->plan->column_tasks;
}

/* One task: rows of A and C, at their first element, and the unit whose B they meet. */
typedef struct rows {
    const float *a;
    float *c;
    int64_t count, unit;
} rows;

static rows find_rows(const rapti_matmul_wave *w, int64_t task) {
    const rapti_matmul_problem *p = w->p;
    const int64_t row = task % w->plan->row_blocks * w->plan->row_block;
    const int64_t item = task / w->plan->row_blocks;
    const int64_t unit = item / p->repeats.items, left = p->rows - row;
    const rapti_matmul_axis u = rapti_matmul_offset(&p->units, w->first_unit + unit);
    const rapti_matmul_axis r = rapti_matmul_offset(&p->repeats, item % p->repeats.items);
    return (rows){.a = p->a + u.a + r.a + row * p->a_row,
                  .c = p->c + u.c + r.c + row * p->c_row,
                  .count = left < w->plan->row_block ? left : w->plan->row_block,
                  .unit = unit};
}

/* The sums over the span, block by block, to `sum`. */
static void sum_panel(const rapti_matmul_wave *w, const rows *m, const panel *n, local *s,
                      float *sum, int64_t ld) {
    const rapti_kernels *kernels = w->plan->kernels;
    const rapti_matmul_range span = rapti_matmul_span(w->p, w->span);
    const int64_t blocks = rapti_matmul_blocks(span);
    for (int64_t block = 0; block < blocks; block++) {
        const rapti_matmul_range k = rapti_matmul_block(span, block);
        const rapti_product product = {.a = m->a + k.begin * w->p->a_k,
                                       .a_row = w->p->a_row,
                                       .a_k = w->p->a_k,
                                       .b = packed_row(w, m->unit, n, k.begin),
                                       .b_k = n->vectors * kernels->lanes,
                                       .c = sum,
                                       .c_row = ld,
                                       .factor = s->ones,
                                       .rows = m->count,
                                       .inner = k.end - k.begin,
                                       .vectors = n->vectors,
                                       .prefetch = &s->prefetch};
        (block == 0 ? kernels->product : kernels->product_add)(&product);
    }
}

/* Between tiles, products ask for the rows of C where the next panel's sums will go. */
static void prefetch_next(const rapti_matmul_wave *w, const rows *m, const panel *next, local *s) {
    s->prefetch = (rapti_prefetch){0};
    if (!next || w->p->c_column != 1) { return; }
    const float *c = m->c + next->column;
    for (int64_t i = 0; i < m->count; i++) { s->next[i] = c + i * w->p->c_row; }
    s->prefetch.list[0] = (rapti_prefetch_rows){s->next, m->count, 0, next->columns};
}

/* C of one panel. Sums go straight to C if whole vectors fit and its old values are not needed. */
static void multiply_panel(const rapti_matmul_wave *w, const rows *m, const panel *n, local *s) {
    const rapti_matmul_problem *p = w->p;
    const rapti_kernels *kernels = w->plan->kernels;
    const int first = w->span == 0, last = w->span == w->plan->spans - 1;
    const int direct =
        first && p->beta == 0.0f && p->c_column == 1 && n->columns == n->vectors * kernels->lanes;
    float *c = m->c + n->column * p->c_column;
    float *sum = direct ? c : s->sum;
    const int64_t ld = direct ? p->c_row : n->vectors * kernels->lanes;
    sum_panel(w, m, n, s, sum, ld);
    if (direct && p->alpha == 1.0f && !(p->bias && last)) { return; }
    if (p->bias && last) {
        kernels->pack_rows(p->bias + n->column * p->bias_step, 0, p->bias_step, 1, n->columns,
                           s->bias, 0);
    }
    const rapti_product_end end = {.sum = sum,
                                   .ld = ld,
                                   .c = c,
                                   .row = p->c_row,
                                   .column = p->c_column,
                                   .count = m->count,
                                   .size = n->columns,
                                   .alpha = p->alpha,
                                   .beta = first ? p->beta : 1.0f,
                                   .bias = p->bias && last ? s->bias : NULL};
    kernels->finish_product(&end);
}

void rapti_matmul_run_product(void *wave, int64_t task, int32_t thread) {
    const rapti_matmul_wave *w = wave;
    const rapti_matmul_plan *plan = w->plan;
    local s = {0};
    carve(plan, w->scratch + (size_t)thread * plan->thread_bytes, &s);
    const rows m = find_rows(w, task / plan->column_tasks);
    const int64_t part = task % plan->column_tasks;
    const int64_t past = (part + 1) * w->panels / plan->column_tasks;
    for (int64_t i = 0; i < m.count; i++) { s.ones[i] = 1.0f; }
    for (int64_t i = part * w->panels / plan->column_tasks; i < past; i++) {
        const panel n = find_panel(w, i);
        const panel next = find_panel(w, i + 1);
        prefetch_next(w, &m, i + 1 < past ? &next : NULL, &s);
        multiply_panel(w, &m, &n, &s);
    }
}
