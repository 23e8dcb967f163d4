/* SPDX-License-Identifier: MIT
 * folder.c: see folder.h. */
#include "folder.h"

#include <criterion/criterion.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void folder_make(folder *f) {
    const char *base = getenv("TMPDIR");
    snprintf(f->path, sizeof f->path, "%.400s/rapt-test-XXXXXX", base ? base : "/tmp");
    cr_assert_not_null(mkdtemp(f->path), "no folder %s", f->path);
}

const char *folder_file(folder *f, const char *name) {
    snprintf(f->file, sizeof f->file, "%s/%s", f->path, name);
    return f->file;
}

/* Counts the entries, and removes them if asked to. */
static int walk(const folder *f, int remove_them) {
    folder copy = *f;
    DIR *entries = opendir(f->path);
    int count = 0;
    cr_assert_not_null(entries, "cannot list %s", f->path);
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) { continue; }
        count++;
        if (remove_them) { remove(folder_file(&copy, entry->d_name)); }
    }
    closedir(entries);
    return count;
}

int folder_count(const folder *f) { return walk(f, 0); }

void folder_remove(folder *f) {
    walk(f, 1);
    cr_expect_eq(rmdir(f->path), 0, "cannot remove %s", f->path);
}

file_bytes file_read(const char *path) {
    FILE *stream = fopen(path, "rb");
    cr_assert_not_null(stream, "cannot open %s", path);
    fseek(stream, 0, SEEK_END);
    file_bytes bytes = {NULL, (size_t)ftell(stream)};
    rewind(stream);
    bytes.data = calloc(1, bytes.size + 1);
    cr_assert_not_null(bytes.data);
    cr_assert_eq(fread(bytes.data, 1, bytes.size, stream), bytes.size, "cannot read %s", path);
    fclose(stream);
    return bytes;
}

void file_write(const char *path, const void *data, size_t size) {
    remove(path); /* some file systems flush a file that is cut and written again: milliseconds */
    FILE *stream = fopen(path, "wb");
    cr_assert_not_null(stream, "cannot create %s", path);
    cr_assert_eq(fwrite(data, 1, size, stream), size, "cannot write %s", path);
    cr_assert_eq(fclose(stream), 0);
}
