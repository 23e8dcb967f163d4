/* SPDX-License-Identifier: MIT
 * Promises of the public headers that no other suite looks at: an output that is an operand, the
 * task list, accuracy in numbers, scores that the data make -inf, arbitrary strides of axes of size
 * 1, sizes that only the plan refuses, allocators. */
#include "oracle.h"
#include "plain.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const plain_sizes small = {2, 4, 2, 9, 9, 9, 9};

Test(contract, the_same_tensor_as_input_and_output) {
    rapt_context *context = plain_context(1, NULL);
    plain p;
    plain_make(&p, small, 1);
    const rapt_tensor *const inputs[] = {p.operands.k, p.operands.v};
    for (int i = 0; i < 2; i++) {
        rapt_tensor wide = *inputs[i];
        wide.size[1] = small.hq;
        wide.stride[1] = 0; /* heads of the right number, on the input's memory */
        p.operands.out = &wide;
        cr_expect_eq(rapt_attention_forward(context, &p.what, &p.operands), RAPT_ERR_OVERLAP);
    }
    const plain_sizes equal = {1, 2, 2, 5, 5, 5, 5};
    plain square;
    plain_make(&square, equal, 2);
    square.operands.out = square.operands.k;
    cr_expect_eq(rapt_attention_forward(context, &square.what, &square.operands), RAPT_ERR_OVERLAP);
    square.operands.out = square.operands.v;
    cr_expect_eq(rapt_attention_forward(context, &square.what, &square.operands), RAPT_ERR_OVERLAP);
    square.operands.out = square.operands.bias = &square.out;
    cr_expect_eq(rapt_attention_forward(context, &square.what, &square.operands), RAPT_ERR_OVERLAP);
    square.operands.bias = NULL;
    square.operands.out = square.operands.q; /* in place: allowed */
    cr_expect_eq(rapt_attention_forward(context, &square.what, &square.operands), RAPT_OK);
    plain_free(&square);
    plain_free(&p);
    rapt_context_destroy(context);
}

Test(contract, task_list) {
    rapt_context *context = plain_context(3, NULL);
    plain p;
    plain_make(&p, (plain_sizes){2, 6, 3, 500, 500, 8, 8}, 3);
    p.what.causal = RAPT_CAUSAL_TOP_LEFT;
    rapt_attention_info info;
    cr_assert_eq(rapt_attention_forward_info(context, &p.what, &p.operands, &info), RAPT_OK);
    cr_assert_gt(info.tasks, 6, "several tasks per head are wanted here");
    double *all = malloc((size_t)info.tasks * sizeof *all);
    cr_assert_eq(rapt_attention_forward_tasks(context, &p.what, &p.operands, all, info.tasks),
                 RAPT_OK);
    double sum = 0;
    for (int64_t t = 0; t < info.tasks; t++) {
        cr_assert_gt(all[t], 0.0);
        sum += all[t];
    }
    /* multiply-adds: no less than what is visible, no more than twice that and a bit */
    cr_expect_geq(sum, info.flops / 2);
    cr_expect_leq(sum, info.flops / 2 * 2 + 1e5 * (double)info.tasks);
    cr_expect_geq(all[0], all[info.tasks - 1], "longest first");
    for (int64_t capacity = 0; capacity <= info.tasks; capacity += info.tasks / 3) {
        double some[4096];
        cr_assert_lt(info.tasks, 4096);
        for (int i = 0; i < 4096; i++) { some[i] = -7.0; }
        cr_assert_eq(rapt_attention_forward_tasks(context, &p.what, &p.operands, some, capacity),
                     RAPT_OK);
        for (int64_t t = 0; t < 4096; t++) {
            cr_assert_eq(some[t], t < capacity ? all[t] : -7.0, "capacity %lld, task %lld",
                         (long long)capacity, (long long)t);
        }
    }
    free(all);
    plain_free(&p);
    rapt_context_destroy(context);
}

