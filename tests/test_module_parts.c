/* SPDX-License-Identifier: MIT
 * test_module_parts.c: the linear layer and simplified attention (section 3.3) against their
 * formulas in double precision, over layouts and sizes. */
#include "harness.h"
#include "layout.h"
#include "pool.h"

#include <criterion/criterion.h>

#include <math.h>

TestSuite(module_parts, .fini = pool_free);

#define EPS 0x1p-24

#define OK(call)                                                                                   \
    do {                                                                                           \
        const rapt_status status_ = (call);                                                        \
        REQUIRE(status_ == RAPT_OK, "line %d: %s, %s", __LINE__, rapt_status_name(status_),        \
                rapt_context_message(context()));                                                  \
    } while (0)

static rapt_context *context(void) { return harness_context(2); }

/* The element at an index, 0 past the tensor's axes. */
static double at(const rapt_tensor *t, const int64_t *index) {
    int64_t offset = 0;
    for (int32_t axis = 0; axis < t->rank; axis++) offset += index[axis] * t->stride[axis];
    return (double)((const float *)t->data)[offset];
}

/* ---- Linear ---- */

static void expect_linear(const rapt_linear *layer, const rapt_tensor *x, const rapt_tensor *out) {
    const int32_t last = x->rank - 1;
    const int64_t in = x->size[last];
    for (walk w = walk_begin(out); !w.done; walk_next(&w)) {
        const int64_t column = w.index[last];
        double sum = layer->bias.data ? at(&layer->bias, &column) : 0, size = fabs(sum);
        for (int64_t k = 0; k < in; k++) {
            int64_t index[RAPT_MAX_RANK];
            for (int32_t axis = 0; axis < last; axis++) index[axis] = w.index[axis];
            index[last] = k;
            const double term = at(x, index) * at(&layer->weight, (int64_t[]){column, k});
            sum += term;
            size += fabs(term);
        }
        /* in products and in + 1 sums */
        REQUIRE(fabs((double)*walk_f32(&w) - sum) <= (double)(in + 2) * EPS * size,
                "linear: %.9g, want %.9g", (double)*walk_f32(&w), sum);
    }
}

Test(module_parts, linear_of_every_rank_and_layout) {
    static const int64_t sizes[][RAPT_MAX_RANK] = {
        {5, 0, 0, 0, 0, 0}, {3, 17, 0, 0, 0, 0}, {2, 33, 9, 0, 0, 0}, {4, 1, 7, 0, 0, 0},
        {1, 6, 8, 0, 0, 0}, {2, 3, 5, 4, 0, 0},  {2, 1, 2, 3, 2, 7},  {2, 0, 3, 0, 0, 0}};
    static const int32_t rank[] = {1, 2, 3, 3, 3, 4, 6, 3};
    rng r = rng_make(3, 1);
    for (int n = 0; n < 8; n++) {
        for (int l = 0; l < LAYOUT_COUNT; l++) {
            const int64_t in = sizes[n][rank[n] - 1], features = rng_range(&r, 1, 40);
            const rapt_linear layer = {.weight = POOL_NORMAL(&r, features, in),
                                       .bias =
                                           l % 2 ? POOL_NORMAL(&r, features) : (rapt_tensor){0}};
            rapt_tensor x = layout_tensor((layout)l, RAPT_F32, rank[n], sizes[n]);
            int64_t before = 0, after = 0, out_size[RAPT_MAX_RANK];
            layout_reach(&x, &before, &after);
            const rapt_tensor memory = POOL_NORMAL(&r, before + after + 1);
            x.data = (float *)memory.data + before;
            for (int32_t axis = 0; axis < rank[n]; axis++) out_size[axis] = sizes[n][axis];
            out_size[rank[n] - 1] = features;
            rapt_tensor out = pool_tensor(RAPT_F32, rank[n], out_size);
            if (l % 3 == 0 && rank[n] >= 2) { /* rows and columns exchanged in memory */
                rapt_tensor turned = rapt_tensor_transpose(out);
                turned = pool_tensor(RAPT_F32, rank[n], turned.size);
                out = rapt_tensor_transpose(turned);
            }
            OK(rapt_linear_forward(context(), &layer, &x, &out));
            expect_linear(&layer, &x, &out);
        }
    }
}

