/* SPDX-License-Identifier: MIT
 * test_threads.c: many callers at once, fork, thread counts, and what a call must leave alone.
 * Needs no OpenMP of its own, so that it runs under the thread sanitizer; test_openmp.c has the
 * rest. */
#include "plain.h"

#include <criterion/criterion.h>

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SLOW_BUILD = 1 };
#else
enum { SLOW_BUILD = 0 };
#endif

static const plain_sizes prefill = {2, 3, 3, 129, 129, 16, 16};
static const plain_sizes decode = {1, 8, 2, 1, 1000, 32, 32};
static const plain_sizes tails = {2, 3, 1, 65, 77, 59, 41};

/* The result on one thread, made by a context of its own. */
static void reference(plain *p, plain_sizes sizes, rapt_causal causal, uint64_t seed) {
    plain_make(p, sizes, seed);
    p->what.causal = causal;
    rapt_context *context = plain_context(1, NULL);
    cr_assert_eq(plain_run(p, context), RAPT_OK);
    rapt_context_destroy(context);
}

/* ---- Thread counts ---- */

static void expect_same_for_any_count(plain_sizes sizes, rapt_causal causal) {
    plain expected, p;
    reference(&expected, sizes, causal, 11);
    plain_make(&p, sizes, 11);
    p.what.causal = causal;
    const int32_t counts[] = {1, 2, 3, 5, 8, 16, 64};
    const int repeats = SLOW_BUILD ? 3 : 50;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        rapt_context *context = plain_context(counts[i], NULL);
        for (int repeat = 0; repeat < repeats; repeat++) {
            cr_assert_eq(plain_run(&p, context), RAPT_OK);
            cr_assert(plain_same(&p, &expected), "threads %d, repeat %d", counts[i], repeat);
        }
        rapt_context_destroy(context);
    }
    plain_free(&p);
    plain_free(&expected);
}

Test(threads, same_bits_for_any_count, .timeout = 300) {
    expect_same_for_any_count(prefill, RAPT_CAUSAL_NONE);
    expect_same_for_any_count(prefill, RAPT_CAUSAL_TOP_LEFT);
    expect_same_for_any_count(decode, RAPT_CAUSAL_NONE);
    expect_same_for_any_count(tails, RAPT_CAUSAL_BOTTOM_RIGHT);
}

/* Batch item b of `whole` as a call of its own. */
static void expect_item_same_alone(plain *whole, int64_t b, rapt_context *context) {
    plain_sizes one = whole->sizes;
    one.b = 1;
    plain item;
    plain_make(&item, one, 1);
    rapt_tensor q = rapt_tensor_slice(whole->q, 0, b, 1);
    rapt_tensor k = rapt_tensor_slice(whole->k, 0, b, 1);
    rapt_tensor v = rapt_tensor_slice(whole->v, 0, b, 1);
    item.what = whole->what;
    item.operands.q = &q;
    item.operands.k = &k;
    item.operands.v = &v;
    cr_assert_eq(plain_run(&item, context), RAPT_OK);
    const rapt_tensor out = rapt_tensor_slice(whole->out, 0, b, 1);
    const rapt_tensor lse = rapt_tensor_slice(whole->lse, 0, b, 1);
    cr_expect_eq(memcmp(item.out.data, out.data, item.out_count * sizeof(float)), 0, "item %d",
                 (int)b);
    cr_expect_eq(memcmp(item.lse.data, lse.data, item.lse_count * sizeof(float)), 0, "item %d",
                 (int)b);
    plain_free(&item);
}

Test(threads, batch_item_has_the_same_bits_alone) {
    plain whole;
    reference(&whole, (plain_sizes){5, 4, 2, 70, 90, 33, 20}, RAPT_CAUSAL_NONE, 5);
    rapt_context *context = plain_context(3, NULL);
    for (int64_t b = 0; b < 5; b++) { expect_item_same_alone(&whole, b, context); }
    rapt_context_destroy(context);
    plain_free(&whole);
}

Test(threads, causal_row_does_not_depend_on_what_comes_later) {
    enum { T = 300, D = 24 };
    plain whole, head;
    reference(&whole, (plain_sizes){1, 1, 1, T, T, D, D}, RAPT_CAUSAL_TOP_LEFT, 6);
    rapt_context *context = plain_context(2, NULL);
    for (int64_t t = 1; t <= T; t += t < 20 ? 1 : 37) {
        plain_make(&head, (plain_sizes){1, 1, 1, t, t, D, D}, 1);
        rapt_tensor q = rapt_tensor_slice(whole.q, 2, 0, t);
        rapt_tensor k = rapt_tensor_slice(whole.k, 2, 0, t);
        rapt_tensor v = rapt_tensor_slice(whole.v, 2, 0, t);
        head.operands.q = &q;
        head.operands.k = &k;
        head.operands.v = &v;
        head.what.causal = RAPT_CAUSAL_TOP_LEFT;
        cr_assert_eq(plain_run(&head, context), RAPT_OK);
        cr_expect_eq(memcmp(head.out.data, whole.out.data, head.out_count * sizeof(float)), 0,
                     "first %d tokens", (int)t);
        cr_expect_eq(memcmp(head.lse.data, whole.lse.data, head.lse_count * sizeof(float)), 0,
                     "first %d tokens", (int)t);
        plain_free(&head);
    }
    rapt_context_destroy(context);
    plain_free(&whole);
}

