/* SPDX-License-Identifier: MIT
 * attention_case.c: reads an attention problem's name and makes its data (attention_case.h). */
#include "attention_case.h"

#include "data.h"
#include "kind.h"

#include <stdlib.h>

static int take_form(const char **at, bench_problem *p) {
    static const char *const names[] = {"full",    "causal", "window", "mask",
                                        "lengths", "bias",   "dropout"};
    for (int form = BENCH_FULL; form <= BENCH_DROPOUT; form++) {
        if (bench_take_text(at, names[form])) {
            p->form = (bench_form)form;
            return form != BENCH_WINDOW || bench_take_number(at, &p->window);
        }
    }
    return 0;
}

static int can_run(const bench_problem *p) {
    return p->batch > 0 && p->kv_heads > 0 && p->q_heads > 0 && p->queries > 0 && p->keys > 0 &&
           p->head_dim > 0 && p->value_dim > 0 && p->q_heads % p->kv_heads == 0;
}

int bench_problem_parse(const char *at, bench_problem *p) {
    *p = (bench_problem){.form = BENCH_FULL};
    return bench_take_number(&at, &p->batch) && bench_take_text(&at, "x") &&
           bench_take_pair(&at, &p->q_heads, &p->kv_heads) && bench_take_text(&at, "x") &&
           bench_take_pair(&at, &p->queries, &p->keys) && bench_take_text(&at, "x") &&
           bench_take_pair(&at, &p->head_dim, &p->value_dim) && bench_take_text(&at, "-") &&
           take_form(&at, p) && *at == '\0' && can_run(p);
}

static rapt_tensor normal(uint64_t seed, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
    return bench_data_normal(seed, 4, (int64_t[]){n0, n1, n2, n3});
}

/* From all keys in the first batch item down to half of them. */
static rapt_tensor lengths_tensor(const bench_problem *p) {
    rapt_tensor t = bench_data_allocate(RAPT_I64, 1, &p->batch);
    int64_t *x = t.data;
    for (int64_t b = 0; x && b < p->batch; b++) { x[b] = p->keys - p->keys * b / (2 * p->batch); }
    return t;
}

/* What the form adds. Returns 0 if memory ran out. */
static int add_form(bench_attention *c) {
    const bench_problem *p = &c->problem;
    switch (p->form) {
    case BENCH_FULL: break;
    case BENCH_DROPOUT: c->what.dropout = (rapt_dropout){1, 0.1, 1, 0}; break;
    case BENCH_WINDOW: c->what.window = (rapt_window){1, p->window, 0}; /* fall through */
    case BENCH_CAUSAL: c->what.causal = RAPT_CAUSAL_BOTTOM_RIGHT; break;
    case BENCH_MASK:
        c->mask = bench_data_mask(4, 4, (int64_t[]){p->batch, 1, p->queries, p->keys});
        c->operands.mask = &c->mask;
        return c->mask.data != NULL;
    case BENCH_LENGTHS:
        c->key_lengths = lengths_tensor(p);
        c->operands.key_lengths = &c->key_lengths;
        return c->key_lengths.data != NULL;
    case BENCH_BIAS:
        c->bias = normal(5, 1, p->q_heads, p->queries, p->keys);
        c->operands.bias = &c->bias;
        return c->bias.data != NULL;
    }
    return 1;
}

bench_attention *bench_attention_create(const bench_problem *p) {
    bench_attention *c = calloc(1, sizeof *c);
    if (!c) { return NULL; }
    c->problem = *p;
    c->q = normal(1, p->batch, p->q_heads, p->queries, p->head_dim);
    c->k = normal(2, p->batch, p->kv_heads, p->keys, p->head_dim);
    c->v = normal(3, p->batch, p->kv_heads, p->keys, p->value_dim);
    c->out = bench_data_allocate(RAPT_F32, 4,
                                 (int64_t[]){p->batch, p->q_heads, p->queries, p->value_dim});
    c->operands = (rapt_attention_operands){.q = &c->q, .k = &c->k, .v = &c->v, .out = &c->out};
    if (add_form(c) && c->q.data && c->k.data && c->v.data && c->out.data) { return c; }
    bench_attention_destroy(c);
    return NULL;
}

void bench_attention_destroy(void *attention) {
    bench_attention *c = attention;
    free(c->q.data);
    free(c->k.data);
    free(c->v.data);
    free(c->out.data);
    free(c->mask.data);
    free(c->bias.data);
    free(c->key_lengths.data);
    free(c->scores);
    free(c);
}

int bench_attention_parts(const bench_attention *c, double gflop) {
    const double least_gflop = 0.6; /* 4 ms at 150 Gflop/s */
    const int heads = (int)c->problem.kv_heads;
    int parts = heads;
    while (parts > 1 && (heads % parts != 0 || gflop / parts < least_gflop)) { parts--; }
    return parts;
}

rapt_tensor bench_attention_part(const rapt_tensor *t, int part, int parts) {
    const int64_t heads = t->size[1] / parts;
    return t->size[1] > 1 ? rapt_tensor_slice(*t, 1, part * heads, heads) : *t;
}

void bench_attention_spoil(void *attention) {
    bench_data_spoil(&((bench_attention *)attention)->out);
}
