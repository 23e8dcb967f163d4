/* SPDX-License-Identifier: MIT
 * module_causal.c: section 3.5, causal attention with one head. */
#include "module_causal.h"

rapt_status rapti_causal_check(rapt_context *context, const rapt_causal_config *c) {
    rapt_status status = rapti_size_check(context, "d_in", c->d_in, 1, RAPTI_MAX_FEATURES);
    if (status == RAPT_OK) {
        status = rapti_size_check(context, "d_out", c->d_out, 1, RAPT_MAX_HEAD_SIZE);
    }
    if (status == RAPT_OK) {
        status = rapti_size_check(context, "context_length", c->context_length, 1, INT64_MAX);
    }
    if (status == RAPT_OK) { status = rapti_dropout_check(context, c->dropout); }
    if (status == RAPT_OK) { status = rapti_flag_check(context, "qkv_bias", c->qkv_bias); }
    if (status == RAPT_OK && c->route != RAPT_MASK_BEFORE_SOFTMAX &&
        c->route != RAPT_MASK_AFTER_SOFTMAX) {
        status = rapti_fail(context, RAPT_ERR_ARGUMENT, "route: unknown value %d", (int)c->route);
    }
    return status;
}

rapt_linear rapti_causal_layer(const rapt_causal_attention *module, rapti_role role) {
    return role == RAPTI_QUERY ? module->query : role == RAPTI_KEY ? module->key : module->value;
}

void rapti_causal_list(rapti_listing *listing, const char *prefix,
                       const rapt_causal_attention *module) {
    rapti_list_linear(listing, prefix, "W_query", &module->query);
    rapti_list_linear(listing, prefix, "W_key", &module->key);
    rapti_list_linear(listing, prefix, "W_value", &module->value);
}

static void lay_out(rapt_causal_attention *module, rapti_arena *arena) {
    const rapt_causal_config *c = &module->config;
    rapt_linear *const layers[] = {&module->query, &module->key, &module->value};
    rapti_layers_take(arena, layers, c->d_out, (int64_t[]){c->d_in, c->d_in, c->d_in}, c->qkv_bias);
}

rapt_status rapt_causal_init(rapt_context *context, rapt_causal_attention *module,
                             const rapt_causal_config *config, rapt_generator *generator) {
    if (module) { *module = (rapt_causal_attention){0}; }
    rapt_status status = rapti_init_check(context, module, config);
    if (status == RAPT_OK) { status = rapti_causal_check(context, config); }
    if (status != RAPT_OK) { return status; }
    rapt_causal_attention made = {.context = context, .config = *config};
    rapti_arena arena = {0};
    lay_out(&made, &arena);
    status = rapti_module_allocate(context, &arena);
    if (status != RAPT_OK) { return status; }
    lay_out(&made, &arena);
    *module = made;
    rapt_linear *const layers[] = {&module->query, &module->key, &module->value};
    status = rapti_layers_init(context, generator, layers);
    if (status != RAPT_OK) { rapt_causal_free(module); }
    return status;
}

static rapti_pass describe(const rapt_causal_attention *module) {
    if (!module || !module->context) { return (rapti_pass){.module = module}; }
    const rapt_causal_config *c = &module->config;
    return (rapti_pass){.module = module,
                        .context = module->context,
                        .layer = {module->query, module->key, module->value},
                        .parts = 1,
                        .part_width = c->d_out,
                        .heads = 1,
                        .features = {c->d_in, c->d_in, c->d_in},
                        .context_length = c->context_length,
                        .causal = RAPT_CAUSAL_TOP_LEFT,
                        .route = c->route,
                        .dropout = c->dropout};
}

rapt_status rapt_causal_forward(rapt_context *context, const rapt_causal_attention *module,
                                const rapt_module_call *call) {
    const rapti_pass pass = describe(module);
    return rapti_module_forward(context, &pass, call);
}

rapt_status rapt_causal_record_bytes(rapt_context *context, const rapt_causal_attention *module,
                                     const rapt_module_call *call, int64_t *bytes) {
    const rapti_pass pass = describe(module);
    return rapti_module_record_bytes(context, &pass, call, bytes);
}

rapt_status rapt_causal_backward(rapt_context *context, const rapt_causal_attention *module,
                                 const rapt_module_call *call, const rapt_module_backward *backward,
                                 const rapt_causal_attention *gradients) {
    const rapti_pass pass = describe(module), twin = describe(gradients);
    return rapti_module_backward(context, &pass, call, backward, &twin);
}

void rapt_causal_free(rapt_causal_attention *module) {
    if (!module) { return; }
    if (module->context) { rapti_context_release(module->context, module->query.weight.data); }
    *module = (rapt_causal_attention){0};
}

int64_t rapt_causal_parameters(const rapt_causal_attention *module, rapt_parameter *list,
                               int64_t capacity) {
    rapti_listing listing = {list, capacity, 0};
    if (module) { rapti_causal_list(&listing, "", module); }
    return listing.count;
}
