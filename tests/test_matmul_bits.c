/* SPDX-License-Identifier: MIT
 * test_matmul_bits.c: what may not change a bit of a matrix product: the thread count, the batch,
 * rows and columns beside an element, the layout; and NaN or infinity that an element does not use,
 * old values of C under beta = 0 included. */
#include "compare.h"
#include "harness.h"
#include "product_call.h"

#include <criterion/criterion.h>

#include <math.h>

static char why[512];

static void run(product_call *p) {
    rapt_status status = RAPT_OK;
    REQUIRE(product_run(p, &status, why, sizeof why), "%s\n%s", why, product_text(p));
    REQUIRE(status == RAPT_OK, "%s\n%s", rapt_status_name(status), product_text(p));
}

/* Runs both on the same values and compares C, or the part of C that `want` holds. */
static void expect_same(const rapt_tensor *got, const rapt_tensor *want, const product_call *p) {
    REQUIRE(compare_bits(got, want, why, sizeof why), "%s\n%s", why, product_text(p));
}

static const rapt_matmul whats[] = {{.beta = 0.0f}, {.alpha = {1, -1.25f}, .beta = 0.75f}};

/* Sizes that several threads share: strips, columns, many small products, several blocks of k. */
static const int64_t shared[][4] = {{1, 200, 150, 130}, {1, 700, 40, 300}, {1, 30, 2100, 300},
                                    {1, 5, 1024, 2100}, {37, 30, 50, 40},  {3, 64, 80, 200},
                                    {1, 1, 900, 1000},  {500, 1, 60, 70}};

static void make(product_call *p, const int64_t *s, layout b, const rapt_matmul *what) {
    product_make(p, 1, 1, 1, 1);
    product_place(p, PRODUCT_A, LAYOUT_DENSE, 3, (int64_t[]){s[0], s[1], s[2]});
    product_place(p, PRODUCT_B, b, 3, (int64_t[]){s[0], s[2], s[3]});
    product_place(p, PRODUCT_C, LAYOUT_DENSE, 3, (int64_t[]){s[0], s[1], s[3]});
    product_place(p, PRODUCT_BIAS, LAYOUT_DENSE, 1, &s[3]);
    product_fill(p, (uint64_t)s[1]);
    p->what = *what;
}

Test(matmul_bits, any_thread_count) {
    static const int32_t threads[] = {2, 3, 8};
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        product_call one, many;
        const layout b = i % 2 ? LAYOUT_TRANSPOSED : LAYOUT_DENSE;
        make(&one, shared[i], b, &whats[i / 2 % 2]);
        run(&one);
        for (int n = 0; n < 3; n++) {
            make(&many, shared[i], b, &whats[i / 2 % 2]);
            many.threads = threads[n];
            many.caller_scratch = n == 1;
            run(&many);
            expect_same(&many.t[PRODUCT_C], &one.t[PRODUCT_C], &many);
            product_free(&many);
        }
        product_free(&one);
    }
}

/* C[.., from:past on `axis`] computed alone from the operands' parts. */
static void expect_part(const product_call *whole, int32_t axis, int64_t from, int64_t count) {
    product_call part = *whole;
    const rapt_tensor *c = &whole->t[PRODUCT_C];
    int64_t size[3] = {c->size[0], c->size[1], c->size[2]};
    size[axis] = count;
    part.memory[PRODUCT_C] = (guard_block){0};
    part.want = part.tol = NULL;
    product_place(&part, PRODUCT_C, LAYOUT_DENSE, 3, size);
    if (axis != 2) {
        part.t[PRODUCT_A] = rapt_tensor_slice(whole->t[PRODUCT_A], axis, from, count);
    }
    if (axis != 1) {
        part.t[PRODUCT_B] = rapt_tensor_slice(whole->t[PRODUCT_B], axis, from, count);
    }
    if (axis == 2) {
        part.t[PRODUCT_BIAS] = rapt_tensor_slice(whole->t[PRODUCT_BIAS], 0, from, count);
    }
    run(&part);
    const rapt_tensor want = rapt_tensor_slice(*c, axis, from, count);
    expect_same(&part.t[PRODUCT_C], &want, &part);
    guard_return(&part.memory[PRODUCT_C]);
}

/* An element knows its row of A and its column of B, nothing of what is beside them. */
Test(matmul_bits, any_batch_and_neighbours) {
    static const int64_t sizes[4] = {3, 45, 1100, 150};
    for (int form = 0; form < 2; form++) {
        product_call p;
        make(&p, sizes, form ? LAYOUT_TRANSPOSED : LAYOUT_DENSE, &whats[0]);
        p.what.alpha = whats[form].alpha;
        run(&p);
        for (int64_t item = 0; item < 3; item++) { expect_part(&p, 0, item, 1); }
        for (int64_t row = 0; row < 38; row += 9) { expect_part(&p, 1, row, row % 7 + 1); }
        for (int64_t column = 0; column < 110; column += 13) {
            expect_part(&p, 2, column, column % 40 + 1);
        }
        product_free(&p);
    }
}

