/* SPDX-License-Identifier: MIT
 * test_matmul_errors.c: every misuse of a matrix product that rapt/matmul.h forbids has its status
 * and message and writes nothing; allocations that fail; scratch that is given. */
#include "message.h"
#include "plain.h"

#include <rapt/rapt.h>

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, M = 3, K = 4, N = 5, ROOM = 200 };

/* Room before and after each operand, so that a moved C meets no other. */
typedef struct call {
    float before_a[ROOM], a_data[BATCH * M * K];
    float before_b[ROOM], b_data[BATCH * K * N];
    float before_bias[ROOM], bias_data[N];
    float before_c[ROOM], c_data[BATCH * M * N], after_c[ROOM];
    rapt_tensor a, b, bias, c;
    rapt_matmul what;
    rapt_matmul_operands operands;
} call;

static call the_call;
static rapt_context *context;

/* A fresh valid call, for a test to spoil in one place. */
static call *valid(void) {
    call *x = &the_call;
    memset(x, 0, sizeof *x);
    x->a = rapt_tensor_3d(RAPT_F32, x->a_data, BATCH, M, K);
    x->b = rapt_tensor_3d(RAPT_F32, x->b_data, BATCH, K, N);
    x->bias = rapt_tensor_1d(RAPT_F32, x->bias_data, N);
    x->c = rapt_tensor_3d(RAPT_F32, x->c_data, BATCH, M, N);
    x->operands = (rapt_matmul_operands){.a = &x->a, .b = &x->b, .bias = &x->bias, .c = &x->c};
    return x;
}

static void expect_status(rapt_status got, rapt_status want, const char *words, const call *before,
                          int line) {
    cr_expect(got == want, "line %d: %s (\"%s\"), expected %s", line, rapt_status_name(got),
              rapt_context_message(context), rapt_status_name(want));
    if (want != RAPT_OK) {
        expect_message(rapt_context_message(context), words, line);
        cr_expect(memcmp(before, &the_call, sizeof the_call) == 0, "line %d: written", line);
    }
}

/* The run and the question for scratch answer alike, unless only data pointers are at fault. */
static void expect_both(rapt_status run, rapt_status scratch, const char *words, int line) {
    static call before;
    int64_t bytes = 0;
    const call *x = &the_call;
    memcpy(&before, x, sizeof before);
    expect_status(rapt_matmul_run(context, &x->what, &x->operands), run, words, &before, line);
    memcpy(&before, x, sizeof before);
    expect_status(rapt_matmul_scratch(context, &x->what, &x->operands, &bytes), scratch, words,
                  &before, line);
}

#define REFUSED(status, words) expect_both(status, status, words, __LINE__)
#define RUN_REFUSED(status, words) expect_both(status, RAPT_OK, words, __LINE__)
#define TAKEN() expect_both(RAPT_OK, RAPT_OK, "", __LINE__)

static void open_context(void) { rapt_context_create(&context, NULL); }
static void close_context(void) { rapt_context_destroy(context); }

TestSuite(matmul_errors, .init = open_context, .fini = close_context);

Test(matmul_errors, unspoilt_call_is_taken) {
    valid();
    TAKEN();
    valid()->operands.bias = NULL;
    TAKEN();
    cr_expect_str_eq(rapt_context_message(context), "");
}

Test(matmul_errors, null_arguments) {
    const call *x = valid();
    int64_t bytes = 0;
    cr_expect_eq(rapt_matmul_run(NULL, &x->what, &x->operands), RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_matmul_scratch(NULL, &x->what, &x->operands, &bytes), RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_matmul_run(context, NULL, &x->operands), RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "what null", __LINE__);
    cr_expect_eq(rapt_matmul_run(context, &x->what, NULL), RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "operands null", __LINE__);
    cr_expect_eq(rapt_matmul_scratch(context, &x->what, &x->operands, NULL), RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "bytes null", __LINE__);
    valid()->operands.a = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "a null");
    valid()->operands.b = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "b null");
    valid()->operands.c = NULL;
    REFUSED(RAPT_ERR_ARGUMENT, "c null");
}

Test(matmul_errors, null_data) {
    valid()->a.data = NULL;
    RUN_REFUSED(RAPT_ERR_ARGUMENT, "a null data");
    valid()->b.data = NULL;
    RUN_REFUSED(RAPT_ERR_ARGUMENT, "b null data");
    valid()->bias.data = NULL;
    RUN_REFUSED(RAPT_ERR_ARGUMENT, "bias null data");
    valid()->c.data = NULL;
    RUN_REFUSED(RAPT_ERR_ARGUMENT, "c null data");
}

