/* SPDX-License-Identifier: MIT */
/*
 * The two commands of one acquire and one release, by hand: the same script and HDEL with the same arguments as the engine sends
 * (see src/engine/redis/scripts/README.md), formatted once; only the owner is written anew for each acquisition.
 */
#include "raw_redis.h"

#include "bench.h"
#include "engine/redis/scripts.h"

#include <stdio.h>
#include <string.h>

#define OWNER_LEN 16
#define OWNER     "0000000000000000"
#define REQUEST   OWNER "ttl-win-toFclientidatmp" /* what follows is put in its place below */

void raw_pair_init(struct raw_pair *pair, struct raw_redis *redis, const char *name)
{
    /* 30 s, 10 s, one token, may wait; a client, an attempt */
    static const char rest[sizeof REQUEST - sizeof OWNER] = { 0x30, 0x75, 0,   0,   0x10, 0x27,
                                                              0,    0,    1,   0,   1,    'c',
                                                              'l',  'i',  'e', 'n', 't',  'i',
                                                              'd',  1,    0,   0,   0 };
    static const char request[] = REQUEST;
    char acquire[RAW_SHA], key[128];
    const char *const acquire_words[] = { "EVALSHA", acquire, "1", key, request, NULL };
    const char *const release_words[] = { "HDEL", key, OWNER, NULL };

    raw_redis_load(redis, hfi_script_acquire.text, acquire);
    snprintf(key, sizeof key, "hf:{%s}", name);
    raw_redis_format(&pair->acquire, acquire_words);
    raw_redis_format(&pair->release, release_words);
    pair->acquire_owner = memmem(pair->acquire.bytes, pair->acquire.len, OWNER, OWNER_LEN);
    pair->release_owner = memmem(pair->release.bytes, pair->release.len, OWNER, OWNER_LEN);
    pair->owner = 0;
    memcpy(pair->acquire_owner + OWNER_LEN, rest, sizeof rest);
}

void raw_pair_next(struct raw_pair *pair)
{
    uint64_t owner = ++pair->owner;

    for (size_t i = 0; i < OWNER_LEN; i++, owner >>= 4)
        pair->acquire_owner[i] = pair->release_owner[i] = "0123456789abcdef"[owner & 15];
}

void raw_pair_do(struct raw_pair *pair, struct raw_redis *redis)
{
    const char *reply;
    size_t len;

    raw_pair_next(pair);
    raw_redis_send(redis, pair->acquire.bytes, pair->acquire.len);
    reply = raw_redis_reply(redis, &len);
    if (*reply != ':') /* its token */
        bench_die("a raw acquire was not granted: %.*s", (int)len, reply);
    raw_redis_send(redis, pair->release.bytes, pair->release.len);
    reply = raw_redis_reply(redis, &len);
    if (len < 2 || memcmp(reply, ":1", 2) != 0)
        bench_die("a raw release did not release: %.*s", (int)len, reply);
}
