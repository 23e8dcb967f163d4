/* SPDX-License-Identifier: MIT
 * case.c: random cases: drawing and text. */
#include "case.h"

#include "fill.h"
#include "layout.h"
#include "problem.h"
#include "rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(name, simplest)                                                                      \
    { #name, offsetof(test_case, name), simplest }
const case_field case_fields[] = {
    FIELD(seed, 0),        FIELD(b, 1),
    FIELD(hkv, 1),         FIELD(group, 1),
    FIELD(tq, 1),          FIELD(tk, 1),
    FIELD(d, 1),           FIELD(dv, 1),
    FIELD(causal, 0),      FIELD(scale, 0),
    FIELD(window, 0),      FIELD(left, 0),
    FIELD(right, 0),       FIELD(mask_rank, 0),
    FIELD(mask_ones, 0),   FIELD(mask_layout, 0),
    FIELD(mask_kind, 0),   FIELD(bias_rank, 0),
    FIELD(bias_ones, 0),   FIELD(bias_layout, 0),
    FIELD(bias_kind, 0),   FIELD(lengths, 0),
    FIELD(layout_q, 0),    FIELD(layout_k, 0),
    FIELD(layout_v, 0),    FIELD(layout_out, 0),
    FIELD(layout_lse, 0),  FIELD(no_lse, 0),
    FIELD(in_place, 0),    FIELD(fill_qk, 0),
    FIELD(fill_v, 0),      FIELD(hidden, 0),
    FIELD(spoiled, 0),     FIELD(threads, 1),
    FIELD(side, 0),        FIELD(scratch, 0),
    FIELD(call, 0),        FIELD(score, 0),
    FIELD(units, 0),       FIELD(key_dim, 0),
    FIELD(weights, 0),     FIELD(dropout, 0),
    FIELD(keep_rank, 0),   FIELD(keep_ones, 0),
    FIELD(keep_layout, 0), FIELD(layout_weights, 0),
};
const int case_field_count = sizeof case_fields / sizeof *case_fields;

int64_t *case_at(test_case *c, int field) {
    return (int64_t *)(void *)((char *)c + case_fields[field].offset);
}

/* ---- Drawing ---- */

/* Mostly up to 9, else a multiple of what the tiles of the instruction sets are made of, or its
 * neighbour. */
static int64_t draw_size(rng *r, int64_t most) {
    static const int64_t tiles[] = {3, 5, 6, 7, 8, 12, 15, 16, 24, 32, 48, 64, 128, 256};
    if (rng_chance(r, 50)) return rng_range(r, 1, 9);
    if (rng_chance(r, 1)) return 0;
    int64_t size = 0;
    do {
        size = tiles[rng_range(r, 0, 13)] * rng_range(r, 1, 3) + rng_range(r, -1, 1);
    } while (size > most);
    return size;
}

/* Halves sizes until the products take no more than `work` multiply-adds. */
static void limit_work(test_case *c, rng *r, int64_t work) {
    int64_t *const sizes[] = {&c->b, &c->hkv, &c->group, &c->tq, &c->tk, &c->d, &c->dv};
    while (c->b * c->hkv * c->group * c->tq * c->tk * (c->d + c->dv + 8) > work) {
        int64_t *size = sizes[rng_range(r, 0, 6)];
        if (*size > 4 || (*size > 1 && size < &c->tq)) *size /= 2;
    }
}

static void draw_shape(test_case *c, rng *r) {
    c->b = rng_range(r, 1, 3);
    c->hkv = rng_range(r, 1, 3);
    c->group = rng_chance(r, 60) ? 1 : rng_range(r, 2, 5);
    c->tq = draw_size(r, 400);
    c->tk = draw_size(r, 800);
    c->d = draw_size(r, 300);
    c->dv = rng_chance(r, 50) ? c->d : draw_size(r, 300);
    const int64_t luck = rng_range(r, 0, 999);
    limit_work(c, r, luck < 10 ? 4000000 : luck < 100 ? 400000 : 40000);
}

static void draw_limits(test_case *c, rng *r) {
    c->causal = rng_chance(r, 50) ? 0 : rng_range(r, 1, 2);
    c->scale = rng_chance(r, 70) ? 0 : rng_range(r, 1, 4);
    if (rng_chance(r, 25)) {
        c->window = 1;
        c->left = rng_chance(r, 20) ? CASE_NO_LIMIT + 1 : rng_range(r, 0, c->tk + 2);
        c->right = rng_chance(r, 40)   ? 0
                   : rng_chance(r, 20) ? CASE_NO_LIMIT + 1
                                       : rng_range(r, 0, c->tk + 2);
    }
    c->lengths = rng_chance(r, 70) ? 0 : rng_range(r, 1, LENGTH_KINDS - 1);
}

static void draw_masks(test_case *c, rng *r) {
    if (rng_chance(r, 30)) {
        c->mask_rank = rng_range(r, 1, 4);
        c->mask_ones = rng_range(r, 0, 15) & rng_range(r, 0, 15);
        c->mask_layout = rng_chance(r, 50) ? 0 : rng_range(r, 0, LAYOUT_COUNT - 1);
        c->mask_kind = rng_range(r, 0, MASK_KINDS - 1);
    }
    if (rng_chance(r, 30)) {
        c->bias_rank = rng_range(r, 1, 4);
        c->bias_ones = rng_range(r, 0, 15) & rng_range(r, 0, 15);
        c->bias_layout = rng_chance(r, 50) ? 0 : rng_range(r, 0, LAYOUT_COUNT - 1);
        c->bias_kind = rng_range(r, 0, BIAS_KINDS - 1);
    }
}

static void draw_memory(test_case *c, rng *r) {
    if (rng_chance(r, 60)) {
        c->layout_q = rng_range(r, 0, LAYOUT_COUNT - 1);
        c->layout_k = rng_range(r, 0, LAYOUT_COUNT - 1);
        c->layout_v = rng_range(r, 0, LAYOUT_COUNT - 1);
        c->layout_out = rng_range(r, 0, LAYOUT_WRITABLE - 1);
        c->layout_lse = rng_range(r, 0, LAYOUT_WRITABLE - 1);
    }
    c->no_lse = rng_chance(r, 20);
    c->in_place = rng_chance(r, 10);
    c->side = rng_chance(r, 30);
    c->scratch = rng_chance(r, 10);
    c->threads = rng_chance(r, 90) ? 1 : rng_range(r, 2, 4);
}

static void draw_call(test_case *c, rng *r) {
    const int64_t luck = rng_range(r, 0, 99);
    c->call = luck < 80 ? CALL_FORWARD : luck < 92 ? CALL_PASS : CALL_SCORED;
    c->score = rng_range(r, 0, 2);
    c->units = rng_range(r, 0, 9);
    c->key_dim = rng_chance(r, 50) ? c->d : rng_range(r, 0, 9);
    c->weights = rng_chance(r, 60) ? WEIGHTS_NONE : rng_range(r, 1, WEIGHTS_KINDS - 1);
    c->layout_weights = rng_chance(r, 50) ? 0 : rng_range(r, 0, LAYOUT_WRITABLE - 1);
}

static void draw_dropout(test_case *c, rng *r) {
    if (rng_chance(r, 60)) return;
    c->dropout = rng_range(r, 1, DROPOUT_KINDS - 1);
    if (rng_chance(r, 60)) return;
    c->keep_rank = rng_range(r, 1, 4);
    c->keep_ones = rng_range(r, 0, 15) & rng_range(r, 0, 15);
    c->keep_layout = rng_chance(r, 50) ? 0 : rng_range(r, 0, LAYOUT_COUNT - 1);
}

test_case case_draw(uint64_t seed) {
    rng r = rng_make(seed, 0);
    test_case c = {.seed = (int64_t)(seed & INT64_MAX)};
    draw_shape(&c, &r);
    draw_limits(&c, &r);
    draw_masks(&c, &r);
    draw_memory(&c, &r);
    c.fill_qk = rng_chance(&r, 60) ? 0 : rng_range(&r, 1, FILL_COUNT - 1);
    c.fill_v = rng_chance(&r, 60) ? 0 : rng_range(&r, 1, FILL_COUNT - 1);
    c.hidden = rng_range(&r, 0, HIDDEN_KINDS - 1);
    c.spoiled = rng_chance(&r, 90) ? 0 : rng_range(&r, 1, SPOILED_KINDS - 1);
    draw_call(&c, &r);
    draw_dropout(&c, &r);
    case_settle(&c);
    return c;
}

static int64_t at_most(int64_t value, int64_t limit) { return value < limit ? value : limit; }

/* Fields that the function in question does not have. */
static void settle_call(test_case *c) {
    const bool additive = c->call == CALL_SCORED && c->score == RAPT_SCORE_ADDITIVE;
    if (c->call == CALL_SCORED && !c->weights) c->weights = WEIGHTS_AFTER;
    if (c->call != CALL_SCORED) c->score = 0;
    if (additive) { /* the oracle takes D * U steps per pair */
        c->d = at_most(c->d, 20);
        c->dv = at_most(c->dv, 20);
    } else {
        c->units = c->key_dim = 0;
    }
    if (c->call != CALL_PASS) return;
    c->layout_q = c->layout_k = c->layout_v = c->layout_out = c->fill_v = c->in_place = 0;
    c->d = c->dv = 1;
    if (!c->weights) c->weights = WEIGHTS_AFTER;
    if (c->spoiled == SPOILED_K || c->spoiled == SPOILED_V || c->spoiled == SPOILED_V_INF) {
        c->spoiled = SPOILED_Q;
    }
}

void case_settle(test_case *c) {
    settle_call(c);
    if (c->in_place && c->d != c->dv) c->in_place = 0;
    if (c->in_place && c->layout_q >= LAYOUT_WRITABLE) c->layout_q = 0;
    if (c->in_place) c->layout_out = 0;
    if (c->no_lse) c->layout_lse = 0;
    if (!c->weights) c->layout_weights = 0;
    if (c->dropout <= DROPOUT_OFF) c->keep_rank = 0;
    if (!c->keep_rank) c->keep_ones = c->keep_layout = 0;
    if (!c->window) c->left = c->right = 0;
    if (!c->mask_rank) c->mask_ones = c->mask_layout = c->mask_kind = 0;
    if (!c->bias_rank) c->bias_ones = c->bias_layout = c->bias_kind = 0;
    if (c->spoiled >= SPOILED_BIAS && !c->bias_rank) c->spoiled = SPOILED_NO;
    /* Weights that underflow would leave open whether infinity times zero is seen. */
    if (c->spoiled == SPOILED_V_INF) c->fill_qk = c->scale = c->bias_kind = 0;
}

/* ---- Text ---- */

const char *case_text(const test_case *c) {
    static char text[1024];
    size_t used = 0;
    text[0] = '\0';
    for (int n = 0; n < case_field_count && used < sizeof text; n++) {
        test_case copy = *c;
        const int64_t value = *case_at(&copy, n);
        if (n > 0 && value == case_fields[n].simplest) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s=%" PRId64, n ? " " : "",
                                 case_fields[n].name, value);
    }
    return text;
}

static int field_named(const char *name, size_t length) {
    for (int n = 0; n < case_field_count; n++) {
        if (strlen(case_fields[n].name) == length &&
            strncmp(case_fields[n].name, name, length) == 0) {
            return n;
        }
    }
    return -1;
}

bool case_parse(const char *text, test_case *c) {
    for (int n = 0; n < case_field_count; n++) *case_at(c, n) = case_fields[n].simplest;
    while (*text) {
        const size_t length = strcspn(text, "= ");
        const int field = field_named(text, length);
        if (field < 0 || text[length] != '=') return false;
        char *end = NULL;
        *case_at(c, field) = strtoll(text + length + 1, &end, 10);
        if (end == text + length + 1) return false;
        text = end + strspn(end, " ");
    }
    return true;
}
