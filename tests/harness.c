/* SPDX-License-Identifier: MIT
 * harness.c: see harness.h. */
#include "harness.h"

#include "compare.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Contexts ---- */

enum { KEPT = 16 };
static rapt_context *contexts[KEPT + 1]; /* by thread count */

static const char *expected_isa(void) {
    const char *forced = getenv("RAPT_ISA");
    if (forced && *forced) return forced;
    int32_t n = 0;
    while (rapt_isa_name(n) && !rapt_isa_supported(rapt_isa_name(n))) n++;
    return rapt_isa_name(n);
}

rapt_context *harness_context(int32_t threads) {
    REQUIRE(threads >= 1 && threads <= KEPT, "harness: %d threads", (int)threads);
    if (contexts[threads]) return contexts[threads];
    const rapt_context_options options = {.threads = threads};
    rapt_context *context = NULL;
    const rapt_status status = rapt_context_create(&context, &options);
    REQUIRE(status == RAPT_OK, "rapt_context_create: %s, %s", rapt_status_name(status),
            rapt_context_message(context));
    REQUIRE(strcmp(rapt_context_isa(context), expected_isa()) == 0,
            "instruction set %s runs instead of %s", rapt_context_isa(context), expected_isa());
    return contexts[threads] = context;
}

void harness_forget_contexts(void) { memset(contexts, 0, sizeof contexts); }

/* ---- Failure ---- */

static const problem *current;

void harness_current(const problem *p) { current = p; }

const char *harness_text(void) { return current ? problem_text(current) : ""; }

void harness_fail(const char *file, int line, const char *format, ...) {
    static char message[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    cr_fatal("%s:%d: %s\n%s", file, line, message, harness_text());
    abort();
}

/* ---- Expectations ---- */

static char why[512];

void expect_run(problem *p) {
    rapt_status status = RAPT_OK;
    REQUIRE(problem_call(p, &status, why, sizeof why), "%s", why);
    REQUIRE(status == RAPT_OK, "%s: %s", rapt_status_name(status),
            rapt_context_message(harness_context(p->threads)));
}

void expect_oracle(problem *p) { REQUIRE(problem_try(p, why, sizeof why), "%s", why); }

void expect_same_bits(const problem *a, const problem *b) {
    if (a->call != CALL_PASS && b->call != CALL_PASS) {
        REQUIRE(compare_bits(problem_out(a), problem_out(b), why, sizeof why), "out: %s", why);
    }
    for (operand_id id = OP_LSE; id <= OP_WEIGHTS; id++) {
        if (!a->op[id].present || !b->op[id].present) continue;
        REQUIRE(compare_bits(&a->op[id].t, &b->op[id].t, why, sizeof why), "%s: %s",
                id == OP_LSE ? "lse" : "weights", why);
    }
}

/* ---- Closed forms ---- */

static bool near(double got, double want) {
    return compare_value(got, want, want == 0.0 ? 0.0 : 2e-6 + 1e-5 * fabs(want));
}

void expect_out(const problem *p, int64_t b, int64_t h, int64_t i, const double *row) {
    for (int64_t d = 0; d < p->s.dv; d++) {
        const double got = (double)*tensor_f32(problem_out(p), b, h, i, d);
        REQUIRE(near(got, row[d]), "out[%lld,%lld,%lld,%lld] = %.9g, want %.9g", (long long)b,
                (long long)h, (long long)i, (long long)d, got, row[d]);
    }
}

void expect_out_all(const problem *p, int64_t b, int64_t h, int64_t i, double every_column) {
    for (int64_t d = 0; d < p->s.dv; d++) {
        const double got = (double)*tensor_f32(problem_out(p), b, h, i, d);
        REQUIRE(near(got, every_column), "out[%lld,%lld,%lld,%lld] = %.9g, want %.9g", (long long)b,
                (long long)h, (long long)i, (long long)d, got, every_column);
    }
}

void expect_lse(const problem *p, int64_t b, int64_t h, int64_t i, double want) {
    const double got = (double)*problem_at(p, OP_LSE, b, h, i, 0);
    REQUIRE(near(got, want), "lse[%lld,%lld,%lld] = %.9g, want %.9g", (long long)b, (long long)h,
            (long long)i, got, want);
}

void expect_empty(const problem *p, int64_t b, int64_t h, int64_t i) {
    expect_out_all(p, b, h, i, 0.0);
    if (p->op[OP_LSE].present) expect_lse(p, b, h, i, -INFINITY);
}
