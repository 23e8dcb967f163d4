/* SPDX-License-Identifier: MIT
 * test_speed.c: coarse ratios of times that a wrong design would miss by far (tiny calls that pay
 * for a team, causal work that is not saved, masks that leave the fast path), with room for a noisy
 * machine. Real figures come from rapt-bench. */
#include "plain.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One call of `p` repeated for a few milliseconds; seconds per call. */
static double burst(plain *p, rapt_context *context) {
    const double begin = now();
    double seconds = 0;
    int calls = 0;
    for (; seconds < 3e-3; calls++, seconds = now() - begin) {
        cr_assert_eq(rapt_attention_forward(context, &p->what, &p->operands), RAPT_OK);
    }
    return seconds / calls;
}

typedef struct timed {
    plain *p;
    rapt_context *context;
    double best; /* seconds, over all rounds */
    double most; /* what best / calls[0].best must reach; 0: nothing */
} timed;

/* Times the calls in turns until each is fast enough beside the first, or for ever so long: a
 * neighbour on the machine makes a round slow, a wrong design makes all of them slow. */
static void compare(timed *calls, int count) {
    for (int i = 0; i < count; i++) { calls[i].best = 1e30; }
    bool good = false;
    for (int round = 0; round < 60 && !(good && round >= 5); round++) {
        good = true;
        for (int i = 0; i < count; i++) {
            const double seconds = burst(calls[i].p, calls[i].context);
            if (seconds < calls[i].best) { calls[i].best = seconds; }
            good = good && (calls[i].most == 0 || calls[i].best <= calls[i].most * calls[0].best);
        }
    }
}

/* a takes at most `most` times as long as b. */
static void expect_ratio(plain *a, rapt_context *with_a, plain *b, rapt_context *with_b,
                         double most, int line) {
    timed calls[2] = {{.p = b, .context = with_b}, {.p = a, .context = with_a, .most = most}};
    compare(calls, 2);
    const double ratio = calls[1].best / calls[0].best;
    cr_expect_leq(ratio, most, "line %d: %.2f times as long, at most %.2f expected", line, ratio,
                  most);
}

static bool has_two_cpus(void) {
    rapt_context *context = plain_context(0, NULL);
    const bool two = rapt_context_threads(context) >= 2;
    rapt_context_destroy(context);
    return two;
}

Test(speed, tiny_calls_do_not_pay_for_a_team) {
    plain tiny;
    plain_make(&tiny, (plain_sizes){1, 1, 1, 16, 16, 16, 16}, 1);
    rapt_context *one = plain_context(1, NULL), *all = plain_context(64, NULL);
    expect_ratio(&tiny, all, &tiny, one, 1.5, __LINE__);
    rapt_context_destroy(one);
    rapt_context_destroy(all);
    plain_free(&tiny);
}

Test(speed, many_small_items_share_threads) {
    if (!has_two_cpus()) { return; }
    plain many;
    plain_make(&many, (plain_sizes){4096, 1, 1, 4, 4, 8, 8}, 1);
    rapt_context *one = plain_context(1, NULL), *two = plain_context(2, NULL);
    expect_ratio(&many, two, &many, one, 1.0, __LINE__);
    rapt_context_destroy(one);
    rapt_context_destroy(two);
    plain_free(&many);
}

Test(speed, causal_saves_half_and_balances) {
    if (!has_two_cpus()) { return; }
    plain full, causal;
    const plain_sizes sizes = {1, 1, 1, 2048, 2048, 64, 64};
    plain_make(&full, sizes, 1);
    plain_make(&causal, sizes, 1);
    causal.what.causal = RAPT_CAUSAL_TOP_LEFT;
    rapt_context *one = plain_context(1, NULL), *two = plain_context(2, NULL);
    expect_ratio(&causal, one, &full, one, 0.65, __LINE__);
    expect_ratio(&causal, two, &full, two, 0.75, __LINE__);
    rapt_context_destroy(one);
    rapt_context_destroy(two);
    plain_free(&full);
    plain_free(&causal);
}

enum { HEADS = 4, T = 2048 };

enum { NONE, ALL_TRUE, ZERO_BIAS, CAUSAL_MASK, WINDOW, CASES };

/* The same inputs under every kind of mask. */
Test(speed, masks_have_no_cliff) {
    static const double most[CASES] = {0, 1.3, 1.3, 1.3, 0.15};
    static plain cases[CASES];
    static timed calls[CASES];
    unsigned char *all_true = malloc(T * T), *lower = calloc(T, T);
    cr_assert(all_true && lower);
    memset(all_true, 1, T * T);
    for (int i = 0; i < T; i++) { memset(lower + i * T, 1, (size_t)i + 1); }
    float zero = 0;
    const rapt_tensor masks[2] = {rapt_tensor_2d(RAPT_BOOL, all_true, T, T),
                                  rapt_tensor_2d(RAPT_BOOL, lower, T, T)};
    const rapt_tensor bias = rapt_tensor_1d(RAPT_F32, &zero, 1);
    rapt_context *context = plain_context(1, NULL);
    for (int i = 0; i < CASES; i++) {
        plain_make(&cases[i], (plain_sizes){1, HEADS, HEADS, T, T, 64, 64}, 1);
        calls[i] = (timed){.p = &cases[i], .context = context, .most = most[i]};
    }
    cases[ALL_TRUE].operands.mask = &masks[0];
    cases[CAUSAL_MASK].operands.mask = &masks[1];
    cases[ZERO_BIAS].operands.bias = &bias;
    cases[WINDOW].what =
        (rapt_attention){.causal = RAPT_CAUSAL_TOP_LEFT, .window = {.on = 1, .left = 64}};
    compare(calls, CASES);
    for (int i = 0; i < CASES; i++) {
        const double ratio = calls[i].best / calls[NONE].best;
        printf("case %d: %.3f times the unmasked time\n", i, ratio);
        if (most[i] > 0) { cr_expect_leq(ratio, most[i], "case %d", i); }
        plain_free(&cases[i]);
    }
    rapt_context_destroy(context);
    free(all_true);
    free(lower);
}
