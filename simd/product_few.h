/* SPDX-License-Identifier: MIT
 * product_few.h: the product of product.h where B is one lane vector of which only the first few
 * lanes hold columns of their own: C[i][l] = sum_k A[i,k] * B[k][l], l < lanes.
 *
 * `product` computes all lanes at the same price. Here rows of A lie in the lanes instead: squares
 * of A are transposed, and each column of a square is multiplied by one number of B. The same terms
 * in the same order, so the same bits. */
#include "common.h"
#include "kernels.h"
#include "square.h"

/* Strips of VEC_LANES rows in a tile: each sum is a chain of dependent multiply-adds, and a strip
 * has as few of them as lanes. */
enum { FEW_STRIPS = 2 };

/* square[j] lane i = A[i, k + j], where a is row 0 */
RAPTI_INLINE void few_load(const float *a, int64_t a_row, int64_t k, vf square[VEC_LANES]) {
    const float *row[VEC_LANES];
    RAPTI_UNROLL(16) for (int i = 0; i < VEC_LANES; i++) { row[i] = a + i * a_row; }
    vf_load_square(row, k, square);
}

/* sum[l] lane i += A[i, k + j] * B[k + j][l], skip <= j < VEC_LANES */
RAPTI_INLINE void few_square(const rapti_product *p, const float *a, int64_t k, int64_t skip,
                             const int few, vf *sum) {
    vf square[VEC_LANES];
    const float *b = p->b + k * p->b_k;
    few_load(a, p->a_row, k, square);
    RAPTI_UNROLL(16) for (int j = 0; j < VEC_LANES; j++, b += p->b_k) {
        if (j < skip) { continue; }
        RAPTI_UNROLL(4) for (int l = 0; l < few; l++) {
            sum[l] = vf_fma(square[j], vf_set1(b[l]), sum[l]);
        }
    }
}

/* C[i][l] = sum[l] lane i, and the last sum in the lanes beyond; c is row 0. */
RAPTI_INLINE void few_finish(float *c, int64_t c_row, const vf *sum, const int few) {
    float column[RAPTI_MAX_FEW_LANES][VEC_LANES];
    RAPTI_UNROLL(4) for (int l = 0; l < few; l++) { vf_store(column[l], sum[l]); }
    for (int i = 0; i < VEC_LANES; i++, c += c_row) {
        vf_store(c, vf_set1(column[few - 1][i]));
        RAPTI_UNROLL(4) for (int l = 0; l + 1 < few; l++) { c[l] = column[l][i]; }
    }
}

RAPTI_INLINE void few_ask_ahead(product_stream *stream, int64_t steps) {
    if (stream->step == 0) { return; }
    for (int64_t i = 0; i < steps; i++, stream->at += stream->step) {
        vec_prefetch_l2((const float *)(const void *)stream->at);
    }
}

/* Rows [first, first + strips * VEC_LANES). All sizes but `first` are literal. */
RAPTI_INLINE void few_tile(const rapti_product *p, int64_t first, const int strips, const int few,
                           product_stream *stream) {
    const float *a = p->a + first * p->a_row;
    const int64_t next = VEC_LANES * p->a_row;
    vf sum[FEW_STRIPS][RAPTI_MAX_FEW_LANES];
    for (int i = 0; i < strips * VEC_LANES; i++) {
        vec_prefetch(a + (strips * VEC_LANES + i) * p->a_row);
    }
    RAPTI_UNROLL(2) for (int s = 0; s < strips; s++) {
        RAPTI_UNROLL(4) for (int l = 0; l < few; l++) { sum[s][l] = vf_zero(); }
    }
    int64_t k = 0;
    for (; k + VEC_LANES <= p->inner; k += VEC_LANES) {
        few_ask_ahead(stream, strips * VEC_LANES);
        RAPTI_UNROLL(2) for (int s = 0; s < strips; s++) {
            few_square(p, a + s * next, k, 0, few, sum[s]);
        }
    }
    if (k < p->inner) {
        const int64_t start = p->inner - VEC_LANES; /* a whole square, part of it seen before */
        few_ask_ahead(stream, strips * (p->inner - k));
        RAPTI_UNROLL(2) for (int s = 0; s < strips; s++) {
            few_square(p, a + s * next, start, k - start, few, sum[s]);
        }
    }
    RAPTI_UNROLL(2) for (int s = 0; s < strips; s++) {
        few_finish(p->c + (first + s * VEC_LANES) * p->c_row, p->c_row, sum[s], few);
    }
}

/* Where rows do not fill the last tile, it takes some of them again. */
RAPTI_INLINE void few_panel(const rapti_product *p, const int few) {
    product_stream stream = start_stream(p, VEC_LANES);
    for (int64_t past = 0; past < p->rows;) {
        const int pair = p->rows >= 2 * VEC_LANES && p->rows - past > VEC_LANES;
        const int64_t rows = pair ? 2 * VEC_LANES : VEC_LANES;
        past = past + rows < p->rows ? past + rows : p->rows;
        if (p->prefetch) { prefetch_some(p->prefetch); }
        if (pair) {
            few_tile(p, past - rows, 2, few, &stream);
        } else {
            few_tile(p, past - rows, 1, few, &stream);
        }
    }
}

RAPTI_NOINLINE void product_few_1(const rapti_product *p) { few_panel(p, 1); }
RAPTI_NOINLINE void product_few_2(const rapti_product *p) { few_panel(p, 2); }
RAPTI_NOINLINE void product_few_3(const rapti_product *p) { few_panel(p, 3); }
RAPTI_NOINLINE void product_few_4(const rapti_product *p) { few_panel(p, 4); }

static void product_few(const rapti_product *p, int64_t columns) {
    typedef void few_fn(const rapti_product *p);
    few_fn *const few[RAPTI_MAX_FEW_LANES] = {product_few_1, product_few_2, product_few_3,
                                              product_few_4};
    few[columns - 1](p);
}
