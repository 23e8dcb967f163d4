/* SPDX-License-Identifier: MIT
 * kind_matmul.c: rows of rapt_matmul_run, one product or a batch of them.
 *
 *   [<batch>x]<M>x<N>x<K>[-<form>]       "1024x768x768", "96x1024x1024x64-nn"
 *
 * The form says how A [M, K] and B [K, N] lie in memory, n = as they are, t = transposed: nt, the
 * default, is what a linear layer computes (x W^T) and attention's scores (q k^T); nn; tn, a
 * weight's gradient. */
#include "data.h"
#include "kind.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { PART_ROWS = 1024, VERIFIED_ROWS = 64 };

/* Errors of f32 sums grow like the square root of K; the rows of the table stay below a tenth of
 * this many units of the last place of the sum of absolute terms. */
static const double units = 4;

typedef struct product {
    int64_t batch, m, n, k;
    int a_transposed, b_transposed;
    rapt_tensor a, b, c; /* [batch, M, K], [batch, K, N], [batch, M, N] */
} product;

static int take_form(const char **at, product *p) {
    if (!bench_take_text(at, "-")) {
        p->b_transposed = 1;
        return 1;
    }
    p->a_transposed = bench_take_text(at, "t");
    if (!p->a_transposed && !bench_take_text(at, "n")) { return 0; }
    p->b_transposed = bench_take_text(at, "t");
    return p->b_transposed || bench_take_text(at, "n");
}

static int parse(const char *at, product *p) {
    int64_t size[4] = {0};
    int count = 0;
    *p = (product){.batch = 1};
    do {
        if (!bench_take_number(&at, &size[count]) || size[count++] == 0) { return 0; }
    } while (count < 4 && bench_take_text(&at, "x"));
    if (count < 3) { return 0; }
    if (count == 4) { p->batch = size[0]; }
    p->m = size[count - 3];
    p->n = size[count - 2];
    p->k = size[count - 1];
    return take_form(&at, p) && *at == '\0';
}

static int accepts(const char *rest) {
    product p;
    return parse(rest, &p);
}

static rapt_tensor matrices(uint64_t seed, int64_t batch, int64_t rows, int64_t columns,
                            int transposed) {
    if (!transposed) { return bench_data_normal(seed, 3, (int64_t[]){batch, rows, columns}); }
    return rapt_tensor_transpose(bench_data_normal(seed, 3, (int64_t[]){batch, columns, rows}));
}

static void destroy(void *data) {
    product *p = data;
    free(p->a.data);
    free(p->b.data);
    free(p->c.data);
    free(p);
}

static void *create(const char *rest) {
    product *p = calloc(1, sizeof *p);
    if (!p) { return NULL; }
    if (parse(rest, p)) {
        p->a = matrices(1, p->batch, p->m, p->k, p->a_transposed);
        p->b = matrices(2, p->batch, p->k, p->n, p->b_transposed);
        p->c = bench_data_allocate(RAPT_F32, 3, (int64_t[]){p->batch, p->m, p->n});
        if (p->a.data && p->b.data && p->c.data) { return p; }
    }
    destroy(p);
    return NULL;
}

/* Batch items are timed one at a time; many rows a few at a time, each packing B again, which costs
 * about 1 %. */
static rapt_status cost(const void *data, rapt_context *context, bench_cost *cost) {
    const product *p = data;
    const int64_t parts = p->batch > 1 ? p->batch : p->m % PART_ROWS == 0 ? p->m / PART_ROWS : 1;
    *cost = (bench_cost){.gflop = 2e-9 * (double)(p->batch * p->m) * (double)(p->n * p->k),
                         .threads = rapt_context_threads(context),
                         .parts = (int)parts};
    return RAPT_OK;
}

static rapt_status run(void *data, rapt_context *context, int part, int parts) {
    const product *p = data;
    const rapt_matmul what = {.beta = 0.0f};
    rapt_tensor a = p->a, b = p->b, c = p->c;
    if (parts > 1 && p->batch > 1) {
        a = rapt_tensor_slice(a, 0, part, 1);
        b = rapt_tensor_slice(b, 0, part, 1);
        c = rapt_tensor_slice(c, 0, part, 1);
    } else if (parts > 1) {
        a = rapt_tensor_slice(a, 1, part * PART_ROWS, PART_ROWS);
        c = rapt_tensor_slice(c, 1, part * PART_ROWS, PART_ROWS);
    }
    const rapt_matmul_operands operands = {.a = &a, .b = &b, .c = &c};
    return rapt_matmul_run(context, &what, &operands);
}

static void spoil(void *data) { bench_data_spoil(&((product *)data)->c); }

static const float *element(const rapt_tensor *t, int64_t item, int64_t i, int64_t j) {
    return (const float *)t->data + item * t->stride[0] + i * t->stride[1] + j * t->stride[2];
}

/* Error of C[item][i][j] as a multiple of the tolerance. */
static double check_element(const product *p, int64_t item, int64_t i, int64_t j) {
    double sum = 0, absolute = 0;
    for (int64_t k = 0; k < p->k; k++) {
        const double term =
            (double)*element(&p->a, item, i, k) * (double)*element(&p->b, item, k, j);
        sum += term;
        absolute += fabs(term);
    }
    const double error = fabs((double)*element(&p->c, item, i, j) - sum);
    return error == 0 ? 0 : error / (units * FLT_EPSILON * absolute);
}

static double verify(const void *data) {
    const product *p = data;
    const int64_t rows = p->batch * p->m;
    double worst = 0;
    uint64_t state = 1;
    for (int64_t n = 0; n < VERIFIED_ROWS && n < rows; n++) {
        const int64_t row = rows <= VERIFIED_ROWS ? n : bench_data_choose(&state, rows);
        for (int64_t j = 0; j < p->n; j++) {
            const double multiple = check_element(p, row / p->m, row % p->m, j);
            worst = multiple <= worst ? worst : isnan(multiple) ? INFINITY : multiple;
        }
    }
    return worst;
}

const bench_kind bench_kind_matmul = {.prefix = "matmul-f32-",
                                      .accepts = accepts,
                                      .create = create,
                                      .destroy = destroy,
                                      .cost = cost,
                                      .run = run,
                                      .spoil = spoil,
                                      .verify = verify};
