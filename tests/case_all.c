/* SPDX-License-Identifier: MIT
 * case_all.c: runs many random cases; one that fails is made smaller before it is reported.
 *
 *   RAPT_TEST_CASES   number of cases
 *   RAPT_TEST_SEED    seed of the first one; the others follow by adding 1
 *   RAPT_TEST_REPLAY  run only this case, as a failure printed it: "seed=17 b=1 tq=3 ..." */
#include "case.h"
#include "harness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEFAULT_SEED = 1 };

static uint64_t number_from(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static void report(const test_case *c, case_run_fn *run) {
    static char why[4096], first[1100];
    snprintf(first, sizeof first, "%s", case_text(c));
    const test_case small = case_shrink(c, run, why, sizeof why);
    harness_current(NULL);
    harness_fail(__FILE__, __LINE__, "%s\nRAPT_TEST_REPLAY='%s'\nbefore shrinking: '%s'", why,
                 case_text(&small), first);
}

void case_run_all(const char *name, uint64_t cases, void (*settle)(test_case *c),
                  case_run_fn *run) {
    static char why[4096];
    test_case c;
    const char *replay = getenv("RAPT_TEST_REPLAY");
    if (replay) {
        REQUIRE(case_parse(replay, &c), "RAPT_TEST_REPLAY: cannot read '%s'", replay);
        REQUIRE(run(&c, why, sizeof why), "%s", why);
        return;
    }
    const uint64_t count = number_from("RAPT_TEST_CASES", cases);
    const uint64_t seed = number_from("RAPT_TEST_SEED", DEFAULT_SEED);
    fprintf(stderr, "%s: %" PRIu64 " cases from seed %" PRIu64 "\n", name, count, seed);
    for (uint64_t n = 0; n < count; n++) {
        c = case_draw(seed + n);
        if (settle) settle(&c);
        if (!run(&c, why, sizeof why)) report(&c, run);
    }
}
