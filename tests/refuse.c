/* SPDX-License-Identifier: MIT
 * refuse.c: see refuse.h. Where a program is linked without --wrap nobody calls these; the real
 * functions are then weak and absent. */
#include "refuse.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

static int64_t allocations_left = INT64_MAX;
static int mmap_refused, fsync_refused, rename_refused;

void refuse_allocations_after(int64_t count) { allocations_left = count; }
void refuse_mmap(int refuse) { mmap_refused = refuse; }
void refuse_fsync(int refuse) { fsync_refused = refuse; }
void refuse_rename(int refuse) { rename_refused = refuse; }

__attribute__((weak)) void *__real_malloc(size_t bytes);
__attribute__((weak)) void *__real_calloc(size_t count, size_t bytes);
__attribute__((weak)) void *__real_mmap(void *at, size_t bytes, int protection, int how, int fd,
                                        off_t offset);
__attribute__((weak)) int __real_fsync(int fd);
__attribute__((weak)) int __real_rename(const char *from, const char *to);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_mmap(void *at, size_t bytes, int protection, int how, int fd, off_t offset);
int __wrap_fsync(int fd);
int __wrap_rename(const char *from, const char *to);

static int allocation_fails(void) {
    if (allocations_left == INT64_MAX) { return 0; }
    if (allocations_left > 0) {
        allocations_left--;
        return 0;
    }
    errno = ENOMEM;
    return 1;
}

void *__wrap_malloc(size_t bytes) { return allocation_fails() ? NULL : __real_malloc(bytes); }

void *__wrap_calloc(size_t count, size_t bytes) {
    return allocation_fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_mmap(void *at, size_t bytes, int protection, int how, int fd, off_t offset) {
    if (!mmap_refused) { return __real_mmap(at, bytes, protection, how, fd, offset); }
    errno = ENODEV;
    return MAP_FAILED;
}

int __wrap_fsync(int fd) {
    if (!fsync_refused) { return __real_fsync(fd); }
    errno = EIO;
    return -1;
}

int __wrap_rename(const char *from, const char *to) {
    if (!rename_refused) { return __real_rename(from, to); }
    errno = EXDEV;
    return -1;
}

void *refuse_malloc(size_t bytes) { return __wrap_malloc(bytes); }
