/* SPDX-License-Identifier: MIT
 * plain.h: a small attention call on malloc'd contiguous tensors of standard normal numbers, for
 * tests of what surrounds the numbers (memory, threads, instruction sets): run it again, compare
 * bits. Guarded memory, layouts and the oracle's bounds are in problem.h. */
#ifndef RAPT_TESTS_PLAIN_H
#define RAPT_TESTS_PLAIN_H

#include <rapt/rapt.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct plain_sizes {
    int64_t b, hq, hkv, tq, tk, d, dv;
} plain_sizes;

/* `operands` points into the struct itself: pass it by pointer, do not copy it. */
typedef struct plain {
    plain_sizes sizes;
    rapt_attention what;
    rapt_attention_operands operands;
    rapt_tensor q, k, v, out, lse;
    size_t out_count, lse_count; /* elements */
} plain;

/* Full attention on random data, out and lse filled with a canary. `seed` decides all numbers. */
void plain_make(plain *p, plain_sizes sizes, uint64_t seed);
void plain_free(plain *p);

/* Puts the canary back into out and lse; true if it is there in every byte. */
void plain_clear(plain *p);
bool plain_untouched(const plain *p);

/* out and lse cleared, then computed. */
rapt_status plain_run(plain *p, rapt_context *context);

/* True if out and lse of both hold the same bits. */
bool plain_same(const plain *a, const plain *b);

/* A context that must exist and run the given set (null: the one in RAPT_ISA, else the best).
 * threads as in rapt_context_options. */
rapt_context *plain_context(int32_t threads, const char *isa);

#endif
