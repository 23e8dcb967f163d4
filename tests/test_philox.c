/* SPDX-License-Identifier: MIT
 * test_philox.c: the counter generator against its published answers, and what attention dropout
 * makes of its words: the formula of random.h, its ends, and statistics of 1024 x 1024 decisions.
 *
 * Statistics: seeds are fixed; every figure must lie within 4 standard deviations of its
 * expectation. For the sums of many rows, the figure is their chi-square, which notices rows that
 * vary too little as well. */
#include <rapt/rapt.h>

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Salmon et al. 2011, file kat_vectors of Random123. */
static const struct {
    uint32_t counter[4], key[2], out[4];
} known[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

Test(philox, published_answers) {
    for (size_t n = 0; n < sizeof known / sizeof known[0]; n++) {
        uint32_t out[4];
        rapt_philox4x32(known[n].counter, known[n].key, out);
        cr_expect(memcmp(out, known[n].out, sizeof out) == 0, "vector %zu: %08x %08x %08x %08x", n,
                  out[0], out[1], out[2], out[3]);
        memcpy(out, known[n].counter, sizeof out);
        rapt_philox4x32(out, known[n].key, out);
        cr_expect(memcmp(out, known[n].out, sizeof out) == 0, "vector %zu in place", n);
    }
}

/* ---- The decision ---- */

/* The formula of random.h, spelt out. */
static int keep_by_formula(const rapt_dropout *d, uint32_t item, uint32_t query, int64_t key) {
    const uint32_t counter[4] = {(uint32_t)(key / 4), query, item, d->offset};
    const uint32_t seed[2] = {(uint32_t)(d->seed % 4294967296u), (uint32_t)(d->seed / 4294967296u)};
    uint32_t word[4];
    rapt_philox4x32(counter, seed, word);
    const double threshold = round((1.0 - d->p) * 4294967296.0 - 2147483648.0);
    return (double)(int32_t)word[key % 4] < threshold;
}

Test(dropout, follows_the_formula) {
    static const int64_t keys[] = {0, 1, 2, 3, 4, 1023, 4294967295, 4294967299, 17179869185};
    static const uint32_t numbers[] = {0, 1, 77, 0x80000000u, 0xffffffffu};
    static const double ps[] = {0x1p-40, 0.1, 0.5, 0.75, 0.999, 1.0 - 0x1p-33};
    for (size_t n = 0; n < 6 * 9 * 5 * 5; n++) {
        const rapt_dropout d = {1, ps[n % 6], UINT64_C(0x9d39247e33776d41) * (n + 1),
                                numbers[n / 6 % 5]};
        const uint32_t item = numbers[n % 5], query = numbers[n / 30 % 5];
        const int64_t key = keys[n / 5 % 9];
        const int32_t kept = rapt_dropout_keep(&d, item, query, key);
        cr_expect_eq(kept, keep_by_formula(&d, item, query, key), "p %g item %u query %u key %lld",
                     d.p, item, query, (long long)key);
    }
}

Test(dropout, ends) {
    const rapt_dropout none = {1, 0.0, 3, 0}, all = {1, 1.0, 3, 0}, off = {0, 1.0, 3, 0};
    for (uint32_t i = 0; i < 10000; i++) {
        cr_assert_eq(rapt_dropout_keep(&none, i, i / 7, i), 1);
        cr_assert_eq(rapt_dropout_keep(&all, i, i / 7, i), 0);
        cr_assert_eq(rapt_dropout_keep(&off, i, i / 7, i), 1);
    }
}

/* ---- Statistics ---- */

enum { N = 1024 };

/* kept - (1 - p): mean 0, variance p (1 - p) */
typedef struct pattern {
    double p;
    float at[N][N];
} pattern;

static pattern first, second;

static void draw(pattern *x, const rapt_dropout *d, uint32_t item) {
    x->p = d->p;
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t j = 0; j < N; j++) {
            x->at[i][j] = (float)(rapt_dropout_keep(d, item, i, j) - (1.0 - d->p));
        }
    }
}

