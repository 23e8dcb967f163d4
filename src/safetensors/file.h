/* SPDX-License-Identifier: MIT
 * file.h: what the sources of rapt_safetensors share: the file that is open, its tensors, messages.
 *
 * The format, all of it:   8 bytes       N, little-endian
 *                          N bytes       JSON, {"name": {"dtype": "F32", "shape": [2, 3],
 *                                        "data_offsets": [begin, end]}, ...}, then spaces
 *                          the rest      data; offsets count from its begin and tile it whole */
#ifndef RAPTI_SAFETENSORS_FILE_H
#define RAPTI_SAFETENSORS_FILE_H

#include <rapt/safetensors.h>

#include <jansson.h>

#include <stddef.h>
#include <stdint.h>

/* Longest header, as in the reference implementation: parsing it must not exhaust the machine. */
enum { RAPTI_SAFETENSORS_MAX_HEADER = 100000000 };

/* Room for a message, its end included: what rapt_safetensors_save asks of its caller. */
enum { RAPTI_SAFETENSORS_MESSAGE = 256 };

/* An element type of the format. */
typedef struct rapti_safetensors_dtype {
    const char *name;
    int32_t bits;  /* of one element; not always whole bytes */
    int32_t dtype; /* the rapt_dtype that it is, 0 = none */
} rapti_safetensors_dtype;

/* One tensor of an open file. */
typedef struct rapti_safetensors_entry {
    const char *name; /* owned by the header */
    const rapti_safetensors_dtype *type;
    int64_t rank; /* any; sizes beyond RAPT_MAX_RANK are checked, but not kept */
    int64_t size[RAPT_MAX_RANK];
    int64_t begin, end; /* bytes from the begin of the data */
    void *aligned;      /* a copy, made when a file that does not align its tensors is viewed */
} rapti_safetensors_entry;

struct rapt_safetensors {
    char message[RAPTI_SAFETENSORS_MESSAGE];
    unsigned char *bytes; /* the whole file; null = not open */
    int64_t length;
    int mapped; /* bytes come from mmap, else from malloc */
    const unsigned char *data;
    json_t *header;
    rapti_safetensors_entry *entry;    /* [count], in the order of their data */
    rapti_safetensors_entry **by_name; /* [count], in the order of their names */
    int64_t count;
};

/* Writes the message, one line, and returns `status`. `message` may be null. */
rapt_status rapti_safetensors_fail(char *message, rapt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* RAPT_ERR_FILE, or RAPT_ERR_MEMORY for that errno: "<action> <path>: <what errno says>". */
rapt_status rapti_safetensors_fail_errno(char *message, const char *action, const char *path);

/* RAPT_ERR_FILE where numbers in memory are not what they are in a file: on big-endian machines. */
rapt_status rapti_safetensors_check_machine(char *message);

/* The type of that name, or of that rapt_dtype; null if there is none. */
const rapti_safetensors_dtype *rapti_safetensors_dtype_named(const char *name);
const rapti_safetensors_dtype *rapti_safetensors_dtype_of(rapt_dtype dtype);

/* The place of a type in the order of types in a file: larger elements first, so that every tensor
 * is aligned if the first one is. As the reference implementation has it. */
int rapti_safetensors_dtype_order(const rapti_safetensors_dtype *type);

/* From file->bytes to header, entries and data, everything checked. */
rapt_status rapti_safetensors_parse(rapt_safetensors *file);

/* The entry called prefix + name; null if there is none. */
rapti_safetensors_entry *rapti_safetensors_find(const rapt_safetensors *file, const char *prefix,
                                                const char *name);

#endif
