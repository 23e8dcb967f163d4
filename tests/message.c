/* SPDX-License-Identifier: MIT
 * message.c: see message.h. */
#include "message.h"

#include <criterion/criterion.h>

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static bool joins_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool has_word(const char *text, const char *word, size_t length) {
    for (const char *at = text; *at; at++) {
        if (strncmp(at, word, length) == 0 && (at == text || !joins_word(at[-1])) &&
            !joins_word(at[length])) {
            return true;
        }
    }
    return false;
}

void expect_message(const char *message, const char *words, int line) {
    cr_expect(*message && !strchr(message, '\n'), "line %d: message \"%s\"", line, message);
    while (*words) {
        const size_t length = strcspn(words, " ");
        cr_expect(has_word(message, words, length), "line %d: no \"%.*s\" in \"%s\"", line,
                  (int)length, words, message);
        words += length;
        words += strspn(words, " ");
    }
}
