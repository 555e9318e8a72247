/* SPDX-License-Identifier: MIT */
/* Five Redis servers that know nothing of each other. A fault of a server strikes one of them. */
#include "lab.h"

#include "redis_server.h"

#include <stdio.h>
#include <string.h>

#define NODES 5

static const char *const durable[] = {
    "--appendonly", "yes", "--appendfsync", "no", "--protected-mode", "no", NULL
};
static struct server *nodes[NODES];
static bool plain;

static void start(struct lab *lab)
{
    plain = strstr(lab->mode->query, "plain") != NULL;
    for (unsigned i = 0; i < NODES; i++) {
        nodes[i] = server_start(durable);
        lab->ports[lab->count++] = nodes[i]->port;
    }
}

static void url(const struct lab *lab, const uint16_t *ports, char text[URL_ROOM])
{
    int len = snprintf(text, URL_ROOM, "redlock://");

    for (unsigned i = 0; i < NODES; i++)
        len += snprintf(text + len, (size_t)(URL_ROOM - len), "%s127.0.0.1:%u", i ? "," : "",
                        (unsigned)ports[i]);
    snprintf(text + len, (size_t)(URL_ROOM - len), "%s%s", lab->mode->query[0] ? "?" : "",
             lab->mode->query);
}

static pid_t pid(const struct lab *lab, unsigned member)
{
    (void)lab;
    return nodes[member]->pid;
}

static void kill_it(struct lab *lab, unsigned member)
{
    (void)lab;
    server_kill(nodes[member]);
}

/* One that was wiped is one away until the others have told it what it needs: no other one is struck before that. */
static void await_votes(struct server *node)
{
    int64_t until_ms = clock_ms() + SERVER_LIMIT_MS;

    while (!plain && server_do(node, "HEXISTS hf:rl:cluster m") != 1) {
        if (clock_ms() > until_ms)
            give_up("a node does not vote again");
        sleep_ms(20);
    }
}

static void revive(struct lab *lab, unsigned member, bool keep)
{
    char files[2 * SERVER_PATH_ROOM];

    (void)lab;
    snprintf(files, sizeof files, "%s/appendonlydir", nodes[member]->dir);
    if (!keep)
        remove_dir(files);
    server_restart(nodes[member]);
    await_votes(nodes[member]);
}

static void pause_it(struct lab *lab, unsigned member)
{
    (void)lab;
    server_pause(nodes[member]);
}

static void resume(struct lab *lab, unsigned member)
{
    (void)lab;
    server_continue(nodes[member]);
}

static void memory(struct lab *lab, bool full)
{
    (void)lab;
    for (unsigned i = 0; i < NODES / 2; i++)
        server_do(nodes[i], "CONFIG SET maxmemory %d", full ? 1 : 0);
}

static void flush(struct lab *lab)
{
    (void)lab;
    for (unsigned i = 0; i < NODES; i++)
        server_do(nodes[i], "SCRIPT FLUSH");
}

/* Of one node. */
static void evict(struct lab *lab)
{
    struct server *node = nodes[chance(&lab->director.dice, NODES)];

    server_do(node, "CONFIG SET maxmemory-policy allkeys-random");
    server_do(node, "CONFIG SET maxmemory 1");
    freeReplyObject(server_ask(node, "SET evict x"));
    server_do(node, "CONFIG SET maxmemory 0");
    server_do(node, "CONFIG SET maxmemory-policy noeviction");
    await_votes(node);
}

static const char *why_not(const struct lab *lab, enum fault_kind fault)
{
    (void)lab;
    return fault == FAULT_FAILOVER ? "no node leads" : NULL;
}

const struct bed bed_redlock = { .start = start,
                                 .url = url,
                                 .pid = pid,
                                 .kill = kill_it,
                                 .revive = revive,
                                 .pause = pause_it,
                                 .resume = resume,
                                 .memory = memory,
                                 .flush = flush,
                                 .evict = evict,
                                 .why_not = why_not };