Test(module_parts, linear_bits_do_not_depend_on_how_rows_are_grouped) {
    rng r = rng_make(4, 1);
    const rapt_linear layer = {.weight = POOL_NORMAL(&r, 50, 300), .bias = POOL_NORMAL(&r, 50)};
    const rapt_tensor x = POOL_NORMAL(&r, 6, 70, 300), out = POOL_F32(6, 70, 50);
    OK(rapt_linear_forward(context(), &layer, &x, &out));
    const rapt_tensor row = POOL_F32(50);
    for (int64_t n = 0; n < 6 * 70; n += 41) {
        const rapt_tensor from = rapt_tensor_1d(RAPT_F32, (float *)x.data + n * 300, 300);
        const rapt_tensor want = rapt_tensor_1d(RAPT_F32, (float *)out.data + n * 50, 50);
        OK(rapt_linear_forward(context(), &layer, &from, &row));
        pool_same_bits(&row, &want, __LINE__);
    }
}

/* ---- Simplified attention ---- */

/* Scores of token i of item b, weights and out, with the errors of f32 results beside them. */
static void expect_simple_row(const rapt_tensor *x, int64_t b, int64_t i, const float *scores,
                              const float *weights, const float *out) {
    const int64_t tokens = x->size[1], d = x->size[2];
    double score[64], bound[64], most = -INFINITY, worst = 0, total = 0;
    for (int64_t j = 0; j < tokens; j++) {
        double size = 0;
        score[j] = 0;
        for (int64_t c = 0; c < d; c++) {
            const double term = at(x, (int64_t[]){b, i, c}) * at(x, (int64_t[]){b, j, c});
            score[j] += term;
            size += fabs(term);
        }
        bound[j] = (double)(d + 2) * EPS * size;
        most = fmax(most, score[j]);
        worst = fmax(worst, bound[j]);
        if (scores) REQUIRE(fabs((double)scores[j] - score[j]) <= bound[j], "score %d", (int)j);
    }
    for (int64_t j = 0; j < tokens; j++) total += exp(score[j] - most);
    for (int64_t j = 0; j < tokens; j++) {
        const double p = exp(score[j] - most) / total;
        const double relative =
            expm1(2 * worst) + (double)(2 * tokens + 12) * EPS + 2 * (most - score[j]) * EPS;
        bound[j] = p * relative + 0x1p-126;
        score[j] = p;
        if (weights) REQUIRE(fabs((double)weights[j] - p) <= bound[j], "weight %d", (int)j);
    }
    for (int64_t c = 0; out && c < d; c++) {
        double sum = 0, error = 0;
        for (int64_t j = 0; j < tokens; j++) {
            const double v = at(x, (int64_t[]){b, j, c});
            sum += score[j] * v;
            error += fabs(v) * (bound[j] + (double)(tokens + 3) * EPS * score[j]);
        }
        REQUIRE(fabs((double)out[c] - sum) <= error, "out %d: %.9g, want %.9g", (int)c,
                (double)out[c], sum);
    }
}