/* ---- Concurrent callers ---- */

enum { CALLERS = 8, SHAPES = 6 };

static const plain_sizes shapes[SHAPES] = {{1, 1, 1, 1, 1, 1, 1},      {2, 3, 1, 17, 33, 20, 12},
                                           {1, 4, 2, 65, 65, 16, 16},  {1, 8, 2, 1, 300, 32, 32},
                                           {3, 2, 2, 40, 130, 64, 64}, {1, 2, 1, 130, 7, 5, 40}};

typedef struct caller {
    pthread_t thread;
    pthread_barrier_t *start;
    int number, calls, failures;
    plain work[SHAPES];
    const plain *expected; /* null: leave the results in `work` */
} caller;

static void *run_caller(void *argument) {
    caller *c = argument;
    pthread_barrier_wait(c->start);
    rapt_context *context = plain_context(2, NULL); /* the first contexts race with each other */
    for (int call = 0; call < c->calls; call++) {
        const int shape = (call + c->number) % SHAPES;
        const rapt_status status = plain_run(&c->work[shape], context);
        const bool right =
            status == RAPT_OK && (!c->expected || plain_same(&c->work[shape], &c->expected[shape]));
        c->failures += !right;
    }
    rapt_context_destroy(context);
    return NULL;
}

/* All callers at once; returns the number of wrong results. */
static int run_callers(caller callers[CALLERS], const plain *expected, int calls) {
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, CALLERS);
    int failures = 0;
    for (int i = 0; i < CALLERS; i++) {
        caller *c = &callers[i];
        *c = (caller){.start = &start, .number = i, .calls = calls, .expected = expected};
        for (int s = 0; s < SHAPES; s++) { plain_make(&c->work[s], shapes[s], (uint64_t)s); }
        cr_assert_eq(pthread_create(&c->thread, NULL, run_caller, c), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i].thread, NULL);
        failures += callers[i].failures;
    }
    pthread_barrier_destroy(&start);
    return failures;
}

static void free_callers(caller callers[CALLERS]) {
    for (int i = 0; i < CALLERS; i++) {
        for (int s = 0; s < SHAPES; s++) { plain_free(&callers[i].work[s]); }
    }
}

Test(threads, first_calls_race, .timeout = 60) {
    static caller callers[CALLERS];
    cr_expect_eq(run_callers(callers, NULL, SHAPES), 0);
    for (int s = 0; s < SHAPES; s++) {
        plain expected;
        reference(&expected, shapes[s], RAPT_CAUSAL_NONE, (uint64_t)s);
        for (int i = 0; i < CALLERS; i++) {
            cr_expect(plain_same(&callers[i].work[s], &expected), "caller %d, shape %d", i, s);
        }
        plain_free(&expected);
    }
    free_callers(callers);
}

Test(threads, callers_with_their_own_contexts, .timeout = 300) {
    static caller callers[CALLERS];
    static plain expected[SHAPES];
    for (int s = 0; s < SHAPES; s++) {
        reference(&expected[s], shapes[s], RAPT_CAUSAL_NONE, (uint64_t)s);
    }
    cr_expect_eq(run_callers(callers, expected, SLOW_BUILD ? 30 : 200), 0);
    free_callers(callers);
    for (int s = 0; s < SHAPES; s++) { plain_free(&expected[s]); }
}

/* ---- fork ---- */

/* Exit status of a child: 0 if both a context from before the fork and a new one, of one and of
 * several threads, give the parent's bits. `generations` more children do the same. */
static int child_work(rapt_context *inherited, plain *p, const plain *expected, int generations) {
    alarm(20);
    if (plain_run(p, inherited) != RAPT_OK || !plain_same(p, expected)) { return 1; }
    for (int32_t threads = 1; threads <= 4; threads += 3) {
        rapt_context *context = plain_context(threads, NULL);
        if (plain_run(p, context) != RAPT_OK || !plain_same(p, expected)) { return 2; }
        rapt_context_destroy(context);
    }
    if (generations == 0) { return 0; }
    const pid_t child = fork();
    if (child == 0) { _exit(child_work(inherited, p, expected, generations - 1)); }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) { return 3; }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}

