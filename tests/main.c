/* SPDX-License-Identifier: MIT
 * main.c: entry of every suite. If RAPT_ISA names an instruction set of this build that this
 * machine lacks, the suite ends with 77 at once, which CTest shows as skipped. */
#include <criterion/criterion.h>

#include <rapt/rapt.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_SKIPPED = 77 };

static int built_but_unsupported(const char *isa) {
    for (int32_t n = 0; rapt_isa_name(n); n++) {
        if (strcmp(rapt_isa_name(n), isa) == 0) return !rapt_isa_supported(isa);
    }
    return 0;
}

int main(int argc, char *argv[]) {
    const char *isa = getenv("RAPT_ISA");
    if (isa && built_but_unsupported(isa)) {
        printf("skipped: this machine does not support %s\n", isa);
        return EXIT_SKIPPED;
    }
    struct criterion_test_set *tests = criterion_initialize();
    int failed = 0;
    if (criterion_handle_args(argc, argv, true)) failed = !criterion_run_all_tests(tests);
    criterion_finalize(tests);
    return failed;
}
