/* SPDX-License-Identifier: MIT
 * ceiling_fma_avx2.c: the peak of AVX2 with FMA: 12 of 16 registers. */
#define FMA_ISA avx2
#define FMA_LANES 8
#define FMA_CHAINS 12

#include "ceiling_fma.h"
