/* SPDX-License-Identifier: MIT
 * locate.c: the same order of places as scripts/fetch_minilm.sh. */
#include "locate.h"

#include <stdio.h>
#include <stdlib.h>

static const char *set(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static int choose(char folder[FILE_PATH_BYTES], const char *given) {
    given = given ? given : set("RAPT_MINILM");
    if (given) { return file_path(folder, given, ""); }
    if (set("XDG_CACHE_HOME")) { return file_path(folder, set("XDG_CACHE_HOME"), "rapt/minilm"); }
    return file_path(folder, set("HOME") ? set("HOME") : ".", ".cache/rapt/minilm");
}

int locate_model(char folder[FILE_PATH_BYTES], const char *given) {
    static const char *const files[] = {"config.json", "sentence_bert_config.json", "vocab.txt",
                                        "model.safetensors"};
    if (!choose(folder, given)) { return 0; }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[FILE_PATH_BYTES];
        if (!file_path(path, folder, files[i])) { return 0; }
        FILE *file = fopen(path, "rb");
        if (!file) {
            fprintf(stderr,
                    "The model is not there: no file %s.\n"
                    "scripts/fetch_minilm.sh fetches it (84 MB).\n",
                    path);
            return 0;
        }
        fclose(file);
    }
    return 1;
}
