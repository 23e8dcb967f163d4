/* SPDX-License-Identifier: MIT
 * verify.h: no wrong result is ever timed. */
#ifndef BENCH_VERIFY_H
#define BENCH_VERIFY_H

#include "case.h"

/* Compares up to 64 rows of the case's output, chosen at random, with the formula in double
 * precision. Returns the worst error as a multiple of what rounding explains: <= 1 is right;
 * infinity if a number is NaN or memory ran out. */
double bench_verify(const bench_case *c);

#endif
