/* SPDX-License-Identifier: MIT
 * attention_plan.c: cuts a call into groups and tasks, knows their costs, and sizes scratch. The
 * cut never changes a result: a row's arithmetic depends on the row and on key blocks at fixed
 * places, not on the rows beside it. */
#include "attention.h"

enum {
    TASK_GROUPS = 4,      /* groups that share a pass over K and V while a block is in cache */
    TASKS_PER_THREAD = 8, /* enough for an even finish */
    WEIGHT_COST = 16,     /* writing out a weight, in multiply-adds */
    COST_CLASSES = 64     /* sorting tasks longest first, to within this many classes */
};
static const int64_t MOST_KEYS = INT64_C(1) << 40; /* whose scores a tile can hold */
static const double NEAR_BYTES = 2e6;              /* about the second cache level of a core */
static const double THREAD_COST = 400e3;           /* multiply-adds worth a thread of its own */
static const double TASK_OVERHEAD = 2e3; /* opening and closing a group, in multiply-adds */

/* If the last vector holds few rows, the last group is a full one that ends in it, so that there
 * are wide vectors beside the cheap one (product_few): the vectors before that group. Else all. */
static int64_t vectors_before_few(const rapti_plan *plan, int64_t width) {
    const int64_t last_rows = plan->rows - (plan->vectors - 1) * plan->kernels->lanes;
    const int is_few = last_rows <= plan->kernels->few_lanes;
    return is_few && width > 2 && plan->vectors > width + 1 ? plan->vectors - width : plan->vectors;
}

/* Full groups; a last one of a single vector would waste registers: the last two share evenly. */
int64_t rapti_attention_group_start(const rapti_plan *plan, int64_t g) {
    const int64_t width = plan->group_lanes / plan->kernels->lanes;
    const int64_t shared = vectors_before_few(plan, width);
    const int64_t start = g * width, groups = rapti_divide_up(shared, width);
    if (g >= groups) { return g == groups ? shared : plan->vectors; }
    if (g == groups - 1 && g > 0 && width > 2 && shared - start == 1) {
        return start - width + (width + 1) / 2;
    }
    return start;
}

/* Lanes times the keys that the group's tiles span. */
static double group_cost(const rapti_problem *p, const rapti_plan *plan, int64_t b, int64_t g) {
    const int64_t lanes = plan->kernels->lanes;
    const int64_t first = rapti_attention_group_start(plan, g) * lanes;
    const int64_t computed = rapti_attention_group_start(plan, g + 1) * lanes - first;
    const int64_t past = rapti_min(first + computed, plan->rows);
    const rapti_range top = rapti_attention_range(p, b, first / p->heads_per_kv);
    const rapti_range bottom = rapti_attention_range(p, b, (past - 1) / p->heads_per_kv);
    const int64_t keys = bottom.end > top.begin ? bottom.end - top.begin : 0;
    /* rows of a causal or windowed group see less than its whole span; tiles are cut to fit */
    const int64_t slack = (bottom.begin - top.begin + bottom.end - top.end) / 2;
    const int64_t extra = p->materialised ? WEIGHT_COST : 0;
    const double spanned = (double)(keys > slack ? keys - slack : keys);
    return (double)computed * (spanned * (double)(p->dim + p->value_dim + extra)) + TASK_OVERHEAD;
}

static double task_cost(const rapti_problem *p, const rapti_plan *plan, int64_t b, int64_t first) {
    double cost = 0;
    for (int64_t g = first; g < first + plan->task_groups && g < plan->groups; g++) {
        cost += group_cost(p, plan, b, g);
    }
    return cost;
}

/* Costs of tasks depend on the batch item only through its key length. */
static int64_t distinct_items(const rapti_problem *p) {
    return p->key_lengths.data && p->key_lengths.size[0] > 1 ? p->batch : 1;
}

