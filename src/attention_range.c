/* SPDX-License-Identifier: MIT
 * attention_range.c: the keys that causal order, window and length leave to a query. The one rule
 * that plan and tasks rest on: both ends of the range grow with the query index. */
#include "attention.h"

int64_t rapti_key_length(const rapt_tensor *t, int64_t b) {
    const int64_t at = t->size[0] == 1 ? 0 : b * t->stride[0];
    return t->dtype == RAPT_I32 ? ((const int32_t *)t->data)[at] : ((const int64_t *)t->data)[at];
}

/* Sizes are below 2^62, so |position| is, too: a side that long leaves everything in, and nothing
 * here or in rapti_limited_range overflows. */
rapti_limits rapti_attention_limits(const rapti_problem *p, int64_t b) {
    const int64_t all = INT64_C(1) << 62, next = p->position_shift + 1;
    const rapt_window *w = &p->window;
    rapti_limits l = {-all, all, p->keys};
    if (p->key_lengths.data) { l.length = rapti_key_length(&p->key_lengths, b); }
    if (w->on && w->left < all) { l.begin = next - w->left; }
    if (w->on && w->right < all) { l.end = next + w->right; }
    if (p->causal && next < l.end) { l.end = next; }
    return l;
}

int64_t rapti_attention_visible(const rapti_problem *p) {
    int64_t pairs = 0;
    const int same = !p->key_lengths.data || p->key_lengths.size[0] == 1;
    const int64_t items = same ? p->batch > 0 : p->batch;
    for (int64_t b = 0; b < items; b++) {
        const rapti_limits limits = rapti_attention_limits(p, b);
        for (int64_t i = 0; i < p->queries; i++) {
            const rapti_range r = rapti_limited_range(limits, i);
            if (r.end > r.begin && __builtin_add_overflow(pairs, r.end - r.begin, &pairs)) {
                return INT64_MAX;
            }
        }
    }
    const int64_t repeats = p->heads * (items ? p->batch / items : 0);
    return __builtin_mul_overflow(pairs, repeats, &pairs) ? INT64_MAX : pairs;
}
