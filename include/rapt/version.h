/* SPDX-License-Identifier: MIT
 * rapt/version.h: the version of these headers. The build reads it from here and nowhere else. */
#ifndef RAPT_VERSION_H
#define RAPT_VERSION_H

#define RAPT_VERSION_MAJOR 0
#define RAPT_VERSION_MINOR 2
#define RAPT_VERSION_PATCH 0

/* One number that grows with every release: 0.2.0 is 200. */
#define RAPT_VERSION (RAPT_VERSION_MAJOR * 10000 + RAPT_VERSION_MINOR * 100 + RAPT_VERSION_PATCH)

#endif
