/* SPDX-License-Identifier: MIT
 * matmul_run.c: the public calls of the matrix product: check, plan, run. */
#include "matmul.h"
#include "numbers.h"
#include "parallel.h"

/* All blocks of k, one after the other, on the same columns: C grows from block to block. */
static void run_blocks(rapti_matmul_wave *w) {
    for (w->block = 0; w->block < w->plan->blocks; w->block++) {
        const int32_t threads = w->plan->threads;
        if (!w->plan->fused) {
            rapti_parallel_run(threads, rapti_matmul_pack_tasks(w), rapti_matmul_run_pack, w);
        }
        rapti_parallel_run(threads, rapti_matmul_product_tasks(w), rapti_matmul_run_product, w);
    }
}

static void run_waves(rapti_matmul_wave *w) {
    const rapti_matmul_plan *plan = w->plan;
    const int64_t units = w->p->units.items;
    for (w->first_unit = 0; w->first_unit < units; w->first_unit += plan->wave_units) {
        w->units = rapti_min(plan->wave_units, units - w->first_unit);
        for (w->first_panel = 0; w->first_panel < plan->panels; w->first_panel += w->panels) {
            w->panels = rapti_min(plan->wave_panels, plan->panels - w->first_panel);
            run_blocks(w);
        }
    }
}

void rapti_matmul_execute(const rapti_matmul_problem *p, const rapti_matmul_plan *plan,
                          void *scratch) {
    if (p->units.items == 0) { return; }
    rapti_matmul_wave wave = {
        .p = p, .plan = plan, .packed = scratch, .scratch = (char *)scratch + plan->packed_bytes};
    run_waves(&wave);
}

rapt_status rapt_matmul_run(rapt_context *context, const rapt_matmul *what,
                            const rapt_matmul_operands *operands) {
    rapti_matmul_problem p;
    rapti_matmul_plan plan;
    void *scratch = NULL;
    rapt_status status = rapti_matmul_check(context, what, operands, 1, &p);
    if (status != RAPT_OK || p.units.items == 0) { return status; }
    rapti_matmul_make_plan(context, &p, &plan);
    status = rapti_context_scratch(context, operands->scratch, operands->scratch_bytes,
                                   plan.scratch_bytes, &scratch);
    if (status != RAPT_OK) { return status; }
    rapti_matmul_execute(&p, &plan, scratch);
    return RAPT_OK;
}

rapt_status rapt_matmul_scratch(rapt_context *context, const rapt_matmul *what,
                                const rapt_matmul_operands *operands, int64_t *bytes) {
    rapti_matmul_problem p;
    rapti_matmul_plan plan;
    rapt_status status = rapti_matmul_check(context, what, operands, 0, &p);
    if (status == RAPT_OK && !bytes) {
        status = rapti_fail(context, RAPT_ERR_ARGUMENT, "bytes: null pointer");
    }
    if (status != RAPT_OK) { return status; }
    rapti_matmul_make_plan(context, &p, &plan);
    *bytes = (int64_t)plan.scratch_bytes;
    return RAPT_OK;
}