/* The same values in every layout of every operand. */
Test(matmul_bits, any_layout) {
    static const int64_t sizes[4] = {2, 30, 40, 75};
    for (int form = 0; form < 2; form++) {
        product_call dense;
        make(&dense, sizes, LAYOUT_DENSE, &whats[form]);
        run(&dense);
        for (layout l = 0; l < LAYOUT_WRITABLE; l++) {
            product_call p;
            make(&p, sizes, l, &whats[form]);
            product_place(&p, PRODUCT_A, l, 3, (int64_t[]){2, 30, 40});
            product_place(&p, PRODUCT_C, l, 3, (int64_t[]){2, 30, 75});
            product_place(&p, PRODUCT_BIAS, l, 1, &sizes[3]);
            product_fill(&p, (uint64_t)sizes[1]);
            run(&p);
            expect_same(&p.t[PRODUCT_C], &dense.t[PRODUCT_C], &p);
            product_free(&p);
        }
        product_free(&dense);
    }
}

/* One bad number in an operand: its row or column of C changes, no other bit does. */
Test(matmul_bits, poison_stays_in_its_row_or_column) {
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    static const int64_t sizes[4] = {1, 23, 50, 70};
    for (int form = 0; form < 2; form++) {
        const layout b = form ? LAYOUT_TRANSPOSED : LAYOUT_DENSE;
        product_call clean;
        make(&clean, sizes, b, &whats[form]);
        run(&clean);
        for (int n = 0; n < 3 * 4; n++) {
            const product_id id = n % 4 == 0   ? PRODUCT_A
                                  : n % 4 == 1 ? PRODUCT_BIAS
                                  : n % 4 == 2 ? PRODUCT_C
                                               : PRODUCT_B;
            const int64_t row = 5 * n % 23, column = id == PRODUCT_B && n > 6 ? 69 : 7 * n % 70;
            product_call p;
            make(&p, sizes, b, &whats[form]);
            if (id == PRODUCT_A) { *tensor_f32(&p.t[id], 0, row, n, 0) = bad[n / 4]; }
            if (id == PRODUCT_B) { *tensor_f32(&p.t[id], 0, n, column, 0) = bad[n / 4]; }
            if (id == PRODUCT_BIAS) { *tensor_f32(&p.t[id], column, 0, 0, 0) = bad[n / 4]; }
            if (id == PRODUCT_C) { *tensor_f32(&p.t[id], 0, row, column, 0) = bad[n / 4]; }
            run(&p);
            for (walk w = walk_begin(&p.t[PRODUCT_C]); !w.done; walk_next(&w)) {
                const int in_row = w.index[1] == row, in_column = w.index[2] == column;
                const int hit = id == PRODUCT_A   ? in_row
                                : id == PRODUCT_C ? in_row && in_column && p.what.beta != 0.0f
                                                  : in_column;
                float *old = tensor_f32(&clean.t[PRODUCT_C], 0, w.index[1], w.index[2], 0);
                const float got = *walk_f32(&w);
                REQUIRE(hit ? !isfinite(got) : got == *old, "%s, bad %g: element %lld %lld = %g",
                        product_text(&p), (double)bad[n / 4], (long long)w.index[1],
                        (long long)w.index[2], (double)got);
            }
            product_free(&p);
        }
        product_free(&clean);
    }
}

/* 0 times infinity is NaN, in the library as in the formula, alpha = 0 included. */
Test(matmul_bits, zero_times_infinity) {
    product_call p;
    product_make(&p, 4, 6, 9, 3);
    for (int64_t k = 0; k < 6; k++) { *tensor_f32(&p.t[PRODUCT_A], 2, k, 0, 0) = 0.0f; }
    *tensor_f32(&p.t[PRODUCT_B], 1, 8, 0, 0) = INFINITY;
    for (int zero = 0; zero < 2; zero++) {
        p.what.alpha = (rapt_scale){zero, 0.0f};
        REQUIRE(product_try(&p, why, sizeof why), "%s", why);
        REQUIRE(isnan(*tensor_f32(&p.t[PRODUCT_C], 2, 8, 0, 0)), "alpha on %d", zero);
        REQUIRE(*tensor_f32(&p.t[PRODUCT_C], 2, 7, 0, 0) == 0.0f, "alpha on %d", zero);
    }
    product_free(&p);
}
