/* SPDX-License-Identifier: MIT
 * ceiling_fma_neon.c: the peak of AArch64's Advanced SIMD: 24 of 32 registers. */
#define FMA_ISA neon
#define FMA_LANES 4
#define FMA_CHAINS 24

#include "ceiling_fma.h"
