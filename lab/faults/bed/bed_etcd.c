/* SPDX-License-Identifier: MIT */
/* One etcd server, or a cluster of three. A fault of a server strikes one of them. */
#include "lab.h"

#include "cluster.h"

#include <stdio.h>

static struct etcd_cluster *cluster;

static void start(struct lab *lab)
{
    cluster = etcd_start(lab->mode->variant, 0);
    for (size_t i = 0; i < cluster->count; i++)
        lab->ports[lab->count++] = cluster->members[i].port;
}

static void url(const struct lab *lab, const uint16_t *ports, char text[URL_ROOM])
{
    int len = snprintf(text, URL_ROOM, "etcd://");

    for (unsigned i = 0; i < lab->count; i++)
        len += snprintf(text + len, (size_t)(URL_ROOM - len), "%s127.0.0.1:%u", i ? "," : "",
                        (unsigned)ports[i]);
    snprintf(text + len, (size_t)(URL_ROOM - len), "/hf/faults%s%s", lab->mode->query[0] ? "?" : "",
             lab->mode->query);
}

static pid_t pid(const struct lab *lab, unsigned member)
{
    (void)lab;
    return cluster->members[member].pid;
}

static void kill_it(struct lab *lab, unsigned member)
{
    (void)lab;
    etcd_kill(cluster, member);
}

static void revive(struct lab *lab, unsigned member, bool keep)
{
    char data[2 * SERVER_PATH_ROOM];

    (void)lab;
    snprintf(data, sizeof data, "%s/m%u", cluster->dir, member);
    if (!keep)
        remove_dir(data);
    etcd_restart(cluster, member);
}

static void revive_all(struct lab *lab)
{
    (void)lab;
    etcd_restart_all(cluster);
}

static void pause_it(struct lab *lab, unsigned member)
{
    (void)lab;
    etcd_pause(cluster, member);
}

static void resume(struct lab *lab, unsigned member)
{
    (void)lab;
    etcd_continue(cluster, member);
}

static unsigned leader(struct lab *lab)
{
    (void)lab;
    return (unsigned)etcd_leader(cluster, 0, -1);
}

static const char *why_not(const struct lab *lab, enum fault_kind fault)
{
    switch (fault) {
    case FAULT_SERVER_WIPE:
        return lab->mode->variant == 1
                   ? NULL
                   : "a member without its data does not start: etcd wants it removed and added";
    case FAULT_CLOCK_FORWARD:
    case FAULT_CLOCK_BACK:
        return "etcd is a Go program, whose clock cannot be moved from outside; it counts leases "
               "with a steady clock";
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

const struct bed bed_etcd = { .start = start,
                              .url = url,
                              .pid = pid,
                              .kill = kill_it,
                              .revive = revive,
                              .revive_all = revive_all,
                              .pause = pause_it,
                              .resume = resume,
                              .leader = leader,
                              .why_not = why_not };
