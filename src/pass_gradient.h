/* SPDX-License-Identifier: MIT
 * pass_gradient.h: the gradient of the public pass over scores (rapt_attention_softmax): a call
 * after its checks, cut up.
 *
 * A unit is one lane vector of queries of one head with all its keys. Units that add to the same
 * elements of dbias form a slice: one unit where the bias is not broadcast (or not asked for), all
 * of them where it is one row for everything. A task sums up to CHUNK units of a slice, in order;
 * where a slice has more, sums of tasks are added in order afterwards. */
#ifndef RAPTI_PASS_GRADIENT_H
#define RAPTI_PASS_GRADIENT_H

#include "attention_task.h"

typedef struct rapti_pass_gradient {
    rapti_problem p;                            /* sizes, weights, dropout and scale */
    rapti_plan plan;                            /* its kernels alone */
    rapt_tensor dweights, dlse, dscores, dbias; /* normal; dlse, dbias: data null = absent */
    int accumulate;

    int64_t groups;                   /* lane vectors of queries per head */
    rapti_broadcast bias;             /* strides of dbias, 0 where it sums */
    int sums_queries, sums_keys;      /* dbias does */
    int64_t slices[3], summed[3];     /* by batch item, head, group; one of each pair is 1 */
    int64_t slice_count, slice_units; /* their products */
    int64_t chunks;                   /* tasks per slice */
    int64_t tile_floats, sum_floats;  /* [keys][lanes]; the same or [lanes] for sums over keys */
    int64_t thread_floats;
    int32_t threads;
    float *scratch; /* [threads][thread_floats] */
    float *partial; /* [slices][chunks][sum_floats] if chunks > 1 */
} rapti_pass_gradient;

/* For rapti_parallel_run, `argument` being the call: a task; a slice whose tasks are done. */
void rapti_pass_gradient_task(void *argument, int64_t task, int32_t thread);
void rapti_pass_gradient_merge(void *argument, int64_t slice, int32_t thread);

/* Units that a task sums. */
enum { RAPTI_PASS_CHUNK = 64 };

#endif
