/* SPDX-License-Identifier: MIT
 * attention_forward.c: the public forward calls: check, plan, run. */
#include "attention.h"
#include "parallel.h"

typedef struct forward_run {
    const rapti_problem *problem;
    rapti_plan plan;
    const rapti_task *tasks;
    char *scratch; /* threads * thread_bytes */
} forward_run;

static void run_task(void *argument, int64_t task, int32_t thread) {
    const forward_run *run = argument;
    rapti_attention_run_task(run->problem, &run->plan, run->tasks, task,
                             run->scratch + (size_t)thread * run->plan.thread_bytes);
}

rapt_status rapti_attention_run(rapt_context *context, const rapti_problem *problem, void *scratch,
                                size_t scratch_bytes) {
    forward_run run = {.problem = problem};
    rapt_status status = rapti_attention_plan(context, problem, &run.plan);
    if (status != RAPT_OK || run.plan.tasks == 0) { return status; }
    void *memory = NULL;
    status =
        rapti_context_scratch(context, scratch, scratch_bytes, run.plan.scratch_bytes, &memory);
    if (status != RAPT_OK) { return status; }
    rapti_attention_list_tasks(problem, &run.plan, memory);
    run.tasks = memory;
    run.scratch = (char *)memory + run.plan.task_bytes;
    rapti_parallel_run(run.plan.threads, run.plan.tasks, run_task, &run);
    return RAPT_OK;
}

rapt_status rapt_attention_forward(rapt_context *context, const rapt_attention *what,
                                   const rapt_attention_operands *operands) {
    rapti_problem problem;
    const rapt_status status = rapti_attention_check(context, what, operands, 0, &problem);
    if (status != RAPT_OK) { return status; }
    return rapti_attention_run(context, &problem, operands->scratch, operands->scratch_bytes);
}

rapt_status rapt_attention_forward_info(rapt_context *context, const rapt_attention *what,
                                        const rapt_attention_operands *operands,
                                        rapt_attention_info *info) {
    rapti_problem p;
    rapti_plan plan;
    rapt_status status = rapti_attention_check(context, what, operands, RAPTI_SIZES_ONLY, &p);
    if (status == RAPT_OK && !info) {
        status = rapti_fail(context, RAPT_ERR_ARGUMENT, "info: null pointer");
    }
    if (status == RAPT_OK) { status = rapti_attention_plan(context, &p, &plan); }
    if (status != RAPT_OK) { return status; }
    const int64_t visible = rapti_attention_visible(&p);
    *info = (rapt_attention_info){
        .isa = plan.kernels->isa,
        .path = p.materialised ? "materialised" : "fused",
        .scratch_bytes = (int64_t)plan.scratch_bytes,
        .threads = plan.threads,
        .group_queries = plan.group_lanes,
        .key_block = plan.kernels->key_block,
        .tasks = plan.tasks,
        .visible = visible,
        .flops = 2.0 * (double)visible * (double)(p.dim + p.value_dim),
    };
    return RAPT_OK;
}

rapt_status rapt_attention_forward_tasks(rapt_context *context, const rapt_attention *what,
                                         const rapt_attention_operands *operands, double *costs,
                                         int64_t capacity) {
    rapti_problem p;
    rapti_plan plan;
    rapt_status status = rapti_attention_check(context, what, operands, RAPTI_SIZES_ONLY, &p);
    if (status == RAPT_OK && (capacity < 0 || (!costs && capacity > 0))) {
        status = rapti_fail(context, RAPT_ERR_ARGUMENT, "costs: null pointer or capacity %lld",
                            (long long)capacity);
    }
    if (status == RAPT_OK) { status = rapti_attention_plan(context, &p, &plan); }
    if (status != RAPT_OK || plan.tasks == 0) { return status; }
    void *scratch = NULL;
    status = rapti_context_scratch(context, NULL, 0, plan.task_bytes, &scratch);
    if (status != RAPT_OK) { return status; }
    const rapti_task *tasks = scratch;
    rapti_attention_list_tasks(&p, &plan, scratch);
    for (int64_t t = 0; t < plan.tasks && t < capacity; t++) { costs[t] = tasks[t].cost; }
    return RAPT_OK;
}
