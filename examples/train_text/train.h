/* SPDX-License-Identifier: MIT
 * train.h: the training loop. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "bigram.h"
#include "model.h"
#include "text.h"

/* The learning rate rises and falls over the run, as both limits see it: without one in seconds, a
 * run has the same bits whatever the machine's speed. */
typedef struct train_options {
    int64_t steps;
    double seconds; /* the run ends earlier if they are over; 0: no such limit */
    uint64_t seed;  /* of batches and dropout */
    int64_t batch;  /* windows of the text in each step, each of the model's context */
    double rate;    /* the highest learning rate */
    int quiet;      /* 1: nothing is printed */
} train_options;

typedef struct train_point {
    int64_t step;
    double seconds;  /* since the start */
    double training; /* mean loss of the batches since the point before; NaN at the start */
    double held_out;
} train_point;

enum { TRAIN_POINTS = 21 };

typedef struct train_curve {
    train_point point[TRAIN_POINTS]; /* the start, then each 20th of the run */
    int count;
    double characters; /* trained on per second, without the time of held-out losses */
} train_curve;

/* Trains m, prints a line for each point. Returns 0, with a line on standard error, on failure. */
int train(rapt_context *context, model *m, const text *t, const bigram *line,
          const train_options *options, train_curve *curve);

#endif
