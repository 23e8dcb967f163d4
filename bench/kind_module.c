/* SPDX-License-Identifier: MIT
 * kind_module.c: rows of the multi-head modules: causal self-attention of width d in heads of 64,
 * projections included.
 *
 *   <B>x<T>x<d>-<form>       "8x1024x768-split"
 *
 * Forms: split; weights, which is split with the attention weights given out; stacked; training,
 * which is split forward and backward. Flops are those of the four projections (stacked heads have
 * three) and of the visible half of attention; backward has 2 and 2.5 times as many. */
#include "data.h"
#include "kind.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { HEAD = 64 };

typedef enum module_form { SPLIT, WEIGHTS, TRAINING, STACKED, FORMS } module_form;

typedef struct multihead {
    module_form form;
    int64_t batch, tokens, width;
    rapt_context *owner; /* of the parameters; serial */
    rapt_split split;
    rapt_stacked stacked; /* the same weights */
    rapt_tensor x, out, weights;

    /* TRAINING */
    rapt_split gradients;
    rapt_tensor dout, dx;
    rapt_record record;
} multihead;

static int parse(const char *at, multihead *m) {
    static const char *const names[] = {"-split", "-weights", "-training", "-stacked"};
    *m = (multihead){.form = SPLIT};
    if (!bench_take_number(&at, &m->batch) || !bench_take_text(&at, "x") ||
        !bench_take_number(&at, &m->tokens) || !bench_take_text(&at, "x") ||
        !bench_take_number(&at, &m->width)) {
        return 0;
    }
    int form = SPLIT;
    while (form < FORMS && !bench_take_text(&at, names[form])) { form++; }
    m->form = (module_form)form;
    return form < FORMS && *at == '\0' && m->batch > 0 && m->tokens > 0 && m->width > 0 &&
           m->width % HEAD == 0;
}

static int accepts(const char *rest) {
    multihead m;
    return parse(rest, &m);
}

static void destroy(void *data) {
    multihead *m = data;
    rapt_split_free(&m->split);
    rapt_stacked_free(&m->stacked);
    rapt_split_free(&m->gradients);
    rapt_context_destroy(m->owner);
    free(m->x.data);
    free(m->out.data);
    free(m->weights.data);
    free(m->dout.data);
    free(m->dx.data);
    free(m->record.data);
    free(m);
}

static int create_modules(multihead *m) {
    const int64_t d = m->width, heads = d / HEAD, length = m->tokens;
    const rapt_split_config split = {.d_in = d,
                                     .d_out = d,
                                     .context_length = length,
                                     .heads = heads,
                                     .no_out_proj = m->form == STACKED};
    const rapt_causal_config head = {.d_in = d, .d_out = HEAD, .context_length = length};
    rapt_generator generator;
    rapt_generator_seed(&generator, 123);
    if (rapt_context_create(&m->owner, &(rapt_context_options){.threads = 1}) != RAPT_OK ||
        rapt_split_init(m->owner, &m->split, &split, &generator) != RAPT_OK) {
        return 0;
    }
    if (m->form == TRAINING) {
        return rapt_split_init(m->owner, &m->gradients, &split, NULL) == RAPT_OK;
    }
    return m->form != STACKED ||
           (rapt_stacked_init(m->owner, &m->stacked, &head, heads, NULL) == RAPT_OK &&
            rapt_stacked_from_split(&m->stacked, &m->split) == RAPT_OK);
}

static int create_training(multihead *m) {
    int64_t bytes = 0;
    const rapt_module_call call = {.x = &m->x, .out = &m->out};
    if (rapt_split_record_bytes(m->owner, &m->split, &call, &bytes) != RAPT_OK) { return 0; }
    m->dout = bench_data_normal(2, 3, m->x.size);
    m->dx = bench_data_allocate(RAPT_F32, 3, m->x.size);
    m->record.bytes = (size_t)(bytes + 63) / 64 * 64;
    m->record.data = aligned_alloc(64, m->record.bytes);
    return m->dout.data && m->dx.data && m->record.data;
}

