/* SPDX-License-Identifier: MIT
 * dispatch.c: the ordered list of instruction sets, best first, portable last. Adding one: its
 * table and one line in `rows`. A row is chosen by what was measured on a machine, not by a feature
 * bit alone; `supported` is the place for that. */
#include "dispatch.h"

#include "cpu.h"

#include <stddef.h>
#include <string.h>

extern const rapti_kernels rapti_kernels_avx512, rapti_kernels_avx2, rapti_kernels_neon,
    rapti_kernels_scalar, rapti_kernels_odd;

static int always(void) { return 1; }

typedef struct dispatch_row {
    const rapti_kernels *kernels;
    int (*supported)(void);
    int for_tests; /* never chosen unless forced */
} dispatch_row;

static const dispatch_row rows[] = {
#if defined(RAPT_HAVE_AVX512)
    {&rapti_kernels_avx512, rapti_cpu_has_avx512, 0},
#endif
#if defined(RAPT_HAVE_AVX2)
    {&rapti_kernels_avx2, rapti_cpu_has_avx2, 0},
#endif
#if defined(RAPT_HAVE_NEON)
    {&rapti_kernels_neon, always, 0},
#endif
    {&rapti_kernels_scalar, always, 0},
#if defined(RAPT_TEST_ROWS)
    {&rapti_kernels_odd, always, 1},
#endif
};

enum { ROWS = sizeof rows / sizeof rows[0] };

const rapti_kernels *rapti_dispatch_row(int32_t index) {
    return index >= 0 && index < ROWS ? rows[index].kernels : NULL;
}

const rapti_kernels *rapti_dispatch_find(const char *name) {
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].kernels->isa, name) == 0) { return rows[i].kernels; }
    }
    return NULL;
}

int rapti_dispatch_supported(const rapti_kernels *row) {
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].kernels == row) { return rows[i].supported(); }
    }
    return 0;
}

const rapti_kernels *rapti_dispatch_best(void) {
    for (int i = 0; i < ROWS; i++) {
        if (!rows[i].for_tests && rows[i].supported()) { return rows[i].kernels; }
    }
    return NULL; /* not reached: scalar is always supported */
}
