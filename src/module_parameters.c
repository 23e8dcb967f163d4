/* SPDX-License-Identifier: MIT
 * module_parameters.c: what modules are made of: checks of a configuration, memory for parameters,
 * their initial values, layers, copies and names. */
#include "module_causal.h"

#include "operand.h"
#include "walk.h"

#include <stdio.h>
#include <string.h>

/* ---- Checks of init ---- */

rapt_status rapti_init_check(rapt_context *context, const void *module, const void *config) {
    const rapt_status status = rapti_operand_context(context);
    if (status != RAPT_OK) { return status; }
    if (!module) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "module: null pointer"); }
    if (!config) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "config: null pointer"); }
    return RAPT_OK;
}

rapt_status rapti_size_check(rapt_context *context, const char *name, int64_t size, int64_t least,
                             int64_t most) {
    if (size >= least && size <= most) { return RAPT_OK; }
    return rapti_fail(context, RAPT_ERR_SHAPE, "%s: %lld, expected %lld .. %lld", name,
                      (long long)size, (long long)least, (long long)most);
}

rapt_status rapti_flag_check(rapt_context *context, const char *name, int32_t flag) {
    if (flag == 0 || flag == 1) { return RAPT_OK; }
    return rapti_fail(context, RAPT_ERR_ARGUMENT, "%s: %d, expected 0 or 1", name, flag);
}

rapt_status rapti_dropout_check(rapt_context *context, double p) {
    if (p >= 0.0 && p <= 1.0) { return RAPT_OK; }
    return rapti_fail(context, RAPT_ERR_ARGUMENT, "dropout: %g, expected 0 .. 1", p);
}

rapt_status rapti_module_ready(rapt_context *caller, const char *name, const void *module,
                               const rapt_context *context) {
    const rapt_status status = rapti_operand_context(caller);
    if (status != RAPT_OK) { return status; }
    if (!module) { return rapti_fail(caller, RAPT_ERR_ARGUMENT, "%s: null pointer", name); }
    if (!context) { return rapti_fail(caller, RAPT_ERR_ARGUMENT, "%s: not initialised", name); }
    return RAPT_OK;
}

/* ---- Memory and values ---- */

rapt_status rapti_module_allocate(rapt_context *context, rapti_arena *arena) {
    if (arena->too_large) {
        return rapti_fail(context, RAPT_ERR_SHAPE,
                          "d_in, d_out: parameters of more than 2^62 "
                          "bytes");
    }
    const size_t bytes = (size_t)arena->bytes;
    void *memory = rapti_context_allocate(context, bytes);
    if (!memory) {
        return rapti_fail(context, RAPT_ERR_MEMORY, "parameters: %zu bytes could not be allocated",
                          bytes);
    }
    *arena = (rapti_arena){.base = memory};
    return RAPT_OK;
}

rapt_tensor rapti_weight_take(rapti_arena *arena, int64_t out, int64_t in) {
    return rapti_arena_tensor(arena, RAPT_F32, 2, (int64_t[]){out, in}, sizeof(float));
}

rapt_tensor rapti_bias_take(rapti_arena *arena, int32_t bias, int64_t out) {
    if (!bias) { return (rapt_tensor){0}; }
    return rapti_arena_tensor(arena, RAPT_F32, 1, &out, sizeof(float));
}

void rapti_layers_take(rapti_arena *arena, rapt_linear *const layers[RAPTI_ROLES], int64_t d_out,
                       const int64_t d_in[RAPTI_ROLES], int32_t bias) {
    for (int role = 0; role < RAPTI_ROLES; role++) {
        layers[role]->weight = rapti_weight_take(arena, d_out, d_in[role]);
    }
    for (int role = 0; role < RAPTI_ROLES; role++) {
        layers[role]->bias = rapti_bias_take(arena, bias, d_out);
    }
}

static void set_zero(const rapt_tensor *contiguous) {
    if (!contiguous->data) { return; }
    const int64_t count = rapti_walk_count(contiguous, contiguous->rank);
    memset(contiguous->data, 0, (size_t)count * sizeof(float));
}

rapt_status rapti_linear_init(rapt_context *context, rapt_generator *generator,
                              const rapt_linear *linear) {
    if (generator) {
        return rapt_generator_linear(context, generator, &linear->weight,
                                     linear->bias.data ? &linear->bias : NULL);
    }
    set_zero(&linear->weight);
    set_zero(&linear->bias);
    return RAPT_OK;
}

rapt_status rapti_layers_init(rapt_context *context, rapt_generator *generator,
                              rapt_linear *const layers[RAPTI_ROLES]) {
    rapt_status status = RAPT_OK;
    for (int role = 0; role < RAPTI_ROLES && status == RAPT_OK; role++) {
        status = rapti_linear_init(context, generator, layers[role]);
    }
    return status;
}

/* ---- Layers ---- */

rapt_linear rapti_pass_layer(const rapti_pass *pass, int64_t n) {
    const rapti_role role = (rapti_role)(n / pass->parts);
    return pass->head ? rapti_causal_layer(&pass->head[n % pass->parts], role) : pass->layer[role];
}

/* ---- Copies ---- */

void rapti_tensor_copy(const rapt_tensor *to, const rapt_tensor *from) {
    const int64_t count = from->data ? rapti_walk_count(from, from->rank) : 0;
    if (count == 0) { return; }
    rapti_walk t = rapti_walk_start(to, to->rank, 0), f = rapti_walk_start(from, from->rank, 0);
    for (int64_t n = 0; n < count; n++, rapti_walk_next(&t), rapti_walk_next(&f)) {
        ((float *)to->data)[t.offset] = ((const float *)from->data)[f.offset];
    }
}

void rapti_layer_copy(const rapt_linear *to, const rapt_linear *from) {
    rapti_tensor_copy(&to->weight, &from->weight);
    rapti_tensor_copy(&to->bias, &from->bias);
}

/* ---- Names ---- */

int64_t rapt_parameter_count(const rapt_parameter *list, int64_t count) {
    int64_t elements = 0;
    for (int64_t n = 0; list && n < count; n++) {
        elements += rapti_walk_count(&list[n].tensor, list[n].tensor.rank);
    }
    return elements;
}

void rapti_list_tensor(rapti_listing *listing, const char *prefix, const char *name,
                       const char *suffix, const rapt_tensor *tensor) {
    const int64_t n = listing->count;
    if (!tensor->data) { return; }
    listing->count++;
    if (!listing->list || n >= listing->capacity) { return; }
    rapt_parameter *parameter = &listing->list[n];
    snprintf(parameter->name, sizeof parameter->name, "%s%s%s", prefix, name, suffix);
    parameter->tensor = *tensor;
}

void rapti_list_linear(rapti_listing *listing, const char *prefix, const char *name,
                       const rapt_linear *linear) {
    rapti_list_tensor(listing, prefix, name, ".weight", &linear->weight);
    rapti_list_tensor(listing, prefix, name, ".bias", &linear->bias);
}
