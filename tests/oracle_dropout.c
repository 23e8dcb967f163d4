/* SPDX-License-Identifier: MIT
 * oracle_dropout.c: Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
 * easy as 1, 2, 3", 2011, section 3.3): ten rounds, each two 32 x 32 -> 64 bit products whose
 * halves are exchanged and mixed with a key that grows by Weyl constants between rounds. */
#include "oracle_dropout.h"

#include "oracle_score.h"

#include <math.h>

enum { ROUNDS = 10 };

void oracle_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    const uint64_t multiplier[2] = {0xD2511F53, 0xCD9E8D57};
    const uint32_t weyl[2] = {0x9E3779B9, 0xBB67AE85};
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k[2] = {key[0], key[1]};
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t left = multiplier[0] * c[0], right = multiplier[1] * c[2];
        const uint32_t next[4] = {(uint32_t)(right >> 32) ^ c[1] ^ k[0], (uint32_t)right,
                                  (uint32_t)(left >> 32) ^ c[3] ^ k[1], (uint32_t)left};
        for (int word = 0; word < 4; word++) c[word] = next[word];
        for (int word = 0; word < 2; word++) k[word] += weyl[word];
    }
    for (int word = 0; word < 4; word++) out[word] = c[word];
}

bool oracle_philox_keep(const rapt_dropout *dropout, uint64_t item, uint64_t query, uint64_t key) {
    const uint32_t counter[4] = {(uint32_t)(key / 4), (uint32_t)query, (uint32_t)item,
                                 dropout->offset};
    const uint32_t seed[2] = {(uint32_t)dropout->seed, (uint32_t)(dropout->seed >> 32)};
    uint32_t words[4];
    oracle_philox(counter, seed, words);
    const double threshold = rint((1.0 - dropout->p) * 0x1p32 - 0x1p31);
    return (double)(int32_t)words[key % 4] < threshold;
}

bool oracle_drops(const rapt_attention *what) {
    return what->dropout.training && what->dropout.p > 0.0;
}

double oracle_kept(const rapt_attention *what, const rapt_tensor *keep, int64_t heads, int64_t b,
                   int64_t h, int64_t i, int64_t j) {
    const rapt_dropout *d = &what->dropout;
    if (d->p == 1.0) return 0.0;
    const bool kept =
        keep ? ((const uint8_t *)keep->data)[oracle_broadcast_offset(keep, b, h, i, j)] != 0
             : oracle_philox_keep(d, (uint64_t)(b * heads + h), (uint64_t)i, (uint64_t)j);
    return kept ? 1.0 / (1.0 - d->p) : 0.0;
}
