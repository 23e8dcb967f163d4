/* SPDX-License-Identifier: MIT
 * backward.c: the public backward calls: check, plan, run. */
#include "backward.h"
#include "parallel.h"

typedef struct backward_run {
    rapti_back_problem problem;
    rapti_back_plan plan;
    const rapti_back_task *tasks;
    char *scratch; /* threads * thread_bytes */
    int64_t step;
} backward_run;

/* One step of one head, or the part of it that has to do with one range. */
static void run_cells(const backward_run *run, int64_t chain, int64_t step, int64_t first_range,
                      int64_t past_range, void *scratch) {
    const rapti_back_plan *plan = &run->plan;
    rapti_back_cell cell = rapti_back_chain_head(&run->problem, chain, step / plan->steps);
    for (cell.range = first_range; cell.range < past_range; cell.range++) {
        cell.segment = (cell.range + step) % plan->steps;
        if (cell.segment < plan->segments) {
            rapti_back_run_cell(&run->problem, plan, cell, scratch);
        }
    }
}

static void run_task(void *argument, int64_t index, int32_t thread) {
    const backward_run *run = argument;
    const rapti_back_plan *plan = &run->plan;
    const rapti_back_task *task = &run->tasks[index];
    void *scratch = run->scratch + (size_t)thread * plan->thread_bytes;
    if (!plan->by_head) {
        run_cells(run, task->chain, run->step, task->range, task->range + 1, scratch);
        return;
    }
    for (int64_t step = 0; step < plan->chain_heads * plan->steps; step++) {
        run_cells(run, task->chain, step, 0, plan->ranges, scratch);
    }
}

/* One row (last axis) of dbias set to 0. */
static void clear_row(void *argument, int64_t row, int32_t thread) {
    (void)thread;
    const rapt_tensor *t = &((const backward_run *)argument)->problem.dbias;
    float *at = t->data;
    for (int32_t axis = t->rank - 2; axis >= 0; axis--) {
        at += row % t->size[axis] * t->stride[axis];
        row /= t->size[axis];
    }
    const int64_t last = t->rank - 1;
    for (int64_t i = 0; i < t->size[last]; i++) { at[i * t->stride[last]] = 0.0f; }
}

static void clear_bias_gradient(backward_run *run) {
    const rapt_tensor *t = &run->problem.dbias;
    int64_t rows = 1;
    for (int32_t axis = 0; axis < t->rank - 1; axis++) { rows *= t->size[axis]; }
    rapti_parallel_run(run->plan.threads, rows, clear_row, run);
}

rapt_status rapt_attention_backward(rapt_context *context, const rapt_attention *what,
                                    const rapt_attention_backward_operands *operands) {
    backward_run run = {.step = 0};
    rapt_status status = rapti_back_check(context, what, operands, 1, &run.problem);
    if (status == RAPT_OK) { status = rapti_back_plan_call(context, &run.problem, &run.plan); }
    if (status != RAPT_OK) { return status; }
    void *memory = NULL;
    if (run.plan.tasks > 0) {
        status = rapti_context_scratch(context, operands->scratch, operands->scratch_bytes,
                                       run.plan.scratch_bytes, &memory);
    }
    if (status != RAPT_OK) { return status; }
    if (run.problem.wants_dbias && !run.problem.accumulate) { clear_bias_gradient(&run); }
    if (run.plan.tasks == 0) { return RAPT_OK; }
    run.tasks = memory;
    run.scratch = (char *)memory + run.plan.task_bytes;
    for (run.step = 0; run.step < rapti_back_steps(&run.plan); run.step++) {
        const int64_t tasks = rapti_back_list_tasks(&run.problem, &run.plan, run.step, memory);
        rapti_parallel_run(run.plan.threads, tasks, run_task, &run);
    }
    return RAPT_OK;
}

rapt_status rapt_attention_backward_info(rapt_context *context, const rapt_attention *what,
                                         const rapt_attention_backward_operands *operands,
                                         rapt_attention_info *info) {
    rapti_back_problem p;
    rapti_back_plan plan;
    rapt_status status = rapti_back_check(context, what, operands, 0, &p);
    if (status == RAPT_OK && !info) {
        status = rapti_fail(context, RAPT_ERR_ARGUMENT, "info: null pointer");
    }
    if (status == RAPT_OK) { status = rapti_back_plan_call(context, &p, &plan); }
    if (status != RAPT_OK) { return status; }
    const int64_t visible = rapti_attention_visible(&p.forward);
    *info = (rapt_attention_info){
        .isa = plan.cut.kernels->isa,
        .path = "fused",
        .scratch_bytes = (int64_t)plan.scratch_bytes,
        .threads = plan.threads,
        .group_queries = plan.cut.group_lanes,
        .key_block = (int32_t)plan.key_block,
        .tasks = plan.tasks,
        .visible = visible,
        .flops = 5.0 * (double)visible * (double)(p.forward.dim + p.forward.value_dim),
    };
    return RAPT_OK;
}

rapt_status rapt_attention_backward_tasks(rapt_context *context, const rapt_attention *what,
                                          const rapt_attention_backward_operands *operands,
                                          double *costs, int64_t *steps, int64_t capacity) {
    rapti_back_problem p;
    rapti_back_plan plan;
    rapt_status status = rapti_back_check(context, what, operands, 0, &p);
    if (status == RAPT_OK && (capacity < 0 || (!costs && capacity > 0))) {
        status = rapti_fail(context, RAPT_ERR_ARGUMENT, "costs: null pointer or capacity %lld",
                            (long long)capacity);
    }
    if (status == RAPT_OK) { status = rapti_back_plan_call(context, &p, &plan); }
    if (status != RAPT_OK || plan.tasks == 0) { return status; }
    void *memory = NULL;
    status = rapti_context_scratch(context, NULL, 0, plan.task_bytes, &memory);
    if (status != RAPT_OK) { return status; }
    const rapti_back_task *tasks = memory;
    int64_t at = 0;
    for (int64_t step = 0; step < rapti_back_steps(&plan) && at < capacity; step++) {
        const int64_t count = rapti_back_list_tasks(&p, &plan, step, memory);
        for (int64_t i = 0; i < count && at < capacity; i++, at++) {
            costs[at] = tasks[i].cost;
            if (steps) { steps[at] = step; }
        }
    }
    return RAPT_OK;
}
