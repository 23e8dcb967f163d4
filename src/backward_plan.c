/* SPDX-License-Identifier: MIT
 * backward_plan.c: cuts a backward call into cells, decides how threads share them, sizes scratch.
 * The cut into cells decides in which order sums run, so it depends on the sizes of one head alone;
 * how threads share the cells changes no bit. */
#include "backward.h"

enum {
    SET_BLOCKS = 2,     /* queries of a set, in key blocks */
    CELL_SIXTHS = 32,   /* least keys or queries of a cell: key blocks / 6 */
    LEAST_PARTS = 4,    /* fewer would cost more than they help */
    COST_CLASSES = 64,  /* sorting tasks longest first, to within this many classes */
    PRODUCTS_COST = 5,  /* five products where the forward call has two, in halves of those */
    EFFICIENCY_GAIN = 5 /* per cent by which cells must beat whole heads */
};
static const double THREAD_COST = 400e3;  /* multiply-adds worth a thread of its own */
static const double GROUP_OVERHEAD = 2e4; /* opening and closing a group in a cell */

/* The largest power of two that leaves no part below the least size. */
static int64_t parts_of(int64_t size, int64_t key_block) {
    const int64_t least = key_block * CELL_SIXTHS / 6;
    int64_t parts = 1;
    while (size / (2 * parts) >= least) { parts *= 2; }
    return parts < LEAST_PARTS ? 1 : parts;
}

/* part * whole / parts without overflow. */
static int64_t share(int64_t whole, int64_t part, int64_t parts) {
    return whole / parts * part + whole % parts * part / parts;
}

int64_t rapti_back_range_start(const rapti_back_problem *p, const rapti_back_plan *plan,
                               int64_t range) {
    const int64_t keys = p->forward.keys, lanes = plan->cut.kernels->lanes;
    const int64_t at = share(keys, range, plan->ranges);
    return range == plan->ranges ? keys : at / lanes * lanes;
}

int64_t rapti_back_segment_start(const rapti_back_plan *plan, int64_t segment) {
    return share(plan->cut.groups, segment, plan->segments);
}

/* ---- Costs ---- */

/* Keys of [begin, end) that packed row r sees. */
static int64_t row_keys(const rapti_back_problem *p, int64_t b, int64_t r, int64_t begin,
                        int64_t end) {
    const rapti_range keys = rapti_attention_range(&p->forward, b, r / p->forward.heads_per_kv);
    return rapti_max(0, rapti_min(keys.end, end) - rapti_max(keys.begin, begin));
}

/* Groups [first, past) against keys [begin, end). */
static double groups_cost(const rapti_back_problem *p, const rapti_back_plan *plan, int64_t b,
                          int64_t first, int64_t past, int64_t begin, int64_t end) {
    const int64_t lanes = plan->cut.kernels->lanes;
    double cost = 0;
    for (int64_t g = first; g < past; g++) {
        const int64_t from = rapti_attention_group_start(&plan->cut, g) * lanes;
        const int64_t to = rapti_attention_group_start(&plan->cut, g + 1) * lanes;
        const int64_t last = rapti_min(to, plan->cut.rows) - 1;
        const double keys = 0.5 * (double)row_keys(p, b, from, begin, end) +
                            0.5 * (double)row_keys(p, b, last, begin, end);
        cost += (double)(to - from) * keys * (double)(p->forward.dim + p->forward.value_dim) *
                    PRODUCTS_COST / 2 +
                GROUP_OVERHEAD;
    }
    return cost;
}

static double cell_cost(const rapti_back_problem *p, const rapti_back_plan *plan, int64_t b,
                        int64_t range, int64_t segment) {
    return groups_cost(p, plan, b, rapti_back_segment_start(plan, segment),
                       rapti_back_segment_start(plan, segment + 1),
                       rapti_back_range_start(p, plan, range),
                       rapti_back_range_start(p, plan, range + 1));
}

static double head_cost(const rapti_back_problem *p, const rapti_back_plan *plan, int64_t b) {
    return groups_cost(p, plan, b, 0, plan->cut.groups, 0, p->forward.keys);
}

/* Costs depend on the batch item only through its key length. */
static int items_differ(const rapti_back_problem *p) {
    const rapt_tensor *lengths = &p->forward.key_lengths;
    return lengths->data && lengths->size[0] > 1;
}

