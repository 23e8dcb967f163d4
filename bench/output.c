/* SPDX-License-Identifier: MIT
 * output.c: writes results to standard output (output.h). */
#include "output.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int bench_format_parse(const char *name, bench_format *format) {
    static const char *const names[] = {"table", "csv", "json"};
    for (int i = BENCH_TABLE; i <= BENCH_JSON; i++) {
        if (strcmp(name, names[i]) == 0) {
            *format = (bench_format)i;
            return 1;
        }
    }
    return 0;
}

void bench_output_begin(bench_format format, const bench_column *columns) {
    for (const bench_column *c = columns; c->key && format != BENCH_JSON; c++) {
        if (format == BENCH_CSV) {
            printf("%s%s", c == columns ? "" : ",", c->key);
        } else {
            printf("%*s%s", c->style == BENCH_TEXT ? -c->width : c->width, c->heading,
                   c[1].key ? "  " : "");
        }
    }
    if (format != BENCH_JSON) { putchar('\n'); }
}

static void write_cell(const bench_column *c, const json_t *value) {
    char text[32] = "-";
    if (c->style == BENCH_TEXT) {
        printf("%-*s", c->width, json_is_string(value) ? json_string_value(value) : text);
        return;
    }
    if (!json_is_null(value)) {
        const double x = json_number_value(value);
        switch (c->style) {
        case BENCH_YES_NO: snprintf(text, sizeof text, "%s", x != 0 ? "yes" : "NO"); break;
        case BENCH_PERCENT: snprintf(text, sizeof text, "%.1f %%", 100 * x); break;
        default: snprintf(text, sizeof text, "%.4g", x);
        }
    }
    printf("%*s", c->width, text);
}

static void write_csv_value(const json_t *value) {
    if (json_is_string(value)) {
        fputs(json_string_value(value), stdout);
    } else if (!json_is_null(value)) {
        json_dumpf(value, stdout, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    }
}

void bench_output_line(bench_format format, const bench_column *columns, json_t *line) {
    if (format == BENCH_JSON) { json_dumpf(line, stdout, JSON_REAL_PRECISION(6)); }
    for (const bench_column *c = columns; c->key && format != BENCH_JSON; c++) {
        const json_t *value = json_object_get(line, c->key);
        if (format == BENCH_CSV) {
            fputs(c == columns ? "" : ",", stdout);
            write_csv_value(value);
        } else {
            write_cell(c, value);
            fputs(c[1].key ? "  " : "", stdout);
        }
    }
    putchar('\n');
    fflush(stdout);
    json_decref(line);
}

json_t *bench_json_number(double x) { return isnan(x) ? json_null() : json_real(x); }

json_t *bench_json_flag(int flag) { return flag < 0 ? json_null() : json_integer(flag); }
