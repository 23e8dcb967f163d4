/* SPDX-License-Identifier: MIT
 * test_matmul_backward.c: gradients of the matrix product against the formulas in double precision,
 * which central differences check in turn.
 *
 *   RAPT_TEST_CASES   number of random cases
 *   RAPT_TEST_SEED    seed of the first one; the others follow by adding 1 */
#include "compare.h"
#include "counter.h"
#include "gradient_call.h"
#include "harness.h"
#include "message.h"

#include <criterion/criterion.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

static char why[512];

/* ---- Random cases ---- */

/* An operand of dc's rank or less, each leading axis full or 1, and its gradient. */
static void draw_operand(call *c, int id, rng *r, int32_t rank, const int64_t *lead, int64_t rows,
                         int64_t columns) {
    int64_t size[RAPT_MAX_RANK];
    const int32_t own = rng_chance(r, 60) ? rank : (int32_t)rng_range(r, 2, rank);
    for (int32_t axis = 0; axis < own - 2; axis++) {
        size[axis] = rng_chance(r, 60) ? lead[axis + rank - own] : 1;
    }
    size[own - 2] = rows;
    size[own - 1] = columns;
    call_place(c, id, call_draw_layout(r, LAYOUT_COUNT), own, size);
    if (rng_chance(r, 75)) {
        call_place(c, id == A ? DA : DB, call_draw_layout(r, LAYOUT_WRITABLE), own, size);
    }
}

static void draw(call *c, uint64_t seed) {
    rng r = rng_make(seed, 17);
    *c = (call){.side = rng_chance(&r, 50) ? GUARD_AFTER : GUARD_BEFORE};
    const bool large = rng_chance(&r, 5); /* more rows than a chunk or a span holds */
    const int64_t m = large ? rng_range(&r, 500, 1100) : call_draw_size(&r);
    const int64_t n = large ? rng_range(&r, 1, 40) : call_draw_size(&r);
    const int64_t k = large ? rng_range(&r, 1, 20) : call_draw_size(&r);
    const int32_t rank = large || rng_chance(&r, 40) ? 2 : (int32_t)rng_range(&r, 3, 6);
    int64_t size[RAPT_MAX_RANK];
    for (int32_t axis = 0; axis < rank - 2; axis++) {
        size[axis] = rng_chance(&r, 3) ? 0 : rng_range(&r, 1, rank > 4 ? 2 : 4);
    }
    draw_operand(c, A, &r, rank, size, m, k);
    draw_operand(c, B, &r, rank, size, k, n);
    size[rank - 2] = m;
    size[rank - 1] = n;
    call_place(c, DC, call_draw_layout(&r, LAYOUT_COUNT), rank, size);
    if (rng_chance(&r, 50)) { call_place(c, DBIAS, call_draw_layout(&r, LAYOUT_WRITABLE), 1, &n); }
    for (int id = 0; id < TENSORS; id++) { guarded_fill(&c->g[id], &r); }
    const walk w = walk_begin(&c->g[DC].t);
    if (!w.done && rng_chance(&r, 5)) { *walk_f32(&w) = rng_chance(&r, 50) ? NAN : INFINITY; }
    c->what.alpha.on = rng_chance(&r, 40);
    c->what.alpha.value = rng_chance(&r, 20) ? 0.0f : (float)rng_normal(&r);
    c->what.beta = NAN; /* not looked at */
    c->accumulate = rng_chance(&r, 40);
    c->threads = rng_chance(&r, 70) ? 1 : (int32_t)rng_range(&r, 2, 4);
    c->caller_scratch = rng_chance(&r, 30);
}

Test(matmul_backward, random) {
    const uint64_t cases = number_from("RAPT_TEST_CASES", 100000) / 40;
    const uint64_t seed = number_from("RAPT_TEST_SEED", 1);
    for (uint64_t n = 0; n < cases; n++) {
        call c;
        draw(&c, seed + n);
        REQUIRE(call_try(&c, why, sizeof why), "RAPT_TEST_SEED=%" PRIu64 ": %s\naccumulate %d%s",
                seed + n, why, c.accumulate, guarded_text(c.g, TENSORS));
        call_free(&c);
    }
}

/* ---- The oracle ---- */

/* The loss sum dc (alpha a b + bias) in double precision: linear in each operand, so that central
 * differences are exact but for rounding. */
static double loss(const call *c, const double *a, const double *b, const double *bias) {
    const rapt_tensor *dc = &c->g[DC].t;
    const int64_t n = dc->size[1], inner = c->g[A].t.size[1];
    double sum = 0;
    for (walk w = walk_begin(dc); !w.done; walk_next(&w)) {
        double dot = 0;
        for (int64_t k = 0; k < inner; k++) {
            dot += a[w.index[0] * inner + k] * b[k * n + w.index[1]];
        }
        sum += (double)*walk_f32(&w) * ((double)c->what.alpha.value * dot + bias[w.index[1]]);
    }
    return sum;
}

