/* SPDX-License-Identifier: MIT
 * random.h: what kernels and plans need to know of attention dropout. */
#ifndef RAPTI_RANDOM_H
#define RAPTI_RANDOM_H

#include <stdint.h>

/* A weight is kept if its word, read as int32_t, is below this: -2^31 (p = 1) keeps none, 2^31
 * (p = 0, or within 2^-33 of it) keeps all. Precondition: 0 <= p <= 1. */
int64_t rapti_dropout_threshold(double p);

#endif