/* The figures that the header states. Plain C rounds twice where the others round once. */
Test(contract, accuracy_in_numbers) {
    rapt_context *context = plain_context(2, NULL);
    const char *isa = rapt_context_isa(context);
    const double slack = strcmp(isa, "scalar") == 0 || strcmp(isa, "odd") == 0 ? 1.5 : 1.0;
    for (int causal = 0; causal < 2; causal++) {
        plain p;
        plain_make(&p, (plain_sizes){1, 1, 1, 1024, 1024, 64, 64}, 4);
        p.what.causal = causal ? RAPT_CAUSAL_TOP_LEFT : RAPT_CAUSAL_NONE;
        oracle o = {0};
        oracle_forward(&o, &p.what, &p.operands);
        cr_assert_eq(plain_run(&p, context), RAPT_OK);
        double largest = 0, error = 0, reference = 0;
        for (size_t i = 0; i < p.out_count; i++) {
            const double off = fabs(((const float *)p.out.data)[i] - o.out[i]);
            cr_assert(off >= 0, "NaN");
            largest = off > largest ? off : largest;
            error += off * off;
            reference += o.out[i] * o.out[i];
        }
        printf("max %.2e, relative RMS %.2e\n", largest, sqrt(error / reference));
        cr_expect_leq(largest, (causal ? 1.1e-6 : 3.0e-7) * slack);
        cr_expect_leq(sqrt(error / reference), (causal ? 2.9e-7 : 4.1e-7) * slack);
        oracle_free(&o);
        plain_free(&p);
    }
    rapt_context_destroy(context);
}

Test(contract, scores_that_data_make_minus_infinity) {
    rapt_context *context = plain_context(1, NULL);
    float q = 1, k[3] = {-INFINITY, 2, -INFINITY}, v[3] = {5, 7, 9}, out = -1, lse = -1;
    const rapt_tensor tq = rapt_tensor_4d(RAPT_F32, &q, 1, 1, 1, 1);
    const rapt_tensor tk = rapt_tensor_4d(RAPT_F32, k, 1, 1, 3, 1);
    const rapt_tensor tv = rapt_tensor_4d(RAPT_F32, v, 1, 1, 3, 1);
    const rapt_tensor to = rapt_tensor_4d(RAPT_F32, &out, 1, 1, 1, 1);
    const rapt_tensor tl = rapt_tensor_3d(RAPT_F32, &lse, 1, 1, 1);
    const rapt_attention what = {0};
    const rapt_attention_operands operands = {.q = &tq, .k = &tk, .v = &tv, .out = &to, .lse = &tl};
    cr_assert_eq(rapt_attention_forward(context, &what, &operands), RAPT_OK);
    cr_expect_eq(out, 7.0f);
    cr_expect_eq(lse, 2.0f);
    k[1] = -INFINITY; /* nothing but such scores: as empty */
    cr_assert_eq(rapt_attention_forward(context, &what, &operands), RAPT_OK);
    cr_expect_eq(out, 0.0f);
    cr_expect(isinf(lse) && lse < 0);
    v[2] = NAN; /* visible all the same */
    cr_assert_eq(rapt_attention_forward(context, &what, &operands), RAPT_OK);
    cr_expect(isnan(out));
    rapt_context_destroy(context);
}

Test(contract, strides_of_axes_of_size_1_do_not_matter) {
    rapt_context *context = plain_context(1, NULL);
    plain usual, odd;
    plain_make(&usual, (plain_sizes){1, 1, 1, 1, 1, 1, 1}, 5);
    plain_make(&odd, (plain_sizes){1, 1, 1, 1, 1, 1, 1}, 5);
    const int64_t strides[] = {0, -1, INT64_MAX, INT64_MIN};
    cr_assert_eq(plain_run(&usual, context), RAPT_OK);
    for (int i = 0; i < 4; i++) {
        rapt_tensor *const all[] = {&odd.q, &odd.k, &odd.v, &odd.out, &odd.lse};
        for (int t = 0; t < 5; t++) {
            for (int axis = 0; axis < all[t]->rank; axis++) { all[t]->stride[axis] = strides[i]; }
        }
        cr_assert_eq(plain_run(&odd, context), RAPT_OK, "%s", rapt_context_message(context));
        cr_expect(plain_same(&usual, &odd));
    }
    plain_free(&usual);
    plain_free(&odd);
    rapt_context_destroy(context);
}

