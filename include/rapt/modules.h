/* SPDX-License-Identifier: MIT
 * rapt/modules.h: the four passes of Raschka, "Build a Large Language Model (from Scratch)",
 * chapter 3:
 *
 *   3.3  simple       scores x x^T, softmax, weights x; nothing to train
 *   3.4  self         query, key and value projections; v1 raw matrices (SelfAttention_v1), v2
 *                     linear layers (SelfAttention_v2)
 *   3.5  causal       batched, masked, with dropout on the weights (CausalAttention)
 *   3.6  multi-head   stacked: several causal heads, outputs joined (MultiHeadAttentionWrapper)
 *                     split: one projection for each role, cut into heads; output projection
 *                     (MultiHeadAttention)
 *
 * A module is a plain struct: init makes its parameters, forward computes, free gives its memory
 * back. Parameters are tensors for the caller to read, copy and overwrite through `data` (free
 * gives back the memory that init got: do not point `data` elsewhere in the struct that is freed).
 * A module has no state but these, and no generator of its own.
 *
 * *_init zeroes the struct first, so that free is safe after any error; allocates with the
 * context's allocator; draws PyTorch's default initialisation from `generator` in PyTorch's order,
 * or, with a null generator, sets all parameters to zero. The context must outlive the module.
 * Errors    RAPT_ERR_ARGUMENT, RAPT_ERR_SHAPE (sizes < 1 or too large, d_out not divisible by
 *           heads), RAPT_ERR_MEMORY. Nothing is drawn then.
 *
 * *_forward, with the module's own context or another:
 * Formula   q = x Wq^T + bq, k and v likewise from their sources; attention.h's on each head; then,
 *           with an output projection, out = joined heads Wo^T + bo.
 * Shapes    beside each member of rapt_module_call.
 * Memory    any strides. `out` and `weights` share no element with each other, an input or a
 *           parameter. One piece of the context's scratch, a few times x (for about 1024 tokens at
 *           a time, but for Philox dropout), and what the call's members name.
 * Numerics  products as rapt_matmul_run; visibility, empty rows, sizes of 0, NaN and bits as
 *           attention.h says.
 * Threads   as rapt_attention_forward.
 * Errors    those of rapt_attention_forward, RAPT_ERR_SHAPE for a sequence beyond context_length,
 *           RAPT_ERR_ARGUMENT for sources that the module does not take, RAPT_ERR_SCRATCH for a
 *           record that is too small or misaligned. Nothing is written, and nothing drawn, then.
 *
 * *_free zeroes the struct: a second free, or one of null, does nothing. */
#ifndef RAPT_MODULES_H
#define RAPT_MODULES_H

#include "attention.h"
#include "export.h"
#include "random.h"
#include "status.h"
#include "tensor.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- A named parameter: how modules are listed, saved, loaded, counted. Names as in PyTorch's
 * state_dict: "W_query.weight", "heads.0.W_key.weight", "out_proj.bias". ---- */
typedef struct rapt_parameter {
    char name[64];
    rapt_tensor tensor; /* a view of the module's own memory */
} rapt_parameter;

/* Elements of all listed tensors together. */
RAPT_API int64_t rapt_parameter_count(const rapt_parameter *list, int64_t count);

/* ---- What backward needs to know of forward: memory of the caller's, 64-byte aligned, of at least
 * as many bytes as the module's *_record_bytes says: projections q, k, v [B, T or S, features],
 * attention output [B, T, features], lse [B, heads, T], and with a generator its pattern
 * [B, heads, T, S] in bytes. A record serves one forward; each of several forwards that wait for
 * their backward has its own. It begins with what the forward call was (64 bytes: sizes and
 * dropout), and a backward call that does not agree is refused. No output of either call may lie in
 * it. ---- */
typedef struct rapt_record {
    void *data;
    size_t bytes;
} rapt_record;

