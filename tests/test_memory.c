/* SPDX-License-Identifier: MIT
 * test_memory.c: allocations that fail, scratch that the caller supplies, reuse of scratch, and how
 * much of it there is. */
#include "counter.h"
#include "message.h"
#include "plain.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Large enough for several tasks on several threads, with every optional operand. */
static const plain_sizes several_tasks = {2, 4, 2, 150, 300, 33, 20};

typedef struct masked {
    plain p;
    rapt_tensor mask, key_lengths;
    unsigned char mask_data[300];
    int32_t length_data[2];
} masked;

static void masked_make(masked *m) {
    plain_make(&m->p, several_tasks, 7);
    for (int i = 0; i < 300; i++) { m->mask_data[i] = i % 3 != 0; }
    m->length_data[0] = 290;
    m->length_data[1] = 17;
    m->mask = rapt_tensor_1d(RAPT_BOOL, m->mask_data, 300);
    m->key_lengths = rapt_tensor_1d(RAPT_I32, m->length_data, 2);
    m->p.operands.mask = &m->mask;
    m->p.operands.key_lengths = &m->key_lengths;
    m->p.what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
    /* v with a last stride that is not 1: it is copied to scratch */
    m->p.v = rapt_tensor_swap_axes(rapt_tensor_4d(RAPT_F32, m->p.v.data, 2, 2, 20, 300), 2, 3);
}

/* Create, call, call again, ask for info and tasks: the status of the first step that fails. */
static rapt_status whole_life(counter *c, plain *p, const plain *expected) {
    rapt_context *context = NULL;
    rapt_attention_info info;
    double costs[4];
    plain_clear(p);
    rapt_status status = counter_context(&context, c, 2);
    cr_expect(status != RAPT_ERR_MEMORY || !context, "a context without memory");
    if (status == RAPT_OK) {
        status = rapt_attention_forward_info(context, &p->what, &p->operands, &info);
    }
    if (status == RAPT_OK) {
        status = rapt_attention_forward_tasks(context, &p->what, &p->operands, costs, 4);
    }
    if (status == RAPT_OK) { status = plain_run(p, context); }
    cr_expect(status == RAPT_OK || plain_untouched(p), "outputs written by a failed call");
    if (status == RAPT_ERR_MEMORY && context) {
        expect_message(rapt_context_message(context), "bytes", __LINE__);
        cr_expect_eq(plain_run(p, context), RAPT_OK, "the context works once memory is there");
    }
    if (context) { cr_expect(plain_same(p, expected)); }
    rapt_context_destroy(context);
    return status;
}

Test(memory, each_allocation_fails_in_turn) {
    masked m, expected;
    masked_make(&m);
    masked_make(&expected);
    rapt_context *context = plain_context(1, NULL);
    cr_assert_eq(plain_run(&expected.p, context), RAPT_OK);
    rapt_context_destroy(context);

    int64_t n = 0;
    for (rapt_status status = RAPT_ERR_MEMORY; status != RAPT_OK; n++) {
        cr_assert_lt(n, 100);
        counter c = {.fail_at = n};
        status = whole_life(&c, &m.p, &expected.p);
        cr_expect(status == RAPT_OK || status == RAPT_ERR_MEMORY, "%s", rapt_status_name(status));
        cr_expect_eq(status == RAPT_OK, c.allocations <= n, "allocation %d", (int)n);
        cr_expect_eq(c.live, 0, "%d leaked after failure of %d", (int)c.live, (int)n);
        cr_expect_not(c.misaligned);
    }
    cr_expect_geq(n, 3, "the context and its scratch are allocated");
    plain_free(&m.p);
    plain_free(&expected.p);
}

Test(memory, later_calls_reuse_scratch) {
    counter c = {.fail_at = -1};
    rapt_context *context = NULL;
    cr_assert_eq(counter_context(&context, &c, 3), RAPT_OK);
    plain large, small, first;
    plain_make(&large, several_tasks, 1);
    plain_make(&first, several_tasks, 1);
    plain_make(&small, (plain_sizes){1, 1, 1, 5, 6, 7, 8}, 2);
    cr_expect_eq(plain_run(&first, context), RAPT_OK);
    const int64_t after_first = c.allocations;
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(plain_run(&small, context), RAPT_OK);
        cr_expect_eq(plain_run(&large, context), RAPT_OK);
        cr_expect(plain_same(&large, &first), "stale scratch changed the result");
    }
    cr_expect_eq(c.allocations, after_first);

    const int64_t live = c.live;
    rapt_context_trim(context);
    cr_expect_lt(c.live, live);
    rapt_context_trim(context);
    cr_expect_eq(plain_run(&large, context), RAPT_OK);
    cr_expect_gt(c.allocations, after_first);
    cr_expect(plain_same(&large, &first));
    rapt_context_destroy(context);
    cr_expect_eq(c.live, 0);
    plain_free(&large);
    plain_free(&first);
    plain_free(&small);
}

