/* SPDX-License-Identifier: MIT
 * folder.h: a temporary folder for tests that write files, and whole files as bytes. Everything
 * here fails the running test if the system refuses. */
#ifndef RAPT_TESTS_FOLDER_H
#define RAPT_TESTS_FOLDER_H

#include <stddef.h>

enum { FOLDER_PATH = 512 };

typedef struct folder {
    char path[FOLDER_PATH];
    char file[FOLDER_PATH + 300];
} folder;

void folder_make(folder *f);
void folder_remove(folder *f); /* with the files in it */

/* The path of a file in it; valid until the next call. */
const char *folder_file(folder *f, const char *name);

/* How many files are in it. */
int folder_count(const folder *f);

typedef struct file_bytes {
    unsigned char *data; /* to be freed; one spare byte at the end, 0 */
    size_t size;
} file_bytes;

file_bytes file_read(const char *path);
void file_write(const char *path, const void *data, size_t size);

#endif
