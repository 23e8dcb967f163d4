/* SPDX-License-Identifier: MIT
 * kernels.h: the table of kernels that each instruction set exports, with the contract of each.
 * Kernels are pure functions on tiles: no allocation, no threads, no globals, no errors.
 *
 * "Lane vector": `lanes` consecutive floats, one query each. A score tile S[key][query] holds a row
 * of one or more lane vectors per key; `ld` is the distance between rows in floats. */
#ifndef RAPTI_KERNELS_H
#define RAPTI_KERNELS_H

#include <stdint.h>

/* log2(e): the octaves that a score of 1 stands for, since exp(x) = 2^(x log2(e)). */
#define RAPTI_OCTAVES 1.44269504f

/* FLT_MAX ln 2 = 2.3587e38, rounded down: in octaves, scores up to it still are floats. */
#define RAPTI_LARGEST_SCORE 2.3e38f

/* No row has more lanes, no group more lane vectors. */
enum { RAPTI_MAX_LANES = 16, RAPTI_MAX_GROUP_VECTORS = 4 };

/* product_few takes no more lanes. */
enum { RAPTI_MAX_FEW_LANES = 4 };

/* Sums of exponentials run over blocks of this many vectors, then over so many blocks: a chunk. */
enum { RAPTI_SUM_VECTORS = 64, RAPTI_SUM_BLOCKS = 64 };

/* Columns pass through scratch in strips of so many (or fewer, whole vectors), and so many keys. */
enum { RAPTI_STRIP_COLUMNS = 64, RAPTI_STRIP_KEYS = 2048 };

/* Rows of memory that will be used soon: with every tile that they compute, products prefetch some
 * of them into the second cache level. `next` counts those already asked for. */
typedef struct rapti_prefetch_rows {
    const float *const *row; /* [count] addresses of rows */
    int64_t count, next;
    int64_t floats; /* per row */
} rapti_prefetch_rows;

enum { RAPTI_PREFETCH_LISTS = 6 };

typedef struct rapti_prefetch {
    rapti_prefetch_rows list[RAPTI_PREFETCH_LISTS]; /* in order; an empty list has next == count */
    int64_t per_tile;                               /* rows with each tile of a product */
} rapti_prefetch;

/* C[i][j] = sum_k A[i,k] * B[k][j], i < rows, k < inner, j < vectors * lanes. */
typedef struct rapti_product {
    const float *a; /* A[i,k] at a[i * a_row + k * a_k], any strides */
    int64_t a_row, a_k;
    const float *b; /* B[k][j] at b[k * b_k + j] */
    int64_t b_k;
    float *c; /* C[i][j] at c[i * c_row + j] */
    int64_t c_row;
    const float *factor; /* product_add: one number per row */
    int64_t rows, inner, vectors;
    rapti_prefetch *prefetch; /* null = none */
    int b_far;                /* product_add: B is in no cache nearby: its rows are asked for */

    /* product, product_few: memory that will be used soon. They ask for all of it, evenly while
     * they run, into the second cache level. 0 bytes = none. */
    const void *stream;
    int64_t stream_bytes;
} rapti_product;

/* The running state of the online softmax, one number per query. Scores, maximum and shift are in
 * octaves: exp is 2^. (softmax_exp_any: in units of 1.) */
typedef struct rapti_softmax_state {
    float *max;     /* largest score so far (but see softmax_end_near), -inf at the start */
    float *sum;     /* sum of 2^(score - shift), 0 at the start */
    float *shift;   /* what is subtracted: near max (softmax.h), 0 at the start */
    float *rescale; /* factor that the last block put on everything before it */
} rapti_softmax_state;

/* A block of one lane vector that is weighed in parts (softmax_near); all 0 at its beginning. */
typedef struct rapti_near_sums {
    float even[RAPTI_MAX_LANES], odd[RAPTI_MAX_LANES];
    char seen[RAPTI_MAX_LANES * sizeof(float)];
    int64_t keys;
} rapti_near_sums;

/* What becomes of the sums S of a matrix product: C = alpha S + beta C + bias. */
typedef struct rapti_product_end {
    const float *sum; /* S[i][j] at sum[i * ld + j], readable up to a multiple of `lanes` */
    int64_t ld;
    float *c; /* C[i][j] at c[i * row + j * column], any strides; may be the sums themselves */
    int64_t row, column;
    int64_t count, size; /* i < count, j < size */
    float alpha, beta;   /* beta = 0: C is not read */
    const float *bias;   /* bias[j], readable up to a multiple of `lanes`; null = none */
} rapti_product_end;

