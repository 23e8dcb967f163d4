/* SPDX-License-Identifier: MIT
 * bars.c: computes bars (bars.h). */
#include "bars.h"

#include <math.h>
#include <string.h>

void bench_history_add(bench_history *history, bench_measured measured) {
    if (history->count < BENCH_HISTORY) { history->item[history->count++] = measured; }
}

static const bench_measured *find(const bench_history *history, const char *row, const char *isa) {
    for (int i = 0; i < history->count; i++) {
        const bench_measured *m = &history->item[i];
        if (m->threads == 1 && strcmp(m->row, row) == 0 && strcmp(m->isa, isa) == 0) { return m; }
    }
    return NULL;
}

double bench_bar(const bench_row *row, const bench_measured *now, const bench_history *history) {
    double bar = 0;
    if (now->threads == 2 && row->two_threads > 0) {
        const bench_measured *one = find(history, row->name, now->isa);
        bar = one ? one->share * row->two_threads / 2 : 0;
    } else if (now->threads == 1 && row->against) {
        const bench_measured *other = find(history, row->against, now->isa);
        bar = other ? other->share * now->gflop / (other->gflop * row->times) : 0;
    } else if (now->threads == 1 && strcmp(now->isa, "avx512") == 0) {
        bar = row->share[0];
    } else if (now->threads == 1 && strcmp(now->isa, "avx2") == 0) {
        bar = row->share[1];
    }
    return bar > 0 ? bar : NAN;
}
