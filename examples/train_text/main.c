/* SPDX-License-Identifier: MIT
 * main.c: trains a small causal character model on a text until it beats a table of character
 * pairs. Exit status 1 if it does not, by --margin. */
#include "bigram.h"
#include "model.h"
#include "options.h"
#include "report.h"
#include "sample.h"
#include "text.h"
#include "train.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static rapt_status create(model *m, rapt_context *context, rapt_generator *generator, const text *t,
                          const options *o) {
    const model_config config = {.symbols = t->symbols,
                                 .context = o->context,
                                 .width = o->width,
                                 .heads = o->heads,
                                 .dropout = o->dropout};
    rapt_generator_seed(generator, (uint64_t)o->seed);
    const rapt_status status = model_create(m, context, &config, generator);
    if (status != RAPT_OK) {
        fprintf(stderr, "%s: %s\n", rapt_status_name(status), rapt_context_message(context));
    }
    return status;
}

static int print_result(const bigram *line, const train_curve *c, double margin) {
    const train_point *last = &c->point[c->count - 1];
    const double below = line->pairs - last->held_out;
    printf("held-out %.4f, bigram table %.4f, difference %.4f nats per character: %s %.4g\n",
           last->held_out, line->pairs, below, below >= margin ? "at least" : "less than", margin);
    printf("%.1f s, %.0f characters/s\n", last->seconds, c->characters);
    return below >= margin;
}

static int run(rapt_context *context, model *m, rapt_generator *generator, const text *t,
               const options *o) {
    const train_options how = {.steps = o->steps,
                               .seconds = o->seconds,
                               .seed = (uint64_t)o->seed,
                               .batch = o->batch,
                               .rate = o->rate};
    bigram line;
    train_curve curve;
    if (!bigram_count(&line, t)) { return 0; }
    printf("%lld characters, %d symbols, %lld to train on; %lld parameters; %d threads, %s\n",
           (long long)t->count, (int)t->symbols, (long long)t->training,
           (long long)rapt_parameter_count(m->list, MODEL_PARAMETERS),
           (int)rapt_context_threads(context), rapt_context_isa(context));
    if (!train(context, m, t, &line, &how, &curve)) { return 0; }
    const int reached = print_result(&line, &curve, o->margin);
    return (!o->save || model_save(m, o->save)) &&
           (!o->json || report_write(context, m, t, &line, &curve, o->json)) &&
           (!o->sample || sample_print(context, m, t, generator, o->sample)) && reached;
}

/* On busy cores, threads that spin while they wait for one another make a run many times as long.
 * OpenMP reads its settings before main begins: so the program starts itself once more. */
static void wait_passively(const char **argv) {
    if (getenv("OMP_WAIT_POLICY") || setenv("OMP_WAIT_POLICY", "passive", 0) != 0) { return; }
    execv("/proc/self/exe", (char *const *)argv);
    perror("train_text: threads will spin while they wait"); /* and else all goes on */
}

int main(int argc, const char **argv) {
    wait_passively(argv);
    options o;
    text t = {0};
    model m = {0};
    rapt_generator generator;
    rapt_context *context = NULL;
    int ok = 0;
    if (options_parse(&o, argc, argv) &&
        text_read(&t, o.text ? o.text : TRAIN_TEXT, 0.9, o.context + 1)) {
        const rapt_context_options how = {.threads = o.threads};
        if (rapt_context_create(&context, &how) != RAPT_OK) {
            fprintf(stderr, "%s\n", rapt_context_message(context));
        } else if (create(&m, context, &generator, &t, &o) == RAPT_OK) {
            ok = (!o.load || model_load(&m, o.load)) && run(context, &m, &generator, &t, &o);
        }
    }
    model_free(&m);
    rapt_context_destroy(context);
    text_free(&t);
    options_free(&o);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
