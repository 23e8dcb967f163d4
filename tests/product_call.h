/* SPDX-License-Identifier: MIT
 * product_call.h: one matrix product with its tensors in guarded memory (guard.h) and any layout
 * (layout.h), and its oracle: the formula of rapt/matmul.h, naive, in double precision. */
#ifndef RAPT_TESTS_PRODUCT_CALL_H
#define RAPT_TESTS_PRODUCT_CALL_H

#include "guard.h"
#include "layout.h"
#include "rng.h"

#include <rapt/rapt.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum product_id { PRODUCT_A, PRODUCT_B, PRODUCT_BIAS, PRODUCT_C, PRODUCT_IDS } product_id;

typedef struct product_call {
    rapt_matmul what;
    rapt_tensor t[PRODUCT_IDS]; /* rank 0: absent */
    guard_block memory[PRODUCT_IDS];
    guard_side side;
    int32_t threads;     /* of the context that runs it; 0 = 1 */
    bool caller_scratch; /* scratch of exactly the size asked for, in guarded memory */
    double *want, *tol;  /* row-major, of every element of C */
} product_call;

/* Lays an operand out (anew), all elements 0. */
void product_place(product_call *p, product_id id, layout l, int32_t rank, const int64_t *size);

/* A [m,k], B [k,n], C [m,n], dense, filled. */
void product_make(product_call *p, int64_t m, int64_t k, int64_t n, uint64_t seed);
void product_free(product_call *p);

/* Standard normal numbers; C too, which a product with beta = 0 overwrites with NaN first. */
void product_fill(product_call *p, uint64_t seed);

rapt_matmul_operands product_operands(const product_call *p);

/* The oracle: want and tol from what the tensors hold now. */
void product_expect(product_call *p);

/* Calls the library. *status is what it returned. False, with the reason in `why`, if inputs,
 * gaps or canaries changed, or anything at all on an error. */
bool product_run(product_call *p, rapt_status *status, char *why, size_t why_bytes);

/* All in one: oracle, call, RAPT_OK, every element within its bound. */
bool product_try(product_call *p, char *why, size_t why_bytes);

/* Sizes, strides and factors. The text lives until the next call. */
const char *product_text(const product_call *p);

#endif
