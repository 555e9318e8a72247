/* SPDX-License-Identifier: MIT */
/* Numbers out of numbers. Pure. */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

#include <stddef.h>
#include <stdint.h>

#define STATS_MAX 256 /* values; more are not looked at */

/* The value below which a share `q` of them lies; NAN of none. */
double stats_quantile(const double *values, size_t count, double q);
double stats_median(const double *values, size_t count);

/* Jain's fairness index: 1 if all got the same, 1/count if one got everything. */
double stats_jain(const uint64_t *shares, size_t count);

#endif
