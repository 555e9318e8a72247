/* SPDX-License-Identifier: MIT */
/* The text format of Prometheus: see metrics.h. Any thread; errors of `out` are the caller's to look for. */
#include "util/metrics.h"

#include "util/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define WHOLE_MAX 9007199254740992.0 /* up to here every whole number is a double */

/* In HELP: a backslash and a line feed are escaped. */
static void write_help(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == '\\')
            fputs("\\\\", out);
        else if (*text == '\n')
            fputs("\\n", out);
        else
            fputc(*text, out);
}

void hfi_metric_family(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s ", name);
    write_help(out, help);
    fprintf(out, "\n# TYPE %s %s\n", name, type);
}

/* A label as people see the name: control bytes and bytes that are not UTF-8 as \xNN, which hfi_quote_name() writes; so no line
 * feed is left. Then the quotes and backslashes of the format. */
static void write_label(FILE *out, const struct hfi_metric_label *label)
{
    size_t size = label->len * 4 + 4;
    char *text = malloc(size);

    fprintf(out, "%s=\"", label->name);
    if (text) {
        hfi_quote_name(label->value, label->len, text, size);
        for (const char *c = text; *c; c++) {
            if (*c == '"' || *c == '\\')
                fputc('\\', out);
            fputc(*c, out);
        }
    }
    free(text);
    fputc('"', out);
}

static void write_number(FILE *out, double value)
{
    if (isnan(value))
        fputs("NaN", out);
    else if (isinf(value))
        fputs(value > 0 ? "+Inf" : "-Inf", out);
    else if (value >= -WHOLE_MAX && value <= WHOLE_MAX && value == (double)(int64_t)value)
        fprintf(out, "%" PRId64, (int64_t)value);
    else
        fprintf(out, "%.15g", value);
}

/* `bound`: of a bucket, as its label `le`; NULL: none. */
static void write_sample(FILE *out, const char *name, const char *suffix,
                         const struct hfi_metric_label *labels, size_t label_count,
                         const double *bound, double value)
{
    bool braces = label_count > 0 || bound;

    fprintf(out, "%s%s%s", name, suffix, braces ? "{" : "");
    for (size_t i = 0; i < label_count; i++) {
        if (i > 0)
            fputc(',', out);
        write_label(out, &labels[i]);
    }
    if (bound) {
        fputs(label_count > 0 ? ",le=\"" : "le=\"", out);
        write_number(out, *bound);
        fputc('"', out);
    }
    fputs(braces ? "} " : " ", out);
    write_number(out, value);
    fputc('\n', out);
}

void hfi_metric_sample(FILE *out, const char *name, const struct hfi_metric_label *labels,
                       size_t label_count, double value)
{
    write_sample(out, name, "", labels, label_count, NULL, value);
}

void hfi_metric_histogram(FILE *out, const char *name, const struct hfi_metric_label *labels,
                          size_t label_count, const double *bounds, const uint64_t *counts,
                          size_t count, double sum)
{
    const double last = INFINITY;
    uint64_t all = 0;

    for (size_t i = 0; i < count; i++) {
        all += counts[i];
        write_sample(out, name, "_bucket", labels, label_count, i + 1 < count ? &bounds[i] : &last,
                     (double)all);
    }
    write_sample(out, name, "_sum", labels, label_count, NULL, sum);
    write_sample(out, name, "_count", labels, label_count, NULL, (double)all);
}