Test(matmul_backward, oracle_by_central_differences) {
    enum { M = 4, K = 3, N = 5 };
    call c = {.what = {.alpha = {1, -0.7f}}};
    rng r = rng_make(5, 5);
    call_place(&c, A, LAYOUT_DENSE, 2, (int64_t[]){M, K});
    call_place(&c, B, LAYOUT_DENSE, 2, (int64_t[]){K, N});
    call_place(&c, DC, LAYOUT_DENSE, 2, (int64_t[]){M, N});
    call_place(&c, DA, LAYOUT_DENSE, 2, (int64_t[]){M, K});
    call_place(&c, DB, LAYOUT_DENSE, 2, (int64_t[]){K, N});
    call_place(&c, DBIAS, LAYOUT_DENSE, 1, (int64_t[]){N});
    for (int id = 0; id < TENSORS; id++) { guarded_fill(&c.g[id], &r); }
    double value[3][K * N] = {0};
    for (int id = A; id <= B; id++) {
        int at = 0;
        for (walk w = walk_begin(&c.g[id].t); !w.done; walk_next(&w)) {
            value[id][at++] = (double)*walk_f32(&w);
        }
    }
    sums want[TENSORS] = {{0}};
    const int64_t count[] = {0, 0, 0, M * K, K * N, N};
    for (int id = DA; id < TENSORS; id++) { want[id] = sums_make(count[id]); }
    call_sums(&c, want);
    for (int id = DA; id < TENSORS; id++) {
        double *const moved = value[id - DA];
        for (int64_t at = 0; at < count[id]; at++) {
            const double kept = moved[at], step = 0.5;
            moved[at] = kept + step;
            const double above = loss(&c, value[0], value[1], value[2]);
            moved[at] = kept - step;
            const double below = loss(&c, value[0], value[1], value[2]);
            moved[at] = kept;
            const double alpha = id == DBIAS ? 1.0 : (double)c.what.alpha.value;
            REQUIRE(fabs((above - below) / (2 * step) - alpha * want[id].value[at]) < 1e-12,
                    "%s[%d]", call_names[id], (int)at);
        }
        sums_free(&want[id]);
    }
    call_free(&c);
}

/* ---- Sums over the batch ---- */

/* x [3, 70, 50] under one W: the same bits as for x [210, 50], and as in layouts that do not fold
 * to rounding (the random cases). */
Test(matmul_backward, shared_weight_is_one_product) {
    call c[2] = {{.threads = 1}, {.threads = 3}};
    rng r = rng_make(6, 6);
    for (int i = 0; i < 2; i++) {
        const int32_t rank = i ? 2 : 3;
        call_place(&c[i], A, LAYOUT_DENSE, rank, i ? (int64_t[]){210, 50} : (int64_t[]){3, 70, 50});
        call_place(&c[i], DC, LAYOUT_DENSE, rank,
                   i ? (int64_t[]){210, 90} : (int64_t[]){3, 70, 90});
        call_place(&c[i], DB, LAYOUT_DENSE, 2, (int64_t[]){50, 90});
        call_place(&c[i], DBIAS, LAYOUT_DENSE, 1, (int64_t[]){90});
    }
    guarded_fill(&c[0].g[A], &r);
    guarded_fill(&c[0].g[DC], &r);
    memcpy(c[1].g[A].t.data, c[0].g[A].t.data, 210 * 50 * sizeof(float));
    memcpy(c[1].g[DC].t.data, c[0].g[DC].t.data, 210 * 90 * sizeof(float));
    for (int i = 0; i < 2; i++) {
        rapt_status status;
        REQUIRE(call_run(&c[i], &status, why, sizeof why) && status == RAPT_OK, "%s", why);
    }
    for (int id = DB; id < TENSORS; id++) {
        REQUIRE(compare_bits(&c[0].g[id].t, &c[1].g[id].t, why, sizeof why), "%s", why);
    }
    call_free(&c[0]);
    call_free(&c[1]);
}

