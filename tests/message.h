/* SPDX-License-Identifier: MIT
 * message.h: what a test asks of an error message. */
#ifndef RAPT_TESTS_MESSAGE_H
#define RAPT_TESTS_MESSAGE_H

/* Fails the running Criterion test unless `message` is one line and holds each of the
 * space-separated `words`, standing by themselves. `line` is the asking line. */
void expect_message(const char *message, const char *words, int line);

#endif
