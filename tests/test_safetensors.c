/* SPDX-License-Identifier: MIT
 * test_safetensors.c: files that are right: those of the Python package are read, ours are the same
 * bytes, parameters come back as they were, whatever their strides. data/make_safetensors.py made
 * the package's files. */
#include "folder.h"
#include "message.h"

#include <criterion/criterion.h>

#include <rapt/safetensors.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DATA(name) RAPT_TEST_DATA "/" name ".safetensors"

static rapt_safetensors *open_file(const char *path) {
    rapt_safetensors *file = NULL;
    const rapt_status status = rapt_safetensors_open(&file, path);
    cr_assert_eq(status, RAPT_OK, "%s", rapt_safetensors_message(file));
    cr_assert_not_null(file);
    cr_expect_str_eq(rapt_safetensors_message(file), "");
    return file;
}

static rapt_tensor get(rapt_safetensors *file, const char *name) {
    rapt_tensor view;
    memset(&view, 0xFF, sizeof view);
    const rapt_status status = rapt_safetensors_get(file, name, &view);
    cr_assert_eq(status, RAPT_OK, "%s", rapt_safetensors_message(file));
    return view;
}

static rapt_parameter parameter(const char *name, rapt_tensor tensor) {
    rapt_parameter p = {"", tensor};
    snprintf(p.name, sizeof p.name, "%s", name);
    return p;
}

static void expect_view(const rapt_tensor *view, rapt_dtype dtype, int32_t rank,
                        const int64_t *size, const void *bytes, int line) {
    const rapt_tensor want = rapt_tensor_contiguous(dtype, view->data, rank, size);
    int64_t count = rapt_dtype_bytes(dtype);
    cr_expect_eq(view->dtype, dtype, "line %d", line);
    cr_assert_eq(view->rank, rank, "line %d", line);
    for (int32_t axis = 0; axis < rank; axis++) {
        cr_expect_eq(view->size[axis], want.size[axis], "line %d", line);
        cr_expect_eq(view->stride[axis], want.stride[axis], "line %d", line);
        count *= size[axis];
    }
    cr_expect_eq((uintptr_t)view->data % (uintptr_t)rapt_dtype_bytes(dtype), 0, "line %d", line);
    if (count) { cr_expect_eq(memcmp(view->data, bytes, (size_t)count), 0, "line %d", line); }
}

static const float w_query[6] = {-0.235429645f, 0.0191244762f, -0.286745936f,
                                 0.217726618f,  -0.49193421f,  0.423223078f};
static const float w_key[6] = {-0.419641405f, -0.459017664f, -0.364820182f,
                               0.261478186f,  -0.213326395f, 0.216052175f};

/* ---- Reading what the Python package wrote ---- */

Test(safetensors, state_dict) {
    rapt_safetensors *file = open_file(DATA("causal"));
    static const char *const names[] = {"W_key.weight", "W_query.weight", "W_value.weight", "mask"};
    cr_assert_eq(rapt_safetensors_count(file), 4);
    for (int i = 0; i < 4; i++) { cr_expect_str_eq(rapt_safetensors_name(file, i), names[i]); }
    cr_expect_null(rapt_safetensors_name(file, 4));
    cr_expect_null(rapt_safetensors_name(file, -1));
    const rapt_tensor query = get(file, "W_query.weight"), key = get(file, "W_key.weight");
    expect_view(&query, RAPT_F32, 2, (int64_t[]){2, 3}, w_query, __LINE__);
    expect_view(&key, RAPT_F32, 2, (int64_t[]){2, 3}, w_key, __LINE__);
    rapt_safetensors_close(file);
}

/* A list without the mask is loaded; the mask is not looked at. */
Test(safetensors, load_leaves_other_tensors_alone) {
    float query[6] = {0}, key[6] = {0};
    const rapt_parameter list[2] = {
        parameter("W_query.weight", rapt_tensor_2d(RAPT_F32, query, 2, 3)),
        parameter("W_key.weight", rapt_tensor_2d(RAPT_F32, key, 2, 3))};
    rapt_safetensors *file = open_file(DATA("causal"));
    cr_expect_eq(rapt_safetensors_load(file, NULL, list, 2), RAPT_OK);
    rapt_safetensors_close(file);
    cr_expect_eq(memcmp(query, w_query, sizeof query), 0);
    cr_expect_eq(memcmp(key, w_key, sizeof key), 0);
}

