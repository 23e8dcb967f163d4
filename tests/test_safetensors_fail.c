/* SPDX-License-Identifier: MIT
 * test_safetensors_fail.c: saving what cannot be saved, and a system that refuses memory, disk or
 * name: each has its status and message, and the old file stays. */
#include "folder.h"
#include "message.h"
#include "refuse.h"

#include <criterion/criterion.h>

#include <rapt/safetensors.h>

#include <jansson.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define DATA(name) RAPT_TEST_DATA "/" name ".safetensors"

static float sink[6];

static rapt_parameter query_parameter(void) {
    return (rapt_parameter){"W_query.weight", rapt_tensor_2d(RAPT_F32, sink, 2, 3)};
}

/* ---- Saving that fails ---- */

/* Saving fails, with or without a place for the message; the file there before is as it was. */
static void expect_not_saved(folder *f, const rapt_parameter *list, int64_t count,
                             rapt_status expected, const char *words, int line) {
    char message[256] = "";
    const char *path = folder_file(f, "kept");
    file_write(path, "old", 3);
    cr_expect_eq(rapt_safetensors_save(path, list, count, NULL), expected, "line %d", line);
    cr_expect_eq(rapt_safetensors_save(path, list, count, message), expected, "line %d", line);
    expect_message(message, words, line);
    const file_bytes kept = file_read(path);
    cr_expect(kept.size == 3 && memcmp(kept.data, "old", 3) == 0, "line %d", line);
    free(kept.data);
    cr_expect_eq(folder_count(f), 1, "line %d", line);
}

Test(safetensors_fail, save_arguments) {
    folder f;
    folder_make(&f);
    rapt_parameter list[2] = {query_parameter(), query_parameter()};
    expect_not_saved(&f, NULL, 1, RAPT_ERR_ARGUMENT, "list null", __LINE__);
    expect_not_saved(&f, list, -1, RAPT_ERR_ARGUMENT, "list count 1", __LINE__);
    expect_not_saved(&f, list, 2, RAPT_ERR_ARGUMENT, "W_query twice", __LINE__);
    list[1].tensor = rapt_tensor_1d(RAPT_BOOL, sink, 2);
    expect_not_saved(&f, list, 2, RAPT_ERR_ARGUMENT, "W_query twice", __LINE__);
    strcpy(list[1].name, "__metadata__");
    expect_not_saved(&f, list, 2, RAPT_ERR_ARGUMENT, "__metadata__ reserved", __LINE__);
    strcpy(list[1].name, "a\xFFz");
    expect_not_saved(&f, list, 2, RAPT_ERR_ARGUMENT, "name UTF", __LINE__);
    memset(list[1].name, 'x', sizeof list[1].name);
    expect_not_saved(&f, list, 2, RAPT_ERR_ARGUMENT, "name 64", __LINE__);
    strcpy(list[1].name, "t");
    list[1].tensor.dtype = (rapt_dtype)0;
    expect_not_saved(&f, list, 2, RAPT_ERR_DTYPE, "t 0", __LINE__);
    list[1].tensor = rapt_tensor_1d(RAPT_F32, sink, -1);
    expect_not_saved(&f, list, 2, RAPT_ERR_SHAPE, "t 1 0", __LINE__);
    list[1].tensor = rapt_tensor_2d(RAPT_F32, sink, INT64_C(1) << 40, INT64_C(1) << 40);
    expect_not_saved(&f, list, 2, RAPT_ERR_SHAPE, "t 2", __LINE__);
    const int64_t size[2] = {INT64_C(1) << 60, 1}, stride[2] = {0, 0};
    list[1].tensor = list[0].tensor = rapt_tensor_strided(RAPT_F32, sink, 2, size, stride);
    expect_not_saved(&f, list, 2, RAPT_ERR_SHAPE, "t 2", __LINE__);
    list[1].tensor = rapt_tensor_1d(RAPT_F32, NULL, 1);
    expect_not_saved(&f, list + 1, 1, RAPT_ERR_ARGUMENT, "t null", __LINE__);
    char message[256] = "";
    cr_expect_eq(rapt_safetensors_save(NULL, list, 1, message), RAPT_ERR_ARGUMENT);
    expect_message(message, "path null", __LINE__);
    folder_remove(&f);
}

#ifdef RAPT_TEST_LARGE
/* A header of more than 100 MB: each byte of these names takes six in JSON. Takes seconds. */
Test(safetensors_fail, save_too_many) {
    enum { COUNT = 260000 };
    rapt_parameter *list = calloc(COUNT, sizeof *list);
    cr_assert_not_null(list);
    for (int i = 0; i < COUNT; i++) {
        list[i].tensor = rapt_tensor_1d(RAPT_F32, NULL, 0);
        memset(list[i].name, 1, sizeof list[i].name - 1);
        snprintf(list[i].name, 8, "%d", i);
        list[i].name[strlen(list[i].name)] = 1;
    }
    folder f;
    folder_make(&f);
    char message[256] = "";
    const char *path = folder_file(&f, "new");
    cr_expect_eq(rapt_safetensors_save(path, list, COUNT, message), RAPT_ERR_ARGUMENT);
    expect_message(message, "list header 100000000", __LINE__);
    cr_expect_eq(folder_count(&f), 0);
    free(list);
    folder_remove(&f);
}
#endif

