/* SPDX-License-Identifier: MIT */
/* Chooses the master to follow when sentinels disagree. Pure. */
#ifndef HFI_REDIS_SENTINEL_H
#define HFI_REDIS_SENTINEL_H

#include "engine/redis/conf.h"

struct hfi_sentinel_answer {
    const struct hfi_address *master;
    int64_t epoch; /* config-epoch: grows with every failover; 0: not told */
};

/*
 * The answer to follow, or `count`: none. `epoch` is the highest that was ever followed, `voters`
 * the number of sentinels, `current` the master that is followed now, or NULL.
 *
 * The highest epoch wins; among equals the address with most votes, then the current one. An epoch
 * lower than one that was followed comes from a sentinel that has missed a failover. It is accepted
 * only if all sentinels answer and most agree: then they were set up again. (A silent one may be
 * the one that knows of the failover.)
 */
size_t hfi_sentinel_choose(const struct hfi_sentinel_answer *answers, size_t count, size_t voters,
                           const struct hfi_address *current, int64_t epoch);

#endif
