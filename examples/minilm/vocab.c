/* SPDX-License-Identifier: MIT
 * vocab.c: words sorted by their bytes and found by bisection: 15 comparisons for 30,000 words. */
#include "vocab.h"

#include "file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const special[VOCAB_SPECIALS] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

static int by_text(const void *a, const void *b) {
    const vocab_entry *x = a, *y = b;
    const size_t shorter = x->length < y->length ? x->length : y->length;
    const int order = memcmp(x->text, y->text, shorter);
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

/* Sorts the entries and finds the special tokens. */
static int index_entries(vocab *v) {
    qsort(v->entry, (size_t)v->count, sizeof *v->entry, by_text);
    for (int i = 0; i < VOCAB_SPECIALS; i++) {
        v->special[i] = vocab_find(v, special[i], strlen(special[i]));
        if (v->special[i] < 0) {
            fprintf(stderr, "the vocabulary has no token %s\n", special[i]);
            return 0;
        }
    }
    return 1;
}

int vocab_create(vocab *v, const char *const *words, int32_t size) {
    size_t bytes = 1;
    for (int32_t id = 0; id < size; id++) { bytes += words[id] ? strlen(words[id]) + 1 : 0; }
    *v = (vocab){.texts = malloc(bytes),
                 .entry = calloc((size_t)size + 1, sizeof(vocab_entry)),
                 .word = calloc((size_t)size + 1, sizeof(char *)),
                 .size = size};
    if (!v->texts || !v->entry || !v->word) {
        fprintf(stderr, "no memory for a vocabulary of %d words\n", (int)size);
        vocab_free(v);
        return 0;
    }
    char *at = v->texts;
    for (int32_t id = 0; id < size; id++) {
        if (!words[id]) { continue; }
        const size_t length = strlen(words[id]);
        memcpy(at, words[id], length + 1);
        v->word[id] = at;
        v->entry[v->count++] = (vocab_entry){at, length, id};
        at += length + 1;
    }
    const int ok = index_entries(v);
    if (!ok) { vocab_free(v); }
    return ok;
}

int vocab_load(vocab *v, const char *path) {
    *v = (vocab){0};
    text_lines file;
    if (!text_lines_read(&file, path)) { return 0; }
    int ok = file.count <= INT32_MAX;
    if (ok) {
        ok = vocab_create(v, (const char *const *)file.line, (int32_t)file.count);
    } else {
        fprintf(stderr, "%s: too many lines\n", path);
    }
    text_lines_free(&file);
    return ok;
}

void vocab_free(vocab *v) {
    free(v->texts);
    free(v->entry);
    free(v->word);
    *v = (vocab){0};
}

int32_t vocab_find(const vocab *v, const char *text, size_t length) {
    const vocab_entry key = {text, length, 0};
    const vocab_entry *found =
        v->entry ? bsearch(&key, v->entry, (size_t)v->count, sizeof key, by_text) : NULL;
    return found ? found->id : -1;
}
