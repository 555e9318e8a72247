/* SPDX-License-Identifier: MIT */
/* One ZooKeeper server, or an ensemble of three. A fault of a server strikes one of them. */
#include "lab.h"

#include "zk_server.h"

#include <stdio.h>

#define TICK_MS    500 /* the shortest session timeout is two of these */
#define SYNC_LIMIT 8

static struct ensemble *ensemble;

static void start(struct lab *lab)
{
    ensemble = ensemble_start((int)lab->mode->variant, TICK_MS, SYNC_LIMIT, false);
    for (int i = 0; i < ensemble->count; i++)
        lab->ports[lab->count++] = ensemble->servers[i].port;
}

static void url(const struct lab *lab, const uint16_t *ports, char text[URL_ROOM])
{
    int len = snprintf(text, URL_ROOM, "zk://");

    for (unsigned i = 0; i < lab->count; i++)
        len += snprintf(text + len, (size_t)(URL_ROOM - len), "%s127.0.0.1:%u", i ? "," : "",
                        (unsigned)ports[i]);
    snprintf(text + len, (size_t)(URL_ROOM - len), "/faults%s%s", lab->mode->query[0] ? "?" : "",
             lab->mode->query);
}

static pid_t pid(const struct lab *lab, unsigned member)
{
    (void)lab;
    return ensemble->servers[member].pid;
}

static void kill_it(struct lab *lab, unsigned member)
{
    (void)lab;
    zk_server_kill(&ensemble->servers[member]);
}

static void revive(struct lab *lab, unsigned member, bool keep)
{
    char data[2 * SERVER_PATH_ROOM];

    (void)lab;
    snprintf(data, sizeof data, "%s/version-2", ensemble->servers[member].dir);
    if (!keep)
        remove_dir(data);
    zk_server_restart(&ensemble->servers[member]);
}

static void pause_it(struct lab *lab, unsigned member)
{
    (void)lab;
    zk_server_pause(&ensemble->servers[member]);
}

static void resume(struct lab *lab, unsigned member)
{
    (void)lab;
    zk_server_continue(&ensemble->servers[member]);
}

static unsigned leader(struct lab *lab)
{
    (void)lab;
    return (unsigned)(ensemble_leader(ensemble)->number - 1);
}

static const char *why_not(const struct lab *lab, enum fault_kind fault)
{
    switch (fault) {
    case FAULT_FAILOVER:
        return lab->mode->variant == 1 ? "one server" : NULL;
    case FAULT_MEMORY_FULL:
    case FAULT_EVICTION:
        return "it evicts nothing and has no limit of this kind";
    case FAULT_SCRIPT_FLUSH:
        return "it runs no scripts";
    default:
        return NULL;
    }
}

const struct bed bed_zookeeper = { .start = start,
                                   .url = url,
                                   .pid = pid,
                                   .kill = kill_it,
                                   .revive = revive,
                                   .pause = pause_it,
                                   .resume = resume,
                                   .leader = leader,
                                   .why_not = why_not };
