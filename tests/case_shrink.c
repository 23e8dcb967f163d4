/* SPDX-License-Identifier: MIT
 * case_shrink.c: makes a failing case smaller, one field at a time: to its simplest value, to half,
 * to one less; as long as the case still fails. */
#include "case.h"

#include <string.h>

enum { MOST_RUNS = 3000 };

/* The number-th smaller value of a field, or the value itself if there is none. */
static int64_t smaller(int64_t value, int64_t simplest, int number) {
    if (value <= simplest) return value;
    switch (number) {
    case 0: return simplest;
    case 1: return value / 2 > simplest ? value / 2 : value;
    default: return value - 1;
    }
}

/* Tries one change; takes it over if the case still fails. */
static bool step(test_case *c, case_run_fn *run, int field, int number, char *why,
                 size_t why_bytes) {
    char reason[4096];
    test_case next = *c;
    int64_t *value = case_at(&next, field);
    const int64_t before = *value;
    *value = smaller(before, case_fields[field].simplest, number);
    if (*value == before) return false;
    case_settle(&next);
    if (memcmp(&next, c, sizeof next) == 0) return false;
    if (run(&next, reason, sizeof reason)) return false;
    *c = next;
    strncpy(why, reason, why_bytes - 1);
    return true;
}

test_case case_shrink(const test_case *c, case_run_fn *run, char *why, size_t why_bytes) {
    test_case best = *c;
    memset(why, 0, why_bytes);
    int runs = 0;
    for (bool moved = true; moved && runs < MOST_RUNS;) {
        moved = false;
        for (int field = 1; field < case_field_count; field++) {
            for (int number = 0; number < 3; number++, runs++) {
                moved |= step(&best, run, field, number, why, why_bytes);
            }
        }
    }
    if (!why[0]) run(&best, why, why_bytes);
    return best;
}