/* ---- What forward takes. Null or 0 = absent. B batch, T tokens, S of the key source. ---- */
typedef struct rapt_module_call {
    const rapt_tensor *x; /* in, f32 [B, T, d_in] or [T, d_in]: queries, and by default all else */

    /* Cross-attention (split only): keys from one sequence, values from one of the same length;
     * value_source null = key_source. Rank as x. */
    const rapt_tensor *key_source;   /* in, f32 [B, S, key_dim]; S: any number */
    const rapt_tensor *value_source; /* in, f32 [B, S, value_dim] */

    /* As in rapt_attention_operands, for the shape [B, heads, T, S]. */
    const rapt_tensor *key_lengths, *mask;

    const rapt_tensor *out; /* out, f32 [B, T, features] or [T, features] */

    /* out, f32, optional: [B, heads, T, S], or [B, T, S] for the mean over heads; without B if x
     * has none. Before dropout. `out` is the same to rounding whether or not they are asked for. */
    const rapt_tensor *weights;

    /* Dropout, only with training = 1. With a generator the pattern is PyTorch's own draws for
     * nn.Dropout on the weights, taken from the stream even where causal order hides the key
     * (memory O(B heads T S)); without, it is Philox by (seed, offset), see attention.h. */
    int32_t training; /* 0 or 1 */
    rapt_generator *generator;
    uint64_t seed;
    uint32_t offset;

    /* For a backward call to follow: what forward writes there, backward reads. Null: no record. */
    const rapt_record *record;
} rapt_module_call;

/* ---- Linear layer: y = x W^T + bias. ---- */
typedef struct rapt_linear {
    rapt_tensor weight; /* f32 [out, in] */
    rapt_tensor bias;   /* f32 [out]; data null = none */
} rapt_linear;

/* Shapes    x f32 [.., in] of rank 1 to RAPT_MAX_RANK, out f32 [.., out].
 * Memory    any strides; out shares no element with x, weight or bias. Scratch, numerics, threads
 *           as rapt_matmul_run.
 * Errors    RAPT_ERR_ARGUMENT, RAPT_ERR_DTYPE, RAPT_ERR_SHAPE, RAPT_ERR_OVERLAP, RAPT_ERR_MEMORY.
 *           Nothing is written then. */
RAPT_API rapt_status rapt_linear_forward(rapt_context *context, const rapt_linear *linear,
                                         const rapt_tensor *x, const rapt_tensor *out);

/* ---- 3.3 Simplified self-attention: no parameters, no scaling. ---- */

/* Section 3.3.1, for the token `query` of x f32 [T, d]: scores [T] = x x[query], weights [T] =
 * softmax(scores), out [d] = weights x (the text's context vector). Each output may be null.
 * Memory    any strides; outputs share no element with x or each other.
 * Errors    those of rapt_attention_forward; RAPT_ERR_ARGUMENT for a query outside 0 .. T - 1.
 *           Nothing is written then. */
RAPT_API rapt_status rapt_simple_attention_query(rapt_context *context, const rapt_tensor *x,
                                                 int64_t query, const rapt_tensor *scores,
                                                 const rapt_tensor *weights,
                                                 const rapt_tensor *out);

/* Section 3.3.2, for all tokens of x f32 [T, d] or [B, T, d]: scores and weights [.., T, T], out of
 * x's sizes. Each output may be null. Memory and errors as above. */
RAPT_API rapt_status rapt_simple_attention(rapt_context *context, const rapt_tensor *x,
                                           const rapt_tensor *scores, const rapt_tensor *weights,
                                           const rapt_tensor *out);

/* ---- 3.4 Trainable self-attention: scale 1/sqrt(d_out), every token sees every token. ---- */

/* Section 3.4.2, form v1: raw matrices, q = x W, drawn from [0, 1). */
typedef struct rapt_self_v1 {
    rapt_context *context; /* whose allocator the memory comes from */
    int64_t d_in, d_out;
    rapt_tensor w_query, w_key, w_value; /* f32 [d_in, d_out] */
} rapt_self_v1;

