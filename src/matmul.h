/* SPDX-License-Identifier: MIT
 * matmul.h: a matrix product after its checks, and the plan made for it. */
#ifndef RAPTI_MATMUL_H
#define RAPTI_MATMUL_H

#include "context.h"

/* A leading axis and how far a step along it moves in each operand; 0 = broadcast. */
typedef struct rapti_matmul_axis {
    int64_t size, a, b, c;
} rapti_matmul_axis;

/* Leading axes, the last one fastest. */
typedef struct rapti_matmul_axes {
    int32_t count;
    int64_t items; /* product of the sizes */
    rapti_matmul_axis axis[RAPT_MAX_RANK];
} rapti_matmul_axes;

/* C[m, n] = alpha sum_k A[m, k] B[k, n] + beta C[m, n] + bias[n], for all leading indices. They are
 * kept as two lists: a unit has a B of its own, its repeats use the same B. Leading axes along
 * which rows simply go on (x [B, T, K] times one W) are part of `rows`. */
typedef struct rapti_matmul_problem {
    int64_t rows, columns, inner;
    rapti_matmul_axes units, repeats;
    const float *a, *b, *bias; /* bias null = absent */
    float *c;
    int64_t a_row, a_k, b_k, b_column, c_row, c_column, bias_step;
    float alpha, beta;
} rapti_matmul_problem;

/* Checks a call (matmul.h of the public headers lists what is refused) and describes it.
 * needs_data: 0 admits null data pointers. */
rapt_status rapti_matmul_check(rapt_context *context, const rapt_matmul *what,
                               const rapt_matmul_operands *operands, int needs_data,
                               rapti_matmul_problem *problem);

/* Parts of the check that the backward call shares. `alpha`; an operand by itself; its last axes
 * against rows x columns, the leading ones against those of c, called c_name. */
rapt_status rapti_matmul_check_alpha(rapt_context *context, const rapt_matmul *what);
rapt_status rapti_matmul_check_operand(rapt_context *context, const char *name,
                                       const rapt_tensor *t, int32_t min_rank, int32_t max_rank,
                                       int needs_data);
rapt_status rapti_matmul_check_sizes(rapt_context *context, const char *name, const rapt_tensor *t,
                                     int64_t rows, int64_t columns, const char *c_name,
                                     const rapt_tensor *c);

/* Describes a call that is known to be right. */
void rapti_matmul_describe(const rapt_matmul *what, const rapt_matmul_operands *operands,
                           rapti_matmul_problem *problem);

/* How far item number `index` lies from the first one, in each operand. */
rapti_matmul_axis rapti_matmul_offset(const rapti_matmul_axes *axes, int64_t index);

/* How a call is cut up. Panels are columns of C as wide as a register tile. B is packed in panels,
 * wave by wave: a few units, or a few panels of one unit, and one block of k at a time. Then tasks
 * multiply rows of A with what is packed. Only the blocks touch a result: a tile sums a block in
 * registers, C adds blocks up. They depend on `inner` alone. */
typedef struct rapti_matmul_plan {
    const rapti_kernels *kernels;
    int64_t vectors, panels; /* of a row of C */
    int64_t blocks;          /* of k, at least one */
    int64_t wave_units, wave_panels;
    int64_t row_block, row_blocks; /* rows of A per task; tasks per repeat */
    int64_t column_tasks;          /* parts that the panels of a wave are cut into */
    int64_t row_ld;                /* row_block, a multiple of the lanes */
    int64_t packed_a_floats;       /* a task's copy of its rows of A; 0: read in place */
    int32_t threads;
    int fused; /* 1: no task waits for another's packing: the first rows of a unit pack its B */
    size_t unit_floats, packed_bytes, thread_bytes, scratch_bytes;
} rapti_matmul_plan;

void rapti_matmul_make_plan(const rapt_context *context, const rapti_matmul_problem *p,
                            rapti_matmul_plan *plan);

/* Computes C. `scratch` holds plan->scratch_bytes, 64-byte aligned. */
void rapti_matmul_execute(const rapti_matmul_problem *p, const rapti_matmul_plan *plan,
                          void *scratch);

/* Bytes of scratch that one thread needs, for a plan whose tasks are known. */
size_t rapti_matmul_thread_bytes(const rapti_matmul_plan *plan);

/* First lane vector of a panel; the panel holds those up to the start of the next. */
int64_t rapti_matmul_panel_start(const rapti_matmul_plan *plan, int64_t panel);

/* Indices k of a block: [begin, end). */
typedef struct rapti_matmul_range {
    int64_t begin, end;
} rapti_matmul_range;

rapti_matmul_range rapti_matmul_block(const rapti_matmul_problem *p, int64_t block);

/* What is packed at a time. */
typedef struct rapti_matmul_wave {
    const rapti_matmul_problem *p;
    const rapti_matmul_plan *plan;
    int64_t first_unit, units, first_panel, panels, block;
    float *packed; /* [units][unit_floats] */
    char *scratch; /* [threads][thread_bytes] */
} rapti_matmul_wave;

/* Tasks of a wave, first those that pack, then those that multiply. */
int64_t rapti_matmul_pack_tasks(const rapti_matmul_wave *wave);
int64_t rapti_matmul_product_tasks(const rapti_matmul_wave *wave);
void rapti_matmul_run_pack(void *wave, int64_t task, int32_t thread);
void rapti_matmul_run_product(void *wave, int64_t task, int32_t thread);

#endif
