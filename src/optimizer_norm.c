/* SPDX-License-Identifier: MIT
 * optimizer_norm.c: gradients to zero; their global norm, and clipping to it. */
#include "optimizer.h"

#include "operand.h"

#include <math.h>
#include <string.h>

static void zero(void *argument, const rapti_lists *lists, int64_t piece, float *w, float *g,
                 int64_t before, int64_t count) {
    (void)argument, (void)lists, (void)piece, (void)w, (void)before;
    memset(g, 0, (size_t)count * sizeof(float));
}

rapt_status rapt_gradients_zero(rapt_context *context, const rapt_parameter *gradients,
                                int64_t count) {
    rapti_lists lists;
    rapt_status status = rapti_operand_context(context);
    if (status == RAPT_OK) {
        status = rapti_lists_check(context, NULL, gradients, count, 1, &lists);
    }
    if (status == RAPT_OK) { status = rapti_lists_cut(context, &lists); }
    if (status != RAPT_OK) { return status; }
    rapti_lists_run(context, &lists, &(rapti_update){zero, NULL, 0, 1});
    return RAPT_OK;
}

/* One sum per piece, of its runs in order. */
static void add_squares(void *argument, const rapti_lists *lists, int64_t piece, float *w, float *g,
                        int64_t before, int64_t count) {
    (void)argument, (void)w;
    double sum = before == lists->piece[piece].before ? 0 : lists->partial[piece];
    for (int64_t n = 0; n < count; n++) { sum += (double)g[n] * (double)g[n]; }
    lists->partial[piece] = sum;
}

static void multiply(void *argument, const rapti_lists *lists, int64_t piece, float *w, float *g,
                     int64_t before, int64_t count) {
    const float factor = *(const float *)argument;
    (void)lists, (void)piece, (void)w, (void)before;
    for (int64_t n = 0; n < count; n++) { g[n] *= factor; }
}

rapt_status rapt_gradients_clip(rapt_context *context, const rapt_parameter *gradients,
                                int64_t count, double max_norm, double *norm) {
    rapti_lists lists;
    rapt_status status = rapti_operand_context(context);
    if (status == RAPT_OK && !(max_norm >= 0)) {
        status = rapti_fail(context, RAPT_ERR_ARGUMENT, "max_norm: %g, expected >= 0", max_norm);
    }
    if (status == RAPT_OK) {
        status = rapti_lists_check(context, NULL, gradients, count, 1, &lists);
    }
    if (status == RAPT_OK) { status = rapti_lists_cut(context, &lists); }
    if (status != RAPT_OK) { return status; }
    rapti_lists_run(context, &lists, &(rapti_update){add_squares, NULL, 0, 0});
    double sum = 0;
    for (int64_t n = 0; n < lists.pieces; n++) { sum += lists.partial[n]; }
    const double all = sqrt(sum);
    if (norm) { *norm = all; }
    if (isfinite(all) && all > max_norm) {
        float factor = (float)(max_norm / (all + 1e-6));
        rapti_lists_run(context, &lists, &(rapti_update){multiply, &factor, 0, 1});
    }
    return RAPT_OK;
}
