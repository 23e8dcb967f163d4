/* SPDX-License-Identifier: MIT
 * misuse.c: see misuse.h. */
#include "misuse.h"

#include "message.h"

#include <criterion/criterion.h>

#include <string.h>

misuse_call the_call;
rapt_context *misuse_context;

const char *const misuse_operand_names[OPERANDS] = {
    "q", "k", "v", "mask", "bias", "key_lengths", "keep", "out", "lse", "weights"};

void misuse_open(void) { rapt_context_create(&misuse_context, NULL); }
void misuse_close(void) { rapt_context_destroy(misuse_context); }

misuse_call *valid(void) {
    misuse_call *c = &the_call;
    misuse_memory *m = &c->data;
    memset(c, 0, sizeof *c);
    memset(m->mask, 1, sizeof m->mask);
    memset(m->out, 0xA5, sizeof m->out);
    memset(m->lse, 0xA5, sizeof m->lse);
    memset(m->weights, 0xA5, sizeof m->weights);
    m->keep[1] = m->keep[TK] = 1;
    m->lengths32[0] = TK;
    m->lengths64[0] = TK;
    c->t[Q] = rapt_tensor_4d(RAPT_F32, m->q, B, HQ, TQ, D);
    c->t[K] = rapt_tensor_4d(RAPT_F32, m->k, B, HKV, TK, D);
    c->t[V] = rapt_tensor_4d(RAPT_F32, m->v, B, HKV, TK, DV);
    c->t[MASK] = rapt_tensor_2d(RAPT_BOOL, m->mask, TQ, TK);
    c->t[BIAS] = rapt_tensor_2d(RAPT_F32, m->bias, TQ, TK);
    c->t[KEY_LENGTHS] = rapt_tensor_1d(RAPT_I32, m->lengths32, B);
    c->t[KEEP] = rapt_tensor_2d(RAPT_BOOL, m->keep, TQ, TK);
    c->t[OUT] = rapt_tensor_4d(RAPT_F32, m->out, B, HQ, TQ, DV);
    c->t[LSE] = rapt_tensor_3d(RAPT_F32, m->lse, B, HQ, TQ);
    c->t[WEIGHTS] = rapt_tensor_4d(RAPT_F32, m->weights, B, HQ, TQ, TK);
    c->what.dropout = (rapt_dropout){.training = 1, .p = 0.5};
    c->operands = (rapt_attention_operands){.q = &c->t[Q],
                                            .k = &c->t[K],
                                            .v = &c->t[V],
                                            .mask = &c->t[MASK],
                                            .bias = &c->t[BIAS],
                                            .key_lengths = &c->t[KEY_LENGTHS],
                                            .keep = &c->t[KEEP],
                                            .out = &c->t[OUT],
                                            .lse = &c->t[LSE],
                                            .weights = &c->t[WEIGHTS]};
    return c;
}

typedef enum function { FORWARD, SCORED, COMPUTING, INFO = COMPUTING, TASKS, FUNCTIONS } function;
static const char *const function_names[FUNCTIONS] = {"forward", "scored", "info", "tasks"};

static rapt_status run(function f) {
    const misuse_call *c = &the_call;
    const rapt_score score = {.kind = RAPT_SCORE_SCALED_DOT};
    rapt_attention_info info;
    double costs[2];
    switch (f) {
    case FORWARD: return rapt_attention_forward(misuse_context, &c->what, &c->operands);
    case SCORED: /* asks for weights */
        if (!c->operands.weights) {
            return rapt_attention_forward(misuse_context, &c->what, &c->operands);
        }
        return rapt_attention_scored(misuse_context, &c->what, &score, &c->operands);
    case INFO: return rapt_attention_forward_info(misuse_context, &c->what, &c->operands, &info);
    default: break;
    }
    return rapt_attention_forward_tasks(misuse_context, &c->what, &c->operands, costs, 2);
}

static void expect_status(function f, rapt_status expected, const char *words, int line) {
    const misuse_memory before = the_call.data;
    const rapt_status status = run(f);
    const char *message = rapt_context_message(misuse_context);
    cr_expect(status == expected, "line %d, %s: %s (\"%s\"), expected %s", line, function_names[f],
              rapt_status_name(status), message, rapt_status_name(expected));
    if (status == RAPT_OK) { return; }
    expect_message(message, words, line);
    cr_expect(memcmp(&before, &the_call.data, sizeof before) == 0,
              "line %d, %s: memory was written", line, function_names[f]);
}

void expect_refused(rapt_status expected, const char *words, int line) {
    for (function f = FORWARD; f < FUNCTIONS; f++) { expect_status(f, expected, words, line); }
}

void expect_computing_refused(rapt_status expected, const char *words, int line) {
    for (function f = FORWARD; f < FUNCTIONS; f++) {
        expect_status(f, f < COMPUTING ? expected : RAPT_OK, words, line);
    }
}

void expect_taken(int line) {
    for (function f = FORWARD; f < FUNCTIONS; f++) { expect_status(f, RAPT_OK, "", line); }
}
