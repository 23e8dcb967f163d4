/* SPDX-License-Identifier: MIT
 * What a forward call's tasks ask for before they need it, and the rule of limits behind them: no
 * result shows whether these are right. */
#include "attention_task.h"
#include "plain.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* ---- Which tasks find their keys far ---- */

typedef struct listed {
    plain p;
    rapti_problem problem;
    rapti_plan plan;
    rapti_task *tasks;
} listed;

static void listed_make(listed *x, rapt_context *context, plain_sizes sizes, rapt_causal causal,
                        const rapt_tensor *lengths) {
    plain_make(&x->p, sizes, 1);
    x->p.what.causal = causal;
    x->p.operands.key_lengths = lengths;
    cr_assert_eq(rapti_attention_check(context, &x->p.what, &x->p.operands, 0, &x->problem),
                 RAPT_OK);
    cr_assert_eq(rapti_attention_plan(context, &x->problem, &x->plan), RAPT_OK);
    x->tasks = malloc(x->plan.task_bytes);
    rapti_attention_list_tasks(&x->problem, &x->plan, x->tasks);
}

static void listed_free(listed *x) {
    free(x->tasks);
    plain_free(&x->p);
}

/* Exactly the first task of each head in the order of the list. */
Test(ahead, first_task_of_each_head) {
    for (int32_t threads = 1; threads <= 5; threads++) {
        rapt_context *context = plain_context(threads, NULL);
        listed x;
        listed_make(&x, context, (plain_sizes){2, 6, 3, 300, 500, 8, 8}, RAPT_CAUSAL_BOTTOM_RIGHT,
                    NULL);
        bool seen[6] = {false};
        for (int64_t t = 0; t < x.plan.tasks; t++) {
            bool *head = &seen[x.tasks[t].batch * 3 + x.tasks[t].kv_head];
            cr_expect_eq(rapti_attention_keys_far(&x.problem, &x.plan, t) != 0, !*head,
                         "%d threads, task %d", threads, (int)t);
            *head = true;
        }
        listed_free(&x);
        rapt_context_destroy(context);
    }
}

/* Heads that differ in cost take turns: all tasks. */
Test(ahead, heads_that_differ) {
    rapt_context *context = plain_context(1, NULL);
    int64_t lengths[] = {500, 120};
    const rapt_tensor t = rapt_tensor_1d(RAPT_I64, lengths, 2);
    listed x;
    listed_make(&x, context, (plain_sizes){2, 1, 1, 300, 500, 8, 8}, RAPT_CAUSAL_BOTTOM_RIGHT, &t);
    for (int64_t n = 0; n < x.plan.tasks; n++) {
        cr_expect(rapti_attention_keys_far(&x.problem, &x.plan, n));
    }
    listed_free(&x);
    rapt_context_destroy(context);
}

/* ---- What they ask for ---- */

/* Rows [from, to) of a tensor's head: nothing, or exactly these bytes. */
static void expect_rows(const rapti_ahead *got, const rapt_tensor *t, int64_t batch, int64_t head,
                        int64_t from, int64_t to, const char *what) {
    const int64_t row = t->size[3] * (int64_t)sizeof(float);
    const char *at =
        (const char *)t->data + ((batch * t->size[1] + head) * t->size[2] + from) * row;
    const bool same =
        from >= to ? got->bytes == 0 : got->at == at && got->bytes == (to - from) * row;
    cr_expect(same, "%s of [%d, %d]: rows %d to %d", what, (int)batch, (int)head, (int)from,
              (int)to);
}

static void expect_ahead(const listed *x, int64_t task, int64_t next_block, int64_t end) {
    const int64_t size = x->plan.kernels->key_block, keys = x->problem.keys;
    const int64_t then = task + x->plan.threads;
    const bool last = next_block >= end, asks = last && then < x->plan.tasks;
    rapti_task_state s = {.p = &x->problem, .plan = &x->plan, .tasks = x->tasks, .task = task};
    rapti_attention_look_ahead(&s, next_block, end);
    const rapti_task *t = &x->tasks[last && asks ? then : task];
    const int64_t lanes = x->plan.kernels->lanes, hk = x->problem.heads_per_kv;
    const int64_t query = rapti_attention_group_start(&x->plan, t->first_group) * lanes / hk;
    const int64_t past = rapti_min(query + rapti_divide_up(x->plan.group_lanes, hk), 300);
    expect_rows(&s.ahead[0], &x->p.q, t->batch, t->kv_head * hk, query, asks ? past : query, "q");
    const bool far = rapti_attention_keys_far(&x->problem, &x->plan, asks ? then : task);
    const int64_t seen = rapti_min(keys, query + 1 + keys - 300); /* causal, bottom right */
    const int64_t from = last ? 0 : next_block;
    const int64_t to = rapti_min(from + size, last ? seen : end);
    const bool wants = far && (!last || asks);
    expect_rows(&s.ahead[1], &x->p.k, t->batch, t->kv_head, from, wants ? to : from, "k");
    expect_rows(&s.ahead[2], &x->p.v, t->batch, t->kv_head, from, wants ? to : from, "v");
}

