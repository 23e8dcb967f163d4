/* SPDX-License-Identifier: MIT
 * rapt/export.h: symbol visibility and inlining. Not interesting to users. */
#ifndef RAPT_EXPORT_H
#define RAPT_EXPORT_H

#if defined(__GNUC__)
#define RAPT_API __attribute__((visibility("default")))
#else
#define RAPT_API
#endif

/* Inlined for certain: GCC would otherwise warn that makers read the memory that they only view. */
#if defined(__GNUC__)
#define RAPT_ALWAYS_INLINE static inline __attribute__((always_inline))
#else
#define RAPT_ALWAYS_INLINE static inline
#endif

#endif
