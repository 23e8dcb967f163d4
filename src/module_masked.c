/* SPDX-License-Identifier: MIT
 * module_masked.c: attention as the text masks it first (section 3.5.1): softmax over all keys,
 * zeros for the future, rows divided by their sums. The scores of future keys take part in the
 * first softmax: what they hold is gone after the division, unless it was NaN or so large that the
 * rest of the row underflowed. */
#include "module.h"

#include "parallel.h"
#include "tensor.h"

#include <math.h>

/* ---- Dropout of weights in memory ---- */

typedef struct drop_run {
    const rapt_dropout *dropout;
    rapt_tensor weights, keep; /* [B, H, Tq, Tk]; keep.data null: Philox */
    float kept_scale;
} drop_run;

/* Row [b, h, i]. */
static void drop_row(void *argument, int64_t row, int32_t thread) {
    (void)thread;
    const drop_run *run = argument;
    const rapt_tensor *w = &run->weights, *k = &run->keep;
    const int64_t i = row % w->size[2], item = row / w->size[2];
    const int64_t h = item % w->size[1], b = item / w->size[1];
    float *weight = (float *)w->data + b * w->stride[0] + h * w->stride[1] + i * w->stride[2];
    const uint8_t *keep = k->data;
    if (keep) { keep += b * k->stride[0] + h * k->stride[1] + i * k->stride[2]; }
    for (int64_t j = 0; j < w->size[3]; j++) {
        const int kept = keep ? keep[j * k->stride[3]] != 0
                              : rapt_dropout_keep(run->dropout, (uint32_t)item, (uint32_t)i, j);
        weight[j] = kept ? weight[j] * run->kept_scale : 0.0f;
    }
}

static void drop(rapt_context *context, const rapt_dropout *dropout, const rapt_tensor *keep,
                 const rapt_tensor *weights) {
    if (!dropout->training || dropout->p == 0.0 || rapti_tensor_empty(weights)) { return; }
    drop_run run = {.dropout = dropout,
                    .weights = *weights,
                    .keep = keep ? *keep : (rapt_tensor){0},
                    .kept_scale = (float)(1.0 / (1.0 - dropout->p))};
    const int64_t rows = weights->size[0] * weights->size[1] * weights->size[2];
    rapti_parallel_run(context->threads, rows, drop_row, &run);
}

/* ---- The route ---- */

/* Weights from scores, in place. */
static rapt_status mask_after(rapti_steps *steps, rapt_causal causal, const rapt_tensor *work) {
    if (steps->counting) { return RAPT_OK; }
    const rapt_status status = rapt_mask_fill(steps->context, causal, 0.0f, work);
    return status == RAPT_OK ? rapt_normalise_rows(steps->context, work) : status;
}

rapt_status rapti_step_masked_after(rapti_steps *steps, const rapt_attention *what,
                                    rapt_attention_operands operands, const rapt_tensor *work) {
    const rapt_tensor *q = operands.q;
    const float scale = (float)(1.0 / sqrt((double)q->size[3]));
    const rapt_tensor keys = rapt_tensor_transpose(*operands.k);
    const rapt_matmul scores = {.alpha = {1, scale}};
    rapt_status status =
        rapti_step_matmul(steps, &scores, (rapt_matmul_operands){.a = q, .b = &keys, .c = work});
    if (status == RAPT_OK) {
        const rapt_attention_softmax_operands softmax = {
            .scores = work, .mask = operands.mask, .key_lengths = operands.key_lengths};
        status = rapti_step_softmax(steps, &(rapt_attention){0}, softmax);
    }
    if (status == RAPT_OK) { status = mask_after(steps, what->causal, work); }
    if (status == RAPT_OK && !steps->counting) {
        if (operands.weights) { rapti_tensor_copy(operands.weights, work); }
        drop(steps->context, &what->dropout, operands.keep, work);
    }
    if (status != RAPT_OK) { return status; }
    return rapti_step_matmul(steps, &(rapt_matmul){0},
                             (rapt_matmul_operands){.a = work, .b = operands.v, .c = operands.out});
}
