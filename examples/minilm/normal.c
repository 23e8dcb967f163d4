/* SPDX-License-Identifier: MIT
 * normal.c: Unicode's tables come from utf8proc. In two passes: clean the text, which also sets
 * Chinese characters apart; decompose it (NFD), then strip, lower and set punctuation apart. */
#include "normal.h"

#include <stdlib.h>
#include <utf8proc.h>

/* CJK ideographs, which are words by themselves; not kana or hangul. */
static int is_chinese(utf8proc_int32_t c) {
    static const utf8proc_int32_t blocks[][2] = {
        {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
        {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        if (c >= blocks[i][0] && c <= blocks[i][1]) { return 1; }
    }
    return 0;
}

static int is_blank(utf8proc_int32_t c) {
    const utf8proc_category_t category = utf8proc_category(c);
    return c == '\t' || c == '\n' || c == '\r' || category == UTF8PROC_CATEGORY_ZS ||
           category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

/* Control, format and private characters; what is not assigned stays and becomes unknown. */
static int is_dropped(utf8proc_int32_t c) {
    const utf8proc_category_t category = utf8proc_category(c);
    return c == 0xFFFD || category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
           category == UTF8PROC_CATEGORY_CO;
}

/* Unicode's punctuation, and the ASCII symbols that it does not count as such. */
static int is_punctuation(utf8proc_int32_t c) {
    if (c < 0x80) {
        return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
               (c >= '{' && c <= '~');
    }
    const utf8proc_category_t category = utf8proc_category(c);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

/* Writes one character, with a blank on each side if it stands apart: at most 6 bytes. */
static utf8proc_uint8_t *put(utf8proc_uint8_t *at, utf8proc_int32_t c, int apart) {
    if (apart) { *at++ = ' '; }
    at += utf8proc_encode_char(c, at);
    if (apart) { *at++ = ' '; }
    return at;
}

/* Without what is dropped, blanks made plain. `clean` has room for 3 bytes for each of text: the
 * characters set apart take 3 or 4 bytes themselves. */
static utf8proc_ssize_t clean(const utf8proc_uint8_t *text, utf8proc_ssize_t length,
                              utf8proc_uint8_t *cleaned) {
    utf8proc_uint8_t *at = cleaned;
    for (utf8proc_ssize_t i = 0; i < length;) {
        utf8proc_int32_t c = 0;
        const utf8proc_ssize_t bytes = utf8proc_iterate(text + i, length - i, &c);
        i += bytes > 0 ? bytes : 1;
        if (bytes <= 0 || (is_dropped(c) && !is_blank(c))) { continue; }
        at = put(at, is_blank(c) ? ' ' : c, is_chinese(c));
    }
    return at - cleaned;
}

/* The canonical decomposition, marks in canonical order; *count characters, to be freed. */
static utf8proc_int32_t *decompose(const utf8proc_uint8_t *text, utf8proc_ssize_t length,
                                   utf8proc_ssize_t *count) {
    *count = utf8proc_decompose(text, length, NULL, 0, UTF8PROC_DECOMPOSE);
    if (*count < 0) { return NULL; }
    utf8proc_int32_t *points = malloc(((size_t)*count + 1) * sizeof *points);
    if (points) { *count = utf8proc_decompose(text, length, points, *count, UTF8PROC_DECOMPOSE); }
    return points;
}

char *normal_words(const char *text, size_t length) {
    utf8proc_uint8_t *words = NULL;
    utf8proc_ssize_t count = 0;
    utf8proc_int32_t *points = NULL;
    utf8proc_uint8_t *cleaned = malloc(3 * length + 1);
    if (cleaned) {
        const utf8proc_ssize_t bytes =
            clean((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)length, cleaned);
        points = decompose(cleaned, bytes, &count);
    }
    if (points) { words = malloc(6 * (size_t)count + 1); }
    if (words) {
        utf8proc_uint8_t *at = words;
        for (utf8proc_ssize_t i = 0; i < count; i++) {
            if (utf8proc_category(points[i]) == UTF8PROC_CATEGORY_MN) { continue; }
            at = put(at, utf8proc_tolower(points[i]), is_punctuation(points[i]));
        }
        *at = '\0';
    }
    free(points);
    free(cleaned);
    return (char *)words;
}
