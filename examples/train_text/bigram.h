/* SPDX-License-Identifier: MIT
 * bigram.h: what counting says of a text: the losses to beat. */
#ifndef TRAIN_BIGRAM_H
#define TRAIN_BIGRAM_H

#include "text.h"

/* Cross-entropies of the held-out part in nats per character, by tables counted on the training
 * part, one added to each count (so that no pair is impossible). */
typedef struct bigram {
    double pairs;   /* p(c | the character before it) */
    double singles; /* p(c) */
} bigram;

/* Returns 0, with a line on standard error, without memory. */
int bigram_count(bigram *b, const text *t);

#endif
