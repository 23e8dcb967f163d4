/* SPDX-License-Identifier: MIT
 * attention_range.c: the keys that causal order, window and length leave to a query. The one rule
 * that plan and tasks rest on: both ends of the range grow with the query index. */
#include "attention.h"

int64_t rapti_key_length(const rapt_tensor *t, int64_t b) {
    const int64_t at = t->size[0] == 1 ? 0 : b * t->stride[0];
    return t->dtype == RAPT_I32 ? ((const int32_t *)t->data)[at] : ((const int64_t *)t->data)[at];
}

/* Sizes are below 2^62, so |position| is, too; window sides are compared with differences of such
 * numbers before anything is added to them. Nothing here overflows. */
rapti_range rapti_attention_range(const rapti_problem *p, int64_t b, int64_t i) {
    const int64_t position = i + p->position_shift;
    rapti_range r = {0, p->key_lengths.data ? rapti_key_length(&p->key_lengths, b) : p->keys};
    if (p->causal && position + 1 < r.end) { r.end = position + 1; }
    if (p->window.on) {
        if (p->window.left <= position) { r.begin = position + 1 - p->window.left; }
        if (p->window.right < r.end - 1 - position) { r.end = position + p->window.right + 1; }
    }
    if (r.end < 0) { r.end = 0; }
    return r;
}

int64_t rapti_attention_visible(const rapti_problem *p) {
    int64_t pairs = 0;
    const int same = !p->key_lengths.data || p->key_lengths.size[0] == 1;
    const int64_t items = same ? p->batch > 0 : p->batch;
    for (int64_t b = 0; b < items; b++) {
        for (int64_t i = 0; i < p->queries; i++) {
            const rapti_range r = rapti_attention_range(p, b, i);
            if (r.end > r.begin && __builtin_add_overflow(pairs, r.end - r.begin, &pairs)) {
                return INT64_MAX;
            }
        }
    }
    const int64_t repeats = p->heads * (items ? p->batch / items : 0);
    return __builtin_mul_overflow(pairs, repeats, &pairs) ? INT64_MAX : pairs;
}
