/* SPDX-License-Identifier: MIT
 * product_call.c: see product_call.h. */
#include "product_call.h"

#include "compare.h"
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT_GAP = 0xff, OUTPUT_GAP = 0xa5 };
static const char *const names[PRODUCT_IDS] = {"a", "b", "bias", "c"};

/* ---- Make ---- */

void product_place(product_call *p, product_id id, layout l, int32_t rank, const int64_t *size) {
    guard_return(&p->memory[id]);
    rapt_tensor *t = &p->t[id];
    *t = layout_tensor(l, RAPT_F32, rank, size);
    int64_t before = 0, after = 0;
    const int64_t span = layout_reach(t, &before, &after) ? before + after + 1 : 0;
    p->memory[id] = guard_take((size_t)span * sizeof(float), sizeof(float), p->side,
                               id == PRODUCT_C ? OUTPUT_GAP : INPUT_GAP);
    t->data = p->memory[id].data + before * (int64_t)sizeof(float);
    for (walk w = walk_begin(t); !w.done; walk_next(&w)) { *walk_f32(&w) = 0.0f; }
}

void product_fill(product_call *p, uint64_t seed) {
    for (product_id id = 0; id < PRODUCT_IDS; id++) {
        rng r = rng_make(seed, (uint64_t)id);
        for (walk w = walk_begin(&p->t[id]); p->t[id].rank && !w.done; walk_next(&w)) {
            *walk_f32(&w) = (float)rng_normal(&r);
        }
    }
}

void product_make(product_call *p, int64_t m, int64_t k, int64_t n, uint64_t seed) {
    *p = (product_call){0};
    product_place(p, PRODUCT_A, LAYOUT_DENSE, 2, (int64_t[]){m, k});
    product_place(p, PRODUCT_B, LAYOUT_DENSE, 2, (int64_t[]){k, n});
    product_place(p, PRODUCT_C, LAYOUT_DENSE, 2, (int64_t[]){m, n});
    product_fill(p, seed);
}

void product_free(product_call *p) {
    for (product_id id = 0; id < PRODUCT_IDS; id++) { guard_return(&p->memory[id]); }
    free(p->want);
    free(p->tol);
    *p = (product_call){0};
}

/* ---- Oracle ---- */

/* Element [i, j] of an operand for the leading index of C's element at `w`. */
static const float *element(const rapt_tensor *t, const walk *w, int64_t i, int64_t j) {
    int64_t at = i * t->stride[t->rank - 2] + j * t->stride[t->rank - 1];
    for (int32_t axis = 0; axis < t->rank - 2; axis++) {
        const int64_t index = w->index[axis + w->t->rank - t->rank];
        at += t->size[axis] == 1 ? 0 : index * t->stride[axis];
    }
    return (const float *)t->data + at;
}

/* sum_k A[i,k] B[k,j] and the sum of the absolute terms. */
static double dot(const product_call *p, const walk *w, double *magnitude) {
    const rapt_tensor *a = &p->t[PRODUCT_A], *b = &p->t[PRODUCT_B];
    const float *x = element(a, w, w->index[w->t->rank - 2], 0);
    const float *y = element(b, w, 0, w->index[w->t->rank - 1]);
    const int64_t x_step = a->stride[a->rank - 1], y_step = b->stride[b->rank - 2];
    double sum = 0;
    *magnitude = 0;
    for (int64_t k = 0; k < a->size[a->rank - 1]; k++) {
        const double term = (double)x[k * x_step] * (double)y[k * y_step];
        sum += term;
        *magnitude += fabs(term);
    }
    return sum;
}

/* Roundings on the way from a product of two elements to the result: two per term of an unfused
 * sum; two per block of k (alpha, the addition to C), and a block has 512 terms or is alone; beta
 * and bias. Each is off by half a unit in the last place of a partial sum, which the sum of all
 * absolute terms bounds; or, below the normal range, by 2^-150. */
static double tolerance(const product_call *p, int64_t k, double magnitude) {
    const double roundings = 2.02 * (double)k + 16;
    const double alpha = p->what.alpha.on ? fabs((double)p->what.alpha.value) : 1.0;
    return 1.01 * roundings * (0x1p-24 * magnitude + 0x1p-150 * (1 + alpha));
}

void product_expect(product_call *p) {
    const rapt_tensor *bias = &p->t[PRODUCT_BIAS], *c = &p->t[PRODUCT_C];
    const double alpha = p->what.alpha.on ? (double)p->what.alpha.value : 1.0;
    const int64_t inner = p->t[PRODUCT_A].size[p->t[PRODUCT_A].rank - 1];
    size_t count = 1, n = 0;
    for (int32_t axis = 0; axis < c->rank; axis++) { count *= (size_t)c->size[axis]; }
    free(p->want);
    free(p->tol);
    p->want = malloc((count + 1) * sizeof(double));
    p->tol = malloc((count + 1) * sizeof(double));
    REQUIRE(p->want && p->tol, "out of memory");
    for (walk w = walk_begin(c); !w.done; walk_next(&w), n++) {
        double magnitude = 0, sum = alpha * dot(p, &w, &magnitude);
        magnitude *= fabs(alpha);
        if (p->what.beta != 0.0f) {
            const double old = (double)p->what.beta * (double)*walk_f32(&w);
            sum += old;
            magnitude += fabs(old);
        }
        if (bias->rank) {
            const double added =
                (double)((const float *)bias->data)[w.index[c->rank - 1] * bias->stride[0]];
            sum += added;
            magnitude += fabs(added);
        }
        p->want[n] = sum;
        p->tol[n] = tolerance(p, inner, magnitude);
    }
}

