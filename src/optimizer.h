/* SPDX-License-Identifier: MIT
 * optimizer.h: lists of parameters and gradients, cut into pieces of consecutive elements for
 * threads. What a step does to a piece is in optimizer_step.c, norms are in optimizer_norm.c. */
#ifndef RAPTI_OPTIMIZER_H
#define RAPTI_OPTIMIZER_H

#include "context.h"

/* Elements of a piece; of a run, which is copied to and fro where strides ask for it. */
enum { RAPTI_PIECE = 1 << 14, RAPTI_RUN = 512 };

/* Up to RAPTI_PIECE elements, in row-major order of their indices, of one tensor of each list. */
typedef struct rapti_piece {
    int64_t tensor, first, count;
    int64_t before; /* elements of all tensors in front of it */
} rapti_piece;

typedef struct rapti_lists {
    const rapt_parameter *parameters; /* null: the call has gradients only */
    const rapt_parameter *gradients;
    int64_t count, elements, pieces;
    const rapti_piece *piece;
    double *partial; /* [pieces] */
} rapti_lists;

/* Checks the lists (optimizer.h of the public headers) and plans pieces; `writes` says whether
 * gradients are written. */
rapt_status rapti_lists_check(rapt_context *context, const rapt_parameter *parameters,
                              const rapt_parameter *gradients, int64_t count, int writes,
                              rapti_lists *lists);

/* Takes scratch memory from the context and fills piece and partial. */
rapt_status rapti_lists_cut(rapt_context *context, rapti_lists *lists);

/* Runs of a piece: w and g are its elements, contiguous, at most RAPTI_RUN of them; w is null
 * without parameters. `before` counts the elements of the whole list in front of the run. */
typedef void rapti_run_fn(void *argument, const rapti_lists *lists, int64_t piece, float *w,
                          float *g, int64_t before, int64_t count);

/* What a call does with its runs, on the context's threads, each run once. Elements are written
 * back to the lists whose flag is set. */
typedef struct rapti_update {
    rapti_run_fn *run;
    void *argument;
    int writes_parameters, writes_gradients;
} rapti_update;

void rapti_lists_run(rapt_context *context, const rapti_lists *lists, const rapti_update *update);

#endif
