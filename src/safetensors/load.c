/* SPDX-License-Identifier: MIT
 * load.c: tensors of an open file, as views of its memory or copied into parameters. */
#include "runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHAPE_TEXT = 24 * (RAPT_MAX_RANK + 1) };

/* Sizes as text, "[2, 3]", for messages. */
static const char *shape_text(char text[SHAPE_TEXT], int64_t rank, const int64_t *size) {
    int at = snprintf(text, SHAPE_TEXT, "[");
    for (int64_t axis = 0; axis < rank && axis < RAPT_MAX_RANK; axis++) {
        at += snprintf(text + at, (size_t)(SHAPE_TEXT - at), "%s%lld", axis ? ", " : "",
                       (long long)size[axis]);
    }
    snprintf(text + at, (size_t)(SHAPE_TEXT - at), "%s", rank > RAPT_MAX_RANK ? ", ...]" : "]");
    return text;
}

static rapt_status check_open(rapt_safetensors *file) {
    if (!file) { return RAPT_ERR_ARGUMENT; }
    if (file->bytes) { return RAPT_OK; }
    return rapti_safetensors_fail(file->message, RAPT_ERR_ARGUMENT, "the file is not open");
}

/* The tensor's memory, or a copy of it if that is not aligned for its elements: writers that do not
 * pad the header, or do not sort by size of element, are allowed. */
static const void *aligned_data(const rapt_safetensors *file, rapti_safetensors_entry *entry) {
    const unsigned char *data = file->data + entry->begin;
    const size_t bytes = (size_t)(entry->end - entry->begin);
    if ((uintptr_t)data % (uintptr_t)(entry->type->bits / 8) == 0 || bytes == 0) { return data; }
    if (!entry->aligned) {
        entry->aligned = malloc(bytes);
        if (entry->aligned) { memcpy(entry->aligned, data, bytes); }
    }
    return entry->aligned;
}

rapt_status rapt_safetensors_get(rapt_safetensors *file, const char *name, rapt_tensor *view) {
    const rapt_status status = check_open(file);
    if (status != RAPT_OK) { return status; }
    if (!name || !view) {
        return rapti_safetensors_fail(file->message, RAPT_ERR_ARGUMENT, "%s: null pointer",
                                      name ? "view" : "name");
    }
    rapti_safetensors_entry *entry = rapti_safetensors_find(file, "", name);
    if (!entry) {
        return rapti_safetensors_fail(file->message, RAPT_ERR_ARGUMENT,
                                      "no tensor %.160s in the file", name);
    }
    if (!entry->type->dtype) {
        return rapti_safetensors_fail(file->message, RAPT_ERR_DTYPE, "%.120s: no view of dtype %s",
                                      name, entry->type->name);
    }
    if (entry->rank > RAPT_MAX_RANK) {
        return rapti_safetensors_fail(file->message, RAPT_ERR_SHAPE,
                                      "%.120s: rank %lld, at most %d can be viewed", name,
                                      (long long)entry->rank, RAPT_MAX_RANK);
    }
    const void *data = aligned_data(file, entry);
    if (!data) {
        return rapti_safetensors_fail(file->message, RAPT_ERR_MEMORY,
                                      "%.120s: no memory for %lld bytes", name,
                                      (long long)(entry->end - entry->begin));
    }
    *view = rapt_tensor_contiguous((rapt_dtype)entry->type->dtype, data, (int32_t)entry->rank,
                                   entry->size);
    return RAPT_OK;
}

/* The file has what the parameter wants, and the parameter can be written. */
static rapt_status check_parameter(rapt_safetensors *file, const char *prefix,
                                   const rapt_parameter *parameter) {
    const rapt_tensor *t = &parameter->tensor;
    int64_t bytes = 0;
    const rapt_status status = rapti_safetensors_check(file->message, parameter, &bytes);
    if (status != RAPT_OK) { return status; }
    if (rapti_safetensors_overlaps_itself(t)) {
        return rapti_safetensors_fail(file->message, RAPT_ERR_OVERLAP, "%s: overlaps itself",
                                      parameter->name);
    }
    const rapti_safetensors_entry *entry = rapti_safetensors_find(file, prefix, parameter->name);
    if (!entry) {
        return rapti_safetensors_fail(file->message, RAPT_ERR_ARGUMENT,
                                      "no tensor %.80s%s in the file", prefix, parameter->name);
    }
    if (entry->type->dtype != (int32_t)t->dtype) {
        return rapti_safetensors_fail(
            file->message, RAPT_ERR_DTYPE, "%s: dtype %s in the file, expected %s", parameter->name,
            entry->type->name, rapti_safetensors_dtype_of(t->dtype)->name);
    }
    if (entry->rank != t->rank ||
        memcmp(entry->size, t->size, (size_t)t->rank * sizeof *t->size) != 0) {
        char found[SHAPE_TEXT], wanted[SHAPE_TEXT];
        return rapti_safetensors_fail(file->message, RAPT_ERR_SHAPE,
                                      "%s: shape %.80s in the file, expected %.80s",
                                      parameter->name, shape_text(found, entry->rank, entry->size),
                                      shape_text(wanted, t->rank, t->size));
    }
    return RAPT_OK;
}

static void copy_out(const unsigned char *packed, const rapt_tensor *to) {
    rapti_safetensors_runs runs = rapti_safetensors_runs_of(to);
    for (void *run; (run = rapti_safetensors_next_run(&runs)); packed += runs.bytes) {
        memcpy(run, packed, runs.bytes);
    }
}

rapt_status rapt_safetensors_load(rapt_safetensors *file, const char *prefix,
                                  const rapt_parameter *list, int64_t count) {
    rapt_status status = check_open(file);
    if (status != RAPT_OK) { return status; }
    if (count < 0 || (!list && count > 0)) {
        return rapti_safetensors_fail(file->message, RAPT_ERR_ARGUMENT,
                                      list ? "count %lld is negative" : "list: null, count %lld",
                                      (long long)count);
    }
    if (!prefix) { prefix = ""; }
    for (int64_t i = 0; i < count && status == RAPT_OK; i++) {
        status = check_parameter(file, prefix, &list[i]);
    }
    for (int64_t i = 0; i < count && status == RAPT_OK; i++) {
        const rapti_safetensors_entry *entry = rapti_safetensors_find(file, prefix, list[i].name);
        copy_out(file->data + entry->begin, &list[i].tensor);
    }
    return status;
}