static void *create(const char *rest) {
    multihead *m = calloc(1, sizeof *m);
    if (!m) { return NULL; }
    if (parse(rest, m) && create_modules(m)) {
        const int64_t size[3] = {m->batch, m->tokens, m->width};
        m->x = bench_data_normal(1, 3, size);
        m->out = bench_data_allocate(RAPT_F32, 3, size);
        if (m->form == WEIGHTS) {
            const int64_t square[4] = {m->batch, m->width / HEAD, m->tokens, m->tokens};
            m->weights = bench_data_allocate(RAPT_F32, 4, square);
        }
        if (m->x.data && m->out.data && (m->form != WEIGHTS || m->weights.data) &&
            (m->form != TRAINING || create_training(m))) {
            return m;
        }
    }
    destroy(m);
    return NULL;
}

/* Batch items can be timed one at a time. */
static rapt_status cost(const void *data, rapt_context *context, bench_cost *cost) {
    const multihead *m = data;
    const double rows = (double)(m->batch * m->tokens), d = (double)m->width;
    const double projections = 2 * rows * d * d * (m->form == STACKED ? 3 : 4);
    const double attention = 2 * rows * (double)m->tokens * d;
    const double flops =
        m->form == TRAINING ? 3 * projections + 3.5 * attention : projections + attention;
    *cost = (bench_cost){1e-9 * flops, rapt_context_threads(context), (int)m->batch, 0};
    return RAPT_OK;
}

static rapt_status train(const multihead *m, rapt_context *context, rapt_module_call *call,
                         int part, int64_t items) {
    const rapt_tensor dout = rapt_tensor_slice(m->dout, 0, part, items);
    const rapt_tensor dx = rapt_tensor_slice(m->dx, 0, part, items);
    const rapt_module_backward backward = {.dout = &dout, .dx = &dx};
    call->record = &m->record;
    const rapt_status status = rapt_split_forward(context, &m->split, call);
    if (status != RAPT_OK) { return status; }
    return rapt_split_backward(context, &m->split, call, &backward, &m->gradients);
}

static rapt_status run(void *data, rapt_context *context, int part, int parts) {
    const multihead *m = data;
    const int64_t items = parts > 1 ? 1 : m->batch;
    const rapt_tensor x = rapt_tensor_slice(m->x, 0, part, items);
    const rapt_tensor out = rapt_tensor_slice(m->out, 0, part, items);
    rapt_module_call call = {.x = &x, .out = &out};
    rapt_tensor weights;
    if (m->form == WEIGHTS) {
        weights = rapt_tensor_slice(m->weights, 0, part, items);
        call.weights = &weights;
    }
    if (m->form == TRAINING) { return train(m, context, &call, part, items); }
    return m->form == STACKED ? rapt_stacked_forward(context, &m->stacked, &call)
                              : rapt_split_forward(context, &m->split, &call);
}

static void spoil(void *data) {
    multihead *m = data;
    bench_data_spoil(&m->out);
    if (m->form == WEIGHTS) { bench_data_spoil(&m->weights); }
    if (m->form != TRAINING) { return; }
    bench_data_spoil(&m->dx);
    rapt_parameter list[8];
    const int64_t count = rapt_split_parameters(&m->gradients, list, 8);
    rapt_gradients_zero(m->owner, list, count); /* what backward adds to */
}

/* ---- Verification: a few tokens in double precision, from the formulas of section 3.6.2. ---- */

/* y = x W^T (+ bias) for one row. */
static void project(const rapt_linear *linear, const double *x, int64_t n, double *y) {
    const float *w = linear->weight.data, *bias = linear->bias.data;
    for (int64_t i = 0; i < n; i++) {
        y[i] = bias ? (double)bias[i] : 0;
        for (int64_t j = 0; j < n; j++) { y[i] += (double)w[i * n + j] * x[j]; }
    }
}

/* What attention makes of token i, from q [d] and the keys and values [i + 1, d]. */
static void attend(int64_t d, int64_t i, const double *q, const double *k, const double *v,
                   double *p, double *joined) {
    for (int64_t h = 0; h < d; h += HEAD) {
        double most = -INFINITY, sum = 0;
        for (int64_t j = 0; j <= i; j++) {
            p[j] = 0;
            for (int64_t c = h; c < h + HEAD; c++) { p[j] += q[c] * k[j * d + c] / sqrt(HEAD); }
            most = fmax(most, p[j]);
        }
        for (int64_t j = 0; j <= i; j++) { sum += p[j] = exp(p[j] - most); }
        for (int64_t c = h; c < h + HEAD; c++) {
            joined[c] = 0;
            for (int64_t j = 0; j <= i; j++) { joined[c] += p[j] / sum * v[j * d + c]; }
        }
    }
}