static double total_cost(const rapti_problem *p, const rapti_plan *plan) {
    double cost = 0;
    const int64_t items = distinct_items(p);
    for (int64_t b = 0; b < items; b++) {
        for (int64_t g = 0; g < plan->groups; g++) { cost += group_cost(p, plan, b, g); }
    }
    return cost * (double)p->kv_heads * (double)(p->batch / items);
}

static int32_t choose_threads(const rapt_context *context, const rapti_plan *plan) {
    const double threads = plan->cost / THREAD_COST, tasks = (double)plan->tasks;
    return rapti_threads_worth(context, threads < tasks ? threads : tasks);
}

/* The operands of a small call were probably just written. */
static int is_far(const rapti_problem *p) {
    const double rows =
        (double)p->heads * (double)p->queries + (double)p->kv_heads * (double)p->keys;
    return 4.0 * (double)p->batch * rows * (double)(p->dim + p->value_dim) > NEAR_BYTES;
}

/* As many groups share a task as leaves enough tasks for the threads. */
static int32_t choose_task_groups(const rapt_context *context, const rapti_problem *p,
                                  const rapti_plan *plan) {
    const int64_t wanted = (int64_t)context->threads * TASKS_PER_THREAD;
    int32_t groups = TASK_GROUPS;
    if (context->threads == 1) { return groups; }
    while (groups > 1 && p->batch * p->kv_heads * rapti_divide_up(plan->groups, groups) < wanted) {
        groups--;
    }
    return groups;
}

rapt_status rapti_attention_plan(rapt_context *context, const rapti_problem *p, rapti_plan *plan) {
    const rapti_kernels *kernels = context->kernels;
    const int64_t lanes = kernels->lanes;
    *plan = (rapti_plan){.kernels = kernels, .threads = 1};
    const int64_t width = p->materialised ? rapti_min(kernels->group_vectors, RAPTI_TALL_GROUP)
                                          : kernels->group_vectors;
    plan->group_lanes = (int32_t)(width * lanes);
    plan->value_vectors = rapti_divide_up(p->value_dim, lanes);
    plan->tile_keys = p->materialised ? (p->keys / kernels->key_block + 1) * kernels->key_block
                                      : kernels->key_block;
    if (p->batch == 0 || p->heads == 0 || p->queries == 0) { return RAPT_OK; }
    plan->rows = p->heads_per_kv * p->queries;
    plan->vectors = rapti_divide_up(plan->rows, lanes);
    plan->groups = rapti_divide_up(plan->vectors, width);
    plan->task_groups = choose_task_groups(context, p, plan);
    plan->head_tasks = rapti_divide_up(plan->groups, plan->task_groups);
    plan->far = is_far(p);
    plan->cost = total_cost(p, plan);
    size_t all;
    if (p->materialised && p->keys > MOST_KEYS) {
        return rapti_fail(context, RAPT_ERR_SHAPE, "weights: %lld keys, at most 2^40",
                          (long long)p->keys);
    }
    if (__builtin_mul_overflow(p->batch * p->kv_heads, plan->head_tasks, &plan->tasks) ||
        __builtin_mul_overflow((size_t)plan->tasks, sizeof(rapti_task), &plan->task_bytes) ||
        plan->task_bytes > INT64_MAX / 2) {
        return rapti_fail(context, RAPT_ERR_SHAPE, "q: %lld x %lld x %lld rows are too many tasks",
                          (long long)p->batch, (long long)p->heads, (long long)p->queries);
    }
    plan->task_bytes = rapti_aligned(plan->task_bytes);
    plan->threads = choose_threads(context, plan);
    plan->thread_bytes = rapti_attention_thread_bytes(p, plan);
    if (__builtin_mul_overflow(plan->thread_bytes, (size_t)plan->threads, &all) ||
        __builtin_add_overflow(all, plan->task_bytes, &plan->scratch_bytes) ||
        plan->scratch_bytes > INT64_MAX) {
        return rapti_fail(context, RAPT_ERR_SHAPE,
                          "head sizes %lld and %lld need too much scratch memory",
                          (long long)p->dim, (long long)p->value_dim);
    }
    return RAPT_OK;
}