RAPT_API rapt_status rapt_self_v1_init(rapt_context *context, rapt_self_v1 *module, int64_t d_in,
                                       int64_t d_out, rapt_generator *generator);
RAPT_API rapt_status rapt_self_v1_forward(rapt_context *context, const rapt_self_v1 *module,
                                          const rapt_module_call *call);
RAPT_API void rapt_self_v1_free(rapt_self_v1 *module);

/* Form v2: linear layers. */
typedef struct rapt_self_v2_config {
    int64_t d_in, d_out;
    int32_t qkv_bias; /* 0 or 1 */
} rapt_self_v2_config;

typedef struct rapt_self_v2 {
    rapt_context *context;
    rapt_self_v2_config config;
    rapt_linear query, key, value; /* [d_out, d_in] */
} rapt_self_v2;

RAPT_API rapt_status rapt_self_v2_init(rapt_context *context, rapt_self_v2 *module,
                                       const rapt_self_v2_config *config,
                                       rapt_generator *generator);
RAPT_API rapt_status rapt_self_v2_forward(rapt_context *context, const rapt_self_v2 *module,
                                          const rapt_module_call *call);
RAPT_API void rapt_self_v2_free(rapt_self_v2 *module);

/* Weights from one form to the other (exercise 3.1): the same numbers, transposed. Biases of v2 are
 * set to zero by the second; v2 with a non-zero bias has no v1 form (RAPT_ERR_ARGUMENT). Sizes must
 * agree (RAPT_ERR_SHAPE). The message goes to the context of `to`. */
RAPT_API rapt_status rapt_self_v1_from_v2(rapt_self_v1 *to, const rapt_self_v2 *from);
RAPT_API rapt_status rapt_self_v2_from_v1(rapt_self_v2 *to, const rapt_self_v1 *from);

/* ---- 3.5 Causal attention. ---- */

/* How future keys are kept out (section 3.5.1); both give the same numbers to rounding. */
typedef enum rapt_mask_route {
    RAPT_MASK_BEFORE_SOFTMAX = 0, /* scores -inf, then softmax: the fused path */
    RAPT_MASK_AFTER_SOFTMAX = 1   /* softmax, zero, renormalise: the text's first way, for teaching;
                                     memory O(B T S). The future takes part in the first softmax:
                                     NaN there, or scores some 87 above all others, reach the row */
} rapt_mask_route;

typedef struct rapt_causal_config {
    int64_t d_in, d_out;
    int64_t context_length; /* longest sequence; >= 1 */
    double dropout;         /* 0 .. 1 */
    int32_t qkv_bias;       /* 0 or 1 */
    rapt_mask_route route;
} rapt_causal_config;

typedef struct rapt_causal_attention {
    rapt_context *context;
    rapt_causal_config config;
    rapt_linear query, key, value; /* [d_out, d_in] */
} rapt_causal_attention;

RAPT_API rapt_status rapt_causal_init(rapt_context *context, rapt_causal_attention *module,
                                      const rapt_causal_config *config, rapt_generator *generator);
RAPT_API rapt_status rapt_causal_forward(rapt_context *context, const rapt_causal_attention *module,
                                         const rapt_module_call *call);
RAPT_API void rapt_causal_free(rapt_causal_attention *module);

/* ---- 3.6.1 Multi-head by stacking: independent causal heads, outputs joined on the feature axis,
 * head 0 first: heads * d_out features. With Philox, head h draws like one of a split module. */
typedef struct rapt_stacked {
    rapt_context *context;
    int64_t heads;
    rapt_causal_attention *head; /* [heads], in one block of memory: not to be freed one by one; the
                                    configuration is that of head 0 */
} rapt_stacked;

RAPT_API rapt_status rapt_stacked_init(rapt_context *context, rapt_stacked *module,
                                       const rapt_causal_config *config, int64_t heads,
                                       rapt_generator *generator);
