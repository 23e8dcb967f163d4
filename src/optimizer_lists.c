/* SPDX-License-Identifier: MIT
 * optimizer_lists.c: checks lists of parameters and gradients, and goes over their elements
 * (optimizer.h). Pieces depend on sizes only, so results do not depend on threads. */
#include "optimizer.h"

#include "numbers.h"
#include "operand.h"
#include "parallel.h"
#include "walk.h"

#include <stdio.h>

/* ---- Checks ---- */

static rapt_status check_tensor(rapt_context *context, const char *list, int64_t index,
                                const rapt_tensor *t, int writes) {
    char name[64];
    snprintf(name, sizeof name, "%s[%lld]", list, (long long)index);
    rapt_status status = rapti_operand_check(context, name, t, RAPT_F32, 0, RAPT_MAX_RANK);
    if (status == RAPT_OK && writes) { status = rapti_operand_written(context, name, t); }
    return status;
}

static rapt_status check_pair(rapt_context *context, int64_t index, const rapt_tensor *parameter,
                              const rapt_tensor *gradient) {
    char names[2][64];
    snprintf(names[0], sizeof names[0], "parameters[%lld]", (long long)index);
    snprintf(names[1], sizeof names[1], "gradients[%lld]", (long long)index);
    const rapt_status status =
        rapti_operand_sizes(context, names[1], gradient, parameter->rank, parameter->size);
    if (status != RAPT_OK) { return status; }
    return rapti_operand_apart(context, names[0], parameter, names[1], gradient);
}

rapt_status rapti_lists_check(rapt_context *context, const rapt_parameter *parameters,
                              const rapt_parameter *gradients, int64_t count, int writes,
                              rapti_lists *lists) {
    *lists = (rapti_lists){.parameters = parameters, .gradients = gradients, .count = count};
    if (count < 0) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "count: %lld, expected >= 0",
                          (long long)count);
    }
    if (count > 0 && !gradients) {
        return rapti_fail(context, RAPT_ERR_ARGUMENT, "gradients: null pointer");
    }
    for (int64_t n = 0; n < count; n++) {
        const rapt_tensor *g = &gradients[n].tensor;
        rapt_status status = check_tensor(context, "gradients", n, g, writes);
        if (status == RAPT_OK && parameters) {
            status = check_tensor(context, "parameters", n, &parameters[n].tensor, 1);
            if (status == RAPT_OK) { status = check_pair(context, n, &parameters[n].tensor, g); }
        }
        if (status != RAPT_OK) { return status; }
        const int64_t elements = rapti_walk_count(g, g->rank);
        if (__builtin_add_overflow(lists->elements, elements, &lists->elements)) {
            return rapti_fail(context, RAPT_ERR_SHAPE, "gradients: more than 2^63 elements");
        }
        lists->pieces += rapti_divide_up(elements, RAPTI_PIECE);
    }
    return RAPT_OK;
}

rapt_status rapti_lists_cut(rapt_context *context, rapti_lists *lists) {
    void *memory = NULL;
    const size_t pieces = (size_t)lists->pieces;
    const rapt_status status = rapti_context_scratch(
        context, NULL, 0, pieces * (sizeof(rapti_piece) + sizeof(double)), &memory);
    if (status != RAPT_OK) { return status; }
    rapti_piece *piece = memory;
    lists->piece = piece;
    lists->partial = (double *)(piece + pieces);
    int64_t before = 0;
    for (int64_t n = 0; n < lists->count; n++) {
        const rapt_tensor *g = &lists->gradients[n].tensor;
        const int64_t elements = rapti_walk_count(g, g->rank);
        for (int64_t first = 0; first < elements; first += RAPTI_PIECE) {
            const int64_t count = rapti_min(RAPTI_PIECE, elements - first);
            *piece++ = (rapti_piece){n, first, count, before};
            before += count;
        }
    }
    return RAPT_OK;
}

/* ---- Going over the elements ---- */

/* Where elements of one tensor come from and go to. */
typedef struct stream {
    const rapt_tensor *t; /* null = none */
    rapt_tensor normal;
    rapti_walk walk;
    int contiguous;
    float copy[RAPTI_RUN];
} stream;

static int is_contiguous(const rapt_tensor *t) {
    int64_t stride = 1;
    for (int32_t axis = t->rank - 1; axis >= 0; axis--) {
        if (t->size[axis] != 1 && t->stride[axis] != stride) { return 0; }
        stride *= t->size[axis];
    }
    return 1;
}

static void stream_open(stream *s, const rapt_tensor *t, int64_t first) {
    s->t = t;
    if (!t) { return; }
    s->normal = rapti_tensor_normal(t);
    s->contiguous = is_contiguous(t);
    if (!s->contiguous) { s->walk = rapti_walk_start(&s->normal, t->rank, first); }
}

/* The elements of a run: in place, or copied. */
static float *stream_take(stream *s, int64_t first, int64_t count) {
    if (!s->t) { return NULL; }
    float *data = s->t->data;
    if (s->contiguous) { return data + first; }
    rapti_walk walk = s->walk;
    for (int64_t n = 0; n < count; n++, rapti_walk_next(&walk)) { s->copy[n] = data[walk.offset]; }
    return s->copy;
}

/* Goes on to the next run; writes a copied one back. */
static void stream_return(stream *s, int64_t count, int writes) {
    if (!s->t || s->contiguous) { return; }
    float *data = s->t->data;
    for (int64_t n = 0; n < count; n++, rapti_walk_next(&s->walk)) {
        if (writes) { data[s->walk.offset] = s->copy[n]; }
    }
}

typedef struct lists_call {
    const rapti_lists *lists;
    const rapti_update *update;
} lists_call;

static void run_piece(void *argument, int64_t index, int32_t thread) {
    const lists_call *call = argument;
    const rapti_lists *lists = call->lists;
    const rapti_update *update = call->update;
    const rapti_piece *piece = &lists->piece[index];
    stream w, g;
    (void)thread;
    stream_open(&w, lists->parameters ? &lists->parameters[piece->tensor].tensor : NULL,
                piece->first);
    stream_open(&g, &lists->gradients[piece->tensor].tensor, piece->first);
    for (int64_t done = 0; done < piece->count; done += RAPTI_RUN) {
        const int64_t count = rapti_min(RAPTI_RUN, piece->count - done);
        update->run(update->argument, lists, index, stream_take(&w, piece->first + done, count),
                    stream_take(&g, piece->first + done, count), piece->before + done, count);
        stream_return(&w, count, update->writes_parameters);
        stream_return(&g, count, update->writes_gradients);
    }
}

void rapti_lists_run(rapt_context *context, const rapti_lists *lists, const rapti_update *update) {
    lists_call call = {lists, update};
    const int32_t threads =
        lists->pieces < context->threads ? (int32_t)lists->pieces : context->threads;
    rapti_parallel_run(threads > 1 ? threads : 1, lists->pieces, run_piece, &call);
}
