/* SPDX-License-Identifier: MIT
 * oracle.h: attention forward, naive and in double precision, written from the public headers
 * alone; it shares no code with the library. Beside each value stands how far a correct f32
 * computation may lie from it: a bound derived in oracle.c and its parts, not tuned.
 *
 *   oracle.c            results of all rows: out, lse, weights
 *   oracle_row.c        one row of weights
 *   oracle_score.c      which pairs are visible; one score
 *   oracle_dropout.c    which weights are kept
 *   oracle_backward.c   gradients */
#ifndef RAPT_TESTS_ORACLE_H
#define RAPT_TESTS_ORACLE_H

#include "oracle_row.h"

#include <rapt/rapt.h>

#include <stdbool.h>
#include <stdint.h>

/* Results are row-major. All zero = empty; the memory is kept from call to call. */
typedef struct oracle {
    int64_t rows;                  /* B * Hq * Tq */
    int64_t dv, keys;              /* columns of out and of weights */
    double *out, *out_tol;         /* [rows, dv] */
    double *lse, *lse_tol;         /* [rows] */
    double *weights, *weights_tol; /* [rows, keys] */
    int64_t within;                /* query-key pairs inside the causal, window and length limits */

    int64_t capacity_values, capacity_rows, capacity_weights;
    oracle_row row;
} oracle;

/* rapt_attention_forward. Precondition of all: the operands are valid. out and lse are not looked
 * at; weights are computed if the operands have them. K and V are read at visible keys only. */
void oracle_forward(oracle *o, const rapt_attention *what, const rapt_attention_operands *ops);

/* rapt_attention_scored. */
void oracle_scored(oracle *o, const rapt_attention *what, const rapt_score *score,
                   const rapt_attention_operands *ops);

/* rapt_attention_softmax: lse and weights. Scores are read at visible keys only. */
void oracle_softmax(oracle *o, const rapt_attention *what,
                    const rapt_attention_softmax_operands *ops);

void oracle_free(oracle *o);

/* Zeroed memory for count + 1 numbers in place of *memory; ends the program if there is none. */
void oracle_grow(double **memory, int64_t count);

#endif
