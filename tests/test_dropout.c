/* SPDX-License-Identifier: MIT
 * test_dropout.c: dropout in every path. With q = 0 all visible keys have the same weight, and with
 * v = identity the output is the matrix of dropped weights: a zero is a dropped key. */
#include "compare.h"
#include "harness.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>

/* All visible keys equally likely; out and weights show which are kept. */
static void show_pattern(problem *p, shape s, double dropout, uint64_t seed, uint32_t offset) {
    problem_init(p, s);
    fill_identity(p);
    p->what.dropout = (rapt_dropout){1, dropout, seed, offset};
}

static bool kept_by_formula(const problem *p, const int64_t *x, int64_t key) {
    const uint32_t item = (uint32_t)(x[0] * p->s.hq + x[1]);
    return rapt_dropout_keep(&p->what.dropout, item, (uint32_t)x[2], key) != 0;
}

/* The zeros of a [B, Hq, Tq, Tk] tensor are those of random.h, on visible pairs. */
static void expect_pattern(const problem *p, const rapt_tensor *t) {
    for (walk w = walk_begin(t); !w.done; walk_next(&w)) {
        const int64_t *x = w.index;
        const bool kept = problem_visible(p, x[0], x[1], x[2], x[3]) && kept_by_formula(p, x, x[3]);
        REQUIRE((*walk_f32(&w) != 0.0f) == kept, "[%lld,%lld,%lld,%lld] = %g", (long long)x[0],
                (long long)x[1], (long long)x[2], (long long)x[3], (double)*walk_f32(&w));
    }
}

/* ---- Ends of the probability, modes ---- */

static const shape shapes[] = {
    {2, 2, 1, 5, 7, 3, 4}, {1, 3, 3, 33, 130, 16, 16}, {2, 4, 2, 17, 65, 8, 9}};

/* The same problem without dropout. */
static void without_dropout(problem *p, shape s) {
    problem_init(p, s);
    problem_layout(p, OP_WEIGHTS, LAYOUT_DENSE);
    p->what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
    fill_normal(p, 3);
    expect_oracle(p);
}

Test(edges, off_is_bitwise_none) {
    const rapt_dropout off[] = {{0, 0.5, 1, 2}, {0, 1.0, 1, 2},  {0, NAN, 1, 2},
                                {0, 7.0, 1, 2}, {0, -1.0, 1, 2}, {1, 0.0, 1, 2}};
    for (int n = 0; n < 3; n++) {
        for (int path = 0; path < 2; path++) {
            problem none, p;
            without_dropout(&none, shapes[n]);
            without_dropout(&p, shapes[n]);
            if (path == 0) problem_drop(&none, OP_WEIGHTS);
            if (path == 0) problem_drop(&p, OP_WEIGHTS);
            expect_run(&none);
            problem_full_keep(&p);
            fill_none(&p, OP_KEEP);
            for (size_t o = 0; o < sizeof off / sizeof *off; o++) {
                p.what.dropout = off[o];
                expect_run(&p);
                expect_same_bits(&p, &none);
            }
            problem_free(&p);
            problem_free(&none);
        }
    }
}

Test(edges, one_gives_zeros) {
    for (int n = 0; n < 3; n++) {
        for (int keep = 0; keep < 2; keep++) {
            problem none, p;
            without_dropout(&none, shapes[n]);
            without_dropout(&p, shapes[n]);
            p.what.dropout = (rapt_dropout){1, 1.0, 4, 5};
            if (keep) problem_full_keep(&p); /* all true */
            expect_run(&p);
            for (operand_id id = OP_OUT; id <= OP_WEIGHTS; id += OP_WEIGHTS - OP_OUT) {
                for (walk w = walk_begin(&p.op[id].t); !w.done; walk_next(&w)) {
                    REQUIRE(*walk_f32(&w) == 0.0f, "%g", (double)*walk_f32(&w));
                }
            }
            for (walk w = walk_begin(&p.op[OP_LSE].t); !w.done; walk_next(&w)) {
                const int64_t *x = w.index;
                REQUIRE(*walk_f32(&w) == *problem_at(&none, OP_LSE, x[0], x[1], x[2], 0), "lse");
            }
            problem_free(&p);
            problem_free(&none);
        }
    }
}

