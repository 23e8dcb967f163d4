/* SPDX-License-Identifier: MIT
 * predict.c: list scheduling of the library's task costs (predict.h). */
#include "predict.h"

#include <math.h>
#include <stdlib.h>

/* When the last of n tasks ends; NaN if memory ran out. */
static double makespan(const double *costs, const int64_t *steps, int64_t n, int threads) {
    double *busy_until = calloc((size_t)threads, sizeof *busy_until);
    double end = busy_until ? 0 : NAN;
    for (int64_t task = 0; busy_until && task < n; task++) {
        int first_free = 0;
        const int new_step = task > 0 && steps[task] != steps[task - 1];
        for (int t = 0; new_step && t < threads; t++) { busy_until[t] = end; }
        for (int t = 1; t < threads; t++) {
            first_free = busy_until[t] < busy_until[first_free] ? t : first_free;
        }
        busy_until[first_free] += costs[task];
        end = fmax(end, busy_until[first_free]);
    }
    free(busy_until);
    return end;
}

/* Makespan of the tasks that a context with this many threads would make. */
static double predict(const bench_case *c, const char *isa, int threads) {
    const rapt_context_options options = {.threads = threads, .isa = isa};
    rapt_context *context = NULL;
    bench_cost cost = {0};
    double *costs = NULL, end = NAN;
    int64_t *steps = NULL;
    int64_t count = 0;
    if (c->kind->tasks && rapt_context_create(&context, &options) == RAPT_OK &&
        c->kind->cost(c->data, context, &cost) == RAPT_OK &&
        c->kind->tasks(c->data, context, NULL, NULL, 0, &count) == RAPT_OK) {
        costs = malloc((size_t)count * sizeof *costs);
        steps = calloc((size_t)count, sizeof *steps);
    }
    if (costs && steps &&
        c->kind->tasks(c->data, context, costs, steps, count, &count) == RAPT_OK) {
        end = makespan(costs, steps, count, cost.threads);
    }
    free(costs);
    free(steps);
    rapt_context_destroy(context);
    return end;
}

double bench_predict_speedup(const bench_case *c, const char *isa, int threads) {
    return predict(c, isa, 1) / predict(c, isa, threads);
}
