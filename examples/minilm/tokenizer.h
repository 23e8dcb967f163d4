/* SPDX-License-Identifier: MIT
 * tokenizer.h: text into token ids by WordPiece, as BERT's uncased models were trained. */
#ifndef MINILM_TOKENIZER_H
#define MINILM_TOKENIZER_H

#include "vocab.h"

#include <stdint.h>

/* Writes at most `most` >= 2 ids, the first [CLS], the last [SEP]; what does not fit is cut off.
 * Special tokens spelt in the text, "[MASK]", count as such. Returns how many; -1: no memory. */
int64_t tokenizer_encode(const vocab *v, const char *text, int64_t most, int32_t *ids);

#endif
