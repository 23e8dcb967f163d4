/* SPDX-License-Identifier: MIT
 * module_oracle.h: what a module computes, naive, in double precision, written from modules.h: one
 * query, key and value layer over all heads' features, attention, an output layer. Beside each
 * number stands the bound of a correct f32 result's error. */
#ifndef RAPT_TESTS_MODULE_ORACLE_H
#define RAPT_TESTS_MODULE_ORACLE_H

#include <rapt/rapt.h>

#include <stddef.h>
#include <stdint.h>

typedef struct module_form {
    rapt_linear query, key, value; /* [features, d_in], heads side by side */
    rapt_linear out_proj;          /* weight.data null = none */
    int64_t heads;
    int causal;
    double dropout;
    const uint8_t *keep; /* [B, heads, T, S], dense; null = Philox */
} module_form;

typedef struct number {
    double value, bound;
} number;

typedef struct module_result {
    int64_t batch, heads, tokens, keys, features;
    number *out;     /* [B, T, features] */
    number *weights; /* [B, heads, T, S], before dropout */
} module_result;

module_result module_oracle(const module_form *form, const rapt_module_call *call);
void module_oracle_free(module_result *result);

/* Fails the test unless out and, if asked for, weights of the call lie within the bounds; `what`
 * says what ran. Returns the largest share of a bound that was used up. */
double module_expect(const module_result *result, const rapt_module_call *call, const char *what);

#endif
