/* SPDX-License-Identifier: MIT
 * module_split.c: section 3.6.2, multi-head attention by splitting one projection for each role,
 * and the ways between it and stacked heads. */
#include "module_causal.h"

static rapt_status check_sizes(rapt_context *context, const rapt_split_config *c) {
    const struct {
        const char *name;
        int64_t size, least, most;
    } size[] = {{"d_in", c->d_in, 1, RAPTI_MAX_FEATURES},
                {"d_out", c->d_out, 1, RAPTI_MAX_FEATURES},
                {"heads", c->heads, 1, RAPTI_MAX_FEATURES},
                {"context_length", c->context_length, 0, INT64_MAX},
                {"key_dim", c->key_dim, 0, RAPTI_MAX_FEATURES},
                {"value_dim", c->value_dim, 0, RAPTI_MAX_FEATURES}};
    rapt_status status = RAPT_OK;
    for (size_t n = 0; n < sizeof size / sizeof size[0] && status == RAPT_OK; n++) {
        status = rapti_size_check(context, size[n].name, size[n].size, size[n].least, size[n].most);
    }
    if (status != RAPT_OK) { return status; }
    if (c->d_out % c->heads != 0) {
        return rapti_fail(context, RAPT_ERR_SHAPE, "d_out: %lld is not a multiple of %lld heads",
                          (long long)c->d_out, (long long)c->heads);
    }
    return rapti_size_check(context, "d_out / heads", c->d_out / c->heads, 1, RAPT_MAX_HEAD_SIZE);
}

static rapt_status check_config(rapt_context *context, const rapt_split_config *c) {
    rapt_status status = check_sizes(context, c);
    if (status == RAPT_OK) { status = rapti_dropout_check(context, c->dropout); }
    if (status == RAPT_OK) { status = rapti_flag_check(context, "qkv_bias", c->qkv_bias); }
    if (status == RAPT_OK) { status = rapti_flag_check(context, "no_out_bias", c->no_out_bias); }
    if (status == RAPT_OK) { status = rapti_flag_check(context, "no_out_proj", c->no_out_proj); }
    if (status == RAPT_OK) { status = rapti_flag_check(context, "not_causal", c->not_causal); }
    return status;
}

static void lay_out(rapt_split *module, rapti_arena *arena) {
    const rapt_split_config *c = &module->config;
    const int64_t d_in[] = {c->d_in, c->key_dim, c->value_dim};
    rapt_linear *const layers[] = {&module->query, &module->key, &module->value};
    rapti_layers_take(arena, layers, c->d_out, d_in, c->qkv_bias);
    if (!c->no_out_proj) {
        module->out_proj.weight = rapti_weight_take(arena, c->d_out, c->d_out);
        module->out_proj.bias = rapti_bias_take(arena, !c->no_out_bias, c->d_out);
    }
}

static rapt_status fill(rapt_context *context, rapt_split *module, rapt_generator *generator) {
    rapt_linear *const layers[] = {&module->query, &module->key, &module->value};
    rapt_status status = rapti_layers_init(context, generator, layers);
    if (status == RAPT_OK && !module->config.no_out_proj) {
        status = rapti_linear_init(context, generator, &module->out_proj);
    }
    return status;
}

rapt_status rapt_split_init(rapt_context *context, rapt_split *module,
                            const rapt_split_config *config, rapt_generator *generator) {
    if (module) { *module = (rapt_split){0}; }
    rapt_status status = rapti_init_check(context, module, config);
    if (status == RAPT_OK) { status = check_config(context, config); }
    if (status != RAPT_OK) { return status; }
    rapt_split made = {.context = context, .config = *config};
    if (made.config.key_dim == 0) { made.config.key_dim = config->d_in; }
    if (made.config.value_dim == 0) { made.config.value_dim = config->d_in; }
    rapti_arena arena = {0};
    lay_out(&made, &arena);
    status = rapti_module_allocate(context, &arena);
    if (status != RAPT_OK) { return status; }
    lay_out(&made, &arena);
    *module = made;
    status = fill(context, module, generator);
    if (status != RAPT_OK) { rapt_split_free(module); }
    return status;
}

static rapti_pass describe(const rapt_split *module) {
    if (!module || !module->context) { return (rapti_pass){.module = module}; }
    const rapt_split_config *c = &module->config;
    return (rapti_pass){.module = module,
                        .context = module->context,
                        .layer = {module->query, module->key, module->value},
                        .parts = 1,
                        .part_width = c->d_out,
                        .heads = c->heads,
                        .features = {c->d_in, c->key_dim, c->value_dim},
                        .context_length = c->context_length,
                        .cross = 1,
                        .causal = c->not_causal ? RAPT_CAUSAL_NONE : RAPT_CAUSAL_TOP_LEFT,
                        .dropout = c->dropout,
                        .out_proj = c->no_out_proj ? NULL : &module->out_proj};
}

rapt_status rapt_split_forward(rapt_context *context, const rapt_split *module,
                               const rapt_module_call *call) {
    const rapti_pass pass = describe(module);
    return rapti_module_forward(context, &pass, call);
}

