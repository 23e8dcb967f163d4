/* SPDX-License-Identifier: MIT
 * loss.c: -ln p = ln sum exp(logits) - logit of the target;  gradient by logits: p - [target]. */
#include "loss.h"

enum { MOST_WINDOWS = 256 };

static rapt_status log_sums(const network *n, int64_t rows) {
    const rapt_tensor logits = rapt_tensor_2d(RAPT_F32, n->logits, rows, n->model->config.symbols);
    const rapt_tensor sums = rapt_tensor_1d(RAPT_F32, n->log_sum, rows);
    return rapt_log_sum_exp(n->context, &logits, &sums);
}

/* -ln p for row `row` of the batch. */
static double loss_of_row(const network *n, const network_call *call, int64_t row) {
    const uint8_t target = call->window[row / call->tokens][row % call->tokens + 1];
    const float logit = n->logits[row * n->model->config.symbols + target];
    return (double)n->log_sum[row] - (double)logit;
}

rapt_status loss_of_batch(network *n, const network_call *call, double *loss) {
    const int64_t rows = call->count * call->tokens, symbols = n->model->config.symbols;
    const rapt_tensor logits = rapt_tensor_2d(RAPT_F32, n->logits, rows, symbols);
    const rapt_tensor dlogits = rapt_tensor_2d(RAPT_F32, n->dlogits, rows, symbols);
    const float share = 1 / (float)rows;
    rapt_status status = log_sums(n, rows);
    if (status == RAPT_OK) { status = rapt_softmax(n->context, &logits, &dlogits); }
    if (status != RAPT_OK) { return status; }
    *loss = 0;
    for (int64_t row = 0; row < rows; row++) {
        float *gradient = n->dlogits + row * symbols;
        *loss += loss_of_row(n, call, row) / (double)rows;
        gradient[call->window[row / call->tokens][row % call->tokens + 1]] -= 1;
        for (int64_t i = 0; i < symbols; i++) { gradient[i] *= share; }
    }
    return RAPT_OK;
}

rapt_status loss_held_out(network *n, const text *t, double *loss) {
    const int64_t tokens = n->tokens, half = (tokens + 1) / 2, last = t->count - 1 - tokens;
    const int64_t most = n->batch < MOST_WINDOWS ? n->batch : MOST_WINDOWS;
    int64_t begin = t->training, predicted = t->training; /* the last character that is done */
    double sum = 0;
    while (predicted < t->count - 1) {
        const uint8_t *window[MOST_WINDOWS];
        network_call call = {.window = window, .tokens = tokens};
        for (; call.count < most && begin < last + half; begin += half) {
            window[call.count++] = t->id + (begin < last ? begin : last);
        }
        rapt_status status = network_forward(n, &call);
        if (status == RAPT_OK) { status = log_sums(n, call.count * tokens); }
        if (status != RAPT_OK) { return status; }
        for (int64_t row = 0; row < call.count * tokens; row++) {
            const int64_t target = window[row / tokens] - t->id + row % tokens + 1;
            if (target <= predicted) { continue; }
            sum += loss_of_row(n, &call, row);
            predicted = target;
        }
    }
    *loss = sum / (double)(t->count - 1 - t->training);
    return RAPT_OK;
}