Test(matmul_backward, any_thread_count_gives_the_same_bits) {
    call c = {.threads = 1};
    call one = {.threads = 1};
    rng r = rng_make(7, 7);
    call *const both[2] = {&c, &one};
    for (int i = 0; i < 2; i++) {
        call_place(both[i], A, LAYOUT_DENSE, 3, (int64_t[]){4, 1300, 70});
        call_place(both[i], B, LAYOUT_DENSE, 2, (int64_t[]){70, 150});
        call_place(both[i], DC, LAYOUT_DENSE, 3, (int64_t[]){4, 1300, 150});
        call_place(both[i], DA, LAYOUT_BTHD, 3, (int64_t[]){4, 1300, 70});
        call_place(both[i], DB, LAYOUT_TRANSPOSED, 2, (int64_t[]){70, 150});
        call_place(both[i], DBIAS, LAYOUT_DENSE, 1, (int64_t[]){150});
    }
    for (int id = A; id <= DC; id++) {
        guarded_fill(&one.g[id], &r);
        memcpy(c.g[id].t.data, one.g[id].t.data, one.g[id].memory.bytes);
    }
    rapt_status status;
    REQUIRE(call_run(&one, &status, why, sizeof why) && status == RAPT_OK, "%s", why);
    for (c.threads = 2; c.threads <= 5; c.threads++) {
        REQUIRE(call_run(&c, &status, why, sizeof why) && status == RAPT_OK, "%s", why);
        for (int id = DA; id < TENSORS; id++) {
            REQUIRE(compare_bits(&one.g[id].t, &c.g[id].t, why, sizeof why), "%d threads: %s",
                    c.threads, why);
        }
    }
    call_free(&c);
    call_free(&one);
}

/* ---- Errors ---- */

/* What the call says to changed operands; it has written nothing. */
static void refused(const call *c, const rapt_matmul_backward_operands *o, rapt_status want,
                    const char *words, int line) {
    rapt_context *context = harness_context(1);
    guarded_seal(c->g, TENSORS);
    const rapt_status status = rapt_matmul_backward(context, &c->what, o);
    cr_expect_eq(status, want, "line %d: %s", line, rapt_status_name(status));
    expect_message(rapt_context_message(context), words, line);
    cr_expect(guarded_intact(c->g, TENSORS, true, why, sizeof why), "line %d: %s", line, why);
    int64_t bytes;
    if (want != RAPT_ERR_SCRATCH) {
        cr_expect_eq(rapt_matmul_backward_scratch(context, &c->what, o, &bytes), want);
    }
}

#define REFUSED(want, words) refused(&c, &o, want, words, __LINE__)

Test(matmul_backward, errors_of_arguments) {
    call c;
    call_small(&c);
    rapt_context *context = harness_context(1);
    rapt_matmul_backward_operands o = call_operands(&c);
    int64_t bytes = 0;
    cr_expect_eq(rapt_matmul_backward(NULL, &c.what, &o), RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_matmul_backward(context, NULL, &o), RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "what null", __LINE__);
    cr_expect_eq(rapt_matmul_backward(context, &c.what, NULL), RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "operands null", __LINE__);
    cr_expect_eq(rapt_matmul_backward_scratch(context, &c.what, &o, NULL), RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "bytes null", __LINE__);
    c.what.alpha = (rapt_scale){1, NAN};
    REFUSED(RAPT_ERR_ARGUMENT, "alpha nan");
    c.what.alpha = (rapt_scale){0};
    o.accumulate = 2;
    REFUSED(RAPT_ERR_ARGUMENT, "accumulate 2");
    o = call_operands(&c);
    o.dc = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "dc null");
    o = call_operands(&c);
    o.a = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "a null db");
    o = call_operands(&c);
    o.b = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "b null da");
    o = call_operands(&c);
    char memory[64 * 4];
    o.scratch = memory + 1;
    o.scratch_bytes = sizeof memory - 1;
    REFUSED(RAPT_ERR_SCRATCH, "scratch");
    o = call_operands(&c);
    cr_expect_eq(rapt_matmul_backward_scratch(context, &c.what, &o, &bytes), RAPT_OK);
    cr_expect_gt(bytes, 0);
    call_free(&c);
}

