/* SPDX-License-Identifier: MIT
 * test_safetensors_bad.c: files that are wrong, and parameters that do not fit: each has its status
 * and message, and nothing is written. */
#include "folder.h"
#include "message.h"
#include "refuse.h"
#include "rng.h"

#include <criterion/criterion.h>

#include <rapt/safetensors.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DATA(name) RAPT_TEST_DATA "/" name ".safetensors"

/* ---- Files that are wrong ---- */

/* Header length, header, data. */
static size_t compose(unsigned char *bytes, uint64_t length, const char *header, size_t data) {
    for (int i = 0; i < 8; i++) { bytes[i] = (unsigned char)(length >> 8 * i); }
    memcpy(bytes + 8, header, strlen(header));
    memset(bytes + 8 + strlen(header), 0, data);
    return 8 + strlen(header) + data;
}

/* Opening fails; what is left gives its message and refuses everything else. */
static void expect_refused(const char *path, rapt_status expected, const char *words, int line) {
    rapt_safetensors *file = NULL;
    cr_expect_eq(rapt_safetensors_open(&file, path), expected, "line %d", line);
    cr_assert_not_null(file, "line %d", line);
    expect_message(rapt_safetensors_message(file), words, line);
    rapt_tensor view;
    cr_expect_eq(rapt_safetensors_count(file), 0);
    cr_expect_null(rapt_safetensors_name(file, 0));
    cr_expect_eq(rapt_safetensors_get(file, "t", &view), RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_safetensors_load(file, NULL, NULL, 0), RAPT_ERR_ARGUMENT);
    expect_message(rapt_safetensors_message(file), "open", line);
    rapt_safetensors_close(file);
}

static void expect_bad_bytes(const void *bytes, size_t size, const char *words, int line) {
    folder f;
    folder_make(&f);
    file_write(folder_file(&f, "bad"), bytes, size);
    expect_refused(folder_file(&f, "bad"), RAPT_ERR_FILE, words, line);
    folder_remove(&f);
}

typedef struct bad_header {
    const char *header;
    size_t data;
    const char *words; /* of the message */
} bad_header;