/* ---- The caller's scratch ---- */

enum { FENCE = 256 };

typedef struct fenced {
    unsigned char *memory, *scratch; /* scratch is 64-byte aligned, FENCE bytes before and after */
    size_t bytes;
} fenced;

static fenced fenced_take(size_t bytes, int fill) {
    fenced f = {.bytes = bytes};
    f.memory = aligned_alloc(64, (bytes + 2 * FENCE + 63) / 64 * 64);
    cr_assert_not_null(f.memory);
    f.scratch = f.memory + FENCE;
    memset(f.memory, 0x5A, bytes + 2 * FENCE);
    memset(f.scratch, fill, bytes);
    return f;
}

static void fenced_free(fenced *f) {
    for (size_t i = 0; i < FENCE; i++) {
        cr_assert_eq(f->memory[i], 0x5A, "written %zu bytes before the scratch", FENCE - i);
        cr_assert_eq(f->scratch[f->bytes + i], 0x5A, "written %zu bytes past the scratch", i);
    }
    free(f->memory);
}

static size_t needed_scratch(rapt_context *context, const plain *p) {
    rapt_attention_info info;
    cr_assert_eq(rapt_attention_forward_info(context, &p->what, &p->operands, &info), RAPT_OK);
    cr_assert_gt(info.scratch_bytes, 0);
    return (size_t)info.scratch_bytes;
}

Test(memory, callers_scratch_of_the_exact_size) {
    masked m, expected;
    masked_make(&m);
    masked_make(&expected);
    for (int32_t threads = 1; threads <= 8; threads *= 2) {
        counter c = {.fail_at = -1};
        rapt_context *context = NULL;
        cr_assert_eq(counter_context(&context, &c, threads), RAPT_OK);
        cr_expect_eq(plain_run(&expected.p, context), RAPT_OK);
        const int64_t allocations = c.allocations;
        const int fills[] = {0x00, 0xFF, 0x7E};
        for (int i = 0; i < 3; i++) {
            fenced f = fenced_take(needed_scratch(context, &m.p), fills[i]);
            m.p.operands.scratch = f.scratch;
            m.p.operands.scratch_bytes = f.bytes;
            for (int again = 0; again < 2; again++) {
                cr_expect_eq(plain_run(&m.p, context), RAPT_OK, "%s",
                             rapt_context_message(context));
                cr_expect(plain_same(&m.p, &expected.p), "threads %d, scratch of bytes %02x",
                          threads, (unsigned)fills[i]);
            }
            fenced_free(&f);
        }
        cr_expect_eq(c.allocations, allocations, "the caller's scratch was not enough");
        rapt_context_destroy(context);
    }
    plain_free(&m.p);
    plain_free(&expected.p);
}

static void expect_scratch_refused(rapt_context *context, plain *p, void *scratch, size_t bytes,
                                   const char *words, int line) {
    p->operands.scratch = scratch;
    p->operands.scratch_bytes = bytes;
    cr_expect_eq(plain_run(p, context), RAPT_ERR_SCRATCH, "line %d", line);
    expect_message(rapt_context_message(context), words, line);
    cr_expect(plain_untouched(p), "line %d", line);
    rapt_attention_info info;
    cr_expect_eq(rapt_attention_forward_info(context, &p->what, &p->operands, &info), RAPT_OK,
                 "scratch is ignored by info");
}

Test(memory, scratch_too_small_or_misaligned) {
    rapt_context *context = plain_context(2, NULL);
    plain p;
    plain_make(&p, several_tasks, 3);
    const size_t bytes = needed_scratch(context, &p);
    fenced f = fenced_take(bytes, 0x5A);
    char words[64];
    snprintf(words, sizeof words, "scratch %zu %zu", bytes - 1, bytes);
    expect_scratch_refused(context, &p, f.scratch, bytes - 1, words, __LINE__);
    snprintf(words, sizeof words, "scratch 0 %zu", bytes);
    expect_scratch_refused(context, &p, f.scratch, 0, words, __LINE__);
    for (size_t shift = 1; shift < 64; shift += shift < 4 ? 1 : 4) {
        snprintf(words, sizeof words, "scratch %zu", shift);
        expect_scratch_refused(context, &p, f.scratch + shift, bytes, words, __LINE__);
    }
    fenced_free(&f);
    plain_free(&p);
    rapt_context_destroy(context);
}