/* Only a regular file is ever replaced: devices and pipes stay what they are. */
Test(safetensors_fail, save_places) {
    const rapt_parameter p = query_parameter();
    char message[256], name[300], pipe[FOLDER_PATH + 300];
    folder f;
    folder_make(&f);
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    snprintf(pipe, sizeof pipe, "%s", folder_file(&f, "pipe"));
    cr_assert_eq(mkfifo(pipe, 0600), 0);
    const char *const bad[] = {"/proc/self/no", "/nowhere/at/all", pipe, f.path, name, ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        *message = 0;
        cr_expect_eq(rapt_safetensors_save(bad[i], &p, 1, message), RAPT_ERR_FILE, "%s", bad[i]);
        cr_expect_gt(strlen(message), 0, "%s", bad[i]);
    }
    struct stat information;
    cr_assert_eq(stat(pipe, &information), 0);
    cr_expect(S_ISFIFO(information.st_mode));
    cr_expect_eq(folder_count(&f), 1);
    folder_remove(&f);
}

/* The disk is full, the device fails, the name cannot be changed. */
Test(safetensors_fail, save_fails_half_way) {
    static float large[20000];
    const rapt_parameter p = {"t", rapt_tensor_1d(RAPT_F32, large, 20000)};
    folder f;
    folder_make(&f);
    refuse_fsync(1);
    expect_not_saved(&f, &p, 1, RAPT_ERR_FILE, "write error", __LINE__);
    refuse_fsync(0);
    refuse_rename(1);
    expect_not_saved(&f, &p, 1, RAPT_ERR_FILE, "replace kept", __LINE__);
    refuse_rename(0);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlim_t before = limit.rlim_cur;
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t bytes = 4; bytes < 80000; bytes += 39000) {
        limit.rlim_cur = bytes;
        setrlimit(RLIMIT_FSIZE, &limit);
        expect_not_saved(&f, &p, 1, RAPT_ERR_FILE, "write kept large", __LINE__);
    }
    limit.rlim_cur = before;
    setrlimit(RLIMIT_FSIZE, &limit);
    folder_remove(&f);
}

/* ---- Memory ---- */

/* From the n-th allocation on there is no memory, for every n until there is enough. Jansson calls
 * a string for which it has no memory an invalid token: the file is refused as wrong then. */
Test(safetensors_fail, open_without_memory) {
    json_set_alloc_funcs(refuse_malloc, free);
    rapt_status status = RAPT_ERR_MEMORY;
    int64_t n = 0, reported = 0;
    for (; status != RAPT_OK && n < 2000; n++) {
        rapt_safetensors *file = (rapt_safetensors *)&n;
        refuse_mmap(1);
        refuse_allocations_after(n);
        status = rapt_safetensors_open(&file, DATA("types"));
        refuse_allocations_after(INT64_MAX);
        cr_expect(status == RAPT_OK || status == RAPT_ERR_MEMORY || status == RAPT_ERR_FILE);
        reported += status == RAPT_ERR_MEMORY;
        cr_expect_eq(file == NULL, status == RAPT_ERR_MEMORY, "allocation %d", (int)n);
        rapt_safetensors_close(file);
    }
    cr_expect_eq(status, RAPT_OK);
    cr_expect_gt(n, 50);
    cr_expect_gt(2 * reported, n);
}

Test(safetensors_fail, view_without_memory) {
    static const char unaligned[] =
        "\x37\0\0\0\0\0\0\0"
        "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}} "
        "1234";
    folder f;
    folder_make(&f);
    file_write(folder_file(&f, "odd"), unaligned, sizeof unaligned - 1);
    rapt_safetensors *file = NULL;
    rapt_tensor view;
    const rapt_status opened = rapt_safetensors_open(&file, f.file);
    cr_assert_eq(opened, RAPT_OK, "%s", rapt_safetensors_message(file));
    refuse_allocations_after(0);
    const rapt_status status = rapt_safetensors_get(file, "t", &view);
    refuse_allocations_after(INT64_MAX);
    cr_expect_eq(status, RAPT_ERR_MEMORY);
    expect_message(rapt_safetensors_message(file), "t 4 bytes", __LINE__);
    cr_expect_eq(rapt_safetensors_get(file, "t", &view), RAPT_OK);
    cr_expect_eq(memcmp(view.data, "1234", 4), 0);
    rapt_safetensors_close(file);
    folder_remove(&f);
}

Test(safetensors_fail, save_without_memory) {
    json_set_alloc_funcs(refuse_malloc, free);
    const rapt_parameter list[2] = {query_parameter(), {"t", rapt_tensor_1d(RAPT_F32, sink, 2)}};
    folder f;
    folder_make(&f);
    char message[256];
    rapt_status status = RAPT_ERR_MEMORY;
    int64_t n = 0;
    for (; status != RAPT_OK && n < 2000; n++) {
        *message = 0;
        folder_file(&f, "new");
        refuse_allocations_after(n);
        status = rapt_safetensors_save(f.file, list, 2, message);
        refuse_allocations_after(INT64_MAX);
        cr_expect(status == RAPT_OK || status == RAPT_ERR_MEMORY, "allocation %d: %s", (int)n,
                  message);
        cr_expect_eq(*message == 0, status == RAPT_OK);
        cr_expect_eq(folder_count(&f), status == RAPT_OK, "allocation %d", (int)n);
    }
    cr_expect_eq(status, RAPT_OK);
    cr_expect_gt(n, 20);
    folder_remove(&f);
}
