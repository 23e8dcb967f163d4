/* SPDX-License-Identifier: MIT
 * crash.h: runs a piece of code and comes back even if it touches a forbidden page, so that the
 * case at hand can be reported and made smaller. */
#ifndef RAPT_TESTS_CRASH_H
#define RAPT_TESTS_CRASH_H

/* 0, or the signal (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT) that ended body(arg). After a signal
 * only reporting and simple further calls make sense: locks that the body held stay locked. A
 * signal in another thread prints describe() to stderr and ends the process. */
int crash_catch(void (*body)(void *arg), void *arg, const char *(*describe)(void));

#endif
