/* SPDX-License-Identifier: MIT
 * rows.h: moving rows between the caller's tensors and tiles: queries into lanes, values into
 * contiguous padded rows, finished outputs back. */
#include "common.h"
#include "kernels.h"
#include "square.h"

static void gather_lanes(const float *const *rows, int64_t stride, int64_t size, float scale,
                         float *lanes_out, int64_t ld) {
    const vf factor = vf_set1(scale);
    int64_t d = 0;
    for (; stride == 1 && d + VEC_LANES <= size; d += VEC_LANES) {
        vf tile[VEC_LANES];
        vf_load_square(rows, d, tile);
        RAPTI_UNROLL(16) for (int j = 0; j < VEC_LANES; j++) {
            vf_store(lanes_out + (d + j) * ld, vf_mul(tile[j], factor));
        }
    }
    for (; d < size; d += VEC_LANES) {
        const int64_t n = size - d < VEC_LANES ? size - d : VEC_LANES;
        vf tile[VEC_LANES];
        load_columns(rows, stride, d, n, tile);
        for (int64_t j = 0; j < n; j++) {
            vf_store(lanes_out + (d + j) * ld, vf_mul(tile[j], factor));
        }
    }
}

static void pack_rows(const float *rows, int64_t row, int64_t column, int64_t count, int64_t size,
                      float *packed, int64_t ld) {
    for (int64_t r = 0; r < count; r++, rows += row, packed += ld) {
        int64_t c = 0;
        if (column == 1) {
            for (; c + VEC_LANES <= size; c += VEC_LANES) {
                vf_store(packed + c, vf_load(rows + c));
            }
            if (c < size) { vf_store(packed + c, vf_load_n(rows + c, (int)(size - c))); }
        } else {
            for (; c < size; c++) { packed[c] = rows[c * column]; }
            for (; c % VEC_LANES; c++) { packed[c] = 0.0f; }
        }
    }
}

/* A few columns of vectors at a time: their sums stay in registers over all rows. */
RAPTI_INLINE void sum_vectors(const float *rows, int64_t row, int64_t count, float *sum,
                              const int vectors) {
    vf acc[8];
    RAPTI_UNROLL(8) for (int v = 0; v < vectors; v++) { acc[v] = vf_load(sum + v * VEC_LANES); }
    for (int64_t r = 0; r < count; r++, rows += row) {
        RAPTI_UNROLL(8) for (int v = 0; v < vectors; v++) {
            acc[v] = vf_add(acc[v], vf_load(rows + v * VEC_LANES));
        }
    }
    RAPTI_UNROLL(8) for (int v = 0; v < vectors; v++) { vf_store(sum + v * VEC_LANES, acc[v]); }
}

static void sum_rows(const float *rows, int64_t row, int64_t count, int64_t size, float *sum) {
    int64_t c = 0;
    for (; c + 8 * VEC_LANES <= size; c += 8 * VEC_LANES) {
        sum_vectors(rows + c, row, count, sum + c, 8);
    }
    for (; c + VEC_LANES <= size; c += VEC_LANES) { sum_vectors(rows + c, row, count, sum + c, 1); }
    if (c == size) { return; }
    vf acc = vf_load(sum + c);
    for (int64_t r = 0; r < count; r++) {
        acc = vf_add(acc, vf_load_n(rows + r * row + c, (int)(size - c)));
    }
    vf_store(sum + c, acc);
}

/* sum += x * 0 over the vectors of a row: 0 for finite x and NaN otherwise, which stays. */
RAPTI_INLINE void sum_zeros(const float *row, int64_t vectors, vf sum[4]) {
    int64_t v = 0;
    for (; v + 4 <= vectors; v += 4, row += 4 * VEC_LANES) {
        RAPTI_UNROLL(4) for (int i = 0; i < 4; i++) {
            sum[i] = vf_fma(vf_load(row + i * VEC_LANES), vf_zero(), sum[i]);
        }
    }
    for (; v < vectors; v++, row += VEC_LANES) { sum[0] = vf_fma(vf_load(row), vf_zero(), sum[0]); }
}

/* Two rows side by side: sums wait for themselves. */
static int all_finite(const float *rows, int64_t row, int64_t count, int64_t vectors) {
    vf even[4], odd[4];
    RAPTI_UNROLL(4) for (int i = 0; i < 4; i++) { even[i] = odd[i] = vf_zero(); }
    int64_t r = 0;
    for (; r + 2 <= count; r += 2, rows += 2 * row) {
        sum_zeros(rows, vectors, even);
        sum_zeros(rows + row, vectors, odd);
    }
    if (r < count) { sum_zeros(rows, vectors, even); }
    vf all = vf_zero();
    RAPTI_UNROLL(4) for (int i = 0; i < 4; i++) { all = vf_add(all, vf_add(even[i], odd[i])); }
    return vm_all(vf_eq(all, vf_zero()));
}

