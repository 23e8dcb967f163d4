/* SPDX-License-Identifier: MIT
 * vocab.h: the words and pieces of words that a model knows, by number and by text. */
#ifndef MINILM_VOCAB_H
#define MINILM_VOCAB_H

#include <stddef.h>
#include <stdint.h>

/* Special tokens of BERT's vocabularies, in the order of vocab.special. */
enum { VOCAB_PAD, VOCAB_UNKNOWN, VOCAB_BEGIN, VOCAB_END, VOCAB_MASK, VOCAB_SPECIALS };

typedef struct vocab_entry {
    const char *text;
    size_t length;
    int32_t id;
} vocab_entry;

typedef struct vocab {
    char *texts;        /* all words, each with a final zero */
    vocab_entry *entry; /* [count], sorted by text */
    const char **word;  /* [size], by id; null where an id has no word */
    int32_t count, size;
    int32_t special[VOCAB_SPECIALS];
} vocab;

/* Reads a file with one word per line, whose id is the number of the line from 0. Returns 0, with a
 * line on standard error, if it cannot be read or a special token is not in it. */
int vocab_load(vocab *v, const char *path);

/* The same from a list: words[id], null where there is none. */
int vocab_create(vocab *v, const char *const *words, int32_t size);
void vocab_free(vocab *v);

/* The id of a text of `length` bytes, -1 if it has none. */
int32_t vocab_find(const vocab *v, const char *text, size_t length);

#endif
