/* SPDX-License-Identifier: MIT */
/* Running each measurement in a process of its own. */
#ifndef BENCH_ISOLATE_H
#define BENCH_ISOLATE_H

#include "bench.h"

/* Called about ten times a second while a measurement runs. */
typedef void isolate_tick(const struct report *report, void *arg);

/* Block the signals that isolate() waits for. Before the first call of it. */
void isolate_init(void);

/*
 * Run `measure`; its rows, or its error, are in bench->report, which is shared memory. Returns 0,
 * or the number of a signal that asks us to end; nothing of the measurement runs any more then.
 */
int isolate(const struct measure *measure, struct bench *bench, isolate_tick *tick, void *arg);

/* bench.c: from now on errors of this process belong to this report. */
void bench_enter(struct report *report);

#endif
