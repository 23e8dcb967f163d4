/* SPDX-License-Identifier: MIT
 * module_check.c: everything that can be wrong with a module's call, found before anything is
 * touched. The later axes of a mask and the values of key lengths are left to the attention call,
 * which checks them while steps are counted. */
#include "module.h"

#include "operand.h"

/* The same tensor with an axis of size 1 before `axis`. */
static rapt_tensor insert_axis(rapt_tensor t, int32_t axis) {
    for (int32_t later = t.rank++; later > axis; later--) {
        t.size[later] = t.size[later - 1];
        t.stride[later] = t.stride[later - 1];
    }
    t.size[axis] = 1;
    t.stride[axis] = 0;
    return t;
}

rapt_status rapti_sequence_check(rapt_context *context, const char *name, const rapt_tensor *t,
                                 int32_t rank, const int64_t expected[3], rapt_tensor *batched) {
    rapt_status status = rapti_operand_check(context, name, t, RAPT_F32, 2, 3);
    if (status == RAPT_OK) {
        status = rapti_operand_sizes(context, name, t, rank, expected + 3 - rank);
    }
    if (status != RAPT_OK) { return status; }
    *batched = rapti_tensor_normal(t);
    if (rank == 2) { *batched = insert_axis(*batched, 0); }
    return RAPT_OK;
}

static rapt_status check_length(rapt_context *context, const rapti_pass *pass, const char *name,
                                int64_t length) {
    if (pass->context_length == 0 || length <= pass->context_length) { return RAPT_OK; }
    return rapti_fail(context, RAPT_ERR_SHAPE, "%s: %lld tokens, context_length %lld", name,
                      (long long)length, (long long)pass->context_length);
}

/* The inputs of the three roles, each its own or that of the role before. */
static rapt_status check_sources(rapt_context *context, const rapti_pass *pass,
                                 const rapt_module_call *call, rapti_module_shape *shape) {
    static const char *const size_name[RAPTI_ROLES] = {"d_in", "key_dim", "value_dim"};
    static const char *const source_name[RAPTI_ROLES] = {"x", "key_source", "value_source"};
    const rapt_tensor *source[RAPTI_ROLES] = {call->x, call->key_source, call->value_source};
    if (!pass->cross && (call->key_source || call->value_source)) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT,
                          "key_source, value_source: this module takes none");
    }
    rapt_status status = rapti_operand_check(context, "x", call->x, RAPT_F32, 2, 3);
    if (status != RAPT_OK) { return status; }
    const int32_t rank = call->x->rank;
    int64_t size[3] = {-1, -1, -1};
    for (int role = RAPTI_QUERY; role < RAPTI_ROLES; role++) {
        const int64_t features = pass->features[role];
        if (!source[role]) {
            shape->source[role] = shape->source[role - 1];
            if (shape->source[role].size[2] == features) { continue; }
            return rapti_fail(context, RAPT_ERR_SHAPE, "%s: null, but %s is %lld, not %lld",
                              source_name[role], size_name[role], (long long)features,
                              (long long)shape->source[role].size[2]);
        }
        /* values are as many as keys; keys may be any number */
        size[1] = role == RAPTI_VALUE ? shape->source[RAPTI_KEY].size[1] : -1;
        size[2] = features;
        status = rapti_sequence_check(context, source_name[role], source[role], rank, size,
                                      &shape->source[role]);
        if (status != RAPT_OK) { return status; }
        size[0] = shape->source[role].size[0];
        status = check_length(context, pass, source_name[role], shape->source[role].size[1]);
        if (status != RAPT_OK) { return status; }
    }
    shape->batch = shape->source[RAPTI_QUERY].size[0];
    shape->tokens = shape->source[RAPTI_QUERY].size[1];
    shape->keys = shape->source[RAPTI_KEY].size[1];
    return RAPT_OK;
}

static rapt_status check_outputs(rapt_context *context, const rapti_pass *pass,
                                 const rapt_module_call *call, rapti_module_shape *shape) {
    const int32_t rank = call->x->rank;
    const int64_t features = pass->parts * pass->part_width;
    const int64_t out_size[3] = {shape->batch, shape->tokens, features};
    rapt_status status =
        rapti_sequence_check(context, "out", call->out, rank, out_size, &shape->out);
    shape->has_weights = call->weights != NULL;
    if (status != RAPT_OK || !call->weights) { return status; }
    const rapt_tensor *weights = call->weights;
    status = rapti_operand_check(context, "weights", weights, RAPT_F32, rank, rank + 1);
    if (status != RAPT_OK) { return status; }
    shape->mean = weights->rank == rank;
    const int64_t heads = shape->mean ? 1 : pass->heads;
    shape->weights = rapti_tensor_normal(weights);
    if (shape->mean) { shape->weights = insert_axis(shape->weights, rank - 2); }
    if (rank == 2) { shape->weights = insert_axis(shape->weights, 0); }
    shape->mean = shape->mean && pass->heads > 1;
    const int64_t size[4] = {shape->batch, heads, shape->tokens, shape->keys};
    return rapti_operand_sizes(context, "weights", &shape->weights, 4, size);
}

