/* SPDX-License-Identifier: MIT
 * header.c: from the bytes of a file to the list of its tensors. Nothing in the bytes is trusted:
 * each number is checked before it is used, and the ranges of all tensors must tile the data, so
 * that none lies outside it, overlaps another or leaves bytes that belong to nobody. */
#include "file.h"

#include <stdlib.h>
#include <string.h>

static rapt_status bad(rapt_safetensors *file, const char *name, const char *what) {
    return rapti_safetensors_fail(file->message, RAPT_ERR_FILE, "tensor %.80s: %s", name, what);
}

/* The header's length, and that header and data lie inside the file. */
static rapt_status read_length(rapt_safetensors *file, int64_t *length) {
    if (file->length < 8) {
        return rapti_safetensors_fail(file->message, RAPT_ERR_FILE,
                                      "file of %lld bytes is too short for a header",
                                      (long long)file->length);
    }
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--) { n = n << 8 | file->bytes[i]; }
    if (n > RAPTI_SAFETENSORS_MAX_HEADER) {
        return rapti_safetensors_fail(file->message, RAPT_ERR_FILE,
                                      "header length %llu is larger than the limit %d",
                                      (unsigned long long)n, RAPTI_SAFETENSORS_MAX_HEADER);
    }
    if ((int64_t)n > file->length - 8) {
        return rapti_safetensors_fail(file->message, RAPT_ERR_FILE,
                                      "header length %llu does not fit a file of %lld bytes",
                                      (unsigned long long)n, (long long)file->length);
    }
    *length = (int64_t)n;
    return RAPT_OK;
}

static rapt_status read_json(rapt_safetensors *file, int64_t length) {
    const char *text = (const char *)file->bytes + 8;
    if (length == 0 || text[0] != '{') {
        return rapti_safetensors_fail(file->message, RAPT_ERR_FILE,
                                      "header does not begin with an opening brace");
    }
    json_error_t error;
    file->header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (file->header) { return RAPT_OK; }
    /* Jansson says nothing when memory runs out; inside a string it calls the token invalid. */
    const int no_memory = !*error.text || json_error_code(&error) == json_error_out_of_memory;
    return rapti_safetensors_fail(file->message, no_memory ? RAPT_ERR_MEMORY : RAPT_ERR_FILE,
                                  "header, byte %d: %.150s", error.position, error.text);
}

static rapt_status check_metadata(rapt_safetensors *file, json_t *metadata) {
    const char *key;
    json_t *value;
    if (!json_is_object(metadata)) { return bad(file, "__metadata__", "not an object"); }
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value)) {
            return rapti_safetensors_fail(file->message, RAPT_ERR_FILE,
                                          "__metadata__: %.80s is not a string", key);
        }
    }
    return RAPT_OK;
}

/* A number >= 0 of an array; -1 if it is anything else. */
static int64_t natural(const json_t *array, size_t index) {
    const json_t *value = json_array_get(array, index);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : -1;
}

/* Sizes, and the bytes of all elements. Zeros count as ones, so that sizes beside a zero are
 * limited, too, as everywhere in this library. */
static rapt_status read_shape(rapt_safetensors *file, rapti_safetensors_entry *entry,
                              const json_t *shape, int64_t *bytes) {
    if (!json_is_array(shape)) { return bad(file, entry->name, "no shape"); }
    int64_t bits = entry->type->bits;
    int empty = 0;
    entry->rank = (int64_t)json_array_size(shape);
    for (int64_t axis = 0; axis < entry->rank; axis++) {
        const int64_t size = natural(shape, (size_t)axis);
        if (size < 0) { return bad(file, entry->name, "a size is not an integer >= 0"); }
        if (axis < RAPT_MAX_RANK) { entry->size[axis] = size; }
        empty |= size == 0;
        if (__builtin_mul_overflow(bits, size ? size : 1, &bits)) {
            return bad(file, entry->name, "sizes overflow");
        }
    }
    if (bits % 8 && !empty) { return bad(file, entry->name, "elements do not fill whole bytes"); }
    *bytes = empty ? 0 : bits / 8;
    return RAPT_OK;
}