Test(threads, fork_after_a_team, .timeout = 60) {
    plain expected, p;
    reference(&expected, tails, RAPT_CAUSAL_NONE, 9);
    plain_make(&p, tails, 9);
    rapt_context *context = plain_context(4, NULL);
    cr_assert_eq(plain_run(&p, context), RAPT_OK);
    cr_assert(plain_same(&p, &expected));
    const pid_t child = fork();
    if (child == 0) { _exit(child_work(context, &p, &expected, 2)); }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status), "the child was ended by signal %d", WTERMSIG(status));
    cr_expect_eq(WEXITSTATUS(status), 0, "step %d of the child", WEXITSTATUS(status));
    cr_assert_eq(plain_run(&p, context), RAPT_OK); /* the parent still works */
    cr_expect(plain_same(&p, &expected));
    rapt_context_destroy(context);
    plain_free(&p);
    plain_free(&expected);
}

/* ---- The process's own settings ---- */

extern char **environ;

typedef struct process_state {
    cpu_set_t affinity;
    int rounding, count_environment;
    struct sigaction actions[32];
    sigset_t blocked;
    float denormal;
} process_state;

static process_state observe(void) {
    process_state s;
    memset(&s, 0, sizeof s);
    sched_getaffinity(0, sizeof s.affinity, &s.affinity);
    s.rounding = fegetround();
    while (environ[s.count_environment]) { s.count_environment++; }
    for (int n = 1; n < 32; n++) { sigaction(n, NULL, &s.actions[n]); }
    pthread_sigmask(SIG_BLOCK, NULL, &s.blocked);
    volatile float tiny = 1e-39f, one = 1.0f;
    s.denormal = tiny * one;
    return s;
}

Test(threads, process_settings_are_left_alone) {
    const process_state before = observe();
    rapt_context *context = plain_context(0, NULL);
    plain p;
    plain_make(&p, tails, 4);
    cr_assert_eq(plain_run(&p, context), RAPT_OK);
    const process_state after = observe();
    if (!getenv("OMP_PROC_BIND")) { /* with it, the OpenMP runtime binds threads as it was asked */
        cr_expect(CPU_EQUAL(&before.affinity, &after.affinity));
    }
    cr_expect_eq(before.rounding, after.rounding);
    cr_expect_eq(before.count_environment, after.count_environment);
    for (int n = 1; n < 32; n++) {
        cr_expect(before.actions[n].sa_handler == after.actions[n].sa_handler, "signal %d", n);
    }
    cr_expect_eq(memcmp(&before.blocked, &after.blocked, sizeof before.blocked), 0);
    cr_expect_eq(after.denormal, 1e-39f, "denormals are flushed");
    plain_free(&p);
    rapt_context_destroy(context);
}

static void *limit_to_one_cpu(void *threads) {
    cpu_set_t allowed, one;
    sched_getaffinity(0, sizeof allowed, &allowed);
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++) {
        if (CPU_ISSET(cpu, &allowed)) { CPU_SET(cpu, &one); }
    }
    sched_setaffinity(0, sizeof one, &one);
    rapt_context *context = plain_context(0, NULL);
    *(int32_t *)threads = rapt_context_threads(context);
    rapt_context_destroy(context);
    return NULL;
}

Test(threads, default_count_respects_affinity) {
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    rapt_context *context = plain_context(0, NULL);
    cr_expect_leq(rapt_context_threads(context), CPU_COUNT(&allowed));
    rapt_context_destroy(context);
    pthread_t thread;
    int32_t threads = 0;
    cr_assert_eq(pthread_create(&thread, NULL, limit_to_one_cpu, &threads), 0);
    pthread_join(thread, NULL);
    cr_expect_eq(threads, 1);
}

static void *run_one(void *argument) {
    plain *p = argument;
    rapt_context *context = plain_context(2, NULL);
    const rapt_status status = plain_run(p, context);
    rapt_context_destroy(context);
    return status == RAPT_OK ? p : NULL;
}

Test(threads, small_stack) {
    const plain_sizes wide = {1, 4, 2, 200, 200, 256, 256};
    plain expected, p;
    reference(&expected, wide, RAPT_CAUSAL_NONE, 8);
    plain_make(&p, wide, 8);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    cr_assert_eq(pthread_attr_setstacksize(&attributes, SLOW_BUILD ? 1 << 20 : 128 << 10), 0);
    pthread_t thread;
    void *done = NULL;
    cr_assert_eq(pthread_create(&thread, &attributes, run_one, &p), 0);
    pthread_join(thread, &done);
    pthread_attr_destroy(&attributes);
    cr_expect_not_null(done);
    cr_expect(plain_same(&p, &expected));
    plain_free(&p);
    plain_free(&expected);
}