/* Dropout by Philox 4x32-10 (dropout.h). */
typedef struct rapti_dropout {
    uint32_t key[2], offset;
    int32_t threshold; /* a word below it keeps its weight */
} rapti_dropout;

/* One lane vector of the backward pass (score_gradient below). */
typedef struct rapti_gradient {
    float *s;          /* scores, -inf where hidden; becomes P */
    float *dp;         /* becomes dS; null = not wanted */
    const float *kept; /* Z: dropout's pattern of 0 and 1 / (1 - p); null = all 1 */
    int64_t ld;        /* of all three */
    int64_t from, begin, end, to;
    const float *lse, *delta; /* one number per lane; lse is not -inf */
} rapti_gradient;

/* S[i][j] = sum_u v[u] * tanh(Q[i,u] + K[u][j]), i < queries, j < keys, u < units. */
typedef struct rapti_additive {
    const float *q; /* Q[i,u] at q[i * q_row + u] */
    int64_t q_row;
    const float *k; /* K[u][j] at k[u * k_unit + j] */
    int64_t k_unit;
    const float *v;
    int64_t units, queries, keys;
    float *s; /* S[i][j] at s[i * s_row + j] */
    int64_t s_row;
} rapti_additive;

/* Element k of column c: of a softmax's result at y[k * y_k + c], of its gradient at
 * dy[k * dy_k + c], of the gradient of its input at dx[k * dx_k + c]; k < n, c < columns. */
typedef struct rapti_softmax_columns {
    const float *y, *dy;
    float *dx; /* may be dy */
    int64_t y_k, dy_k, dx_k, n, columns;
} rapti_softmax_columns;

/* Its gradients, from dS, all of them added to sums that are there already:
 *   E[i,u] += dS[i][j] (1 - t^2)    F[u][j] += the same    G[u] += dS[i][j] t
 * with t = tanh(Q[i,u] + K[u][j]). E and G are kept lane by lane, to be added up at the end. */
typedef struct rapti_additive_gradient {
    const float *q; /* as above */
    int64_t q_row;
    const float *k;
    int64_t k_unit;
    int64_t units, queries, keys;
    const float *ds; /* dS[i][j] at ds[i * ds_row + j] */
    int64_t ds_row;
    float *e; /* [queries][units][lanes] */
    float *f; /* F[u][j] at f[u * f_unit + j] */
    int64_t f_unit;
    float *g; /* [units][lanes] */
} rapti_additive_gradient;

