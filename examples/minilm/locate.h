/* SPDX-License-Identifier: MIT
 * locate.h: where the model's files are. */
#ifndef MINILM_LOCATE_H
#define MINILM_LOCATE_H

#include "file.h"

/* Exit code of a program that had nothing to work on; CTest shows it as skipped. */
enum { LOCATE_SKIPPED = 77 };

/* `given` or, if null, $RAPT_MINILM, $XDG_CACHE_HOME/rapt/minilm, ~/.cache/rapt/minilm: the first
 * that is set, as in scripts/fetch_minilm.sh. Returns 0, after saying how to fetch them, if the
 * files are not there. */
int locate_model(char folder[FILE_PATH_BYTES], const char *given);

#endif