static rapt_status read_entry(rapt_safetensors *file, rapti_safetensors_entry *entry,
                              const char *name, const json_t *object) {
    *entry = (rapti_safetensors_entry){.name = name};
    if (!json_is_object(object)) { return bad(file, name, "not an object"); }
    const json_t *dtype = json_object_get(object, "dtype");
    if (!json_is_string(dtype)) { return bad(file, name, "no dtype"); }
    entry->type = rapti_safetensors_dtype_named(json_string_value(dtype));
    if (!entry->type) {
        return rapti_safetensors_fail(file->message, RAPT_ERR_FILE,
                                      "tensor %.80s: unknown dtype %.40s", name,
                                      json_string_value(dtype));
    }
    int64_t bytes = 0;
    const rapt_status status = read_shape(file, entry, json_object_get(object, "shape"), &bytes);
    if (status != RAPT_OK) { return status; }
    const json_t *offsets = json_object_get(object, "data_offsets");
    if (!json_is_array(offsets) || json_array_size(offsets) != 2) {
        return bad(file, name, "no data_offsets of two numbers");
    }
    entry->begin = natural(offsets, 0);
    entry->end = natural(offsets, 1);
    if (entry->begin < 0 || entry->end < entry->begin) {
        return bad(file, name, "data_offsets are not a range");
    }
    if (entry->end - entry->begin != bytes) {
        return rapti_safetensors_fail(file->message, RAPT_ERR_FILE,
                                      "tensor %.80s: data_offsets hold %lld bytes, its shape %lld",
                                      name, (long long)(entry->end - entry->begin),
                                      (long long)bytes);
    }
    return RAPT_OK;
}

static rapt_status read_entries(rapt_safetensors *file) {
    const size_t room = json_object_size(file->header) + 1;
    file->entry = calloc(room, sizeof *file->entry);
    file->by_name = calloc(room, sizeof(rapti_safetensors_entry *));
    if (!file->entry || !file->by_name) {
        return rapti_safetensors_fail(file->message, RAPT_ERR_MEMORY, "no memory for %zu tensors",
                                      room);
    }
    const char *name;
    json_t *value;
    json_object_foreach(file->header, name, value) {
        const rapt_status status = strcmp(name, "__metadata__") == 0
                                       ? check_metadata(file, value)
                                       : read_entry(file, &file->entry[file->count++], name, value);
        if (status != RAPT_OK) { return status; }
    }
    return RAPT_OK;
}

/* By place in the file; tensors without elements, which share a place, by name. */
static int compare_places(const void *left, const void *right) {
    const rapti_safetensors_entry *a = left, *b = right;
    if (a->begin != b->begin) { return a->begin < b->begin ? -1 : 1; }
    if (a->end != b->end) { return a->end < b->end ? -1 : 1; }
    return strcmp(a->name, b->name);
}

static int compare_names(const void *left, const void *right) {
    const rapti_safetensors_entry *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

/* In the order of their data, each tensor begins where the one before it ends. */
static rapt_status check_tiling(rapt_safetensors *file, int64_t data_bytes) {
    int64_t end = 0;
    for (int64_t i = 0; i < file->count; i++) {
        const rapti_safetensors_entry *entry = &file->entry[i];
        if (entry->begin != end) {
            return rapti_safetensors_fail(file->message, RAPT_ERR_FILE,
                                          "tensor %.80s: begins at byte %lld, expected %lld",
                                          entry->name, (long long)entry->begin, (long long)end);
        }
        end = entry->end;
    }
    if (end != data_bytes) {
        return rapti_safetensors_fail(file->message, RAPT_ERR_FILE,
                                      "tensors end at byte %lld of %lld bytes of data",
                                      (long long)end, (long long)data_bytes);
    }
    return RAPT_OK;
}

rapt_status rapti_safetensors_parse(rapt_safetensors *file) {
    int64_t length = 0;
    rapt_status status = read_length(file, &length);
    if (status == RAPT_OK) { status = read_json(file, length); }
    if (status == RAPT_OK) { status = read_entries(file); }
    if (status != RAPT_OK) { return status; }
    qsort(file->entry, (size_t)file->count, sizeof *file->entry, compare_places);
    for (int64_t i = 0; i < file->count; i++) { file->by_name[i] = &file->entry[i]; }
    qsort(file->by_name, (size_t)file->count, sizeof *file->by_name, compare_names);
    file->data = file->bytes + 8 + length;
    return check_tiling(file, file->length - 8 - length);
}

rapti_safetensors_entry *rapti_safetensors_find(const rapt_safetensors *file, const char *prefix,
                                                const char *name) {
    const size_t prefix_length = strlen(prefix);
    int64_t low = 0, high = file->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const char *there = file->by_name[middle]->name;
        int order = strncmp(prefix, there, prefix_length);
        if (order == 0) { order = strcmp(name, there + prefix_length); }
        if (order == 0) { return file->by_name[middle]; }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}