Test(ahead, addresses) {
    for (int32_t threads = 1; threads <= 2; threads++) {
        rapt_context *context = plain_context(threads, NULL);
        listed x;
        listed_make(&x, context, (plain_sizes){2, 6, 3, 300, 500, 96, 80}, RAPT_CAUSAL_BOTTOM_RIGHT,
                    NULL);
        cr_assert(x.plan.far);
        const int64_t size = x.plan.kernels->key_block;
        for (int64_t t = 0; t < x.plan.tasks; t++) {
            for (int64_t next = size; next < 500 + size; next += size) {
                expect_ahead(&x, t, next, 500);
            }
        }
        listed_free(&x);
        rapt_context_destroy(context);
    }
}

/* Rows that do not follow one another are not asked for, nor is anything by a small call. */
Test(ahead, nothing_to_ask_for) {
    rapt_context *context = plain_context(1, NULL);
    for (int small = 0; small < 2; small++) {
        listed x;
        listed_make(&x, context, (plain_sizes){1, 4, 4, small ? 60 : 600, 700, 64, 64},
                    RAPT_CAUSAL_BOTTOM_RIGHT, NULL);
        rapti_task_state s = {.p = &x.problem, .plan = &x.plan, .tasks = x.tasks};
        if (!small) { x.problem.k.stride[2] = x.problem.v.stride[2] = 4 * 64; }
        rapti_attention_look_ahead(&s, x.plan.kernels->key_block, 700);
        for (int i = 0; i < RAPTI_AHEAD; i++) { cr_expect_eq(s.ahead[i].bytes, 0); }
        listed_free(&x);
    }
    rapt_context_destroy(context);
}

/* ---- Pieces ---- */

/* Four products ask for all of it, in order, each byte once; fewer may leave the end out. */
Test(ahead, pieces_add_up) {
    static const int64_t sizes[][RAPTI_AHEAD] = {
        {12288, 32768, 32768}, {0, 32768, 32768}, {12288, 0, 0}, {1, 2, 3}, {0, 0, 0}};
    static char memory[3][40000];
    for (int n = 0; n < 5; n++) {
        for (int64_t shares = 1; shares <= 6; shares++) {
            rapti_task_state s = {0};
            int64_t left[RAPTI_AHEAD], total = 0;
            for (int i = 0; i < RAPTI_AHEAD; i++) {
                left[i] = sizes[n][i];
                s.ahead[i] = (rapti_ahead){memory[i], sizes[n][i]};
            }
            for (int64_t share = shares; share > 0; share--) {
                const rapti_ahead piece = rapti_attention_take_ahead(&s, share);
                int i = 0;
                while (i < RAPTI_AHEAD - 1 && left[i] == 0) { i++; }
                cr_assert(piece.bytes <= left[i]);
                cr_assert(piece.bytes == 0 || piece.at == memory[i] + sizes[n][i] - left[i]);
                left[i] -= piece.bytes;
            }
            for (int i = 0; i < RAPTI_AHEAD; i++) { total += left[i]; }
            cr_expect(shares < 4 || total == 0, "sizes %d, %d shares", n, (int)shares);
        }
    }
}

/* ---- Products ask ---- */

/* What products asked for, byte by byte, in one of the three inputs. */
typedef struct asked {
    const rapt_tensor *of;
    uint8_t *times;
    int64_t bytes;
} asked;

static asked asked_of[RAPTI_AHEAD];
static int64_t asked_bytes, asking_products;
static const rapti_kernels *real;

static void note_stream(const rapti_product *p) {
    if (p->stream_bytes == 0) { return; }
    asked_bytes += p->stream_bytes;
    asking_products++;
    for (int i = 0; i < RAPTI_AHEAD; i++) {
        const int64_t at = (const char *)p->stream - (const char *)asked_of[i].of->data;
        if (at < 0 || at >= asked_of[i].bytes) { continue; }
        cr_assert(p->stream_bytes <= asked_of[i].bytes - at);
        for (int64_t n = 0; n < p->stream_bytes; n++) { asked_of[i].times[at + n]++; }
        return;
    }
    cr_assert(false, "memory of none of the inputs");
}

static void multiply(const rapti_product *p) {
    note_stream(p);
    real->product(p);
}

static void multiply_few(const rapti_product *p, int64_t columns) {
    note_stream(p);
    real->product_few(p, columns);
}

/* All that the tasks of a list find to ask for, where every block is seen by every task. */
static int64_t bytes_to_ask(const listed *x) {
    const int64_t size = x->plan.kernels->key_block, keys = x->problem.keys;
    int64_t bytes = 0;
    for (int64_t task = 0; task < x->plan.tasks; task++) {
        rapti_task_state s = {.p = &x->problem, .plan = &x->plan, .tasks = x->tasks, .task = task};
        for (int64_t next = size; next < keys + size; next += size) {
            rapti_attention_look_ahead(&s, next, keys);
            for (int i = 0; i < RAPTI_AHEAD; i++) { bytes += s.ahead[i].bytes; }
        }
    }
    return bytes;
}

