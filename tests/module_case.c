/* SPDX-License-Identifier: MIT
 * module_case.c: see module_case.h. */
#include "module_case.h"

#include "harness.h"

#include <stdio.h>
#include <string.h>

/* ---- Drawing ---- */

module_sizes module_sizes_draw(uint64_t seed, module_kind kind) {
    rng r = rng_make(seed, 91);
    const module_kind any = (module_kind)rng_range(&r, 0, MODULE_KINDS - 1);
    module_sizes s = {.kind = kind == MODULE_KINDS ? any : kind};
    const int multi = s.kind == MODULE_STACKED || s.kind == MODULE_SPLIT;
    const int split = s.kind == MODULE_SPLIT;
    s.d_in = rng_range(&r, 1, rng_chance(&r, 20) ? 70 : 12);
    s.heads = multi ? rng_range(&r, 1, 5) : 1;
    s.head_dim = rng_range(&r, 1, rng_chance(&r, 20) ? 40 : 9);
    s.bias = s.kind == MODULE_V1 ? 0 : (int32_t)rng_range(&r, 0, 1);
    s.batch = rng_range(&r, rng_chance(&r, 4) ? 0 : 1, 4);
    s.tokens = rng_range(&r, rng_chance(&r, 4) ? 0 : 1, rng_chance(&r, 20) ? 80 : 12);
    s.keys = s.tokens;
    s.rank = s.batch == 1 && rng_chance(&r, 50) ? 2 : 3;
    if (split) {
        s.no_out_bias = (int32_t)rng_range(&r, 0, 1);
        s.no_out_proj = (int32_t)rng_range(&r, 0, 1);
        s.not_causal = (int32_t)rng_range(&r, 0, 1);
        if (rng_chance(&r, 50)) {
            s.key_dim = rng_range(&r, 1, 9);
            s.keys = rng_range(&r, rng_chance(&r, 10) ? 0 : 1, 20);
            s.value_dim = rng_chance(&r, 50) ? rng_range(&r, 1, 9) : 0;
        }
    }
    s.masked = (int32_t)(rng_chance(&r, 40) ? rng_range(&r, 1, 3) : 0);
    s.lengths = (int32_t)(rng_chance(&r, 40) ? rng_range(&r, 1, 2) : 0);
    s.weights = (int32_t)rng_range(&r, 0, 2);
    if (s.kind != MODULE_V1 && s.kind != MODULE_V2 && rng_chance(&r, 50)) {
        s.training = (int32_t)rng_range(&r, 0, 2);
        s.dropout = rng_chance(&r, 10) ? 1.0 : rng_uniform(&r, 0.0, 0.9);
    }
    s.strided = (int32_t)(rng_chance(&r, 50) ? rng_range(&r, 1, 2) : 0);
    return s;
}

const char *module_sizes_text(const module_sizes *s) {
    static const char *const name[] = {"v1", "v2", "causal", "after", "stacked", "split"};
    static char text[512];
    snprintf(text, sizeof text,
             "%s d_in %d heads %d head_dim %d bias %d dropout %g key_dim %d value_dim %d "
             "no_out_bias %d no_out_proj %d not_causal %d: batch %d tokens %d keys %d rank %d "
             "masked %d lengths %d weights %d training %d strided %d",
             name[s->kind], (int)s->d_in, (int)s->heads, (int)s->head_dim, s->bias, s->dropout,
             (int)s->key_dim, (int)s->value_dim, s->no_out_bias, s->no_out_proj, s->not_causal,
             (int)s->batch, (int)s->tokens, (int)s->keys, s->rank, s->masked, s->lengths,
             s->weights, s->training, s->strided);
    return text;
}

/* ---- The module ---- */

static rapt_causal_config causal_config(const module_sizes *s) {
    return (rapt_causal_config){.d_in = s->d_in,
                                .d_out = s->head_dim,
                                .context_length = 80,
                                .dropout = s->dropout,
                                .qkv_bias = s->bias,
                                .route = s->kind == MODULE_AFTER ? RAPT_MASK_AFTER_SOFTMAX
                                                                 : RAPT_MASK_BEFORE_SOFTMAX};
}

