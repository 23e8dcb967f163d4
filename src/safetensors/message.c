/* SPDX-License-Identifier: MIT
 * message.c: one-line messages. Names come from files, so that control characters are replaced. */
#include "file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

rapt_status rapti_safetensors_fail(char *message, rapt_status status, const char *format, ...) {
    if (!message) { return status; }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, RAPTI_SAFETENSORS_MESSAGE, format, arguments);
    va_end(arguments);
    for (char *c = message; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7F) { *c = '?'; }
    }
    return status;
}

rapt_status rapti_safetensors_fail_errno(char *message, const char *action, const char *path) {
    const int number = errno;
    char reason[96];
    if (strerror_r(number, reason, sizeof reason) != 0) {
        snprintf(reason, sizeof reason, "error %d", number);
    }
    return rapti_safetensors_fail(message, number == ENOMEM ? RAPT_ERR_MEMORY : RAPT_ERR_FILE,
                                  "%s %.120s: %s", action, path, reason);
}
