/* SPDX-License-Identifier: MIT
 * save.c: parameters into a file, byte for byte as the reference implementation writes them: large
 * elements first, then by name; compact JSON, padded with spaces to a multiple of 8 bytes, so that
 * every tensor is aligned. */
#include "replace.h"
#include "runs.h"

#include <stdlib.h>
#include <string.h>

/* A parameter on its way into the file. */
typedef struct item {
    const rapt_parameter *parameter;
    const rapti_safetensors_dtype *type;
    int64_t bytes;
} item;

static int compare_items(const void *left, const void *right) {
    const item *a = left, *b = right;
    const int x = rapti_safetensors_dtype_order(a->type);
    const int y = rapti_safetensors_dtype_order(b->type);
    return x != y ? x - y : strcmp(a->parameter->name, b->parameter->name);
}

/* {"dtype": .., "shape": .., "data_offsets": ..}; null without memory. */
static json_t *describe(const item *tensor, int64_t begin) {
    json_t *shape = json_array();
    for (int32_t axis = 0; axis < tensor->parameter->tensor.rank; axis++) {
        const json_int_t size = tensor->parameter->tensor.size[axis];
        if (json_array_append_new(shape, json_integer(size)) != 0) {
            json_decref(shape);
            return NULL;
        }
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", tensor->type->name, "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)(begin + tensor->bytes));
}

/* Jansson refuses other text, but as if memory had run out. */
static rapt_status check_utf8(const char *name, char *message) {
    json_t *checked = json_string(name), *unchecked = json_string_nocheck(name);
    const rapt_status status = checked ? RAPT_OK : unchecked ? RAPT_ERR_ARGUMENT : RAPT_ERR_MEMORY;
    json_decref(checked);
    json_decref(unchecked);
    if (status == RAPT_OK) { return status; }
    return rapti_safetensors_fail(
        message, status, status == RAPT_ERR_ARGUMENT ? "name %s: not UTF-8" : "name %s: no memory",
        name);
}

static rapt_status add_to_header(json_t *header, const item *tensor, int64_t begin, char *message) {
    const char *name = tensor->parameter->name;
    if (strcmp(name, "__metadata__") == 0) {
        return rapti_safetensors_fail(message, RAPT_ERR_ARGUMENT, "%s: reserved name", name);
    }
    if (json_object_get(header, name)) {
        return rapti_safetensors_fail(message, RAPT_ERR_ARGUMENT, "%s: listed twice", name);
    }
    const rapt_status status = check_utf8(name, message);
    if (status != RAPT_OK) { return status; }
    if (json_object_set_new(header, name, describe(tensor, begin)) != 0) {
        return rapti_safetensors_fail(message, RAPT_ERR_MEMORY, "%s: no memory", name);
    }
    return RAPT_OK;
}

/* The header's text, to be freed. */
static rapt_status make_header(const item *items, int64_t count, char **text, char *message) {
    json_t *header = json_object();
    int64_t begin = 0;
    rapt_status status = RAPT_OK;
    for (int64_t i = 0; i < count && status == RAPT_OK; i++) {
        status = add_to_header(header, &items[i], begin, message);
        begin += items[i].bytes;
    }
    if (status == RAPT_OK && !(*text = json_dumps(header, JSON_COMPACT))) {
        status = rapti_safetensors_fail(message, RAPT_ERR_MEMORY, "no memory for the header");
    }
    json_decref(header);
    return status;
}

static int write_header(FILE *stream, const char *text, uint64_t length) {
    const uint64_t padded = (length + 7) / 8 * 8;
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) { bytes[i] = (unsigned char)(padded >> 8 * i); }
    return fwrite(bytes, 1, 8, stream) == 8 && fwrite(text, 1, length, stream) == length &&
           fwrite("       ", 1, padded - length, stream) == padded - length;
}

static int write_tensor(FILE *stream, const rapt_tensor *t) {
    rapti_safetensors_runs runs = rapti_safetensors_runs_of(t);
    for (const void *run; (run = rapti_safetensors_next_run(&runs));) {
        if (fwrite(run, 1, runs.bytes, stream) != runs.bytes) { return 0; }
    }
    return 1;
}

static rapt_status write_file(const char *path, const char *header, const item *items,
                              int64_t count, char *message) {
    const size_t length = strlen(header);
    if (length > RAPTI_SAFETENSORS_MAX_HEADER - 7) {
        return rapti_safetensors_fail(message, RAPT_ERR_ARGUMENT,
                                      "list: a header of %zu bytes is larger than the limit %d",
                                      length, RAPTI_SAFETENSORS_MAX_HEADER);
    }
    rapti_safetensors_replacement new;
    rapt_status status = rapti_safetensors_replace(&new, path, message);
    if (status != RAPT_OK) { return status; }
    int written = write_header(new.stream, header, length);
    for (int64_t i = 0; i < count && written; i++) {
        written = write_tensor(new.stream, &items[i].parameter->tensor);
    }
    if (!written) { status = rapti_safetensors_fail_errno(message, "write", path); }
    return rapti_safetensors_finish(&new, status, message);
}

static rapt_status check_list(const rapt_parameter *list, int64_t count, item *items,
                              char *message) {
    int64_t total = 0;
    for (int64_t i = 0; i < count; i++) {
        const rapt_status status = rapti_safetensors_check(message, &list[i], &items[i].bytes);
        if (status != RAPT_OK) { return status; }
        items[i].parameter = &list[i];
        items[i].type = rapti_safetensors_dtype_of(list[i].tensor.dtype);
        if (__builtin_add_overflow(total, items[i].bytes, &total)) {
            return rapti_safetensors_fail(message, RAPT_ERR_SHAPE,
                                          "%s: 2^63 bytes or more up to this tensor", list[i].name);
        }
    }
    return RAPT_OK;
}

rapt_status rapt_safetensors_save(const char *path, const rapt_parameter *list, int64_t count,
                                  char *message) {
    if (!path || count < 0 || (!list && count > 0)) {
        return rapti_safetensors_fail(message, RAPT_ERR_ARGUMENT, "%s, count %lld",
                                      !path   ? "path: null pointer"
                                      : !list ? "list: null pointer"
                                              : "list",
                                      (long long)count);
    }
    const rapt_status machine = rapti_safetensors_check_machine(message);
    if (machine != RAPT_OK) { return machine; }
    item *items = calloc((size_t)count + 1, sizeof *items);
    char *header = NULL;
    if (!items) {
        return rapti_safetensors_fail(message, RAPT_ERR_MEMORY, "no memory for %lld parameters",
                                      (long long)count);
    }
    rapt_status status = check_list(list, count, items, message);
    if (status == RAPT_OK) {
        qsort(items, (size_t)count, sizeof *items, compare_items);
        status = make_header(items, count, &header, message);
    }
    if (status == RAPT_OK) { status = write_file(path, header, items, count, message); }
    free(header);
    free(items);
    return status;
}