#define T(dtype, shape, begin, end)                                                                \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static const bad_header bad_headers[] = {
    /* not the JSON that it should be */
    {"", 0, "brace"},
    {" {}", 0, "brace"},
    {"[]", 0, "brace"},
    {"{", 0, "header byte"},
    {"{}}", 0, "header byte"},
    {"{\"t\":}", 0, "header byte 6"},
    {"{\"t\\u0000\":" T("F32", "[1]", "0", "4") "}", 4, "header byte"},
    {"{\"t\xFF\":" T("F32", "[1]", "0", "4") "}", 4, "header byte 0xff"},
    {"{\"t\":" T("F32", "[1]", "0", "4") ",\"t\":" T("F32", "[1]", "0", "4") "}", 4, "duplicate"},
    {"{\"t\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4,
     "duplicate"},
    /* missing or of another kind */
    {"{\"t\":1}", 0, "t object"},
    {"{\"t\":null}", 0, "t object"},
    {"{\"t\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "t dtype"},
    {"{\"t\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "t dtype"},
    {"{\"t\":" T("F31", "[1]", "0", "4") "}", 4, "t dtype F31"},
    {"{\"t\":" T("f32", "[1]", "0", "4") "}", 4, "t dtype f32"},
    {"{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "t shape"},
    {"{\"t\":" T("F32", "1", "0", "4") "}", 4, "t shape"},
    {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "t data_offsets"},
    {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4]}}", 4, "t data_offsets"},
    {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", 4, "t data_offsets"},
    {"{\"__metadata__\":[]}", 0, "__metadata__"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__ a"},
    /* numbers that cannot be */
    {"{\"t\":" T("F32", "[-1]", "0", "4") "}", 4, "t size"},
    {"{\"t\":" T("F32", "[1.0]", "0", "4") "}", 4, "t size"},
    {"{\"t\":" T("F32", "[\"1\"]", "0", "4") "}", 4, "t size"},
    {"{\"t\":" T("F32", "[18446744073709551617]", "0", "4") "}", 4, "header byte"},
    {"{\"t\":" T("F32", "[4611686018427387904,4]", "0", "0") "}", 0, "t overflow"},
    {"{\"t\":" T("F32", "[0,4611686018427387904,4]", "0", "0") "}", 0, "t overflow"},
    {"{\"t\":" T("F32", "[4294967296,4294967296]", "0", "0") "}", 0, "t overflow"},
    {"{\"t\":" T("F4", "[3]", "0", "1") "}", 1, "t bytes"},
    {"{\"t\":" T("F32", "[2]", "0", "4") "}", 4, "t 4 8"},
    {"{\"t\":" T("F32", "[]", "0", "0") "}", 0, "t 0 4"},
    {"{\"t\":" T("F32", "[1]", "-4", "0") "}", 4, "t range"},
    {"{\"t\":" T("F32", "[1]", "4", "0") "}", 4, "t range"},
    {"{\"t\":" T("F32", "[1]", "0.0", "4") "}", 4, "t range"},
    /* ranges that do not tile the data */
    {"{\"t\":" T("F32", "[1]", "4", "8") "}", 8, "t 4 0"},
    {"{\"t\":" T("F32", "[1]", "0", "4") "}", 3, "4 3"},
    {"{\"t\":" T("F32", "[1]", "0", "4") "}", 5, "4 5"},
    {"{\"t\":" T("F32", "[1]", "0", "4") ",\"u\":" T("F32", "[1]", "0", "4") "}", 4, "u 0 4"},
    {"{\"t\":" T("F32", "[2]", "0", "8") ",\"u\":" T("F32", "[1]", "4", "8") "}", 8, "u 4 8"},
    {"{\"t\":" T("F32", "[1]", "0", "4") ",\"u\":" T("F32", "[1]", "8", "12") "}", 12, "u 8 4"},
    {"{\"t\":" T("F32", "[0]", "2", "2") ",\"u\":" T("F32", "[1]", "0", "4") "}", 4, "t 2 4"},
    {"{\"t\":" T("F32", "[1]", "9223372036854775803", "9223372036854775807") "}", 4, "t"},
    {"{}", 1, "0 1"},
};

Test(safetensors_bad, headers) {
    unsigned char bytes[512];
    for (size_t i = 0; i < sizeof bad_headers / sizeof *bad_headers; i++) {
        const bad_header *bad = &bad_headers[i];
        const size_t size = compose(bytes, strlen(bad->header), bad->header, bad->data);
        expect_bad_bytes(bytes, size, bad->words, (int)i);
    }
}

Test(safetensors_bad, lengths) {
    unsigned char bytes[64];
    size_t size = compose(bytes, 2, "{}", 0);
    for (size_t n = 0; n < 8; n++) { expect_bad_bytes(bytes, n, "short", __LINE__); }
    expect_bad_bytes(bytes, 9, "2 9", __LINE__);
    size = compose(bytes, 3, "{}", 0);
    expect_bad_bytes(bytes, size, "3 10", __LINE__);
    size = compose(bytes, 100000001, "{}", 0);
    expect_bad_bytes(bytes, size, "100000001 100000000", __LINE__);
    size = compose(bytes, UINT64_MAX, "{}", 0);
    expect_bad_bytes(bytes, size, "18446744073709551615", __LINE__);
    size = compose(bytes, 0, "{}", 0);
    expect_bad_bytes(bytes, size, "brace", __LINE__);
}

/* Every file that ends early is refused. */
Test(safetensors_bad, truncated) {
    const file_bytes whole = file_read(DATA("types"));
    folder f;
    folder_make(&f);
    for (size_t n = 0; n < whole.size; n += n < 1300 ? 13 : 1) {
        file_write(folder_file(&f, "cut"), whole.data, n);
        rapt_safetensors *file = NULL;
        cr_expect_eq(rapt_safetensors_open(&file, f.file), RAPT_ERR_FILE, "%zu bytes", n);
        rapt_safetensors_close(file);
    }
    free(whole.data);
    folder_remove(&f);
}

/* Jansson limits how deep it goes; the message of a control character is one line. */
Test(safetensors_bad, deep_and_unprintable) {
    enum { DEPTH = 100000 };
    unsigned char *bytes = calloc(1, DEPTH + 64);
    const size_t length = 5 + DEPTH;
    bytes[0] = (unsigned char)length;
    bytes[1] = (unsigned char)(length >> 8);
    bytes[2] = (unsigned char)(length >> 16);
    memcpy(bytes + 8, "{\"t\":", 5);
    memset(bytes + 13, '[', DEPTH);
    expect_bad_bytes(bytes, 8 + length, "header byte", __LINE__);
    free(bytes);
    unsigned char line[128];
    const size_t size = compose(line, 14, "{\"a\\nb\\r\\u007f\":1}", 0);
    line[0] = (unsigned char)(size - 8);
    expect_bad_bytes(line, size, "a b object", __LINE__);
}

Test(safetensors_bad, paths) {
    folder f;
    folder_make(&f);
    expect_refused(NULL, RAPT_ERR_ARGUMENT, "path null", __LINE__);
    expect_refused("", RAPT_ERR_FILE, "open", __LINE__);
    expect_refused(folder_file(&f, "none"), RAPT_ERR_FILE, "open none", __LINE__);
    expect_refused(f.path, RAPT_ERR_FILE, "regular", __LINE__);
    expect_refused("/dev/null", RAPT_ERR_FILE, "regular", __LINE__);
    cr_assert_eq(mkfifo(folder_file(&f, "pipe"), 0600), 0);
    expect_refused(f.file, RAPT_ERR_FILE, "pipe regular", __LINE__);
    folder_remove(&f);
}

/* Opens what may be anything; whatever opens can be walked to the last byte. */
static int walk(const char *path) {
    rapt_safetensors *file = NULL;
    const rapt_status status = rapt_safetensors_open(&file, path);
    cr_assert(status == RAPT_OK || status == RAPT_ERR_FILE, "%s", rapt_status_name(status));
    cr_expect_eq(*rapt_safetensors_message(file) == 0, status == RAPT_OK);
    unsigned sum = 0;
    for (int64_t i = 0; i < rapt_safetensors_count(file); i++) {
        rapt_tensor t;
        if (rapt_safetensors_get(file, rapt_safetensors_name(file, i), &t) != RAPT_OK) { continue; }
        int64_t bytes = rapt_dtype_bytes(t.dtype);
        for (int32_t axis = 0; axis < t.rank; axis++) { bytes *= t.size[axis]; }
        for (int64_t n = 0; n < bytes; n++) { sum += ((unsigned char *)t.data)[n]; }
    }
    rapt_safetensors_close(file);
    return status == RAPT_OK && sum != 1;
}

/* A few bytes of a good file become others: mostly characters that JSON and numbers are made of.
 * Without mmap the file's memory ends where the sanitizer sees it. */
Test(safetensors_bad, mutated, .timeout = 300) {
    static const char likely[] = "0123456789-.,:[]{}\"eE \\ut0129";
    const file_bytes whole = file_read(DATA("types"));
    const char *wish = getenv("RAPT_TEST_CASES");
    const int cases = wish ? atoi(wish) : 10000;
    int good = 0;
    folder f;
    folder_make(&f);
    folder_file(&f, "mutated");
    unsigned char *bytes = calloc(1, whole.size);
    for (int n = 0; n < cases; n++) {
        rng r = rng_make(1, (uint64_t)n);
        memcpy(bytes, whole.data, whole.size);
        for (int64_t change = rng_range(&r, 1, 4); change > 0; change--) {
            const int anywhere = rng_chance(&r, 10);
            unsigned char *at = &bytes[rng_range(&r, anywhere ? 0 : 8, anywhere ? 7 : 1290)];
            *at = rng_chance(&r, 80) ? (unsigned char)likely[rng_range(&r, 0, sizeof likely - 2)]
                                     : (unsigned char)rng_next(&r);
        }
        file_write(f.file, bytes, whole.size);
        refuse_mmap(n % 2);
        good += walk(f.file);
    }
    cr_expect_gt(good, cases / 200, "%d of %d files open", good, cases);
    cr_expect_lt(good, cases / 2, "%d of %d files open", good, cases);
    free(bytes);
    free(whole.data);
    folder_remove(&f);
}

Test(safetensors_bad, without_mmap) {
    refuse_mmap(1);
    cr_expect_eq(walk(DATA("types")), 1);
    cr_expect_eq(walk(DATA("causal")), 1);
}

/* ---- Loading what does not fit ---- */

static float sink[6];

static rapt_parameter query_parameter(void) {
    return (rapt_parameter){"W_query.weight", rapt_tensor_2d(RAPT_F32, sink, 2, 3)};
}

/* The second of two parameters is wrong: the first is not written either. */
static void expect_not_loaded(const rapt_parameter *wrong, rapt_status expected, const char *words,
                              int line) {
    rapt_safetensors *file = NULL;
    cr_assert_eq(rapt_safetensors_open(&file, DATA("causal")), RAPT_OK);
    float key[6] = {9, 9, 9, 9, 9, 9};
    const rapt_parameter list[2] = {{"W_key.weight", rapt_tensor_2d(RAPT_F32, key, 2, 3)}, *wrong};
    cr_expect_eq(rapt_safetensors_load(file, NULL, list, 2), expected, "line %d", line);
    expect_message(rapt_safetensors_message(file), words, line);
    for (int i = 0; i < 6; i++) { cr_expect_eq(key[i], 9, "line %d", line); }
    rapt_safetensors_close(file);
}

Test(safetensors_bad, load) {
    rapt_parameter p = query_parameter();
    strcpy(p.name, "W_q");
    expect_not_loaded(&p, RAPT_ERR_ARGUMENT, "W_q", __LINE__);
    p = query_parameter();
    memset(p.name, 'x', sizeof p.name);
    expect_not_loaded(&p, RAPT_ERR_ARGUMENT, "name 64", __LINE__);
    p = query_parameter();
    p.tensor.data = NULL;
    expect_not_loaded(&p, RAPT_ERR_ARGUMENT, "W_query null", __LINE__);
    p = query_parameter();
    p.tensor.dtype = RAPT_I32;
    expect_not_loaded(&p, RAPT_ERR_DTYPE, "W_query F32 I32", __LINE__);
    p.tensor.dtype = (rapt_dtype)77;
    expect_not_loaded(&p, RAPT_ERR_DTYPE, "W_query 77", __LINE__);
    p = query_parameter();
    p.tensor = rapt_tensor_2d(RAPT_F32, sink, 3, 2);
    expect_not_loaded(&p, RAPT_ERR_SHAPE, "W_query 2 3 3 2", __LINE__);
    p.tensor = rapt_tensor_1d(RAPT_F32, sink, 6);
    expect_not_loaded(&p, RAPT_ERR_SHAPE, "W_query 2 3 6", __LINE__);
    p.tensor = rapt_tensor_1d(RAPT_F32, sink, 2);
    expect_not_loaded(&p, RAPT_ERR_SHAPE, "W_query 2 3", __LINE__);
    p.tensor = rapt_tensor_3d(RAPT_F32, sink, 2, 3, 0);
    expect_not_loaded(&p, RAPT_ERR_SHAPE, "W_query 2 3 0", __LINE__);
    p.tensor.rank = 7;
    expect_not_loaded(&p, RAPT_ERR_SHAPE, "W_query 7 6", __LINE__);
    p.tensor.rank = -1;
    expect_not_loaded(&p, RAPT_ERR_SHAPE, "W_query 1 6", __LINE__);
    p = query_parameter();
    p.tensor.size[1] = -3;
    expect_not_loaded(&p, RAPT_ERR_SHAPE, "W_query 3 1", __LINE__);
    p = query_parameter();
    p.tensor.stride[0] = INT64_MIN;
    expect_not_loaded(&p, RAPT_ERR_SHAPE, "W_query 2 0", __LINE__);
    p.tensor.stride[0] = INT64_C(1) << 60;
    expect_not_loaded(&p, RAPT_ERR_SHAPE, "W_query 2 0", __LINE__);
    p.tensor.stride[0] = 2;
    expect_not_loaded(&p, RAPT_ERR_OVERLAP, "W_query overlaps", __LINE__);
    p.tensor.stride[0] = 0;
    expect_not_loaded(&p, RAPT_ERR_OVERLAP, "W_query overlaps", __LINE__);
}

Test(safetensors_bad, null_arguments) {
    rapt_safetensors *file = NULL;
    rapt_tensor view;
    cr_assert_eq(rapt_safetensors_open(&file, DATA("causal")), RAPT_OK);
    cr_expect_eq(rapt_safetensors_get(file, NULL, &view), RAPT_ERR_ARGUMENT);
    expect_message(rapt_safetensors_message(file), "name null", __LINE__);
    cr_expect_eq(rapt_safetensors_get(file, "mask", NULL), RAPT_ERR_ARGUMENT);
    expect_message(rapt_safetensors_message(file), "view null", __LINE__);
    cr_expect_eq(rapt_safetensors_load(file, NULL, NULL, 1), RAPT_ERR_ARGUMENT);
    expect_message(rapt_safetensors_message(file), "list null", __LINE__);
    const rapt_parameter p = query_parameter();
    cr_expect_eq(rapt_safetensors_load(file, NULL, &p, -1), RAPT_ERR_ARGUMENT);
    expect_message(rapt_safetensors_message(file), "count 1", __LINE__);
    rapt_safetensors_close(file);
}
