/* SPDX-License-Identifier: MIT
 * kernel_tools.h: what the kernel checks share: counting failures, bits of floats, guarded rows and
 * planes of memory. No Criterion: the checks also run as a plain program under emulation. */
#ifndef RAPT_TESTS_KERNEL_TOOLS_H
#define RAPT_TESTS_KERNEL_TOOLS_H

#include "guard.h"
#include "kernels.h"
#include "rng.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- Failures of one check on one table ---- */

typedef struct tally {
    const rapti_kernels *k;
    const char *check;
    FILE *log;
    int failures;
} tally;

/* Counts a failure and prints the message if it is the first. */
void tally_fail(tally *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- Numbers ---- */

#define UNIT_ROUNDOFF 0x1p-24 /* largest relative error of one rounding to float */

static inline float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The same bits, or both NaN. */
bool same_float(float a, float b);

/* Distance between floats around x, which rounds to a normal positive float. */
static inline double ulp_of(double x) {
    const uint64_t exponent = bits_of((float)x) >> 23; /* biased by 127 */
    const uint64_t bits = (exponent + 1023 - 127 - 23) << 52;
    double ulp;
    memcpy(&ulp, &bits, sizeof ulp);
    return ulp;
}

/* Rounds once, as the fused sets do, or twice. */
float multiply_add(bool fused, float a, float b, float c);

/* Whether the table's product rounds once per term: asked of the kernel itself. */
bool kernels_fused(const rapti_kernels *k);

/* Standard normal numbers; one in `one_in` (0: none) is NaN, an infinity, -0 or denormal. */
float random_float(rng *r, int one_in);

/* ---- Memory. Everything that is not an element holds 0xff: NaN, and the byte 255. ---- */

/* `count` elements, `stride` elements apart (any sign, 0 too). The last one in memory touches a
 * forbidden page, or with GUARD_BEFORE the first. */
typedef struct span {
    guard_block block;
    void *first; /* element 0 */
} span;

span span_take(int64_t count, int64_t stride, size_t element_bytes, guard_side side);
void span_return(span *s);

/* Rows of `width` floats, `ld` floats apart; the last row ends at a forbidden page. */
typedef struct plane {
    guard_block block;
    float *at;
    int64_t rows, width, ld;
} plane;

plane plane_take(int64_t rows, int64_t width, int64_t ld);
void plane_return(plane *p);

/* Records the present contents; plane_kept is false if anything outside rows [from, to) (and
 * the gaps inside) has changed since. */
void plane_seal(const plane *p);
bool plane_kept(const plane *p, int64_t from, int64_t to);

#endif
