/* SPDX-License-Identifier: MIT
 * rapt/status.h: what every call returns.
 *
 * A call that returns anything but RAPT_OK has written nothing to the caller's tensors. The library
 * never prints, exits or aborts. The one-line message of the last failed call, with the argument's
 * name and the offending sizes, is rapt_context_message() (context.h). */
#ifndef RAPT_STATUS_H
#define RAPT_STATUS_H

#include "export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rapt_status {
    RAPT_OK = 0,
    RAPT_ERR_ARGUMENT = 1, /* null pointer, unknown enum value, number outside its range */
    RAPT_ERR_DTYPE = 2,    /* element type that this operand does not take */
    RAPT_ERR_SHAPE = 3,    /* rank, negative size, sizes that disagree, more than 2^62 bytes */
    RAPT_ERR_OVERLAP = 4,  /* written tensor overlaps itself or another operand */
    RAPT_ERR_MEMORY = 5,   /* an allocation failed */
    RAPT_ERR_SCRATCH = 6,  /* the caller's scratch buffer is too small or misaligned */
    RAPT_ERR_ISA = 7,      /* forced instruction set is unknown or not supported here */
    RAPT_ERR_VERSION = 8,  /* caller compiled against headers of another layout */
    RAPT_ERR_FILE = 9      /* a file cannot be read or written, or is not what it should be */
} rapt_status;

/* The constant's name, "RAPT_ERR_SHAPE"; "unknown status" for any other number. Static string. */
RAPT_API const char *rapt_status_name(rapt_status status);

#ifdef __cplusplus
}
#endif
#endif