typedef struct rapti_kernels {
    const char *isa;
    int32_t lanes;          /* floats per vector */
    int32_t group_vectors;  /* lane vectors in a full group of queries */
    int32_t column_vectors; /* lane vectors in the widest register tile of columns */
    int32_t tile_rows;      /* rows of that tile */
    int32_t key_block;      /* keys per block */
    int32_t near_floats; /* of a score tile that is weighed while it is in the first cache level */
    int32_t few_lanes;   /* lanes up to which product_few pays, fewer than `lanes`; 0 = never */

    /* C = A B; and C = factor[i] * C + A B, rows of C in cache. Sums run over k in order. */
    void (*product)(const rapti_product *p);
    void (*product_add)(const rapti_product *p);

    /* The same as product, of one vector (`vectors` is not read) whose columns from `columns` - 1
     * on are copies of one another; 1 <= columns <= RAPTI_MAX_FEW_LANES. a_k is 1; rows and inner
     * are at least the table's lanes. */
    void (*product_few)(const rapti_product *p, int64_t columns);

    /* The same as product_add (product if factor is null), slowly, leaving out the terms where
     * seen[k * a_k + i * a_row] is -inf: a NaN in a B row that a query does not see stays out. */
    void (*product_seen)(const rapti_product *p, const float *seen);

    /* lanes_out[d * ld + lane] = scale * rows[lane][d * stride], d < size. */
    void (*gather_lanes)(const float *const *rows, int64_t stride, int64_t size, float scale,
                         float *lanes_out, int64_t ld);

    /* One lane vector of scores, keys [from, to): -inf where key < begin[lane] or >= end[lane]. */
    void (*hide_outside)(float *s, int64_t ld, int64_t from, int64_t to, const int32_t *begin,
                         const int32_t *end);

    /* One lane vector, keys [from, to): -inf where rows[lane][key * stride] is 0 (mask) or -inf
     * (bias), else the score plus factor * bias, where a bias below -RAPTI_LARGEST_SCORE counts as
     * that. Hidden scores are replaced, whatever they held. */
    void (*apply_mask)(const uint8_t *const *rows, int64_t stride, int64_t from, int64_t to,
                       float *s, int64_t ld);
    void (*apply_bias)(const float *const *rows, int64_t stride, int64_t from, int64_t to,
                       float factor, float *s, int64_t ld);
    /* The score plus factor * bias, whatever they are. */
    void (*add_bias)(const float *const *rows, int64_t stride, int64_t from, int64_t to,
                     float factor, float *s, int64_t ld);

    /* One step of the online softmax on one lane vector of scores, in two halves. First: max over
     * keys [begin, end) and those before; shift, which moves only where max has left its
     * neighbourhood (softmax.h); rescale = 2^(old shift - new shift). A lane whose scores so far
     * are all -inf keeps max -inf.
     * Returns 1 if a lane's shift moved, or a sum so far is NaN: softmax_try would have refused. */
    int (*softmax_max)(const float *s, int64_t ld, int64_t begin, int64_t end,
                       rapti_softmax_state state);
    /* Second: S[key] = 2^(S[key] - shift) for keys [begin, end), 0 for the other keys of
     * [from, to); sum = sum * rescale + their sum. */
    void (*softmax_exp)(float *s, int64_t ld, int64_t from, int64_t begin, int64_t end, int64_t to,
                        rapti_softmax_state state);
    /* Both at once, with the same bits, where no shift moves and no row is NaN; else returns 0 with
     * the scores spoilt and the state as it was. */
    int (*softmax_try)(float *s, int64_t ld, int64_t from, int64_t begin, int64_t end, int64_t to,
                       rapti_softmax_state state);
    /* The same faster, in parts, without a look at each score. softmax_near: weights of the next
     * `keys` keys of a block, whose scores begin at `s`; an even number but for the last part. The
     * state stays as it is until softmax_end_near, which takes the block (1) or refuses it as
     * softmax_try does (0), for at least one key. It refuses also where a lane's weights are many
     * and near 2^12, or reach below 2^-111. Of `max` it leaves only what matters: some number
     * within the neighbourhood of the shift. */
    void (*softmax_near)(float *s, int64_t ld, int64_t keys, rapti_softmax_state state,
                         rapti_near_sums *sums);
    int (*softmax_end_near)(const rapti_near_sums *sums, rapti_softmax_state state);
    /* softmax_exp with e for 2, and SLEEF's exponential; results below 2^-126 are 0 as well. */
    void (*softmax_exp_any)(float *s, int64_t ld, int64_t from, int64_t begin, int64_t end,
                            int64_t to, rapti_softmax_state state);

    /* One lane vector of weights, keys [from, to) of a tile whose row 0 is key first_key: 0 where
     * the generator drops them, for query[lane] and item[lane]; 0 where rows[lane][key * stride]
     * is 0. */
    void (*drop_lanes)(const rapti_dropout *d, const int32_t *query, const int32_t *item,
                       int64_t first_key, int64_t from, int64_t to, float *s, int64_t ld);
    void (*apply_keep)(const uint8_t *const *rows, int64_t stride, int64_t from, int64_t to,
                       float *s, int64_t ld);

    /* out[lane][c * stride] = o[lane * ld + c] * scale / sum[lane] (0 where sum is 0 and o finite),
     * c < size, for the first `count` lanes; lse[lane] = octave * shift + ln(sum) for all lanes.
     * Reads o up to a multiple of `lanes`. octave: ln 2, or 1 if the shift is not in octaves. */
    void (*finish_rows)(const float *o, int64_t ld, int64_t count, int64_t size, float scale,
                        float octave, rapti_softmax_state state, float *const *out, int64_t stride,
                        float *lse);

    void (*finish_product)(const rapti_product_end *e);

    /* rows[lane][key * stride] = factor[lane] * s[key * ld + lane], keys [from, to), for the first
     * `count` lanes. */
    void (*scatter_lanes)(const float *s, int64_t ld, int64_t from, int64_t to, int64_t count,
                          const float *factor, float *const *rows, int64_t stride);

    /* Keys [begin, end): P = 2^(S - lse log2(e)), or 0 if that is below 2^-100; dS = P * (Z * dP -
     * delta), then P = P * Z. dS is 0 where P was 0 or, in lanes whose lse + delta is not finite,
     * where S is -inf; both are 0 for the other keys of [from, to). P is at most 1, but for the
     * rounding of S and lse below 4096; from there on it is 1 where S is the float of shift that
     * finish_rows made this lse of. */
    void (*score_gradient)(const rapti_gradient *g);

    /* One lane vector of weights P and gradients X, keys [from, to): dots[lane] += the sum of
     * P * X where P is not 0; and X = P * (factor * X - shift), 0 where P is 0. */
    void (*lane_dots)(const float *p, const float *x, int64_t ld, int64_t from, int64_t to,
                      float *dots);
    void (*lane_gradient)(const float *p, float *x, int64_t ld, int64_t from, int64_t to,
                          float factor, const float *shift);

    /* gather_lanes of a with scale 1, and dots[lane] = sum_c a[lane][c * a_stride] *
     * b[lane][c * b_stride], c < size, in that order. */
    void (*gather_dots)(const float *const *a, int64_t a_stride, const float *const *b,
                        int64_t b_stride, int64_t size, float *lanes_out, int64_t ld, float *dots);

    /* out[r][c * stride] = factor * rows[r * ld + c], plus what it held if `add`; c < size,
     * r < count. Reads rows up to a multiple of `lanes`. */
    void (*add_rows)(const float *rows, int64_t ld, int64_t count, int64_t size, float factor,
                     int add, float *const *out, int64_t stride);

    /* rows[lane][key * stride] += s[key * ld + lane], keys [from, to), for the first `count` lanes.
     * Rows may share elements. */
    void (*add_lanes)(const float *s, int64_t ld, int64_t from, int64_t to, int64_t count,
                      float *const *rows, int64_t stride);

    /* packed[r * ld + c] = rows[r * row + c * column], c < size, then zeros up to a multiple of
     * `lanes`. */
    void (*pack_rows)(const float *rows, int64_t row, int64_t column, int64_t count, int64_t size,
                      float *packed, int64_t ld);

    /* sum[c] += sum over r < count of rows[r * row + c], c < size, in order of r. `sum` has whole
     * vectors, of which elements past `size` keep their values (but -0 may become 0). */
    void (*sum_rows)(const float *rows, int64_t row, int64_t count, int64_t size, float *sum);

    /* 1 if all of rows[r * row + c], c < vectors * lanes, are finite. */
    int (*all_finite)(const float *rows, int64_t row, int64_t count, int64_t vectors);

    /* Additive scores. Sums run over u in order, whatever else is in the tile. */
    void (*additive_scores)(const rapti_additive *a);
    void (*additive_gradients)(const rapti_additive_gradient *a);

    /* The largest of x[i], i < n, and of the lowest float; NaN if one is. */
    float (*row_max)(const float *x, int64_t n);

    /* The sum of exp(x[i] - shift), i < n: that of a whole row is the sum, in order, of those of
     * its chunks of RAPTI_SUM_BLOCKS * RAPTI_SUM_VECTORS * lanes elements, the last one shorter. */
    float (*row_sum_exp)(const float *x, int64_t n, float shift);

    /* out[i] = exp(x[i] - shift) * factor, and 0 where x[i] is -inf. `out` may be `x`. */
    void (*row_exp)(const float *x, int64_t n, float shift, float factor, float *out);

    /* out[i] = exp(x[i] - max) * (1 / sum) with row_max and row_sum_exp; zeros if the sum is 0;
     * NaN, but 0 where x[i] is -inf, if an element is NaN or +inf. `out` may be `x`. */
    void (*softmax_row)(const float *x, int64_t n, float *out);

    /* The same, bit by bit, down each column: element k of column c at in[k * in_k + c], k < n,
     * c < columns. `out` may be `in`. scratch: RAPTI_STRIP_COLUMNS floats for each of
     * min(n, RAPTI_STRIP_KEYS) keys. */
    void (*softmax_columns)(const float *in, int64_t in_k, float *out, int64_t out_k, int64_t n,
                            int64_t columns, float *scratch);

    /* sum of y[i] * dy[i] over i < n where y[i] is not 0; of a long row, by chunks as row_sum_exp.
     */
    float (*row_dot)(const float *y, const float *dy, int64_t n);

    /* dx[i] = y[i] * (dy[i] - dot), and 0 where y[i] is 0. `dx` may be `dy`. */
    void (*row_gradient)(const float *y, const float *dy, int64_t n, float dot, float *dx);

    /* The same, bit by bit, down each column. */
    void (*gradient_columns)(const rapti_softmax_columns *s);

    /* y[i] = 2^x[i], i < n: the word of the fused kernels (x <= 127), and SLEEF's; e^x[i]. */
    void (*exp2_inline)(const float *x, float *y, int64_t n);
    void (*exp2_any)(const float *x, float *y, int64_t n);
    void (*exp_any)(const float *x, float *y, int64_t n);
} rapti_kernels;

#endif
