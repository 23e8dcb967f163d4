/* SPDX-License-Identifier: MIT
 * sample.h: text that the model writes. */
#ifndef TRAIN_SAMPLE_H
#define TRAIN_SAMPLE_H

#include "model.h"
#include "text.h"

/* Prints `count` characters drawn one after the other, going on from the last of the training
 * part. Returns 0, with a line on standard error, on failure. */
int sample_print(rapt_context *context, const model *m, const text *t, rapt_generator *generator,
                 int64_t count);

#endif