/* ---- How much ---- */

/* Info of a call on null data. */
static rapt_attention_info describe(plain_sizes s, int32_t threads, rapt_causal causal) {
    rapt_context *context = plain_context(threads, NULL);
    const rapt_tensor q = rapt_tensor_4d(RAPT_F32, NULL, s.b, s.hq, s.tq, s.d);
    const rapt_tensor k = rapt_tensor_4d(RAPT_F32, NULL, s.b, s.hkv, s.tk, s.d);
    const rapt_tensor v = rapt_tensor_4d(RAPT_F32, NULL, s.b, s.hkv, s.tk, s.dv);
    const rapt_tensor out = rapt_tensor_4d(RAPT_F32, NULL, s.b, s.hq, s.tq, s.dv);
    const rapt_attention what = {.causal = causal};
    const rapt_attention_operands operands = {.q = &q, .k = &k, .v = &v, .out = &out};
    rapt_attention_info info = {0};
    const rapt_status status = rapt_attention_forward_info(context, &what, &operands, &info);
    cr_assert_eq(status, RAPT_OK, "%s", rapt_context_message(context));
    cr_expect_geq(info.threads, 1);
    cr_expect_leq(info.threads, threads);
    rapt_context_destroy(context);
    return info;
}

/* Scratch without the 32 bytes per task, which is O(threads x tile). */
static int64_t tile_scratch(const rapt_attention_info *info) {
    return info->scratch_bytes - 32 * info->tasks;
}

enum { MEBIBYTE = 1 << 20 };

Test(memory, scratch_does_not_grow_with_the_sequence) {
    for (int32_t threads = 1; threads <= 16; threads *= 4) {
        rapt_attention_info at_4096 =
            describe((plain_sizes){1, 8, 8, 4096, 4096, 64, 64}, threads, RAPT_CAUSAL_NONE);
        rapt_attention_info at_65536 =
            describe((plain_sizes){1, 8, 8, 65536, 65536, 64, 64}, threads, RAPT_CAUSAL_NONE);
        cr_expect_leq(tile_scratch(&at_65536), tile_scratch(&at_4096) + 4096);
        cr_expect_leq(tile_scratch(&at_65536), (int64_t)threads * 2 * MEBIBYTE);
    }
}

Test(memory, sizes_do_not_wrap) {
    const rapt_attention_info info =
        describe((plain_sizes){8, 64, 64, 131072, 131072, 128, 128}, 2, RAPT_CAUSAL_NONE);
    const int64_t pairs = INT64_C(8) * 64 * 131072 * 131072;
    cr_expect_eq(info.visible, pairs);
    cr_expect_eq(info.flops, 2.0 * (double)pairs * 256);
    cr_expect_gt(tile_scratch(&info), 0);
    cr_expect_leq(tile_scratch(&info), INT64_C(4) * MEBIBYTE);
    cr_expect_gt(info.tasks, 0);

    const rapt_attention_info causal =
        describe((plain_sizes){8, 64, 64, 131072, 131072, 128, 128}, 2, RAPT_CAUSAL_TOP_LEFT);
    cr_expect_eq(causal.visible, INT64_C(8) * 64 * 131072 * 131073 / 2);

    /* 2^64 query-key pairs over keys of 2^61 bytes */
    const int64_t many = INT64_C(1) << 14, keys = INT64_C(1) << 31;
    const rapt_attention_info huge =
        describe((plain_sizes){many, many, many, 32, keys, 1, 1}, 2, RAPT_CAUSAL_NONE);
    cr_expect_eq(huge.visible, INT64_MAX);
    cr_expect_gt(huge.scratch_bytes, INT64_C(32) << 28);
}

Test(memory, context_allocates_what_info_says) {
    counter c = {.fail_at = -1};
    rapt_context *context = NULL;
    cr_assert_eq(counter_context(&context, &c, 2), RAPT_OK);
    plain p;
    plain_make(&p, several_tasks, 3);
    const size_t bytes = needed_scratch(context, &p);
    c.largest = 0;
    cr_expect_eq(plain_run(&p, context), RAPT_OK);
    cr_expect_eq(c.largest, bytes);
    plain_free(&p);
    rapt_context_destroy(context);
}