/* Adding 0 makes +0 of -0, which hidden terms of rows nearby could have done or not. */
static void finish_rows(const float *o, int64_t ld, int64_t count, int64_t size, float scale,
                        float octave, rapti_softmax_state state, float *const *out, int64_t stride,
                        float *lse) {
    const vf sum = vf_load(state.sum);
    float inverse[VEC_LANES];
    vf_store(inverse, vf_select(vf_eq(sum, vf_zero()), vf_zero(), vf_div(vf_set1(scale), sum)));
    vf_store(lse, vf_fma(vf_set1(octave), vf_load(state.shift), vf_log(sum)));
    for (int64_t i = 0; i < count; i++, o += ld) {
        const vf factor = vf_set1(inverse[i]);
        int64_t c = 0;
        if (stride == 1) {
            for (; c + 4 * VEC_LANES <= size; c += 4 * VEC_LANES) {
                RAPTI_UNROLL(4) for (int v = 0; v < 4 * VEC_LANES; v += VEC_LANES) {
                    vf_store(out[i] + c + v, vf_fma(vf_load(o + c + v), factor, vf_zero()));
                }
            }
            for (; c + VEC_LANES <= size; c += VEC_LANES) {
                vf_store(out[i] + c, vf_fma(vf_load(o + c), factor, vf_zero()));
            }
            if (c < size) {
                vf_store_n(out[i] + c, (int)(size - c), vf_fma(vf_load(o + c), factor, vf_zero()));
            }
        } else {
            for (; c < size; c++) { out[i][c * stride] = o[c] * inverse[i] + 0.0f; }
        }
    }
}

/* One vector of C. Strided elements go through a vector, so that all layouts get the same bits. */
RAPTI_INLINE void finish_vector(const rapti_product_end *e, const float *sum, float *c, int n,
                                const float *bias) {
    float strided[VEC_LANES] = {0};
    const int dense = e->column == 1;
    vf x = vf_mul(vf_set1(e->alpha), vf_load(sum));
    if (e->beta != 0.0f) {
        for (int j = 0; !dense && j < n; j++) { strided[j] = c[j * e->column]; }
        const vf old = !dense ? vf_load(strided) : n < VEC_LANES ? vf_load_n(c, n) : vf_load(c);
        x = vf_fma(vf_set1(e->beta), old, x);
    }
    if (bias) { x = vf_add(x, vf_load(bias)); }
    if (dense && n < VEC_LANES) {
        vf_store_n(c, n, x);
    } else if (dense) {
        vf_store(c, x);
    } else {
        vf_store(strided, x);
        for (int j = 0; j < n; j++) { c[j * e->column] = strided[j]; }
    }
}

static void finish_product(const rapti_product_end *e) {
    for (int64_t i = 0; i < e->count; i++) {
        const float *sum = e->sum + i * e->ld;
        float *c = e->c + i * e->row;
        int64_t j = 0;
        for (; j + VEC_LANES <= e->size; j += VEC_LANES) {
            finish_vector(e, sum + j, c + j * e->column, VEC_LANES, e->bias ? e->bias + j : 0);
        }
        if (j < e->size) {
            finish_vector(e, sum + j, c + j * e->column, (int)(e->size - j),
                          e->bias ? e->bias + j : 0);
        }
    }
}

/* One square of a score tile back to rows; n <= VEC_LANES keys. */
RAPTI_INLINE void store_columns(vf tile[VEC_LANES], int64_t n, int64_t count, float *const *rows,
                                int64_t stride, int64_t from) {
    vf_transpose(tile);
    for (int64_t i = 0; i < count; i++) {
        float *row = rows[i] + from * stride;
        if (stride == 1 && n == VEC_LANES) {
            vf_store(row, tile[i]);
        } else if (stride == 1) {
            vf_store_n(row, (int)n, tile[i]);
        } else {
            float value[VEC_LANES];
            vf_store(value, tile[i]);
            for (int64_t j = 0; j < n; j++) { row[j * stride] = value[j]; }
        }
    }
}

static void scatter_lanes(const float *s, int64_t ld, int64_t from, int64_t to, int64_t count,
                          const float *factor, float *const *rows, int64_t stride) {
    const vf factors = vf_load(factor);
    for (int64_t k = from; k < to; k += VEC_LANES) {
        const int64_t n = to - k < VEC_LANES ? to - k : VEC_LANES;
        vf tile[VEC_LANES];
        for (int64_t j = 0; j < VEC_LANES; j++) {
            tile[j] = j < n ? vf_mul(vf_load(s + (k + j) * ld), factors) : vf_zero();
        }
        store_columns(tile, n, count, rows, stride, k);
    }
}
