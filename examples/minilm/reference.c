/* SPDX-License-Identifier: MIT
 * reference.c: reading the file with jansson, and the comparison that both tests make. */
#include "reference.h"

#include "tokenizer.h"

#include <stdio.h>
#include <stdlib.h>

int reference_load(reference *r, const char *path) {
    json_error_t error;
    json_int_t longest = 0;
    *r = (reference){.root = json_load_file(path, 0, &error)};
    const int ok = r->root && json_unpack_ex(r->root, &error, 0, "{s:I,s:o,s:o,s:o}", "max_length",
                                             &longest, "strings", &r->strings, "sentences",
                                             &r->sentences, "heads", &r->heads) == 0;
    r->longest = longest;
    if (!ok) { fprintf(stderr, "%s: %s\n", path, error.text); }
    return ok;
}

void reference_free(reference *r) {
    json_decref(r->root);
    *r = (reference){0};
}

int reference_vocab(const reference *r, vocab *v) {
    json_t *pieces = json_object_get(r->root, "pieces"), *id;
    const char *text;
    json_int_t size = 0;
    json_object_foreach(pieces, text, id) {
        size = json_integer_value(id) < size ? size : json_integer_value(id) + 1;
    }
    const char **words = calloc((size_t)size + 1, sizeof *words);
    if (!words) { return 0; }
    json_object_foreach(pieces, text, id) { words[json_integer_value(id)] = text; }
    const int ok = vocab_create(v, words, (int32_t)size);
    free(words);
    return ok;
}

/* 1 if ids[count] are what the reference has for the text. */
static int same_ids(json_t *item, const int32_t *ids, int64_t count) {
    json_t *want = json_object_get(item, "ids");
    int same = count == (int64_t)json_array_size(want);
    for (int64_t i = 0; same && i < count; i++) {
        same = ids[i] == json_integer_value(json_array_get(want, (size_t)i));
    }
    return same;
}

static int compare(json_t *list, const vocab *v, int32_t *ids, int64_t longest) {
    size_t index;
    json_t *item;
    int differ = 0;
    json_array_foreach(list, index, item) {
        const char *text = json_string_value(json_object_get(item, "text"));
        const int64_t count = tokenizer_encode(v, text, longest, ids);
        if (same_ids(item, ids, count)) { continue; }
        differ++;
        printf("ids differ for \"%.60s\":", text);
        for (int64_t i = 0; i < count; i++) { printf(" %d", (int)ids[i]); }
        printf("\n");
    }
    return differ;
}

int reference_compare_ids(const reference *r, const vocab *v) {
    int32_t *ids = calloc((size_t)r->longest, sizeof *ids);
    int differ = 1;
    if (ids) {
        differ =
            compare(r->strings, v, ids, r->longest) + compare(r->sentences, v, ids, r->longest);
        printf("%d texts, %d differ\n",
               (int)(json_array_size(r->strings) + json_array_size(r->sentences)), differ);
    }
    free(ids);
    return differ;
}
