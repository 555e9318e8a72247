/* SPDX-License-Identifier: MIT */
/* What one step of one thread costs in commands to the server and in bytes, ours and by hand. */
#ifndef BENCH_COST_H
#define BENCH_COST_H

#include "contest.h"
#include "rounds.h"

/*
 * Two rows; `at_most` and `at_most_bytes` are targets for ours (0: none). `raw` may be NULL. Both steps get
 * `arg`. The bytes are the kernel's count, so all connections must be open already and stay open.
 */
void cost_rows(struct bench *bench, const struct contest_server *server, step_fn *ours,
               step_fn *raw, void *arg, const char *against, double at_most, double at_most_bytes);

#endif
