/* SPDX-License-Identifier: MIT
 * refuse.h: calls of the C library that fail on request. They take effect in programs that are
 * linked with --wrap for these names (suites_safetensors.cmake), before any shared library. */
#ifndef RAPT_TESTS_REFUSE_H
#define RAPT_TESTS_REFUSE_H

#include <stddef.h>
#include <stdint.h>

/* malloc and calloc succeed this many times and then fail; INT64_MAX, as at the start: always. */
void refuse_allocations_after(int64_t count);

/* 1: fails, with an errno that fits. */
void refuse_mmap(int refuse);
void refuse_fsync(int refuse);
void refuse_rename(int refuse);

/* malloc as it is here, for libraries that can be given one. */
void *refuse_malloc(size_t bytes);

#endif
