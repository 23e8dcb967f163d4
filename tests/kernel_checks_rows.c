/* SPDX-License-Identifier: MIT
 * kernel_checks_rows.c: the kernels that move rows: gather_lanes, pack_rows, finish_rows, and
 * all_finite, which looks at them. Moved numbers are compared bit by bit. */
#include "kernel_checks.h"

#include "kernel_tools.h"

#include <float.h>
#include <math.h>

static const int64_t strides[] = {1, 2, 3, 0, -1, -2};
enum { STRIDES = sizeof strides / sizeof strides[0] };

/* `count` random numbers, stride apart; repeated ones are all the last. */
static span take_row(rng *r, int64_t count, int64_t stride, guard_side side) {
    const span s = span_take(count, stride, sizeof(float), side);
    for (int64_t c = 0; c < count; c++) { ((float *)s.first)[c * stride] = random_float(r, 9); }
    return s;
}

/* ---- gather_lanes ---- */

static void run_gather(tally *t, int64_t size, int64_t stride, guard_side side) {
    const int64_t lanes = t->k->lanes, ld = lanes * (1 + size % 2) + size % 3;
    const float scale = size % 4 == 0 ? 1.0f : -0.3f;
    rng r = rng_make(21, (uint64_t)size);
    span rows[RAPTI_MAX_LANES];
    const float *pointers[RAPTI_MAX_LANES];
    for (int64_t i = 0; i < lanes; i++) {
        rows[i] = take_row(&r, size, stride, side);
        pointers[i] = rows[i].first;
    }
    plane out = plane_take(size, lanes, ld);
    plane_seal(&out);
    t->k->gather_lanes(pointers, stride, size, scale, out.at, ld);
    for (int64_t d = 0; d < size; d++) {
        for (int64_t i = 0; i < lanes; i++) {
            const float got = out.at[d * ld + i], want = scale * pointers[i][d * stride];
            if (same_float(got, want)) { continue; }
            tally_fail(t, "size %lld stride %lld: [%lld][%lld] = %.9g, want %.9g", (long long)size,
                       (long long)stride, (long long)d, (long long)i, (double)got, (double)want);
        }
    }
    if (!plane_kept(&out, 0, size)) {
        tally_fail(t, "size %lld stride %lld: written outside", (long long)size, (long long)stride);
    }
    plane_return(&out);
    for (int64_t i = 0; i < lanes; i++) { span_return(&rows[i]); }
}

int check_gather_lanes(const rapti_kernels *k, FILE *log) {
    tally t = {k, "gather_lanes", log, 0};
    for (int64_t size = 0; size <= 70; size++) {
        for (int n = 0; n < STRIDES; n++) {
            run_gather(&t, size, strides[n], GUARD_AFTER);
            run_gather(&t, size, strides[n], GUARD_BEFORE);
        }
    }
    return t.failures;
}

/* ---- pack_rows ---- */

typedef struct pack_case {
    int64_t row, column, count, size;
} pack_case;

/* Memory of the rows, exactly their reach; the pointer to element [0][0]. */
static guard_block take_rows(const pack_case *c, guard_side side, float **first) {
    const int64_t row_reach = c->count > 0 ? (c->count - 1) * c->row : 0;
    const int64_t column_reach = c->size > 0 ? (c->size - 1) * c->column : 0;
    const int64_t before =
        (row_reach < 0 ? -row_reach : 0) + (column_reach < 0 ? -column_reach : 0);
    const int64_t after = (row_reach > 0 ? row_reach : 0) + (column_reach > 0 ? column_reach : 0);
    const int64_t floats = c->count > 0 && c->size > 0 ? before + after + 1 : 0;
    const guard_block block = guard_take((size_t)floats * sizeof(float), sizeof(float), side, 0xff);
    *first = (float *)(void *)block.data + (floats > 0 ? before : 0);
    rng r = rng_make(22, (uint64_t)floats);
    for (int64_t n = 0; n < floats; n++) { (*first)[n - before] = random_float(&r, 9); }
    return block;
}

static void run_pack(tally *t, const pack_case *c, guard_side side) {
    const int64_t lanes = t->k->lanes, width = (c->size + lanes - 1) / lanes * lanes;
    float *rows;
    guard_block block = take_rows(c, side, &rows);
    plane out = plane_take(c->count, width, width + c->size % 3);
    plane_seal(&out);
    t->k->pack_rows(rows, c->row, c->column, c->count, c->size, out.at, out.ld);
    for (int64_t r = 0; r < c->count; r++) {
        for (int64_t j = 0; j < width; j++) {
            const float got = out.at[r * out.ld + j];
            const float want = j < c->size ? rows[r * c->row + j * c->column] : 0.0f;
            if (bits_of(got) == bits_of(want)) { continue; }
            tally_fail(t,
                       "row %lld column %lld count %lld size %lld: [%lld][%lld] = %.9g, want %.9g",
                       (long long)c->row, (long long)c->column, (long long)c->count,
                       (long long)c->size, (long long)r, (long long)j, (double)got, (double)want);
        }
    }
    if (!plane_kept(&out, 0, c->count)) {
        tally_fail(t, "row %lld column %lld count %lld size %lld: written outside",
                   (long long)c->row, (long long)c->column, (long long)c->count,
                   (long long)c->size);
    }
    plane_return(&out);
    guard_return(&block);
}

