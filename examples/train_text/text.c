/* SPDX-License-Identifier: MIT
 * text.c: symbols are bytes, so any text will do. */
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_bytes(text *t, FILE *file) {
    if (fseek(file, 0, SEEK_END) != 0) { return 0; }
    const long size = ftell(file);
    if (size < 0 || fseek(file, 0, SEEK_SET) != 0) { return 0; }
    t->id = malloc((size_t)size + 1);
    t->count = size;
    return t->id && fread(t->id, 1, (size_t)size, file) == (size_t)size;
}

/* Bytes become the numbers of their symbols. */
static void number_symbols(text *t) {
    uint8_t seen[256] = {0}, number[256];
    for (int64_t i = 0; i < t->count; i++) { seen[t->id[i]] = 1; }
    for (int byte = 0; byte < 256; byte++) {
        if (!seen[byte]) { continue; }
        number[byte] = (uint8_t)t->symbols;
        t->symbol[t->symbols++] = (uint8_t)byte;
    }
    for (int64_t i = 0; i < t->count; i++) { t->id[i] = number[t->id[i]]; }
}

int text_read(text *t, const char *path, double share, int64_t least) {
    *t = (text){0};
    FILE *file = fopen(path, "rb");
    const int ok = file && read_bytes(t, file);
    if (file) { fclose(file); }
    if (!ok) {
        perror(path);
        text_free(t);
        return 0;
    }
    t->training = (int64_t)(share * (double)t->count);
    if (t->training < least || t->count - t->training < least) {
        fprintf(stderr, "%s: too short: each of its two parts needs %d characters\n", path,
                (int)least);
        text_free(t);
        return 0;
    }
    number_symbols(t);
    return 1;
}

void text_free(text *t) {
    free(t->id);
    *t = (text){0};
}

void text_held_out_line(const text *t, int64_t least, int64_t most, int64_t *begin,
                        int64_t *count) {
    int64_t first = t->count; /* of the line at hand; unknown before the first line end */
    for (int64_t i = t->training; i < t->count; i++) {
        if (t->symbol[t->id[i]] != '\n') { continue; }
        if (i - first >= least && i - first <= most) {
            *begin = first;
            *count = i - first;
            return;
        }
        first = i + 1;
    }
    *begin = t->training;
    *count = most < t->count - t->training ? most : t->count - t->training;
}
