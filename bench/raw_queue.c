/* SPDX-License-Identifier: MIT */
/* See raw_queue.h; the scripts are raw_queue_*.lua. */
#include "raw_queue.h"

#include "bench.h"
#include "raw_queue_scripts.h" /* made by the build */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void format(struct raw_queue *queue, struct raw_command *command, const char *text,
                   const char *channel)
{
    char sha[RAW_SHA];
    const char *const words[] = { "EVALSHA",     sha,           "3",     "{raw}:lock",
                                  "{raw}:queue", "{raw}:token", channel, NULL };

    raw_redis_load(queue->commands, text, sha);
    raw_redis_format(command, words);
}

static struct raw_queue *open_queue(uint16_t port, size_t index, const char *acquire,
                                    const char *release)
{
    struct raw_queue *queue = calloc(1, sizeof *queue);
    char channel[32];
    const char *const subscribe[] = { "SUBSCRIBE", channel, NULL };
    size_t len;

    if (!queue)
        bench_die("out of memory");
    snprintf(channel, sizeof channel, "raw:inbox:%zu", index);
    queue->commands = raw_redis_open(port);
    queue->inbox = raw_redis_open(port);
    format(queue, &queue->acquire, acquire, channel);
    format(queue, &queue->release, release, channel);
    raw_redis_ask(queue->inbox, &len, subscribe);
    return queue;
}

struct raw_queue *raw_queue_open(uint16_t port, size_t index)
{
    return open_queue(port, index, raw_queue_acquire_lua, raw_queue_release_lua);
}

struct raw_queue *raw_permits_open(uint16_t port, size_t index)
{
    return open_queue(port, index, raw_permits_acquire_lua, raw_permits_release_lua);
}

/* Send a call, return the integer that it answers. */
static long call(struct raw_queue *queue, const struct raw_command *command)
{
    const char *reply;
    size_t len;

    raw_redis_send(queue->commands, command->bytes, command->len);
    reply = raw_redis_reply(queue->commands, &len);
    return strtol(reply + 1, NULL, 10);
}

void raw_queue_acquire(struct raw_queue *queue)
{
    size_t len;

    if (call(queue, &queue->acquire) == 0)
        raw_redis_reply(queue->inbox, &len); /* the only message that can come: our grant */
}

void raw_queue_release(struct raw_queue *queue)
{
    if (call(queue, &queue->release) != 1)
        bench_die("the raw queue lost its lock");
}