int check_pack_rows(const rapti_kernels *k, FILE *log) {
    static const int64_t row_strides[] = {71, 220, 1, 0, -73};
    tally t = {k, "pack_rows", log, 0};
    for (int64_t size = 0; size <= 70; size++) {
        for (int n = 0; n < STRIDES * 5; n++) {
            for (int64_t count = 0; count <= 3; count++) {
                const pack_case c = {row_strides[n / STRIDES], strides[n % STRIDES], count, size};
                run_pack(&t, &c, GUARD_AFTER);
                run_pack(&t, &c, GUARD_BEFORE);
            }
        }
    }
    return t.failures;
}

/* ---- sum_rows: sums in order, no rounding left open ---- */

static void run_sum(tally *t, const pack_case *c, guard_side side) {
    const int64_t lanes = t->k->lanes, width = (c->size + lanes - 1) / lanes * lanes;
    float *rows;
    guard_block block = take_rows(c, side, &rows);
    plane sum = plane_take(1, width, width), want = plane_take(1, width, width);
    rng r = rng_make(23, (uint64_t)c->size);
    for (int64_t j = 0; j < width; j++) {
        sum.at[j] = want.at[j] = (float)rng_normal(&r);
        for (int64_t n = 0; n < c->count && j < c->size; n++) {
            want.at[j] += rows[n * c->row + j];
        }
    }
    plane_seal(&sum);
    t->k->sum_rows(rows, c->row, c->count, c->size, sum.at);
    for (int64_t j = 0; j < width; j++) {
        if (same_float(sum.at[j], want.at[j])) { continue; }
        tally_fail(t, "row %lld count %lld size %lld: sum[%lld] = %.9g, want %.9g",
                   (long long)c->row, (long long)c->count, (long long)c->size, (long long)j,
                   (double)sum.at[j], (double)want.at[j]);
    }
    if (!plane_kept(&sum, 0, 1)) {
        tally_fail(t, "row %lld count %lld size %lld: written outside", (long long)c->row,
                   (long long)c->count, (long long)c->size);
    }
    plane_return(&want);
    plane_return(&sum);
    guard_return(&block);
}

int check_sum_rows(const rapti_kernels *k, FILE *log) {
    static const int64_t row_strides[] = {171, 220, 1, 0, -173};
    tally t = {k, "sum_rows", log, 0};
    for (int64_t size = 0; size <= 170; size += size < 20 || size > 120 ? 1 : 7) {
        for (int n = 0; n < 5; n++) {
            for (int64_t count = 0; count <= 3; count++) {
                const pack_case c = {row_strides[n], 1, count, size};
                run_sum(&t, &c, GUARD_AFTER);
                run_sum(&t, &c, GUARD_BEFORE);
            }
        }
    }
    return t.failures;
}

/* ---- all_finite ---- */

static void expect_finite(tally *t, const plane *p, int64_t vectors, int want, int64_t at) {
    const int got = t->k->all_finite(p->at, p->ld, p->rows, vectors);
    if (got == want) { return; }
    tally_fail(t, "%lld rows of %lld vectors, element %lld: %d, want %d", (long long)p->rows,
               (long long)vectors, (long long)at, got, want);
}

/* Finite numbers of every kind, then each of three other kinds at each place; the gaps hold NaN. */
static void run_finite(tally *t, int64_t rows, int64_t vectors) {
    static const float finite[] = {FLT_MAX, -FLT_MAX, 0x1p-149f, -0.0f, 1.0f, -0x1p-126f, 0.0f};
    static const float other[] = {NAN, INFINITY, -INFINITY};
    const int64_t width = vectors * t->k->lanes;
    plane p = plane_take(rows, width, width + 1);
    for (int64_t n = 0; n < rows * width; n++) {
        p.at[n / width * p.ld + n % width] = finite[n % 7];
    }
    expect_finite(t, &p, vectors, 1, -1);
    for (int64_t n = 0; n < rows * width; n++) {
        float *element = &p.at[n / width * p.ld + n % width];
        const float kept = *element;
        for (int i = 0; i < 3; i++) {
            *element = other[i];
            expect_finite(t, &p, vectors, 0, n);
        }
        *element = kept;
    }
    plane_return(&p);
}

int check_all_finite(const rapti_kernels *k, FILE *log) {
    tally t = {k, "all_finite", log, 0};
    for (int64_t rows = 0; rows <= 5; rows++) {
        for (int64_t vectors = 0; vectors <= 6; vectors++) { run_finite(&t, rows, vectors); }
    }
    return t.failures;
}

/* ---- finish_rows: scale / sum and the product by it are rounded, 2 roundings and their product;
 * ln within 1 ulp (2 roundings' worth), then one more for octave shift + ln, two where
 * not fused ---- */

typedef struct finish_case {
    int64_t count, size, stride;
    float scale, octave;
} finish_case;

