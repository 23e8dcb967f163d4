/* SPDX-License-Identifier: MIT
 * options.c: the command line, read by popt. */
#include "options.h"

#include "norm.h"

#include <limits.h>
#include <popt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_UNSET = INT_MIN, STEPS = 1500, MOST_STEPS = 10000000 };

static int check(options *o) {
    const char *wrong = NULL;
    if (o->steps == STEPS_UNSET) { o->steps = o->seconds > 0 ? MOST_STEPS : STEPS; }
    if (o->steps < 0 || o->steps > MOST_STEPS) { wrong = "--steps takes 0 to 10000000"; }
    if (!(o->seconds >= 0 && o->seconds < 1e6)) { wrong = "--seconds takes a number from 0"; }
    if (o->seed < 0) { wrong = "--seed takes a number from 0"; }
    if (o->threads < 0 || o->threads > 4096) { wrong = "--threads takes 0 to 4096"; }
    if (o->batch < 1 || o->batch > 4096) { wrong = "--batch takes 1 to 4096"; }
    if (o->context < 2 || o->context > 4096) { wrong = "--context takes 2 to 4096"; }
    if (o->width < 1 || o->width > NORM_WIDEST) { wrong = "--width takes 1 to 1024"; }
    if (o->heads < 1 || o->width % o->heads) { wrong = "--heads must divide --width"; }
    if (!(o->rate >= 0 && o->rate < 1)) { wrong = "--rate takes 0 to 1"; }
    if (!(o->dropout >= 0 && o->dropout < 1)) { wrong = "--dropout takes 0 to 1, 1 excluded"; }
    if (o->sample < 0) { wrong = "--sample takes a number from 0"; }
    if (wrong) { fprintf(stderr, "train_text: %s\n", wrong); }
    return !wrong;
}

int options_parse(options *o, int argc, const char **argv) {
    *o = (options){.steps = STEPS_UNSET,
                   .seed = 1,
                   .batch = 16,
                   .context = 64,
                   .width = 128,
                   .heads = 4,
                   .rate = 6e-3,
                   .dropout = 0.1,
                   .margin = 0.25};
    const struct poptOption table[] = {
        {"steps", '\0', POPT_ARG_INT, &o->steps, 0,
         "length of the run; 0: only the held-out loss; default 1500", "N"},
        {"seconds", '\0', POPT_ARG_DOUBLE, &o->seconds, 0,
         "length of the run in time instead; with --steps, whichever ends first", "S"},
        {"seed", '\0', POPT_ARG_INT, &o->seed, 0, "of everything random; default 1", "N"},
        {"threads", '\0', POPT_ARG_INT, &o->threads, 0, "default: all cores", "N"},
        {"batch", '\0', POPT_ARG_INT, &o->batch, 0, "windows of text in each step; default 16",
         "N"},
        {"context", '\0', POPT_ARG_INT, &o->context, 0, "characters in each; default 64", "N"},
        {"width", '\0', POPT_ARG_INT, &o->width, 0, "features of a character; default 128", "N"},
        {"heads", '\0', POPT_ARG_INT, &o->heads, 0, "in each layer; default 4", "N"},
        {"rate", '\0', POPT_ARG_DOUBLE, &o->rate, 0, "highest learning rate; default 0.006", "R"},
        {"dropout", '\0', POPT_ARG_DOUBLE, &o->dropout, 0, "of attention weights; default 0.1",
         "P"},
        {"margin", '\0', POPT_ARG_DOUBLE, &o->margin, 0,
         "nats per character by which to beat the bigram table; default 0.25", "M"},
        {"sample", '\0', POPT_ARG_INT, &o->sample, 0, "characters to write at the end", "N"},
        {"json", '\0', POPT_ARG_STRING, &o->json, 0, "write loss curve and attention weights",
         "FILE"},
        {"save", '\0', POPT_ARG_STRING, &o->save, 0, "write the weights (safetensors)", "FILE"},
        {"load", '\0', POPT_ARG_STRING, &o->load, 0, "begin with these weights", "FILE"},
        POPT_AUTOHELP POPT_TABLEEND};

    poptContext context = poptGetContext("train_text", argc, argv, table, 0);
    poptSetOtherOptionHelp(context, "[options] [TEXT]");
    const int error = poptGetNextOpt(context);
    const char *text = error < -1 ? NULL : poptGetArg(context);
    int ok = 0;
    if (error < -1) {
        fprintf(stderr, "train_text: %s: %s\n", poptBadOption(context, 0), poptStrerror(error));
    } else if (poptPeekArg(context)) {
        fprintf(stderr, "train_text: what is '%s'? See --help\n", poptPeekArg(context));
    } else {
        o->text = text ? strdup(text) : NULL;
        ok = check(o) && (o->text || !text);
    }
    poptFreeContext(context);
    return ok;
}

void options_free(options *o) {
    free(o->text);
    free(o->json);
    free(o->save);
    free(o->load);
    *o = (options){0};
}
