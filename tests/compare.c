/* SPDX-License-Identifier: MIT
 * compare.c: see compare.h. */
#include "compare.h"

#include "layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool compare_value(double got, double want, double tol) {
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
    if (isinf(got) || isinf(want)) return got == want;
    return fabs(got - want) <= tol;
}

static void say_where(const char *name, const walk *w, char *text, size_t bytes) {
    int used = snprintf(text, bytes, "%s[", name);
    for (int32_t axis = 0; axis < w->t->rank && used < (int)bytes; axis++) {
        used += snprintf(text + used, bytes - (size_t)used, "%s%lld", axis ? "," : "",
                         (long long)w->index[axis]);
    }
    if (used < (int)bytes) snprintf(text + used, bytes - (size_t)used, "]");
}

/* Counts all misses, tells of the first. */
bool compare_array(const char *name, const rapt_tensor *t, const double *want, const double *tol,
                   double *worst, char *why, size_t why_bytes) {
    int64_t n = 0, misses = 0;
    char first[160] = "", where[80];
    for (walk w = walk_begin(t); !w.done; walk_next(&w), n++) {
        const double got = (double)*walk_f32(&w);
        const double error = fabs(got - want[n]);
        if (compare_value(got, want[n], tol[n])) {
            if (worst && error > *worst * tol[n]) *worst = error / tol[n];
            continue;
        }
        if (misses++ > 0) continue;
        say_where(name, &w, where, sizeof where);
        snprintf(first, sizeof first, "%s = %.9g, want %.9g +- %.3g", where, got, want[n], tol[n]);
    }
    if (misses == 0) return true;
    snprintf(why, why_bytes, "%s (%lld of %lld elements of %s are wrong)", first, (long long)misses,
             (long long)n, name);
    return false;
}

bool compare_oracle(const rapt_tensor *out, const rapt_tensor *lse, const oracle *o, double *worst,
                    char *why, size_t why_bytes) {
    return (!out || compare_array("out", out, o->out, o->out_tol, worst, why, why_bytes)) &&
           (!lse || compare_array("lse", lse, o->lse, o->lse_tol, worst, why, why_bytes));
}

bool compare_weights(const rapt_tensor *weights, const oracle *o, double *worst, char *why,
                     size_t why_bytes) {
    return compare_array("weights", weights, o->weights, o->weights_tol, worst, why, why_bytes);
}

bool compare_bits(const rapt_tensor *a, const rapt_tensor *b, char *why, size_t why_bytes) {
    char where[80];
    walk wb = walk_begin(b);
    for (walk wa = walk_begin(a); !wa.done; walk_next(&wa), walk_next(&wb)) {
        const float x = *walk_f32(&wa), y = *walk_f32(&wb);
        if (memcmp(&x, &y, sizeof x) == 0 || (isnan(x) && isnan(y))) continue;
        say_where("", &wa, where, sizeof where);
        snprintf(why, why_bytes, "not the same bits at %s: %.9g and %.9g", where, (double)x,
                 (double)y);
        return false;
    }
    return true;
}