/* A kept weight is the weight before dropout times 1 / (1 - p), to the five roundings of the two:
 * 1 / sum and the product with it in each, 1 / (1 - p) in one. lse keeps its bits. */
Test(edges, kept_weights_are_scaled) {
    const double ps[] = {1e-11, 0.1, 0.5, 0.75, 0.999};
    for (int n = 0; n < 15; n++) {
        problem none, p;
        without_dropout(&none, shapes[n / 5]);
        without_dropout(&p, shapes[n / 5]);
        p.what.dropout = (rapt_dropout){1, ps[n % 5], 6, 7};
        snprintf(p.note, sizeof p.note, "p %g", ps[n % 5]);
        expect_oracle(&p);
        expect_pattern(&p, &p.op[OP_WEIGHTS].t);
        for (walk w = walk_begin(&p.op[OP_WEIGHTS].t); !w.done; walk_next(&w)) {
            const int64_t *x = w.index;
            const double before = (double)*problem_at(&none, OP_WEIGHTS, x[0], x[1], x[2], x[3]);
            const double want = before / (1.0 - ps[n % 5]), got = (double)*walk_f32(&w);
            REQUIRE(got == 0.0 || fabs(got - want) <= 5.01 * 0x1p-24 * want, "%.9g, want %.9g", got,
                    want);
        }
        p.what.weights_before_dropout = 1;
        expect_oracle(&p);
        REQUIRE(compare_bits(&p.op[OP_WEIGHTS].t, &none.op[OP_WEIGHTS].t, p.note, sizeof p.note),
                "weights before dropout: %s", p.note);
        REQUIRE(compare_bits(&p.op[OP_LSE].t, &none.op[OP_LSE].t, p.note, sizeof p.note), "lse: %s",
                p.note);
        problem_free(&p);
        problem_free(&none);
    }
}

/* ---- The pattern ---- */

/* Fused, materialised and the pass: one pattern, for any thread count. */
Test(pattern, same_in_every_path) {
    const shape s = {2, 3, 3, 130, 130, 1, 130};
    const int32_t threads[] = {1, 3, 8};
    problem fused, whole, pass;
    show_pattern(&fused, s, 0.3, 0x123456789abcdef0, 77);
    show_pattern(&whole, s, 0.3, 0x123456789abcdef0, 77);
    problem_layout(&whole, OP_WEIGHTS, LAYOUT_DENSE);
    for (int n = 0; n < 3; n++) {
        fused.threads = whole.threads = threads[n];
        expect_run(&fused);
        expect_pattern(&fused, &fused.op[OP_OUT].t);
        expect_run(&whole);
        expect_pattern(&whole, &whole.op[OP_OUT].t);
        expect_pattern(&whole, &whole.op[OP_WEIGHTS].t);
        problem_init_pass(&pass, s);
        pass.what = whole.what;
        pass.threads = threads[n];
        expect_run(&pass);
        expect_pattern(&pass, &pass.op[OP_WEIGHTS].t);
        expect_same_bits(&pass, &whole);
        problem_free(&pass);
    }
    problem_free(&fused);
    problem_free(&whole);
}

/* Ranges that begin and end at any key, heads that share lanes, rows with few and many keys: a
 * weight's place among tiles, blocks and lanes does not count. */
/* Probabilities that put the threshold half way between a weight's word and the next number. */
Test(pattern, same_at_ties) {
    const shape s = {1, 1, 1, 4, 9, 3, 9};
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t j = 0; j < 9; j++) {
            const uint32_t counter[4] = {j / 4, i, 0, 7}, key[2] = {5, 0};
            uint32_t words[4];
            rapt_philox4x32(counter, key, words);
            problem p;
            show_pattern(&p, s, 0.5 - ((double)(int32_t)words[j % 4] + 0.5) * 0x1p-32, 5, 7);
            problem_layout(&p, OP_WEIGHTS, LAYOUT_DENSE);
            expect_oracle(&p);
            expect_pattern(&p, &p.op[OP_OUT].t);
            expect_pattern(&p, &p.op[OP_WEIGHTS].t);
            problem_free(&p);
        }
    }
}

