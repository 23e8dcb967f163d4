/* SPDX-License-Identifier: MIT
 * optimizer_step.c: SGD and AdamW. The state lies beside the parameters' elements in list order:
 * one float each for SGD's momentum; all first moments, then all second ones, for AdamW. Factors
 * are computed in double precision once per step, elements in f32. */
#include "optimizer.h"

#include "operand.h"

#include <math.h>

static rapt_status check_number(rapt_context *context, const char *name, double x, double below) {
    if (x >= 0 && x < below) { return RAPT_OK; }
    return rapti_fail(context, RAPT_ERR_ARGUMENT, "%s: %g, expected >= 0 and < %g", name, x, below);
}

/* What both optimisers ask of their call; then pieces. */
static rapt_status begin(rapt_context *context, const rapt_parameter *parameters,
                         const rapt_parameter *gradients, int64_t count, int64_t step,
                         rapti_lists *lists) {
    if (step < 1) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "step: %lld, expected >= 1", (long long)step);
    }
    if (count > 0 && !parameters) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "parameters: null pointer");
    }
    const rapt_status status = rapti_lists_check(context, parameters, gradients, count, 0, lists);
    return status == RAPT_OK ? rapti_lists_cut(context, lists) : status;
}

/* ---- SGD ---- */

typedef struct sgd_step {
    float lr, momentum, weight_decay;
    float *m; /* null without momentum */
    int first;
} sgd_step;

static void run_sgd(void *argument, const rapti_lists *lists, int64_t piece, float *w, float *g,
                    int64_t before, int64_t count) {
    const sgd_step *s = argument;
    (void)lists, (void)piece;
    for (int64_t n = 0; n < count; n++) {
        float d = g[n] + s->weight_decay * w[n];
        if (s->m) {
            float *m = s->m + before + n;
            *m = s->first ? d : s->momentum * *m + d;
            d = *m;
        }
        w[n] -= s->lr * d;
    }
}

rapt_status rapt_sgd_step(rapt_context *context, const rapt_sgd *what,
                          const rapt_parameter *parameters, const rapt_parameter *gradients,
                          int64_t count, int64_t step, float *state) {
    rapti_lists lists;
    rapt_status status = rapti_operand_context(context);
    if (status == RAPT_OK && !what) {
        status = rapti_fail(context, RAPT_ERR_ARGUMENT, "what: null pointer");
    }
    if (status == RAPT_OK) { status = check_number(context, "lr", what->lr, INFINITY); }
    if (status == RAPT_OK) { status = check_number(context, "momentum", what->momentum, INFINITY); }
    if (status == RAPT_OK) {
        status = check_number(context, "weight_decay", what->weight_decay, INFINITY);
    }
    if (status == RAPT_OK && what->momentum > 0 && !state) {
        status = rapti_fail(context, RAPT_ERR_ARGUMENT, "state: null pointer with momentum %g",
                            what->momentum);
    }
    if (status == RAPT_OK) { status = begin(context, parameters, gradients, count, step, &lists); }
    if (status != RAPT_OK) { return status; }
    sgd_step s = {(float)what->lr, (float)what->momentum, (float)what->weight_decay,
                  what->momentum > 0 ? state : NULL, step == 1};
    rapti_lists_run(context, &lists, &(rapti_update){run_sgd, &s, 1, 0});
    return RAPT_OK;
}

/* ---- AdamW ---- */

typedef struct adamw_step {
    float decay; /* 1 - lr weight_decay */
    float beta2, one_minus1, one_minus2;
    float size;              /* lr / (1 - beta1^step) */
    float inverse_root, eps; /* 1 / sqrt(1 - beta2^step) */
    float *m, *v;
} adamw_step;

static void run_adamw(void *argument, const rapti_lists *lists, int64_t piece, float *restrict w,
                      float *restrict g, int64_t before, int64_t count) {
    const adamw_step s = *(const adamw_step *)argument;
    float *restrict m = s.m + before, *restrict v = s.v + before;
    (void)lists, (void)piece;
    for (int64_t n = 0; n < count; n++) {
        m[n] += s.one_minus1 * (g[n] - m[n]);
        v[n] = s.beta2 * v[n] + s.one_minus2 * g[n] * g[n];
        w[n] = s.decay * w[n] - s.size * m[n] / (sqrtf(v[n]) * s.inverse_root + s.eps);
    }
}

rapt_adamw rapt_adamw_default(void) {
    return (rapt_adamw){
        .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01};
}

static rapt_status check_adamw(rapt_context *context, const rapt_adamw *what, const float *state) {
    if (!what) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "what: null pointer"); }
    const struct {
        const char *name;
        double x, below;
    } number[] = {{"lr", what->lr, INFINITY},
                  {"beta1", what->beta1, 1},
                  {"beta2", what->beta2, 1},
                  {"eps", what->eps, INFINITY},
                  {"weight_decay", what->weight_decay, INFINITY}};
    for (size_t n = 0; n < sizeof number / sizeof number[0]; n++) {
        const rapt_status status =
            check_number(context, number[n].name, number[n].x, number[n].below);
        if (status != RAPT_OK) { return status; }
    }
    if (!state) { return rapti_fail(context, RAPT_ERR_ARGUMENT, "state: null pointer"); }
    return RAPT_OK;
}

rapt_status rapt_adamw_step(rapt_context *context, const rapt_adamw *what,
                            const rapt_parameter *parameters, const rapt_parameter *gradients,
                            int64_t count, int64_t step, float *state) {
    rapti_lists lists;
    rapt_status status = rapti_operand_context(context);
    if (status == RAPT_OK) { status = check_adamw(context, what, state); }
    if (status == RAPT_OK) { status = begin(context, parameters, gradients, count, step, &lists); }
    if (status != RAPT_OK) { return status; }
    adamw_step s = {
        .decay = (float)(1 - what->lr * what->weight_decay),
        .beta2 = (float)what->beta2,
        .one_minus1 = (float)(1 - what->beta1),
        .one_minus2 = (float)(1 - what->beta2),
        .size = (float)(what->lr / (1 - pow(what->beta1, (double)step))),
        .inverse_root = (float)(1 / sqrt(1 - pow(what->beta2, (double)step))),
        .eps = (float)what->eps,
        .m = state,
        .v = state + lists.elements,
    };
    rapti_lists_run(context, &lists, &(rapti_update){run_adamw, &s, 1, 0});
    return RAPT_OK;
}
