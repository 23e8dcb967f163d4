/* SPDX-License-Identifier: MIT
 * problem.h: one attention call with all its tensors, each in guarded memory (guard.h) and any
 * layout (layout.h): make, fill, run, check. A run also checks that inputs, canaries and the gaps
 * of the outputs keep their bytes. */
#ifndef RAPT_TESTS_PROBLEM_H
#define RAPT_TESTS_PROBLEM_H

#include "guard.h"
#include "layout.h"
#include "oracle.h"

#include <rapt/rapt.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct shape {
    int64_t b, hq, hkv, tq, tk, d, dv;
} shape;

typedef enum operand_id {
    OP_Q,
    OP_K,
    OP_V,
    OP_MASK,
    OP_BIAS,
    OP_KEEP,
    OP_W_QUERY, /* of the additive score */
    OP_W_KEY,
    OP_W_V,
    OP_LENGTHS,
    OP_OUT,
    OP_LSE,
    OP_WEIGHTS, /* of the pass: its scores, too */
    OP_COUNT
} operand_id;

/* Which function the problem is for. */
typedef enum call_kind {
    CALL_FORWARD, /* rapt_attention_forward */
    CALL_PASS,    /* rapt_attention_softmax: no q, k, v, out; OP_WEIGHTS has the scores */
    CALL_SCORED,  /* rapt_attention_scored */
    CALL_KINDS
} call_kind;

typedef struct operand {
    bool present;
    layout form;
    rapt_tensor t;
    guard_block memory;
} operand;

typedef struct problem {
    shape s;
    guard_side side;
    operand op[OP_COUNT];
    rapt_attention what;
    call_kind call;
    rapt_score_kind score; /* CALL_SCORED */
    bool additive;         /* a key has key_dim numbers, not D */
    int64_t key_dim;
    int32_t threads;     /* of the context that runs it */
    bool in_place;       /* out is q's tensor; op[OP_OUT] is not used */
    bool caller_scratch; /* scratch of exactly the size asked for, in guarded memory */
    guard_block scratch;
    oracle expected;
    char note[96]; /* what the test varies, for its messages */
} problem;

/* ---- Make. Dense q, k, v of zeros, dense out and lse; one thread. ---- */
void problem_init(problem *p, shape s);
/* The pass over dense scores of zeros, with lse; hkv, d and dv of the shape are not used. */
void problem_init_pass(problem *p, shape s);
void problem_free(problem *p);

/* Lays q, k, v, out, lse or weights out anew (inputs and the pass's scores: zeros). */
void problem_layout(problem *p, operand_id id, layout l);
/* Adds dense weights of zeros for the additive score, keys of another size. */
void problem_additive(problem *p, int64_t units, int64_t key_dim);
/* Adds (again) a mask of trues, a bias of zeros, a pattern that keeps all. */
void problem_mask(problem *p, int32_t rank, const int64_t *size, layout l);
void problem_bias(problem *p, int32_t rank, const int64_t *size, layout l);
void problem_keep(problem *p, int32_t rank, const int64_t *size, layout l);
/* ... of the full shape [B, Hq, Tq, Tk]. */
void problem_full_mask(problem *p);
void problem_full_bias(problem *p);
void problem_full_keep(problem *p);
/* Adds key lengths, RAPT_I32 or RAPT_I64; n is B or 1. */
void problem_lengths(problem *p, rapt_dtype dtype, int64_t n, const int64_t *lengths);
/* Leaves an operand out. */
void problem_drop(problem *p, operand_id id);

/* ---- Run ---- */
rapt_attention_operands problem_operands(const problem *p);
rapt_attention_softmax_operands problem_pass_operands(const problem *p);
rapt_score problem_score(const problem *p);

/* Calls the library; *status is what it returned. False, with the reason in `why`, if it crashed or
 * changed bytes that are not its own: on an error status, any byte. */
bool problem_call(problem *p, rapt_status *status, char *why, size_t why_bytes);

/* Computes p->expected. Before the call if it works in place, as the pass does. */
void problem_expect(problem *p);

/* Results against p->expected: true, or the reason in `why`. */
bool problem_compare(const problem *p, char *why, size_t why_bytes);

/* All in one: call, RAPT_OK, oracle. True, or the reason in `why`. */
bool problem_try(problem *p, char *why, size_t why_bytes);

/* ---- Look ---- */

/* Whether query i of head h sees key j, by limits, mask and bias. */
bool problem_visible(const problem *p, int64_t b, int64_t h, int64_t i, int64_t j);

bool problem_is_output(operand_id id);
const rapt_tensor *problem_out(const problem *p);
float *problem_at(const problem *p, operand_id id, int64_t i0, int64_t i1, int64_t i2, int64_t i3);

/* Shapes, strides and features in a few lines; the text lives until the next call. */
const char *problem_text(const problem *p);

#endif
