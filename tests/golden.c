/* SPDX-License-Identifier: MIT
 * golden.c: see golden.h. The path of the file is RAPT_GOLDEN_FILE. */
#include "golden.h"

#include "compare.h"
#include "harness.h"
#include "layout.h"
#include "pool.h"

#include <jansson.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *root;

static void forget(void) { json_decref(root); }

static json_t *find(const char *path) {
    if (!root) {
        json_error_t error;
        root = json_load_file(RAPT_GOLDEN_FILE, 0, &error);
        REQUIRE(root, "%s:%d: %s", RAPT_GOLDEN_FILE, error.line, error.text);
        atexit(forget);
    }
    json_t *at = root;
    char key[128];
    for (const char *rest = path; rest && *rest;) {
        const size_t length = strcspn(rest, "/");
        REQUIRE(length < sizeof key, "%s: key too long", path);
        memcpy(key, rest, length);
        key[length] = '\0';
        at = json_is_array(at) ? json_array_get(at, strtoul(key, NULL, 10))
                               : json_object_get(at, key);
        REQUIRE(at, "%s: no %s in the golden file", path, key);
        rest += length + (rest[length] == '/');
    }
    return at;
}

static double value_of(const json_t *number, const char *path) {
    REQUIRE(json_is_number(number) || json_is_null(number), "%s: not a number", path);
    return json_is_null(number) ? -INFINITY : json_number_value(number);
}

double golden_number(const char *path) { return value_of(find(path), path); }

/* Sizes of nested lists, all of the same length along an axis. */
static rapt_tensor shape_of(const json_t *list) {
    rapt_tensor t = {.dtype = RAPT_F32};
    for (; json_is_array(list); list = json_array_get(list, 0)) {
        t.size[t.rank++] = (int64_t)json_array_size(list);
    }
    return t;
}

/* Element at an index of the nested lists. */
static double element(const json_t *list, const int64_t *index, const char *path) {
    for (; json_is_array(list); list = json_array_get(list, (size_t)*index++)) {}
    return value_of(list, path);
}

rapt_tensor golden_tensor(const char *path) {
    const json_t *list = find(path);
    const rapt_tensor sizes = shape_of(list);
    rapt_tensor t = pool_tensor(RAPT_F32, sizes.rank, sizes.size);
    for (walk w = walk_begin(&t); !w.done; walk_next(&w)) {
        *walk_f32(&w) = (float)element(list, w.index, path);
    }
    return t;
}

static const json_t *list_like(const rapt_tensor *got, const char *path, int line) {
    const json_t *list = find(path);
    const rapt_tensor sizes = shape_of(list);
    REQUIRE(sizes.rank == got->rank, "line %d: %s has rank %d, not %d", line, path, sizes.rank,
            got->rank);
    for (int32_t axis = 0; axis < sizes.rank; axis++) {
        REQUIRE(sizes.size[axis] == got->size[axis], "line %d: %s has size %d of axis %d, not %d",
                line, path, (int)sizes.size[axis], axis, (int)got->size[axis]);
    }
    return list;
}

void golden_derived(const rapt_tensor *got, const char *path, double tolerance, int line) {
    const json_t *list = list_like(got, path, line);
    for (walk w = walk_begin(got); !w.done; walk_next(&w)) {
        const double want = element(list, w.index, path), have = (double)*walk_f32(&w);
        REQUIRE(compare_value(have, want, tolerance), "line %d: %s at %d %d %d: %.9g, want %.9g",
                line, path, (int)w.index[0], (int)w.index[1], (int)w.index[2], have, want);
    }
}

void golden_printed(const rapt_tensor *got, const char *path, int line) {
    golden_derived(got, path, 0.5e-4 + 4e-7, line);
}

double golden_distance(const rapt_tensor *got, const char *path) {
    const json_t *list = list_like(got, path, 0);
    double worst = 0.0;
    for (walk w = walk_begin(got); !w.done; walk_next(&w)) {
        worst = fmax(worst, fabs((double)*walk_f32(&w) - element(list, w.index, path)));
    }
    return worst;
}

void golden_bits(const rapt_tensor *got, const char *path, int line) {
    const json_t *list = find(path);
    REQUIRE((int64_t)json_array_size(list) == pool_count(got), "line %d: %s has %zu elements", line,
            path, json_array_size(list));
    size_t n = 0;
    for (walk w = walk_begin(got); !w.done; walk_next(&w), n++) {
        const char *text = json_string_value(json_array_get(list, n));
        uint32_t bits;
        memcpy(&bits, walk_f32(&w), sizeof bits);
        REQUIRE(text && strtoul(text, NULL, 16) == bits, "line %d: %s[%zu]: %08x, want %s", line,
                path, n, bits, text);
    }
}
