/* SPDX-License-Identifier: MIT
 * test_random.c: random combinations of all features over shapes around every tile edge, against
 * the oracle, in guarded memory. The variables that change the cases: case_all.c. */
#include "case.h"
#include "harness.h"

#include <criterion/criterion.h>

Test(random, all_features) { case_run_all("random", 80000, NULL, case_run); }

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