Test(safetensors, every_type) {
    rapt_safetensors *file = open_file(DATA("types"));
    cr_expect_eq(rapt_safetensors_count(file), 19);
    const unsigned char bools[3] = {1, 0, 1};
    const int32_t ints[3] = {1, 0, 100};
    const int64_t longs[3] = {1, 0, 100}, scalar_long = -((int64_t)1 << 40), three = 3;
    const float floats[3] = {1, 0, 100}, scalar = -2.5f;
    rapt_tensor view = get(file, "t.bool");
    expect_view(&view, RAPT_BOOL, 1, &three, bools, __LINE__);
    view = get(file, "t.int32");
    expect_view(&view, RAPT_I32, 1, &three, ints, __LINE__);
    view = get(file, "t.int64");
    expect_view(&view, RAPT_I64, 1, &three, longs, __LINE__);
    view = get(file, "t.float32");
    expect_view(&view, RAPT_F32, 1, &three, floats, __LINE__);
    view = get(file, "scalar");
    expect_view(&view, RAPT_F32, 0, &three, &scalar, __LINE__);
    view = get(file, "scalar.i64");
    expect_view(&view, RAPT_I64, 0, &three, &scalar_long, __LINE__);
    view = get(file, "empty");
    expect_view(&view, RAPT_F32, 3, (int64_t[]){2, 0, 3}, "", __LINE__);
    rapt_safetensors_close(file);
}

static void expect_no_view(rapt_safetensors *file, const char *name, rapt_status expected,
                           const char *words, int line) {
    rapt_tensor view = {0};
    cr_expect_eq(rapt_safetensors_get(file, name, &view), expected, "line %d", line);
    cr_expect_eq(view.dtype, 0, "line %d", line);
    expect_message(rapt_safetensors_message(file), words, line);
}

Test(safetensors, what_cannot_be_viewed) {
    rapt_safetensors *file = open_file(DATA("types"));
    expect_no_view(file, "t.float16", RAPT_ERR_DTYPE, "float16 F16", __LINE__);
    expect_no_view(file, "t.bfloat16", RAPT_ERR_DTYPE, "bfloat16 BF16", __LINE__);
    expect_no_view(file, "t.float8_e4m3fn", RAPT_ERR_DTYPE, "F8_E4M3", __LINE__);
    expect_no_view(file, "t.uint64", RAPT_ERR_DTYPE, "U64", __LINE__);
    expect_no_view(file, "seven.axes", RAPT_ERR_SHAPE, "7 6", __LINE__);
    expect_no_view(file, "t.float", RAPT_ERR_ARGUMENT, "t.float", __LINE__);
    expect_no_view(file, "", RAPT_ERR_ARGUMENT, "tensor", __LINE__);
    rapt_safetensors_close(file);
}

/* The header is not padded, and an odd byte stands before the floats: views are aligned copies. */
Test(safetensors, files_without_alignment) {
    static const char header[] = "{\"b\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                 "\"f\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[1,9]}}";
    const float values[2] = {1.5f, -3};
    for (size_t spaces = 0; spaces < 8; spaces++) {
        unsigned char bytes[256] = {0};
        const size_t length = strlen(header) + spaces;
        bytes[0] = (unsigned char)length;
        memset(bytes + 8, ' ', length);
        memcpy(bytes + 8, header, strlen(header));
        bytes[8 + length] = 1;
        memcpy(bytes + 9 + length, values, sizeof values);
        folder f;
        folder_make(&f);
        file_write(folder_file(&f, "odd"), bytes, 17 + length);
        rapt_safetensors *file = open_file(folder_file(&f, "odd"));
        const rapt_tensor first = get(file, "f"), second = get(file, "f");
        expect_view(&first, RAPT_F32, 1, (int64_t[]){2}, values, __LINE__);
        cr_expect_eq(first.data, second.data);
        float loaded[2];
        const rapt_parameter list = parameter("f", rapt_tensor_1d(RAPT_F32, loaded, 2));
        cr_expect_eq(rapt_safetensors_load(file, "", &list, 1), RAPT_OK);
        cr_expect_eq(memcmp(loaded, values, sizeof values), 0);
        rapt_safetensors_close(file);
        folder_remove(&f);
    }
}

