/* SPDX-License-Identifier: MIT
 * test_strides.c: the same values in other places give the same bits: every layout of every tensor,
 * stride 0, packed projections, odd addresses, and offsets beyond 2^31. */
#include "compare.h"
#include "harness.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Dv 80 is a whole number of vectors on every instruction set. */
static const shape shapes[] = {
    {2, 4, 2, 5, 7, 6, 6}, {1, 2, 1, 50, 140, 20, 17}, {1, 2, 2, 6, 9, 16, 80}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* ---- Layouts ---- */

Test(layouts, q_k_v_and_out) {
    for (int n = 0; n < SHAPES; n++) {
        problem dense;
        problem_init(&dense, shapes[n]);
        fill_normal(&dense, 1);
        expect_oracle(&dense);
        for (int way = 0; way < LAYOUT_WRITABLE * LAYOUT_WRITABLE * LAYOUT_WRITABLE; way++) {
            const int q = way % LAYOUT_WRITABLE, k = way / LAYOUT_WRITABLE % LAYOUT_WRITABLE;
            const int v = way / LAYOUT_WRITABLE / LAYOUT_WRITABLE;
            problem p;
            problem_init(&p, shapes[n]);
            problem_layout(&p, OP_Q, (layout)q);
            problem_layout(&p, OP_K, (layout)k);
            problem_layout(&p, OP_V, (layout)v);
            problem_layout(&p, OP_OUT, (layout)((q + k + v) % LAYOUT_WRITABLE));
            problem_layout(&p, OP_LSE, (layout)((q + k) % LAYOUT_WRITABLE));
            fill_copy(&p, &dense);
            expect_run(&p);
            expect_same_bits(&p, &dense);
            problem_free(&p);
        }
        problem_free(&dense);
    }
}

/* q, k, v and out side by side in one buffer (B, T, 4 * H * D), as a fused projection writes it. */
Test(layouts, packed_projections) {
    enum { B = 2, T = 37, H = 3, D = 10, FEATURES = H * D };
    problem dense;
    problem_init(&dense, (shape){B, H, H, T, T, D, D});
    fill_normal(&dense, 2);
    dense.what.causal = RAPT_CAUSAL_TOP_LEFT;
    expect_oracle(&dense);
    float *packed = calloc(B * T * 4 * FEATURES, sizeof *packed);
    const rapt_tensor all = rapt_tensor_3d(RAPT_F32, packed, B, T, 4 * FEATURES);
    rapt_tensor part[4];
    for (int n = 0; n < 4; n++) {
        part[n] = rapt_tensor_split_heads(rapt_tensor_slice(all, 2, n * FEATURES, FEATURES), H);
        walk from = walk_begin(&dense.op[n < 3 ? n : OP_OUT].t);
        for (walk w = walk_begin(&part[n]); n < 3 && !w.done; walk_next(&w), walk_next(&from)) {
            *walk_f32(&w) = *walk_f32(&from);
        }
    }
    const rapt_attention_operands ops = {
        .q = &part[0], .k = &part[1], .v = &part[2], .out = &part[3]};
    const rapt_status status = rapt_attention_forward(harness_context(1), &dense.what, &ops);
    REQUIRE(status == RAPT_OK, "%s", rapt_context_message(harness_context(1)));
    for (walk w = walk_begin(&part[3]); !w.done; walk_next(&w)) {
        const int64_t *x = w.index;
        REQUIRE(*walk_f32(&w) == *problem_at(&dense, OP_OUT, x[0], x[1], x[2], x[3]),
                "out[%lld,%lld,%lld,%lld]", (long long)x[0], (long long)x[1], (long long)x[2],
                (long long)x[3]);
    }
    free(packed);
    problem_free(&dense);
}

/* out in q's own place. */
Test(layouts, in_place) {
    for (layout l = 0; l < LAYOUT_WRITABLE; l++) {
        problem p, dense;
        problem_init(&dense, (shape){2, 4, 2, 60, 70, 20, 20});
        fill_normal(&dense, 3);
        expect_oracle(&dense);
        problem_init(&p, dense.s);
        problem_layout(&p, OP_Q, l);
        fill_copy(&p, &dense);
        problem_drop(&p, OP_OUT);
        p.in_place = true;
        expect_run(&p);
        expect_same_bits(&p, &dense);
        problem_free(&p);
        problem_free(&dense);
    }
}

/* ---- Stride 0 ---- */

static void expect_repeated(shape s, const layout *layouts) {
    problem p, dense;
    problem_init(&p, s);
    problem_init(&dense, s);
    for (operand_id id = OP_Q; id <= OP_V; id++) problem_layout(&p, id, layouts[id]);
    problem_mask(&p, 4, (int64_t[]){s.b, s.hq, s.tq, s.tk}, layouts[OP_MASK]);
    problem_bias(&p, 4, (int64_t[]){s.b, s.hq, s.tq, s.tk}, layouts[OP_BIAS]);
    problem_full_mask(&dense);
    problem_full_bias(&dense);
    fill_normal(&p, 4);
    rng r = rng_make(5, 0);
    for (walk w = walk_begin(&p.op[OP_MASK].t); !w.done; walk_next(&w)) {
        *walk_byte(&w) = rng_chance(&r, 80);
    }
    fill_random(&p, OP_BIAS, &r, FILL_NORMAL);
    fill_copy(&dense, &p);
    expect_oracle(&p);
    expect_run(&dense);
    expect_same_bits(&p, &dense);
    problem_free(&p);
    problem_free(&dense);
}

Test(stride_zero, equals_the_expanded_tensor) {
    const int64_t keys[] = {1, 31, 32, 33, 64, 65, 129};
    for (int n = 0; n < 7; n++) {
        for (operand_id id = OP_Q; id <= OP_BIAS; id++) {
            for (layout l = LAYOUT_WRITABLE; l < LAYOUT_COUNT; l++) {
                layout layouts[OP_COUNT] = {0};
                layouts[id] = l;
                if (id == OP_K) layouts[OP_V] = l;
                expect_repeated((shape){3, 4, 2, 10, keys[n], 5, 9}, layouts);
            }
        }
    }
}

Test(stride_zero, refused_for_outputs) {
    problem p;
    problem_init(&p, (shape){2, 2, 2, 3, 4, 5, 6});
    for (operand_id id = OP_OUT; id <= OP_LSE; id++) {
        for (int axis = 0; axis < p.op[id].t.rank; axis++) {
            int64_t *stride = &p.op[id].t.stride[axis], right = *stride;
            *stride = 0;
            const rapt_attention_operands ops = problem_operands(&p);
            const rapt_status status = rapt_attention_forward(harness_context(1), &p.what, &ops);
            REQUIRE(status == RAPT_ERR_OVERLAP, "%s", rapt_status_name(status));
            *stride = right;
        }
    }
    problem_free(&p);
}

/* ---- Addresses ---- */

/* Copies a tensor to `memory` plus `bytes`, dense. */
static rapt_tensor moved(const rapt_tensor *t, unsigned char *memory, int64_t bytes) {
    rapt_tensor to = rapt_tensor_contiguous(t->dtype, memory + bytes, t->rank, t->size);
    walk from = walk_begin(t);
    for (walk w = walk_begin(&to); !w.done; walk_next(&w), walk_next(&from)) {
        memcpy(walk_byte(&w), walk_byte(&from), (size_t)rapt_dtype_bytes(t->dtype));
    }
    return to;
}

static void expect_any_address(bool with_weights) {
    enum { ROOM = 1 << 16 };
    _Alignas(64) static unsigned char memory[OP_COUNT][ROOM];
    problem p;
    problem_init(&p, (shape){1, 2, 2, 30, 40, 16, 16});
    problem_full_mask(&p);
    problem_full_bias(&p);
    problem_full_keep(&p);
    if (with_weights) problem_layout(&p, OP_WEIGHTS, LAYOUT_DENSE);
    p.what.dropout = (rapt_dropout){1, 0.5, 3, 4};
    rng r = rng_make(6, 9);
    fill_bools(&p, OP_KEEP, &r, 50);
    fill_normal(&p, 6);
    for (int64_t j = 5; j < 40; j += 7) mask_set(&p, 0, 1, 20, j, 0);
    expect_oracle(&p);
    for (int64_t step = 0; step < 17 * OP_COUNT; step++) {
        rapt_tensor t[OP_COUNT];
        for (operand_id id = 0; id < OP_COUNT; id++) {
            if (!p.op[id].present) continue;
            const int64_t offset = step % OP_COUNT == (int64_t)id ? step / OP_COUNT : 0;
            t[id] = moved(&p.op[id].t, memory[id], offset * rapt_dtype_bytes(p.op[id].t.dtype));
        }
        const rapt_attention_operands ops = {.q = &t[OP_Q],
                                             .k = &t[OP_K],
                                             .v = &t[OP_V],
                                             .mask = &t[OP_MASK],
                                             .bias = &t[OP_BIAS],
                                             .keep = &t[OP_KEEP],
                                             .out = &t[OP_OUT],
                                             .lse = &t[OP_LSE],
                                             .weights = with_weights ? &t[OP_WEIGHTS] : NULL};
        memset(t[OP_OUT].data, 0xff, 30 * 2 * 16 * sizeof(float));
        const rapt_status status = rapt_attention_forward(harness_context(1), &p.what, &ops);
        REQUIRE(status == RAPT_OK, "%s", rapt_context_message(harness_context(1)));
        walk from = walk_begin(&p.op[OP_OUT].t);
        for (walk w = walk_begin(&t[OP_OUT]); !w.done; walk_next(&w), walk_next(&from)) {
            REQUIRE(*walk_f32(&w) == *walk_f32(&from), "step %lld", (long long)step);
        }
        char why[256];
        REQUIRE(!with_weights || compare_bits(&t[OP_WEIGHTS], &p.op[OP_WEIGHTS].t, why, sizeof why),
                "step %lld: weights: %s", (long long)step, why);
    }
    problem_free(&p);
}

Test(address, only_the_element_s_alignment_is_needed) {
    expect_any_address(false);
    expect_any_address(true);
}

/* ---- Offsets beyond 2^31, in memory that exists only where it is touched ---- */

static void *sparse(int64_t bytes) {
    void *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(memory != MAP_FAILED, "no address space for %lld bytes", (long long)bytes);
    return memory;
}

static void copy_elements(const rapt_tensor *to, const rapt_tensor *from) {
    walk f = walk_begin(from);
    for (walk w = walk_begin(to); !w.done; walk_next(&w), walk_next(&f)) {
        memcpy(walk_byte(&w), walk_byte(&f), (size_t)rapt_dtype_bytes(to->dtype));
    }
}

/* Runs p with one operand elsewhere; out must have the bits of the run in place. */
static void expect_same_elsewhere(problem *p, operand_id id, int32_t axis, int64_t stride) {
    rapt_tensor far = p->op[id].t;
    const int64_t bytes = far.size[axis] * llabs(stride) * rapt_dtype_bytes(far.dtype);
    snprintf(p->note, sizeof p->note, "operand %d, stride %lld", (int)id, (long long)stride);
    unsigned char *memory = sparse(bytes);
    far.stride[axis] = stride;
    far.data =
        stride < 0 ? memory - (far.size[axis] - 1) * stride * rapt_dtype_bytes(far.dtype) : memory;
    copy_elements(&far, &p->op[id].t);
    rapt_attention_operands ops = problem_operands(p);
    const rapt_tensor **places[OP_COUNT] = {
        [OP_Q] = &ops.q,       [OP_K] = &ops.k,       [OP_V] = &ops.v,
        [OP_MASK] = &ops.mask, [OP_BIAS] = &ops.bias, [OP_KEEP] = &ops.keep,
        [OP_OUT] = &ops.out,   [OP_LSE] = &ops.lse,   [OP_WEIGHTS] = &ops.weights};
    rapt_tensor out = p->op[OP_OUT].t, weights = p->op[OP_WEIGHTS].t;
    float *fresh = calloc((size_t)(p->s.b * p->s.hq * p->s.tq * p->s.dv), sizeof *fresh);
    float *others = calloc((size_t)(p->s.b * p->s.hq * p->s.tq * p->s.tk), sizeof *others);
    out.data = fresh;
    weights.data = others;
    ops.out = &out;
    if (ops.weights) ops.weights = &weights;
    *places[id] = &far;
    const rapt_status status = rapt_attention_forward(harness_context(1), &p->what, &ops);
    REQUIRE(status == RAPT_OK, "%s", rapt_context_message(harness_context(1)));
    walk from = walk_begin(&p->op[OP_OUT].t);
    for (walk w = walk_begin(ops.out); !w.done; walk_next(&w), walk_next(&from)) {
        REQUIRE(*walk_f32(&w) == *walk_f32(&from), "row %lld", (long long)w.index[2]);
    }
    char why[256];
    REQUIRE(!ops.weights || compare_bits(ops.weights, &p->op[OP_WEIGHTS].t, why, sizeof why),
            "weights: %s", why);
    free(fresh);
    free(others);
    munmap(memory, (size_t)bytes);
}

Test(far, strides_of_gigabytes) {
    problem p;
    problem_init(&p, (shape){3, 3, 3, 5, 1024, 8, 8});
    fill_normal(&p, 7);
    problem_full_mask(&p);
    problem_full_bias(&p);
    for (int64_t j = 0; j < 1024; j += 3) mask_set(&p, 2, 2, j % 5, j, 0);
    expect_oracle(&p);
    const int64_t two_31 = (int64_t)1 << 31;
    for (int sign = 1; sign >= -1; sign -= 2) {
        expect_same_elsewhere(&p, OP_K, 2, sign * ((int64_t)1 << 22));
        expect_same_elsewhere(&p, OP_V, 2, sign * ((int64_t)1 << 22));
        expect_same_elsewhere(&p, OP_MASK, 1, sign * two_31);
        expect_same_elsewhere(&p, OP_MASK, 2, sign * two_31);
        expect_same_elsewhere(&p, OP_MASK, 3, sign * ((int64_t)1 << 22));
        expect_same_elsewhere(&p, OP_BIAS, 0, sign * two_31);
        expect_same_elsewhere(&p, OP_BIAS, 3, sign * ((int64_t)1 << 22));
        expect_same_elsewhere(&p, OP_Q, 1, sign * two_31);
        expect_same_elsewhere(&p, OP_Q, 2, sign * two_31);
        expect_same_elsewhere(&p, OP_OUT, 0, sign * two_31);
        expect_same_elsewhere(&p, OP_OUT, 2, sign * two_31);
    }
    problem_full_keep(&p);
    problem_layout(&p, OP_WEIGHTS, LAYOUT_DENSE);
    p.what.dropout = (rapt_dropout){1, 0.5, 1, 1};
    rng r = rng_make(8, 0);
    fill_bools(&p, OP_KEEP, &r, 50);
    expect_oracle(&p);
    for (int sign = 1; sign >= -1; sign -= 2) {
        expect_same_elsewhere(&p, OP_KEEP, 1, sign * two_31);
        expect_same_elsewhere(&p, OP_KEEP, 3, sign * ((int64_t)1 << 22));
        expect_same_elsewhere(&p, OP_WEIGHTS, 0, sign * two_31);
        expect_same_elsewhere(&p, OP_WEIGHTS, 2, sign * two_31);
        expect_same_elsewhere(&p, OP_WEIGHTS, 3, sign * ((int64_t)1 << 22));
    }
    problem_free(&p);
}

/* A sequence whose square needs more than 31 bits, with a real mask of that size. */
Test(far, long_sequence_with_a_window_and_a_mask) {
    enum { T = 46400, W = 16 };
    problem p;
    problem_init(&p, (shape){1, 1, 1, T, T, 8, 1});
    fill_ramp(&p);
    p.what = (rapt_attention){.causal = RAPT_CAUSAL_TOP_LEFT, .window = {1, W, 0}};
    uint8_t *seen = sparse((int64_t)T * T);
    for (int64_t i = 0; i < T; i++) {
        for (int64_t j = i < W ? 0 : i - W; j <= i; j++) seen[i * T + j] = j != i - 3;
    }
    const rapt_tensor mask = rapt_tensor_2d(RAPT_BOOL, seen, T, T);
    rapt_attention_operands ops = problem_operands(&p);
    ops.mask = &mask;
    const rapt_status status = rapt_attention_forward(harness_context(1), &p.what, &ops);
    REQUIRE(status == RAPT_OK, "%s", rapt_context_message(harness_context(1)));
    for (int64_t i = 0; i < T; i++) {
        double sum = 0.0, count = 0.0;
        for (int64_t j = i < W ? 0 : i - W + 1; j <= i; j++) {
            sum += j != i - 3 ? (double)j : 0.0;
            count += j != i - 3;
        }
        expect_out_all(&p, 0, 0, i, sum / count);
        expect_lse(&p, 0, 0, i, count == 1.0 ? 0.0 : log(count));
    }
    munmap(seen, (size_t)T * T);
    problem_free(&p);
}

/* The size query needs no data and does not wrap. */
Test(far, size_query_does_not_wrap) {
    const int64_t t = 131072, b = 8, h = 64, d = 128;
    const rapt_tensor x = rapt_tensor_4d(RAPT_F32, NULL, b, h, t, d);
    const rapt_attention what = {0};
    const rapt_attention_operands ops = {.q = &x, .k = &x, .v = &x, .out = &x};
    rapt_attention_info info;
    const rapt_status status = rapt_attention_forward_info(harness_context(1), &what, &ops, &info);
    REQUIRE(status == RAPT_OK, "%s", rapt_context_message(harness_context(1)));
    REQUIRE(info.visible == b * h * t * t, "visible %lld", (long long)info.visible);
    REQUIRE(fabs(info.flops / (4.0 * (double)(b * h) * (double)t * (double)t * (double)d) - 1.0) <
                1e-12,
            "flops %g", info.flops);
    REQUIRE(info.tasks > 0 && info.scratch_bytes > 0 && info.scratch_bytes < 1 << 30,
            "scratch %lld, tasks %lld", (long long)info.scratch_bytes, (long long)info.tasks);
}
