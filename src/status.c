/* SPDX-License-Identifier: MIT
 * status.c: names of the status codes. */
#include <rapt/status.h>

const char *rapt_status_name(rapt_status status) {
    switch (status) {
    case RAPT_OK: return "RAPT_OK";
    case RAPT_ERR_ARGUMENT: return "RAPT_ERR_ARGUMENT";
    case RAPT_ERR_DTYPE: return "RAPT_ERR_DTYPE";
    case RAPT_ERR_SHAPE: return "RAPT_ERR_SHAPE";
    case RAPT_ERR_OVERLAP: return "RAPT_ERR_OVERLAP";
    case RAPT_ERR_MEMORY: return "RAPT_ERR_MEMORY";
    case RAPT_ERR_SCRATCH: return "RAPT_ERR_SCRATCH";
    case RAPT_ERR_ISA: return "RAPT_ERR_ISA";
    case RAPT_ERR_VERSION: return "RAPT_ERR_VERSION";
    case RAPT_ERR_FILE: return "RAPT_ERR_FILE";
    }
    return "unknown status";
}
