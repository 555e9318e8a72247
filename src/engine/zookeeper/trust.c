/* SPDX-License-Identifier: MIT */
/* See trust.h. */
#include "engine/zookeeper/trust.h"

#include <string.h>

void zk_trust_begin(struct zk_trust *trust, int64_t sent_ms, int64_t timeout_ms)
{
    trust->timeout_ms = timeout_ms;
    trust->base_ms = sent_ms;
    trust->count = 0;
}

static void remember(struct zk_trust *trust, int64_t sent_ms)
{
    int64_t lag_ms = trust->timeout_ms / ZK_TRUST_LAG;

    /* So many as to reach back over the lag, and then some. */
    if (trust->count > 0 &&
        sent_ms - trust->sent_ms[trust->count - 1] < lag_ms / (ZK_TRUST_KEPT / 2))
        return;
    if (trust->count == ZK_TRUST_KEPT) {
        memmove(trust->sent_ms, trust->sent_ms + 1, (ZK_TRUST_KEPT - 1) * sizeof trust->sent_ms[0]);
        trust->count--;
    }
    trust->sent_ms[trust->count++] = sent_ms;
}

void zk_trust_confirm(struct zk_trust *trust, int64_t sent_ms)
{
    int64_t lag_ms = trust->timeout_ms / ZK_TRUST_LAG;

    for (unsigned i = 0; i < trust->count; i++)
        if (trust->sent_ms[i] <= sent_ms - lag_ms && trust->sent_ms[i] > trust->base_ms)
            trust->base_ms = trust->sent_ms[i];
    remember(trust, sent_ms);
}

int64_t zk_trust_until(const struct zk_trust *trust)
{
    return trust->base_ms + trust->timeout_ms;
}

int64_t zk_trust_left(const struct zk_trust *trust, int64_t now_ms)
{
    return zk_trust_until(trust) - now_ms - (now_ms - trust->base_ms + 99) / 100;
}
