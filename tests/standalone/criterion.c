/* SPDX-License-Identifier: MIT
 * criterion.c (stand-in): runs every registered test in a child process of its own. */
#include <criterion/criterion.h>

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static standalone_entry *entries;
static atomic_int failed_checks;

void standalone_register(standalone_entry *entry) {
    standalone_entry **end = &entries;
    while (*end) { end = &(*end)->next; }
    *end = entry;
}

void standalone_check(bool fatal, bool holds, const char *file, int line, const char *what,
                      const char *format, ...) {
    if (holds) { return; }
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: failed: %s\n  ", file, line, what);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    atomic_fetch_add(&failed_checks, 1);
    if (fatal) {
        fflush(NULL);
        _exit(EXIT_FAILURE);
    }
}

static const standalone_entry *suite_of(const standalone_entry *test) {
    static const standalone_entry none;
    for (const standalone_entry *e = entries; e; e = e->next) {
        if (!e->name && strcmp(e->suite, test->suite) == 0) { return e; }
    }
    return &none;
}

static void run_and_exit(const standalone_entry *test) {
    const standalone_entry *suite = suite_of(test);
    if (test->timeout > 0) { alarm((unsigned)test->timeout); }
    if (suite->init) { suite->init(); }
    if (test->init) { test->init(); }
    test->run();
    if (test->fini) { test->fini(); }
    if (suite->fini) { suite->fini(); }
    exit(atomic_load(&failed_checks) ? EXIT_FAILURE : EXIT_SUCCESS);
}

static bool passes(const standalone_entry *test) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) { run_and_exit(test); }
    int status = -1;
    const bool passed = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
                        WEXITSTATUS(status) == 0;
    if (!passed) { printf("FAILED: %s::%s (status %d)\n", test->suite, test->name, status); }
    return passed;
}

int criterion_run_all_tests(struct criterion_test_set *tests) {
    (void)tests;
    int count = 0, passed = 0;
    for (const standalone_entry *e = entries; e; e = e->next) {
        if (!e->name) { continue; }
        count++;
        passed += passes(e);
    }
    printf("%d of %d tests passed\n", passed, count);
    return passed == count;
}

struct criterion_test_set *criterion_initialize(void) {
    return NULL;
}

int criterion_handle_args(int argc, char *argv[], bool handle_unknown) {
    (void)argc;
    (void)argv;
    (void)handle_unknown;
    return 1;
}

void criterion_finalize(struct criterion_test_set *tests) { (void)tests; }
