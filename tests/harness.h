/* SPDX-License-Identifier: MIT
 * harness.h: what every suite uses: contexts of the instruction set under test, failure with the
 * complete case, and expectations on a problem's results. */
#ifndef RAPT_TESTS_HARNESS_H
#define RAPT_TESTS_HARNESS_H

#include "fill.h"
#include "problem.h"

#include <rapt/rapt.h>

#include <stdbool.h>
#include <stdint.h>

/* ---- Contexts ---- */

/* A context (kept for later calls) of the instruction set that RAPT_ISA names, or of the best one.
 * Fails the test if another set would run. threads >= 1. */
rapt_context *harness_context(int32_t threads);

/* Drops the kept contexts without a call into them: after a crash. */
void harness_forget_contexts(void);

/* ---- Failure ---- */

/* The problem that messages describe, or null. */
void harness_current(const problem *p);
const char *harness_text(void);

void harness_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

/* Ends the test with a message and the current problem if the condition is false. */
#define REQUIRE(condition, ...)                                                                    \
    do {                                                                                           \
        if (!(condition)) harness_fail(__FILE__, __LINE__, __VA_ARGS__);                           \
    } while (0)

/* ---- Expectations. Each ends the test if not met. ---- */

/* Calls the library: RAPT_OK, canaries and inputs intact. */
void expect_run(problem *p);

/* expect_run, then all results against the oracle, within the oracle's bounds. */
void expect_oracle(problem *p);

/* out, lse and weights of two problems, those that both have, bit by bit. */
void expect_same_bits(const problem *a, const problem *b);

/* Closed-form numbers: |got - want| <= 2e-6 + 1e-5 |want|; a want of 0 or infinity means exactly
 * that, and NaN wants NaN. */
void expect_out(const problem *p, int64_t b, int64_t h, int64_t i, const double *row);
void expect_out_all(const problem *p, int64_t b, int64_t h, int64_t i, double every_column);
void expect_lse(const problem *p, int64_t b, int64_t h, int64_t i, double want);

/* A row that sees nothing: out 0, lse -inf. */
void expect_empty(const problem *p, int64_t b, int64_t h, int64_t i);

#endif
