/* SPDX-License-Identifier: MIT
 * case.h: a random combination of all features, as plain numbers: drawn from a seed, written as
 * text, read back from text, run, and made smaller while it fails. */
#ifndef RAPT_TESTS_CASE_H
#define RAPT_TESTS_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero is the simplest value of every field but the sizes and threads, whose simplest is 1. */
typedef struct test_case {
    int64_t seed; /* of the data */
    int64_t b, hkv, group, tq, tk, d, dv;
    int64_t causal;                 /* rapt_causal */
    int64_t scale;                  /* 0: default; else one of the scales in case_run.c */
    int64_t window, left, right;    /* on, sizes; beyond CASE_NO_LIMIT: INT64_MAX */
    int64_t mask_rank, mask_ones;   /* 0: none; bit a: axis a of [B, Hq, Tq, Tk] has size 1 */
    int64_t mask_layout, mask_kind; /* layout; mask_kind */
    int64_t bias_rank, bias_ones;   /* as for the mask */
    int64_t bias_layout, bias_kind; /* layout; bias_kind */
    int64_t lengths;                /* length_kind */
    int64_t layout_q, layout_k, layout_v, layout_out, layout_lse;
    int64_t no_lse, in_place;                  /* 0 or 1 */
    int64_t fill_qk, fill_v;                   /* fill_kind */
    int64_t hidden;                            /* hidden_kind: what lies where nobody may look */
    int64_t spoiled;                           /* spoiled_kind: NaN or infinity in visible data */
    int64_t threads;                           /* 1 .. 4 */
    int64_t side, scratch;                     /* guard_side; 1: caller's scratch */
    int64_t call;                              /* call_kind; the pass: fill_qk fills the scores */
    int64_t score;                             /* rapt_score_kind */
    int64_t units, key_dim;                    /* of the additive score */
    int64_t weights;                           /* weights_kind */
    int64_t layout_weights;                    /* of the pass's scores, too */
    int64_t dropout;                           /* dropout_kind */
    int64_t keep_rank, keep_ones, keep_layout; /* as for the mask */
} test_case;

enum { CASE_NO_LIMIT = 100000 };

typedef enum mask_kind {
    MASK_ALL,
    MASK_MOST,
    MASK_FEW,
    MASK_NONE,
    MASK_BLOCKS,
    MASK_KINDS
} mask_kind;
typedef enum bias_kind {
    BIAS_ZERO,
    BIAS_NORMAL,
    BIAS_HOLES,    /* a fifth is -inf */
    BIAS_FEW,      /* nearly all is -inf */
    BIAS_SENTINEL, /* some are -10000, -65504 or the most negative float */
    BIAS_KINDS
} bias_kind;
typedef enum length_kind {
    LENGTHS_NONE,
    LENGTHS_I32,
    LENGTHS_I64,
    LENGTHS_ONE_I32,
    LENGTHS_ONE_I64,
    LENGTH_KINDS
} length_kind;
typedef enum hidden_kind {
    HIDDEN_NORMAL,
    HIDDEN_NAN,
    HIDDEN_INF,
    HIDDEN_HUGE,
    HIDDEN_KINDS
} hidden_kind;
typedef enum spoiled_kind {
    SPOILED_NO,
    SPOILED_Q,        /* a NaN */
    SPOILED_K,        /* a NaN */
    SPOILED_V,        /* a NaN */
    SPOILED_V_INF,    /* +inf */
    SPOILED_BIAS,     /* a NaN */
    SPOILED_BIAS_INF, /* +inf */
    SPOILED_KINDS
} spoiled_kind;

typedef enum weights_kind {
    WEIGHTS_NONE,
    WEIGHTS_AFTER,
    WEIGHTS_BEFORE,
    WEIGHTS_KINDS
} weights_kind;
typedef enum dropout_kind {
    DROPOUT_NONE,
    DROPOUT_OFF,  /* not training */
    DROPOUT_ZERO, /* p = 0 */
    DROPOUT_TINY, /* too small to drop anything */
    DROPOUT_SMALL,
    DROPOUT_HALF,
    DROPOUT_MOST,
    DROPOUT_ALL, /* p = 1 */
    DROPOUT_KINDS
} dropout_kind;

test_case case_draw(uint64_t seed);

/* Brings fields that contradict each other into line (in_place needs Dv = D, ...). */
void case_settle(test_case *c);

/* "seed=17 b=1 tq=3 ...": fields at their simplest value are left out. The text lives until the
 * next call. */
const char *case_text(const test_case *c);

/* Reads case_text back; false if there is an unknown name or no number. */
bool case_parse(const char *text, test_case *c);

/* True if the library does what it should; else `why` has the reason and the whole problem. */
bool case_run(const test_case *c, char *why, size_t why_bytes);

/* A smaller case that still fails, with its reason. Precondition: run(c) fails. */
typedef bool case_run_fn(const test_case *c, char *why, size_t why_bytes);
test_case case_shrink(const test_case *c, case_run_fn *run, char *why, size_t why_bytes);

/* The problem of a case, not yet run. */
struct problem;
void case_build(struct problem *p, const test_case *c);

/* Cases as test_random.c describes them: RAPT_TEST_CASES and so on, `cases` if that is not set.
 * Each is drawn, brought into line by `settle` (null: nothing to do) and run; one that fails is
 * made smaller and ends the test. */
void case_run_all(const char *name, uint64_t cases, void (*settle)(test_case *c), case_run_fn *run);

/* The fields, for code that treats them alike. */
typedef struct case_field {
    const char *name;
    size_t offset;
    int64_t simplest;
} case_field;
extern const case_field case_fields[];
extern const int case_field_count;
int64_t *case_at(test_case *c, int field);

#endif
