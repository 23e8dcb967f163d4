/* SPDX-License-Identifier: MIT
 * product.h: the one matrix product, C[i][j] (+)= sum_k A[i,k] * B[k][j].
 *
 * A is read by broadcast from wherever it lies, with any two strides; the rows of B are contiguous
 * vectors; a tile of C stays in registers over the whole of k. simd/README.md says who uses it. */
#include "common.h"
#include "kernels.h"

enum { LINE_FLOATS = 16, ROWS_AHEAD = 8 };

/* How a product goes through the memory that it asks for ahead of use: bytes per k. Many lines at
 * once would fill the queue of misses that the tile itself needs; one address per k, mostly in the
 * same line as the one before, passes unnoticed. */
typedef struct product_stream {
    const char *at;
    int64_t step;
} product_stream;

RAPTI_INLINE product_stream start_stream(const rapti_product *p, const int full) {
    const int64_t steps = (p->rows + full - 1) / full * p->inner;
    return (product_stream){p->stream, steps > 0 ? (p->stream_bytes + steps - 1) / steps : 0};
}

/* One tile: rows x vectors accumulators. Literal sizes and full unrolling keep them in registers.
 * Prefetch: without `add`, A streams (keys of K): the first line of the next tile's rows, from
 * where the hardware goes on; with `fetch`, B does (rows of V): the row ROWS_AHEAD ahead. */
RAPTI_INLINE void product_tile(const rapti_product *p, const float *a, const float *b, float *c,
                               const float *factor, const int rows, const int vectors,
                               const int add, const int fetch, product_stream *stream) {
    const char *soon = stream ? stream->at : 0;
    const int64_t step = stream ? stream->step : 0;
    const int64_t a_row = p->a_row, a_k = p->a_k, b_k = p->b_k, c_row = p->c_row;
    vf acc[16][4];
    RAPTI_UNROLL(16) for (int i = 0; i < rows; i++) {
        RAPTI_UNROLL(4) for (int v = 0; v < vectors; v++) { acc[i][v] = vf_zero_apart(); }
    }
    if (!add) {
        RAPTI_UNROLL(16) for (int i = 0; i < rows; i++) { vec_prefetch(a + (rows + i) * a_row); }
    }
    for (int64_t k = p->inner; k > 0; k--) {
        if (fetch) {
            RAPTI_UNROLL(4) for (int v = 0; v < vectors; v += LINE_FLOATS / VEC_LANES) {
                vec_prefetch(b + ROWS_AHEAD * b_k + v * VEC_LANES);
            }
        }
        if (stream) {
            vec_prefetch_l2((const float *)(const void *)soon);
            soon += step;
        }
        vf row[4];
        RAPTI_UNROLL(4) for (int v = 0; v < vectors; v++) { row[v] = vf_load(b + v * VEC_LANES); }
        RAPTI_UNROLL(16) for (int i = 0; i < rows; i++) {
            const vf x = vf_set1(a[i * a_row]);
            RAPTI_UNROLL(4) for (int v = 0; v < vectors; v++) {
                acc[i][v] = vf_fma(x, row[v], acc[i][v]);
            }
        }
        a += a_k;
        b += b_k;
    }
    if (stream) { stream->at = soon; }
    RAPTI_UNROLL(16) for (int i = 0; i < rows; i++) {
        float *c_at = c + i * c_row;
        const vf times = add ? vf_set1(factor[i]) : vf_zero();
        RAPTI_UNROLL(4) for (int v = 0; v < vectors; v++) {
            float *out = c_at + v * VEC_LANES;
            vf_store(out, add ? vf_fma(times, vf_load(out), acc[i][v]) : acc[i][v]);
        }
    }
}

/* The lines of one row, four at a time: this runs between tiles and must stay short. */
RAPTI_INLINE void prefetch_row(const float *row, int64_t floats) {
    int64_t k = 0;
    for (; k + 4 * LINE_FLOATS <= floats; k += 4 * LINE_FLOATS) {
        RAPTI_UNROLL(4) for (int line = 0; line < 4; line++) {
            vec_prefetch_l2(row + k + line * LINE_FLOATS);
        }
    }
    for (; k < floats; k += LINE_FLOATS) { vec_prefetch_l2(row + k); }
}

/* A few rows of the first list that has any left. */
RAPTI_NOINLINE void prefetch_some(rapti_prefetch *prefetch) {
    for (int n = 0; n < RAPTI_PREFETCH_LISTS; n++) {
        rapti_prefetch_rows *w = &prefetch->list[n];
        const int64_t left = w->count - w->next;
        if (left <= 0) { continue; }
        const int64_t past = w->next + (left < prefetch->per_tile ? left : prefetch->per_tile);
        for (; w->next < past; w->next++) { prefetch_row(w->row[w->next], w->floats); }
        return;
    }
}

/* All rows of a panel of 1 to 4 vectors: full tiles, then halves. `full` is literal. Rows of B that
 * are far are fetched by the first tile: the others find them in the first or second cache level,
 * where asking again costs a tile more than it gains (40 of 1536 cycles: AVX-512, 128 keys). The
 * full tile is there twice, with the question outside of its loop. */
