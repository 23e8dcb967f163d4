/* SPDX-License-Identifier: MIT
 * case_parts.h: parts of a random case, run alone, have the bits that they have in the whole. */
#ifndef RAPT_TESTS_CASE_PARTS_H
#define RAPT_TESTS_CASE_PARTS_H

#include "case.h"
#include "problem.h"

#include <stdbool.h>
#include <stddef.h>

/* Precondition: the problem of the case has just run. Writes its results again. */
bool case_check_parts(const test_case *c, const problem *p, char *why, size_t why_bytes);

#endif
