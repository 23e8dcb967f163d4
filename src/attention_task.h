/* SPDX-License-Identifier: MIT
 * attention_task.h: the working state of one task of the forward pass, shared by its files:
 * attention_task.c (the loop over key blocks), attention_weights.c (the same where the weights are
 * given out), attention_group.c (queries in, outputs out), attention_block.c (one group against one
 * block of keys), attention_tile.c (what changes single scores and weights) and attention_ahead.c
 * (memory that will be used soon). */
#ifndef RAPTI_ATTENTION_TASK_H
#define RAPTI_ATTENTION_TASK_H

#include "attention.h"

/* Which query of which head a lane holds. */
typedef struct rapti_row {
    int64_t head, query;
} rapti_row;

/* What the blocks so far say of the next try of a lane vector (attention_block.c). */
typedef struct rapti_tries {
    int vain; /* any would have failed in the last block */
    int wide; /* a near one failed that did not have to: no more of these */
} rapti_tries;

/* A group: up to group_vectors lane vectors of queries; one lane is one row (attention.h). */
typedef struct rapti_group {
    int64_t first_row, rows; /* rows beyond the last are copies of the last; never written */
    int64_t vectors, lanes;
    int64_t tile_ld;                            /* floats between the keys of its tiles */
    int64_t begin, end;                         /* keys that some row sees, counted from key 0 */
    int64_t full_begin, full_end;               /* keys that every row sees */
    rapti_row *row;                             /* [lanes] */
    const float **q_row;                        /* [lanes] addresses in q */
    float **out_row;                            /* [lanes] addresses in out */
    int64_t *row_begin, *row_end;               /* [lanes] keys that each row sees */
    float *qt;                                  /* [dim][lanes], scaled */
    float *o;                                   /* [lanes][value_ld] */
    rapti_softmax_state state;                  /* [lanes] each */
    int opened;                                 /* its queries are in qt */
    int started;                                /* o holds something */
    rapti_tries tries[RAPTI_MAX_GROUP_VECTORS]; /* per lane vector */
} rapti_group;

/* Memory that will be used soon (attention_ahead.c). */
typedef struct rapti_ahead {
    const char *at;
    int64_t bytes; /* 0 = none */
} rapti_ahead;

enum { RAPTI_AHEAD = 3 }; /* queries, keys, values */

typedef struct rapti_task_state {
    const rapti_problem *p;
    const rapti_plan *plan;
    const rapti_task *tasks; /* the plan's list */
    int64_t task;            /* index in it */
    int64_t batch, kv_head;
    int64_t value_ld; /* value_dim in whole vectors: floats between rows of o and packed */
    float *scores;    /* [tile_keys][tile_ld], of a full group or less */
    float *seen;      /* [key_block][tile_ld]: -inf where hidden, for the careful product */
    float *packed;    /* [key_block][value_ld] */
    rapti_prefetch *prefetch;
    rapti_tries tries; /* of the last lane vector that took two passes: new groups begin so */
    rapti_ahead ahead[RAPTI_AHEAD];
    int64_t group_count;
    rapti_group *groups; /* [group_count] */
} rapti_task_state;

/* The keys [start + from, start + to) of one block that a task or a group looks at. */
typedef struct rapti_block {
    int64_t start;    /* first key of the block: a multiple of key_block */
    int64_t from, to; /* counted from `start` */
    const float *v;   /* row of key start + from: in place or packed */
    int64_t v_row;
} rapti_block;

/* Hands out aligned pieces of memory; with base null it only counts. */
typedef struct rapti_carver {
    char *base;
    size_t used;
} rapti_carver;
void *rapti_carve(rapti_carver *c, size_t bytes);

/* Lays the state out in scratch; with scratch null it only counts. Returns the bytes. */
size_t rapti_attention_carve(rapti_task_state *s, void *scratch);

/* Finds the rows of group `index` and the keys that they see; reads no query yet. */
void rapti_attention_place_group(const rapti_task_state *s, int64_t index, rapti_group *g);

/* Takes the group's queries in, with an empty softmax. */
void rapti_attention_open_group(const rapti_task_state *s, rapti_group *g);

