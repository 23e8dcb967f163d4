/* SPDX-License-Identifier: MIT
 * dtype.c: the element types of the format, from the smallest alignment to the largest. */
#include "file.h"

#include <string.h>

static const rapti_safetensors_dtype types[] = {
    {"F4", 4, 0},          {"F6_E2M3", 6, 0},     {"F6_E3M2", 6, 0}, {"BOOL", 8, RAPT_BOOL},
    {"U8", 8, 0},          {"I8", 8, 0},          {"F8_E5M2", 8, 0}, {"F8_E4M3", 8, 0},
    {"F8_E4M3FNUZ", 8, 0}, {"F8_E5M2FNUZ", 8, 0}, {"F8_E8M0", 8, 0}, {"I16", 16, 0},
    {"U16", 16, 0},        {"F16", 16, 0},        {"BF16", 16, 0},   {"I32", 32, RAPT_I32},
    {"U32", 32, 0},        {"F32", 32, RAPT_F32}, {"C64", 64, 0},    {"F64", 64, 0},
    {"I64", 64, RAPT_I64}, {"U64", 64, 0},
};

enum { TYPES = sizeof types / sizeof *types };

rapt_status rapti_safetensors_check_machine(char *message) {
    const uint16_t one = 1;
    if (*(const unsigned char *)&one == 1) { return RAPT_OK; }
    return rapti_safetensors_fail(message, RAPT_ERR_FILE,
                                  "the format is little-endian, this machine is not");
}

const rapti_safetensors_dtype *rapti_safetensors_dtype_named(const char *name) {
    for (int i = 0; i < TYPES; i++) {
        if (strcmp(types[i].name, name) == 0) { return &types[i]; }
    }
    return NULL;
}

const rapti_safetensors_dtype *rapti_safetensors_dtype_of(rapt_dtype dtype) {
    for (int i = 0; i < TYPES; i++) {
        if (types[i].dtype && types[i].dtype == (int32_t)dtype) { return &types[i]; }
    }
    return NULL;
}

int rapti_safetensors_dtype_order(const rapti_safetensors_dtype *type) {
    return TYPES - 1 - (int)(type - types);
}
