/* SPDX-License-Identifier: MIT
 * module_stacked.c: section 3.6.1, causal heads side by side. Their parameters lie in one block of
 * memory, role by role as in a split module, so that all projections are one product; attention
 * over all heads is one call. */
#include "module_causal.h"

#include <stdio.h>

/* The heads at the beginning of the block, then the parameters of all. */
static void lay_out(rapt_stacked *module, const rapt_causal_config *c, rapti_arena *arena) {
    const int64_t heads = module->heads, bytes = (int64_t)sizeof *module->head;
    module->head =
        rapti_arena_tensor(arena, RAPT_BOOL, 2, (int64_t[]){heads, bytes}, RAPTI_ALIGNMENT).data;
    const rapt_tensor weights = rapti_arena_tensor(
        arena, RAPT_F32, 4, (int64_t[]){RAPTI_ROLES, heads, c->d_out, c->d_in}, RAPTI_ALIGNMENT);
    rapt_tensor biases = {0};
    if (c->qkv_bias) {
        biases = rapti_arena_tensor(arena, RAPT_F32, 3, (int64_t[]){RAPTI_ROLES, heads, c->d_out},
                                    RAPTI_ALIGNMENT);
    }
    if (!module->head) { return; } /* counting */
    for (int64_t h = 0; h < heads; h++) {
        rapt_causal_attention *head = &module->head[h];
        *head = (rapt_causal_attention){.context = module->context, .config = *c};
        rapt_linear *const layers[RAPTI_ROLES] = {&head->query, &head->key, &head->value};
        for (int64_t role = 0; role < RAPTI_ROLES; role++) {
            const int64_t row = (role * heads + h) * c->d_out;
            layers[role]->weight = rapt_tensor_2d(
                RAPT_F32, (const float *)weights.data + row * c->d_in, c->d_out, c->d_in);
            if (c->qkv_bias) {
                layers[role]->bias =
                    rapt_tensor_1d(RAPT_F32, (const float *)biases.data + row, c->d_out);
            }
        }
    }
}

static rapt_status fill(rapt_context *context, rapt_stacked *module, rapt_generator *generator) {
    rapt_status status = RAPT_OK;
    for (int64_t h = 0; h < module->heads && status == RAPT_OK; h++) {
        rapt_causal_attention *head = &module->head[h];
        rapt_linear *const layers[RAPTI_ROLES] = {&head->query, &head->key, &head->value};
        status = rapti_layers_init(context, generator, layers);
    }
    return status;
}

rapt_status rapt_stacked_init(rapt_context *context, rapt_stacked *module,
                              const rapt_causal_config *config, int64_t heads,
                              rapt_generator *generator) {
    if (module) { *module = (rapt_stacked){0}; }
    rapt_status status = rapti_init_check(context, module, config);
    if (status == RAPT_OK) { status = rapti_causal_check(context, config); }
    if (status == RAPT_OK) {
        status = rapti_size_check(context, "heads", heads, 1, RAPTI_MAX_FEATURES);
    }
    if (status != RAPT_OK) { return status; }
    rapt_stacked made = {.context = context, .heads = heads};
    rapti_arena arena = {0};
    lay_out(&made, config, &arena);
    status = rapti_module_allocate(context, &arena);
    if (status != RAPT_OK) { return status; }
    lay_out(&made, config, &arena);
    *module = made;
    status = fill(context, module, generator);
    if (status != RAPT_OK) { rapt_stacked_free(module); }
    return status;
}

static rapti_pass describe(const rapt_stacked *module) {
    if (!module || !module->context) { return (rapti_pass){.module = module}; }
    const rapt_causal_config *c = &module->head[0].config;
    return (rapti_pass){.module = module,
                        .context = module->context,
                        .head = module->head,
                        .parts = module->heads,
                        .part_width = c->d_out,
                        .heads = module->heads,
                        .features = {c->d_in, c->d_in, c->d_in},
                        .context_length = c->context_length,
                        .causal = RAPT_CAUSAL_TOP_LEFT,
                        .route = c->route,
                        .dropout = c->dropout};
}

rapt_status rapt_stacked_forward(rapt_context *context, const rapt_stacked *module,
                                 const rapt_module_call *call) {
    const rapti_pass pass = describe(module);
    return rapti_module_forward(context, &pass, call);
}

rapt_status rapt_stacked_record_bytes(rapt_context *context, const rapt_stacked *module,
                                      const rapt_module_call *call, int64_t *bytes) {
    const rapti_pass pass = describe(module);
    return rapti_module_record_bytes(context, &pass, call, bytes);
}

rapt_status rapt_stacked_backward(rapt_context *context, const rapt_stacked *module,
                                  const rapt_module_call *call,
                                  const rapt_module_backward *backward,
                                  const rapt_stacked *gradients) {
    const rapti_pass pass = describe(module), twin = describe(gradients);
    return rapti_module_backward(context, &pass, call, backward, &twin);
}

void rapt_stacked_free(rapt_stacked *module) {
    if (!module) { return; }
    if (module->context) { rapti_context_release(module->context, module->head); }
    *module = (rapt_stacked){0};
}

int64_t rapt_stacked_parameters(const rapt_stacked *module, rapt_parameter *list,
                                int64_t capacity) {
    rapti_listing listing = {list, capacity, 0};
    if (!module) { return 0; }
    for (int64_t h = 0; h < module->heads; h++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "heads.%lld.", (long long)h);
        rapti_causal_list(&listing, prefix, &module->head[h]);
    }
    return listing.count;
}
