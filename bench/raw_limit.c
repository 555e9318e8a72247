/* SPDX-License-Identifier: MIT */
/* See raw_limit.h. */
#include "raw_limit.h"

#include "bench.h"
#include "raw_queue_scripts.h" /* made by the build */

#include <stdio.h>
#include <string.h>

#define OWNER "00000000000000000000000000000000"
#define TTL   "30000"

void raw_limit_init(struct raw_pair *pair, struct raw_redis *redis, const char *name, int token)
{
    char set[RAW_SHA], del[RAW_SHA], counter[64];

    snprintf(counter, sizeof counter, "{%s}:t", name);
    raw_redis_load(redis, raw_limit_token_lua, set);
    raw_redis_load(redis, raw_limit_delete_lua, del);
    if (token)
        raw_redis_format(&pair->acquire, (const char *const[]){ "EVALSHA", set, "2", name, counter,
                                                                OWNER, TTL, NULL });
    else
        raw_redis_format(&pair->acquire,
                         (const char *const[]){ "SET", name, OWNER, "NX", "PX", TTL, NULL });
    raw_redis_format(&pair->release,
                     (const char *const[]){ "EVALSHA", del, "1", name, OWNER, NULL });
    pair->acquire_owner = memmem(pair->acquire.bytes, pair->acquire.len, OWNER, RAW_OWNER);
    pair->release_owner = memmem(pair->release.bytes, pair->release.len, OWNER, RAW_OWNER);
    pair->owner = 0;
}

void raw_limit_do(struct raw_pair *pair, struct raw_redis *redis)
{
    const char *reply;
    size_t len;

    raw_pair_next(pair);
    raw_redis_send(redis, pair->acquire.bytes, pair->acquire.len);
    reply = raw_redis_reply(redis, &len);
    if (reply[0] != '+' && (reply[0] != ':' || reply[1] == '0'))
        bench_die("a raw SET NX was not granted: %.*s", (int)len, reply);
    raw_redis_send(redis, pair->release.bytes, pair->release.len);
    reply = raw_redis_reply(redis, &len);
    if (reply[1] != '1')
        bench_die("a raw delete did not delete: %.*s", (int)len, reply);
}
