/* SPDX-License-Identifier: MIT
 * heads.h: attention weights of one sentence as a JSON file, for scripts/plot_heads.py. */
#ifndef MINILM_HEADS_H
#define MINILM_HEADS_H

#include "encoder.h"
#include "vocab.h"

/* Writes {"layer", "tokens": [T], "weights": [heads][T][T]}; layers count from 0. Returns 0, with a
 * line on standard error, if that fails. */
int heads_write(encoder *e, const vocab *v, const sentence *s, int64_t layer, const char *path);

#endif
