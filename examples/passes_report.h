/* SPDX-License-Identifier: MIT
 * passes_report.h: numbers beside the book's, how many agree to the last printed digit, and weights
 * for scripts/plot_passes.py. */
#ifndef PASSES_REPORT_H
#define PASSES_REPORT_H

#include <stdio.h>

typedef struct report {
    int numbers, agree;
    int maps;
    FILE *json; /* null = nobody wants the weights */
} report;

/* Prints `rows` rows, one for each token (or for "journey" alone, if there is one row), ours and
 * the book's, and counts. A batch of several sentences repeats the book's rows. */
void report_rows(report *r, const char *title, int rows, int width, const float *ours,
                 const float *book);

/* Opens the file that gets the weights; 0 if it cannot be written. */
int report_open(report *r, const char *path);

/* Adds a matrix of weights, [TOKENS][TOKENS]: row = query, column = key. */
void report_weights(report *r, const char *section, const char *title, const float *weights);

/* Ends the file, prints the count. 1 if all numbers agree and the file is written. */
int report_close(report *r);

#endif
