/* SPDX-License-Identifier: MIT
 * steps.c: a call made of other calls. */
#include "steps.h"

/* Whole cache lines, so that the scratch may lie before the other tensors as well as behind. */
static void need(rapti_steps *steps, int64_t bytes) {
    const uint64_t whole = rapti_aligned((size_t)bytes);
    if (whole > steps->bytes) { steps->bytes = whole; }
}

rapt_status rapti_steps_begin(rapti_steps *steps, rapti_arena *arena) {
    rapti_arena_bytes(arena, steps->bytes, RAPTI_ALIGNMENT);
    if (arena->too_large) {
        return rapti_fail(steps->context, RAPT_ERR_SHAPE,
                          "x: its sizes need more than 2^62 bytes of scratch");
    }
    void *memory = NULL;
    const rapt_status status =
        rapti_context_scratch(steps->context, NULL, 0, (size_t)arena->bytes, &memory);
    if (status != RAPT_OK) { return status; }
    *arena = (rapti_arena){.base = memory};
    steps->counting = 0;
    steps->scratch = rapti_arena_bytes(arena, steps->bytes, RAPTI_ALIGNMENT);
    return RAPT_OK;
}

rapt_status rapti_step_matmul(rapti_steps *steps, const rapt_matmul *what,
                              rapt_matmul_operands operands) {
    if (!steps->counting) {
        operands.scratch = steps->scratch;
        operands.scratch_bytes = (size_t)steps->bytes;
        return rapt_matmul_run(steps->context, what, &operands);
    }
    int64_t bytes = 0;
    const rapt_status status = rapt_matmul_scratch(steps->context, what, &operands, &bytes);
    if (status == RAPT_OK) { need(steps, bytes); }
    return status;
}

rapt_status rapti_step_matmul_backward(rapti_steps *steps, const rapt_matmul *what,
                                       rapt_matmul_backward_operands operands) {
    if (!steps->counting) {
        operands.scratch = steps->scratch;
        operands.scratch_bytes = (size_t)steps->bytes;
        return rapt_matmul_backward(steps->context, what, &operands);
    }
    int64_t bytes = 0;
    const rapt_status status =
        rapt_matmul_backward_scratch(steps->context, what, &operands, &bytes);
    if (status == RAPT_OK) { need(steps, bytes); }
    return status;
}

rapt_status rapti_step_attention(rapti_steps *steps, const rapt_attention *what,
                                 rapt_attention_operands operands) {
    if (!steps->counting) {
        operands.scratch = steps->scratch;
        operands.scratch_bytes = (size_t)steps->bytes;
        return rapt_attention_forward(steps->context, what, &operands);
    }
    rapt_attention_info info;
    const rapt_status status = rapt_attention_forward_info(steps->context, what, &operands, &info);
    if (status == RAPT_OK) { need(steps, info.scratch_bytes); }
    return status;
}

rapt_status rapti_step_attention_backward(rapti_steps *steps, const rapt_attention *what,
                                          rapt_attention_backward_operands operands) {
    if (!steps->counting) {
        operands.scratch = steps->scratch;
        operands.scratch_bytes = (size_t)steps->bytes;
        return rapt_attention_backward(steps->context, what, &operands);
    }
    rapt_attention_info info;
    const rapt_status status = rapt_attention_backward_info(steps->context, what, &operands, &info);
    if (status == RAPT_OK) { need(steps, info.scratch_bytes); }
    return status;
}

rapt_status rapti_step_softmax(rapti_steps *steps, const rapt_attention *what,
                               rapt_attention_softmax_operands operands) {
    if (!steps->counting) {
        operands.scratch = steps->scratch;
        operands.scratch_bytes = (size_t)steps->bytes;
        return rapt_attention_softmax(steps->context, what, &operands);
    }
    int64_t bytes = 0;
    const rapt_status status =
        rapt_attention_softmax_scratch(steps->context, what, &operands, &bytes);
    if (status == RAPT_OK) { need(steps, bytes); }
    return status;
}