static rapt_status check_batch(rapt_context *context, const char *name, const rapt_tensor *t,
                               int64_t batch) {
    if (t->size[0] == batch || t->size[0] == 1) { return RAPT_OK; }
    return rapti_fail(context, RAPT_ERR_SHAPE, "%s: size %lld of axis 0, expected %lld or 1", name,
                      (long long)t->size[0], (long long)batch);
}

/* What the attention calls cannot see, because they get items of the batch and perhaps null data.
 */
static rapt_status check_masks(rapt_context *context, const rapt_module_call *call, int64_t batch) {
    const rapt_tensor *mask = call->mask, *key_lengths = call->key_lengths;
    rapt_status status = RAPT_OK;
    if (mask) {
        status = rapti_operand_check(context, "mask", mask, RAPT_BOOL, 1, 4);
        if (status == RAPT_OK && mask->rank == 4) {
            status = check_batch(context, "mask", mask, batch);
        }
    }
    if (status == RAPT_OK && key_lengths) {
        status = rapti_tensor_check(context, "key_lengths", key_lengths, 1, 1, 1);
        if (status == RAPT_OK) { status = check_batch(context, "key_lengths", key_lengths, batch); }
    }
    return status;
}

rapt_status rapti_module_check_written(rapt_context *context, const rapti_pass *pass,
                                       const rapt_module_call *call, const char *name,
                                       const rapt_tensor *t) {
    rapt_status status = rapti_operand_written(context, name, t);
    const rapt_record *r = call->record;
    rapt_tensor record; /* as bytes */
    if (r) { record = rapt_tensor_1d(RAPT_BOOL, r->data, r->data ? (int64_t)r->bytes : 0); }
    const struct {
        const char *name;
        const rapt_tensor *tensor;
    } other[] = {{"x", call->x},
                 {"key_source", call->key_source},
                 {"value_source", call->value_source},
                 {"mask", call->mask},
                 {"key_lengths", call->key_lengths},
                 {"record", r ? &record : NULL}};
    for (size_t i = 0; i < sizeof other / sizeof other[0] && status == RAPT_OK; i++) {
        if (!other[i].tensor) { continue; }
        status = rapti_operand_apart(context, name, t, other[i].name, other[i].tensor);
    }
    for (int64_t n = 0; n < RAPTI_ROLES * pass->parts && status == RAPT_OK; n++) {
        const rapt_linear layer = rapti_pass_layer(pass, n);
        status = rapti_operand_apart(context, name, t, "a weight of the module", &layer.weight);
        if (status == RAPT_OK && layer.bias.data) {
            status = rapti_operand_apart(context, name, t, "a bias of the module", &layer.bias);
        }
    }
    if (status == RAPT_OK && pass->out_proj) {
        status = rapti_operand_apart(context, name, t, "out_proj.weight", &pass->out_proj->weight);
        if (status == RAPT_OK && pass->out_proj->bias.data) {
            status = rapti_operand_apart(context, name, t, "out_proj.bias", &pass->out_proj->bias);
        }
    }
    return status;
}

rapt_status rapti_module_check_inputs(rapt_context *context, const rapti_pass *pass,
                                      const rapt_module_call *call, rapti_module_shape *shape) {
    if (!call) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "call: null pointer"); }
    *shape = (rapti_module_shape){0};
    rapt_status status = rapti_flag_check(context, "training", call->training);
    if (status == RAPT_OK) { status = check_sources(context, pass, call, shape); }
    return status == RAPT_OK ? check_masks(context, call, shape->batch) : status;
}

rapt_status rapti_module_check(rapt_context *context, const rapti_pass *pass,
                               const rapt_module_call *call, rapti_module_shape *shape) {
    rapt_status status = rapti_module_check_inputs(context, pass, call, shape);
    if (status == RAPT_OK) { status = check_outputs(context, pass, call, shape); }
    if (status == RAPT_OK) {
        status = rapti_module_check_written(context, pass, call, "out", call->out);
    }
    if (status == RAPT_OK && call->weights) {
        status = rapti_module_check_written(context, pass, call, "weights", call->weights);
        if (status == RAPT_OK) {
            status = rapti_operand_apart(context, "weights", call->weights, "out", call->out);
        }
    }
    return status;
}
