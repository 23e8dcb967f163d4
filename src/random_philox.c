/* SPDX-License-Identifier: MIT
 * random_philox.c: the counter generator, and which weights dropout keeps: the plain statement of
 * what the kernels do with many weights at a time.
 *
 * Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
 * 2011): ten rounds of two 32 x 32 -> 64 bit products; between them the key moves on by constants
 * (the golden ratio and sqrt(3) - 1). */
#include "random.h"

#include <rapt/random.h>

#include <math.h>

enum { ROUNDS = 10 };

static void philox_round(uint32_t c[4], const uint32_t key[2]) {
    const uint64_t a = UINT64_C(0xD2511F53) * c[0], b = UINT64_C(0xCD9E8D57) * c[2];
    c[0] = (uint32_t)(b >> 32) ^ c[1] ^ key[0];
    c[2] = (uint32_t)(a >> 32) ^ c[3] ^ key[1];
    c[1] = (uint32_t)b;
    c[3] = (uint32_t)a;
}

void rapt_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]};
    uint32_t k[2] = {key[0], key[1]};
    for (int round = 0; round < ROUNDS; round++) {
        philox_round(c, k);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++) { out[i] = c[i]; }
}

int64_t rapti_dropout_threshold(double p) {
    return (int64_t)(nearbyint((1.0 - p) * 0x1p32) - 0x1p31);
}

int32_t rapt_dropout_keep(const rapt_dropout *dropout, uint32_t item, uint32_t query, int64_t key) {
    if (!dropout->training || !(dropout->p > 0.0)) { return 1; }
    if (dropout->p >= 1.0) { return 0; }
    const uint32_t counter[4] = {(uint32_t)(key / 4), query, item, dropout->offset};
    const uint32_t seed[2] = {(uint32_t)dropout->seed, (uint32_t)(dropout->seed >> 32)};
    uint32_t word[4];
    rapt_philox4x32(counter, seed, word);
    return (int32_t)word[key % 4] < rapti_dropout_threshold(dropout->p);
}
