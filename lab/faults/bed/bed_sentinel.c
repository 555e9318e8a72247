/* SPDX-License-Identifier: MIT */
/* A Redis master with two replicas and three sentinels that watch them. Replication is asynchronous. */
#include "lab.h"

#include "set.h"

#include <stdio.h>

#define DOWN_MS 600

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

static void failover(struct lab *lab)
{
    struct server *master = sentinel_master(set);

    (void)lab;
    server_kill(master);
    sentinel_await_other(set, master);
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