/* Each combination of outputs that is asked for. */
Test(module_parts, simple_attention_for_all) {
    rng r = rng_make(5, 1);
    for (int64_t tokens = 1; tokens < 60; tokens += 7) {
        const int64_t d = rng_range(&r, 1, 20);
        const rapt_tensor x = POOL_NORMAL(&r, 2, tokens, d);
        for (int asked = 0; asked < 8; asked++) {
            const rapt_tensor scores = POOL_F32(2, tokens, tokens);
            const rapt_tensor weights = POOL_F32(2, tokens, tokens), out = POOL_F32(2, tokens, d);
            OK(rapt_simple_attention(context(), &x, asked & 1 ? &scores : NULL,
                                     asked & 2 ? &weights : NULL, asked & 4 ? &out : NULL));
            REQUIRE(asked & 1 || pool_untouched(&scores), "scores written");
            REQUIRE(asked & 2 || pool_untouched(&weights), "weights written");
            REQUIRE(asked & 4 || pool_untouched(&out), "out written");
            for (int64_t n = 0; n < 2 * tokens; n++) {
                const float *s = (const float *)scores.data + n * tokens;
                const float *w = (const float *)weights.data + n * tokens;
                const float *o = (const float *)out.data + n * d;
                expect_simple_row(&x, n / tokens, n % tokens, asked & 1 ? s : NULL,
                                  asked & 2 ? w : NULL, asked & 4 ? o : NULL);
            }
        }
    }
}

Test(module_parts, simple_attention_of_one_query) {
    rng r = rng_make(6, 1);
    const rapt_tensor x = POOL_NORMAL(&r, 1, 23, 5);
    const rapt_tensor matrix = rapt_tensor_2d(RAPT_F32, x.data, 23, 5);
    for (int64_t query = 0; query < 23; query++) {
        for (int asked = 0; asked < 8; asked++) {
            const rapt_tensor scores = POOL_F32(23), weights = POOL_F32(23), out = POOL_F32(5);
            OK(rapt_simple_attention_query(context(), &matrix, query, asked & 1 ? &scores : NULL,
                                           asked & 2 ? &weights : NULL, asked & 4 ? &out : NULL));
            REQUIRE(asked & 1 || pool_untouched(&scores), "scores written");
            REQUIRE(asked & 2 || pool_untouched(&weights), "weights written");
            REQUIRE(asked & 4 || pool_untouched(&out), "out written");
            expect_simple_row(&x, 0, query, asked & 1 ? scores.data : NULL,
                              asked & 2 ? weights.data : NULL, asked & 4 ? out.data : NULL);
        }
    }
}

Test(module_parts, simple_attention_in_any_layout) {
    rng r = rng_make(7, 1);
    const rapt_tensor x = POOL_NORMAL(&r, 12, 9), out = POOL_F32(12, 9), weights = POOL_F32(12, 12);
    OK(rapt_simple_attention(context(), &x, NULL, &weights, &out));
    /* the same numbers, columns side by side in memory, and outputs with gaps */
    const rapt_tensor turned = POOL_F32(9, 12), wide_out = POOL_F32(12, 11);
    for (int n = 0; n < 108; n++) {
        ((float *)turned.data)[n % 9 * 12 + n / 9] = ((float *)x.data)[n];
    }
    const rapt_tensor view = rapt_tensor_transpose(turned);
    const rapt_tensor narrow = rapt_tensor_slice(wide_out, 1, 1, 9);
    const rapt_tensor columns = rapt_tensor_transpose(POOL_F32(12, 12));
    OK(rapt_simple_attention(context(), &view, NULL, &columns, &narrow));
    pool_same_bits(&weights, &columns, __LINE__);
    pool_same_bits(&out, &narrow, __LINE__);
}

Test(module_parts, simple_attention_of_nothing) {
    const rapt_tensor x = rapt_tensor_3d(RAPT_F32, NULL, 2, 0, 3), out = x;
    const rapt_tensor square = rapt_tensor_3d(RAPT_F32, NULL, 2, 0, 0);
    OK(rapt_simple_attention(context(), &x, &square, &square, &out));
    const rapt_tensor bare = POOL_F32(1, 3, 0), weights = POOL_F32(1, 3, 3);
    OK(rapt_simple_attention(context(), &bare, NULL, &weights, &bare));
    for (int n = 0; n < 9; n++) {
        REQUIRE(fabsf(((float *)weights.data)[n] - 1.0f / 3) < 1e-7f, "equal scores of 0");
    }
}