/* Tensors without elements may stand anywhere, whatever their names. */
Test(safetensors, empty_tensors_between_others) {
    static const char bytes[] = "\xA1\0\0\0\0\0\0\0"
                                "{\"a\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[0,2]},"
                                "\"b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
                                "\"c\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[2,2]}}"
                                "\1\2";
    folder f;
    folder_make(&f);
    file_write(folder_file(&f, "t"), bytes, sizeof bytes - 1);
    rapt_safetensors *file = open_file(f.file);
    cr_assert_eq(rapt_safetensors_count(file), 3);
    cr_expect_str_eq(rapt_safetensors_name(file, 0), "b");
    cr_expect_str_eq(rapt_safetensors_name(file, 1), "a");
    cr_expect_str_eq(rapt_safetensors_name(file, 2), "c");
    rapt_tensor view = get(file, "a");
    expect_view(&view, RAPT_BOOL, 1, (int64_t[]){2}, "\1\2", __LINE__);
    rapt_safetensors_close(file);
    folder_remove(&f);
}

/* ---- Saving ---- */

static const float numbers[6] = {0, 1, 2, 3, 4, 5}, half = 0.5f;
static const int64_t longs[2] = {-1, INT64_C(1) << 62};
static const int32_t seven = 7;
static const unsigned char flags[3] = {1, 0, 1};

enum { SAVED = 7 };

static void make_list(rapt_parameter list[SAVED]) {
    const rapt_tensor matrix = rapt_tensor_2d(RAPT_F32, numbers, 2, 3);
    list[0] = parameter("b.weight", matrix);
    list[1] = parameter("a.transposed", rapt_tensor_transpose(matrix));
    list[2] = parameter("flags", rapt_tensor_1d(RAPT_BOOL, flags, 3));
    list[3] = parameter("long", rapt_tensor_1d(RAPT_I64, longs, 2));
    list[4] = parameter("int", rapt_tensor_contiguous(RAPT_I32, &seven, 0, NULL));
    list[5] = parameter("empty", rapt_tensor_2d(RAPT_F32, NULL, 0, 4));
    list[6] = parameter("q\"\\/\n\xC3\xA4", rapt_tensor_1d(RAPT_F32, &half, 1));
}

static void save(const char *path, const rapt_parameter *list, int64_t count) {
    char message[256] = "";
    cr_assert_eq(rapt_safetensors_save(path, list, count, message), RAPT_OK, "%s", message);
}

Test(safetensors, same_bytes_as_the_python_package) {
    rapt_parameter list[SAVED];
    make_list(list);
    const file_bytes want = file_read(DATA("saved"));
    folder f;
    folder_make(&f);
    /* in any order of the list */
    for (int turn = 0; turn < SAVED; turn++) {
        save(folder_file(&f, "new"), list, SAVED);
        const file_bytes got = file_read(folder_file(&f, "new"));
        cr_expect_eq(got.size, want.size);
        cr_expect(got.size == want.size && memcmp(got.data, want.data, got.size) == 0,
                  "turn %d:\n%.400s\n%.400s", turn, (char *)got.data + 8, (char *)want.data + 8);
        free(got.data);
        const rapt_parameter first = list[0];
        memmove(list, list + 1, (SAVED - 1) * sizeof *list);
        list[SAVED - 1] = first;
    }
    cr_expect_eq(folder_count(&f), 1);
    free(want.data);
    folder_remove(&f);
}

Test(safetensors, empty_list) {
    folder f;
    folder_make(&f);
    save(folder_file(&f, "none"), NULL, 0);
    const file_bytes got = file_read(folder_file(&f, "none"));
    cr_expect_eq(got.size, 16);
    cr_expect_eq(memcmp(got.data, "\10\0\0\0\0\0\0\0{}      ", 16), 0);
    free(got.data);
    rapt_safetensors *file = open_file(folder_file(&f, "none"));
    cr_expect_eq(rapt_safetensors_count(file), 0);
    cr_expect_eq(rapt_safetensors_load(file, NULL, NULL, 0), RAPT_OK);
    rapt_safetensors_close(file);
    folder_remove(&f);
}

/* 3 x 2 x 2 in every way that strides allow: forwards, backwards, transposed, with gaps. Gaps keep
 * their bytes when the tensor is loaded. */
Test(safetensors, strides_round_trip) {
    static const int64_t strides[][3] = {{4, 2, 1},  {1, 3, 6},    {8, 3, 1},  {-4, 2, 1},
                                         {4, -2, 1}, {-4, -2, -1}, {2, 6, -1}, {20, 7, 3}};
    folder f;
    folder_make(&f);
    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
        float from[128], to[128], want[128];
        for (int n = 0; n < 128; n++) {
            from[n] = (float)n;
            to[n] = want[n] = -1;
        }
        const int64_t size[3] = {3, 2, 2};
        rapt_parameter p =
            parameter("t", rapt_tensor_strided(RAPT_F32, from + 64, 3, size, strides[i]));
        save(folder_file(&f, "t"), &p, 1);
        rapt_safetensors *file = open_file(folder_file(&f, "t"));
        const float *packed = get(file, "t").data;
        for (int64_t n = 0; n < 12; n++) {
            const int64_t at =
                64 + n / 4 * strides[i][0] + n / 2 % 2 * strides[i][1] + n % 2 * strides[i][2];
            cr_expect_eq(packed[n], from[at], "case %zu", i);
            want[at] = from[at];
        }
        p.tensor.data = to + 64;
        cr_expect_eq(rapt_safetensors_load(file, NULL, &p, 1), RAPT_OK, "case %zu", i);
        cr_expect_eq(memcmp(to, want, sizeof to), 0, "case %zu", i);
        rapt_safetensors_close(file);
    }
    folder_remove(&f);
}

