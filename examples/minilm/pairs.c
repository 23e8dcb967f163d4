/* SPDX-License-Identifier: MIT
 * pairs.c: cosines of a block of vectors with all, as one product of matrices, block by block. */
#include "pairs.h"

#include <stdlib.h>

enum { BLOCK = 64 };

typedef struct pair_list {
    pair *best;
    int64_t count, most;
} pair_list;

/* Puts p in its place, if it is among the best. */
static void insert(pair_list *list, pair p) {
    int64_t place = list->count < list->most ? list->count : list->most - 1;
    if (list->count == list->most && (place < 0 || p.cosine <= list->best[place].cosine)) {
        return;
    }
    for (; place > 0 && list->best[place - 1].cosine < p.cosine; place--) {
        list->best[place] = list->best[place - 1];
    }
    list->best[place] = p;
    list->count += list->count < list->most;
}

rapt_status pairs_find(rapt_context *context, const float *vectors, int64_t count, int64_t width,
                       pair *best, int64_t *found) {
    pair_list list = {best, 0, *found};
    const rapt_tensor all = rapt_tensor_2d(RAPT_F32, vectors, count, width);
    const rapt_tensor turned = rapt_tensor_transpose(all);
    const rapt_matmul what = {0};
    float *cosines = malloc((size_t)(BLOCK * count + 1) * sizeof *cosines);
    rapt_status status = cosines ? RAPT_OK : RAPT_ERR_MEMORY;
    for (int64_t begin = 0; begin < count && status == RAPT_OK; begin += BLOCK) {
        const int64_t rows = BLOCK < count - begin ? BLOCK : count - begin;
        const rapt_tensor some = rapt_tensor_slice(all, 0, begin, rows);
        const rapt_tensor out = rapt_tensor_2d(RAPT_F32, cosines, rows, count);
        const rapt_matmul_operands operands = {.a = &some, .b = &turned, .c = &out};
        status = rapt_matmul_run(context, &what, &operands);
        for (int64_t i = 0; i < rows && status == RAPT_OK; i++) {
            for (int64_t j = begin + i + 1; j < count; j++) {
                insert(&list, (pair){begin + i, j, cosines[i * count + j]});
            }
        }
    }
    free(cosines);
    *found = list.count;
    return status;
}
