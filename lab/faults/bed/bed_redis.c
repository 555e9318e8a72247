/* SPDX-License-Identifier: MIT */
/* One Redis server with an append-only file, so that it can come back with its data or without. */
#include "lab.h"

#include "redis_server.h"

#include <stdio.h>

/* What a process has written to its file is there when it was killed: no need to sync. */
static const char *const durable[] = {
    "--appendonly", "yes", "--appendfsync", "no", "--protected-mode", "no", NULL
};
static struct server *server;

static void start(struct lab *lab)
{
    server = server_start(durable);
    lab->ports[lab->count++] = server->port;
}

static void url(const struct lab *lab, const uint16_t *ports, char text[URL_ROOM])
{
    snprintf(text, URL_ROOM, "redis://127.0.0.1:%u%s%s", (unsigned)ports[0],
             lab->mode->query[0] ? "?" : "", lab->mode->query);
}

static pid_t pid(const struct lab *lab, unsigned member)
{
    (void)lab, (void)member;
    return server->pid;
}

static void kill_it(struct lab *lab, unsigned member)
{
    (void)lab, (void)member;
    server_kill(server);
}

static void revive(struct lab *lab, unsigned member, bool keep)
{
    char files[2 * SERVER_PATH_ROOM];

    (void)lab, (void)member;
    snprintf(files, sizeof files, "%s/appendonlydir", server->dir);
    if (!keep)
        remove_dir(files);
    server_restart(server);
}

static void pause_it(struct lab *lab, unsigned member)
{
    (void)lab, (void)member;
    server_pause(server);
}

static void resume(struct lab *lab, unsigned member)
{
    (void)lab, (void)member;
    server_continue(server);
}

static void memory(struct lab *lab, bool full)
{
    (void)lab;
    server_do(server, "CONFIG SET maxmemory %d", full ? 1 : 0);
}

static void flush(struct lab *lab)
{
    (void)lab;
    server_do(server, "SCRIPT FLUSH");
}

/* More than it may keep: it throws away until nothing is left. */
static void evict(struct lab *lab)
{
    (void)lab;
    server_do(server, "CONFIG SET maxmemory-policy allkeys-random");
    server_do(server, "CONFIG SET maxmemory 1");
    freeReplyObject(server_ask(server, "SET evict x"));
    server_do(server, "CONFIG SET maxmemory 0");
    server_do(server, "CONFIG SET maxmemory-policy noeviction");
}

static const char *why_not(const struct lab *lab, enum fault_kind fault)
{
    (void)lab;
    return fault == FAULT_FAILOVER ? "one server: see sentinel, cluster and redlock" : NULL;
}

const struct bed bed_redis = { .start = start,
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
