/* SPDX-License-Identifier: MIT */
/* Which master to follow, when sentinels may differ; see sentinel.h. Pure. */
#include "engine/redis/sentinel.h"

#include "engine/redis/address.h"

static size_t votes(const struct hfi_sentinel_answer *answers, size_t count, size_t index)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        n += answers[i].epoch == answers[index].epoch &&
             hfi_address_same(answers[i].master, answers[index].master);
    return n;
}

size_t hfi_sentinel_choose(const struct hfi_sentinel_answer *answers, size_t count, size_t voters,
                           const struct hfi_address *current, int64_t epoch)
{
    size_t best = count, best_votes = 0;

    for (size_t i = 0; i < count; i++) {
        size_t mine = votes(answers, count, i);

        if (best == count || answers[i].epoch > answers[best].epoch ||
            (answers[i].epoch == answers[best].epoch &&
             (mine > best_votes ||
              (mine == best_votes && current && hfi_address_same(answers[i].master, current))))) {
            best = i;
            best_votes = mine;
        }
    }
    if (best < count && answers[best].epoch < epoch && (count < voters || 2 * best_votes <= voters))
        return count;
    return best;
}
