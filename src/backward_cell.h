/* SPDX-License-Identifier: MIT
 * backward_cell.h: the working state of one cell of the backward pass, shared by its files:
 * backward_cell.c (the loops over sets of queries and blocks of keys), backward_set.c (queries in,
 * their gradients out; layout of scratch memory), backward_block.c (one set against one block) and
 * backward_bias.c (the gradient of the bias). */
#ifndef RAPTI_BACKWARD_CELL_H
#define RAPTI_BACKWARD_CELL_H

#include "attention_task.h"
#include "backward.h"

/* Rows of contiguous vectors: in place in a tensor, or packed. */
typedef struct rapti_back_rows {
    const float *at;
    int64_t row; /* floats between rows */
    int finite;  /* 1 unless there is a NaN or infinity in them; -1 = not looked yet */
} rapti_back_rows;

/* A group of queries (attention_task.h; its state, o and started are the forward pass's). */
typedef struct rapti_back_group {
    rapti_group base;
    int64_t lane; /* its first lane in the set */
    float *dot;   /* [value_dim][lanes]: dout times kept_scale */
    int started;  /* its rows of dq hold something */
} rapti_back_group;

/* Groups that share a pass over the keys: where their rows are. Row r of the set lies in its lane
 * r. */
typedef struct rapti_back_set {
    int64_t rows, groups;
    int64_t begin, end; /* keys that some row sees, counted from key 0 */
    rapti_row *row;
    const float **q_row, **dout_row;
    float **out_row, **dq_row; /* dq_row if dq is wanted */
    int64_t *row_begin, *row_end;
    rapti_back_group *group;
} rapti_back_set;

/* What the set at work has in scratch. */
typedef struct rapti_back_queries {
    float *lse, *delta;      /* lse: 0 where it is -inf, as all scores are then */
    float *qt, *dot;         /* of all groups, one after the other */
    rapti_back_rows q, dout; /* [rows][dim], [rows][value_dim] */
    float *q_packed, *dout_packed;
    float *dq;       /* [lanes][dim_ld] */
    float *bias_sum; /* [lanes]: ds summed over keys */
} rapti_back_queries;

/* What is known of a block of the range. */
enum { RAPTI_BACK_STARTED = 1, RAPTI_BACK_CLOSED = 2 };

typedef struct rapti_back_state {
    rapti_task_state task; /* batch item and head, for the passes shared with the forward call */
    const rapti_back_problem *p;
    const rapti_back_plan *plan;
    int64_t begin, end;            /* keys of the cell's range, counted from key 0 */
    int fresh_queries, fresh_keys; /* gradients are written, not added to */
    int wants_ds;                  /* some gradient is made from ds */
    rapti_back_set *set, *next;    /* at work; the one after it, or null */
    rapti_back_set sets[2];
    rapti_back_queries open;
    float *weights, *ds, *seen; /* [key_block][tile_ld]: P, dS; -inf where hidden */
    float *keys_packed;         /* [key_block][dim_ld] */
    rapti_back_rows keys;       /* of the block at work */
    float *dk, *dv, *bias_keys; /* [range_keys][dim_ld], [value_ld], [sum_ld] */
    uint8_t *progress;          /* per block of the range: of dk, dv, bias_keys */
    float *ones;                /* factors of product_add */
    const float **ahead[4];     /* [key_block] addresses of rows that products ask for */
    rapti_prefetch *prefetch;
} rapti_back_state;

/* Lays the state out in scratch; with scratch null it only counts. Returns the bytes. */
size_t rapti_back_carve(rapti_back_state *s, void *scratch);

/* Finds the rows of groups [first, past) and the keys that they see; reads no query yet. */
void rapti_back_place_set(const rapti_back_state *s, rapti_back_set *set, int64_t first,
                          int64_t past);

/* Begins with s->set; its groups open as they see their first key. */
void rapti_back_open_set(rapti_back_state *s);

/* Takes the group's queries and output gradients in. */
void rapti_back_open_group(rapti_back_state *s, rapti_back_group *g);

/* Writes its rows of dq. */
void rapti_back_close_set(rapti_back_state *s);

/* Takes the block into the gradients of the set's queries and of the block's keys. b->from is 0. */
void rapti_back_block(rapti_back_state *s, const rapti_block *b);

/* Writes dk and dv of the block that begins at key `start`: what was summed, or zeros. */
void rapti_back_close_keys(rapti_back_state *s, int64_t start);

/* Rows that will be used soon: products ask for them while they run. */
void rapti_back_ask(const rapti_back_state *s, const rapt_tensor *t, const float *const *rows,
                    int64_t count, int64_t size);

/* What a product shall ask for, null if there is nothing left. */
rapti_prefetch *rapti_back_prefetch(const rapti_back_state *s);

/* Row of a key in dk or dv, for the cell's batch item and head. */
float *rapti_back_key_row(const rapti_back_state *s, const rapt_tensor *t, int64_t key);

/* ---- The gradient of the bias (backward_bias.c): as the set opens; of one group, of all groups
 * against one block; as the set closes; of keys of the range. ---- */
void rapti_back_bias_open(rapti_back_state *s);
void rapti_back_bias_group(rapti_back_state *s, const rapti_back_group *g, const rapti_block *b);
void rapti_back_bias_block(const rapti_back_state *s, const rapti_block *b);
void rapti_back_bias_close(const rapti_back_state *s);
void rapti_back_bias_keys(const rapti_back_state *s, int64_t begin, int64_t count);

/* The block of the range that begins at key `start`. */
static inline uint8_t *rapti_back_progress(const rapti_back_state *s, int64_t start) {
    return &s->progress[(start - s->begin) / s->plan->key_block];
}

/* 1 if dbias gets one number per key (and head) from a cell. */
static inline int rapti_back_sums_to_keys(const rapti_back_problem *p) {
    return p->wants_dbias && p->sums_queries && !p->sums_keys;
}

#endif
