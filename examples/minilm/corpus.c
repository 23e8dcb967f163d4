/* SPDX-License-Identifier: MIT
 * corpus.c: all ids lie in one block that grows by what each text may need. */
#include "corpus.h"

#include "tokenizer.h"

#include <stdio.h>
#include <stdlib.h>

/* Room for `more` ids behind those that are there. */
static int reserve(corpus *c, int64_t *room, int64_t more) {
    if (c->tokens + more <= *room) { return 1; }
    *room = 2 * (c->tokens + more);
    int32_t *larger = realloc(c->ids, (size_t)*room * sizeof *c->ids);
    if (!larger) { return 0; }
    c->ids = larger;
    return 1;
}

int corpus_make(corpus *c, const vocab *v, const char *const *texts, int64_t count,
                int64_t longest) {
    int64_t room = 0;
    *c = (corpus){.sentence = calloc((size_t)count + 1, sizeof(sentence))};
    int ok = c->sentence != NULL;
    for (; ok && c->count < count; c->count++) {
        ok = reserve(c, &room, longest);
        if (!ok) { break; }
        const int64_t n = tokenizer_encode(v, texts[c->count], longest, c->ids + c->tokens);
        ok = n > 0;
        if (!ok) { break; }
        c->sentence[c->count].count = n;
        c->tokens += n;
    }
    if (!ok) {
        fprintf(stderr, "no memory for %lld sentences\n", (long long)count);
        corpus_free(c);
        return 0;
    }
    int32_t *ids = c->ids;
    for (int64_t i = 0; i < count; i++) {
        c->sentence[i].ids = ids;
        ids += c->sentence[i].count;
    }
    return 1;
}

void corpus_free(corpus *c) {
    free(c->sentence);
    free(c->ids);
    *c = (corpus){0};
}
