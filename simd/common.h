/* SPDX-License-Identifier: MIT
 * common.h: three compiler hints that the vector headers and kernel bodies share. */
#ifndef RAPTI_COMMON_H
#define RAPTI_COMMON_H

#define RAPTI_INLINE static inline __attribute__((always_inline))
#define RAPTI_NOINLINE static __attribute__((noinline))

/* Full unrolling of a loop with literal bounds. Every loop over a register tile carries it: one
 * without it sends the whole tile to memory. */
#define RAPTI_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define RAPTI_UNROLL(n) _Pragma("clang loop unroll(full)")
#else
#define RAPTI_UNROLL(n) RAPTI_PRAGMA(GCC unroll n)
#endif

#endif
