/* SPDX-License-Identifier: MIT
 * file.c: reads a file whole and cuts it at its line ends. */
#include "file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int file_path(char path[FILE_PATH_BYTES], const char *folder, const char *name) {
    const int length = snprintf(path, FILE_PATH_BYTES, "%s/%s", folder, name);
    const int ok = length >= 0 && length < FILE_PATH_BYTES;
    if (!ok) { fprintf(stderr, "the path of %s is too long\n", name); }
    return ok;
}

/* The bytes of a file with a zero behind them, null if they cannot be had. */
static char *read_all(FILE *file, size_t *length) {
    size_t room = 1 << 16;
    char *text = malloc(room);
    *length = 0;
    while (text) {
        *length += fread(text + *length, 1, room - 1 - *length, file);
        if (*length < room - 1) { break; }
        char *larger = realloc(text, room *= 2);
        if (!larger) { free(text); }
        text = larger;
    }
    if (text && ferror(file)) {
        free(text);
        text = NULL;
    }
    if (text) { text[*length] = '\0'; }
    return text;
}

static int cut_lines(text_lines *lines, size_t length) {
    size_t ends = 0;
    for (size_t i = 0; i < length; i++) { ends += lines->text[i] == '\n'; }
    lines->line = calloc(ends + 1, sizeof(char *));
    if (!lines->line) { return 0; }
    char *at = lines->text, *const end = at + length;
    while (at < end) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        lines->line[lines->count++] = at;
        if (stop > at && stop[-1] == '\r') { stop[-1] = '\0'; }
        *stop = '\0';
        at = stop + 1;
    }
    return 1;
}

int text_lines_read(text_lines *lines, const char *path) {
    size_t length = 0;
    *lines = (text_lines){0};
    FILE *file = fopen(path, "rb");
    if (file) {
        lines->text = read_all(file, &length);
        fclose(file);
    }
    const int ok = lines->text && cut_lines(lines, length);
    if (!ok) {
        fprintf(stderr, "cannot read %s: %s\n", path, strerror(errno));
        text_lines_free(lines);
    }
    return ok;
}

void text_lines_free(text_lines *lines) {
    free(lines->line);
    free(lines->text);
    *lines = (text_lines){0};
}
