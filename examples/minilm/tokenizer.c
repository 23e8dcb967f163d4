/* SPDX-License-Identifier: MIT
 * tokenizer.c: cuts words greedily into the longest pieces that the vocabulary has; pieces after a
 * word's first are spelt with "##" before them. */
#include "tokenizer.h"

#include "normal.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_CHARACTERS = 100, MOST_BYTES = 4 * MOST_CHARACTERS }; /* longer words are unknown */

typedef struct token_list {
    int32_t *ids;
    int64_t count, most;
} token_list;

static void append(token_list *list, int32_t id) {
    if (list->count < list->most) { list->ids[list->count++] = id; }
}

static int is_continuation(char byte) { return ((unsigned char)byte & 0xC0) == 0x80; }

/* The longest piece of the vocabulary that text begins with, of more than `marks` bytes: its id, or
 * -1. *length is the text's, then the piece's. */
static int32_t longest_piece(const vocab *v, const char *text, size_t marks, size_t *length) {
    for (size_t n = *length; n > marks; n--) {
        if (n < *length && is_continuation(text[n])) { continue; }
        const int32_t id = vocab_find(v, text, n);
        if (id >= 0) {
            *length = n;
            return id;
        }
    }
    return -1;
}

/* The pieces of one word, or one unknown token if some of it has none. */
static void append_word(const vocab *v, const char *word, size_t length, token_list *list) {
    const int64_t before = list->count;
    char spelt[2 + MOST_BYTES] = "##";
    size_t characters = 0;
    for (size_t i = 0; i < length; i++) { characters += !is_continuation(word[i]); }
    if (characters > MOST_CHARACTERS) {
        append(list, v->special[VOCAB_UNKNOWN]);
        return;
    }
    for (size_t begin = 0, n; begin < length; begin += n) {
        const size_t marks = begin ? 2 : 0;
        memcpy(spelt + 2, word + begin, length - begin);
        n = marks + length - begin;
        const int32_t id = longest_piece(v, spelt + 2 - marks, marks, &n);
        if (id < 0) {
            list->count = before;
            append(list, v->special[VOCAB_UNKNOWN]);
            return;
        }
        append(list, id);
        n -= marks;
    }
}

static int append_text(const vocab *v, const char *text, size_t length, token_list *list) {
    char *words = normal_words(text, length);
    if (!words) { return 0; }
    for (const char *at = words; *at;) {
        const size_t n = strcspn(at, " ");
        if (n) { append_word(v, at, n, list); }
        at += n + (at[n] == ' ');
    }
    free(words);
    return 1;
}

/* The special token that text begins with, -1 if none. */
static int32_t special_at(const vocab *v, const char *text) {
    for (int i = 0; i < VOCAB_SPECIALS; i++) {
        const char *word = v->word[v->special[i]];
        if (strncmp(text, word, strlen(word)) == 0) { return v->special[i]; }
    }
    return -1;
}

int64_t tokenizer_encode(const vocab *v, const char *text, int64_t most, int32_t *ids) {
    token_list list = {ids, 0, most - 1};
    append(&list, v->special[VOCAB_BEGIN]);
    for (const char *at = text; *at;) {
        const char *stop = at;
        int32_t special = -1;
        while (*stop && (special = special_at(v, stop)) < 0) { stop++; }
        if (!append_text(v, at, (size_t)(stop - at), &list)) { return -1; }
        if (special >= 0) {
            append(&list, special);
            stop += strlen(v->word[special]);
        }
        at = stop;
    }
    list.most = most;
    append(&list, v->special[VOCAB_END]);
    return list.count;
}
