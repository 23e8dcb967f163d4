/* SPDX-License-Identifier: MIT
 * module_self.c: section 3.4, trainable self-attention: v1 with raw matrices, v2 with linear
 * layers, and the way from one to the other. */
#include "module.h"

#include "walk.h"

static rapt_status check_sizes(rapt_context *context, int64_t d_in, int64_t d_out) {
    const rapt_status status = rapti_size_check(context, "d_in", d_in, 1, RAPTI_MAX_FEATURES);
    if (status != RAPT_OK) { return status; }
    return rapti_size_check(context, "d_out", d_out, 1, RAPT_MAX_HEAD_SIZE);
}

/* ---- v1 ---- */

static void lay_out_v1(rapt_self_v1 *module, rapti_arena *arena) {
    module->w_query = rapti_weight_take(arena, module->d_in, module->d_out);
    module->w_key = rapti_weight_take(arena, module->d_in, module->d_out);
    module->w_value = rapti_weight_take(arena, module->d_in, module->d_out);
}

static rapt_status fill_v1(rapt_context *context, rapt_self_v1 *module, rapt_generator *generator) {
    const rapt_tensor *const matrix[] = {&module->w_query, &module->w_key, &module->w_value};
    rapt_status status = RAPT_OK;
    for (int role = 0; role < RAPTI_ROLES && status == RAPT_OK; role++) {
        const rapt_linear layer = {.weight = *matrix[role]};
        status = generator ? rapt_generator_uniform(context, generator, 0.0f, 1.0f, &layer.weight)
                           : rapti_linear_init(context, NULL, &layer);
    }
    return status;
}

rapt_status rapt_self_v1_init(rapt_context *context, rapt_self_v1 *module, int64_t d_in,
                              int64_t d_out, rapt_generator *generator) {
    if (module) { *module = (rapt_self_v1){0}; }
    rapt_status status = rapti_init_check(context, module, &d_in);
    if (status == RAPT_OK) { status = check_sizes(context, d_in, d_out); }
    if (status != RAPT_OK) { return status; }
    rapt_self_v1 made = {.context = context, .d_in = d_in, .d_out = d_out};
    rapti_arena arena = {0};
    lay_out_v1(&made, &arena);
    status = rapti_module_allocate(context, &arena);
    if (status != RAPT_OK) { return status; }
    lay_out_v1(&made, &arena);
    *module = made;
    status = fill_v1(context, module, generator);
    if (status != RAPT_OK) { rapt_self_v1_free(module); }
    return status;
}

/* The matrices as layers: q = x W is x (W^T)^T. */
static rapti_pass describe_v1(const rapt_self_v1 *module) {
    if (!module || !module->context) { return (rapti_pass){.module = module}; }
    return (rapti_pass){.module = module,
                        .context = module->context,
                        .layer = {{.weight = rapt_tensor_transpose(module->w_query)},
                                  {.weight = rapt_tensor_transpose(module->w_key)},
                                  {.weight = rapt_tensor_transpose(module->w_value)}},
                        .parts = 1,
                        .part_width = module->d_out,
                        .heads = 1,
                        .features = {module->d_in, module->d_in, module->d_in}};
}

rapt_status rapt_self_v1_forward(rapt_context *context, const rapt_self_v1 *module,
                                 const rapt_module_call *call) {
    const rapti_pass pass = describe_v1(module);
    return rapti_module_forward(context, &pass, call);
}

rapt_status rapt_self_v1_record_bytes(rapt_context *context, const rapt_self_v1 *module,
                                      const rapt_module_call *call, int64_t *bytes) {
    const rapti_pass pass = describe_v1(module);
    return rapti_module_record_bytes(context, &pass, call, bytes);
}

rapt_status rapt_self_v1_backward(rapt_context *context, const rapt_self_v1 *module,
                                  const rapt_module_call *call,
                                  const rapt_module_backward *backward,
                                  const rapt_self_v1 *gradients) {
    const rapti_pass pass = describe_v1(module), twin = describe_v1(gradients);
    return rapti_module_backward(context, &pass, call, backward, &twin);
}

void rapt_self_v1_free(rapt_self_v1 *module) {
    if (!module) { return; }
    if (module->context) { rapti_context_release(module->context, module->w_query.data); }
    *module = (rapt_self_v1){0};
}

int64_t rapt_self_v1_parameters(const rapt_self_v1 *module, rapt_parameter *list,
                                int64_t capacity) {
    rapti_listing listing = {list, capacity, 0};
    if (!module) { return 0; }
    rapti_list_tensor(&listing, "", "W_query", "", &module->w_query);
    rapti_list_tensor(&listing, "", "W_key", "", &module->w_key);
    rapti_list_tensor(&listing, "", "W_value", "", &module->w_value);
    return listing.count;
}

/* ---- v2 ---- */

static void lay_out_v2(rapt_self_v2 *module, rapti_arena *arena) {
    const rapt_self_v2_config *c = &module->config;
    rapt_linear *const layers[] = {&module->query, &module->key, &module->value};
    rapti_layers_take(arena, layers, c->d_out, (int64_t[]){c->d_in, c->d_in, c->d_in}, c->qkv_bias);
}

