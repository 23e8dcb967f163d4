/* SPDX-License-Identifier: MIT
 * test_isa.c: the list of instruction sets, and forcing one by option and by environment: what is
 * asked for runs, or creation fails. The emulated runs on CPUs that lack a set are in
 * suites_api.cmake. */
#include "message.h"
#include "plain.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect_refused(const char *isa, const char *words, int line) {
    const rapt_context_options options = {.isa = isa};
    rapt_context *context = NULL;
    cr_expect_eq(rapt_context_create(&context, &options), RAPT_ERR_ISA, "line %d", line);
    expect_message(rapt_context_message(context), words, line);
    rapt_context_destroy(context);
}

static void without_environment(void) { unsetenv("RAPT_ISA"); }

TestSuite(isa, .init = without_environment);

Test(isa, list) {
    int32_t count = 0;
    for (; rapt_isa_name(count); count++) {
        const char *name = rapt_isa_name(count);
        const int32_t supported = rapt_isa_supported(name);
        printf("%s: %ssupported\n", name, supported ? "" : "not ");
        cr_expect(supported == 0 || supported == 1);
        for (int32_t i = 0; i < count; i++) { cr_expect_str_neq(rapt_isa_name(i), name); }
    }
    cr_expect_geq(count, 1);
    cr_expect_null(rapt_isa_name(count + 1));
    cr_expect_null(rapt_isa_name(INT32_MAX));
    cr_expect_null(rapt_isa_name(-1));
    cr_expect_eq(rapt_isa_supported("scalar"), 1);
    const char *const unknown[] = {"", "AVX2", "avx", "avx5120", "scalar ", "best", NULL};
    for (int i = 0; i < 7; i++) { cr_expect_eq(rapt_isa_supported(unknown[i]), 0, "%d", i); }
}

Test(isa, default_is_the_first_supported) {
    rapt_context *context = plain_context(1, NULL);
    int32_t i = 0;
    while (!rapt_isa_supported(rapt_isa_name(i))) { i++; }
    cr_expect_str_eq(rapt_context_isa(context), rapt_isa_name(i));
    rapt_context_destroy(context);
}

/* Runs a call with the context and checks that the named set reports itself. */
static void expect_runs(rapt_context *context, const char *isa) {
    cr_expect_str_eq(rapt_context_isa(context), isa);
    plain p;
    plain_make(&p, (plain_sizes){1, 2, 1, 9, 21, 19, 23}, 3);
    rapt_attention_info info;
    cr_expect_eq(rapt_attention_forward_info(context, &p.what, &p.operands, &info), RAPT_OK);
    cr_expect_str_eq(info.isa, isa);
    cr_expect_eq(plain_run(&p, context), RAPT_OK);
    plain_free(&p);
}

Test(isa, forced_by_option) {
    for (int32_t i = 0; rapt_isa_name(i); i++) {
        const char *isa = rapt_isa_name(i);
        if (!rapt_isa_supported(isa)) {
            expect_refused(isa, isa, __LINE__);
            continue;
        }
        rapt_context *context = plain_context(1, isa);
        expect_runs(context, isa);
        rapt_context_destroy(context);
    }
}

Test(isa, forced_by_environment) {
    for (int32_t i = 0; rapt_isa_name(i); i++) {
        const char *isa = rapt_isa_name(i);
        setenv("RAPT_ISA", isa, 1);
        if (!rapt_isa_supported(isa)) {
            expect_refused(NULL, isa, __LINE__);
            continue;
        }
        rapt_context *context = plain_context(1, NULL);
        expect_runs(context, isa);
        rapt_context_destroy(context);
    }
}

Test(isa, unknown_names) {
    expect_refused("avx1024", "isa avx1024 unknown", __LINE__);
    expect_refused("AVX2", "AVX2 unknown", __LINE__);
    char long_name[5000];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    expect_refused(long_name, "unknown", __LINE__);
    setenv("RAPT_ISA", "fastest", 1);
    expect_refused(NULL, "RAPT_ISA fastest unknown", __LINE__);
}

Test(isa, option_goes_before_environment) {
    setenv("RAPT_ISA", "fastest", 1);
    rapt_context *context = plain_context(1, "scalar");
    expect_runs(context, "scalar");
    rapt_context_destroy(context);
}

Test(isa, contexts_of_different_sets_side_by_side) {
    rapt_context *contexts[16];
    int32_t count = 0;
    for (int32_t i = 0; rapt_isa_name(i) && count < 16; i++) {
        if (!rapt_isa_supported(rapt_isa_name(i))) { continue; }
        contexts[count++] = plain_context(1, rapt_isa_name(i));
    }
    for (int32_t i = 0; i < count; i++) { expect_runs(contexts[i], rapt_context_isa(contexts[i])); }
    for (int32_t i = 0; i < count; i++) { rapt_context_destroy(contexts[i]); }
}
