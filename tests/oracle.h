/* SPDX-License-Identifier: MIT
 * oracle.h: attention forward, naive and in double precision, written from the public headers
 * alone; it shares no code with the library. Beside each value stands how far a correct f32
 * computation may lie from it: a bound derived in oracle.c, not tuned. */
#ifndef RAPT_TESTS_ORACLE_H
#define RAPT_TESTS_ORACLE_H

#include <rapt/rapt.h>

#include <stdbool.h>
#include <stdint.h>

/* Results are row-major. All zero = empty; the memory is kept from call to call. */
typedef struct oracle {
    int64_t rows;          /* B * Hq * Tq */
    int64_t dv;            /* columns */
    double *out, *out_tol; /* [rows, dv] */
    double *lse, *lse_tol; /* [rows] */
    int64_t within;        /* query-key pairs inside the causal, window and length limits */

    int64_t capacity_values, capacity_rows, capacity_keys;
    int64_t *key;                     /* visible keys of the row at hand ... */
    double *score, *error, *p, *slip; /* ... their scores, weights, and the bounds of both */
} oracle;

/* Precondition: the operands are valid; what, q, k, v are not null, out and lse are not looked at.
 * K and V are read at visible keys only. */
void oracle_forward(oracle *o, const rapt_attention *what, const rapt_attention_operands *ops);
void oracle_free(oracle *o);

/* Whether query i sees key j, by the limits (causal, window, key length) alone ... */
bool oracle_within(const rapt_attention *what, const rapt_attention_operands *ops, int64_t b,
                   int64_t i, int64_t j);
/* ... and by limits, mask and bias. */
bool oracle_visible(const rapt_attention *what, const rapt_attention_operands *ops, int64_t b,
                    int64_t h, int64_t i, int64_t j);

#endif
