/* SPDX-License-Identifier: MIT
 * dispatch.h: the ordered list of instruction sets, best first. */
#ifndef RAPTI_DISPATCH_H
#define RAPTI_DISPATCH_H

#include "kernels.h"

/* The index-th row of the list, supported here or not; null past the end. */
const rapti_kernels *rapti_dispatch_row(int32_t index);

/* Null if the binary has no such row. */
const rapti_kernels *rapti_dispatch_find(const char *name);

/* 1 if this machine runs it. */
int rapti_dispatch_supported(const rapti_kernels *row);

/* The first supported row that is not for tests only. */
const rapti_kernels *rapti_dispatch_best(void);

#endif
