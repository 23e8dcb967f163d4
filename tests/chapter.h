/* SPDX-License-Identifier: MIT
 * chapter.h: what the suites of the chapter's numbers (golden, exercises) have in common. */
#ifndef RAPT_TESTS_CHAPTER_H
#define RAPT_TESTS_CHAPTER_H

#include "golden.h"
#include "harness.h"
#include "pool.h"

#define OK(call)                                                                                   \
    do {                                                                                           \
        const rapt_status status_ = (call);                                                        \
        REQUIRE(status_ == RAPT_OK, "line %d: %s, %s", __LINE__, rapt_status_name(status_),        \
                rapt_context_message(context()));                                                  \
    } while (0)

#define PRINTED(tensor, path) golden_printed(tensor, path, __LINE__)

/* Derived values are f32 of another program: a few roundings of numbers below 4. */
#define DERIVED(tensor, path) golden_derived(tensor, path, 1e-6, __LINE__)

static inline rapt_context *context(void) { return harness_context(2); }

static inline rapt_generator seeded(uint64_t seed) {
    rapt_generator g;
    rapt_generator_seed(&g, seed);
    return g;
}

/* The sentence "Your journey starts with one step", [6, 3], and twice in a batch, [2, 6, 3]. */
static inline rapt_tensor sentence(void) { return golden_tensor("inputs/values"); }

static inline rapt_tensor sentence_twice(void) {
    const rapt_tensor x = sentence();
    return rapt_tensor_strided(RAPT_F32, x.data, 3, (int64_t[]){2, 6, 3}, (int64_t[]){0, 3, 1});
}

/* Item b of a batch. */
static inline rapt_tensor item(const rapt_tensor *batch, int64_t b) {
    rapt_tensor t = rapt_tensor_slice(*batch, 0, b, 1);
    t.rank--;
    for (int32_t axis = 0; axis < t.rank; axis++) {
        t.size[axis] = t.size[axis + 1];
        t.stride[axis] = t.stride[axis + 1];
    }
    return t;
}

/* c = alpha a b */
static inline void multiply(const rapt_tensor *a, rapt_tensor b, float alpha,
                            const rapt_tensor *c) {
    const rapt_matmul what = {.alpha = {1, alpha}};
    OK(rapt_matmul_run(context(), &what, &(rapt_matmul_operands){.a = a, .b = &b, .c = c}));
}

#endif
