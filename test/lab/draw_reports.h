/* SPDX-License-Identifier: MIT */
/* Reports that are made up, for the tests of pictures: what experiments draw, and what they never should. */
#ifndef DRAW_REPORTS_H
#define DRAW_REPORTS_H

#include "lab.h"

struct made {
    const char *name;
    const struct report *report;
};

/* All of them; the last has no name. Made once. */
const struct made *made_reports(void);
const struct report *made_report(const char *name);

#endif