/* Tensors without memory of their own whose task list would be too long for the address space. */
Test(contract, too_many_tasks_and_too_large_heads) {
    rapt_context *context = plain_context(1, NULL);
    const struct {
        int64_t b, d, dv;
    } huge[] = {{(INT64_C(1) << 59) - 1, 1, 0},
                {1, RAPT_MAX_HEAD_SIZE + 1, 1},
                {1, 1, RAPT_MAX_HEAD_SIZE + 1}};
    for (int i = 0; i < 3; i++) {
        const rapt_tensor q = rapt_tensor_4d(RAPT_F32, NULL, huge[i].b, 1, 1, huge[i].d);
        const rapt_tensor v = rapt_tensor_4d(RAPT_F32, NULL, huge[i].b, 1, 1, huge[i].dv);
        const rapt_attention what = {0};
        const rapt_attention_operands operands = {.q = &q, .k = &q, .v = &v, .out = &v};
        rapt_attention_info info;
        const rapt_status status = rapt_attention_forward_info(context, &what, &operands, &info);
        cr_expect_eq(status, RAPT_ERR_SHAPE, "%d: %s", i, rapt_context_message(context));
    }
    rapt_context_destroy(context);
}

typedef struct watched {
    pthread_t caller;
    int calls, elsewhere, offset;
} watched;

static void *watched_allocate(void *user, size_t bytes, size_t alignment) {
    watched *w = user;
    w->calls++;
    w->elsewhere += !pthread_equal(pthread_self(), w->caller);
    void *memory = NULL;
    if (posix_memalign(&memory, alignment, bytes + alignment) != 0) { return NULL; }
    return (char *)memory + w->offset;
}

static void watched_release(void *user, void *memory) {
    watched *w = user;
    w->elsewhere += !pthread_equal(pthread_self(), w->caller);
    free((char *)memory - w->offset);
}

Test(contract, allocators_are_called_by_the_caller_and_checked) {
    watched w = {pthread_self(), 0, 0, 0};
    rapt_context *context = NULL;
    const rapt_context_options options = {.threads = 4,
                                          .allocator = {watched_allocate, watched_release, &w}};
    cr_assert_eq(rapt_context_create(&context, &options), RAPT_OK);
    plain p;
    plain_make(&p, (plain_sizes){2, 8, 8, 200, 200, 32, 32}, 6);
    cr_expect_eq(plain_run(&p, context), RAPT_OK);
    cr_expect_geq(w.calls, 2);
    rapt_context_trim(context);
    w.offset = 8; /* an allocator that ignores the alignment */
    cr_expect_eq(plain_run(&p, context), RAPT_ERR_MEMORY);
    cr_expect(plain_untouched(&p));
    w.offset = 0;
    rapt_context_destroy(context);
    cr_expect_eq(w.elsewhere, 0);
    plain_free(&p);
}

Test(contract, patch_releases_keep_the_layout) {
    rapt_layout layout = {RAPT_VERSION,
                          sizeof(rapt_tensor),
                          sizeof(rapt_attention),
                          sizeof(rapt_attention_operands),
                          sizeof(rapt_attention_info),
                          sizeof(rapt_context_options)};
    rapt_context *context = NULL;
    layout.version = RAPT_VERSION - RAPT_VERSION_PATCH + 99;
    cr_expect_eq(rapt_context_create_checked(&context, NULL, &layout), RAPT_OK);
    rapt_context_destroy(context);
    layout.version = RAPT_VERSION + 100;
    cr_expect_eq(rapt_context_create_checked(&context, NULL, &layout), RAPT_ERR_VERSION);
    rapt_context_destroy(context);
}
