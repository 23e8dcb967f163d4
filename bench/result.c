/* SPDX-License-Identifier: MIT
 * result.c: makes and prints results (result.h). */
#include "result.h"

#include <math.h>

static const bench_column columns[] = {
    {"row", "row", 36, BENCH_TEXT},
    {"isa", "isa", 8, BENCH_TEXT},
    {"threads", "threads", 7, BENCH_NUMBER},
    {"ms", "ms", 9, BENCH_NUMBER},
    {"rate", "rate", 7, BENCH_NUMBER},
    {"best", "best", 7, BENCH_NUMBER},
    {"unit", "unit", 7, BENCH_TEXT},
    {"share", "share", 7, BENCH_PERCENT},
    {"bar", "bar", 7, BENCH_PERCENT},
    {"reached", "reached", 7, BENCH_YES_NO},
    {"spread", "spread", 7, BENCH_PERCENT},
    {"verified", "verified", 8, BENCH_YES_NO},
    {"kept", "kept", 5, BENCH_NUMBER},
    {"set_aside", "aside", 5, BENCH_NUMBER},
    {NULL, NULL, 0, BENCH_TEXT},
};

bench_result bench_result_empty(const char *row, const char *isa, int threads) {
    return (bench_result){.row = row,
                          .isa = isa,
                          .unit = "Gflop/s",
                          .threads = threads,
                          .ms = NAN,
                          .rate = NAN,
                          .best = NAN,
                          .share = NAN,
                          .bar = NAN,
                          .reached = -1,
                          .summary = {.spread = NAN}};
}

bench_result bench_result_of_ceiling(const bench_ceiling *c) {
    const char *isa = c->kernel->isa ? c->kernel->isa : "any";
    const double work = 1e-9 * c->kernel->work_per_iteration * (double)c->iterations * c->threads;
    bench_result x = bench_result_empty(c->kernel->name, isa, c->threads);
    x.unit = c->kernel->unit;
    x.verified = c->verified;
    x.summary = bench_summarise_ceiling(c);
    x.ms = 1e3 * x.summary.seconds;
    x.rate = work / x.summary.seconds;
    x.best = work / x.summary.best_seconds;
    return x;
}

void bench_result_begin(bench_format format) { bench_output_begin(format, columns); }

void bench_result_print(bench_format format, const bench_result *x) {
    json_t *line = json_pack(
        "{s:s, s:s, s:i, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:i, s:i, s:i}", "row", x->row,
        "isa", x->isa, "threads", x->threads, "ms", bench_json_number(x->ms), "rate",
        bench_json_number(x->rate), "best", bench_json_number(x->best), "unit", x->unit, "share",
        bench_json_number(x->share), "bar", bench_json_number(x->bar), "reached",
        bench_json_flag(x->reached), "spread", bench_json_number(x->summary.spread), "verified",
        x->verified, "kept", x->summary.kept, "set_aside", x->summary.set_aside);
    bench_output_line(format, columns, line);
}