/* Worst error of tokens 0, 1, 5 and `last` of a batch item, as a multiple of 1e-5 times the
 * largest output: thousands of rounded terms stay a tenth of that. */
static double check_item(const multihead *m, int64_t item, int64_t last, double *memory) {
    const int64_t d = m->width, tokens[] = {0, 1, 5, last};
    double *q = memory, *row = q + d, *joined = row + d, *want = joined + d, *p = want + d;
    double *k = p + m->tokens, *v = k + m->tokens * d, worst = 0, largest = 0;
    for (int64_t i = 0, next = 0; i <= last; i++) {
        const float *x = (const float *)m->x.data + (item * m->tokens + i) * d;
        for (int64_t c = 0; c < d; c++) { row[c] = (double)x[c]; }
        project(&m->split.key, row, d, k + i * d);
        project(&m->split.value, row, d, v + i * d);
        if (i != tokens[next]) { continue; }
        while (next < 3 && tokens[next] <= i) { next++; }
        project(&m->split.query, row, d, q);
        attend(d, i, q, k, v, p, joined);
        if (m->form != STACKED) { project(&m->split.out_proj, joined, d, want); }
        const float *got = (const float *)m->out.data + (item * m->tokens + i) * d;
        for (int64_t c = 0; c < d; c++) {
            const double right = m->form == STACKED ? joined[c] : want[c];
            const double error = fabs((double)got[c] - right);
            worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
            largest = fmax(largest, fabs(right));
        }
    }
    return worst / (1e-5 * largest);
}

/* Rows of the weights sum to 1. */
static double check_weights(const multihead *m) {
    const float *w = m->weights.data;
    const int64_t rows = w ? m->batch * (m->width / HEAD) * m->tokens : 0;
    double worst = 0;
    for (int64_t row = 0; row < rows; row++) {
        double sum = 0;
        for (int64_t j = 0; j < m->tokens; j++) { sum += (double)w[row * m->tokens + j]; }
        const double error = fabs(sum - 1);
        worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
    }
    return worst / 1e-5;
}

/* sum of a * b; *size grows by the sum of |a * b|. */
static double dot(const rapt_tensor *a, const rapt_tensor *b, double *size) {
    const float *x = a->data, *y = b->data;
    int64_t count = 1;
    double sum = 0;
    for (int32_t axis = 0; axis < a->rank; axis++) { count *= a->size[axis]; }
    for (int64_t n = 0; n < count; n++) {
        sum += (double)x[n] * (double)y[n];
        *size += fabs((double)x[n] * (double)y[n]);
    }
    return sum;
}

/* Euler's identity: the loss sum(dout out) is linear in the value and output weights but for the
 * bias, scores are so in query and key weights, and x enters by these three. */
static double check_gradients(const multihead *m) {
    if (m->form != TRAINING) { return 0; }
    const rapt_split *w = &m->split, *g = &m->gradients;
    double size = 0;
    const double loss = dot(&m->dout, &m->out, &size);
    const double bias = dot(&w->out_proj.bias, &g->out_proj.bias, &size);
    const double query = dot(&w->query.weight, &g->query.weight, &size);
    const double key = dot(&w->key.weight, &g->key.weight, &size);
    const double value = dot(&w->value.weight, &g->value.weight, &size);
    const double out = dot(&w->out_proj.weight, &g->out_proj.weight, &size);
    const double x = dot(&m->x, &m->dx, &size);
    const double error = fabs(loss - bias - value) + fabs(value - out) + fabs(query - key) +
                         fabs(x - query - key - value);
    return isnan(error) ? INFINITY : error / (1e-6 * size);
}

static double verify(const void *data) {
    const multihead *m = data;
    const int64_t d = m->width, last = m->tokens - 1;
    double *memory = malloc((size_t)(4 * d + m->tokens + 2 * m->tokens * d) * sizeof *memory);
    if (!memory) { return INFINITY; }
    double worst = fmax(check_item(m, 0, last, memory), check_weights(m));
    worst = fmax(worst, check_gradients(m));
    for (int64_t item = 1; item < m->batch; item++) {
        worst = fmax(worst, check_item(m, item, last < 40 ? last : 40, memory));
    }
    free(memory);
    return worst;
}

const bench_kind bench_kind_module = {.prefix = "module-f32-",
                                      .accepts = accepts,
                                      .create = create,
                                      .destroy = destroy,
                                      .cost = cost,
                                      .run = run,
                                      .spoil = spoil,
                                      .verify = verify};
