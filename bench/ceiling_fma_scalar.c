/* SPDX-License-Identifier: MIT
 * ceiling_fma_scalar.c: the peak of the compiler's baseline: on x86-64, SSE2 multiply and add. */
#define FMA_ISA scalar
#define FMA_LANES 4
#define FMA_CHAINS 12

#include "ceiling_fma.h"
