/* SPDX-License-Identifier: MIT */
/*
 * Does a history obey the rules? Only certain facts count: a lease counts as held from the moment
 * after acquire returned until the moment before release was called, or before its process was
 * killed; with a ttl, as long as the library said so.
 *
 *   exclusion   the permits of all holders never exceed the capacity
 *   tokens      below 2^53, never twice; of two leases that exclude one another the later
 *               has the larger one. Later means: held later; with `doubles`, where that says
 *               nothing: asked for when the other had been granted
 *   order       (HF_FLAG_STRICT, no barging) who was seen waiting is granted before whoever
 *               stood behind him, and before whoever asked only after that
 *   loss        a lease without a ttl is never lost
 */
#ifndef CHECKER_H
#define CHECKER_H

#include "history.h"

#include <stdio.h>

struct verdict {
    unsigned exclusion, tokens, order, loss;
    /* How much there was to check. */
    unsigned leases, overlaps, compared, looks, deaths;
};

/* Report each violation to `out` (NULL: silence), at most 20 of a kind. */
struct verdict check_history(const struct history *history, FILE *out);

static inline unsigned violations(const struct verdict *v)
{
    return v->exclusion + v->tokens + v->order + v->loss;
}

#endif
