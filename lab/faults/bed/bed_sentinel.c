/* SPDX-License-Identifier: MIT */
/* A Redis master with two replicas and three sentinels that watch them. Replication is asynchronous. */
#include "lab.h"

#include "set.h"

#include <stdio.h>
#include <string.h>

#define DOWN_MS     600
#define FAILOVER_MS 25000

static const char *const durable[] = {
    "--appendonly", "yes", "--appendfsync", "no", "--protected-mode", "no", NULL
};
static struct sentinel_set *set;

static void start(struct lab *lab)
{
    set = sentinel_start(2, DOWN_MS, durable);
    for (size_t i = 0; i < set->server_count; i++)
        lab->ports[lab->count++] = set->servers[i]->port;
}

static void url(const struct lab *lab, const uint16_t *ports, char text[URL_ROOM])
{
    (void)ports;
    snprintf(text, URL_ROOM, "%s%s%s", sentinel_url(set, ""), lab->mode->query[0] ? "?" : "",
             lab->mode->query);
}

static pid_t pid(const struct lab *lab, unsigned member)
{
    (void)lab;
    return set->servers[member]->pid;
}

static void kill_it(struct lab *lab, unsigned member)
{
    (void)lab;
    server_kill(set->servers[member]);
}

static void revive(struct lab *lab, unsigned member, bool keep)
{
    (void)lab, (void)keep;
    server_restart(set->servers[member]);
}

static void pause_it(struct lab *lab, unsigned member)
{
    (void)lab;
    server_pause(set->servers[member]);
}

static void resume(struct lab *lab, unsigned member)
{
    (void)lab;
    server_continue(set->servers[member]);
}

/* Is the last failover over? All sentinels name the same master, and it has its replicas. */
static bool is_whole(const struct server *master)
{
    char wanted[64];
    bool whole = true;

    snprintf(wanted, sizeof wanted, "status=ok,address=127.0.0.1:%u,slaves=2",
             (unsigned)master->port);
    for (size_t i = 0; i < SENTINELS && whole; i++) {
        redisReply *reply = server_ask(set->sentinels[i], "INFO sentinel");

        whole = reply->str && strstr(reply->str, wanted);
        freeReplyObject(reply);
    }
    if (whole) {
        redisReply *reply = server_ask((struct server *)(uintptr_t)master, "INFO replication");

        whole = reply->str && strstr(reply->str, "role:master") &&
                strstr(reply->str, "connected_slaves:2");
        freeReplyObject(reply);
    }
    return whole;
}

/* A sentinel that was too late for one failover does nothing for some seconds: then this one is none, and the master comes
 * back. */
static void failover(struct lab *lab)
{
    struct server *master = sentinel_master(set);
    int64_t until_ms = clock_ms() + FAILOVER_MS;

    (void)lab;
    while (!is_whole(master) && clock_ms() < until_ms) {
        sleep_ms(20);
        master = sentinel_master(set);
    }
    server_kill(master);
    until_ms = clock_ms() + FAILOVER_MS;
    while (sentinel_master(set) == master && clock_ms() < until_ms)
        sleep_ms(20);
    server_restart(master); /* the sentinels make a replica of it */
}

static void flush(struct lab *lab)
{
    (void)lab;
    server_do(sentinel_master(set), "SCRIPT FLUSH");
}

static const char *why_not(const struct lab *lab, enum fault_kind fault)
{
    (void)lab;
    switch (fault) {
    case FAULT_CUT:
    case FAULT_HALF_OPEN:
    case FAULT_SLOW:
        return "servers announce their own addresses, past the proxy; see redis, and loss and "
               "partition here";
    case FAULT_SERVER_WIPE:
        return "an empty master would empty its replicas: see redis";
    case FAULT_CLOCK_FORWARD:
    case FAULT_CLOCK_BACK:
    case FAULT_MEMORY_FULL:
    case FAULT_EVICTION:
    case FAULT_DISK_FULL:
        return "as on one server: see redis";
    default:
        return NULL;
    }
}

const struct bed bed_sentinel = { .start = start,
                                  .url = url,
                                  .pid = pid,
                                  .kill = kill_it,
                                  .revive = revive,
                                  .pause = pause_it,
                                  .resume = resume,
                                  .failover = failover,
                                  .flush = flush,
                                  .why_not = why_not };
