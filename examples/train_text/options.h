/* SPDX-License-Identifier: MIT
 * options.h: the command line. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

typedef struct options {
    char *text;           /* null: the text beside the sources */
    char *json;           /* where the loss curve and attention weights go; null: nowhere */
    char *save, *load;    /* safetensors files; null: none */
    int steps;            /* many, if the run is limited by `seconds` alone */
    double seconds;       /* 0: no limit but `steps` */
    int seed, threads;    /* threads 0: all cores */
    int batch, context;   /* windows in each step, characters in each */
    int width, heads;     /* of the model */
    double rate, dropout; /* highest learning rate; of attention weights */
    double margin;        /* by which the held-out loss must be below the bigram table's */
    int sample;           /* characters to write at the end */
} options;

/* Returns 0, with a line on standard error, if the command line is wrong. --help exits. */
int options_parse(options *o, int argc, const char **argv);
void options_free(options *o);

#endif
