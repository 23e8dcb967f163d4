/* SPDX-License-Identifier: MIT
 * kind.c: the list of kinds, and how names are read. */
#include "kind.h"

#include <stdlib.h>
#include <string.h>

static const bench_kind *const kinds[] = {&bench_kind_forward, &bench_kind_backward,
                                          &bench_kind_textbook, &bench_kind_matmul,
                                          &bench_kind_module};

const bench_kind *bench_kind_of(const char *name, const char **rest) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        *rest = name;
        if (bench_take_text(rest, kinds[i]->prefix) && kinds[i]->accepts(*rest)) {
            return kinds[i];
        }
    }
    return NULL;
}

int bench_take_text(const char **at, const char *text) {
    const size_t n = strlen(text);
    const int there = strncmp(*at, text, n) == 0;
    *at += there ? n : 0;
    return there;
}

int bench_take_number(const char **at, int64_t *number) {
    char *end = NULL;
    if (**at < '0' || **at > '9') { return 0; }
    *number = strtoll(*at, &end, 10);
    *at = end;
    return *number <= INT32_MAX;
}

int bench_take_pair(const char **at, int64_t *first, int64_t *second) {
    if (!bench_take_number(at, first)) { return 0; }
    *second = *first;
    return !bench_take_text(at, "/") || bench_take_number(at, second);
}
