/* SPDX-License-Identifier: MIT
 * output.h: results as a table for people, CSV, or one JSON object per line. A result is a JSON
 * object with the same keys in the same order in every line, null where there is nothing to say. */
#ifndef BENCH_OUTPUT_H
#define BENCH_OUTPUT_H

#include <jansson.h>

typedef enum bench_format { BENCH_TABLE, BENCH_CSV, BENCH_JSON } bench_format;

typedef enum bench_style {
    BENCH_TEXT,
    BENCH_NUMBER,  /* four digits */
    BENCH_PERCENT, /* of a fraction */
    BENCH_YES_NO   /* of 1 and 0 */
} bench_style;

/* How a key is shown in a table; CSV and JSON show its name and value. */
typedef struct bench_column {
    const char *key;
    const char *heading;
    int width;
    bench_style style;
} bench_column;

/* Reads "table", "csv" or "json". Returns 1, or 0 for anything else. */
int bench_format_parse(const char *name, bench_format *format);

/* The heading. `columns` ends with a null key. */
void bench_output_begin(bench_format format, const bench_column *columns);

/* One line, visible at once. Takes the object over. */
void bench_output_line(bench_format format, const bench_column *columns, json_t *line);

/* A number, or null where it is NaN. */
json_t *bench_json_number(double x);

/* 1 or 0, or null where it is negative. */
json_t *bench_json_flag(int flag);

#endif
