/* SPDX-License-Identifier: MIT
 * kernels_plain.c: the kernel checks as a plain program, for emulators under which Criterion hangs:
 *
 *   kernels_plain [isa]     one instruction set, or all that this machine supports
 *
 * Exit status: 0 all checks pass, 1 one fails, 2 the set is unknown, 77 it is not supported. */
#include "dispatch.h"
#include "kernel_checks.h"

#include <stdio.h>

enum { EXIT_FAILED = 1, EXIT_UNKNOWN = 2, EXIT_UNSUPPORTED = 77 };

static int run_checks(const rapti_kernels *k) {
    int failed = 0;
    for (int n = 0; kernel_checks[n].name; n++) {
        const int failures = kernel_checks[n].run(k, stdout);
        printf("%s %s: %s\n", k->isa, kernel_checks[n].name, failures ? "FAILED" : "passed");
        fflush(stdout);
        failed += failures > 0;
    }
    return failed;
}

int main(int argc, char *argv[]) {
    int failed = 0;
    if (argc > 1) {
        const rapti_kernels *k = rapti_dispatch_find(argv[1]);
        if (!k) {
            fprintf(stderr, "kernels_plain: no instruction set %s in this build\n", argv[1]);
            return EXIT_UNKNOWN;
        }
        if (!rapti_dispatch_supported(k)) { return EXIT_UNSUPPORTED; }
        failed = run_checks(k);
    } else {
        for (int32_t n = 0; rapti_dispatch_row(n); n++) {
            const rapti_kernels *k = rapti_dispatch_row(n);
            if (rapti_dispatch_supported(k)) { failed += run_checks(k); }
        }
    }
    printf("%d checks failed\n", failed);
    return failed ? EXIT_FAILED : 0;
}
