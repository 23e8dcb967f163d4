/* SPDX-License-Identifier: MIT
 * rapt/random.h: the two sources of chance.
 *
 *   Philox     a counter generator for dropout: a number for each position, nothing stored
 *   mt19937    the stream of PyTorch's CPU generator, bit for bit: manual_seed, rand, Linear's
 *              default initialisation, Dropout's draws (Raschka's printed numbers come from it)
 *
 * There is no hidden generator: everything random takes one of these from the caller. */
#ifndef RAPT_RANDOM_H
#define RAPT_RANDOM_H

#include "attention.h"
#include "export.h"
#include "status.h"
#include "tensor.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011): four random words of a counter and a key. `out`
 * may be `counter`. Here and below, pointers of calls that return no status must not be null. */
RAPT_API void rapt_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* What attention dropout decides for one weight: 1 = kept, 0 = dropped.
 *
 *   word = philox(counter = {key / 4, query, batch * Hq + head, offset},
 *                 key = {seed mod 2^32, seed / 2^32})[key mod 4]
 *   kept = word, read as int32_t, < (1 - p) 2^32 - 2^31 (rounded to the nearest integer, ties to
 *          even)
 *
 * so the keep probability is 1 - p to within 2^-32. `item` is batch * Hq + head, key >= 0 (key / 4
 * is taken mod 2^32). Without training, or with p = 0, all are kept; with p = 1 none. */
RAPT_API int32_t rapt_dropout_keep(const rapt_dropout *dropout, uint32_t item, uint32_t query,
                                   int64_t key);

/* ---- PyTorch's CPU generator. Plain data: copy it to fork a stream. One thread at a time. To be
 * seeded before use: all zeros give zeros for ever. ---- */
typedef struct rapt_generator {
    uint32_t state[624];
    int32_t next; /* index of the next word; 624: regenerate first */
} rapt_generator;

/* torch.manual_seed(seed): the low 32 bits count. */
RAPT_API void rapt_generator_seed(rapt_generator *generator, uint64_t seed);

/* The next 32-bit word of the stream. */
RAPT_API uint32_t rapt_generator_next(rapt_generator *generator);

/* torch.rand, tensor.uniform_(from, to): fills an f32 tensor in row-major order of its indices, one
 * word each: u = (word mod 2^24) 2^-24, value = fma(u, to - from, from).
 * Errors: RAPT_ERR_ARGUMENT (null pointer; from, to or their difference not finite),
 * RAPT_ERR_DTYPE, RAPT_ERR_SHAPE, RAPT_ERR_OVERLAP; nothing is drawn then. */
RAPT_API rapt_status rapt_generator_uniform(rapt_context *context, rapt_generator *generator,
                                            float from, float to, const rapt_tensor *out);

/* nn.Linear's default initialisation: weight [out_features, in_features], then bias [out_features]
 * (null = none), both uniform(-b, b) with b = 1 / sqrt(in_features) rounded to f32 (0 for no
 * features). Errors as above. */
RAPT_API rapt_status rapt_generator_linear(rapt_context *context, rapt_generator *generator,
                                           const rapt_tensor *weight, const rapt_tensor *bias);

/* nn.Dropout's draws: keep[..] = 1 with probability 1 - p, two words for each element in row-major
 * order; p = 0 keeps all, p = 1 none, and neither draws. Errors as above, and RAPT_ERR_ARGUMENT for
 * p outside 0 .. 1. */
RAPT_API rapt_status rapt_generator_keep(rapt_context *context, rapt_generator *generator, double p,
                                         const rapt_tensor *keep /* bool */);

#ifdef __cplusplus
}
#endif
#endif
