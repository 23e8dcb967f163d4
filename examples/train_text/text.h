/* SPDX-License-Identifier: MIT
 * text.h: a text as numbered symbols, its first part to train on, the rest held out. */
#ifndef TRAIN_TEXT_H
#define TRAIN_TEXT_H

#include <stdint.h>

typedef struct text {
    uint8_t *id;         /* [count]: the number of each character's symbol */
    int64_t count;       /* characters */
    int64_t training;    /* of these, from the start, to train on */
    int32_t symbols;     /* distinct bytes in the whole text */
    uint8_t symbol[256]; /* [symbols]: their bytes, in order */
} text;

/* Reads a file; `share` (0 .. 1) of it is for training. Returns 0, with a line on standard error,
 * if it cannot be read or either part has less than `least` characters. */
int text_read(text *t, const char *path, double share, int64_t least);
void text_free(text *t);

/* The first whole line of the held-out part that has `least` to `most` characters, or `most`
 * characters from where the part begins if it has none: *begin to *begin + *count. */
void text_held_out_line(const text *t, int64_t least, int64_t most, int64_t *begin, int64_t *count);

#endif