static void expect_sigmas(double figure, double sigma, double p, const char *what) {
    cr_expect(fabs(figure) <= 4.0 * sigma, "p %g: %s is %.2f sigma off", p, what, figure / sigma);
}

/* Sums of N elements each, N of them. */
static void expect_sums(const double sum[N], double p, const char *what) {
    const double q = 1.0 - p, variance = p * q;
    double chi = 0.0, total = 0.0;
    for (int i = 0; i < N; i++) {
        chi += sum[i] * sum[i] / (N * variance);
        total += sum[i];
    }
    /* variance of a squared standardised sum: 2 + (fourth cumulant of one element) / N */
    const double kurtosis = (1.0 - 6.0 * variance) / variance;
    expect_sigmas(chi - N, sqrt(N * (2.0 + kurtosis / N)), p, what);
    expect_sigmas(total, sqrt((double)N * N * variance), p, "the total");
}

Test(dropout, keep_rate_of_rows_columns_and_diagonals) {
    static const double ps[] = {0.1, 0.5, 0.9};
    for (int n = 0; n < 3; n++) {
        double row[N] = {0}, column[N] = {0}, diagonal[N] = {0}, across[N] = {0};
        draw(&first, &(rapt_dropout){1, ps[n], 42, 7}, 3);
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < N; j++) {
                const double x = (double)first.at[i][j];
                row[i] += x;
                column[j] += x;
                diagonal[(j - i + N) % N] += x;
                across[(i + j) % N] += x;
            }
        }
        expect_sums(row, ps[n], "the rows");
        expect_sums(column, ps[n], "the columns");
        expect_sums(diagonal, ps[n], "the diagonals");
        expect_sums(across, ps[n], "the other diagonals");
    }
}

/* Correlation of a's elements with b's, `down` rows and `right` columns further (wrapped). */
static void expect_independent(const pattern *a, const pattern *b, int down, int right,
                               const char *what) {
    double sum = 0.0;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            sum += (double)a->at[i][j] * (double)b->at[(i + down) % N][(j + right) % N];
        }
    }
    expect_sigmas(sum, N * a->p * (1.0 - a->p), a->p, what);
}

Test(dropout, neighbours_are_independent) {
    static const double ps[] = {0.1, 0.5, 0.9};
    for (int n = 0; n < 3; n++) {
        draw(&first, &(rapt_dropout){1, ps[n], 43, 0}, 0);
        for (int down = 0; down < 4; down++) {
            for (int right = 0; right < 9; right++) {
                if (down == 0 && right == 0) { continue; }
                char what[64];
                snprintf(what, sizeof what, "the neighbour %d down, %d right", down, right);
                expect_independent(&first, &first, down, right, what);
            }
        }
    }
}

Test(dropout, transposed_is_independent) {
    draw(&first, &(rapt_dropout){1, 0.5, 46, 0}, 0);
    second.p = first.p;
    double sum = 0.0;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < i; j++) { sum += (double)first.at[i][j] * (double)first.at[j][i]; }
    }
    expect_sigmas(sum, sqrt(N * (N - 1) / 2.0) * 0.25, 0.5, "the transposed element");
}

Test(dropout, heads_seeds_and_offsets_are_independent) {
    static const struct {
        const char *what;
        uint64_t seed;
        uint32_t offset, item;
    } other[] = {
        {"the next head", 44, 5, 1},
        {"the next offset", 44, 6, 0},
        {"the next seed", 45, 5, 0},
        {"the seed's high word", 44 + (UINT64_C(1) << 32), 5, 0},
        {"head and offset swapped", 44, 0, 5},
        {"seed and offset swapped", 5, 44, 0},
    };
    for (double p = 0.25; p < 1.0; p += 0.5) {
        draw(&first, &(rapt_dropout){1, p, 44, 5}, 0);
        for (size_t n = 0; n < sizeof other / sizeof other[0]; n++) {
            draw(&second, &(rapt_dropout){1, p, other[n].seed, other[n].offset}, other[n].item);
            expect_independent(&first, &second, 0, 0, other[n].what);
            expect_independent(&first, &second, 0, 1, other[n].what);
            expect_independent(&first, &second, 1, 0, other[n].what);
        }
    }
}