Test(pattern, does_not_depend_on_tiles) {
    const int64_t keys[] = {1, 3, 4, 5, 31, 127, 128, 129, 200};
    for (int n = 0; n < 9 * 4; n++) {
        const int64_t tk = keys[n % 9];
        problem p;
        show_pattern(&p, (shape){2, 4, 2, 40, tk, 2, tk}, 0.4, 5, 0);
        problem_layout(&p, OP_WEIGHTS, LAYOUT_DENSE);
        const int limit = n / 9;
        if (limit == 1) p.what.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
        if (limit == 2) p.what.window = (rapt_window){1, 6, 3};
        if (limit == 3) problem_lengths(&p, RAPT_I32, 1, (int64_t[]){tk - tk / 3});
        expect_run(&p);
        expect_pattern(&p, &p.op[OP_WEIGHTS].t);
        problem_drop(&p, OP_WEIGHTS);
        expect_run(&p);
        expect_pattern(&p, &p.op[OP_OUT].t);
        problem_free(&p);
    }
}

static int64_t count_differences(const problem *a, const problem *b, int64_t head_a, int64_t head_b,
                                 int64_t item_a, int64_t item_b) {
    int64_t count = 0;
    for (int64_t n = 0; n < a->s.tq * a->s.tk; n++) {
        const int64_t i = n / a->s.tk, j = n % a->s.tk;
        const float x = *problem_at(a, OP_OUT, item_a, head_a, i, j);
        const float y = *problem_at(b, OP_OUT, item_b, head_b, i, j);
        count += (x != 0.0f) != (y != 0.0f);
    }
    return count;
}

/* Seeds, offsets, heads and batch items have patterns of their own: with p = 1/2, two of them
 * differ in half of their n places, within 4 sigma = 2 sqrt(n). */
Test(pattern, differs_between_seeds_offsets_heads_and_items) {
    const shape s = {2, 2, 2, 60, 60, 1, 60};
    const double half = 60 * 60 / 2.0, sigma4 = 2.0 * 60.0;
    const struct {
        uint64_t seed;
        uint32_t offset;
    } others[] = {{2, 0}, {1, 1}, {1 + (UINT64_C(1) << 32), 0}, {1, 0x80000000u}, {0, 1}};
    problem first, p;
    show_pattern(&first, s, 0.5, 1, 0);
    expect_run(&first);
    for (size_t n = 0; n < sizeof others / sizeof *others; n++) {
        show_pattern(&p, s, 0.5, others[n].seed, others[n].offset);
        expect_run(&p);
        const double differ = (double)count_differences(&first, &p, 0, 0, 0, 0);
        REQUIRE(fabs(differ - half) <= sigma4, "seed or offset %zu: %g of 3600 differ", n, differ);
        problem_free(&p);
    }
    for (int64_t n = 1; n < 4; n++) {
        const double differ = (double)count_differences(&first, &first, 0, n % 2, 0, n / 2);
        REQUIRE(fabs(differ - half) <= sigma4, "head or item: %g of 3600 differ", differ);
    }
    problem_free(&first);
}

/* The generated pattern, given as `keep`, makes the same bits; so does any that is broadcast,
 * against its expansion. */
Test(pattern, of_the_caller) {
    const shape s = {2, 4, 2, 30, 70, 5, 6};
    for (int path = 0; path < 2; path++) {
        problem drawn, given;
        problem_init(&drawn, s);
        problem_init(&given, s);
        if (path) problem_layout(&drawn, OP_WEIGHTS, LAYOUT_DENSE);
        if (path) problem_layout(&given, OP_WEIGHTS, LAYOUT_DENSE);
        fill_normal(&drawn, 9);
        fill_copy(&given, &drawn);
        drawn.what.dropout = given.what.dropout = (rapt_dropout){1, 0.2, 8, 9};
        problem_full_keep(&given);
        for (walk w = walk_begin(&given.op[OP_KEEP].t); !w.done; walk_next(&w)) {
            *walk_byte(&w) = kept_by_formula(&given, w.index, w.index[3]) ? 128 : 0;
        }
        given.what.dropout.seed = 0;
        given.what.dropout.offset = 12345;
        expect_oracle(&drawn);
        expect_oracle(&given);
        expect_same_bits(&given, &drawn);
        problem_free(&given);
        problem_free(&drawn);
    }
}

