/* SPDX-License-Identifier: MIT
 * crash.c: see crash.h. */
#include "crash.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static const int caught[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
enum { CAUGHT = sizeof caught / sizeof *caught };

static struct sigaction before[CAUGHT];
static sigjmp_buf way_back;
static pthread_t home;
static const char *(*describe_case)(void);

static void on_signal(int number) {
    if (pthread_equal(pthread_self(), home)) siglongjmp(way_back, number);
    fprintf(stderr, "signal %d in a worker thread, case:\n%s\n", number, describe_case());
    _Exit(128 + number);
}

static void restore(void) {
    for (int n = 0; n < CAUGHT; n++) sigaction(caught[n], &before[n], NULL);
}

int crash_catch(void (*body)(void *arg), void *arg, const char *(*describe)(void)) {
    struct sigaction action = {.sa_handler = on_signal};
    home = pthread_self();
    describe_case = describe;
    const int number = sigsetjmp(way_back, 1);
    if (number == 0) {
        for (int n = 0; n < CAUGHT; n++) sigaction(caught[n], &action, &before[n]);
        body(arg);
    }
    restore();
    return number;
}
