/* SPDX-License-Identifier: MIT */
/* A Redis Cluster of three masters; for a failover, the master of our slot has a replica, and they change places. */
#include "lab.h"

#include "set.h"

#include <stdio.h>
#include <string.h>

#define DOWN_MS 1000

static const char *const durable[] = {
    "--appendonly", "yes", "--appendfsync", "no", "--protected-mode", "no", NULL
};
static struct cluster *cluster;
static struct server *pair[2]; /* the master of our slot and its replica; they change places */

static void start(struct lab *lab)
{
    cluster = cluster_start(durable);
    for (size_t i = 0; i < CLUSTER_NODES; i++)
        lab->ports[lab->count++] = cluster->nodes[i]->port;
    if (lab->fault == FAULT_FAILOVER) {
        unsigned slot;
        size_t owner = cluster_owner(cluster, "{faults}", &slot);

        pair[0] = cluster->nodes[owner];
        pair[1] = cluster_replica(cluster, owner, DOWN_MS);
    }
}

/* All names in one slot, so that a failover meets all of them. */
static void url(const struct lab *lab, const uint16_t *ports, char text[URL_ROOM])
{
    (void)ports, (void)lab;
    snprintf(text, URL_ROOM, "%s", cluster_url(cluster, "?prefix=hf:{faults}:"));
}

static pid_t pid(const struct lab *lab, unsigned member)
{
    (void)lab;
    return cluster->nodes[member]->pid;
}

static void kill_it(struct lab *lab, unsigned member)
{
    (void)lab;
    server_kill(cluster->nodes[member]);
}

static void revive(struct lab *lab, unsigned member, bool keep)
{
    (void)lab, (void)keep;
    server_restart(cluster->nodes[member]);
}

static void pause_it(struct lab *lab, unsigned member)
{
    (void)lab;
    server_pause(cluster->nodes[member]);
}

static void resume(struct lab *lab, unsigned member)
{
    (void)lab;
    server_continue(cluster->nodes[member]);
}

static bool leads(struct server *server)
{
    redisReply *reply = server_ask(server, "INFO replication");
    bool master = reply->str && strstr(reply->str, "role:master");

    freeReplyObject(reply);
    return master;
}

/* The replica takes over without asking anybody, as after a loss of the master; what was not copied yet is forgotten. */
static void failover(struct lab *lab)
{
    struct server *old = pair[leads(pair[0]) ? 0 : 1], *next = old == pair[0] ? pair[1] : pair[0];
    int64_t until_ms = clock_ms() + SERVER_LIMIT_MS;

    (void)lab;
    server_pause(old);
    server_do(next, "CLUSTER FAILOVER TAKEOVER");
    while (!leads(next)) {
        if (clock_ms() > until_ms)
            give_up("the replica does not take over");
        sleep_ms(5);
    }
    sleep_ms(DOWN_MS);
    server_continue(old);
    while (leads(old)) {
        if (clock_ms() > until_ms)
            give_up("the old master does not follow");
        sleep_ms(5);
    }
}

static void flush(struct lab *lab)
{
    (void)lab;
    for (size_t i = 0; i < CLUSTER_NODES; i++)
        server_do(cluster->nodes[i], "SCRIPT FLUSH");
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

const struct bed bed_cluster = { .start = start,
                                 .url = url,
                                 .pid = pid,
                                 .kill = kill_it,
                                 .revive = revive,
                                 .pause = pause_it,
                                 .resume = resume,
                                 .failover = failover,
                                 .flush = flush,
                                 .why_not = why_not };
