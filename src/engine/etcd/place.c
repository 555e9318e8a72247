/* SPDX-License-Identifier: MIT */
/*
 * Who holds and who waits. All claims of a name lie in the order of their create revisions. One
 * holds if its permits and those of all ahead of it fit into the capacity. What is ahead only ever
 * goes away, and newcomers come behind: so who holds goes on holding until its own key is gone, and
 * first come is first served.
 */
#include "engine/etcd/internal.h"

enum etcd_verdict etcd_place(uint32_t capacity, uint32_t permits, const uint32_t *ahead,
                             size_t count, size_t *ret_index, uint64_t *ret_taken)
{
    uint64_t taken = 0;

    for (size_t i = 0; i < count; i++)
        taken += ahead[i];
    *ret_taken = taken;
    if (taken + permits <= capacity)
        return ETCD_HOLDS;
    /* The nearest with which we can never hold together must go in any case, and those ahead of
     * it had to go before it could hold: that one key is enough to watch. */
    for (size_t i = 0; i < count; i++)
        if ((uint64_t)ahead[i] + permits > capacity) {
            *ret_index = i;
            return ETCD_WATCH_ONE;
        }
    return ETCD_WATCH_ALL;
}