rapt_status module_case_init(module_case *c, rapt_context *context, const module_sizes *s,
                             rapt_generator *generator) {
    const rapt_self_v2_config v2 = {s->d_in, s->head_dim, s->bias};
    const rapt_causal_config causal = causal_config(s);
    const rapt_split_config split = {.d_in = s->d_in,
                                     .d_out = s->heads * s->head_dim,
                                     .heads = s->heads,
                                     .dropout = s->dropout,
                                     .qkv_bias = s->bias,
                                     .no_out_bias = s->no_out_bias,
                                     .no_out_proj = s->no_out_proj,
                                     .not_causal = s->not_causal,
                                     .key_dim = s->key_dim,
                                     .value_dim = s->value_dim ? s->value_dim : s->key_dim};
    c->s = *s;
    c->features = s->heads * s->head_dim;
    switch (s->kind) {
    case MODULE_V1: return rapt_self_v1_init(context, &c->m.v1, s->d_in, s->head_dim, generator);
    case MODULE_V2: return rapt_self_v2_init(context, &c->m.v2, &v2, generator);
    case MODULE_STACKED:
        return rapt_stacked_init(context, &c->m.stacked, &causal, s->heads, generator);
    case MODULE_SPLIT: return rapt_split_init(context, &c->m.split, &split, generator);
    default: return rapt_causal_init(context, &c->m.causal, &causal, generator);
    }
}

rapt_status module_case_forward(module_case *c, rapt_context *context) {
    switch (c->s.kind) {
    case MODULE_V1: return rapt_self_v1_forward(context, &c->m.v1, &c->call);
    case MODULE_V2: return rapt_self_v2_forward(context, &c->m.v2, &c->call);
    case MODULE_STACKED: return rapt_stacked_forward(context, &c->m.stacked, &c->call);
    case MODULE_SPLIT: return rapt_split_forward(context, &c->m.split, &c->call);
    default: return rapt_causal_forward(context, &c->m.causal, &c->call);
    }
}

void module_case_free(module_case *c) {
    switch (c->s.kind) {
    case MODULE_V1: rapt_self_v1_free(&c->m.v1); break;
    case MODULE_V2: rapt_self_v2_free(&c->m.v2); break;
    case MODULE_STACKED: rapt_stacked_free(&c->m.stacked); break;
    case MODULE_SPLIT: rapt_split_free(&c->m.split); break;
    default: rapt_causal_free(&c->m.causal); break;
    }
}

/* ---- The call ---- */

/* [batch, rows, features], without the batch for rank 2, in the layout of the case. */
static rapt_tensor sequence(rng *r, const module_sizes *s, int64_t rows, int64_t features,
                            int32_t strided) {
    const int64_t gap = strided == 1 ? 3 : 0;
    rapt_tensor t = strided == 2 ? POOL_NORMAL(r, s->batch, features, rows)
                                 : POOL_NORMAL(r, s->batch, rows, features + gap);
    t = strided == 2 ? rapt_tensor_transpose(t) : rapt_tensor_slice(t, 2, 0, features);
    if (s->rank == 3) return t;
    return rapt_tensor_strided(RAPT_F32, t.data, 2, t.size + 1, t.stride + 1);
}

static rapt_tensor draw_mask(rng *r, const module_sizes *s) {
    rapt_tensor t = s->masked == 1   ? POOL_BOOL(s->batch, 1, s->tokens, s->keys)
                    : s->masked == 2 ? POOL_BOOL(s->tokens, s->keys)
                                     : POOL_BOOL(s->batch, s->heads, s->tokens, s->keys);
    for (int64_t n = 0; n < pool_count(&t); n++) {
        ((uint8_t *)t.data)[n] = (uint8_t)(rng_chance(r, 70) ? rng_range(r, 1, 255) : 0);
    }
    return t;
}

static rapt_tensor draw_lengths(rng *r, const module_sizes *s) {
    const int64_t count = s->lengths == 1 ? s->batch : 1;
    rapt_tensor t = pool_tensor(s->lengths == 1 ? RAPT_I32 : RAPT_I64, 1, &count);
    for (int64_t n = 0; n < count; n++) {
        const int64_t length = rng_range(r, 0, s->keys);
        if (s->lengths == 1) {
            ((int32_t *)t.data)[n] = (int32_t)length;
        } else {
            ((int64_t *)t.data)[n] = length;
        }
    }
    return t;
}

static rapt_tensor make_weights(const module_sizes *s) {
    const int64_t size[4] = {s->batch, s->heads, s->tokens, s->keys};
    const int64_t mean[3] = {s->batch, s->tokens, s->keys};
    const int skip = s->rank == 2;
    return s->weights == 1 ? pool_tensor(RAPT_F32, 4 - skip, size + skip)
                           : pool_tensor(RAPT_F32, 3 - skip, mean + skip);
}

