/* SPDX-License-Identifier: MIT
 * normal.h: text into plain words, as BERT's uncased models want them. */
#ifndef MINILM_NORMAL_H
#define MINILM_NORMAL_H

#include <stddef.h>

/* The words of a UTF-8 text, blanks between them: control characters are dropped, accents
 * stripped, letters made small; each punctuation mark and each Chinese character is a word of its
 * own. Bytes that are not UTF-8 are dropped. Returns memory to be freed, null if there is none. */
char *normal_words(const char *text, size_t length);

#endif
