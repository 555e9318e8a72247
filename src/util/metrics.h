/* SPDX-License-Identifier: MIT */
/*
 * The text format of Prometheus: what `holdfast run --metrics-file` and `holdfast serve` write. A family is its HELP and TYPE
 * lines, and after them all its samples. Whatever stands in a label is escaped, and is UTF-8 afterwards.
 */
#ifndef HFI_METRICS_H
#define HFI_METRICS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct hfi_metric_label {
    const char *name;
    const char *value; /* any bytes */
    size_t len;        /* of `value` */
};

/* Begin a family. `type`: "counter", "gauge", "histogram" or "summary". `help` is one line. */
void hfi_metric_family(FILE *out, const char *name, const char *type, const char *help);
/* One sample of it. A whole number is written without a fraction. */
void hfi_metric_sample(FILE *out, const char *name, const struct hfi_metric_label *labels,
                       size_t label_count, double value);
/*
 * One histogram of a family, in seconds. counts[i] of `count` are the values in (bounds[i - 1], bounds[i]], not added up;
 * the last bucket has no bound, so there is one bound less.
 */
void hfi_metric_histogram(FILE *out, const char *name, const struct hfi_metric_label *labels,
                          size_t label_count, const double *bounds, const uint64_t *counts,
                          size_t count, double sum);

#endif