Test(matmul_errors, factors) {
    valid()->what.alpha.on = 2;
    REFUSED(RAPT_ERR_ARGUMENT, "alpha 2");
    valid()->what.alpha = (rapt_scale){1, NAN};
    REFUSED(RAPT_ERR_ARGUMENT, "alpha nan");
    valid()->what.alpha = (rapt_scale){1, -INFINITY};
    REFUSED(RAPT_ERR_ARGUMENT, "alpha -inf");
    valid()->what.alpha = (rapt_scale){0, NAN};
    TAKEN();
    valid()->what.beta = NAN;
    REFUSED(RAPT_ERR_ARGUMENT, "beta nan");
    valid()->what.beta = INFINITY;
    REFUSED(RAPT_ERR_ARGUMENT, "beta inf");
}

Test(matmul_errors, dtypes) {
    valid()->a.dtype = RAPT_I32;
    REFUSED(RAPT_ERR_DTYPE, "a 3");
    valid()->b.dtype = RAPT_BOOL;
    REFUSED(RAPT_ERR_DTYPE, "b 2");
    valid()->bias.dtype = RAPT_I64;
    REFUSED(RAPT_ERR_DTYPE, "bias 4");
    valid()->c.dtype = (rapt_dtype)77;
    REFUSED(RAPT_ERR_DTYPE, "c 77");
}

Test(matmul_errors, ranks) {
    valid()->a.rank = 1;
    REFUSED(RAPT_ERR_SHAPE, "a 1 2 6");
    valid()->b.rank = RAPT_MAX_RANK + 1;
    REFUSED(RAPT_ERR_SHAPE, "b 7 2 6");
    valid()->c.rank = 0;
    REFUSED(RAPT_ERR_SHAPE, "c 0 2 6");
    valid()->bias.rank = 2;
    REFUSED(RAPT_ERR_SHAPE, "bias 2 1");
    the_call.c = rapt_tensor_2d(RAPT_F32, valid()->c_data, M, N);
    REFUSED(RAPT_ERR_SHAPE, "a 3 2");
    call *x = valid();
    x->a = rapt_tensor_2d(RAPT_F32, x->a_data, M, K);
    x->c = rapt_tensor_2d(RAPT_F32, x->c_data, M, N);
    REFUSED(RAPT_ERR_SHAPE, "b 3 2");
}

Test(matmul_errors, sizes) {
    valid()->a.size[2] = K - 1;
    REFUSED(RAPT_ERR_SHAPE, "b 4 5 3");
    valid()->a.size[1] = M - 1;
    REFUSED(RAPT_ERR_SHAPE, "a 2 4 3");
    valid()->b.size[2] = N - 1;
    REFUSED(RAPT_ERR_SHAPE, "b 4 4 5");
    valid()->bias.size[0] = N - 1;
    REFUSED(RAPT_ERR_SHAPE, "bias 4 5");
    valid()->c.size[0] = 1;
    REFUSED(RAPT_ERR_SHAPE, "a 2 0 1");
    valid()->b.size[0] = 3;
    REFUSED(RAPT_ERR_SHAPE, "b 3 0 2");
    valid()->a.size[0] = -1;
    REFUSED(RAPT_ERR_SHAPE, "a -1 0");
    valid()->c.stride[0] = INT64_MAX;
    REFUSED(RAPT_ERR_SHAPE, "c 9223372036854775807");
}

Test(matmul_errors, overlap) {
    valid()->c.stride[1] = N - 1;
    REFUSED(RAPT_ERR_OVERLAP, "c 3 5");
    valid()->c.stride[2] = 0;
    REFUSED(RAPT_ERR_OVERLAP, "c 0");
    call *x = valid();
    x->c.data = x->a_data + BATCH * M * K - 1;
    REFUSED(RAPT_ERR_OVERLAP, "c a");
    x = valid();
    x->c.data = x->b_data - BATCH * M * N + 1;
    REFUSED(RAPT_ERR_OVERLAP, "c b");
    x = valid();
    x->c.data = x->bias_data;
    REFUSED(RAPT_ERR_OVERLAP, "c bias");
    x = valid();
    x->c.data = x->bias_data + N;
    TAKEN();
    x = valid(); /* columns of one buffer between each other */
    x->a = rapt_tensor_strided(RAPT_F32, x->before_c, 2, (int64_t[]){M, K}, (int64_t[]){20, 1});
    x->b.rank = 2;
    x->b.size[0] = K;
    x->b.size[1] = N;
    x->c = rapt_tensor_strided(RAPT_F32, x->before_c + K, 2, (int64_t[]){M, N}, (int64_t[]){20, 1});
    TAKEN();
}

/* ---- Memory ---- */

typedef struct counter {
    int64_t allocations, live, fail_at; /* index of the allocation that fails; -1: none */
    size_t largest;
} counter;

static void *counted_allocate(void *user, size_t bytes, size_t alignment) {
    counter *c = user;
    (void)alignment;
    if (c->allocations++ == c->fail_at) { return NULL; }
    if (bytes > c->largest) { c->largest = bytes; }
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (memory) { memset(memory, 0xFF, bytes); } /* NaN: nothing may rely on zeros */
    c->live++;
    return memory;
}

