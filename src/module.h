/* SPDX-License-Identifier: MIT
 * module.h: what the modules share. Self, causal, stacked and split attention are all one pass:
 * projections of up to three inputs, attention over heads, perhaps an output projection. Each
 * describes itself by a rapti_pass; the rest is done once. */
#ifndef RAPTI_MODULE_H
#define RAPTI_MODULE_H

#include "arena.h"
#include "context.h"
#include "steps.h"

/* What a projection is for. Each takes its own input in cross-attention, the same one otherwise. */
typedef enum rapti_role { RAPTI_QUERY, RAPTI_KEY, RAPTI_VALUE, RAPTI_ROLES } rapti_role;

/* Sums of a few sizes do not overflow. */
#define RAPTI_MAX_FEATURES (INT64_C(1) << 58)

/* ---- Parameters (module_parameters.c) ---- */

/* Checks of init: null pointers, sizes outside `least` .. `most`, flags that are not 0 or 1, a
 * probability outside 0 .. 1. */
rapt_status rapti_init_check(rapt_context *context, const void *module, const void *config);
rapt_status rapti_size_check(rapt_context *context, const char *name, int64_t size, int64_t least,
                             int64_t most);
rapt_status rapti_flag_check(rapt_context *context, const char *name, int32_t flag);
rapt_status rapti_dropout_check(rapt_context *context, double p);

/* Memory for what was counted in the arena, which then has a base and is ready to be taken from
 * again. RAPT_ERR_SHAPE if it is too much, RAPT_ERR_MEMORY if there is none. */
rapt_status rapti_module_allocate(rapt_context *context, rapti_arena *arena);

/* A weight [out, in], a bias [out] (data null unless `bias`) behind what the arena holds. */
rapt_tensor rapti_weight_take(rapti_arena *arena, int64_t out, int64_t in);
rapt_tensor rapti_bias_take(rapti_arena *arena, int32_t bias, int64_t out);

/* Layers [d_out, d_in[role]]: weights in the order of roles, then biases. */
void rapti_layers_take(rapti_arena *arena, rapt_linear *const layers[RAPTI_ROLES], int64_t d_out,
                       const int64_t d_in[RAPTI_ROLES], int32_t bias);

/* PyTorch's default initialisation, or zeros without a generator. */
rapt_status rapti_linear_init(rapt_context *context, rapt_generator *generator,
                              const rapt_linear *linear);
rapt_status rapti_layers_init(rapt_context *context, rapt_generator *generator,
                              rapt_linear *const layers[RAPTI_ROLES]);

/* Element by element; sizes are equal, strides any; null data on both sides: nothing. */
void rapti_tensor_copy(const rapt_tensor *to, const rapt_tensor *from);

/* Weight and bias from one layer to another of the same sizes. */
void rapti_layer_copy(const rapt_linear *to, const rapt_linear *from);

/* RAPT_ERR_ARGUMENT unless the module has been initialised: `context` is its own. */
rapt_status rapti_module_ready(rapt_context *caller, const char *name, const void *module,
                               const rapt_context *context);

/* Appends "<prefix><name>.weight" and, if there is one, ".bias" to the list of a *_parameters call
 * (null linear data: nothing). `count` goes on beyond the capacity. */
typedef struct rapti_listing {
    rapt_parameter *list;
    int64_t capacity, count;
} rapti_listing;

void rapti_list_tensor(rapti_listing *listing, const char *prefix, const char *name,
                       const char *suffix, const rapt_tensor *tensor);
void rapti_list_linear(rapti_listing *listing, const char *prefix, const char *name,
                       const rapt_linear *linear);

/* ---- Linear layers (module_linear.c) ---- */

/* x [.., in] -> out [.., out] as a step. Leading axes become one where the strides allow it. */
rapt_status rapti_linear_step(rapti_steps *steps, const rapt_linear *linear, const rapt_tensor *x,
                              const rapt_tensor *out);

