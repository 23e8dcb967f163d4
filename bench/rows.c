/* SPDX-License-Identifier: MIT
 * rows.c: the table of rows: adding one is one line. */
#include "rows.h"

#include "kind.h"

#include <fnmatch.h>
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
    {.name = "fwd-f32-1x12x1024x64-dropout", .times = 1.35, .against = "fwd-f32-1x12x1024x64-full"},
    {.name = "fwd-f32-1x12x113/203x59-full", .share = {0.60, 0.60}},
    {.name = "fwd-f32-1x12x113/203x59-causal", .share = {0.60, 0.60}},
    {.name = "fwd-f32-1x12x113/203x111-full", .share = {0.60, 0.60}},
    {.name = "fwd-f32-1x12x113/203x111-causal", .share = {0.60, 0.60}},
    {.name = "fwd-f32-1x12x197x64-full", .share = {0.60, 0.60}},
    {.name = "fwd-f32-1x12x512x40-full", .share = {0.60, 0.60}},
    {.name = "fwd-f32-1x12x512x80-full", .share = {0.60, 0.60}},
    {.name = "fwd-f32-1x12x512x96-full", .share = {0.60, 0.60}},
    {.name = "fwd-f32-1x12x512x256-full", .share = {0.60, 0.60}},
    {.name = "bwd-f32-1x12x128x64-full"},
    {.name = "bwd-f32-1x12x128x64-causal"},
    {.name = "bwd-f32-1x12x512x64-full"},
    {.name = "bwd-f32-1x12x512x64-causal", .share = {0.75, 0.70}},
    {.name = "bwd-f32-1x12x1024x64-full", .share = {0.85, 0.78}, .two_threads = 1.9},
    {.name = "bwd-f32-1x12x1024x64-causal", .share = {0.80, 0.74}, .two_threads = 1.9},
    {.name = "bwd-f32-1x12x1024x64-dropout", .times = 1.4, .against = "bwd-f32-1x12x1024x64-full"},
    {.name = "bwd-f32-8x16x512x128-causal", .two_threads = 1.9},
    {.name = "bwd-f32-8x16x1024x128-causal", .two_threads = 1.9},
    {.name = "bwd-f32-1x1x4096x64-full", .two_threads = 1.9},
    {.name = "bwd-f32-1x1x4096x64-window256", .times = 0.15, .against = "bwd-f32-1x1x4096x64-full"},
    {.name = "matmul-f32-1024x768x768", .share = {0.87, 0.85}, .two_threads = 1.9},
    {.name = "matmul-f32-8192x2304x768", .share = {0.87, 0.85}, .two_threads = 1.9},
    {.name = "matmul-f32-512x512x512-nn", .share = {0.87, 0.85}, .two_threads = 1.9},
    {.name = "matmul-f32-96x1024x1024x64", .share = {0.50, 0.50}},
    {.name = "module-f32-8x1024x768-split", .share = {0.82, 0.82}, .two_threads = 1.9},
    {.name = "module-f32-8x1024x768-stacked",
     .times = 1.15,
     .against = "module-f32-8x1024x768-split"},
    {.name = "module-f32-8x1024x768-weights",
     .times = 1.5,
     .against = "module-f32-8x1024x768-split"},
    {.name = "module-f32-8x1024x768-training", .share = {0.75, 0.75}, .two_threads = 1.9},
    {.name = "textbook-f32-1x12x128x64-full"},
    {.name = "textbook-f32-1x12x1024x64-full"},
    {.name = "textbook-f32-1x12x1024x64-causal"},
};
enum { TABLE_ROWS = sizeof table / sizeof table[0] };

const bench_row *bench_row_at(int index) {
    return index >= 0 && index < TABLE_ROWS ? &table[index] : NULL;
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
        const char *rest = NULL;
        int known = 0;
        for (int i = 0; i < count; i++) { known |= strcmp(rows[i].name, *patterns) == 0; }
        if (!known && bench_kind_of(*patterns, &rest)) {
            rows[count++] = (bench_row){.name = *patterns};
        }
    }
    return count;
}