/* Writes the group's rows of out and lse. */
void rapti_attention_close_group(const rapti_task_state *s, rapti_group *g);

/* The values of keys [from, to) of the block as contiguous vectors: sets b->v and b->v_row. */
void rapti_attention_view_values(const rapti_task_state *s, rapti_block *b);

/* 1 if the block holds no NaN or infinity in its values. */
int rapti_attention_values_finite(const rapti_task_state *s, const rapti_block *b);

/* Finds what is ahead, if the task's next block starts at `start` and its keys end at `end`. */
void rapti_attention_look_ahead(rapti_task_state *s, int64_t start, int64_t end);

/* A piece of it to ask for, for each of `shares` products. A piece is of one tensor, so where
 * products are few the end is not asked for. */
rapti_ahead rapti_attention_take_ahead(rapti_task_state *s, int64_t shares);

/* ---- One group against one block (attention_block.c). s->scores is the block's tile. ---- */

/* Rows of a tensor that has one per key, to be multiplied with a group's lanes:
 * tile[key][lane] = sum_d rows[key][d] * lanes[d][lane], d < size. */
typedef struct rapti_key_rows {
    const rapt_tensor *rows;
    int64_t size;
    const float *lanes;
    float *tile;
    rapti_prefetch *prefetch; /* null = none */
    rapti_ahead ahead;        /* to ask for meanwhile */
} rapti_key_rows;

/* ... for the block's keys. Where limits hide a key from a whole lane vector, the tile is left as
 * it is. */
void rapti_attention_multiply_keys(const rapti_task_state *s, const rapti_group *g,
                                   const rapti_block *b, const rapti_key_rows *k);

/* Scores of the block's keys, with those hidden by limits unspecified. `ahead` is asked for
 * meanwhile. */
void rapti_attention_score(const rapti_task_state *s, const rapti_group *g, const rapti_block *b,
                           rapti_ahead ahead);

/* Adds the values, weighted by the tile, to the group's output, after scaling that by
 * state.rescale. values_finite: no NaN or infinity in the values that the group's task sees of this
 * block (and a few floats behind them), or nothing in it is hidden. */
void rapti_attention_add_values(const rapti_task_state *s, rapti_group *g, const rapti_block *b,
                                int values_finite);

/* Takes the block's keys into the group's softmax and output. */
void rapti_attention_attend(rapti_task_state *s, rapti_group *g, const rapti_block *b,
                            int values_finite, rapti_ahead ahead);

/* All of the group's keys at once: the materialised path (attention_weights.c). */
void rapti_attention_attend_whole(const rapti_task_state *s, rapti_group *g);

/* ---- Passes over one lane vector of a block's tile, the lanes that begin at `lane`, for keys
 * [from, to) counted from the block's start (attention_tile.c). ---- */

/* Keys of the block that some of the lanes [first, last] see, counted from its start. */
rapti_range rapti_attention_seen(const rapti_group *g, const rapti_block *b, int64_t first,
                                 int64_t last);

/* 1 if causal order, window or length hides some of the block's keys from some row. */
int rapti_attention_limited(const rapti_group *g, const rapti_block *b);

/* 1 if any key of the block is hidden from any row, or could be. */
int rapti_attention_hides(const rapti_task_state *s, const rapti_group *g, const rapti_block *b);

/* Adds the bias, and puts -inf where the key is hidden. */
void rapti_attention_hide(const rapti_task_state *s, const rapti_group *g, const rapti_block *b,
                          int64_t lane, int64_t from, int64_t to, float *tile);

/* The same, sooner, for keys of the block where neither mask nor limits hide one, for a softmax
 * that refuses what is far: a bias of -inf may leave NaN instead, and one of -FLT_MAX -inf. */
void rapti_attention_add_bias(const rapti_task_state *s, const rapti_group *g, const rapti_block *b,
                              int64_t lane, rapti_range keys, float *tile);

/* Dropout: puts 0 where the weight is dropped. */
void rapti_attention_drop(const rapti_task_state *s, const rapti_group *g, const rapti_block *b,
                          int64_t lane, int64_t from, int64_t to, float *tile);

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
