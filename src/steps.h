/* SPDX-License-Identifier: MIT
 * steps.h: a call made of other calls. All of them share one piece of scratch memory, and nothing
 * may fail once the first has written. The code that makes the steps therefore runs twice: first
 * counting, when every step is checked and asked for the scratch it needs, data pointers may be
 * null and nothing is written; then for real, with that much scratch. */
#ifndef RAPTI_STEPS_H
#define RAPTI_STEPS_H

#include "arena.h"
#include "context.h"

typedef struct rapti_steps {
    rapt_context *context;
    int counting;
    uint64_t bytes; /* most scratch that a step needs */
    void *scratch;  /* not counting: as many bytes */
} rapti_steps;

/* Ends the counting: adds the steps' scratch to the arena and gets memory for all of it from the
 * context. The arena then has a base and is ready to be taken from again, the steps are ready to
 * run. RAPT_ERR_SHAPE or RAPT_ERR_MEMORY if there is no such memory. */
rapt_status rapti_steps_begin(rapti_steps *steps, rapti_arena *arena);

/* The public calls of those names. */
rapt_status rapti_step_matmul(rapti_steps *steps, const rapt_matmul *what,
                              rapt_matmul_operands operands);
rapt_status rapti_step_matmul_backward(rapti_steps *steps, const rapt_matmul *what,
                                       rapt_matmul_backward_operands operands);
rapt_status rapti_step_attention(rapti_steps *steps, const rapt_attention *what,
                                 rapt_attention_operands operands);
rapt_status rapti_step_attention_backward(rapti_steps *steps, const rapt_attention *what,
                                          rapt_attention_backward_operands operands);
rapt_status rapti_step_softmax(rapti_steps *steps, const rapt_attention *what,
                               rapt_attention_softmax_operands operands);

#endif
