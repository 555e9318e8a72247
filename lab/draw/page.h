/* SPDX-License-Identifier: MIT */
/* What the files and pages around panels and charts share. */
#ifndef LAB_PAGE_H
#define LAB_PAGE_H

#include "../lab.h"
#include "ink.h"

/* "redis-server 7.0 · ttl 3s, ..." */
void report_setting(const struct report *report, enum lang lang, char *out, size_t room);
extern const struct phrase checker_words;
/* Is the number of this step red in any way? */
bool step_bad(const struct report *report, int step);

/* The charts of a report side by side, the texts of the ways and what the checker says below. Returns the y below. */
double plot_draw(struct pen *pen, const struct report *report, double y, double x, double width);

#endif
