/* SPDX-License-Identifier: MIT */
/* See validity.h. */
#include "engine/zookeeper/validity.h"

#include <string.h>

void zk_validity_begin(struct zk_validity *validity, int64_t sent_ms, int64_t timeout_ms)
{
    validity->timeout_ms = timeout_ms;
    validity->base_ms = sent_ms;
    validity->count = 0;
}

static void remember(struct zk_validity *validity, int64_t sent_ms)
{
    int64_t lag_ms = validity->timeout_ms / ZK_VALIDITY_LAG;

    /* Keep requests far enough apart that the table covers more than the lag. */
    if (validity->count > 0 &&
        sent_ms - validity->sent_ms[validity->count - 1] < lag_ms / (ZK_VALIDITY_KEPT / 2))
        return;
    if (validity->count == ZK_VALIDITY_KEPT) {
        memmove(validity->sent_ms, validity->sent_ms + 1,
                (ZK_VALIDITY_KEPT - 1) * sizeof validity->sent_ms[0]);
        validity->count--;
    }
    validity->sent_ms[validity->count++] = sent_ms;
}

void zk_validity_confirm(struct zk_validity *validity, int64_t sent_ms)
{
    int64_t lag_ms = validity->timeout_ms / ZK_VALIDITY_LAG;

    for (unsigned i = 0; i < validity->count; i++)
        if (validity->sent_ms[i] <= sent_ms - lag_ms && validity->sent_ms[i] > validity->base_ms)
            validity->base_ms = validity->sent_ms[i];
    remember(validity, sent_ms);
}

int64_t zk_validity_until(const struct zk_validity *validity)
{
    return validity->base_ms + validity->timeout_ms;
}

int64_t zk_validity_left(const struct zk_validity *validity, int64_t now_ms)
{
    return zk_validity_until(validity) - now_ms - (now_ms - validity->base_ms + 99) / 100;
}
