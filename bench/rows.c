/* SPDX-License-Identifier: MIT
 * rows.c: the table of rows (adding one is one line), and how a name is read. */
#include "rows.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* A row that others are compared with stands before them. */
static const bench_row table[] = {
    {.name = "fwd-f32-1x1x1x64-full", .most_us = 1.0},
    {.name = "fwd-f32-1x12x128x64-full", .share = {0.74, 0.70}},
    {.name = "fwd-f32-1x12x128x64-causal"},
    {.name = "fwd-f32-1x12x512x64-full"},
    {.name = "fwd-f32-1x12x512x64-causal", .share = {0.73, 0.72}},
    {.name = "fwd-f32-1x12x1024x64-full", .share = {0.82, 0.83}, .two_threads = 1.9},
    {.name = "fwd-f32-1x12x1024x64-causal", .share = {0.77, 0.78}, .two_threads = 1.9},
    {.name = "fwd-f32-1x12x4096x64-full", .share = {0.86, 0.83}, .two_threads = 1.9},
    {.name = "fwd-f32-1x12x4096x64-causal", .share = {0.83, 0.78}, .two_threads = 1.9},
    {.name = "fwd-f32-8x16x512x128-causal", .share = {0.78, 0.76}, .two_threads = 1.9},
    {.name = "fwd-f32-8x16x1024x128-causal", .share = {0.78, 0.76}, .two_threads = 1.9},
    {.name = "fwd-f32-1x32/8x1024x128-causal", .share = {0.78, 0.76}, .two_threads = 1.9},
    {.name = "fwd-f32-1x32/8x4096x128-causal", .share = {0.78, 0.76}, .two_threads = 1.9},
    {.name = "fwd-f32-1x8x2048x64-full"},
    {.name = "fwd-f32-1x8x2048x64-causal"},
    {.name = "fwd-f32-1x8x2048x64-window256", .times = 0.20, .against = "fwd-f32-1x8x2048x64-full"},
    {.name = "fwd-f32-2x10x2304/77x64-full", .share = {0.60, 0.60}},
    {.name = "fwd-f32-8x12x384x64-full"},
    {.name = "fwd-f32-8x12x384x64-mask", .times = 1.15, .against = "fwd-f32-8x12x384x64-full"},
    {.name = "fwd-f32-8x12x384x64-lengths", .times = 1.15, .against = "fwd-f32-8x12x384x64-full"},
    {.name = "fwd-f32-8x12x384x64-bias", .times = 1.15, .against = "fwd-f32-8x12x384x64-full"},
    {.name = "fwd-f32-1x12x113/203x59-full", .share = {0.60, 0.60}},
    {.name = "fwd-f32-1x12x113/203x59-causal", .share = {0.60, 0.60}},
    {.name = "fwd-f32-1x12x113/203x111-full", .share = {0.60, 0.60}},
    {.name = "fwd-f32-1x12x113/203x111-causal", .share = {0.60, 0.60}},
    {.name = "fwd-f32-1x12x197x64-full", .share = {0.60, 0.60}},
    {.name = "fwd-f32-1x12x512x40-full", .share = {0.60, 0.60}},
    {.name = "fwd-f32-1x12x512x80-full", .share = {0.60, 0.60}},
    {.name = "fwd-f32-1x12x512x96-full", .share = {0.60, 0.60}},
    {.name = "fwd-f32-1x12x512x256-full", .share = {0.60, 0.60}},
    {.name = "textbook-f32-1x12x128x64-full"},
    {.name = "textbook-f32-1x12x1024x64-full"},
    {.name = "textbook-f32-1x12x1024x64-causal"},
};
enum { TABLE_ROWS = sizeof table / sizeof table[0] };

const bench_row *bench_row_at(int index) {
    return index >= 0 && index < TABLE_ROWS ? &table[index] : NULL;
}

/* Skips `text` at *at. Returns 1, or 0 if it does not stand there. */
static int take_text(const char **at, const char *text) {
    const size_t n = strlen(text);
    const int there = strncmp(*at, text, n) == 0;
    *at += there ? n : 0;
    return there;
}

static int take_number(const char **at, int64_t *number) {
    char *end = NULL;
    if (**at < '0' || **at > '9') { return 0; }
    *number = strtoll(*at, &end, 10);
    *at = end;
    return *number <= INT32_MAX;
}

/* "12" is 12 and 12, "32/8" is 32 and 8. */
static int take_pair(const char **at, int64_t *first, int64_t *second) {
    if (!take_number(at, first)) { return 0; }
    *second = *first;
    return !take_text(at, "/") || take_number(at, second);
}

static int take_form(const char **at, bench_problem *p) {
    static const char *const names[] = {"full", "causal", "window", "mask", "lengths", "bias"};
    for (int form = BENCH_FULL; form <= BENCH_BIAS; form++) {
        if (take_text(at, names[form])) {
            p->form = (bench_form)form;
            return form != BENCH_WINDOW || take_number(at, &p->window);
        }
    }
    return 0;
}

static int can_run(const bench_problem *p) {
    const int sizes = p->batch > 0 && p->kv_heads > 0 && p->q_heads > 0 && p->queries > 0 &&
                      p->keys > 0 && p->head_dim > 0 && p->value_dim > 0;
    const int plain = p->q_heads == p->kv_heads && p->queries == p->keys &&
                      p->head_dim == p->value_dim && p->form <= BENCH_CAUSAL;
    return sizes && p->q_heads % p->kv_heads == 0 && (p->pass == BENCH_FWD || plain);
}

int bench_problem_parse(const char *name, bench_problem *p) {
    const char *at = name;
    *p = (bench_problem){.pass = BENCH_FWD};
    if (take_text(&at, "textbook-")) {
        p->pass = BENCH_TEXTBOOK;
    } else if (!take_text(&at, "fwd-")) {
        return 0;
    }
    return take_text(&at, "f32-") && take_number(&at, &p->batch) && take_text(&at, "x") &&
           take_pair(&at, &p->q_heads, &p->kv_heads) && take_text(&at, "x") &&
           take_pair(&at, &p->queries, &p->keys) && take_text(&at, "x") &&
           take_pair(&at, &p->head_dim, &p->value_dim) && take_text(&at, "-") &&
           take_form(&at, p) && *at == '\0' && can_run(p);
}

int bench_name_matches(const char *name, char *const *patterns) {
    if (!patterns) { return 1; }
    for (; *patterns; patterns++) {
        if (fnmatch(*patterns, name, 0) == 0) { return 1; }
    }
    return 0;
}

int bench_rows_select(char *const *patterns, bench_row *rows, int capacity) {
    int count = 0;
    for (int i = 0; i < TABLE_ROWS && count < capacity; i++) {
        if (bench_name_matches(table[i].name, patterns)) { rows[count++] = table[i]; }
    }
    for (; patterns && *patterns && count < capacity; patterns++) {
        bench_problem problem;
        int known = 0;
        for (int i = 0; i < count; i++) { known |= strcmp(rows[i].name, *patterns) == 0; }
        if (!known && bench_problem_parse(*patterns, &problem)) {
            rows[count++] = (bench_row){.name = *patterns};
        }
    }
    return count;
}
