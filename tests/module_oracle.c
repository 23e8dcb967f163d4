/* SPDX-License-Identifier: MIT
 * module_oracle.c: see module_oracle.h. Bounds count roundings of the formulas in f32 (EPS each):
 * a sum of n products errs by at most (n + 3) EPS times the sum of its absolute terms, and errors
 * of its inputs pass through it linearly; an error d of all scores changes a weight by a factor of
 * at most exp(2 d). */
#include "module_oracle.h"

#include "compare.h"
#include "harness.h"

#include <math.h>
#include <stdlib.h>

#define EPS 0x1p-24

static number *numbers(int64_t count) {
    number *n = calloc((size_t)(count > 0 ? count : 1), sizeof *n);
    REQUIRE(n, "out of memory");
    return n;
}

/* Element of a tensor of rank 1 to 4, axes aligned to the right, sizes of 1 repeated. */
static const char *at(const rapt_tensor *t, const int64_t index[4]) {
    int64_t offset = 0;
    for (int32_t axis = 0; axis < t->rank; axis++) {
        const int64_t i = index[axis + 4 - t->rank];
        offset += t->size[axis] == 1 ? 0 : i * t->stride[axis];
    }
    return (const char *)t->data + offset * rapt_dtype_bytes(t->dtype);
}

static double f32_at(const rapt_tensor *t, int64_t i0, int64_t i1, int64_t i2) {
    return (double)*(const float *)(const void *)at(t, (int64_t[]){0, i0, i1, i2});
}

/* y[row] = W x[row] + bias for rows of exact numbers or of numbers with bounds. */
static void linear(const rapt_linear *layer, const number *x, int64_t rows, number *y) {
    const int64_t out = layer->weight.size[0], in = layer->weight.size[1];
    for (int64_t n = 0; n < rows * out; n++) {
        const number *from = x + n / out * in;
        double sum = 0, size = 0, passed = 0;
        if (layer->bias.data) {
            sum = f32_at(&layer->bias, 0, 0, n % out);
            size = fabs(sum);
        }
        for (int64_t k = 0; k < in; k++) {
            const double w = f32_at(&layer->weight, 0, n % out, k);
            sum += w * from[k].value;
            size += fabs(w * from[k].value);
            passed += fabs(w) * from[k].bound;
        }
        y[n] = (number){sum, (double)(in + 3) * EPS * size + passed * (1 + 1e-5)};
    }
}

/* [B, rows, features] of a source, projected. */
static number *project(const rapt_linear *layer, const rapt_tensor *source, int64_t batch) {
    const int64_t rows = source->size[source->rank - 2], in = source->size[source->rank - 1];
    number *x = numbers(batch * rows * in);
    for (int64_t n = 0; n < batch * rows * in; n++) {
        x[n].value = f32_at(source, n / in / rows, n / in % rows, n % in);
    }
    number *y = numbers(batch * rows * layer->weight.size[0]);
    linear(layer, x, batch * rows, y);
    free(x);
    return y;
}

typedef struct heads {
    const module_form *form;
    const rapt_module_call *call;
    const module_result *r;
    const number *q, *k, *v;
    int64_t dim; /* features of a head */
} heads;

static int visible(const heads *a, int64_t b, int64_t h, int64_t i, int64_t j) {
    const rapt_module_call *call = a->call;
    if (a->form->causal && j > i) return 0;
    if (call->mask && !*(const uint8_t *)at(call->mask, (int64_t[]){b, h, i, j})) return 0;
    if (!call->key_lengths) return 1;
    const char *length = at(call->key_lengths, (int64_t[]){0, 0, 0, b});
    return j < (call->key_lengths->dtype == RAPT_I64 ? *(const int64_t *)(const void *)length
                                                     : *(const int32_t *)(const void *)length);
}

/* Scores of a row, -inf where hidden; returns the largest bound among the visible. */
static double score_row(const heads *a, int64_t b, int64_t h, int64_t i, double *score) {
    const double scale = 1.0 / sqrt((double)a->dim);
    const number *q = a->q + (b * a->r->tokens + i) * a->r->features + h * a->dim;
    double worst = 0;
    for (int64_t j = 0; j < a->r->keys; j++) {
        const number *k = a->k + (b * a->r->keys + j) * a->r->features + h * a->dim;
        double sum = 0, size = 0, passed = 0;
        for (int64_t d = 0; d < a->dim; d++) {
            sum += q[d].value * k[d].value;
            size += fabs(q[d].value * k[d].value);
            passed += fabs(q[d].value) * k[d].bound + fabs(k[d].value) * q[d].bound +
                      q[d].bound * k[d].bound;
        }
        score[j] = visible(a, b, h, i, j) ? scale * sum : -INFINITY;
        if (score[j] > -INFINITY) {
            worst = fmax(worst, scale * (passed + (double)(a->dim + 5) * EPS * size));
        }
    }
    return worst;
}

static void weigh_row(const heads *a, int64_t b, int64_t h, int64_t i, double *score) {
    const int64_t keys = a->r->keys;
    number *w = a->r->weights + ((b * a->r->heads + h) * a->r->tokens + i) * keys;
    const double worst = score_row(a, b, h, i, score);
    double most = -INFINITY, least = INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; j++) {
        most = fmax(most, score[j]);
        if (score[j] > -INFINITY) least = fmin(least, score[j]);
    }
    for (int64_t j = 0; j < keys; j++) sum += score[j] > -INFINITY ? exp(score[j] - most) : 0;
    /* two exponentials, of differences of rounded numbers; sums over blocks of keys, rescaled; the
     * route that masks after the softmax sums and divides twice */
    const double rounding = (double)(4 * keys + 24) * EPS + 2 * (most - least) * EPS;
    const double relative = expm1(2 * worst) + rounding;
    for (int64_t j = 0; j < keys; j++) {
        const double p = score[j] > -INFINITY ? exp(score[j] - most) / sum : 0;
        w[j] = (number){p, p > 0 ? p * relative + 0x1p-126 : 0};
    }
}

