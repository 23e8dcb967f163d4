/* SPDX-License-Identifier: MIT
 * options.c: the command line, read by popt: it takes repeated options, writes the help text from
 * the same table, and, unlike glibc's argp, is packaged everywhere. */
#include "options.h"

#include <popt.h>
#include <stdio.h>
#include <stdlib.h>

static int parse_threads(const char *text, bench_options *o) {
    char *end = NULL;
    do {
        const long threads = strtol(text, &end, 10);
        if (end == text || threads < 1 || threads > 4096 || o->thread_counts == BENCH_MAX_THREADS) {
            return 0;
        }
        o->threads[o->thread_counts++] = (int)threads;
        text = end + 1;
    } while (*end == ',');
    return *end == '\0';
}

static int check(bench_options *o, const char *threads, const char *format) {
    if (!parse_threads(threads, o)) {
        fprintf(stderr, "rapt-bench: --threads takes up to %d numbers like 1,2, not '%s'\n",
                BENCH_MAX_THREADS, threads);
        return 0;
    }
    if (!bench_format_parse(format, &o->format)) {
        fprintf(stderr, "rapt-bench: --format takes table, csv or json, not '%s'\n", format);
        return 0;
    }
    if (!(o->seconds > 0 && o->seconds < 1e6)) {
        fprintf(stderr, "rapt-bench: --seconds takes a positive number\n");
        return 0;
    }
    return 1;
}

int bench_options_parse(bench_options *o, int argc, const char **argv) {
    char *threads = NULL, *format = NULL;
    *o = (bench_options){.seconds = 1};
    const struct poptOption table[] = {
        {"list", '\0', POPT_ARG_NONE, &o->list, 0, "print the names of all rows", NULL},
        {"scaling", '\0', POPT_ARG_NONE, &o->scaling, 0,
         "measure 1 thread to all cores, and predict up to 256 from the task list", NULL},
        {"row", '\0', POPT_ARG_ARGV, &o->rows, 0,
         "rows to measure: a name, also one that is not listed, or a pattern like 'fwd-*-causal'; "
         "repeatable; default all",
         "NAME"},
        {"isa", '\0', POPT_ARG_ARGV, &o->isas, 0,
         "instruction set; repeatable; default: the one that the library chooses", "NAME"},
        {"threads", '\0', POPT_ARG_STRING, &threads, 0, "thread counts; default 1", "N,N"},
        {"seconds", '\0', POPT_ARG_DOUBLE, &o->seconds, 0, "time per measurement; default 1", "S"},
        {"format", '\0', POPT_ARG_STRING, &format, 0, "default table", "table|csv|json"},
        POPT_AUTOHELP POPT_TABLEEND};

    poptContext context = poptGetContext("rapt-bench", argc, argv, table, 0);
    const int error = poptGetNextOpt(context);
    int ok = 0;
    if (error < -1) {
        fprintf(stderr, "rapt-bench: %s: %s\n", poptBadOption(context, 0), poptStrerror(error));
    } else if (poptPeekArg(context)) {
        fprintf(stderr, "rapt-bench: what is '%s'? See --help\n", poptPeekArg(context));
    } else {
        ok = check(o, threads ? threads : "1", format ? format : "table");
    }
    poptFreeContext(context);
    free(threads);
    free(format);
    return ok;
}

static void free_list(char **list) {
    for (char **item = list; item && *item; item++) { free(*item); }
    free(list);
}

void bench_options_free(bench_options *o) {
    free_list(o->rows);
    free_list(o->isas);
    *o = (bench_options){0};
}