/* ---- Run ---- */

rapt_matmul_operands product_operands(const product_call *p) {
    return (rapt_matmul_operands){.a = &p->t[PRODUCT_A],
                                  .b = &p->t[PRODUCT_B],
                                  .bias = p->t[PRODUCT_BIAS].rank ? &p->t[PRODUCT_BIAS] : NULL,
                                  .c = &p->t[PRODUCT_C]};
}

static bool intact(const product_call *p, bool written, char *why, size_t why_bytes) {
    ptrdiff_t offset = 0;
    for (product_id id = 0; id < PRODUCT_IDS; id++) {
        if (!p->t[id].rank) { continue; }
        const rapt_tensor *t = &p->t[id];
        for (walk w = walk_begin(t); written && id == PRODUCT_C && !w.done; walk_next(&w)) {
            guard_accept(&p->memory[id], walk_byte(&w), sizeof(float));
        }
        if (guard_intact(&p->memory[id], &offset)) { continue; }
        snprintf(why, why_bytes, "%s: byte %td changed", names[id], offset);
        return false;
    }
    return true;
}

bool product_run(product_call *p, rapt_status *status, char *why, size_t why_bytes) {
    rapt_context *context = harness_context(p->threads ? p->threads : 1);
    rapt_matmul_operands operands = product_operands(p);
    for (walk w = walk_begin(&p->t[PRODUCT_C]); p->what.beta == 0.0f && !w.done; walk_next(&w)) {
        *walk_f32(&w) = NAN;
    }
    for (product_id id = 0; id < PRODUCT_IDS; id++) {
        if (p->t[id].rank) { guard_seal(&p->memory[id]); }
    }
    guard_block scratch = {0};
    int64_t bytes = 0;
    if (p->caller_scratch && rapt_matmul_scratch(context, &p->what, &operands, &bytes) == RAPT_OK) {
        scratch = guard_take((size_t)bytes, 64, GUARD_AFTER, 0xff);
        guard_seal(&scratch);
        operands.scratch = scratch.data;
        operands.scratch_bytes = (size_t)bytes;
    }
    *status = rapt_matmul_run(context, &p->what, &operands);
    bool good = intact(p, *status == RAPT_OK, why, why_bytes);
    if (scratch.data) {
        ptrdiff_t offset = 0;
        guard_accept(&scratch, scratch.data, scratch.bytes);
        if (good && !guard_intact(&scratch, &offset)) {
            snprintf(why, why_bytes, "scratch: byte %td changed", offset);
            good = false;
        }
        guard_return(&scratch);
    }
    return good;
}

bool product_try(product_call *p, char *why, size_t why_bytes) {
    rapt_status status = RAPT_OK;
    product_expect(p);
    if (!product_run(p, &status, why, why_bytes)) { return false; }
    if (status != RAPT_OK) {
        snprintf(why, why_bytes, "%s: %s", rapt_status_name(status),
                 rapt_context_message(harness_context(p->threads ? p->threads : 1)));
        return false;
    }
    size_t n = 0;
    for (walk w = walk_begin(&p->t[PRODUCT_C]); !w.done; walk_next(&w), n++) {
        const double got = (double)*walk_f32(&w);
        if (compare_value(got, p->want[n], p->tol[n])) { continue; }
        snprintf(why, why_bytes, "element %zu (row %lld, column %lld): %.9g, want %.9g +- %.3g", n,
                 (long long)w.index[w.t->rank - 2], (long long)w.index[w.t->rank - 1], got,
                 p->want[n], p->tol[n]);
        return false;
    }
    return true;
}

const char *product_text(const product_call *p) {
    static char text[1024];
    int used = snprintf(text, sizeof text, "alpha %d %g, beta %g, threads %d", p->what.alpha.on,
                        (double)p->what.alpha.value, (double)p->what.beta, p->threads);
    for (product_id id = 0; id < PRODUCT_IDS; id++) {
        const rapt_tensor *t = &p->t[id];
        if (!t->rank) { continue; }
        used += snprintf(text + used, sizeof text - (size_t)used, "; %s", names[id]);
        for (int32_t axis = 0; axis < t->rank; axis++) {
            used += snprintf(text + used, sizeof text - (size_t)used, " %lld:%lld",
                             (long long)t->size[axis], (long long)t->stride[axis]);
        }
    }
    return text;
}
