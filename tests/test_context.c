/* SPDX-License-Identifier: MIT
 * test_context.c: creating contexts: ranges of the options, the layout check, messages, and what a
 * context whose creation failed can still do. */
#include "message.h"
#include "plain.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

/* Creation fails; the context gives its message, refuses calls and can be destroyed. */
static void expect_failed(rapt_context *context, rapt_status status, rapt_status expected,
                          const char *words, int line) {
    cr_expect_eq(status, expected, "line %d: %s", line, rapt_status_name(status));
    cr_assert_not_null(context, "line %d", line);
    expect_message(rapt_context_message(context), words, line);
    plain p;
    plain_make(&p, (plain_sizes){1, 1, 1, 1, 1, 1, 1}, 1);
    rapt_attention_info info;
    double cost;
    cr_expect_eq(rapt_attention_forward(context, &p.what, &p.operands), RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_attention_forward_info(context, &p.what, &p.operands, &info),
                 RAPT_ERR_ARGUMENT);
    cr_expect_eq(rapt_attention_forward_tasks(context, &p.what, &p.operands, &cost, 1),
                 RAPT_ERR_ARGUMENT);
    cr_expect(plain_untouched(&p));
    cr_expect_gt(strlen(rapt_context_message(context)), 0);
    cr_expect_not_null(rapt_context_isa(context));
    rapt_context_trim(context);
    rapt_context_destroy(context);
    plain_free(&p);
}

static void expect_options_refused(const rapt_context_options *options, rapt_status expected,
                                   const char *words, int line) {
    rapt_context *context = NULL;
    const rapt_status status = rapt_context_create(&context, options);
    expect_failed(context, status, expected, words, line);
}

Test(context, defaults) {
    rapt_context *context = NULL;
    cr_assert_eq(rapt_context_create(&context, NULL), RAPT_OK);
    cr_expect_str_eq(rapt_context_message(context), "");
    cr_expect_eq(rapt_isa_supported(rapt_context_isa(context)), 1);
    cr_expect_geq(rapt_context_threads(context), 1);
    rapt_context_destroy(context);

    const rapt_context_options zero = {0};
    cr_assert_eq(rapt_context_create(&context, &zero), RAPT_OK);
    rapt_context_trim(context);
    rapt_context_destroy(context);
}

Test(context, null_context) {
    cr_expect_eq(rapt_context_create(NULL, NULL), RAPT_ERR_ARGUMENT);
    rapt_context_destroy(NULL);
    rapt_context_trim(NULL);
    cr_assert_not_null(rapt_context_message(NULL));
    cr_expect_gt(strlen(rapt_context_message(NULL)), 0);
}

Test(context, thread_counts) {
    for (int32_t threads = 1; threads <= 4096; threads = threads * 8) {
        rapt_context *context = plain_context(threads, NULL);
        cr_expect_eq(rapt_context_threads(context), threads);
        rapt_context_destroy(context);
    }
    const rapt_context_options negative = {.threads = -1}, large = {.threads = 4097};
    expect_options_refused(&negative, RAPT_ERR_ARGUMENT, "threads -1 4096", __LINE__);
    expect_options_refused(&large, RAPT_ERR_ARGUMENT, "threads 4097 4096", __LINE__);
}

static void *take(void *user, size_t bytes, size_t alignment) {
    (void)user;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void give_back(void *user, void *memory) {
    (void)user;
    free(memory);
}

Test(context, half_an_allocator) {
    const rapt_context_options no_release = {.allocator = {take, NULL, NULL}};
    const rapt_context_options no_allocate = {.allocator = {NULL, give_back, NULL}};
    expect_options_refused(&no_release, RAPT_ERR_ARGUMENT, "allocator", __LINE__);
    expect_options_refused(&no_allocate, RAPT_ERR_ARGUMENT, "allocator", __LINE__);
}

static rapt_layout own_layout(void) {
    const rapt_layout layout = {RAPT_VERSION,
                                (uint32_t)sizeof(rapt_tensor),
                                (uint32_t)sizeof(rapt_attention),
                                (uint32_t)sizeof(rapt_attention_operands),
                                (uint32_t)sizeof(rapt_attention_info),
                                (uint32_t)sizeof(rapt_context_options)};
    return layout;
}

Test(context, other_layouts) {
    rapt_context *context = NULL;
    rapt_layout layout = own_layout();
    cr_assert_eq(rapt_context_create_checked(&context, NULL, &layout), RAPT_OK);
    rapt_context_destroy(context);

    uint32_t *const fields[] = {&layout.tensor, &layout.attention, &layout.operands, &layout.info,
                                &layout.options};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        for (int32_t change = -8; change <= 8; change += 16) {
            layout = own_layout();
            *fields[i] += (uint32_t)change;
            const rapt_status status = rapt_context_create_checked(&context, NULL, &layout);
            expect_failed(context, status, RAPT_ERR_VERSION, "version", __LINE__);
        }
    }
    layout = own_layout();
    layout.version += 10000;
    const rapt_status status = rapt_context_create_checked(&context, NULL, &layout);
    expect_failed(context, status, RAPT_ERR_VERSION, "version", __LINE__);
}

Test(context, options_of_another_layout_are_not_read) {
    rapt_context *context = NULL;
    rapt_layout layout = own_layout();
    layout.options -= 8;
    const rapt_context_options *unreadable = (const rapt_context_options *)(uintptr_t)64;
    const rapt_status status = rapt_context_create_checked(&context, unreadable, &layout);
    expect_failed(context, status, RAPT_ERR_VERSION, "version", __LINE__);
}

Test(context, null_layout) {
    rapt_context *context = NULL;
    const rapt_status status = rapt_context_create_checked(&context, NULL, NULL);
    expect_failed(context, status, RAPT_ERR_ARGUMENT, "layout null", __LINE__);
}

Test(context, message_is_that_of_the_last_failure) {
    rapt_context *context = plain_context(1, NULL);
    plain p;
    plain_make(&p, (plain_sizes){1, 2, 1, 3, 4, 5, 6}, 1);
    p.operands.q = NULL;
    cr_expect_eq(plain_run(&p, context), RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "q", __LINE__);
    p.operands.q = &p.q;
    p.operands.out = NULL;
    cr_expect_eq(plain_run(&p, context), RAPT_ERR_ARGUMENT);
    expect_message(rapt_context_message(context), "out", __LINE__);
    p.operands.out = &p.out;
    cr_expect_eq(plain_run(&p, context), RAPT_OK);
    plain_free(&p);
    rapt_context_destroy(context);
}

Test(context, status_names) {
    const char *const names[] = {"RAPT_OK",          "RAPT_ERR_ARGUMENT", "RAPT_ERR_DTYPE",
                                 "RAPT_ERR_SHAPE",   "RAPT_ERR_OVERLAP",  "RAPT_ERR_MEMORY",
                                 "RAPT_ERR_SCRATCH", "RAPT_ERR_ISA",      "RAPT_ERR_VERSION",
                                 "RAPT_ERR_FILE"};
    for (int i = 0; i < 10; i++) { cr_expect_str_eq(rapt_status_name((rapt_status)i), names[i]); }
    cr_expect_str_eq(rapt_status_name((rapt_status)10), "unknown status");
    cr_expect_str_eq(rapt_status_name((rapt_status)-1), "unknown status");
}

Test(context, version) { cr_expect_eq(rapt_version(), RAPT_VERSION); }