RAPT_API rapt_status rapt_stacked_forward(rapt_context *context, const rapt_stacked *module,
                                          const rapt_module_call *call);
RAPT_API void rapt_stacked_free(rapt_stacked *module);

/* ---- 3.6.2 Multi-head by splitting one projection: head_dim = d_out / heads, scale
 * 1/sqrt(head_dim), output projection. ---- */
typedef struct rapt_split_config {
    int64_t d_in, d_out;
    int64_t context_length; /* longest sequence, key sources included; 0: no limit */
    int64_t heads;          /* divides d_out */
    double dropout;         /* 0 .. 1 */
    int32_t qkv_bias;       /* 0 or 1 */

    int32_t no_out_bias; /* 1: the output projection has no bias */
    int32_t no_out_proj; /* 1: no output projection: what stacking computes */
    int32_t not_causal;  /* 1: every query sees every key; 0: those up to its own index */
    int64_t key_dim;     /* features of key_source; 0 = d_in */
    int64_t value_dim;   /* features of value_source; 0 = d_in */
} rapt_split_config;

typedef struct rapt_split {
    rapt_context *context;
    rapt_split_config config;
    rapt_linear query, key, value; /* [d_out, d_in | key_dim | value_dim]; weights in one block of
                                      memory in this order (and biases in another), so that equal
                                      inputs take one product */
    rapt_linear out_proj;          /* [d_out, d_out] */
} rapt_split;

RAPT_API rapt_status rapt_split_init(rapt_context *context, rapt_split *module,
                                     const rapt_split_config *config, rapt_generator *generator);
RAPT_API rapt_status rapt_split_forward(rapt_context *context, const rapt_split *module,
                                        const rapt_module_call *call);
RAPT_API void rapt_split_free(rapt_split *module);

/* Weights between stacked heads and one split projection: head h is rows h * d .. (h+1) * d of each
 * projection. The output projection stays as it is. Sizes and presence of biases must agree
 * (RAPT_ERR_SHAPE). The message goes to the context of `to`. */
RAPT_API rapt_status rapt_split_from_stacked(rapt_split *to, const rapt_stacked *from);
RAPT_API rapt_status rapt_stacked_from_split(rapt_stacked *to, const rapt_split *from);

/* ---- The parameters of a module by name, in PyTorch's order. Writes the first min(capacity, n),
 * returns n, which may be more than capacity; capacity 0 with a null list only counts. ---- */
RAPT_API int64_t rapt_self_v1_parameters(const rapt_self_v1 *module, rapt_parameter *list,
                                         int64_t capacity);
RAPT_API int64_t rapt_self_v2_parameters(const rapt_self_v2 *module, rapt_parameter *list,
                                         int64_t capacity);
RAPT_API int64_t rapt_causal_parameters(const rapt_causal_attention *module, rapt_parameter *list,
                                        int64_t capacity);
RAPT_API int64_t rapt_stacked_parameters(const rapt_stacked *module, rapt_parameter *list,
                                         int64_t capacity);
RAPT_API int64_t rapt_split_parameters(const rapt_split *module, rapt_parameter *list,
                                       int64_t capacity);

/* ---- Backward: gradients of a loss, from that to `out`. ----
 *
 * `call` is the forward call's, with its record, x and sources as they were; out and weights are
 * not used. Of the generator it counts only whether there was one (the pattern is then read from
 * the record): it may have gone on, but must not be null. A record that no forward call filled, or
 * one of other sizes or other dropout, is RAPT_ERR_ARGUMENT. Parameters must not have changed in
 * between.
 *
 * Gradients of parameters go to a module of the same kind and configuration (made by init with a
 * null generator: zeros), and are ADDED there, as PyTorch adds to .grad: zero them before each step
 * with rapt_gradients_zero (optimizer.h), or let several backward calls add up. Null: not computed.
 * They share no element with each other, the module, the record or any tensor of the call. (Checked
 * but for gradients of different layers.)
 */