static void counted_release(void *user, void *memory) {
    counter *c = user;
    c->live--;
    free(memory);
}

static rapt_context *counted_context(counter *c, int32_t threads) {
    const rapt_context_options options = {.threads = threads,
                                          .allocator = {counted_allocate, counted_release, c}};
    rapt_context *made = NULL;
    cr_assert_eq(rapt_context_create(&made, &options), RAPT_OK);
    return made;
}

Test(matmul_errors, failing_allocation) {
    call *x = valid();
    counter c = {.fail_at = 1}; /* 0 is the context itself */
    rapt_context *own = counted_context(&c, 1);
    memset(x->c_data, 0xA5, sizeof x->c_data);
    const call before = *x;
    cr_expect_eq(rapt_matmul_run(own, &x->what, &x->operands), RAPT_ERR_MEMORY);
    expect_message(rapt_context_message(own), "scratch bytes", __LINE__);
    cr_expect(memcmp(&before, x, sizeof before) == 0, "written by a failed call");
    int64_t bytes = 0;
    c.largest = 0;
    cr_expect_eq(rapt_matmul_run(own, &x->what, &x->operands), RAPT_OK, "memory is there again");
    cr_expect_eq(rapt_matmul_scratch(own, &x->what, &x->operands, &bytes), RAPT_OK);
    cr_expect_eq(c.largest, (size_t)bytes, "scratch is what rapt_matmul_scratch says");
    const int64_t allocations = c.allocations;
    cr_expect_eq(rapt_matmul_run(own, &x->what, &x->operands), RAPT_OK);
    cr_expect_eq(c.allocations, allocations, "scratch is kept");
    rapt_context_destroy(own);
    cr_expect_eq(c.live, 0);
}

Test(matmul_errors, callers_scratch) {
    call *x = valid();
    counter c = {.fail_at = -1};
    rapt_context *own = counted_context(&c, 2);
    int64_t bytes = 0;
    cr_assert_eq(rapt_matmul_scratch(own, &x->what, &x->operands, &bytes), RAPT_OK);
    cr_assert_gt(bytes, 0);
    char *memory = aligned_alloc(64, ((size_t)bytes + 127) / 64 * 64);
    x->operands.scratch = memory;
    x->operands.scratch_bytes = (size_t)bytes;
    cr_expect_eq(rapt_matmul_run(own, &x->what, &x->operands), RAPT_OK);
    cr_expect_eq(c.allocations, 1, "only the context");
    char words[64];
    snprintf(words, sizeof words, "scratch %lld %lld", (long long)bytes - 1, (long long)bytes);
    x->operands.scratch_bytes = (size_t)bytes - 1;
    cr_expect_eq(rapt_matmul_run(own, &x->what, &x->operands), RAPT_ERR_SCRATCH);
    expect_message(rapt_context_message(own), words, __LINE__);
    x->operands.scratch = memory + 4;
    x->operands.scratch_bytes = (size_t)bytes;
    cr_expect_eq(rapt_matmul_run(own, &x->what, &x->operands), RAPT_ERR_SCRATCH);
    expect_message(rapt_context_message(own), "scratch 4", __LINE__);
    free(memory);
    rapt_context_destroy(own);
}

static int64_t scratch_of(rapt_context *own, int64_t batch, int64_t m, int64_t n, int64_t k) {
    const rapt_tensor a = rapt_tensor_3d(RAPT_F32, NULL, batch, m, k);
    const rapt_tensor b = rapt_tensor_3d(RAPT_F32, NULL, batch, k, n);
    const rapt_tensor c = rapt_tensor_3d(RAPT_F32, NULL, batch, m, n);
    const rapt_matmul_operands operands = {.a = &a, .b = &b, .c = &c};
    const rapt_matmul what = {.beta = 0.0f};
    int64_t bytes = 0;
    cr_expect_eq(rapt_matmul_scratch(own, &what, &operands, &bytes), RAPT_OK, "%s",
                 rapt_context_message(own));
    return bytes;
}

/* A few megabytes whatever the sizes, and nothing wraps. */
Test(matmul_errors, scratch_is_bounded) {
    for (int32_t threads = 1; threads <= 16; threads *= 4) {
        rapt_context *own = plain_context(threads, NULL);
        const int64_t large = INT64_C(1) << 29, most = (INT64_C(9) + threads) << 20;
        cr_expect_leq(scratch_of(own, 1, 8192, 2304, 768), most);
        cr_expect_leq(scratch_of(own, 1, large, large, large), most);
        cr_expect_leq(scratch_of(own, large, 16, 1, 1 << 20), most);
        cr_expect_leq(scratch_of(own, large, 1000, 1000, 1), most);
        cr_expect_eq(scratch_of(own, large, 0, 1000, 1000), 0);
        rapt_context_destroy(own);
    }
}
