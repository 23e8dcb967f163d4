/* SPDX-License-Identifier: MIT
 * report.h: what scripts/plot_training.py draws, as a JSON file. */
#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H

#include "train.h"

/* Writes {"bigram", "singles", "characters_per_second", "curve": {"step", "seconds", "training",
 * "held_out"}, "characters": [T] of one held-out line, "weights": [layers][heads][T][T]}. Returns
 * 0, with a line on standard error, if that fails. */
int report_write(rapt_context *context, const model *m, const text *t, const bigram *line,
                 const train_curve *curve, const char *path);

#endif