static double factor(const heads *a, int64_t b, int64_t h, int64_t i, int64_t j) {
    const double p = a->form->dropout;
    const module_result *r = a->r;
    if (!a->call->training || p == 0) return 1;
    if (p == 1) return 0;
    const rapt_dropout dropout = {1, p, a->call->seed, a->call->offset};
    const int64_t item = b * r->heads + h;
    const int kept = a->form->keep ? a->form->keep[(item * r->tokens + i) * r->keys + j]
                                   : rapt_dropout_keep(&dropout, (uint32_t)item, (uint32_t)i, j);
    return kept ? 1 / (1 - p) : 0;
}

/* factors: room for a number per key */
static void attend_row(const heads *a, int64_t b, int64_t h, int64_t i, double *factors,
                       number *joined) {
    const module_result *r = a->r;
    const number *w = r->weights + ((b * r->heads + h) * r->tokens + i) * r->keys;
    for (int64_t j = 0; j < r->keys; j++) factors[j] = factor(a, b, h, i, j);
    for (int64_t d = 0; d < a->dim; d++) {
        double sum = 0, size = 0, passed = 0;
        for (int64_t j = 0; j < r->keys; j++) {
            const number v = a->v[(b * r->keys + j) * r->features + h * a->dim + d];
            const double f = factors[j];
            sum += f * w[j].value * v.value;
            size += f * w[j].value * fabs(v.value);
            passed += f * (w[j].bound * (fabs(v.value) + v.bound) + w[j].value * v.bound);
        }
        joined[(b * r->tokens + i) * r->features + h * a->dim + d] =
            (number){sum, passed + (double)(r->keys + 8) * EPS * size};
    }
}

module_result module_oracle(const module_form *form, const rapt_module_call *call) {
    const rapt_tensor *x = call->x, *key_source = call->key_source ? call->key_source : x;
    const rapt_tensor *value_source = call->value_source ? call->value_source : key_source;
    module_result r = {.batch = x->rank == 3 ? x->size[0] : 1,
                       .heads = form->heads,
                       .tokens = x->size[x->rank - 2],
                       .keys = key_source->size[x->rank - 2],
                       .features = form->query.weight.size[0]};
    r.out = numbers(r.batch * r.tokens * r.features);
    r.weights = numbers(r.batch * r.heads * r.tokens * r.keys);
    number *q = project(&form->query, x, r.batch);
    number *k = project(&form->key, key_source, r.batch);
    number *v = project(&form->value, value_source, r.batch);
    const heads a = {form, call, &r, q, k, v, r.features / r.heads};
    double *score = malloc((size_t)(r.keys + 1) * sizeof *score);
    number *joined = numbers(r.batch * r.tokens * r.features);
    for (int64_t n = 0; n < r.batch * r.heads * r.tokens; n++) {
        const int64_t b = n / r.tokens / r.heads, h = n / r.tokens % r.heads, i = n % r.tokens;
        weigh_row(&a, b, h, i, score);
        attend_row(&a, b, h, i, score, joined);
    }
    if (form->out_proj.weight.data) {
        linear(&form->out_proj, joined, r.batch * r.tokens, r.out);
        free(joined);
    } else {
        free(r.out);
        r.out = joined;
    }
    free(score);
    free(q);
    free(k);
    free(v);
    return r;
}

void module_oracle_free(module_result *result) {
    free(result->out);
    free(result->weights);
}

static double expect(double got, number want, const char *tensor, int64_t n, const char *what) {
    REQUIRE(compare_value(got, want.value, want.bound), "%s[%lld] = %.9g, want %.9g +- %.2g\n%s",
            tensor, (long long)n, got, want.value, want.bound, what);
    /* weights that are cut to 0 below 2^-114 use up their whole bound, and mean nothing */
    return want.bound > 0x1p-100 ? fabs(got - want.value) / want.bound : 0;
}

double module_expect(const module_result *r, const rapt_module_call *call, const char *what) {
    double worst = 0;
    for (int64_t n = 0; n < r->batch * r->tokens * r->features; n++) {
        const int64_t row = n / r->features;
        const double got = f32_at(call->out, row / r->tokens, row % r->tokens, n % r->features);
        worst = fmax(worst, expect(got, r->out[n], "out", n, what));
    }
    if (!call->weights) return worst;
    const int mean = call->weights->rank == call->x->rank;
    const int64_t heads_out = mean ? 1 : r->heads, square = r->tokens * r->keys;
    for (int64_t n = 0; n < r->batch * heads_out * square; n++) {
        const int64_t b = n / square / heads_out, h = n / square % heads_out;
        const int64_t i = n % square / r->keys, j = n % r->keys;
        number want = {0, 0};
        for (int64_t of = 0; of < (mean ? r->heads : 1); of++) {
            const number w = r->weights[(b * r->heads + h + of) * square + n % square];
            const double share = mean ? 1.0 / (double)r->heads : 1.0;
            want.value += w.value * share;
            want.bound += share * (w.bound + (mean ? (double)(r->heads + 2) * EPS : 0) * w.value);
        }
        const int64_t index[4] = {mean ? 0 : b, mean ? b : h, i, j};
        const double got = (double)*(const float *)(const void *)at(call->weights, index);
        worst = fmax(worst, expect(got, want, "weights", n, what));
    }
    return worst;
}
