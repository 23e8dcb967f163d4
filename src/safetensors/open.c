/* SPDX-License-Identifier: MIT
 * open.c: a file comes and goes: mapped into memory, or read where it cannot be mapped. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static rapt_status read_whole(rapt_safetensors *file, const char *path, int fd) {
    file->bytes = malloc((size_t)file->length);
    if (!file->bytes) {
        return rapti_safetensors_fail(file->message, RAPT_ERR_MEMORY,
                                      "no memory for the %lld bytes of %.120s",
                                      (long long)file->length, path);
    }
    for (int64_t at = 0; at < file->length;) {
        const ssize_t got = pread(fd, file->bytes + at, (size_t)(file->length - at), (off_t)at);
        if (got < 0 && errno == EINTR) { continue; }
        if (got < 0) { return rapti_safetensors_fail_errno(file->message, "read", path); }
        if (got == 0) {
            return rapti_safetensors_fail(file->message, RAPT_ERR_FILE, "%.120s shrinks", path);
        }
        at += got;
    }
    return RAPT_OK;
}

static rapt_status map_or_read(rapt_safetensors *file, const char *path, int fd) {
    struct stat information;
    if (fstat(fd, &information) != 0) {
        return rapti_safetensors_fail_errno(file->message, "stat", path);
    }
    if (!S_ISREG(information.st_mode)) {
        return rapti_safetensors_fail(file->message, RAPT_ERR_FILE, "%.120s: not a regular file",
                                      path);
    }
    file->length = (int64_t)information.st_size;
    if (file->length == 0) { return RAPT_OK; }
    void *bytes = mmap(NULL, (size_t)file->length, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) { return read_whole(file, path, fd); }
    file->bytes = bytes;
    file->mapped = 1;
    return RAPT_OK;
}

static rapt_status open_and_parse(rapt_safetensors *file, const char *path) {
    if (!path) {
        return rapti_safetensors_fail(file->message, RAPT_ERR_ARGUMENT, "path: null pointer");
    }
    const rapt_status machine = rapti_safetensors_check_machine(file->message);
    if (machine != RAPT_OK) { return machine; }
    /* O_NONBLOCK: a pipe is refused at once instead of waited for. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) { return rapti_safetensors_fail_errno(file->message, "open", path); }
    const rapt_status status = map_or_read(file, path, fd);
    close(fd);
    return status == RAPT_OK ? rapti_safetensors_parse(file) : status;
}

/* Everything but the message. */
static void forget(rapt_safetensors *file) {
    for (int64_t i = 0; i < file->count; i++) { free(file->entry[i].aligned); }
    free(file->entry);
    free(file->by_name);
    json_decref(file->header);
    if (file->mapped) {
        munmap(file->bytes, (size_t)file->length);
    } else {
        free(file->bytes);
    }
    file->entry = NULL;
    file->by_name = NULL;
    file->header = NULL;
    file->bytes = NULL;
    file->count = 0;
}

rapt_status rapt_safetensors_open(rapt_safetensors **file, const char *path) {
    if (!file) { return RAPT_ERR_ARGUMENT; }
    *file = calloc(1, sizeof **file);
    if (!*file) { return RAPT_ERR_MEMORY; }
    const rapt_status status = open_and_parse(*file, path);
    if (status != RAPT_OK) { forget(*file); }
    if (status == RAPT_ERR_MEMORY) {
        free(*file);
        *file = NULL;
    }
    return status;
}

void rapt_safetensors_close(rapt_safetensors *file) {
    if (!file) { return; }
    forget(file);
    free(file);
}

const char *rapt_safetensors_message(const rapt_safetensors *file) {
    return file ? file->message : "file: null pointer";
}

int64_t rapt_safetensors_count(const rapt_safetensors *file) { return file ? file->count : 0; }

const char *rapt_safetensors_name(const rapt_safetensors *file, int64_t index) {
    if (!file || index < 0 || index >= file->count) { return NULL; }
    return file->entry[index].name;
}
