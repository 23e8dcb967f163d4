/* SPDX-License-Identifier: MIT
 * rapt/attention.h: exact attention, one call.
 *
 * Formula (Vaswani et al. 2017, section 3.2.1; Raschka, "Build a Large Language Model (from
 * Scratch)", sections 3.3 to 3.6), for batch b, query head h, query i, key j:
 *
 *   s[i,j]   = (scale q[i]) . k[j] + bias[i,j]
 *   s[i,j]   = -inf                                   where key j is not visible to query i
 *   m        = max_j s[i,j];     l = sum_j exp(s[i,j] - m)
 *   p[i,j]   = exp(s[i,j] - m) / l                    the attention weights
 *   out[i]   = sum_j keep[i,j] / (1 - dropout) * p[i,j] * v[j];     lse[i] = m + ln(l)
 *
 * keep / (1 - dropout) is 1 outside training. Two paths, which agree to rounding:
 *   fused          blocks of keys with a running maximum (Milakov and Gimelshein 2018; Rabe and
 *                  Staats 2021; Dao et al. 2022): the Tq x Tk scores never exist in memory
 *   materialised   where the caller asks for the weights: all scores of a few queries at once */
#ifndef RAPT_ATTENTION_H
#define RAPT_ATTENTION_H

#include "export.h"
#include "status.h"
#include "tensor.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rapt_context rapt_context;

enum { RAPT_MAX_HEAD_SIZE = 1 << 24 }; /* largest D and Dv */

/* ---- What is computed. Plain values; all zero = full attention, scale 1/sqrt(D). ---- */

/* Each query i has a position among the keys. Causal: query i sees keys j <= position(i).
 *   none, top left   position(i) = i
 *   bottom right     position(i) = i + Tk - Tq: the last query sits on the last key
 * The two differ only for Tq != Tk. Key lengths do not move positions; they only hide keys. */
typedef enum rapt_causal {
    RAPT_CAUSAL_NONE = 0,
    RAPT_CAUSAL_TOP_LEFT = 1,    /* PyTorch's and ONNX's is_causal */
    RAPT_CAUSAL_BOTTOM_RIGHT = 2 /* FlashAttention's and MLX's */
} rapt_causal;

/* The scale is 1/sqrt(D) (1 for D = 0) unless on is set; then `value` is used as given, 0 and
 * negative numbers included. NaN and infinities are refused. */
typedef struct rapt_scale {
    int32_t on; /* 0 or 1 */
    float value;
} rapt_scale;

/* Sliding window: query i sees keys  position(i) - left < j <= position(i) + right.
 * `left` counts keys up to and including the query's own, `right` those after it. So
 * {1, W, 0} is the usual causal window of W keys and {1, 0, 0} sees nothing (a legal window).
 * For one side without limit give INT64_MAX. Range 0 .. INT64_MAX. */
typedef struct rapt_window {
    int32_t on; /* 0 or 1 */
    int64_t left;
    int64_t right;
} rapt_window;

/* Dropout on the weights (Srivastava et al. 2014): in training a weight becomes 0 with probability
 * p, and is multiplied by 1 / (1 - p) otherwise. p = 0 and training = 0 are bitwise no dropout; p =
 * 1 gives zeros. lse does not know of it. Which weights are kept depends on (seed, offset, batch,
 * query head, query, key) alone, never on threads, tiles, strides or instruction set: random.h has
 * the formula. A training loop gives each step another offset. Without a pattern of the caller's,
 * B * Hq and Tq may be up to 2^32, Tk up to 2^34 (RAPT_ERR_SHAPE beyond). */
typedef struct rapt_dropout {
    int32_t training; /* 0 or 1; 0: no dropout, whatever p says */
    double p;         /* 0 .. 1 */
    uint64_t seed;
    uint32_t offset;
} rapt_dropout;

