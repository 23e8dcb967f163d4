/* SPDX-License-Identifier: MIT
 * test_kernels.c: every kernel of the table that RAPT_ISA names (the best one without it), checked
 * by kernel_checks.h. */
#include "dispatch.h"
#include "kernel_checks.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>

Test(kernels, all) {
    const char *isa = getenv("RAPT_ISA");
    const rapti_kernels *k = isa && *isa ? rapti_dispatch_find(isa) : rapti_dispatch_best();
    cr_assert_not_null(k, "no instruction set %s in this build", isa);
    cr_assert(rapti_dispatch_supported(k), "%s is not supported here", k->isa);
    for (int n = 0; kernel_checks[n].name; n++) {
        printf("%s: %s\n", k->isa, kernel_checks[n].name); /* says where, if a guard page is hit */
        fflush(stdout);
        const int failures = kernel_checks[n].run(k, stdout);
        cr_expect_eq(failures, 0, "%s: %s failed %d times", k->isa, kernel_checks[n].name,
                     failures);
    }
}