static double total_cost(const rapti_back_problem *p, const rapti_back_plan *plan) {
    const int64_t items = items_differ(p) ? p->forward.batch : 1;
    double cost = 0;
    for (int64_t b = 0; b < items; b++) { cost += head_cost(p, plan, b); }
    return cost * (double)p->forward.kv_heads * (double)(p->forward.batch / items);
}

static double chain_cost(const rapti_back_problem *p, const rapti_back_plan *plan, int64_t chain) {
    if (p->sums_batch || !items_differ(p)) { /* chains are alike */
        return plan->cost / (double)plan->chains;
    }
    const int64_t b = rapti_back_chain_head(p, chain, 0).batch;
    return head_cost(p, plan, b) * (double)plan->chain_heads;
}

/* ---- Chains and tasks ---- */

rapti_back_cell rapti_back_chain_head(const rapti_back_problem *p, int64_t chain, int64_t turn) {
    const int64_t kv_heads = p->forward.kv_heads;
    if (p->sums_batch && p->sums_heads) {
        return (rapti_back_cell){.batch = turn / kv_heads, .kv_head = turn % kv_heads};
    }
    if (p->sums_batch) { return (rapti_back_cell){.batch = turn, .kv_head = chain}; }
    if (p->sums_heads) { return (rapti_back_cell){.batch = chain, .kv_head = turn}; }
    return (rapti_back_cell){.batch = chain / kv_heads, .kv_head = chain % kv_heads};
}

int64_t rapti_back_steps(const rapti_back_plan *plan) {
    return plan->tasks / rapti_max(plan->step_tasks, 1);
}

static rapti_back_task make_task(const rapti_back_problem *p, const rapti_back_plan *plan,
                                 int64_t step, int64_t index) {
    if (plan->by_head) {
        return (rapti_back_task){.chain = index, .cost = chain_cost(p, plan, index)};
    }
    rapti_back_task t = {.chain = index / plan->ranges, .range = index % plan->ranges};
    const int64_t segment = (t.range + step) % plan->steps;
    const int64_t b = rapti_back_chain_head(p, t.chain, step / plan->steps).batch;
    t.cost = segment < plan->segments ? cell_cost(p, plan, b, t.range, segment) : 0;
    return t;
}

/* Counting sort by cost class: linear, and the same order every time. */
int64_t rapti_back_list_tasks(const rapti_back_problem *p, const rapti_back_plan *plan,
                              int64_t step, rapti_back_task *tasks) {
    double largest = 0;
    int64_t next[COST_CLASSES + 1] = {0};
    for (int64_t i = 0; i < plan->step_tasks; i++) {
        const double cost = make_task(p, plan, step, i).cost;
        largest = cost > largest ? cost : largest;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < plan->step_tasks; i++) {
            const rapti_back_task t = make_task(p, plan, step, i);
            const double share_left = largest > 0 ? 1.0 - t.cost / largest : 0.0;
            const int class = (int)(share_left * (COST_CLASSES - 1));
            if (pass == 0) {
                next[class + 1]++;
            } else {
                tasks[next[class]++] = t;
            }
        }
        for (int c = 0; pass == 0 && c < COST_CLASSES; c++) { next[c + 1] += next[c]; }
    }
    return plan->step_tasks;
}

/* ---- The plan ---- */

static void cut_head(const rapt_context *context, const rapti_back_problem *p,
                     rapti_back_plan *plan) {
    const rapti_kernels *kernels = context->kernels;
    const rapti_problem *f = &p->forward;
    const int64_t lanes = kernels->lanes;
    plan->cut = (rapti_plan){.kernels = kernels};
    const int64_t vectors = rapti_min(kernels->group_vectors, RAPTI_TALL_GROUP);
    plan->cut.group_lanes = (int32_t)(vectors * lanes);
    plan->cut.value_vectors = rapti_divide_up(f->value_dim, lanes);
    plan->cut.rows = f->heads_per_kv * f->queries;
    plan->cut.vectors = rapti_divide_up(plan->cut.rows, lanes);
    plan->cut.groups = rapti_divide_up(plan->cut.vectors, vectors);
    plan->key_block = rapti_max(1, kernels->key_block * 3 / 4);
    plan->ranges = parts_of(f->keys, plan->key_block);
    plan->segments =
        rapti_min(parts_of(plan->cut.rows, plan->key_block), rapti_max(plan->cut.groups, 1));
    plan->steps = rapti_max(plan->ranges, plan->segments);
    plan->range_keys = rapti_min(f->keys, rapti_divide_up(f->keys, plan->ranges) + lanes);
    plan->set_groups = rapti_min(rapti_max(1, SET_BLOCKS * plan->key_block / plan->cut.group_lanes),
                                 rapti_max(plan->cut.groups, 1));
    plan->set_lanes = plan->set_groups * plan->cut.group_lanes;
    plan->tile_ld = rapti_odd_lines(plan->set_lanes);
    plan->dim_ld = rapti_round_up(f->dim, lanes);
    plan->value_ld = plan->cut.value_vectors * lanes;
    plan->sum_ld = (p->sums_heads ? 1 : f->heads_per_kv) * lanes;
}

