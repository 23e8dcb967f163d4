/* SPDX-License-Identifier: MIT
 * misuse.h: a valid small attention call with every operand, for tests to spoil in one place, and
 * the expectation that every function that takes such a call refuses it and writes nothing. */
#ifndef RAPT_TESTS_MISUSE_H
#define RAPT_TESTS_MISUSE_H

#include <rapt/rapt.h>

#include <stdint.h>

enum { B = 2, HQ = 4, HKV = 2, TQ = 3, TK = 5, D = 4, DV = 6 };

enum { ROOM = B * HQ * TQ * DV }; /* elements of the largest output */

/* The memory of all operands; a refused call may change none of it. Each input has room before and
 * after it, so that an output moved over its ends meets no other. */
typedef struct misuse_memory {
    float before_q[ROOM], q[B * HQ * TQ * D];
    float before_k[ROOM], k[B * HKV * TK * D];
    float before_v[ROOM], v[B * HKV * TK * DV];
    float before_bias[ROOM], bias[TQ * TK];
    float before_lengths64[ROOM];
    int64_t lengths64[B];
    float before_lengths32[ROOM];
    int32_t lengths32[B];
    float before_mask[ROOM];
    unsigned char mask[TQ * TK];
    float before_keep[ROOM];
    unsigned char keep[TQ * TK];
    float before_out[ROOM], out[B * HQ * TQ * DV], lse[B * HQ * TQ];
    float before_weights[ROOM], weights[B * HQ * TQ * TK];
} misuse_memory;

typedef enum misuse_operand {
    Q,
    K,
    V,
    MASK,
    BIAS,
    KEY_LENGTHS,
    KEEP,
    OUT,
    INPUTS = OUT,
    LSE,
    WEIGHTS,
    OPERANDS
} misuse_operand;
extern const char *const misuse_operand_names[OPERANDS];

typedef struct misuse_call {
    misuse_memory data;
    rapt_tensor t[OPERANDS];
    rapt_attention what;
    rapt_attention_operands operands;
} misuse_call;

/* The one call, and the context that it runs in: opened and closed by the suite. */
extern misuse_call the_call;
extern rapt_context *misuse_context;
void misuse_open(void);
void misuse_close(void);

/* A fresh valid call, in training with dropout 0.5. */
misuse_call *valid(void);

/* All functions refuse it. `words` must stand in the message. */
void expect_refused(rapt_status expected, const char *words, int line);

/* Functions that compute refuse it; those that touch no tensor data take it. */
void expect_computing_refused(rapt_status expected, const char *words, int line);

void expect_taken(int line);

#define REFUSED(status, words) expect_refused(status, words, __LINE__)
#define FORWARD_REFUSED(status, words) expect_computing_refused(status, words, __LINE__)
#define TAKEN() expect_taken(__LINE__)

#endif