/* ... whatever p > 0 is: the generator would drop nothing here. */
Test(pattern, of_the_caller_counts_for_any_p) {
    for (int path = 0; path < 2; path++) {
        problem p;
        problem_init(&p, (shape){1, 2, 1, 9, 40, 3, 4});
        if (path) problem_layout(&p, OP_WEIGHTS, LAYOUT_DENSE);
        fill_normal(&p, 12);
        p.what.dropout = (rapt_dropout){1, 1e-11, 8, 9};
        problem_full_keep(&p);
        rng r = rng_make(13, 0);
        fill_bools(&p, OP_KEEP, &r, 50);
        expect_oracle(&p);
        problem_free(&p);
    }
}

Test(pattern, of_the_caller_is_broadcast) {
    const shape s = {3, 2, 1, 17, 33, 3, 5};
    const int64_t full[4] = {s.b, s.hq, s.tq, s.tk};
    for (int way = 0; way < 2 * 4 * 16; way++) {
        const int32_t rank = 1 + way / 2 % 4;
        int64_t size[4];
        for (int axis = 0; axis < 4; axis++) size[axis] = way / 8 >> axis & 1 ? 1 : full[axis];
        problem p, dense;
        problem_init(&p, s);
        problem_init(&dense, s);
        if (way % 2) problem_layout(&p, OP_WEIGHTS, LAYOUT_DENSE);
        if (way % 2) problem_layout(&dense, OP_WEIGHTS, LAYOUT_DENSE);
        fill_normal(&p, 10);
        fill_copy(&dense, &p);
        p.what.dropout = dense.what.dropout = (rapt_dropout){1, 0.3, 1, 1};
        rng r = rng_make(11, (uint64_t)way);
        problem_keep(&p, rank, size + 4 - rank, LAYOUT_DENSE);
        problem_full_keep(&dense);
        fill_bools(&p, OP_KEEP, &r, 60);
        fill_expanded(&dense, &p, OP_KEEP);
        expect_oracle(&p);
        expect_run(&dense);
        expect_same_bits(&p, &dense);
        problem_free(&p);
        problem_free(&dense);
    }
}

/* ---- Statistics, 4 sigma each ---- */

enum { N = 256, ITEMS = 16 };

/* Kept entries along lines of N; a line in 15800 may be further off than 4 sigma. */
typedef struct lines {
    int64_t far, count;
} lines;

static void add_line(lines *x, double kept, double p) {
    x->far += fabs(kept - N * (1.0 - p)) > 4.0 * sqrt(N * p * (1.0 - p));
    x->count++;
}

Test(statistics, keep_rate_and_values) {
    const double p = 0.1, weight = 1.0 / N / (1.0 - p);
    problem x;
    show_pattern(&x, (shape){4, 4, 4, N, N, 1, N}, p, 2024, 1);
    expect_run(&x);
    lines all = {0};
    double total = 0.0;
    for (int64_t item = 0; item < ITEMS; item++) {
        double row[N] = {0}, column[N] = {0}, diagonal[N] = {0};
        for (int64_t n = 0; n < N * N; n++) {
            const int64_t i = n / N, j = n % N;
            const double got = (double)*problem_at(&x, OP_OUT, item / 4, item % 4, i, j);
            REQUIRE(got == 0.0 || fabs(got - weight) <= 3 * 0x1p-24 * weight, "%.9g", got);
            row[i] += got != 0.0;
            column[j] += got != 0.0;
            diagonal[(j - i + N) % N] += got != 0.0;
            total += got != 0.0;
        }
        for (int n = 0; n < N; n++) {
            add_line(&all, row[n], p);
            add_line(&all, column[n], p);
            add_line(&all, diagonal[n], p);
        }
    }
    const double n = (double)ITEMS * N * N;
    REQUIRE(fabs(total - n * (1.0 - p)) <= 4.0 * sqrt(n * p * (1.0 - p)), "%g of %g kept", total,
            n);
    REQUIRE(all.far <= 4, "%lld of %lld lines are further off than 4 sigma", (long long)all.far,
            (long long)all.count);
    for (walk w = walk_begin(&x.op[OP_LSE].t); !w.done; walk_next(&w)) {
        REQUIRE(fabs((double)*walk_f32(&w) - log(N)) < 1e-6, "lse %g", (double)*walk_f32(&w));
    }
    problem_free(&x);
}