/* One thread's products ask for no byte twice; without causal order for all, but for less than one
 * byte each where a block is cut into parts. Two tasks per head, both of enough groups to ask for
 * all three inputs; the last lanes are few. */
static void check_products_ask(rapt_causal causal, const rapt_tensor *mask) {
    rapt_context *context = plain_context(1, NULL);
    listed x;
    real = context->kernels;
    const int64_t queries = 2 * 4 * real->group_vectors * real->lanes - real->lanes + 2;
    listed_make(&x, context, (plain_sizes){1, 6, 6, queries, 700, 96, 80}, causal, NULL);
    cr_assert(x.plan.far && x.plan.tasks == 2 * 6);
    x.p.operands.mask = mask;
    const rapt_tensor *inputs[RAPTI_AHEAD] = {&x.p.q, &x.p.k, &x.p.v};
    for (int i = 0; i < RAPTI_AHEAD; i++) {
        const int64_t *size = inputs[i]->size;
        asked_of[i] = (asked){.of = inputs[i], .bytes = 4 * size[1] * size[2] * size[3]};
        asked_of[i].times = calloc((size_t)asked_of[i].bytes, 1);
    }
    rapti_kernels counted = *real;
    counted.product = multiply;
    counted.product_few = multiply_few;
    context->kernels = &counted;
    asked_bytes = asking_products = 0;
    cr_assert_eq(rapt_attention_forward(context, &x.p.what, &x.p.operands), RAPT_OK);
    context->kernels = real;
    const int64_t all = bytes_to_ask(&x);
    const bool pieces =
        real->group_vectors * real->lanes <= real->key_block; /* q no larger than k */
    cr_expect(asked_bytes <= all, "%d of %d bytes", (int)asked_bytes, (int)all);
    if (!causal && pieces) { cr_expect_gt(asked_bytes, all - asking_products); }
    cr_expect_gt(asked_bytes, all / 2);
    for (int i = 0; i < RAPTI_AHEAD; i++) {
        int most = 0;
        for (int64_t n = 0; n < asked_of[i].bytes; n++) {
            most = asked_of[i].times[n] > most ? asked_of[i].times[n] : most;
        }
        cr_expect_eq(most, 1, "input %d: bytes asked for %d times", i, most);
        free(asked_of[i].times);
    }
    listed_free(&x);
    rapt_context_destroy(context);
}

Test(ahead, products_ask_once) {
    static uint8_t sees[700];
    memset(sees, 1, sizeof sees);
    const int64_t size[] = {1, 1, 1, 700}, stride[] = {0, 0, 0, 1};
    const rapt_tensor mask = rapt_tensor_strided(RAPT_BOOL, sees, 4, size, stride);
    check_products_ask(RAPT_CAUSAL_NONE, NULL);
    check_products_ask(RAPT_CAUSAL_NONE, &mask); /* no near tries: scores in one piece */
    check_products_ask(RAPT_CAUSAL_BOTTOM_RIGHT, NULL);
}

/* ---- Limits ---- */

/* The rule of attention.h in 128 bits. */
static void expect_range(const rapti_problem *p, int64_t i) {
    __extension__ typedef __int128 wide;
    const wide position = (wide)i + p->position_shift;
    wide begin = 0, end = p->keys;
    if (p->causal && position + 1 < end) { end = position + 1; }
    if (p->window.on) {
        const wide first = position + 1 - p->window.left, past = position + 1 + p->window.right;
        begin = first > begin ? first : begin;
        end = past < end ? past : end;
    }
    end = end > 0 ? end : 0;
    const rapti_range got = rapti_attention_range(p, 0, i);
    const bool empty = begin >= end && got.begin >= got.end;
    cr_expect(empty || (got.begin == begin && got.end == end),
              "i %lld shift %lld keys %lld left %lld right %lld: [%lld, %lld)", (long long)i,
              (long long)p->position_shift, (long long)p->keys, (long long)p->window.left,
              (long long)p->window.right, (long long)got.begin, (long long)got.end);
}

Test(ahead, limits_at_every_edge) {
    const int64_t top = INT64_C(1) << 62;
    const int64_t sides[] = {0, 1, 5, top - 2, top - 1, top, top + 1, INT64_MAX - 1, INT64_MAX};
    const int64_t sizes[] = {1, 2, 9, top / 2, top - 2, top - 1};
    enum { SIDES = sizeof sides / sizeof sides[0], SIZES = sizeof sizes / sizeof sizes[0] };
    for (int n = 0; n < 4 * SIDES * SIDES * SIZES * SIZES; n++) {
        const int64_t keys = sizes[n / 4 / SIDES / SIDES % SIZES];
        const int64_t queries = sizes[n / 4 / SIDES / SIDES / SIZES];
        const rapti_problem p = {
            .queries = queries,
            .keys = keys,
            .causal = n % 2,
            .position_shift = n / 2 % 2 ? keys - queries : 0,
            .window = {n % 3 != 0, sides[n / 4 % SIDES], sides[n / 4 / SIDES % SIDES]}};
        expect_range(&p, 0);
        expect_range(&p, queries / 2);
        expect_range(&p, queries - 1);
    }
}
