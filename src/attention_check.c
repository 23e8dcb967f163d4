/* SPDX-License-Identifier: MIT
 * attention_check.c: everything that can be wrong with a call, found before anything is touched. */
#include "attention.h"
#include "random.h"
#include "tensor.h"

#include <math.h>

static rapt_status check_what(rapt_context *context, const rapt_attention *what) {
    if ((int)what->causal < RAPT_CAUSAL_NONE || (int)what->causal > RAPT_CAUSAL_BOTTOM_RIGHT) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "causal: unknown value %d",
                          (int)what->causal);
    }
    if ((what->scale.on & ~1) ||
        (what->scale.on && !(fabsf(what->scale.value) <= RAPTI_LARGEST_SCORE))) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT,
                          "scale: on %d, value %g, expected on 0 or 1 and a value up to 2.3e38",
                          what->scale.on, (double)what->scale.value);
    }
    const rapt_window *w = &what->window;
    if ((w->on & ~1) || (w->on && (w->left < 0 || w->right < 0))) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT,
                          "window: on %d, left %lld, right %lld, expected on 0 or 1 and sides >= 0",
                          w->on, (long long)w->left, (long long)w->right);
    }
    const rapt_dropout *d = &what->dropout;
    if ((d->training & ~1) || (d->training && !(d->p >= 0.0 && d->p <= 1.0))) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT,
                          "dropout: training %d, p %g, expected training 0 or 1 and p in 0 .. 1",
                          d->training, d->p);
    }
    if (what->weights_before_dropout & ~1) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "weights_before_dropout: %d, expected 0 or 1",
                          what->weights_before_dropout);
    }
    return RAPT_OK;
}

rapt_status rapti_attention_check_operand(rapt_context *context, const char *name,
                                          const rapt_tensor *t, int32_t rank,
                                          const int64_t *expected, int needs_data) {
    const rapt_status status = rapti_tensor_check(context, name, t, rank, rank, needs_data);
    if (status != RAPT_OK) { return status; }
    if (t->dtype != RAPT_F32) {
        return rapti_fail(context, RAPT_ERR_DTYPE, "%s: dtype %d, expected RAPT_F32", name,
                          (int)t->dtype);
    }
    for (int32_t axis = 0; axis < rank; axis++) {
        if (expected[axis] >= 0 && t->size[axis] != expected[axis]) {
            return rapti_fail(context, RAPT_ERR_SHAPE, "%s: size %lld of axis %d, expected %lld",
                              name, (long long)t->size[axis], axis, (long long)expected[axis]);
        }
    }
    return RAPT_OK;
}

static rapt_status check_shapes(rapt_context *context, const rapt_attention_operands *o,
                                int needs_data, rapti_problem *p) {
    const int64_t any[4] = {-1, -1, -1, -1};
    rapt_status status = rapti_attention_check_operand(context, "q", o->q, 4, any, needs_data);
    if (status != RAPT_OK) { return status; }
    p->batch = o->q->size[0];
    p->heads = o->q->size[1];
    p->queries = o->q->size[2];
    p->dim = o->q->size[3];
    const int64_t k_size[4] = {p->batch, -1, -1, p->dim};
    status = rapti_attention_check_operand(context, "k", o->k, 4, k_size, needs_data);
    if (status != RAPT_OK) { return status; }
    p->kv_heads = o->k->size[1];
    p->keys = o->k->size[2];
    const int64_t v_size[4] = {p->batch, p->kv_heads, p->keys, -1};
    status = rapti_attention_check_operand(context, "v", o->v, 4, v_size, needs_data);
    if (status != RAPT_OK) { return status; }
    p->value_dim = o->v->size[3];
    if (p->kv_heads == 0 ? p->heads != 0 : p->heads % p->kv_heads != 0) {
        return rapti_fail(context, RAPT_ERR_SHAPE,
                          "q: %lld heads are not a multiple of the %lld heads of k",
                          (long long)p->heads, (long long)p->kv_heads);
    }
    p->heads_per_kv = p->kv_heads ? p->heads / p->kv_heads : 0;
    if (p->dim > RAPT_MAX_HEAD_SIZE || p->value_dim > RAPT_MAX_HEAD_SIZE) {
        return rapti_fail(context, RAPT_ERR_SHAPE, "q, v: head sizes %lld and %lld, limit %d",
                          (long long)p->dim, (long long)p->value_dim, RAPT_MAX_HEAD_SIZE);
    }
    const int64_t out_size[4] = {p->batch, p->heads, p->queries, p->value_dim};
    status = rapti_attention_check_operand(context, "out", o->out, 4, out_size, needs_data);
    if (status == RAPT_OK && o->lse) {
        status = rapti_attention_check_operand(context, "lse", o->lse, 3, out_size, needs_data);
    }
    const int64_t weights_size[4] = {p->batch, p->heads, p->queries, p->keys};
    if (status == RAPT_OK && o->weights) {
        status = rapti_attention_check_operand(context, "weights", o->weights, 4, weights_size,
                                               needs_data);
    }
    return status;
}

