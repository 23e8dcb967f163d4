/* SPDX-License-Identifier: MIT
 * isa_avx2.c: the kernels compiled for avx2. */
#include "vec_avx2.h"

#include "table.h"