typedef struct rapt_attention {
    rapt_causal causal;
    rapt_scale scale; /* |value| at most 2.3e38 */
    rapt_window window;
    rapt_dropout dropout;
    int32_t weights_before_dropout; /* 0 or 1: the weights given out are those before dropout */
} rapt_attention;

/* ---- What it is computed on. Null = absent. Names of sizes: B batch, Hq query heads, Hkv key and
 * value heads, Tq queries, Tk keys, D and Dv head sizes. ---- */
typedef struct rapt_attention_operands {
    /* Hq is a multiple of Hkv: query head h uses key/value head h / (Hq / Hkv) (grouped heads). */
    const rapt_tensor *q; /* in, f32 [B, Hq, Tq, D] */
    const rapt_tensor *k; /* in, f32 [B, Hkv, Tk, D] */
    const rapt_tensor *v; /* in, f32 [B, Hkv, Tk, Dv] */

    /* Shape of both: broadcasts to [B, Hq, Tq, Tk]; rank 1 to 4, axes aligned to the right, each
     * full or of size 1. Never expanded. A bias of -inf hides the key as the mask does. */
    const rapt_tensor *mask; /* in, bool: true = may attend */
    const rapt_tensor *bias; /* in, f32, added to the scaled scores */

    /* Keys j >= key_lengths[b] are hidden. Range 0 .. Tk. */
    const rapt_tensor *key_lengths; /* in, i32 or i64 [B] or [1] */

    const rapt_tensor *out; /* out, f32 [B, Hq, Tq, Dv] */
    const rapt_tensor *lse; /* out, f32 [B, Hq, Tq], optional: ln sum_j exp(s[i,j]) */

    /* Asking for the weights takes the materialised path. What is hidden has weight 0. */
    const rapt_tensor *weights; /* out, f32 [B, Hq, Tq, Tk], optional */

    /* A dropout pattern of the caller's own in place of the generated one: true = kept. Shape as
     * mask. Used only in training with p > 0; kept weights are still multiplied by 1 / (1 - p). */
    const rapt_tensor *keep; /* in, bool, optional */

    void *scratch;        /* optional: memory for this call, 64-byte aligned, of at least */
    size_t scratch_bytes; /* rapt_attention_info.scratch_bytes; null = the context's own */
} rapt_attention_operands;

