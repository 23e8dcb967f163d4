/* SPDX-License-Identifier: MIT
 * module_weights.c: the mean of attention weights over heads. */
#include "module.h"

#include "parallel.h"
#include "tensor.h"

enum { SERIAL_ELEMENTS = 1 << 15 }; /* less than this is not worth a team */

typedef struct mean_run {
    rapt_tensor weights, mean;
} mean_run;

/* Row [b, i] of the mean; heads are added in order. */
static void mean_row(void *argument, int64_t row, int32_t thread) {
    (void)thread;
    const mean_run *run = argument;
    const rapt_tensor *w = &run->weights, *m = &run->mean;
    const int64_t b = row / w->size[2], i = row % w->size[2];
    const int64_t heads = w->size[1], keys = w->size[3], to_step = m->stride[3];
    const float *from = (const float *)w->data + b * w->stride[0] + i * w->stride[2];
    float *to = (float *)m->data + b * m->stride[0] + i * m->stride[2];
    for (int64_t j = 0; j < keys; j++) { to[j * to_step] = from[j]; }
    for (int64_t h = 1; h < heads; h++) {
        from += w->stride[1];
        for (int64_t j = 0; j < keys; j++) { to[j * to_step] += from[j]; }
    }
    for (int64_t j = 0; j < keys; j++) { to[j * to_step] /= (float)heads; }
}

void rapti_mean_over_heads(rapt_context *context, const rapt_tensor *weights,
                           const rapt_tensor *mean) {
    if (rapti_tensor_empty(weights)) { return; }
    mean_run run = {*weights, *mean};
    const int64_t rows = weights->size[0] * weights->size[2];
    const int64_t elements = rows * weights->size[1] * weights->size[3];
    rapti_parallel_run(elements < SERIAL_ELEMENTS ? 1 : context->threads, rows, mean_row, &run);
}
