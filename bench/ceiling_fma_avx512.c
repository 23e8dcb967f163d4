/* SPDX-License-Identifier: MIT
 * ceiling_fma_avx512.c: the peak of AVX-512: 24 of 32 registers. */
#define FMA_ISA avx512
#define FMA_LANES 16
#define FMA_CHAINS 24

#include "ceiling_fma.h"
