/* SPDX-License-Identifier: MIT
 * options.c: the command line, read by popt. */
#include "options.h"

#include <popt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check(const minilm_options *o) {
    const char *wrong = NULL;
    if (o->pairs < 0 || o->pairs > 100000) { wrong = "--pairs takes 0 to 100000"; }
    if (o->batch < 1 || o->batch > 4096) { wrong = "--batch takes 1 to 4096"; }
    if (o->line < 1) { wrong = "--line counts from 1"; }
    if (o->layer < 0) { wrong = "--layer counts from 0"; }
    if (!(o->seconds >= 0 && o->seconds < 1e6)) { wrong = "--seconds takes a number from 0"; }
    if (wrong) { fprintf(stderr, "minilm: %s\n", wrong); }
    return !wrong;
}

int minilm_options_parse(minilm_options *o, int argc, const char **argv) {
    *o = (minilm_options){.pairs = 12, .batch = 16, .line = 1, .layer = 0, .seconds = 1};
    const struct poptOption table[] = {
        {"model", '\0', POPT_ARG_STRING, &o->folder, 0,
         "folder with the model's files; default: where scripts/fetch_minilm.sh puts them", "DIR"},
        {"pairs", '\0', POPT_ARG_INT, &o->pairs, 0, "pairs to print; default 12", "N"},
        {"batch", '\0', POPT_ARG_INT, &o->batch, 0, "sentences at a time; default 16", "N"},
        {"seconds", '\0', POPT_ARG_DOUBLE, &o->seconds, 0,
         "time to measure for, with each number of threads; default 1", "S"},
        {"json", '\0', POPT_ARG_STRING, &o->json, 0, "write attention weights to this file",
         "FILE"},
        {"line", '\0', POPT_ARG_INT, &o->line, 0, "whose weights: a line, from 1; default 1", "N"},
        {"layer", '\0', POPT_ARG_INT, &o->layer, 0, "of which layer, from 0; default 0", "N"},
        POPT_AUTOHELP POPT_TABLEEND};

    poptContext context = poptGetContext("minilm", argc, argv, table, 0);
    poptSetOtherOptionHelp(context, "[options] [TEXT]   one sentence per line");
    const int error = poptGetNextOpt(context);
    const char *text = error < -1 ? NULL : poptGetArg(context);
    int ok = 0;
    if (error < -1) {
        fprintf(stderr, "minilm: %s: %s\n", poptBadOption(context, 0), poptStrerror(error));
    } else if (poptPeekArg(context)) {
        fprintf(stderr, "minilm: what is '%s'? See --help\n", poptPeekArg(context));
    } else {
        o->text = text ? strdup(text) : NULL;
        ok = check(o) && (o->text || !text);
    }
    poptFreeContext(context);
    return ok;
}

void minilm_options_free(minilm_options *o) {
    free(o->text);
    free(o->folder);
    free(o->json);
    *o = (minilm_options){0};
}
