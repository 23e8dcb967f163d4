/* SPDX-License-Identifier: MIT
 * module_record.c: a record, the caller's memory for what backward needs to know of forward. */
#include "module.h"

#include <string.h>

/* The activations of all items. */
static void lay_out(rapti_arena *arena, const rapti_pass *pass, const rapti_module_shape *shape,
                    const rapt_module_call *call, rapti_activations *activations) {
    *activations = (rapti_activations){
        .items = shape->batch, .recorded = 1, .draws = rapti_module_draws(pass, call)};
    rapti_activations_take(arena, pass, shape, activations);
}

rapt_status rapti_record_open(rapt_context *context, const rapti_pass *pass,
                              const rapti_module_shape *shape, const rapt_module_call *call,
                              rapti_activations *activations) {
    const rapt_record *record = call->record;
    rapti_arena arena = {0};
    lay_out(&arena, pass, shape, call, activations);
    const int misaligned = (uintptr_t)record->data % RAPTI_ALIGNMENT != 0;
    if (arena.too_large || record->bytes < arena.bytes || misaligned ||
        (!record->data && arena.bytes > 0)) {
        return rapti_fail(context, RAPT_ERR_SCRATCH,
                          "record: %zu bytes%s, the call needs %llu, aligned to %d", record->bytes,
                          misaligned ? " misaligned" : "", (unsigned long long)arena.bytes,
                          RAPTI_ALIGNMENT);
    }
    arena = (rapti_arena){.base = record->data};
    lay_out(&arena, pass, shape, call, activations);
    return RAPT_OK;
}

rapti_record_mark rapti_record_mark_of(const rapti_pass *pass, const rapti_module_shape *shape,
                                       const rapt_module_call *call) {
    rapti_record_mark mark = {.magic = UINT64_C(0x7261707472656364), /* "raptrecd" */
                              .batch = shape->batch,
                              .tokens = shape->tokens,
                              .keys = shape->keys,
                              .features = pass->parts * pass->part_width};
    if (!call->training || pass->dropout == 0.0) { return mark; }
    mark.dropout = call->generator ? 1 : 2;
    if (!call->generator) {
        mark.seed = call->seed;
        mark.offset = call->offset;
    }
    return mark;
}

rapt_status rapti_record_check(rapt_context *context, const rapti_record_mark *recorded,
                               const rapti_record_mark *call) {
    if (memcmp(recorded, call, sizeof *call) == 0) { return RAPT_OK; }
    if (recorded->magic != call->magic) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "record: no forward call has filled it");
    }
    return rapti_fail(
        context, RAPT_ERR_ARGUMENT,
        "record: of another call (batch %lld, %lld tokens, %lld keys, dropout %llu %llu %llu; this "
        "one %lld, %lld, %lld, %llu %llu %llu)",
        (long long)recorded->batch, (long long)recorded->tokens, (long long)recorded->keys,
        (unsigned long long)recorded->dropout, (unsigned long long)recorded->seed,
        (unsigned long long)recorded->offset, (long long)call->batch, (long long)call->tokens,
        (long long)call->keys, (unsigned long long)call->dropout, (unsigned long long)call->seed,
        (unsigned long long)call->offset);
}

/* Bytes for a call whose inputs all have data. */
static rapt_status count_bytes(rapt_context *context, const rapti_pass *pass,
                               const rapt_module_call *call, uint64_t *bytes) {
    rapti_module_shape shape;
    const rapt_status status = rapti_module_check_inputs(context, pass, call, &shape);
    if (status != RAPT_OK) { return status; }
    rapti_activations activations;
    rapti_arena arena = {0};
    lay_out(&arena, pass, &shape, call, &activations);
    if (arena.too_large) {
        return rapti_fail(context, RAPT_ERR_SHAPE, "x: a record of more than 2^62 bytes");
    }
    *bytes = arena.bytes;
    return RAPT_OK;
}

/* The tensor as if it lay there. */
static const rapt_tensor *placed(const rapt_tensor *t, const float *at, rapt_tensor *copy) {
    if (!t) { return NULL; }
    *copy = *t;
    copy->data = (void *)(uintptr_t)at;
    return copy;
}

static int has_data(const rapt_tensor *t) { return !t || t->data; }

/* Equal inputs share a buffer of the record, which its padding makes larger or smaller than two.
 * While it is not known where inputs lie, they may turn out to be equal: the most that any way
 * needs. */
rapt_status rapti_module_record_bytes(rapt_context *context, const rapti_pass *pass,
                                      const rapt_module_call *call, int64_t *bytes) {
    static const float place[RAPTI_ROLES];
    enum { WAYS = 6 }; /* keys where x lies or elsewhere; values at either place or elsewhere */
    rapt_status status = rapti_module_ready(context, "module", pass->module, pass->context);
    if (status != RAPT_OK) { return status; }
    if (!call) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "call: null pointer"); }
    if (!bytes) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "bytes: null pointer"); }
    const int known =
        has_data(call->x) && has_data(call->key_source) && has_data(call->value_source);
    uint64_t most = 0;
    for (int way = 0; way < (known ? 1 : WAYS); way++) {
        rapt_tensor x, key_source, value_source;
        rapt_module_call sized = *call;
        if (!known) {
            sized.x = placed(call->x, &place[0], &x);
            sized.key_source = placed(call->key_source, &place[way % 2], &key_source);
            sized.value_source = placed(call->value_source, &place[way % 3], &value_source);
        }
        sized.mask = sized.key_lengths = NULL;
        uint64_t needed = 0;
        status = count_bytes(context, pass, &sized, &needed);
        if (status != RAPT_OK) { return status; }
        if (needed > most) { most = needed; }
    }
    *bytes = (int64_t)most;
    return RAPT_OK;
}
