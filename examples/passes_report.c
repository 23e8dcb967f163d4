/* SPDX-License-Identifier: MIT
 * passes_report.c: see passes_report.h. */
#include "passes_report.h"

#include "passes_book.h"

#include <string.h>

enum { DIGITS = 32 };

/* As the book prints it. Minus zero is zero. */
static const char *digits(char text[DIGITS], float value) {
    snprintf(text, DIGITS, "%.4f", (double)value);
    return strcmp(text, "-0.0000") == 0 ? text + 1 : text;
}

void report_rows(report *r, const char *title, int rows, int width, const float *ours,
                 const float *book) {
    char text[DIGITS], book_text[DIGITS];
    printf("%s\n", title);
    for (int row = 0; row < rows; row++) {
        const float *a = ours + row * width, *b = book + row % TOKENS * width;
        int differ = 0;
        printf("  %-7s", words[rows == 1 ? JOURNEY : row % TOKENS]);
        for (int i = 0; i < width; i++) {
            const char *printed = digits(text, a[i]);
            differ += strcmp(printed, digits(book_text, b[i])) != 0;
            printf(" %7s", printed);
        }
        printf("  |");
        for (int i = 0; i < width; i++) { printf(" %7s", digits(book_text, b[i])); }
        printf("%s\n", differ ? "  DIFFERS" : "");
        r->numbers += width;
        r->agree += width - differ;
    }
}

int report_open(report *r, const char *path) {
    r->json = fopen(path, "w");
    if (!r->json) { return 0; }
    fprintf(r->json, "{\"tokens\": [");
    for (int i = 0; i < TOKENS; i++) { fprintf(r->json, "%s\"%s\"", i ? ", " : "", words[i]); }
    fprintf(r->json, "],\n \"passes\": [");
    return 1;
}

void report_weights(report *r, const char *section, const char *title, const float *weights) {
    if (!r->json) { return; }
    fprintf(r->json, "%s\n  {\"section\": \"%s\", \"title\": \"%s\", \"weights\": [",
            r->maps++ ? "," : "", section, title);
    for (int row = 0; row < TOKENS; row++) {
        fprintf(r->json, "%s[", row ? ", " : "");
        for (int key = 0; key < TOKENS; key++) {
            fprintf(r->json, "%s%.9g", key ? ", " : "", (double)weights[row * TOKENS + key]);
        }
        fprintf(r->json, "]");
    }
    fprintf(r->json, "]}");
}

int report_close(report *r) {
    int written = 1;
    if (r->json) {
        fprintf(r->json, "\n ]}\n");
        written = !ferror(r->json);
        written = fclose(r->json) == 0 && written;
        r->json = NULL;
    }
    printf("%d of %d numbers agree with the book to the last printed digit\n", r->agree,
           r->numbers);
    return written && r->agree == r->numbers;
}
