/* SPDX-License-Identifier: MIT
 * rapt/safetensors.h: parameters in files of the safetensors format (github.com/huggingface/
 * safetensors: 8 bytes of header length, a JSON header, raw little-endian data), under the names
 * that PyTorch's state_dict has. A library of its own, rapt_safetensors (it needs Jansson); not
 * part of rapt.h. No globals; one thread at a time per file. */
#ifndef RAPT_SAFETENSORS_H
#define RAPT_SAFETENSORS_H

#include "export.h"
#include "modules.h"
#include "status.h"
#include "tensor.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rapt_safetensors rapt_safetensors; /* a file opened for reading */

/* Opens a file and checks it whole: header length, JSON, dtypes, shapes, offsets that tile the data
 * without holes. *file is null on RAPT_ERR_MEMORY; on any other error it can only give its message
 * and be closed. The file is mapped, not read (unless it cannot be): tensors stay valid until it is
 * closed, and nobody may change the file in place until then (rapt_safetensors_save does not: who
 * has the old file open keeps it).
 * Errors: RAPT_ERR_ARGUMENT (null), RAPT_ERR_FILE, RAPT_ERR_MEMORY. */
RAPT_API rapt_status rapt_safetensors_open(rapt_safetensors **file, const char *path);
RAPT_API void rapt_safetensors_close(rapt_safetensors *file);

/* The message of the last failed call on this file, one line, never null. */
RAPT_API const char *rapt_safetensors_message(const rapt_safetensors *file);

/* Number of tensors; name of the index-th in the order of their data, null past the end. */
RAPT_API int64_t rapt_safetensors_count(const rapt_safetensors *file);
RAPT_API const char *rapt_safetensors_name(const rapt_safetensors *file, int64_t index);

/* The tensor of that name, a contiguous view of the file's memory, for reading only. Dtypes F32,
 * BOOL, I32 and I64 and up to RAPT_MAX_RANK axes; others may be in the file but not be viewed. A
 * tensor that the file does not align for its elements is copied (the library itself aligns).
 * Errors: RAPT_ERR_ARGUMENT (null, unknown name), RAPT_ERR_DTYPE, RAPT_ERR_SHAPE,
 * RAPT_ERR_MEMORY. */
RAPT_API rapt_status rapt_safetensors_get(rapt_safetensors *file, const char *name,
                                          rapt_tensor *view);

/* Copies the file's tensors into the listed parameters, found by `prefix` (may be null) + name. All
 * must be there with the same dtype and sizes, or nothing is written. Further tensors in the file
 * (PyTorch saves the buffer "mask" of the chapter's causal modules) are not looked at.
 * Errors: RAPT_ERR_ARGUMENT (null, no such tensor), RAPT_ERR_DTYPE, RAPT_ERR_SHAPE,
 * RAPT_ERR_OVERLAP (a parameter overlaps itself). */
RAPT_API rapt_status rapt_safetensors_load(rapt_safetensors *file, const char *prefix,
                                           const rapt_parameter *list, int64_t count);

/* Writes a file of the listed tensors (any strides), the same bytes as the Python package
 * safetensors would, through a temporary file beside it: `path` is whole or as it was. A file that
 * is there keeps its permissions; a symbolic link is followed. message: where a one-line message
 * goes, null or 256 bytes or more.
 * Errors: RAPT_ERR_ARGUMENT (null; a name twice, reserved or not UTF-8), RAPT_ERR_DTYPE,
 * RAPT_ERR_SHAPE, RAPT_ERR_FILE, RAPT_ERR_MEMORY. */
RAPT_API rapt_status rapt_safetensors_save(const char *path, const rapt_parameter *list,
                                           int64_t count, char *message);

#ifdef __cplusplus
}
#endif
#endif