RAPTI_INLINE void product_panel(const rapti_product *p, int64_t column, const int full,
                                const int vectors, const int add, const int streams) {
    const float *b = p->b + column;
    product_stream stream = {0};
    if (streams) { stream = start_stream(p, full); }
    int64_t i = 0;
    const int fetch = add && p->b_far; /* while i is 0 */
#define RAPTI_TILE(rows, fetches)                                                                  \
    product_tile(p, p->a + i * p->a_row, b, p->c + i * p->c_row + column, add ? p->factor + i : 0, \
                 rows, vectors, add, fetches, streams ? &stream : 0)
    for (; i + full <= p->rows; i += full) {
        if (p->prefetch) { prefetch_some(p->prefetch); }
        if (fetch && i == 0) {
            RAPTI_TILE(full, 1);
        } else {
            RAPTI_TILE(full, 0);
        }
    }
    if (full > 8 && p->rows - i >= 8) {
        RAPTI_TILE(8, fetch && i == 0);
        i += 8;
    }
    if (full > 4 && p->rows - i >= 4) {
        RAPTI_TILE(4, fetch && i == 0);
        i += 4;
    }
    if (full > 2 && p->rows - i >= 2) {
        RAPTI_TILE(2, fetch && i == 0);
        i += 2;
    }
    for (; i < p->rows; i++) { RAPTI_TILE(1, fetch && i == 0); }
#undef RAPTI_TILE
}

/* Wrappers of fixed size: one function per tile width, so that each gets registers of its own.
 * Those that ask for memory ahead stand apart: even an instruction that does nothing costs short
 * products 2 %. */
RAPTI_NOINLINE void product_1(const rapti_product *p, int64_t column) {
    product_panel(p, column, TILE_ROWS_1, 1, 0, 0);
}
RAPTI_NOINLINE void product_2(const rapti_product *p, int64_t column) {
    product_panel(p, column, TILE_ROWS_2, 2, 0, 0);
}
RAPTI_NOINLINE void product_3(const rapti_product *p, int64_t column) {
    product_panel(p, column, TILE_ROWS_3, 3, 0, 0);
}
RAPTI_NOINLINE void product_4(const rapti_product *p, int64_t column) {
    product_panel(p, column, TILE_ROWS_4, 4, 0, 0);
}
RAPTI_NOINLINE void product_stream_1(const rapti_product *p, int64_t column) {
    product_panel(p, column, TILE_ROWS_1, 1, 0, 1);
}
RAPTI_NOINLINE void product_stream_2(const rapti_product *p, int64_t column) {
    product_panel(p, column, TILE_ROWS_2, 2, 0, 1);
}
RAPTI_NOINLINE void product_stream_3(const rapti_product *p, int64_t column) {
    product_panel(p, column, TILE_ROWS_3, 3, 0, 1);
}
RAPTI_NOINLINE void product_stream_4(const rapti_product *p, int64_t column) {
    product_panel(p, column, TILE_ROWS_4, 4, 0, 1);
}
RAPTI_NOINLINE void product_add_1(const rapti_product *p, int64_t column) {
    product_panel(p, column, TILE_ROWS_1, 1, 1, 0);
}
RAPTI_NOINLINE void product_add_2(const rapti_product *p, int64_t column) {
    product_panel(p, column, TILE_ROWS_2, 2, 1, 0);
}
RAPTI_NOINLINE void product_add_3(const rapti_product *p, int64_t column) {
    product_panel(p, column, TILE_ROWS_3, 3, 1, 0);
}
RAPTI_NOINLINE void product_add_4(const rapti_product *p, int64_t column) {
    product_panel(p, column, TILE_ROWS_4, 4, 1, 0);
}

typedef void product_panel_fn(const rapti_product *p, int64_t column);

/* Panels of at most TILE_COLUMN_VECTORS, none of them a lonely vector if it can be helped. */
static void product_columns(const rapti_product *p, product_panel_fn *const panel[5]) {
    int64_t left = p->vectors;
    for (int64_t column = 0; left > 0;) {
        int64_t take = left < TILE_COLUMN_VECTORS ? left : TILE_COLUMN_VECTORS;
        if (left == take + 1 && take > 2) { take--; }
        panel[take](p, column);
        column += take * VEC_LANES;
        left -= take;
    }
}

static void product(const rapti_product *p) {
    product_panel_fn *const plain[5] = {0, product_1, product_2, product_3, product_4};
    product_panel_fn *const stream[5] = {0, product_stream_1, product_stream_2, product_stream_3,
                                         product_stream_4};
    product_columns(p, p->stream_bytes ? stream : plain);
}

static void product_add(const rapti_product *p) {
    product_panel_fn *const panel[5] = {0, product_add_1, product_add_2, product_add_3,
                                        product_add_4};
    product_columns(p, panel);
}

/* The careful product: rows of B that query i does not see are left out instead of multiplied by
 * their zero weight, which would make NaN of infinity. Same order of sums, same bits. */
static void product_seen(const rapti_product *p, const float *seen) {
    const float hidden = -__builtin_inff();
    for (int64_t i = 0; i < p->rows; i++) {
        for (int64_t j = 0; j < p->vectors * VEC_LANES; j += VEC_LANES) {
            vf acc = vf_zero();
            for (int64_t k = 0; k < p->inner; k++) {
                const int64_t at = i * p->a_row + k * p->a_k;
                if (seen[at] != hidden) {
                    acc = vf_fma(vf_set1(p->a[at]), vf_load(p->b + k * p->b_k + j), acc);
                }
            }
            float *c = p->c + i * p->c_row + j;
            vf_store(c, p->factor ? vf_fma(vf_set1(p->factor[i]), vf_load(c), acc) : acc);
        }
    }
}