/* rapt_attention_forward: computes out and, if given, lse.
 *
 * Formula   at the top of this file; shapes beside each operand.
 * Visible   causal AND window AND mask AND bias > -inf AND key length. What is not visible is
 *           never used: NaN or infinity there, in K, V or bias, changes no bit of any result. Keys
 *           that a causal, window or length limit hides cost no time.
 * Empty     a query that sees no key: out = 0, lse = -inf; so for all if Tk = 0. B, Hq or Tq = 0:
 *           nothing is written. Dv = 0: only lse is. D = 0: scores are 0 plus bias.
 * NaN       NaN and infinity in visible data reach exactly the rows (q, k, bias) and columns (v)
 *           that use them. A score that visible data make -inf has weight 0 in every row, and a row
 *           of only such scores counts as empty; its keys' values are still used, as are those of
 *           dropped weights (0 times NaN is NaN). A score of NaN or +inf makes all other visible
 *           weights of its row NaN, dropped ones included.
 * Memory    any strides (tensor.h). Fastest when the last axis of q, k, v, out and weights has
 *           stride 1; K is read in place with any strides; V with another last stride, or a head
 *           size that does not fill whole vectors, is copied block by block, or, if its elements
 *           leave no gaps, read beyond the ends of rows (other rows of V, hidden ones perhaps,
 *           whose values are not used). `out` may be the same memory as q (same sizes and
 *           strides); otherwise out, lse and weights may share no element with any operand
 *           (RAPT_ERR_OVERLAP; views that interleave in one buffer are told apart if element sizes
 *           agree and strides nest; in doubt the call is refused).
 *           Scratch is O(threads x tile), plus 32 bytes per task; a tile holds a block of keys, or
 *           all of them (at most 2^40) if weights are asked for. Nothing is allocated when the
 *           context's scratch from an earlier call is large enough, or the caller gives some.
 * Numerics  f32 products (fused multiply-add but for `scalar`), sums over blocks of keys; exp
 *           within 1 ulp. Scores keep the relative precision of f32: each is multiplied by log2(e)
 *           and rounded, so one of 1000 moves by up to 1e-4. Above 2.3e38 they count as infinite
 *           (not where weights are asked for: there they end at FLT_MAX), and a finite bias below
 *           -2.3e38 as -2.3e38 (so a row of -FLT_MAX is a tie). Weights below 2^-114 of the row's
 *           largest may become 0. Error on standard normal input, 1x12x1024x64, against double
 *           precision: relative RMS below 4.1e-7. Sums are normalised last, with weights relative
 *           to a number within 2^12 of the largest: 4096 * Tk * max|v| must stay below FLT_MAX, or
 *           rows turn into infinity or NaN; values below 4096 * FLT_MIN lose digits; a single
 *           visible value comes out to rounding. In the default floating-point environment,
 *           bitwise the same for any thread count, on every call, and for a batch item or a causal
 *           row whatever else is in the batch or later in the sequence.
 * Dropout   limits of the counter: B x Hq and Tq at most 2^32, Tk at most 2^34 (RAPT_ERR_SHAPE).
 * Threads   one context, one call at a time (context.h).
 * Errors    RAPT_ERR_ARGUMENT (null pointer; unknown enum; window, scale, dropout or key length out
 *           of range), RAPT_ERR_DTYPE, RAPT_ERR_SHAPE, RAPT_ERR_OVERLAP, RAPT_ERR_MEMORY,
 *           RAPT_ERR_SCRATCH. Nothing is written then. */
RAPT_API rapt_status rapt_attention_forward(rapt_context *context, const rapt_attention *what,
                                            const rapt_attention_operands *operands);

/* ---- What the call would do. ---- */
typedef struct rapt_attention_info {
    const char *isa;       /* instruction set, static string */
    const char *path;      /* "fused" or "materialised", static string */
    int64_t scratch_bytes; /* scratch memory the call needs */
    int32_t threads;       /* most threads it would use: fewer than the context's for small work */
    int32_t group_queries; /* queries that one register-tile group holds */
    int32_t key_block;     /* keys per block */
    int64_t tasks;         /* independent pieces of work */
    int64_t visible;       /* query-key pairs inside the causal, window and length limits, summed
                                over batch and query heads (saturates at INT64_MAX) */
    double flops;          /* 2 * visible * (D + Dv): what the two products need */
} rapt_attention_info;

/* Fills *info for the call rapt_attention_forward(context, what, operands), with the same checks;
 * `scratch` is ignored, and data pointers may be null (but for key_lengths). Writes no tensor.
 * Takes time in proportion to the queries of a batch item (of each, if key lengths differ). Errors:
 * those of the call, and RAPT_ERR_ARGUMENT for a null `info`. */
RAPT_API rapt_status rapt_attention_forward_info(rapt_context *context, const rapt_attention *what,
                                                 const rapt_attention_operands *operands,
                                                 rapt_attention_info *info);

/* The scheduler's own list: costs of the tasks in the order in which threads take them, in units of
 * one multiply-add. Writes the first min(capacity, tasks) to `costs`. For studying thread scaling
 * beyond the cores of this machine. Errors: those of the call (RAPT_ERR_MEMORY included: it lists
 * the tasks in the context's scratch), and RAPT_ERR_ARGUMENT for capacity < 0 or null `costs`. */
RAPT_API rapt_status rapt_attention_forward_tasks(rapt_context *context, const rapt_attention *what,
                                                  const rapt_attention_operands *operands,
                                                  double *costs, int64_t capacity);

#ifdef __cplusplus
}
#endif
#endif
