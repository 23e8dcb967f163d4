/* SPDX-License-Identifier: MIT
 * train.c: batches of random windows, steps, and now and then the held-out loss. */
#include "train.h"

#include "loss.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct run {
    rapt_context *context;
    const model *model;
    model gradients;
    network network;
    float *state; /* the optimiser's */
    const text *text;
    const bigram *line;
    const train_options *options;
    rapt_generator generator;
    const uint8_t **window; /* [batch] */
    double begin, resting;  /* when training began; time spent on held-out losses since */
} run;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- One step. ---- */

static void draw_windows(run *r) {
    const int64_t places = r->text->training - r->model->config.context;
    for (int64_t i = 0; i < r->options->batch; i++) {
        const uint64_t word = rapt_generator_next(&r->generator);
        r->window[i] = r->text->id + (word * (uint64_t)places >> 32);
    }
}

/* Up in the first 20th of the run, then down along half a cosine to a 20th of the rate. */
static double rate_at(double progress, double rate) {
    const double up = 0.05, least = 0.05, pi = 3.14159265358979;
    if (progress < up) { return rate * progress / up; }
    return rate * (least + (1 - least) * 0.5 * (1 + cos(pi * (progress - up) / (1 - up))));
}

static rapt_status make_step(run *r, int64_t step, double progress, double *loss) {
    const rapt_parameter *gradients = r->gradients.list;
    const network_call call = {.window = r->window,
                               .count = r->options->batch,
                               .tokens = r->model->config.context,
                               .training = 1,
                               .seed = r->options->seed,
                               .step = (uint32_t)step};
    rapt_adamw adamw = rapt_adamw_default();
    adamw.lr = rate_at(progress, r->options->rate);
    draw_windows(r);
    rapt_status status = rapt_gradients_zero(r->context, gradients, MODEL_PARAMETERS);
    if (status == RAPT_OK) { status = network_forward(&r->network, &call); }
    if (status == RAPT_OK) { status = loss_of_batch(&r->network, &call, loss); }
    if (status == RAPT_OK) { status = network_backward(&r->network, &call); }
    if (status == RAPT_OK) {
        status = rapt_gradients_clip(r->context, gradients, MODEL_PARAMETERS, 1, NULL);
    }
    if (status == RAPT_OK) {
        status = rapt_adamw_step(r->context, &adamw, r->model->list, gradients, MODEL_PARAMETERS,
                                 step, r->state);
    }
    return status;
}

/* ---- The curve. ---- */

static void print_point(const run *r, const train_point *p, double progress, double speed) {
    if (p->step == 0) {
        printf("%7s %8s %9s %9s %8s %9s %7s\n", "step", "seconds", "training", "held-out", "bigram",
               "char/s", "left s");
    }
    printf("%7lld %8.1f ", (long long)p->step, p->seconds);
    if (p->step == 0) {
        printf("%9s %9.4f %8.4f %9s %7s\n", "", p->held_out, r->line->pairs, "", "");
    } else {
        printf("%9.4f %9.4f %8.4f %9.0f %7.1f\n", p->training, p->held_out, r->line->pairs, speed,
               p->seconds * (1 - progress) / progress);
    }
    fflush(stdout);
}

static rapt_status add_point(run *r, train_curve *curve, int64_t step, double progress,
                             double training) {
    const double begin = now();
    train_point *p = &curve->point[curve->count++];
    *p = (train_point){.step = step, .training = training};
    const rapt_status status = loss_held_out(&r->network, r->text, &p->held_out);
    const double end = now(), spent = begin - r->begin - r->resting;
    r->resting += end - begin;
    p->seconds = end - r->begin;
    const double made = (double)(step * r->options->batch * r->model->config.context);
    curve->characters = step ? made / spent : 0;
    if (status == RAPT_OK && !r->options->quiet) { print_point(r, p, progress, curve->characters); }
    return status;
}

/* How much of the run is done after `step` steps. */
static double progress_at(const run *r, int64_t step) {
    const train_options *o = r->options;
    double progress = o->steps ? (double)step / (double)o->steps : 1;
    if (o->seconds > 0) { progress = fmax(progress, (now() - r->begin) / o->seconds); }
    return fmin(progress, 1);
}

static rapt_status loop(run *r, train_curve *curve) {
    double progress = progress_at(r, 0), sum = 0;
    int64_t since = 0;
    *curve = (train_curve){0};
    rapt_status status = add_point(r, curve, 0, progress, NAN);
    for (int64_t step = 1; progress < 1 && status == RAPT_OK; step++) {
        double loss = 0;
        status = make_step(r, step, progress, &loss);
        if (status != RAPT_OK) { break; }
        progress = progress_at(r, step);
        sum += loss;
        since++;
        if (progress * (TRAIN_POINTS - 1) >= curve->count || progress >= 1) {
            status = add_point(r, curve, step, progress, sum / (double)since);
            sum = 0;
            since = 0;
        }
    }
    return status;
}

/* ---- The whole. ---- */

int train(rapt_context *context, model *m, const text *t, const bigram *line,
          const train_options *options, train_curve *curve) {
    run r = {.context = context, .model = m, .text = t, .line = line, .options = options};
    const int64_t parameters = rapt_parameter_count(m->list, MODEL_PARAMETERS);
    rapt_generator_seed(&r.generator, options->seed + 1); /* not the one of the initial values */
    r.window = calloc((size_t)options->batch, sizeof *r.window);
    r.state = calloc((size_t)parameters * 2, sizeof *r.state);
    rapt_status status = r.window && r.state ? RAPT_OK : RAPT_ERR_MEMORY;
    if (status == RAPT_OK) { status = model_create(&r.gradients, context, &m->config, NULL); }
    if (status == RAPT_OK) {
        status =
            network_create(&r.network, context, m, &r.gradients, options->batch, m->config.context);
    }
    r.begin = now();
    if (status == RAPT_OK) { status = loop(&r, curve); }
    if (status != RAPT_OK) {
        fprintf(stderr, "%s: %s\n", rapt_status_name(status), rapt_context_message(context));
    }
    network_free(&r.network);
    model_free(&r.gradients);
    free(r.state);
    free(r.window);
    return status == RAPT_OK;
}
