/* SPDX-License-Identifier: MIT
 * weights.c: parameters to and from files. */
#include "model.h"

#include <rapt/safetensors.h>
#include <stdio.h>

int model_save(const model *m, const char *path) {
    char message[256];
    const rapt_status status = rapt_safetensors_save(path, m->list, MODEL_PARAMETERS, message);
    if (status != RAPT_OK) { fprintf(stderr, "%s\n", message); }
    return status == RAPT_OK;
}

int model_load(model *m, const char *path) {
    rapt_safetensors *file = NULL;
    rapt_status status = rapt_safetensors_open(&file, path);
    if (status == RAPT_OK) {
        status = rapt_safetensors_load(file, NULL, m->list, MODEL_PARAMETERS);
    }
    if (status != RAPT_OK) {
        fprintf(stderr, "%s: %s\n", path,
                file ? rapt_safetensors_message(file) : rapt_status_name(status));
    }
    rapt_safetensors_close(file);
    return status == RAPT_OK;
}