rapt_status rapti_attention_check_broadcast(rapt_context *context, const char *name,
                                            const rapt_tensor *t, rapt_dtype dtype,
                                            const rapti_problem *p, int needs_data,
                                            rapti_broadcast *view) {
    *view = (rapti_broadcast){0};
    if (!t) { return RAPT_OK; }
    const rapt_status status = rapti_tensor_check(context, name, t, 1, 4, needs_data);
    if (status != RAPT_OK) { return status; }
    if (t->dtype != dtype) {
        return rapti_fail(context, RAPT_ERR_DTYPE, "%s: dtype %d, expected %s", name, (int)t->dtype,
                          dtype == RAPT_BOOL ? "RAPT_BOOL" : "RAPT_F32");
    }
    const int64_t full[4] = {p->batch, p->heads, p->queries, p->keys};
    for (int32_t axis = 0; axis < t->rank; axis++) {
        const int32_t to = axis + 4 - t->rank;
        if (t->size[axis] != full[to] && t->size[axis] != 1) {
            return rapti_fail(context, RAPT_ERR_SHAPE,
                              "%s: size %lld of axis %d, expected %lld or 1", name,
                              (long long)t->size[axis], axis, (long long)full[to]);
        }
        view->stride[to] = t->size[axis] == 1 ? 0 : t->stride[axis];
    }
    view->data = t->data;
    return RAPT_OK;
}

static rapt_status check_key_lengths(rapt_context *context, const rapt_tensor *t,
                                     rapti_problem *p) {
    if (!t) { return RAPT_OK; }
    const rapt_status status = rapti_tensor_check(context, "key_lengths", t, 1, 1, 1);
    if (status != RAPT_OK) { return status; }
    if (t->dtype != RAPT_I32 && t->dtype != RAPT_I64) {
        return rapti_fail(context, RAPT_ERR_DTYPE,
                          "key_lengths: dtype %d, expected RAPT_I32 or RAPT_I64", (int)t->dtype);
    }
    if (t->size[0] != p->batch && t->size[0] != 1) {
        return rapti_fail(context, RAPT_ERR_SHAPE, "key_lengths: size %lld, expected %lld or 1",
                          (long long)t->size[0], (long long)p->batch);
    }
    for (int64_t b = 0; b < t->size[0]; b++) {
        const int64_t length = rapti_key_length(t, b);
        if (length < 0 || length > p->keys) {
            return rapti_fail(context, RAPT_ERR_ARGUMENT,
                              "key_lengths: %lld at index %lld, expected 0 .. %lld",
                              (long long)length, (long long)b, (long long)p->keys);
        }
    }
    p->key_lengths = *t;
    return RAPT_OK;
}

/* What the generator makes of p: a kept word is below the threshold. */
static rapt_status set_dropout(rapt_context *context, const rapt_dropout *d, rapti_problem *p) {
    p->kept_scale = 1.0f;
    if (!d->training || d->p == 0.0) { return RAPT_OK; }
    const int64_t limit = INT64_C(1) << 32;
    if (!p->keep.data &&
        (p->queries > limit || p->keys > 4 * limit || (p->heads && p->batch > limit / p->heads))) {
        return rapti_fail(context, RAPT_ERR_SHAPE,
                          "dropout: %lld x %lld heads, %lld queries, %lld keys, at most 2^32 heads "
                          "and queries and 2^34 keys",
                          (long long)p->batch, (long long)p->heads, (long long)p->queries,
                          (long long)p->keys);
    }
    const int64_t threshold = rapti_dropout_threshold(d->p);
    p->kept_scale = d->p < 1.0 ? (float)(1.0 / (1.0 - d->p)) : 0.0f;
    p->drops = p->keep.data || threshold <= INT32_MAX; /* else every word is below */
    p->dropout = (rapti_dropout){.key = {(uint32_t)d->seed, (uint32_t)(d->seed >> 32)},
                                 .offset = d->offset,
                                 .threshold = threshold <= INT32_MAX ? (int32_t)threshold : 0};
    return RAPT_OK;
}

