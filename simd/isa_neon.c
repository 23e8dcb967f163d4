/* SPDX-License-Identifier: MIT
 * isa_neon.c: the kernels compiled for neon. */
#include "vec_neon.h"

#include "table.h"
