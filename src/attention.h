/* SPDX-License-Identifier: MIT
 * attention.h: an attention call after its checks, and the plan made for it. */
#ifndef RAPTI_ATTENTION_H
#define RAPTI_ATTENTION_H

#include "context.h"
#include "numbers.h"

/* A mask or bias seen as [batch, head, query, key], with stride 0 where it is broadcast. */
typedef struct rapti_broadcast {
    const void *data; /* null = absent */
    int64_t stride[4];
} rapti_broadcast;

/* The keys [begin, end) that causal order, window and length leave to a query. */
typedef struct rapti_range {
    int64_t begin, end;
} rapti_range;

typedef struct rapti_problem {
    int64_t batch, heads, kv_heads, queries, keys, dim, value_dim;
    int64_t heads_per_kv; /* query heads per key/value head */
    float scale;
    float unit;       /* what a score of 1 is in tiles: log2(e) octaves; 1 where materialised */
    float tile_scale; /* scale unit */
    int64_t position_shift; /* position(i) = i + position_shift */
    int32_t causal;
    rapt_window window;
    rapt_tensor q, k, v, out, lse; /* lse.data null = absent */
    rapti_broadcast mask, bias;
    rapt_tensor key_lengths; /* data null = absent */
    int materialised;        /* weights are given out */
    rapt_tensor weights;
    int weights_before_dropout;
    int scores_given; /* weights holds the scores to begin with, and q and k are not used */
    int drops;        /* 0 = no dropout */
    rapti_dropout dropout;
    float kept_scale;     /* 1 / (1 - p); 1 without dropout */
    rapti_broadcast keep; /* in place of the generator; data null = absent */
} rapti_problem;

/* What kind of call is checked. */
enum {
    RAPTI_SIZES_ONLY = 1,   /* data pointers may be null */
    RAPTI_SCORES_GIVEN = 2, /* the weights tensor holds the scores to begin with */
    RAPTI_NAMED_SCORES = 4, /* and messages call it "scores" */
    RAPTI_BACKWARD = 8      /* out and lse are inputs: they may overlap what they like */
};

/* Checks a call (attention.h of the public headers lists what is refused) and describes it. */
rapt_status rapti_attention_check(rapt_context *context, const rapt_attention *what,
                                  const rapt_attention_operands *operands, int kind,
                                  rapti_problem *problem);

/* A tensor of type f32 and given rank and sizes; -1 admits any size. */
rapt_status rapti_attention_check_operand(rapt_context *context, const char *name,
                                          const rapt_tensor *t, int32_t rank,
                                          const int64_t *expected, int needs_data);

/* A tensor that broadcasts to [B, Hq, Tq, Tk]; null gives a view with null data. */
rapt_status rapti_attention_check_broadcast(rapt_context *context, const char *name,
                                            const rapt_tensor *t, rapt_dtype dtype,
                                            const rapti_problem *problem, int needs_data,
                                            rapti_broadcast *view);

/* Query-key pairs inside the limits, over all batch items and heads; saturates. */
int64_t rapti_attention_visible(const rapti_problem *problem);

/* Runs a checked call. */
rapt_status rapti_attention_run(rapt_context *context, const rapti_problem *problem, void *scratch,
                                size_t scratch_bytes);

/* Entry b of key_lengths, which may have one entry for all. */
int64_t rapti_key_length(const rapt_tensor *key_lengths, int64_t b);

/* What causal order, window and length leave to the queries of a batch item: query i sees the keys
 * from max(0, i + begin) to i + end, those below `length`. */
typedef struct rapti_limits {
    int64_t begin, end, length;
} rapti_limits;

rapti_limits rapti_attention_limits(const rapti_problem *p, int64_t b);

/* Both ends grow with i. May be empty with begin > end. */
static inline rapti_range rapti_limited_range(rapti_limits l, int64_t i) {
    const int64_t end = rapti_min(i + l.end, l.length);
    return (rapti_range){rapti_max(i + l.begin, 0), rapti_max(end, 0)};
}

static inline rapti_range rapti_attention_range(const rapti_problem *p, int64_t b, int64_t i) {
    return rapti_limited_range(rapti_attention_limits(p, b), i);
}

/* One piece of work: groups of queries of one batch item that share one key/value head. */
typedef struct rapti_task {
    int64_t batch, kv_head, first_group;
    double cost; /* multiply-adds */
} rapti_task;

/* Most lane vectors of a group where a fourth would cost 1 to 7 %: with all keys in one tile, and
 * in the backward pass. */
enum { RAPTI_TALL_GROUP = 3 };

/* How the queries that share a key/value head are cut up. There are heads_per_kv * queries of them,
 * one per lane, position by position with the heads side by side: packed row r is query
 * r / heads_per_kv of head r % heads_per_kv. Neighbours see nearly the same keys, and heads that
 * share K and V fill the lanes together. */
typedef struct rapti_plan {
    const rapti_kernels *kernels;
    int64_t rows;          /* per batch item and key/value head */
    int64_t vectors;       /* lane vectors, the last one perhaps partly filled */
    int64_t groups;        /* groups of up to group_lanes rows, in whole lane vectors */
    int32_t task_groups;   /* groups per task, the last task of a head perhaps fewer */
    int32_t group_lanes;   /* lanes of a full group */
    int64_t value_vectors; /* vectors that hold value_dim */
    int64_t tile_keys;     /* keys of a score tile: a block, or all of them */
    int64_t head_tasks, tasks;
    int32_t threads;
    int far;     /* the tensors are too large to be in cache already: tasks ask for them ahead */
    double cost; /* of all tasks */
    size_t task_bytes, thread_bytes, scratch_bytes;
} rapti_plan;

rapt_status rapti_attention_plan(rapt_context *context, const rapti_problem *p, rapti_plan *plan);

/* Writes the tasks in the order in which threads take them: longest first, to within a cost class,
 * among as many heads as there are threads (attention_plan.c). */
void rapti_attention_list_tasks(const rapti_problem *p, const rapti_plan *plan, rapti_task *tasks);

/* 1 if no task before it in that order has brought its keys and values near: the first task of each
 * head; any task where heads differ in cost and take turns. */
int rapti_attention_keys_far(const rapti_problem *p, const rapti_plan *plan, int64_t task);

/* First lane vector of group g; group g holds those up to the start of group g + 1. */
int64_t rapti_attention_group_start(const rapti_plan *plan, int64_t g);

/* Runs one task of the list with plan->thread_bytes of scratch. */
void rapti_attention_run_task(const rapti_problem *p, const rapti_plan *plan,
                              const rapti_task *tasks, int64_t index, void *scratch);

/* Bytes of scratch that one thread needs, for a plan whose sizes are known. */
size_t rapti_attention_thread_bytes(const rapti_problem *p, const rapti_plan *plan);

#endif
