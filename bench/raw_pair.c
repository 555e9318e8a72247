/* SPDX-License-Identifier: MIT */
/*
 * The two script calls of one acquire and one release, by hand: the same scripts with the same
 * arguments as the engine sends (see src/engine/redis/scripts/README.md), formatted once; only the
 * owner's digits are written anew for each acquisition.
 */
#include "raw_redis.h"

#include "bench.h"
#include "engine/redis/scripts.h"

#include <stdio.h>
#include <string.h>

#define OWNER "00000000000000000000000000000000"

void raw_pair_init(struct raw_pair *pair, struct raw_redis *redis, const char *name)
{
    char acquire[RAW_SHA], release[RAW_SHA], keys[3][128];
    const char *const acquire_words[] = { "EVALSHA",
                                          acquire,
                                          "3",
                                          keys[0],
                                          keys[1],
                                          keys[2],
                                          OWNER,
                                          "0",
                                          "1",
                                          "1",
                                          "1",
                                          "1",
                                          "30000",
                                          "0",
                                          "10000",
                                          "1",
                                          "hf:inbox:0123456789abcdef0123456789abcdef",
                                          "host 12345 user holdfast-bench",
                                          NULL };
    const char *const release_words[] = { "EVALSHA", release, "3", keys[0], keys[1],
                                          keys[2],   OWNER,   "0", NULL };

    raw_redis_load(redis, hfi_script_acquire.text, acquire);
    raw_redis_load(redis, hfi_script_release.text, release);
    snprintf(keys[0], sizeof keys[0], "hf:{%s}", name);
    snprintf(keys[1], sizeof keys[1], "hf:{%s}:w", name);
    snprintf(keys[2], sizeof keys[2], "hf:{%s}:q", name);
    raw_redis_format(&pair->acquire, acquire_words);
    raw_redis_format(&pair->release, release_words);
    pair->acquire_owner = memmem(pair->acquire.bytes, pair->acquire.len, OWNER, RAW_OWNER);
    pair->release_owner = memmem(pair->release.bytes, pair->release.len, OWNER, RAW_OWNER);
    pair->owner = 0;
}

void raw_pair_next(struct raw_pair *pair)
{
    uint64_t owner = ++pair->owner;

    for (size_t i = 0; i < 16; i++, owner >>= 4)
        pair->acquire_owner[i] = pair->release_owner[i] = "0123456789abcdef"[owner & 15];
}

void raw_pair_do(struct raw_pair *pair, struct raw_redis *redis)
{
    const char *reply;
    size_t len;

    raw_pair_next(pair);
    raw_redis_send(redis, pair->acquire.bytes, pair->acquire.len);
    reply = raw_redis_reply(redis, &len);
    if (len < 10 || reply[8] != 'G') /* "*4\r\n$1\r\nG" */
        bench_die("a raw acquire was not granted: %.*s", (int)len, reply);
    raw_redis_send(redis, pair->release.bytes, pair->release.len);
    reply = raw_redis_reply(redis, &len);
    if (len < 10 || reply[8] != 'R')
        bench_die("a raw release did not release: %.*s", (int)len, reply);
}