/* dx = dout W (added to dx if accumulate is set), gradients->weight += dout^T x and gradients->bias
 * += sum of dout, as steps, all of it checked. dx and gradients, and either tensor of the latter,
 * may be absent (null). */
rapt_status rapti_linear_backward_step(rapti_steps *steps, const rapt_linear *linear,
                                       const rapt_tensor *x, const rapt_tensor *dout,
                                       const rapt_tensor *dx, int32_t accumulate,
                                       const rapt_linear *gradients);

/* ---- The pass ---- */

/* A null module, or one that is not initialised, is described by its first two members alone. */
typedef struct rapti_pass {
    const void *module;
    rapt_context *context;             /* the module's own; null: not initialised */
    rapt_linear layer[RAPTI_ROLES];    /* without `head` */
    const rapt_causal_attention *head; /* [parts]: heads with layers of their own; null = none */
    int64_t parts;                     /* layers for each role, outputs joined */
    int64_t part_width;                /* features that each puts out */
    int64_t heads;                     /* divides parts * part_width */
    int64_t features[RAPTI_ROLES];     /* of the inputs */
    int64_t context_length;            /* 0: no limit */
    int32_t cross;                     /* 1: takes key_source and value_source */
    rapt_causal causal;
    rapt_mask_route route;
    double dropout;
    const rapt_linear *out_proj; /* null = none */
} rapti_pass;

/* Layer `n` of RAPTI_ROLES * parts: all parts of one role, then those of the next. */
rapt_linear rapti_pass_layer(const rapti_pass *pass, int64_t n);

/* The modules' public calls, module and context included in what they check. */
rapt_status rapti_module_forward(rapt_context *context, const rapti_pass *pass,
                                 const rapt_module_call *call);

/* `gradients` describes a module of the same kind that takes the gradients, or a null one. */
rapt_status rapti_module_backward(rapt_context *context, const rapti_pass *pass,
                                  const rapt_module_call *call,
                                  const rapt_module_backward *backward,
                                  const rapti_pass *gradients);

rapt_status rapti_module_record_bytes(rapt_context *context, const rapti_pass *pass,
                                      const rapt_module_call *call, int64_t *bytes);

/* ---- A checked call (module_check.c): every tensor with a batch axis ---- */

typedef struct rapti_module_shape {
    int64_t batch, tokens, keys;     /* B, T, S */
    rapt_tensor source[RAPTI_ROLES]; /* [B, T or S, features] */
    rapt_tensor out;                 /* [B, T, features] */
    int has_weights;
    int mean;            /* the mean over heads is asked for */
    rapt_tensor weights; /* [B, heads, T, S], or [B, 1, T, S] for the mean */
} rapti_module_shape;

/* Everything but the mask's later axes and the key lengths, which the attention call checks. */
rapt_status rapti_module_check(rapt_context *context, const rapti_pass *pass,
                               const rapt_module_call *call, rapti_module_shape *shape);

rapt_status rapti_module_check_inputs(rapt_context *context, const rapti_pass *pass,
                                      const rapt_module_call *call, rapti_module_shape *shape);

/* A written tensor shares no element with itself, an input, a parameter. */
rapt_status rapti_module_check_written(rapt_context *context, const rapti_pass *pass,
                                       const rapt_module_call *call, const char *name,
                                       const rapt_tensor *t);

/* [B, rows, features] from a tensor of x's rank; -1 admits any size. */
rapt_status rapti_sequence_check(rapt_context *context, const char *name, const rapt_tensor *t,
                                 int32_t rank, const int64_t expected[3], rapt_tensor *batched);

/* ---- Activations (module_activations.c) ---- */

/* What a record says of the forward call that filled it. A backward call that does not agree is
 * refused. */
typedef struct rapti_record_mark {
    uint64_t magic;
    int64_t batch, tokens, keys, features;
    uint64_t dropout; /* 0 none, 1 drawn by a generator, 2 Philox by the next two */
    uint64_t seed, offset;
} rapti_record_mark;

