/* SPDX-License-Identifier: MIT
 * isa_scalar.c: the kernels compiled for scalar. */
#include "vec_scalar.h"

#include "table.h"