Test(safetensors, broadcast_is_saved_in_full) {
    const int64_t size[2] = {3, 2}, stride[2] = {0, 1};
    const rapt_parameter p =
        parameter("t", rapt_tensor_strided(RAPT_F32, numbers + 4, 2, size, stride));
    folder f;
    folder_make(&f);
    save(folder_file(&f, "t"), &p, 1);
    rapt_safetensors *file = open_file(folder_file(&f, "t"));
    const rapt_tensor view = get(file, "t");
    expect_view(&view, RAPT_F32, 2, size, (float[]){4, 5, 4, 5, 4, 5}, __LINE__);
    rapt_safetensors_close(file);
    folder_remove(&f);
}

Test(safetensors, prefix) {
    float got = 0;
    const float one = 1, two = 2;
    const rapt_parameter list[2] = {parameter("ab.w", rapt_tensor_1d(RAPT_F32, &one, 1)),
                                    parameter("a.w", rapt_tensor_1d(RAPT_F32, &two, 1))};
    folder f;
    folder_make(&f);
    save(folder_file(&f, "t"), list, 2);
    rapt_safetensors *file = open_file(folder_file(&f, "t"));
    const rapt_parameter w = parameter("w", rapt_tensor_1d(RAPT_F32, &got, 1));
    cr_expect_eq(rapt_safetensors_load(file, "ab.", &w, 1), RAPT_OK);
    cr_expect_eq(got, 1);
    cr_expect_eq(rapt_safetensors_load(file, "a.", &w, 1), RAPT_OK);
    cr_expect_eq(got, 2);
    cr_expect_eq(rapt_safetensors_load(file, "a", &w, 1), RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_safetensors_load(file, NULL, &w, 1), RAPT_ERR_ARGUMENT);
    expect_message(rapt_safetensors_message(file), "w", __LINE__);
    rapt_safetensors_close(file);
    folder_remove(&f);
}

/* Whoever has the old file open keeps it; permissions and links stay. */
Test(safetensors, replacing_a_file) {
    const float one = 1, two = 2;
    rapt_parameter p = parameter("t", rapt_tensor_1d(RAPT_F32, &one, 1));
    folder f;
    folder_make(&f);
    char target[FOLDER_PATH + 300];
    snprintf(target, sizeof target, "%s", folder_file(&f, "target"));
    const char *link_path = folder_file(&f, "link");
    cr_assert_eq(symlink("target", link_path), 0);
    save(target, &p, 1);
    chmod(target, 0640);
    rapt_safetensors *old = open_file(target);
    const float *before = get(old, "t").data;

    p.tensor.data = (void *)(uintptr_t)&two;
    save(link_path, &p, 1);
    struct stat information;
    cr_assert_eq(lstat(link_path, &information), 0);
    cr_expect(S_ISLNK(information.st_mode));
    cr_assert_eq(stat(target, &information), 0);
    cr_expect_eq(information.st_mode & 0777, 0640);
    rapt_safetensors *new = open_file(target);
    cr_expect_eq(*before, 1);
    cr_expect_eq(*(float *)get(new, "t").data, 2);
    cr_expect_eq(folder_count(&f), 2);
    rapt_safetensors_close(old);
    rapt_safetensors_close(new);
    folder_remove(&f);
}

Test(safetensors, null_file) {
    rapt_tensor view;
    cr_expect_eq(rapt_safetensors_count(NULL), 0);
    cr_expect_null(rapt_safetensors_name(NULL, 0));
    cr_expect_gt(strlen(rapt_safetensors_message(NULL)), 0);
    cr_expect_eq(rapt_safetensors_get(NULL, "t", &view), RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_safetensors_load(NULL, NULL, NULL, 0), RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_safetensors_open(NULL, DATA("causal")), RAPT_ERR_ARGUMENT);
    rapt_safetensors_close(NULL);
}
