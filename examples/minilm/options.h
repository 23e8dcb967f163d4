/* SPDX-License-Identifier: MIT
 * options.h: the command line. */
#ifndef MINILM_OPTIONS_H
#define MINILM_OPTIONS_H

typedef struct minilm_options {
    char *text;     /* file with one sentence per line; null: the text beside the sources */
    char *folder;   /* with the model's files; null: see locate.h */
    char *json;     /* where one layer's weights go; null: nowhere */
    int pairs;      /* to print */
    int batch;      /* sentences at a time */
    int line;       /* whose weights, from 1 */
    int layer;      /* of which layer, from 0 */
    double seconds; /* to measure for, each thread count */
} minilm_options;

/* Returns 0, with a line on standard error, if the command line is wrong. --help exits. */
int minilm_options_parse(minilm_options *o, int argc, const char **argv);
void minilm_options_free(minilm_options *o);

#endif
