/* SPDX-License-Identifier: MIT
 * runs.h: a strided tensor as a sequence of runs of neighbouring bytes, in row-major order: the
 * form in which a file holds it. */
#ifndef RAPTI_SAFETENSORS_RUNS_H
#define RAPTI_SAFETENSORS_RUNS_H

#include "file.h"

/* What is wrong with a listed parameter, as a status and a message: its name's end, dtype, rank,
 * sizes, span, data. *bytes: of all elements. */
rapt_status rapti_safetensors_check(char *message, const rapt_parameter *parameter, int64_t *bytes);

/* 1 if two elements share memory, or the strides do not nest (rapt/tensor.h). */
int rapti_safetensors_overlaps_itself(const rapt_tensor *t);

typedef struct rapti_safetensors_runs {
    size_t bytes; /* of each run */
    rapt_tensor outer;
    int64_t index[RAPT_MAX_RANK];
    int64_t left; /* runs to come */
} rapti_safetensors_runs;

/* All runs of a checked tensor. */
rapti_safetensors_runs rapti_safetensors_runs_of(const rapt_tensor *t);

/* The address of the next run, null after the last one. */
void *rapti_safetensors_next_run(rapti_safetensors_runs *runs);

#endif
