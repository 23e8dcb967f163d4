/* SPDX-License-Identifier: MIT
 * guarded.c: see guarded.h. */
#include "guarded.h"

#include "compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT_GAP = 0xff, OUTPUT_GAP = 0xa5 };

static size_t bytes_of(const rapt_tensor *t) { return (size_t)rapt_dtype_bytes(t->dtype); }

void guarded_place(guarded *g, const char *name, bool output, layout l, guard_side side,
                   rapt_dtype dtype, int32_t rank, const int64_t *size) {
    guard_return(&g->memory);
    *g = (guarded){.t = layout_tensor(l, dtype, rank, size), .name = name, .output = output};
    int64_t before = 0, after = 0;
    const int64_t span = layout_reach(&g->t, &before, &after) ? before + after + 1 : 0;
    const size_t bytes = bytes_of(&g->t);
    g->memory = guard_take((size_t)span * bytes, bytes, side, output ? OUTPUT_GAP : INPUT_GAP);
    g->t.data = g->memory.data + before * (int64_t)bytes;
    for (walk w = walk_begin(&g->t); !w.done; walk_next(&w)) { memset(walk_byte(&w), 0, bytes); }
}

void guarded_free(guarded *g, int count) {
    for (int n = 0; n < count; n++) {
        guard_return(&g[n].memory);
        g[n] = (guarded){0};
    }
}

const rapt_tensor *guarded_tensor(const guarded *g) { return g->t.rank ? &g->t : NULL; }

void guarded_fill(guarded *g, rng *r) {
    for (walk w = walk_begin(&g->t); g->t.rank && !w.done; walk_next(&w)) {
        if (g->t.dtype == RAPT_BOOL) {
            *walk_byte(&w) = rng_chance(r, 70);
        } else {
            *walk_f32(&w) = (float)rng_normal(r);
        }
    }
}

void guarded_set(guarded *g, float value) {
    for (walk w = walk_begin(&g->t); g->t.rank && !w.done; walk_next(&w)) { *walk_f32(&w) = value; }
}

void guarded_seal(const guarded *g, int count) {
    for (int n = 0; n < count; n++) {
        if (g[n].t.rank) { guard_seal(&g[n].memory); }
    }
}

bool guarded_intact(const guarded *g, int count, bool failed, char *why, size_t why_bytes) {
    for (int n = 0; n < count; n++) {
        const rapt_tensor *t = &g[n].t;
        ptrdiff_t offset = 0;
        if (!t->rank) { continue; }
        for (walk w = walk_begin(t); g[n].output && !failed && !w.done; walk_next(&w)) {
            guard_accept(&g[n].memory, walk_byte(&w), bytes_of(t));
        }
        if (guard_intact(&g[n].memory, &offset)) { continue; }
        snprintf(why, why_bytes, "%s: byte %td changed", g[n].name, offset);
        return false;
    }
    return true;
}

bool guarded_matches(const guarded *g, const double *want, const double *tol, char *why,
                     size_t why_bytes) {
    size_t n = 0;
    for (walk w = walk_begin(&g->t); !w.done; walk_next(&w), n++) {
        const double got = (double)*walk_f32(&w);
        if (compare_value(got, want[n], tol[n])) { continue; }
        int used = snprintf(why, why_bytes, "%s", g->name);
        for (int32_t axis = 0; axis < g->t.rank; axis++) {
            used +=
                snprintf(why + used, why_bytes - (size_t)used, "[%lld]", (long long)w.index[axis]);
        }
        snprintf(why + used, why_bytes - (size_t)used, ": %.9g, want %.9g +- %.3g", got, want[n],
                 tol[n]);
        return false;
    }
    return true;
}

const char *guarded_text(const guarded *g, int count) {
    static char text[2048];
    int used = 0;
    for (int n = 0; n < count; n++) {
        if (!g[n].t.rank) { continue; }
        used += snprintf(text + used, sizeof text - (size_t)used, "; %s", g[n].name);
        for (int32_t axis = 0; axis < g[n].t.rank; axis++) {
            used += snprintf(text + used, sizeof text - (size_t)used, " %lld:%lld",
                             (long long)g[n].t.size[axis], (long long)g[n].t.stride[axis]);
        }
    }
    return text;
}

int64_t guarded_count(const rapt_tensor *t) {
    int64_t count = 1;
    for (int32_t axis = 0; axis < t->rank; axis++) { count *= t->size[axis]; }
    return count;
}

uint64_t number_from(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}