typedef struct rapti_activations {
    rapti_record_mark *mark; /* in a record only */
    int64_t items; /* batch items that the buffers hold: a round's in scratch, all in a record */
    int recorded;  /* they lie in a record */
    int draws;     /* the generator's pattern is among them */
    rapt_tensor projected[RAPTI_ROLES]; /* [items, rows, features of a role] */
    rapt_tensor joined;                 /* [items, T, features]: what attention puts out */
    rapt_tensor lse;                    /* [items, heads, T], in a record only */
    rapt_tensor keep;                   /* [B, heads, T, S] */
    rapt_tensor drawn;                  /* the same memory in the order of PyTorch's draws */
} rapti_activations;

/* Takes the buffers from the arena; items, recorded and draws are set. */
void rapti_activations_take(rapti_arena *arena, const rapti_pass *pass,
                            const rapti_module_shape *shape, rapti_activations *activations);

/* Projections alone: one buffer for each different input, of `items` items. */
void rapti_projected_take(rapti_arena *arena, const rapti_pass *pass,
                          const rapti_module_shape *shape, int64_t items,
                          rapt_tensor projected[RAPTI_ROLES]);

/* Checks call->record and lays the activations out in it. */
rapt_status rapti_record_open(rapt_context *context, const rapti_pass *pass,
                              const rapti_module_shape *shape, const rapt_module_call *call,
                              rapti_activations *activations);

/* The mark of a call; and whether a record holds it. */
rapti_record_mark rapti_record_mark_of(const rapti_pass *pass, const rapti_module_shape *shape,
                                       const rapt_module_call *call);
rapt_status rapti_record_check(rapt_context *context, const rapti_record_mark *recorded,
                               const rapti_record_mark *call);

/* The first role whose input is the same tensor as that of `role`. */
int rapti_module_origin(const rapti_module_shape *shape, int role);

/* Layers of some roles, as many at a time as are one larger layer: their parameters lie one after
 * another in memory, those of the twin module, too. Starts with pass, twin (null = none) and roles
 * (a bit each) set. */
typedef struct rapti_joint {
    const rapti_pass *pass, *twin;
    unsigned roles;
    int64_t next; /* layer, counted role by role */
    rapti_role role;
    int64_t column, features; /* of the role's projections, reaching into those of the next role */
    rapt_linear layer, twin_layer;
} rapti_joint;

/* 1, or 0 past the end. */
int rapti_joint_next(rapti_joint *joint);

/* Its columns of `n` items from `first` on. */
rapt_tensor rapti_joint_columns(const rapti_joint *joint, const rapt_tensor projected[RAPTI_ROLES],
                                int64_t first, int64_t n);

/* Items of a tensor whose first of `rank` axes is the batch; one entry for all stays as it is. */
rapt_tensor rapti_items_of(const rapt_tensor *t, int32_t rank, int64_t first, int64_t n);
rapt_tensor rapti_heads_of(const rapt_tensor *t, int64_t heads, int64_t first, int64_t n);

/* Batch items of a round; whether a generator draws the pattern; the attention of the pass. */
int64_t rapti_module_round(const rapti_pass *pass, const rapt_module_call *call,
                           const rapti_module_shape *shape);
int rapti_module_draws(const rapti_pass *pass, const rapt_module_call *call);
rapt_attention rapti_module_what(const rapti_pass *pass, const rapt_module_call *call);

/* ---- Parts of the pass ---- */

/* Attention as the text masks it first (module_masked.c): softmax over all keys, zeros for the
 * future, rows made to sum to 1, dropout. As rapti_step_attention; `work` is f32
 * [B, H, Tq, Tk]. */
rapt_status rapti_step_masked_after(rapti_steps *steps, const rapt_attention *what,
                                    rapt_attention_operands operands, const rapt_tensor *work);

/* mean[b,0,i,j] = mean over h of weights[b,h,i,j] (module_weights.c). */
void rapti_mean_over_heads(rapt_context *context, const rapt_tensor *weights,
                           const rapt_tensor *mean);

#endif
