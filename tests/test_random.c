/* SPDX-License-Identifier: MIT
 * test_random.c: random combinations of all features over shapes around every tile edge, against
 * the oracle, in guarded memory. A failing case is made smaller before it is reported.
 *
 *   RAPT_TEST_CASES   number of cases
 *   RAPT_TEST_SEED    seed of the first one; the others follow by adding 1
 *   RAPT_TEST_REPLAY  run only this case, as a failure printed it: "seed=17 b=1 tq=3 ..." */
#include "case.h"
#include "harness.h"

#include <criterion/criterion.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEFAULT_CASES = 100000, DEFAULT_SEED = 1 };

static uint64_t number_from(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static void report(const test_case *c) {
    static char why[4096], first[1100];
    snprintf(first, sizeof first, "%s", case_text(c));
    const test_case small = case_shrink(c, why, sizeof why);
    harness_current(NULL);
    harness_fail(__FILE__, __LINE__, "%s\nRAPT_TEST_REPLAY='%s'\nbefore shrinking: '%s'", why,
                 case_text(&small), first);
}

Test(random, all_features) {
    static char why[4096];
    test_case c;
    const char *replay = getenv("RAPT_TEST_REPLAY");
    if (replay) {
        REQUIRE(case_parse(replay, &c), "RAPT_TEST_REPLAY: cannot read '%s'", replay);
        REQUIRE(case_run(&c, why, sizeof why), "%s", why);
        return;
    }
    const uint64_t cases = number_from("RAPT_TEST_CASES", DEFAULT_CASES);
    const uint64_t seed = number_from("RAPT_TEST_SEED", DEFAULT_SEED);
    fprintf(stderr, "random: %" PRIu64 " cases from seed %" PRIu64 "\n", cases, seed);
    for (uint64_t n = 0; n < cases; n++) {
        c = case_draw(seed + n);
        if (!case_run(&c, why, sizeof why)) report(&c);
    }
}

Test(random, case_text_reads_back) {
    for (uint64_t seed = 0; seed < 1000; seed++) {
        const test_case c = case_draw(seed);
        test_case back;
        REQUIRE(case_parse(case_text(&c), &back), "%s", case_text(&c));
        for (int n = 0; n < case_field_count; n++) {
            test_case copy = c;
            REQUIRE(*case_at(&copy, n) == *case_at(&back, n), "%s", case_text(&c));
        }
    }
    test_case c;
    REQUIRE(!case_parse("seed=1 nonsense=2", &c) && !case_parse("seed=", &c), "accepted");
}
