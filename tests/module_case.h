/* SPDX-License-Identifier: MIT
 * module_case.h: any module and a call of it, drawn from a seed, for tests that hold for all. */
#ifndef RAPT_TESTS_MODULE_CASE_H
#define RAPT_TESTS_MODULE_CASE_H

#include "module_oracle.h"
#include "pool.h"

#include <rapt/rapt.h>

#include <stdint.h>

typedef enum module_kind {
    MODULE_V1,
    MODULE_V2,
    MODULE_CAUSAL,
    MODULE_AFTER, /* causal, masked after the softmax */
    MODULE_STACKED,
    MODULE_SPLIT,
    MODULE_KINDS
} module_kind;

/* Everything that a case is. Sizes of the module first, of the call after them. */
typedef struct module_sizes {
    module_kind kind;
    int64_t d_in, heads, head_dim; /* heads = 1 but for stacked and split */
    int32_t bias;
    double dropout;
    /* split only */
    int64_t key_dim, value_dim; /* 0: no source of its own */
    int32_t no_out_bias, no_out_proj, not_causal;

    int64_t batch, tokens, keys; /* keys = tokens without a key source */
    int32_t rank;                /* of x: 2 or 3 */
    int32_t masked;              /* 1: a mask [B, 1, T, S]; 2: [T, S]; 3: [B, heads, T, S] */
    int32_t lengths;             /* 1: [B]; 2: [1], int64 */
    int32_t weights;             /* 1: per head; 2: the mean */
    int32_t training;            /* 1: Philox; 2: a generator */
    int32_t strided;             /* 1: x and out with gaps between rows; 2: x transposed */
} module_sizes;

typedef struct module_case {
    module_sizes s;
    int64_t features; /* of out */
    union {
        rapt_self_v1 v1;
        rapt_self_v2 v2;
        rapt_causal_attention causal;
        rapt_stacked stacked;
        rapt_split split;
    } m;
    rapt_tensor x, key_source, value_source, mask, key_lengths, out, weights;
    rapt_generator generator;
    rapt_module_call call; /* points into this struct: do not copy the case */
} module_case;

/* A case of the given kind or, for MODULE_KINDS, of any. */
module_sizes module_sizes_draw(uint64_t seed, module_kind kind);

/* Sizes as text; static memory. */
const char *module_sizes_text(const module_sizes *s);

/* The module with random parameters and a call of random data from a seed, in the pool. */
void module_case_make(module_case *c, rapt_context *context, const module_sizes *s, uint64_t seed);
rapt_status module_case_init(module_case *c, rapt_context *context, const module_sizes *s,
                             rapt_generator *generator);
rapt_status module_case_forward(module_case *c, rapt_context *context);
void module_case_free(module_case *c);

/* For the oracle. With a generator, call it before the forward: it draws from a copy. */
module_form module_case_form(const module_case *c, rapt_context *context);

#endif
