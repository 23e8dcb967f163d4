/* SPDX-License-Identifier: MIT
 * replace.c: write beside, synchronise, rename. */
#include "replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ATTEMPTS = 100 };

static size_t folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* Opens a file of a name that nobody has: other threads and processes may be saving here, too. */
static int open_temporary(rapti_safetensors_replacement *new) {
    const size_t folder = folder_length(new->target);
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        snprintf(new->temporary + folder, 48, ".rapt-%ld-%d.tmp", (long)getpid(), attempt);
        const int fd = open(new->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) { return fd; }
    }
    return -1;
}

static void release(rapti_safetensors_replacement *new) {
    free(new->target);
    free(new->temporary);
}

static rapt_status open_stream(rapti_safetensors_replacement *new, char *message) {
    struct stat old;
    const int exists = stat(new->target, &old) == 0;
    if (exists && !S_ISREG(old.st_mode)) {
        return rapti_safetensors_fail(message, RAPT_ERR_FILE, "%.120s: not a regular file",
                                      new->target);
    }
    const int fd = open_temporary(new);
    if (fd < 0) { return rapti_safetensors_fail_errno(message, "create a file for", new->target); }
    if ((!exists || fchmod(fd, old.st_mode & 0777) == 0) && (new->stream = fdopen(fd, "wb"))) {
        return RAPT_OK;
    }
    const rapt_status status =
        rapti_safetensors_fail_errno(message, "prepare a file for", new->target);
    close(fd);
    unlink(new->temporary);
    return status;
}

rapt_status rapti_safetensors_replace(rapti_safetensors_replacement *new, const char *path,
                                      char *message) {
    *new = (rapti_safetensors_replacement){.target = realpath(path, NULL)};
    if (!new->target && errno == ENOENT) { new->target = strdup(path); }
    if (!new->target) { return rapti_safetensors_fail_errno(message, "look up", path); }
    new->temporary = malloc(folder_length(new->target) + 48);
    if (!new->temporary) {
        release(new);
        return rapti_safetensors_fail(message, RAPT_ERR_MEMORY, "no memory for a path");
    }
    memcpy(new->temporary, new->target, folder_length(new->target));
    const rapt_status status = open_stream(new, message);
    if (status != RAPT_OK) { release(new); }
    return status;
}

/* The new name reaches the disk with its folder. Not every file system can do that; the file is
 * whole either way. */
static void synchronise_folder(rapti_safetensors_replacement *new) {
    const size_t length = folder_length(new->target);
    new->target[length > 1 ? length - 1 : length] = 0;
    const int fd = open(length ? new->target : ".", O_RDONLY | O_CLOEXEC);
    if (fd < 0) { return; }
    fsync(fd);
    close(fd);
}

rapt_status rapti_safetensors_finish(rapti_safetensors_replacement *new, rapt_status status,
                                     char *message) {
    if (status == RAPT_OK && (fflush(new->stream) != 0 || fsync(fileno(new->stream)) != 0)) {
        status = rapti_safetensors_fail_errno(message, "write", new->target);
    }
    if (fclose(new->stream) != 0 && status == RAPT_OK) {
        status = rapti_safetensors_fail_errno(message, "close", new->target);
    }
    if (status == RAPT_OK && rename(new->temporary, new->target) != 0) {
        status = rapti_safetensors_fail_errno(message, "replace", new->target);
    }
    if (status == RAPT_OK) {
        synchronise_folder(new);
    } else {
        unlink(new->temporary);
    }
    release(new);
    return status;
}
