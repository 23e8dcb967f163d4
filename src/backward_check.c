/* SPDX-License-Identifier: MIT
 * backward_check.c: everything that can be wrong with a backward call, found before anything is
 * touched. What it shares with the forward call is checked by attention_check.c. */
#include "backward.h"
#include "tensor.h"

typedef struct named_tensor {
    const char *name;
    const rapt_tensor *tensor;
} named_tensor;

static rapt_status check_gradients(rapt_context *context, const rapt_attention_backward_operands *o,
                                   int needs_data, rapti_back_problem *p) {
    const rapti_problem *f = &p->forward;
    const int64_t q_size[4] = {f->batch, f->heads, f->queries, f->dim};
    const int64_t k_size[4] = {f->batch, f->kv_heads, f->keys, f->dim};
    const int64_t v_size[4] = {f->batch, f->kv_heads, f->keys, f->value_dim};
    const int64_t out_size[4] = {f->batch, f->heads, f->queries, f->value_dim};
    const struct {
        const char *name;
        const rapt_tensor *given;
        int32_t rank;
        const int64_t *size;
        rapt_tensor *to;
        int *wants;
    } list[] = {
        {"dout", o->dout, 4, out_size, &p->dout, NULL},
        {"dlse", o->dlse, 3, out_size, &p->dlse, NULL},
        {"dq", o->dq, 4, q_size, &p->dq, &p->wants_dq},
        {"dk", o->dk, 4, k_size, &p->dk, &p->wants_dk},
        {"dv", o->dv, 4, v_size, &p->dv, &p->wants_dv},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (!list[i].given && i > 0) { continue; } /* all but dout are optional */
        const rapt_status status = rapti_attention_check_operand(
            context, list[i].name, list[i].given, list[i].rank, list[i].size, needs_data);
        if (status != RAPT_OK) { return status; }
        *list[i].to = rapti_tensor_normal(list[i].given);
        if (list[i].wants) { *list[i].wants = 1; }
    }
    return RAPT_OK;
}

/* dbias, and the axes over which it is summed. */
static rapt_status check_bias_gradient(rapt_context *context, const rapt_tensor *t, int needs_data,
                                       rapti_back_problem *p) {
    if (!t) { return RAPT_OK; }
    const rapti_problem *f = &p->forward;
    const rapt_status status = rapti_attention_check_broadcast(context, "dbias", t, RAPT_F32, f,
                                                               needs_data, &p->bias_gradient);
    if (status != RAPT_OK) { return status; }
    int full[4] = {0};
    for (int32_t axis = 0; axis < t->rank; axis++) {
        full[axis + 4 - t->rank] = t->size[axis] != 1;
    }
    p->wants_dbias = 1;
    p->dbias = rapti_tensor_normal(t);
    p->bias_gradient.data = p->dbias.data;
    p->sums_batch = !full[0] && f->batch > 1;
    p->sums_heads = !full[1] && f->heads > 1;
    p->sums_queries = !full[2] && f->queries > 1;
    p->sums_keys = !full[3] && f->keys > 1;
    return RAPT_OK;
}

static rapt_status check_overlap(rapt_context *context, const rapt_attention_backward_operands *o) {
    const named_tensor list[] = {
        {"dq", o->dq},       {"dk", o->dk},     {"dv", o->dv},
        {"dbias", o->dbias}, /* written, up to here */
        {"q", o->q},         {"k", o->k},       {"v", o->v},
        {"mask", o->mask},   {"bias", o->bias}, {"key_lengths", o->key_lengths},
        {"keep", o->keep},   {"out", o->out},   {"lse", o->lse},
        {"dout", o->dout},   {"dlse", o->dlse},
    };
    const size_t written = 4, count = sizeof list / sizeof list[0];
    for (size_t i = 0; i < written; i++) {
        const rapt_tensor *t = list[i].tensor;
        if (!t) { continue; }
        if (rapti_tensor_overlaps_itself(t)) {
            return rapti_fail(
                context, RAPT_ERR_OVERLAP,
                "%s: elements overlap or strides do not nest (rank %d, last two sizes "
                "%lld %lld, strides %lld %lld)",
                list[i].name, t->rank, (long long)(t->rank > 1 ? t->size[t->rank - 2] : 1),
                (long long)t->size[t->rank - 1],
                (long long)(t->rank > 1 ? t->stride[t->rank - 2] : 0),
                (long long)t->stride[t->rank - 1]);
        }
        for (size_t j = i + 1; j < count; j++) {
            const rapt_tensor *other = list[j].tensor;
            if (other && other->data && t->data && rapti_tensors_overlap(t, other)) {
                return rapti_fail(context, RAPT_ERR_OVERLAP, "%s overlaps %s", list[i].name,
                                  list[j].name);
            }
        }
    }
    return RAPT_OK;
}

rapt_status rapti_back_check(rapt_context *context, const rapt_attention *what,
                             const rapt_attention_backward_operands *o, int needs_data,
                             rapti_back_problem *p) {
    if (!context || !context->kernels) { return RAPT_ERR_ARGUMENT; }
    if (!o) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "operands: null pointer"); }
    const rapt_attention_operands inputs = {
        .q = o->q,
        .k = o->k,
        .v = o->v,
        .mask = o->mask,
        .bias = o->bias,
        .key_lengths = o->key_lengths,
        .out = o->out,
        .lse = o->lse,
        .keep = o->keep,
    };
    *p = (rapti_back_problem){.accumulate = o->accumulate};
    const int kind = RAPTI_BACKWARD | (needs_data ? 0 : RAPTI_SIZES_ONLY);
    rapt_status status = rapti_attention_check(context, what, &inputs, kind, &p->forward);
    if (status == RAPT_OK && !o->lse) {
        status = rapti_fail(context, RAPT_ERR_ARGUMENT, "lse: null pointer");
    }
    if (status == RAPT_OK && (o->accumulate & ~1)) {
        status = rapti_fail(context, RAPT_ERR_ARGUMENT, "accumulate: %d, expected 0 or 1",
                            o->accumulate);
    }
    if (status == RAPT_OK) { status = check_gradients(context, o, needs_data, p); }
    if (status == RAPT_OK) { status = check_bias_gradient(context, o->dbias, needs_data, p); }
    if (status == RAPT_OK) { status = check_overlap(context, o); }
    return status;
}
