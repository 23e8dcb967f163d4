/* SPDX-License-Identifier: MIT
 * file.h: paths, and text files as lists of lines. */
#ifndef MINILM_FILE_H
#define MINILM_FILE_H

#include <stddef.h>

enum { FILE_PATH_BYTES = 4096 };

/* Writes folder/name. Returns 0, with a line on standard error, if that is too long. */
int file_path(char path[FILE_PATH_BYTES], const char *folder, const char *name);

typedef struct text_lines {
    char *text;  /* the whole file, line ends replaced by zeros */
    char **line; /* [count] */
    size_t count;
} text_lines;

/* Returns 0, with a line on standard error, if the file cannot be read. */
int text_lines_read(text_lines *lines, const char *path);
void text_lines_free(text_lines *lines);

#endif
