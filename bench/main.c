/* SPDX-License-Identifier: MIT
 * main.c: rapt-bench. Measures the library beside the ceilings of the machine it runs on. How, and
 * what the rows are: bench/README.md. */
#include "ceiling.h"
#include "options.h"
#include "rows.h"
#include "run.h"

#include <stdio.h>
#include <string.h>

enum { EXIT_USAGE = 2 };

static void list(void) {
    for (int i = 0; bench_row_at(i); i++) { puts(bench_row_at(i)->name); }
    for (int i = 0; bench_ceiling_kernel_at(i); i++) { puts(bench_ceiling_kernel_at(i)->name); }
}

static int names_something(char *pattern, int ceilings_too) {
    char *const patterns[] = {pattern, NULL};
    bench_row row;
    int found = bench_rows_select(patterns, &row, 1) > 0;
    for (int i = 0; !found && ceilings_too && bench_ceiling_kernel_at(i); i++) {
        found = bench_name_matches(bench_ceiling_kernel_at(i)->name, patterns);
    }
    return found;
}

/* Every pattern names a row, or is itself a name that can be run. */
static int check_rows(const bench_options *options) {
    for (char *const *pattern = options->rows; pattern && *pattern; pattern++) {
        if (!names_something(*pattern, !options->scaling)) {
            fprintf(stderr, "rapt-bench: no row '%s'; --list shows the names\n", *pattern);
            return 0;
        }
    }
    return 1;
}

int main(int argc, char **argv) {
    bench_options options;
    int status = EXIT_USAGE;
    if (bench_options_parse(&options, argc, (const char **)argv) && check_rows(&options)) {
        if (options.list) {
            list();
            status = 0;
        } else {
            status = options.scaling ? bench_scaling(&options) : bench_run(&options);
        }
    }
    bench_options_free(&options);
    return status;
}
