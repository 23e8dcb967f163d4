/* SPDX-License-Identifier: MIT
 * problem_text.c: a problem in words, for the messages of failing tests. */
#include "problem.h"

#include <stdarg.h>
#include <stdio.h>

static char text[4096];
static size_t used;

static void __attribute__((format(printf, 1, 2))) add(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
    if (n > 0) used += (size_t)n;
    if (used >= sizeof text) used = sizeof text - 1;
}

static void add_tensor(const char *name, const operand *o) {
    if (!o->present) return;
    static const char *const dtypes[] = {"?", "f32", "bool", "i32", "i64"};
    const unsigned dtype = o->t.dtype;
    add("  %-7s %s %s, size", name, dtypes[dtype < 5 ? dtype : 0], layout_name(o->form));
    for (int32_t axis = 0; axis < o->t.rank; axis++) add(" %lld", (long long)o->t.size[axis]);
    add(", stride");
    for (int32_t axis = 0; axis < o->t.rank; axis++) add(" %lld", (long long)o->t.stride[axis]);
    add("\n");
}

static void add_lengths(const problem *p) {
    if (!p->op[OP_LENGTHS].present) return;
    const rapt_tensor *t = &p->op[OP_LENGTHS].t;
    add("  lengths");
    for (walk w = walk_begin(t); !w.done; walk_next(&w)) {
        const void *at = walk_byte(&w);
        add(" %lld", t->dtype == RAPT_I64 ? (long long)*(const int64_t *)at
                                          : (long long)*(const int32_t *)at);
    }
    add("\n");
}

static void add_dropout(const rapt_attention *what) {
    const rapt_dropout *d = &what->dropout;
    if (d->training || d->p != 0.0) {
        add("  dropout %s, p %.17g, seed %llu, offset %u\n", d->training ? "training" : "off", d->p,
            (unsigned long long)d->seed, (unsigned)d->offset);
    }
    if (what->weights_before_dropout) add("  weights before dropout\n");
}

const char *problem_text(const problem *p) {
    static const char *const causal[] = {"no", "top left", "bottom right"};
    static const char *const calls[] = {"forward", "pass over scores", "scored"};
    static const char *const scores[] = {"", ", scaled dot", ", dot", ", additive"};
    const shape s = p->s;
    used = 0;
    if (p->note[0]) add("  case    %s\n", p->note);
    add("  call    %s%s\n", calls[p->call], scores[p->call == CALL_SCORED ? (int)p->score + 1 : 0]);
    add("  shape   B%lld Hq%lld Hkv%lld Tq%lld Tk%lld D%lld Dv%lld\n", (long long)s.b,
        (long long)s.hq, (long long)s.hkv, (long long)s.tq, (long long)s.tk, (long long)s.d,
        (long long)s.dv);
    add("  causal  %s\n", causal[p->what.causal]);
    if (p->what.scale.on) add("  scale   %.9g\n", (double)p->what.scale.value);
    if (p->what.window.on) {
        add("  window  left %lld, right %lld\n", (long long)p->what.window.left,
            (long long)p->what.window.right);
    }
    add_dropout(&p->what);
    add("  memory  forbidden page %s the data%s%s; threads %d\n",
        p->side == GUARD_AFTER ? "after" : "before", p->in_place ? "; out in q's place" : "",
        p->caller_scratch ? "; caller's scratch" : "", (int)p->threads);
    add_tensor("q", &p->op[OP_Q]);
    add_tensor("k", &p->op[OP_K]);
    add_tensor("v", &p->op[OP_V]);
    add_tensor("mask", &p->op[OP_MASK]);
    add_tensor("bias", &p->op[OP_BIAS]);
    add_tensor("keep", &p->op[OP_KEEP]);
    add_tensor("w_query", &p->op[OP_W_QUERY]);
    add_tensor("w_key", &p->op[OP_W_KEY]);
    add_tensor("w_v", &p->op[OP_W_V]);
    add_lengths(p);
    if (!p->in_place) add_tensor("out", &p->op[OP_OUT]);
    add_tensor("lse", &p->op[OP_LSE]);
    add_tensor(p->call == CALL_PASS ? "scores" : "weights", &p->op[OP_WEIGHTS]);
    return text;
}
