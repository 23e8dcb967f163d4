/* SPDX-License-Identifier: MIT
 * sample.c: the whole window is computed again for each character. */
#include "sample.h"

#include "network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A symbol drawn from softmax(logits of the last row). */
static rapt_status draw(network *n, int64_t row, rapt_generator *generator, uint8_t *id) {
    const int64_t symbols = n->model->config.symbols;
    const rapt_tensor logits = rapt_tensor_1d(RAPT_F32, n->logits + row * symbols, symbols);
    const rapt_tensor p = rapt_tensor_1d(RAPT_F32, n->dlogits, symbols);
    const rapt_status status = rapt_softmax(n->context, &logits, &p);
    double left = (double)rapt_generator_next(generator) / 4294967296.0;
    int64_t choice = 0;
    while (choice < symbols - 1 && left >= (double)n->dlogits[choice]) {
        left -= (double)n->dlogits[choice++];
    }
    *id = (uint8_t)choice;
    return status;
}

int sample_print(rapt_context *context, const model *m, const text *t, rapt_generator *generator,
                 int64_t count) {
    const int64_t tokens = m->config.context;
    uint8_t *id = malloc((size_t)(tokens + count));
    network n = {0};
    rapt_status status = id ? RAPT_OK : RAPT_ERR_MEMORY;
    if (status == RAPT_OK) { status = network_create(&n, context, m, NULL, 1, tokens); }
    if (status == RAPT_OK) { memcpy(id, t->id + t->training - tokens, (size_t)tokens); }
    for (int64_t i = 0; i < count && status == RAPT_OK; i++) {
        const uint8_t *const window = id + i;
        const network_call call = {.window = &window, .count = 1, .tokens = tokens};
        status = network_forward(&n, &call);
        if (status == RAPT_OK) { status = draw(&n, tokens - 1, generator, &id[tokens + i]); }
        if (status == RAPT_OK) { putchar(t->symbol[id[tokens + i]]); }
    }
    putchar('\n');
    if (status != RAPT_OK) { fprintf(stderr, "cannot sample: %s\n", rapt_status_name(status)); }
    network_free(&n);
    free(id);
    return status == RAPT_OK;
}
