/* SPDX-License-Identifier: MIT
 * replace.h: a file that takes another's place all at once, or not at all. */
#ifndef RAPTI_SAFETENSORS_REPLACE_H
#define RAPTI_SAFETENSORS_REPLACE_H

#include "file.h"

#include <stdio.h>

typedef struct rapti_safetensors_replacement {
    FILE *stream;    /* what to write to */
    char *target;    /* the path to replace, symbolic links followed */
    char *temporary; /* in the same folder */
} rapti_safetensors_replacement;

/* Opens a new file beside `path`, with the permissions of the one there, if any. On an error there
 * is nothing to finish. */
rapt_status rapti_safetensors_replace(rapti_safetensors_replacement *new, const char *path,
                                      char *message);

/* If status is RAPT_OK, brings the new file to the disk and into place; if it is not, or that
 * fails, removes it. Returns the status. */
rapt_status rapti_safetensors_finish(rapti_safetensors_replacement *new, rapt_status status,
                                     char *message);

#endif
