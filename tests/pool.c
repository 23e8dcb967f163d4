/* SPDX-License-Identifier: MIT
 * pool.c: see pool.h. */
#include "pool.h"

#include "compare.h"
#include "harness.h"
#include "layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CANARY = 0xCA };

static void **blocks;
static size_t used, room;

static size_t bytes_of(const rapt_tensor *t) {
    return (size_t)(pool_count(t) * rapt_dtype_bytes(t->dtype));
}

rapt_tensor pool_tensor(rapt_dtype dtype, int32_t rank, const int64_t *size) {
    rapt_tensor t = rapt_tensor_contiguous(dtype, NULL, rank, size);
    if (used == room) {
        room = room ? 2 * room : 64;
        blocks = realloc(blocks, room * sizeof *blocks);
        REQUIRE(blocks, "out of memory");
    }
    t.data = malloc(bytes_of(&t) ? bytes_of(&t) : 1);
    REQUIRE(t.data, "out of memory");
    blocks[used++] = t.data;
    pool_clear(&t);
    return t;
}

rapt_tensor pool_normal(rng *r, int32_t rank, const int64_t *size) {
    rapt_tensor t = pool_tensor(RAPT_F32, rank, size);
    for (int64_t n = 0; n < pool_count(&t); n++) ((float *)t.data)[n] = (float)rng_normal(r);
    return t;
}

int64_t pool_count(const rapt_tensor *t) {
    int64_t count = 1;
    for (int32_t axis = 0; axis < t->rank; axis++) count *= t->size[axis];
    return count;
}

bool pool_untouched(const rapt_tensor *t) {
    const unsigned char *byte = t->data;
    for (size_t n = 0; n < bytes_of(t); n++) {
        if (byte[n] != CANARY) return false;
    }
    return true;
}

void pool_clear(rapt_tensor *t) { memset(t->data, CANARY, bytes_of(t)); }

void pool_same_bits(const rapt_tensor *a, const rapt_tensor *b, int line) {
    static char why[512];
    REQUIRE(a->rank == b->rank && pool_count(a) == pool_count(b), "line %d: sizes differ", line);
    REQUIRE(compare_bits(a, b, why, sizeof why), "line %d: %s", line, why);
}

double pool_distance(const rapt_tensor *a, const rapt_tensor *b) {
    REQUIRE(a->rank == b->rank && pool_count(a) == pool_count(b), "sizes differ");
    double worst = 0.0;
    walk v = walk_begin(b);
    for (walk w = walk_begin(a); !w.done; walk_next(&w), walk_next(&v)) {
        const double distance = fabs((double)*walk_f32(&w) - (double)*walk_f32(&v));
        if (!(distance <= worst)) worst = distance; /* NaN too */
        if (isnan(worst)) return worst;
    }
    return worst;
}

void pool_free(void) {
    while (used > 0) free(blocks[--used]);
    free(blocks);
    blocks = NULL;
    room = 0;
}
