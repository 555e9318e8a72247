/* SPDX-License-Identifier: MIT */
/* See redlock_nodes.h. */
#include "redlock_nodes.h"

#include <stdio.h>
#include <stdlib.h>

struct redlock_nodes *redlock_nodes_start(const struct bench *bench)
{
    struct redlock_nodes *nodes = calloc(1, sizeof *nodes);
    int len;

    if (!nodes)
        bench_die("out of memory");
    len = snprintf(nodes->url, sizeof nodes->url, "redlock://");
    for (int i = 0; i < REDLOCK_NODES; i++) {
        nodes->servers[i] = redis_server_start(bench);
        len += snprintf(nodes->url + len, sizeof nodes->url - (size_t)len, "%s127.0.0.1:%u",
                        i ? "," : "", (unsigned)nodes->servers[i]->port);
    }
    return nodes;
}

void redlock_nodes_stop(struct redlock_nodes *nodes)
{
    for (int i = 0; i < REDLOCK_NODES; i++)
        redis_server_stop(nodes->servers[i]);
    free(nodes);
}

double redlock_nodes_commands(struct redlock_nodes *nodes)
{
    double commands = 0;

    for (int i = 0; i < REDLOCK_NODES; i++)
        commands += redis_server_work(nodes->servers[i]).commands;
    return commands;
}

double redlock_nodes_pairs(void *nodes)
{
    struct redlock_nodes *all = nodes;
    double commands = 0;

    for (int i = 0; i < REDLOCK_NODES; i++) {
        struct redis_work work = redis_server_work(all->servers[i]);

        commands += work.commands + work.hdels;
    }
    return commands;
}

static double count_commands(void *nodes)
{
    return redlock_nodes_commands(nodes);
}

struct contest_server redlock_nodes_counted(struct redlock_nodes *nodes)
{
    struct contest_server counted = {
        .commands = count_commands, .server = nodes, .word = "commands", .ports = { 0 }
    };

    for (int i = 0; i < REDLOCK_NODES; i++)
        counted.ports[i] = nodes->servers[i]->port;
    return counted;
}
