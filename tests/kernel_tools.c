/* SPDX-License-Identifier: MIT
 * kernel_tools.c: see kernel_tools.h. */
#include "kernel_tools.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { CANARY = 0xff };

void tally_fail(tally *t, const char *format, ...) {
    if (t->failures++ > 0) { return; }
    va_list arguments;
    va_start(arguments, format);
    fprintf(t->log, "%s %s: ", t->k->isa, t->check);
    vfprintf(t->log, format, arguments);
    fputc('\n', t->log);
    va_end(arguments);
}

bool same_float(float a, float b) { return bits_of(a) == bits_of(b) || (isnan(a) && isnan(b)); }

float multiply_add(bool fused, float a, float b, float c) {
    if (fused) { return fmaf(a, b, c); }
    const float product = a * b; /* a statement of its own, so that no compiler fuses it */
    return c + product;
}

/* (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24 if the square is not rounded, else 0 */
bool kernels_fused(const rapti_kernels *k) {
    const float a[2] = {-1.0f, 1.0f + 0x1p-12f};
    float b[2 * RAPTI_MAX_LANES], c[RAPTI_MAX_LANES];
    for (int j = 0; j < RAPTI_MAX_LANES; j++) {
        b[j] = 1.0f + 0x1p-11f;
        b[RAPTI_MAX_LANES + j] = 1.0f + 0x1p-12f;
    }
    k->product(&(rapti_product){.a = a,
                                .a_row = 2,
                                .a_k = 1,
                                .b = b,
                                .b_k = RAPTI_MAX_LANES,
                                .c = c,
                                .c_row = RAPTI_MAX_LANES,
                                .rows = 1,
                                .inner = 2,
                                .vectors = 1});
    return c[0] > 0.0f;
}

float random_float(rng *r, int one_in) {
    static const uint32_t special[] = {0x7fc00000, 0xff800000, 0x7f800000, 0x80000000, 0x00000001};
    if (one_in > 0 && rng_range(r, 1, one_in) == 1) {
        return float_of(special[rng_range(r, 0, 4)]);
    }
    return (float)rng_normal(r);
}

span span_take(int64_t count, int64_t stride, size_t element_bytes, guard_side side) {
    const int64_t reach = count > 0 ? (count - 1) * llabs(stride) : 0;
    const size_t bytes = count > 0 ? (size_t)(reach + 1) * element_bytes : 0;
    span s = {.block = guard_take(bytes, element_bytes, side, CANARY)};
    s.first = s.block.data + (stride < 0 ? (size_t)reach * element_bytes : 0);
    return s;
}

void span_return(span *s) { guard_return(&s->block); }

plane plane_take(int64_t rows, int64_t width, int64_t ld) {
    plane p = {.rows = rows, .width = width, .ld = ld};
    const size_t floats = rows > 0 ? (size_t)((rows - 1) * ld + width) : 0;
    p.block = guard_take(floats * sizeof(float), sizeof(float), GUARD_AFTER, CANARY);
    p.at = (float *)(void *)p.block.data;
    return p;
}

void plane_return(plane *p) { guard_return(&p->block); }

void plane_seal(const plane *p) { guard_seal(&p->block); }

bool plane_kept(const plane *p, int64_t from, int64_t to) {
    for (int64_t r = from; r < to; r++) {
        const float *row = p->at + r * p->ld;
        guard_accept(&p->block, (const uint8_t *)row, (size_t)p->width * sizeof(float));
    }
    ptrdiff_t offset;
    return guard_intact(&p->block, &offset);
}