static int64_t efficiency(int64_t tasks, int64_t threads) {
    return 100 * tasks / rapti_round_up(tasks, threads);
}

/* Whole heads keep their rows in cache; cells use more threads where heads are few. Cells of a step
 * may meet in a dbias that has one number per head, or one per query for several heads, whose rows
 * may lie in two segments: then they take turns. */
static void choose_tasks(const rapt_context *context, const rapti_back_problem *p,
                         rapti_back_plan *plan) {
    const int64_t side_by_side = rapti_min(plan->ranges, plan->segments);
    const int64_t most = rapti_threads_worth(context, plan->cost / THREAD_COST);
    const int64_t heads = efficiency(plan->chains, most);
    const int64_t cells = efficiency(plan->chains * side_by_side, most);
    const int meet = p->wants_dbias && p->sums_keys && (p->sums_queries || p->sums_heads);
    plan->by_head = meet || side_by_side == 1 || cells < heads + EFFICIENCY_GAIN;
    const int64_t parallel = plan->by_head ? plan->chains : plan->chains * side_by_side;
    plan->threads = (int32_t)rapti_min(most, parallel);
}

static rapt_status size_scratch(rapt_context *context, const rapti_back_problem *p,
                                rapti_back_plan *plan) {
    plan->step_tasks = plan->by_head ? plan->chains : plan->chains * plan->ranges;
    const int64_t steps = plan->by_head ? 1 : plan->chain_heads * plan->steps;
    size_t all;
    if (__builtin_mul_overflow(plan->step_tasks, steps, &plan->tasks) ||
        __builtin_mul_overflow((size_t)plan->step_tasks, sizeof(rapti_back_task),
                               &plan->task_bytes) ||
        plan->task_bytes > INT64_MAX / 2) {
        return rapti_fail(context, RAPT_ERR_SHAPE, "q: %lld x %lld x %lld rows are too many tasks",
                          (long long)p->forward.batch, (long long)p->forward.heads,
                          (long long)p->forward.queries);
    }
    plan->task_bytes = rapti_aligned(plan->task_bytes);
    plan->thread_bytes = rapti_back_thread_bytes(p, plan);
    if (__builtin_mul_overflow(plan->thread_bytes, (size_t)plan->threads, &all) ||
        __builtin_add_overflow(all, plan->task_bytes, &plan->scratch_bytes) ||
        plan->scratch_bytes > INT64_MAX) {
        return rapti_fail(context, RAPT_ERR_SHAPE,
                          "head sizes %lld and %lld need too much scratch memory",
                          (long long)p->forward.dim, (long long)p->forward.value_dim);
    }
    return RAPT_OK;
}

rapt_status rapti_back_plan_call(rapt_context *context, const rapti_back_problem *p,
                                 rapti_back_plan *plan) {
    *plan = (rapti_back_plan){.threads = 1};
    cut_head(context, p, plan);
    const int64_t batch = p->forward.batch, kv_heads = p->forward.kv_heads;
    const int wants = p->wants_dq || p->wants_dk || p->wants_dv || p->wants_dbias;
    if (batch == 0 || kv_heads == 0 || !wants) { return RAPT_OK; }
    plan->chain_heads = (p->sums_batch ? batch : 1) * (p->sums_heads ? kv_heads : 1);
    plan->chains = (p->sums_batch ? 1 : batch) * (p->sums_heads ? 1 : kv_heads);
    plan->cost = total_cost(p, plan);
    choose_tasks(context, p, plan);
    return size_scratch(context, p, plan);
}
