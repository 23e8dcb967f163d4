/* SPDX-License-Identifier: MIT
 * criterion.h (stand-in): the part of Criterion's interface that the suites use, for places where
 * Criterion itself cannot run: under user-mode emulation its process isolation hangs, under the
 * thread sanitizer its memory arena cannot be mapped. The suites are the same sources. */
#ifndef RAPT_TESTS_STANDALONE_CRITERION_H
#define RAPT_TESTS_STANDALONE_CRITERION_H

#include <stdbool.h>
#include <string.h>

/* A test (name set) or the settings of a suite (name null). */
typedef struct standalone_entry {
    const char *suite, *name;
    void (*run)(void);
    double timeout; /* seconds; 0: none */
    void (*init)(void), (*fini)(void);
    int ignored;
    struct standalone_entry *next;
} standalone_entry;

void standalone_register(standalone_entry *entry);
void standalone_check(bool fatal, bool holds, const char *file, int line, const char *what,
                      const char *format, ...);

/* Arguments may follow the names, as in Criterion: .timeout = 5, .init = function. */
#define Test(...) STANDALONE_TEST(__VA_ARGS__, .ignored = 0)
#define STANDALONE_TEST(suite_, name_, ...)                                                        \
    static void suite_##_##name_##_run(void);                                                      \
    __attribute__((constructor)) static void suite_##_##name_##_register(void) {                   \
        static standalone_entry entry = {                                                          \
            .suite = #suite_, .name = #name_, .run = suite_##_##name_##_run, __VA_ARGS__};         \
        standalone_register(&entry);                                                               \
    }                                                                                              \
    static void suite_##_##name_##_run(void)

#define TestSuite(...) STANDALONE_SUITE(__VA_ARGS__, .ignored = 0)
#define STANDALONE_SUITE(suite_, ...)                                                              \
    __attribute__((constructor)) static void suite_##_register(void) {                             \
        static standalone_entry entry = {.suite = #suite_, __VA_ARGS__};                           \
        standalone_register(&entry);                                                               \
    }                                                                                              \
    struct standalone_entry

/* ---- Assertions: cr_assert_* end the test, cr_expect_* go on. A message may follow. ---- */

#define STANDALONE_CHECK(fatal, holds, what, ...)                                                  \
    standalone_check(fatal, holds, __FILE__, __LINE__, what, __VA_ARGS__)
#define STANDALONE_TRUE(fatal, value, ...)                                                         \
    STANDALONE_CHECK(fatal, (value) ? true : false, #value, __VA_ARGS__)
#define STANDALONE_FALSE(fatal, value, ...)                                                        \
    STANDALONE_CHECK(fatal, (value) ? false : true, "not " #value, __VA_ARGS__)
#define STANDALONE_COMPARE(fatal, op, a, b, ...)                                                   \
    STANDALONE_CHECK(fatal, (a)op(b), #a " " #op " " #b, __VA_ARGS__)
#define STANDALONE_STRINGS(fatal, op, a, b, ...)                                                   \
    STANDALONE_CHECK(fatal, strcmp(a, b) op 0, #a " " #op " " #b, __VA_ARGS__)

#define STANDALONE_ARRAYS(fatal, a, b, bytes, ...)                                                 \
    STANDALONE_CHECK(fatal, memcmp(a, b, bytes) == 0, #a " == " #b, __VA_ARGS__)
#define STANDALONE_NEAR(fatal, a, b, most, ...)                                                    \
    STANDALONE_CHECK(fatal, (a) - (b) <= (most) && (b) - (a) <= (most), #a " near " #b, __VA_ARGS__)

#define cr_assert(...) STANDALONE_TRUE(true, __VA_ARGS__, "")
#define cr_assert_not(...) STANDALONE_FALSE(true, __VA_ARGS__, "")
#define cr_assert_null(...) STANDALONE_FALSE(true, __VA_ARGS__, "")
#define cr_assert_not_null(...) STANDALONE_TRUE(true, __VA_ARGS__, "")
#define cr_assert_eq(...) STANDALONE_COMPARE(true, ==, __VA_ARGS__, "")
#define cr_assert_neq(...) STANDALONE_COMPARE(true, !=, __VA_ARGS__, "")
#define cr_assert_lt(...) STANDALONE_COMPARE(true, <, __VA_ARGS__, "")
#define cr_assert_leq(...) STANDALONE_COMPARE(true, <=, __VA_ARGS__, "")
#define cr_assert_gt(...) STANDALONE_COMPARE(true, >, __VA_ARGS__, "")
#define cr_assert_geq(...) STANDALONE_COMPARE(true, >=, __VA_ARGS__, "")
#define cr_assert_str_eq(...) STANDALONE_STRINGS(true, ==, __VA_ARGS__, "")
#define cr_assert_float_eq(...) STANDALONE_NEAR(true, __VA_ARGS__, "")
#define cr_fatal(...) STANDALONE_CHECK(true, false, "fatal", __VA_ARGS__)

#define cr_expect(...) STANDALONE_TRUE(false, __VA_ARGS__, "")
#define cr_expect_not(...) STANDALONE_FALSE(false, __VA_ARGS__, "")
#define cr_expect_null(...) STANDALONE_FALSE(false, __VA_ARGS__, "")
#define cr_expect_not_null(...) STANDALONE_TRUE(false, __VA_ARGS__, "")
#define cr_expect_eq(...) STANDALONE_COMPARE(false, ==, __VA_ARGS__, "")
#define cr_expect_neq(...) STANDALONE_COMPARE(false, !=, __VA_ARGS__, "")
#define cr_expect_lt(...) STANDALONE_COMPARE(false, <, __VA_ARGS__, "")
#define cr_expect_leq(...) STANDALONE_COMPARE(false, <=, __VA_ARGS__, "")
#define cr_expect_gt(...) STANDALONE_COMPARE(false, >, __VA_ARGS__, "")
#define cr_expect_geq(...) STANDALONE_COMPARE(false, >=, __VA_ARGS__, "")
#define cr_expect_str_eq(...) STANDALONE_STRINGS(false, ==, __VA_ARGS__, "")
#define cr_expect_str_neq(...) STANDALONE_STRINGS(false, !=, __VA_ARGS__, "")
#define cr_expect_arr_eq(...) STANDALONE_ARRAYS(false, __VA_ARGS__, "")
#define cr_expect_float_eq(...) STANDALONE_NEAR(false, __VA_ARGS__, "")

/* ---- What main.c calls ---- */

struct criterion_test_set;
struct criterion_test_set *criterion_initialize(void);
int criterion_handle_args(int argc, char *argv[], bool handle_unknown);
int criterion_run_all_tests(struct criterion_test_set *tests); /* 1 if all passed */
void criterion_finalize(struct criterion_test_set *tests);

#endif
