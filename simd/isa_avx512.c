/* SPDX-License-Identifier: MIT
 * isa_avx512.c: the kernels compiled for avx512. */
#include "vec_avx512.h"

#include "table.h"