Test(matmul_backward, errors_of_tensors) {
    call c;
    call_small(&c);
    rapt_matmul_backward_operands o;
    static const char *const sizes[TENSORS] = {"b 4 5",  "b 4 5",  "a 3 4",
                                               "da 5 4", "db 4 5", "dbias 6 5"};
    const rapt_tensor **const slot[TENSORS] = {&o.a, &o.b, &o.dc, &o.da, &o.db, &o.dbias};
    for (int id = 0; id < TENSORS; id++) {
        rapt_tensor t = c.g[id].t;
        o = call_operands(&c);
        *slot[id] = &t;
        t.dtype = RAPT_I32;
        refused(&c, &o, RAPT_ERR_DTYPE, call_names[id], id);
        t.dtype = RAPT_F32;
        t.rank = 7;
        refused(&c, &o, RAPT_ERR_SHAPE, call_names[id], id);
        t.rank = c.g[id].t.rank;
        t.data = NULL;
        rapt_context *context = harness_context(1);
        cr_expect_eq(rapt_matmul_backward(context, &c.what, &o), RAPT_ERR_ARGUMENT);
        expect_message(rapt_context_message(context), call_names[id], id);
        t.data = c.g[id].t.data;
        t.size[t.rank - (id == DC || id == B || id == DB ? 2 : 1)]++;
        if (id == A) { o.da = NULL; }
        cr_expect_eq(rapt_matmul_backward(context, &c.what, &o), RAPT_ERR_SHAPE);
        expect_message(rapt_context_message(context), sizes[id], id);
        t = c.g[id].t;
    }
    /* leading axes */
    rapt_tensor t = rapt_tensor_slice(c.g[DC].t, 0, 0, 1);
    o = call_operands(&c);
    o.dc = &t;
    REFUSED(RAPT_ERR_SHAPE, "a 2 0 1");
    t = c.g[B].t;
    t.rank = 4;
    o = call_operands(&c);
    o.b = &t;
    for (int32_t i = 3; i >= 2; i--) {
        t.size[i] = c.g[B].t.size[i - 2];
        t.stride[i] = c.g[B].t.stride[i - 2];
        t.size[i - 2] = 1;
        t.stride[i - 2] = 0;
    }
    REFUSED(RAPT_ERR_SHAPE, "b 4 dc 3");
    /* overlap: an output with itself, with each other operand */
    for (int id = DA; id < TENSORS; id++) {
        o = call_operands(&c);
        t = c.g[id].t;
        t.stride[t.rank - 1] = 0;
        *slot[id] = &t;
        refused(&c, &o, RAPT_ERR_OVERLAP, call_names[id], id);
        t = c.g[id].t;
        for (int other = 0; other < TENSORS; other++) {
            if (other == id) { continue; }
            t.data = c.g[other].t.data;
            refused(&c, &o, RAPT_ERR_OVERLAP, call_names[id], id);
        }
    }
    call_free(&c);
}

/* Only what a gradient needs is looked at. */
Test(matmul_backward, unused_operands_may_be_absent) {
    call c, all;
    call_small(&c);
    call_small(&all);
    rapt_context *context = harness_context(1);
    rapt_matmul_backward_operands o = call_operands(&all);
    cr_assert_eq(rapt_matmul_backward(context, &all.what, &o), RAPT_OK);
    for (int null = 0; null < 2; null++) {
        rapt_tensor a = c.g[A].t, b = c.g[B].t;
        a.data = b.data = NULL;
        guarded_set(&c.g[DA], NAN);
        guarded_set(&c.g[DB], NAN);
        o = (rapt_matmul_backward_operands){
            .a = null ? NULL : &a, .b = &c.g[B].t, .dc = &c.g[DC].t, .da = &c.g[DA].t};
        cr_expect_eq(rapt_matmul_backward(context, &c.what, &o), RAPT_OK);
        cr_expect(compare_bits(&c.g[DA].t, &all.g[DA].t, why, sizeof why), "%s", why);
        o = (rapt_matmul_backward_operands){
            .a = &c.g[A].t, .b = null ? NULL : &b, .dc = &c.g[DC].t, .db = &c.g[DB].t};
        cr_expect_eq(rapt_matmul_backward(context, &c.what, &o), RAPT_OK);
        cr_expect(compare_bits(&c.g[DB].t, &all.g[DB].t, why, sizeof why), "%s", why);
    }
    o = (rapt_matmul_backward_operands){.dc = &c.g[DC].t};
    cr_expect_eq(rapt_matmul_backward(context, &c.what, &o), RAPT_OK);
    call_free(&c);
    call_free(&all);
}

Test(matmul_backward, an_allocation_fails) {
    call c;
    call_small(&c);
    counter f = {.fail_at = 1}; /* after the context itself */
    rapt_context *context = NULL;
    cr_assert_eq(counter_context(&context, &f, 2), RAPT_OK);
    guarded_seal(c.g, TENSORS);
    rapt_matmul_backward_operands o = call_operands(&c);
    cr_expect_eq(rapt_matmul_backward(context, &c.what, &o), RAPT_ERR_MEMORY);
    cr_expect(guarded_intact(c.g, TENSORS, true, why, sizeof why), "%s", why);
    cr_expect_eq(rapt_matmul_backward(context, &c.what, &o), RAPT_OK);
    cr_expect_eq(f.allocations, 3);
    rapt_context_destroy(context);
    cr_expect_eq(f.live, 0);
    call_free(&c);
}
