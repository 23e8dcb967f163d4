/* SPDX-License-Identifier: MIT
 * rng.c: see rng.h. */
#include "rng.h"

rng rng_make(uint64_t seed, uint64_t stream) {
    rng r = {seed};
    r.state = rng_next(&r) + stream * 0xd1342543de82ef95u;
    return r;
}

uint64_t rng_next(rng *r) {
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t rng_range(rng *r, int64_t lo, int64_t hi) {
    return lo + (int64_t)(rng_next(r) % ((uint64_t)(hi - lo) + 1));
}

bool rng_chance(rng *r, int percent) { return rng_range(r, 0, 99) < percent; }

double rng_uniform(rng *r, double lo, double hi) {
    return lo + (hi - lo) * (double)(rng_next(r) >> 11) * 0x1p-53;
}

double rng_normal(rng *r) {
    const uint64_t z = rng_next(r);
    const uint64_t sum = (z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48);
    return ((double)sum * 0x1p-16 - 2.0) * 1.7320508075688772;
}