/* `written` must not overlap itself or any operand; it may be `in_place`, seen the same way. */
static rapt_status check_overlap(rapt_context *context, const char *name,
                                 const rapt_tensor *written, const rapt_attention_operands *o,
                                 const char *weights_name, const rapt_tensor *in_place) {
    if (rapti_tensor_overlaps_itself(written)) {
        return rapti_fail(
            context, RAPT_ERR_OVERLAP,
            "%s: elements overlap or strides do not nest (sizes %lld %lld %lld, strides "
            "%lld %lld %lld, ...)",
            name, (long long)written->size[0], (long long)written->size[1],
            (long long)written->size[2], (long long)written->stride[0],
            (long long)written->stride[1], (long long)written->stride[2]);
    }
    const struct {
        const char *name;
        const rapt_tensor *tensor, *written_as; /* the latter if the call writes it, too */
    } other[] = {
        {"q", o->q, NULL},       {"k", o->k, NULL},       {"v", o->v, NULL},
        {"mask", o->mask, NULL}, {"bias", o->bias, NULL}, {"key_lengths", o->key_lengths, NULL},
        {"keep", o->keep, NULL}, {"lse", o->lse, o->lse}, {weights_name, o->weights, o->weights}};
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        const rapt_tensor *t = other[i].tensor;
        if (!t || written == other[i].written_as || !t->data || !written->data ||
            (t == in_place && rapti_tensors_equal(t, written))) {
            continue;
        }
        if (rapti_tensors_overlap(written, t)) {
            return rapti_fail(context, RAPT_ERR_OVERLAP, "%s overlaps %s", name, other[i].name);
        }
    }
    return RAPT_OK;
}

rapt_status rapti_attention_check(rapt_context *context, const rapt_attention *what,
                                  const rapt_attention_operands *o, int kind, rapti_problem *p) {
    if (!context) { return RAPT_ERR_ARGUMENT; }
    if (!context->kernels) { return RAPT_ERR_ARGUMENT; } /* keeps the message of its creation */
    if (!what) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "what: null pointer"); }
    if (!o) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "operands: null pointer"); }
    const int needs_data = !(kind & RAPTI_SIZES_ONLY);
    const char *weights_name = kind & RAPTI_NAMED_SCORES ? "scores" : "weights";
    *p = (rapti_problem){.scores_given = (kind & RAPTI_SCORES_GIVEN) != 0};
    rapt_status status = check_what(context, what);
    if (status == RAPT_OK) { status = check_shapes(context, o, needs_data, p); }
    if (status == RAPT_OK) {
        status = rapti_attention_check_broadcast(context, "mask", o->mask, RAPT_BOOL, p, needs_data,
                                                 &p->mask);
    }
    if (status == RAPT_OK) {
        status = rapti_attention_check_broadcast(context, "bias", o->bias, RAPT_F32, p, needs_data,
                                                 &p->bias);
    }
    if (status == RAPT_OK) {
        status = rapti_attention_check_broadcast(context, "keep", o->keep, RAPT_BOOL, p, needs_data,
                                                 &p->keep);
    }
    if (status == RAPT_OK) { status = set_dropout(context, &what->dropout, p); }
    if (status == RAPT_OK) { status = check_key_lengths(context, o->key_lengths, p); }
    if (status == RAPT_OK && !(kind & RAPTI_BACKWARD)) {
        status = check_overlap(context, "out", o->out, o, weights_name, o->q);
        if (status == RAPT_OK && o->lse) {
            status = check_overlap(context, "lse", o->lse, o, weights_name, NULL);
        }
        if (status == RAPT_OK && o->weights) {
            status = check_overlap(context, weights_name, o->weights, o, weights_name, NULL);
        }
    }
    if (status != RAPT_OK) { return status; }
    p->causal = what->causal != RAPT_CAUSAL_NONE;
    p->position_shift = what->causal == RAPT_CAUSAL_BOTTOM_RIGHT ? p->keys - p->queries : 0;
    p->window = what->window;
    p->scale = what->scale.on ? what->scale.value
               : p->dim       ? (float)(1.0 / sqrt((double)p->dim))
                              : 1.0f;
    p->unit = o->weights ? 1.0f : RAPTI_OCTAVES;
    p->tile_scale = p->scale * p->unit;
    p->q = rapti_tensor_normal(o->q);
    p->k = rapti_tensor_normal(o->k);
    p->v = rapti_tensor_normal(o->v);
    p->out = rapti_tensor_normal(o->out);
    if (o->lse) { p->lse = rapti_tensor_normal(o->lse); }
    p->materialised = o->weights != NULL;
    if (o->weights) { p->weights = rapti_tensor_normal(o->weights); }
    p->weights_before_dropout = what->weights_before_dropout;
    return RAPT_OK;
}
