/* SPDX-License-Identifier: MIT
 * rapt/export.h: symbol visibility. Not interesting to users. */
#ifndef RAPT_EXPORT_H
#define RAPT_EXPORT_H

#if defined(__GNUC__)
#define RAPT_API __attribute__((visibility("default")))
#else
#define RAPT_API
#endif

#endif
