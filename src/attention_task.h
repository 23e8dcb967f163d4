/* SPDX-License-Identifier: MIT
 * attention_task.h: the working state of one task of the forward pass, shared by its three files:
 * attention_task.c (the loop over key blocks), attention_group.c (queries in, outputs out) and
 * attention_block.c (one group against one block of keys). */
#ifndef RAPTI_ATTENTION_TASK_H
#define RAPTI_ATTENTION_TASK_H

#include "attention.h"

/* Which query of which head a lane holds. */
typedef struct rapti_row {
    int64_t head, query;
} rapti_row;

/* A group: up to group_vectors lane vectors of queries; one lane is one row (attention.h). */
typedef struct rapti_group {
    int64_t first_row, rows; /* rows beyond the last are copies of the last; never written */
    int64_t vectors, lanes;
    int64_t begin, end;           /* keys that some row sees, counted from key 0 */
    int64_t full_begin, full_end; /* keys that every row sees */
    rapti_row *row;               /* [lanes] */
    const float **q_row;          /* [lanes] addresses in q */
    float **out_row;              /* [lanes] addresses in out */
    int64_t *row_begin, *row_end; /* [lanes] keys that each row sees */
    float *qt;                    /* [dim][lanes], scaled */
    float *o;                     /* [lanes][value_ld] */
    rapti_softmax_state state;    /* [lanes] each */
    int opened;                   /* its queries are in qt */
    int started;                  /* o holds something */
} rapti_group;

typedef struct rapti_task_state {
    const rapti_problem *p;
    const rapti_plan *plan;
    int64_t batch, kv_head;
    int64_t value_ld; /* value_dim in whole vectors: floats between rows of o and packed */
    float *scores;    /* [key_block][lanes] */
    float *seen;      /* the same shape: -inf where hidden, for the careful product */
    float *packed;    /* [key_block][value_ld] */
    rapti_prefetch *prefetch;
    rapti_group *groups;
} rapti_task_state;

/* The keys [start + from, start + to) of one block that a task or a group looks at. */
typedef struct rapti_block {
    int64_t start;    /* first key of the block: a multiple of key_block */
    int64_t from, to; /* counted from `start` */
    const float *v;   /* row of key start + from: in place or packed */
    int64_t v_row;
} rapti_block;

/* Lays the state out in scratch; with scratch null it only counts. Returns the bytes. */
size_t rapti_attention_carve(rapti_task_state *s, void *scratch);

/* Finds the rows of group `index` and the keys that they see; reads no query yet. */
void rapti_attention_place_group(const rapti_task_state *s, int64_t index, rapti_group *g);

/* Takes the group's queries in, with an empty softmax. */
void rapti_attention_open_group(const rapti_task_state *s, rapti_group *g);

/* Writes the group's rows of out and lse. */
void rapti_attention_close_group(const rapti_task_state *s, rapti_group *g);

/* Takes the block's keys into the group's softmax and output. values_finite: no NaN or infinity in
 * the values that the group's task sees of this block, or nothing in it is hidden. */
void rapti_attention_attend(const rapti_task_state *s, rapti_group *g, const rapti_block *b,
                            int values_finite);

/* 1 if causal order, window or length hides some of the block's keys from some row. */
int rapti_attention_limited(const rapti_group *g, const rapti_block *b);

static inline int64_t rapti_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t rapti_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t rapti_clamp(int64_t x, int64_t low, int64_t high) {
    return rapti_max(low, rapti_min(x, high));
}

/* Offset in elements of [batch, head, query, 0] in a tensor with that order of axes. */
static inline int64_t rapti_row_offset(const int64_t *stride, int64_t batch, rapti_row r) {
    return batch * stride[0] + r.head * stride[1] + r.query * stride[2];
}

/* Row of a key in k or v, for the task's batch item and head. */
static inline const float *rapti_kv_row(const rapti_task_state *s, const rapt_tensor *t,
                                        int64_t key) {
    return (const float *)t->data + s->batch * t->stride[0] + s->kv_head * t->stride[1] +
           key * t->stride[2];
}

/* The softmax state of the lane vector that starts at `lane`. */
static inline rapti_softmax_state rapti_vector_state(const rapti_group *g, int64_t lane) {
    return (rapti_softmax_state){g->state.max + lane, g->state.sum + lane, g->state.shift + lane,
                                 g->state.rescale + lane};
}

#endif