rapt_status rapt_self_v2_init(rapt_context *context, rapt_self_v2 *module,
                              const rapt_self_v2_config *config, rapt_generator *generator) {
    if (module) { *module = (rapt_self_v2){0}; }
    rapt_status status = rapti_init_check(context, module, config);
    if (status == RAPT_OK) { status = check_sizes(context, config->d_in, config->d_out); }
    if (status == RAPT_OK) { status = rapti_flag_check(context, "qkv_bias", config->qkv_bias); }
    if (status != RAPT_OK) { return status; }
    rapt_self_v2 made = {.context = context, .config = *config};
    rapti_arena arena = {0};
    lay_out_v2(&made, &arena);
    status = rapti_module_allocate(context, &arena);
    if (status != RAPT_OK) { return status; }
    lay_out_v2(&made, &arena);
    *module = made;
    rapt_linear *const layers[] = {&module->query, &module->key, &module->value};
    status = rapti_layers_init(context, generator, layers);
    if (status != RAPT_OK) { rapt_self_v2_free(module); }
    return status;
}

static rapti_pass describe_v2(const rapt_self_v2 *module) {
    if (!module || !module->context) { return (rapti_pass){.module = module}; }
    const int64_t d_in = module->config.d_in;
    return (rapti_pass){.module = module,
                        .context = module->context,
                        .layer = {module->query, module->key, module->value},
                        .parts = 1,
                        .part_width = module->config.d_out,
                        .heads = 1,
                        .features = {d_in, d_in, d_in}};
}

rapt_status rapt_self_v2_forward(rapt_context *context, const rapt_self_v2 *module,
                                 const rapt_module_call *call) {
    const rapti_pass pass = describe_v2(module);
    return rapti_module_forward(context, &pass, call);
}

rapt_status rapt_self_v2_record_bytes(rapt_context *context, const rapt_self_v2 *module,
                                      const rapt_module_call *call, int64_t *bytes) {
    const rapti_pass pass = describe_v2(module);
    return rapti_module_record_bytes(context, &pass, call, bytes);
}

rapt_status rapt_self_v2_backward(rapt_context *context, const rapt_self_v2 *module,
                                  const rapt_module_call *call,
                                  const rapt_module_backward *backward,
                                  const rapt_self_v2 *gradients) {
    const rapti_pass pass = describe_v2(module), twin = describe_v2(gradients);
    return rapti_module_backward(context, &pass, call, backward, &twin);
}

void rapt_self_v2_free(rapt_self_v2 *module) {
    if (!module) { return; }
    if (module->context) { rapti_context_release(module->context, module->query.weight.data); }
    *module = (rapt_self_v2){0};
}

int64_t rapt_self_v2_parameters(const rapt_self_v2 *module, rapt_parameter *list,
                                int64_t capacity) {
    rapti_listing listing = {list, capacity, 0};
    if (!module) { return 0; }
    rapti_list_linear(&listing, "", "W_query", &module->query);
    rapti_list_linear(&listing, "", "W_key", &module->key);
    rapti_list_linear(&listing, "", "W_value", &module->value);
    return listing.count;
}

/* ---- From one to the other (exercise 3.1) ---- */

static int all_zero(const rapt_tensor *t) {
    const int64_t count = t->data ? rapti_walk_count(t, t->rank) : 0;
    rapti_walk w = rapti_walk_start(t, t->rank, 0);
    for (int64_t n = 0; n < count; n++, rapti_walk_next(&w)) {
        if (((const float *)t->data)[w.offset] != 0.0f) { return 0; }
    }
    return 1;
}

/* Both exist, and their sizes agree. */
static rapt_status check_pair(const rapti_pass *to, const rapti_pass *from) {
    if (!to->context) { return RAPT_ERR_ARGUMENT; }
    const rapt_status status = rapti_module_ready(to->context, "from", from->module, from->context);
    if (status != RAPT_OK) { return status; }
    const int64_t to_in = to->features[RAPTI_QUERY], from_in = from->features[RAPTI_QUERY];
    if (to_in == from_in && to->part_width == from->part_width) { return RAPT_OK; }
    return rapti_fail(to->context, RAPT_ERR_SHAPE,
                      "d_in, d_out: %lld, %lld of `to`, %lld, %lld of `from`", (long long)to_in,
                      (long long)to->part_width, (long long)from_in, (long long)from->part_width);
}

rapt_status rapt_self_v1_from_v2(rapt_self_v1 *to, const rapt_self_v2 *from) {
    const rapti_pass v1 = describe_v1(to), v2 = describe_v2(from);
    const rapt_status status = check_pair(&v1, &v2);
    if (status != RAPT_OK) { return status; }
    for (int role = 0; role < RAPTI_ROLES; role++) {
        if (!all_zero(&v2.layer[role].bias)) {
            return rapti_fail(to->context, RAPT_ERR_ARGUMENT,
                              "from: a bias that is not zero has no place in v1");
        }
    }
    for (int role = 0; role < RAPTI_ROLES; role++) {
        rapti_tensor_copy(&v1.layer[role].weight, &v2.layer[role].weight);
    }
    return RAPT_OK;
}

rapt_status rapt_self_v2_from_v1(rapt_self_v2 *to, const rapt_self_v1 *from) {
    const rapti_pass v2 = describe_v2(to), v1 = describe_v1(from);
    const rapt_status status = check_pair(&v2, &v1);
    if (status != RAPT_OK) { return status; }
    for (int role = 0; role < RAPTI_ROLES; role++) {
        rapti_linear_init(to->context, NULL, &v2.layer[role]); /* zeros */
        rapti_tensor_copy(&v2.layer[role].weight, &v1.layer[role].weight);
    }
    return RAPT_OK;
}