/* The key/value heads of all batch items, counted through, whose tasks are sorted together. */
typedef struct task_sort {
    const rapti_problem *p;
    const rapti_plan *plan;
    int64_t first_head, past_head;
    double largest;
    int64_t next[COST_CLASSES]; /* tasks of a class, then where the next of them goes */
    rapti_task *tasks;
} task_sort;

static int cost_class(const task_sort *s, double cost) {
    return s->largest > 0 ? (int)((1.0 - cost / s->largest) * (COST_CLASSES - 1)) : 0;
}

typedef void visit_fn(task_sort *s, int64_t head, int64_t first_group, double cost);

static void find_largest(task_sort *s, int64_t head, int64_t first_group, double cost) {
    (void)head, (void)first_group;
    s->largest = cost > s->largest ? cost : s->largest;
}

static void count_class(task_sort *s, int64_t head, int64_t first_group, double cost) {
    (void)head, (void)first_group;
    s->next[cost_class(s, cost)]++;
}

static void place(task_sort *s, int64_t head, int64_t first_group, double cost) {
    const int64_t kv_heads = s->p->kv_heads;
    s->tasks[s->next[cost_class(s, cost)]++] =
        (rapti_task){head / kv_heads, head % kv_heads, first_group, cost};
}

static void visit_tasks(task_sort *s, visit_fn *visit) {
    int64_t costed = -1; /* batch item that `cost` was computed for */
    for (int64_t t = 0; t < s->plan->head_tasks; t++) {
        double cost = 0;
        const int64_t first_group = t * s->plan->task_groups;
        for (int64_t head = s->first_head; head < s->past_head; head++) {
            const int64_t b = distinct_items(s->p) > 1 ? head / s->p->kv_heads : 0;
            if (head == s->first_head || b != costed) {
                cost = task_cost(s->p, s->plan, b, first_group);
                costed = b;
            }
            visit(s, head, first_group, cost);
        }
    }
}

/* Counting sort by cost class: linear, and the same order every time. */
static void sort_tasks(task_sort *s) {
    visit_tasks(s, find_largest);
    visit_tasks(s, count_class);
    int64_t start = 0;
    for (int c = 0; c < COST_CLASSES; c++) {
        const int64_t count = s->next[c];
        s->next[c] = start;
        start += count;
    }
    visit_tasks(s, place);
}

/* Heads whose tasks are sorted together. */
static int64_t wave_heads(const rapti_problem *p, const rapti_plan *plan) {
    const int64_t heads = p->batch * p->kv_heads;
    return distinct_items(p) > 1 || plan->head_tasks == 1 ? heads : (int64_t)plan->threads;
}

/* Longest first among as many heads as there are threads, then the next as many: a head's keys and
 * values stay in cache over its tasks, and the short tasks of the last heads even out the finish.
 * Where heads differ in cost or have one task only, longest first among all. */
void rapti_attention_list_tasks(const rapti_problem *p, const rapti_plan *plan, rapti_task *tasks) {
    const int64_t heads = p->batch * p->kv_heads, wave = wave_heads(p, plan);
    for (int64_t first = 0; first < heads; first += wave) {
        task_sort sort = {.p = p,
                          .plan = plan,
                          .first_head = first,
                          .past_head = rapti_min(first + wave, heads),
                          .tasks = tasks + first * plan->head_tasks};
        sort_tasks(&sort);
    }
}

/* Heads of a wave that cost the same take turns: the first of each come first of all. */
int rapti_attention_keys_far(const rapti_problem *p, const rapti_plan *plan, int64_t task) {
    const int64_t heads = p->batch * p->kv_heads, wave = wave_heads(p, plan);
    const int64_t first = task / (wave * plan->head_tasks) * wave;
    const int64_t size = rapti_min(wave, heads - first);
    return distinct_items(p) > 1 || task - first * plan->head_tasks < size;
}