void module_case_make(module_case *c, rapt_context *context, const module_sizes *s, uint64_t seed) {
    rng r = rng_make(seed, 17);
    rapt_generator_seed(&c->generator, seed);
    const rapt_status status = module_case_init(c, context, s, &c->generator);
    REQUIRE(status == RAPT_OK, "init: %s\n%s", rapt_context_message(context), module_sizes_text(s));
    c->x = sequence(&r, s, s->tokens, s->d_in, s->strided);
    c->out = sequence(&r, s, s->tokens, c->features, s->strided);
    c->call = (rapt_module_call){
        .x = &c->x, .out = &c->out, .training = s->training > 0, .seed = seed, .offset = 3};
    if (s->key_dim) {
        c->key_source = sequence(&r, s, s->keys, s->key_dim, s->strided);
        c->call.key_source = &c->key_source;
    }
    if (s->value_dim) {
        c->value_source = sequence(&r, s, s->keys, s->value_dim, s->strided);
        c->call.value_source = &c->value_source;
    }
    if (s->masked) {
        c->mask = draw_mask(&r, s);
        c->call.mask = &c->mask;
    }
    if (s->lengths) {
        c->key_lengths = draw_lengths(&r, s);
        c->call.key_lengths = &c->key_lengths;
    }
    if (s->weights) {
        c->weights = make_weights(s);
        c->call.weights = &c->weights;
    }
    if (s->training == 2) c->call.generator = &c->generator;
}

/* ---- For the oracle ---- */

/* Layers of all heads below each other. */
static rapt_linear join(const rapt_stacked *m,
                        const rapt_linear *(*of)(const rapt_causal_attention *)) {
    const rapt_linear *first = of(&m->head[0]);
    const int64_t d = first->weight.size[0], in = first->weight.size[1];
    rapt_linear all = {.weight = POOL_F32(m->heads * d, in)};
    if (first->bias.data) all.bias = POOL_F32(m->heads * d);
    for (int64_t h = 0; h < m->heads; h++) {
        const rapt_linear *part = of(&m->head[h]);
        memcpy((float *)all.weight.data + h * d * in, part->weight.data,
               (size_t)(d * in) * sizeof(float));
        if (first->bias.data) {
            memcpy((float *)all.bias.data + h * d, part->bias.data, (size_t)d * sizeof(float));
        }
    }
    return all;
}

static const rapt_linear *query_of(const rapt_causal_attention *m) { return &m->query; }
static const rapt_linear *key_of(const rapt_causal_attention *m) { return &m->key; }
static const rapt_linear *value_of(const rapt_causal_attention *m) { return &m->value; }

/* nn.Dropout's draws: one head after the other for stacked heads. */
static const uint8_t *draw_keep(const module_case *c, rapt_context *context) {
    const module_sizes *s = &c->s;
    rapt_generator g = c->generator;
    const rapt_tensor keep = POOL_BOOL(s->batch, s->heads, s->tokens, s->keys);
    const int64_t parts = s->kind == MODULE_STACKED ? s->heads : 1;
    for (int64_t part = 0; part < parts; part++) {
        const rapt_tensor one = rapt_tensor_slice(keep, 1, part, s->heads / parts);
        REQUIRE(rapt_generator_keep(context, &g, s->dropout, &one) == RAPT_OK, "keep");
    }
    return keep.data;
}

module_form module_case_form(const module_case *c, rapt_context *context) {
    const module_sizes *s = &c->s;
    module_form form = {.heads = s->heads, .causal = s->kind >= MODULE_CAUSAL && !s->not_causal};
    form.dropout = s->dropout;
    switch (s->kind) {
    case MODULE_V1:
        form.query.weight = rapt_tensor_transpose(c->m.v1.w_query);
        form.key.weight = rapt_tensor_transpose(c->m.v1.w_key);
        form.value.weight = rapt_tensor_transpose(c->m.v1.w_value);
        break;
    case MODULE_V2:
        form.query = c->m.v2.query;
        form.key = c->m.v2.key;
        form.value = c->m.v2.value;
        break;
    case MODULE_STACKED:
        form.query = join(&c->m.stacked, query_of);
        form.key = join(&c->m.stacked, key_of);
        form.value = join(&c->m.stacked, value_of);
        break;
    case MODULE_SPLIT:
        form.query = c->m.split.query;
        form.key = c->m.split.key;
        form.value = c->m.split.value;
        form.out_proj = c->m.split.out_proj;
        break;
    default:
        form.query = c->m.causal.query;
        form.key = c->m.causal.key;
        form.value = c->m.causal.value;
        break;
    }
    if (s->training == 2) form.keep = draw_keep(c, context);
    return form;
}
