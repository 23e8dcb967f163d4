/* SPDX-License-Identifier: MIT
 * oracle_row.h: the weights of one query, with their bounds. */
#ifndef RAPT_TESTS_ORACLE_ROW_H
#define RAPT_TESTS_ORACLE_ROW_H

#include "oracle_score.h"

#include <stdint.h>

/* A weight below 2^-114 may be 0 (with a margin of 2); covers products of two small errors. */
#define ORACLE_TINY_WEIGHT 0x1p-113
#define ORACLE_SECOND_ORDER 1.01

/* All zero = empty; the arrays are kept from row to row. */
typedef struct oracle_row {
    int64_t b, h, kv_head, i;
    int64_t n;      /* visible keys */
    int64_t within; /* keys inside the causal, window and length limits */
    double m, l;    /* maximum, sum of exp(s - m); a row of scores that are all -inf has l = 0 */
    double spread;  /* sum_n p_n (exp(e_n) - 1), e_n the bound of the exponent's error */
    double widest;  /* max_n e_n */
    double k;       /* roundings of each sum over keys */
    double reach;   /* how far from m what is subtracted may be, where it is not 0 */
    double drop_k;  /* roundings that dropout adds */

    /* One entry per visible key: its index, score and bound, weight before dropout, p (exp(e) - 1),
     * and keep / (1 - p_dropout), which is 1 where nothing is dropped. */
    int64_t *key;
    double *score, *error, *p, *slip, *kept;
    int64_t capacity;
} oracle_row;

/* Row number `index` of B * Hq * Tq. */
void oracle_row_find(oracle_row *r, const oracle_source *s, int64_t index);
void oracle_row_free(oracle_row *r);

/* lse and how far a computed one may lie from it. */
double oracle_row_lse(const oracle_row *r, double *tol);

/* Weight n before dropout. */
double oracle_row_weight(const oracle_row *r, int64_t n, double *tol);

#endif