typedef struct rapt_module_backward {
    const rapt_tensor *dout; /* in, f32, sizes of out */

    /* Optional; sizes of x and the sources. Where forward took one tensor for several roles, its
     * gradient is the sum over them. */
    const rapt_tensor *dx, *dkey_source, *dvalue_source; /* out, f32 */
    int32_t accumulate; /* for these three. 0: overwritten; 1: added to */
} rapt_module_backward;

/* Bytes of record that the call needs. Looks at x, the sources and what dropout needs, not at
 * outputs, masks and the record; data pointers may be null (the answer then suffices whether or not
 * x and the sources are one tensor). Errors as of forward, for these. */
RAPT_API rapt_status rapt_self_v1_record_bytes(rapt_context *context, const rapt_self_v1 *module,
                                               const rapt_module_call *call, int64_t *bytes);
RAPT_API rapt_status rapt_self_v2_record_bytes(rapt_context *context, const rapt_self_v2 *module,
                                               const rapt_module_call *call, int64_t *bytes);
RAPT_API rapt_status rapt_causal_record_bytes(rapt_context *context,
                                              const rapt_causal_attention *module,
                                              const rapt_module_call *call, int64_t *bytes);
RAPT_API rapt_status rapt_stacked_record_bytes(rapt_context *context, const rapt_stacked *module,
                                               const rapt_module_call *call, int64_t *bytes);
RAPT_API rapt_status rapt_split_record_bytes(rapt_context *context, const rapt_split *module,
                                             const rapt_module_call *call, int64_t *bytes);

/* Errors: those of forward; RAPT_ERR_ARGUMENT without a record, RAPT_ERR_SCRATCH for one that is
 * too small or misaligned. Nothing is written then. Bitwise the same for any thread count. */
RAPT_API rapt_status rapt_self_v1_backward(rapt_context *context, const rapt_self_v1 *module,
                                           const rapt_module_call *call,
                                           const rapt_module_backward *backward,
                                           const rapt_self_v1 *gradients);
RAPT_API rapt_status rapt_self_v2_backward(rapt_context *context, const rapt_self_v2 *module,
                                           const rapt_module_call *call,
                                           const rapt_module_backward *backward,
                                           const rapt_self_v2 *gradients);
RAPT_API rapt_status rapt_causal_backward(rapt_context *context,
                                          const rapt_causal_attention *module,
                                          const rapt_module_call *call,
                                          const rapt_module_backward *backward,
                                          const rapt_causal_attention *gradients);
RAPT_API rapt_status rapt_stacked_backward(rapt_context *context, const rapt_stacked *module,
                                           const rapt_module_call *call,
                                           const rapt_module_backward *backward,
                                           const rapt_stacked *gradients);
RAPT_API rapt_status rapt_split_backward(rapt_context *context, const rapt_split *module,
                                         const rapt_module_call *call,
                                         const rapt_module_backward *backward,
                                         const rapt_split *gradients);

/* Linear layer: dx = dout W, gradients->weight += dout^T x, gradients->bias += sum of dout (of the
 * weight's and the bias's sizes; without a bias's data it is not computed). dx and gradients may be
 * null; `accumulate` is for dx. Errors as rapt_linear_forward. */
RAPT_API rapt_status rapt_linear_backward(rapt_context *context, const rapt_linear *linear,
                                          const rapt_tensor *x, const rapt_tensor *dout,
                                          const rapt_tensor *dx, int32_t accumulate,
                                          const rapt_linear *gradients);

/* Simplified self-attention (3.3.2): dx from dout; the forward is computed again. dx shares no
 * element with x or dout. Errors as rapt_simple_attention. */
RAPT_API rapt_status rapt_simple_attention_backward(rapt_context *context, const rapt_tensor *x,
                                                    const rapt_tensor *dout, const rapt_tensor *dx,
                                                    int32_t accumulate);

#ifdef __cplusplus
}
#endif
#endif
