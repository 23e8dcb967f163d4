/* SPDX-License-Identifier: MIT
 * backward.h: a backward call after its checks, the plan made for it, and its cells.
 *
 * The queries that share a key/value head (packed rows, attention.h) are cut into segments, its
 * keys into ranges, each of some hundred. A cell is one range against one segment. In step t the
 * cells (range r, segment (r + t) mod n) have neither a range nor a segment in common: they may run
 * side by side, and each gradient is added to once. Steps follow one another, so every gradient
 * sums its cells in an order that depends on sizes alone, whether a thread takes whole heads or
 * single cells. */
#ifndef RAPTI_BACKWARD_H
#define RAPTI_BACKWARD_H

#include "attention.h"

typedef struct rapti_back_problem {
    rapti_problem forward;         /* its out and lse are inputs here */
    rapt_tensor dout, dlse;        /* dlse.data null = absent */
    rapt_tensor dq, dk, dv, dbias; /* of rank 0 = not wanted */
    int wants_dq, wants_dk, wants_dv,
        wants_dbias; /* data may be null if only sizes are asked for */
    int accumulate;
    rapti_broadcast bias_gradient; /* dbias seen as [batch, head, query, key] */
    int sums_batch, sums_heads, sums_queries, sums_keys; /* dbias is summed over that axis */
} rapti_back_problem;

rapt_status rapti_back_check(rapt_context *context, const rapt_attention *what,
                             const rapt_attention_backward_operands *operands, int needs_data,
                             rapti_back_problem *problem);

typedef struct rapti_back_plan {
    rapti_plan cut;                  /* how rows become groups; kernels */
    int64_t key_block;               /* keys per block; blocks are counted from a range's start */
    int64_t ranges, segments, steps; /* of a head; steps is the larger of the two */
    int64_t range_keys;              /* no range has more */
    int64_t set_groups, set_lanes;   /* groups that share a pass over the keys, at most */
    int64_t tile_ld;                 /* floats between the keys of a set's tile */
    int64_t dim_ld, value_ld;        /* head sizes in whole vectors */
    int64_t sum_ld;                  /* a vector per head of a group: sums over queries */
    int64_t chains, chain_heads;     /* heads that take turns because they share dbias */
    int by_head;                     /* a task is a chain of heads; else a cell */
    int64_t tasks, step_tasks;       /* of the call; of one step */
    int32_t threads;
    double cost; /* of the call, in multiply-adds */
    size_t task_bytes, thread_bytes, scratch_bytes;
} rapti_back_plan;

rapt_status rapti_back_plan_call(rapt_context *context, const rapti_back_problem *p,
                                 rapti_back_plan *plan);

/* A chain of heads or, with a range, one cell of one of its heads. */
typedef struct rapti_back_task {
    int64_t chain, range;
    double cost;
} rapti_back_task;

/* Writes the tasks of a step of the call, the most costly first; returns their number. */
int64_t rapti_back_list_tasks(const rapti_back_problem *p, const rapti_back_plan *plan,
                              int64_t step, rapti_back_task *tasks);

/* Steps of the call, one after the other. */
int64_t rapti_back_steps(const rapti_back_plan *plan);

/* First key of a range; first group of a segment. That of one past the last is the end. */
int64_t rapti_back_range_start(const rapti_back_problem *p, const rapti_back_plan *plan,
                               int64_t range);
int64_t rapti_back_segment_start(const rapti_back_plan *plan, int64_t segment);

typedef struct rapti_back_cell {
    int64_t batch, kv_head, range, segment;
} rapti_back_cell;

/* The batch item and head that come `turn`-th in a chain; range and segment are 0. */
rapti_back_cell rapti_back_chain_head(const rapti_back_problem *p, int64_t chain, int64_t turn);

/* Adds the cell's part to all gradients, or writes it where it is the first. Works in
 * plan->thread_bytes of scratch. */
void rapti_back_run_cell(const rapti_back_problem *p, const rapti_back_plan *plan,
                         rapti_back_cell cell, void *scratch);

/* Bytes of scratch that one thread needs, for a plan whose sizes are known. */
size_t rapti_back_thread_bytes(const rapti_back_problem *p, const rapti_back_plan *plan);

#endif