rapt_status rapt_split_record_bytes(rapt_context *context, const rapt_split *module,
                                    const rapt_module_call *call, int64_t *bytes) {
    const rapti_pass pass = describe(module);
    return rapti_module_record_bytes(context, &pass, call, bytes);
}

rapt_status rapt_split_backward(rapt_context *context, const rapt_split *module,
                                const rapt_module_call *call, const rapt_module_backward *backward,
                                const rapt_split *gradients) {
    const rapti_pass pass = describe(module), twin = describe(gradients);
    return rapti_module_backward(context, &pass, call, backward, &twin);
}

void rapt_split_free(rapt_split *module) {
    if (!module) { return; }
    if (module->context) { rapti_context_release(module->context, module->query.weight.data); }
    *module = (rapt_split){0};
}

int64_t rapt_split_parameters(const rapt_split *module, rapt_parameter *list, int64_t capacity) {
    rapti_listing listing = {list, capacity, 0};
    if (!module) { return 0; }
    rapti_list_linear(&listing, "", "W_query", &module->query);
    rapti_list_linear(&listing, "", "W_key", &module->key);
    rapti_list_linear(&listing, "", "W_value", &module->value);
    rapti_list_linear(&listing, "", "out_proj", &module->out_proj);
    return listing.count;
}

/* ---- To and from stacked heads ---- */

/* Head h of a split module's layer. */
static rapt_linear head_of(const rapt_split *module, rapti_role role, int64_t h) {
    const int64_t d = module->config.d_out / module->config.heads;
    rapt_linear part = describe(module).layer[role];
    part.weight = rapt_tensor_slice(part.weight, 0, h * d, d);
    if (part.bias.data) { part.bias = rapt_tensor_slice(part.bias, 0, h * d, d); }
    return part;
}

static rapt_status match(rapt_context *context, const char *name, const rapt_linear *split,
                         const rapt_linear *stacked) {
    const int64_t *a = split->weight.size, *b = stacked->weight.size;
    if (a[0] != b[0] || a[1] != b[1]) {
        return rapti_fail(context, RAPT_ERR_SHAPE,
                          "%s: [%lld, %lld] for each head split, [%lld, %lld] stacked", name,
                          (long long)a[0], (long long)a[1], (long long)b[0], (long long)b[1]);
    }
    if (!split->bias.data != !stacked->bias.data) {
        return rapti_fail(context, RAPT_ERR_SHAPE, "%s: only the %s module has a bias", name,
                          split->bias.data ? "split" : "stacked");
    }
    return RAPT_OK;
}

static rapt_status check_pair(rapt_context *context, const rapt_split *split,
                              const rapt_stacked *stacked) {
    static const char *const name[RAPTI_ROLES] = {"W_query", "W_key", "W_value"};
    if (split->config.heads != stacked->heads) {
        return rapti_fail(context, RAPT_ERR_SHAPE, "heads: %lld split, %lld stacked",
                          (long long)split->config.heads, (long long)stacked->heads);
    }
    for (int64_t n = 0; n < RAPTI_ROLES * stacked->heads; n++) {
        const rapti_role role = (rapti_role)(n % RAPTI_ROLES);
        const rapt_linear a = head_of(split, role, n / RAPTI_ROLES);
        const rapt_linear b = rapti_causal_layer(&stacked->head[n / RAPTI_ROLES], role);
        const rapt_status status = match(context, name[role], &a, &b);
        if (status != RAPT_OK) { return status; }
    }
    return RAPT_OK;
}

rapt_status rapt_split_from_stacked(rapt_split *to, const rapt_stacked *from) {
    if (!to || !to->context) { return RAPT_ERR_ARGUMENT; }
    rapt_status status = rapti_module_ready(to->context, "from", from, from ? from->context : NULL);
    if (status == RAPT_OK) { status = check_pair(to->context, to, from); }
    if (status != RAPT_OK) { return status; }
    for (int64_t n = 0; n < RAPTI_ROLES * from->heads; n++) {
        const rapti_role role = (rapti_role)(n % RAPTI_ROLES);
        const rapt_linear a = head_of(to, role, n / RAPTI_ROLES);
        const rapt_linear b = rapti_causal_layer(&from->head[n / RAPTI_ROLES], role);
        rapti_layer_copy(&a, &b);
    }
    return RAPT_OK;
}

rapt_status rapt_stacked_from_split(rapt_stacked *to, const rapt_split *from) {
    if (!to || !to->context) { return RAPT_ERR_ARGUMENT; }
    rapt_status status = rapti_module_ready(to->context, "from", from, from ? from->context : NULL);
    if (status == RAPT_OK) { status = check_pair(to->context, from, to); }
    if (status != RAPT_OK) { return status; }
    for (int64_t n = 0; n < RAPTI_ROLES * to->heads; n++) {
        const rapti_role role = (rapti_role)(n % RAPTI_ROLES);
        const rapt_linear a = rapti_causal_layer(&to->head[n / RAPTI_ROLES], role);
        const rapt_linear b = head_of(from, role, n / RAPTI_ROLES);
        rapti_layer_copy(&a, &b);
    }
    return RAPT_OK;
}
