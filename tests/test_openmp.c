/* SPDX-License-Identifier: MIT
 * test_openmp.c: calls among a caller's own OpenMP: inside parallel regions, beside threads that
 * change OpenMP's settings, with far more threads asked for than there are, and what the library
 * must leave alone. suites_api.cmake runs it again under OMP_DYNAMIC, OMP_THREAD_LIMIT and
 * others. */
#include "plain.h"

#include <criterion/criterion.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#if defined(_OPENMP)
#include <omp.h>

#if defined(__SANITIZE_ADDRESS__)
enum { REPEATS = 5 };
#else
enum { REPEATS = 50 };
#endif

static const plain_sizes sizes = {2, 3, 3, 65, 65, 16, 16};

static void reference(plain *p) {
    plain_make(p, sizes, 21);
    rapt_context *context = plain_context(1, NULL);
    cr_assert_eq(plain_run(p, context), RAPT_OK);
    rapt_context_destroy(context);
}

Test(openmp, more_threads_than_there_are, .timeout = 60) {
    plain expected, p;
    reference(&expected);
    plain_make(&p, sizes, 21);
    for (int32_t threads = 64; threads <= 4096; threads *= 8) {
        rapt_context *context = plain_context(threads, NULL);
        for (int i = 0; i < 3; i++) {
            cr_expect_eq(plain_run(&p, context), RAPT_OK);
            cr_expect(plain_same(&p, &expected), "%d threads", threads);
        }
        rapt_context_destroy(context);
    }
    plain_free(&p);
    plain_free(&expected);
}

/* Every thread of a caller's region makes calls with its own context. */
static void inside_a_region(int team, const plain *expected) {
    int wrong = 0;
#pragma omp parallel num_threads(team) default(none) shared(expected, sizes) reduction(+ : wrong)
    {
        plain p;
        plain_make(&p, sizes, 21);
        rapt_context *context = plain_context(4, NULL);
        for (int i = 0; i < REPEATS; i++) {
            wrong += plain_run(&p, context) != RAPT_OK || !plain_same(&p, expected);
        }
        rapt_context_destroy(context);
        plain_free(&p);
    }
    cr_expect_eq(wrong, 0, "team of %d", team);
}

Test(openmp, inside_a_parallel_region, .timeout = 120) {
    plain expected;
    reference(&expected);
    for (int team = 1; team <= 8; team *= 2) { inside_a_region(team, &expected); }
    plain_free(&expected);
}

Test(openmp, inside_a_region_with_nesting, .timeout = 120) {
    plain expected;
    reference(&expected);
    omp_set_max_active_levels(3);
    inside_a_region(3, &expected);
    plain_free(&expected);
}

Test(openmp, inside_a_worksharing_loop, .timeout = 120) {
    plain expected;
    reference(&expected);
    int wrong = 0;
#pragma omp parallel for default(none) shared(expected, sizes) reduction(+ : wrong)
    for (int i = 0; i < REPEATS; i++) {
        plain p;
        plain_make(&p, sizes, 21);
        rapt_context *context = plain_context(2, NULL);
        wrong += plain_run(&p, context) != RAPT_OK || !plain_same(&p, &expected);
        rapt_context_destroy(context);
        plain_free(&p);
    }
    cr_expect_eq(wrong, 0);
    plain_free(&expected);
}

static atomic_int stop;

static void *change_settings(void *unused) {
    (void)unused;
    for (int n = 1; !atomic_load(&stop); n = n % 7 + 1) {
        omp_set_num_threads(n);
        omp_set_dynamic(n % 2);
    }
    return NULL;
}

Test(openmp, settings_changed_by_another_thread, .timeout = 120) {
    plain expected, p;
    reference(&expected);
    plain_make(&p, sizes, 21);
    rapt_context *context = plain_context(8, NULL);
    pthread_t other;
    cr_assert_eq(pthread_create(&other, NULL, change_settings, NULL), 0);
    int wrong = 0;
    for (int i = 0; i < REPEATS; i++) {
        wrong += plain_run(&p, context) != RAPT_OK || !plain_same(&p, &expected);
    }
    atomic_store(&stop, 1);
    pthread_join(other, NULL);
    cr_expect_eq(wrong, 0);
    rapt_context_destroy(context);
    plain_free(&p);
    plain_free(&expected);
}

Test(openmp, settings_of_the_caller_decide_the_default) {
    omp_set_num_threads(1);
    rapt_context *context = plain_context(0, NULL);
    cr_expect_eq(rapt_context_threads(context), 1);
    rapt_context_destroy(context);
}

Test(openmp, settings_are_left_alone) {
    omp_set_num_threads(3);
    omp_set_schedule(omp_sched_guided, 5);
    const int dynamic = omp_get_dynamic(), levels = omp_get_max_active_levels();
    plain p;
    plain_make(&p, sizes, 21);
    rapt_context *context = plain_context(2, NULL);
    cr_assert_eq(plain_run(&p, context), RAPT_OK);
    omp_sched_t kind;
    int chunk;
    omp_get_schedule(&kind, &chunk);
    cr_expect_eq(omp_get_max_threads(), 3);
    cr_expect_eq(omp_get_dynamic(), dynamic);
    cr_expect_eq(omp_get_max_active_levels(), levels);
    cr_expect_eq(kind, omp_sched_guided);
    cr_expect_eq(chunk, 5);
    rapt_context_destroy(context);
    plain_free(&p);
}

/* Denormal numbers survive in every thread of the caller's next team. */
Test(openmp, floating_point_mode_of_workers) {
    plain p;
    plain_make(&p, sizes, 21);
    rapt_context *context = plain_context(2, NULL);
    cr_assert_eq(plain_run(&p, context), RAPT_OK);
    int flushed = 0;
#pragma omp parallel default(none) reduction(+ : flushed)
    {
        volatile float tiny = 1e-39f, one = 1.0f;
        flushed += tiny * one == 0.0f;
    }
    cr_expect_eq(flushed, 0);
    rapt_context_destroy(context);
    plain_free(&p);
}
#endif