static void compare_finished(tally *t, const finish_case *c, const plane *o, const float *sum,
                             float *const *out) {
    for (int64_t i = 0; i < c->count; i++) {
        for (int64_t d = 0; d < c->size; d++) {
            const float got = out[i][d * c->stride], value = o->at[i * o->ld + d];
            const double want =
                sum[i] == 0.0f ? 0.0 : (double)value * (double)c->scale / (double)sum[i];
            const double bound = 2.01 * UNIT_ROUNDOFF * fabs(want) + 0x1p-149;
            const bool good =
                isfinite(want) ? fabs((double)got - want) <= bound : same_float(got, (float)want);
            if (good && (sum[i] != 0.0f || got == 0.0f)) { continue; }
            tally_fail(t, "count %lld size %lld stride %lld: out[%lld][%lld] = %.9g, want %.9g",
                       (long long)c->count, (long long)c->size, (long long)c->stride, (long long)i,
                       (long long)d, (double)got, want);
        }
    }
}

static void compare_lse(tally *t, float octave, const float *shift, const float *sum,
                        const float *lse) {
    for (int64_t i = 0; i < t->k->lanes; i++) {
        const double ln = log((double)sum[i]), moved = (double)octave * (double)shift[i];
        const double want = moved + ln, product = kernels_fused(t->k) ? 0.0 : fabs(moved);
        const double bound = UNIT_ROUNDOFF * (2.01 * fabs(ln) + 1.01 * fabs(want) + 1.01 * product);
        const bool good =
            isfinite(want) ? fabs((double)lse[i] - want) <= bound : same_float(lse[i], (float)want);
        if (good) { continue; }
        tally_fail(t, "lse of shift %.9g and sum %.9g: %.9g, want %.9g", (double)shift[i],
                   (double)sum[i], (double)lse[i], want);
    }
}

static void fill_state(rng *r, int64_t lanes, float *shift, float *sum) {
    for (int64_t i = 0; i < lanes; i++) {
        shift[i] = 20.0f * random_float(r, 0);
        sum[i] = (float)exp(rng_uniform(r, -8.0, 12.0));
        const int64_t kind = rng_range(r, 0, 9);
        if (kind == 0) { shift[i] = 0.0f; }
        if (kind == 0) { sum[i] = 0.0f; }
        if (kind == 1) { sum[i] = NAN; }
        if (kind == 2) { sum[i] = 1.0f; }
    }
}

static void run_finish(tally *t, const finish_case *c) {
    const int64_t lanes = t->k->lanes, width = (c->size + lanes - 1) / lanes * lanes;
    rng r = rng_make(23, (uint64_t)(c->size * 17 + c->count));
    plane o = plane_take(lanes, width, width + lanes), state = plane_take(3, lanes, lanes);
    float *shift = state.at, *sum = state.at + lanes, *lse = state.at + 2 * lanes;
    fill_state(&r, lanes, shift, sum);
    for (int64_t i = 0; i < lanes; i++) {
        for (int64_t d = 0; d < c->size; d++) {
            o.at[i * o.ld + d] = sum[i] == 0.0f ? (float)(d % 2) : random_float(&r, 0);
        }
    }
    span rows[RAPTI_MAX_LANES];
    float *out[RAPTI_MAX_LANES] = {0}; /* null where nothing may be written */
    for (int64_t i = 0; i < c->count; i++) {
        rows[i] = span_take(c->size, c->stride, sizeof(float), GUARD_AFTER);
        out[i] = rows[i].first;
        guard_seal(&rows[i].block);
    }
    t->k->finish_rows(o.at, o.ld, c->count, c->size, c->scale, c->octave,
                      (rapti_softmax_state){.shift = shift, .sum = sum}, out, c->stride, lse);
    compare_finished(t, c, &o, sum, out);
    compare_lse(t, c->octave, shift, sum, lse);
    for (int64_t i = 0; i < c->count; i++) {
        for (int64_t d = 0; d < c->size; d++) {
            guard_accept(&rows[i].block, (const uint8_t *)(out[i] + d * c->stride), sizeof(float));
        }
        ptrdiff_t at;
        if (!guard_intact(&rows[i].block, &at)) {
            tally_fail(t, "size %lld stride %lld: byte %lld of row %lld changed",
                       (long long)c->size, (long long)c->stride, (long long)at, (long long)i);
        }
        span_return(&rows[i]);
    }
    plane_return(&o);
    plane_return(&state);
}

int check_finish_rows(const rapti_kernels *k, FILE *log) {
    static const int64_t out_strides[] = {1, 2, 3, -1};
    tally t = {k, "finish_rows", log, 0};
    for (int64_t size = 0; size <= 70; size++) {
        for (int64_t count = 0; count <= k->lanes; count++) {
            for (int n = 0; n < 4; n++) {
                run_finish(&t, &(finish_case){count, size, out_strides[n], n % 2 ? 1.25f : 1.0f,
                                              n / 2 ? 0.693147182f : 1.0f});
            }
        }
    }
    return t.failures;
}
