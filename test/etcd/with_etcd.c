/* SPDX-License-Identifier: MIT */
/*
 * with_server etcd [OPTION...] COMMAND...: see test/lib/with_server.c.
 *
 *   -p         as a user with rights on its prefix only
 *   -t         TLS, with a client certificate
 *   -3         a cluster of three
 *   -f SEED    while random faults happen (trouble.h): to the server and its network, or with -3 to
 *              the members
 *   -q QUERY   more of the URL (op_timeout=1s)
 *
 * HOLDFAST_TEST_PORT is the first member's port.
 */
#include "cluster.h"

#include "server.h"
#include "trouble.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int with_etcd(int argc, char **argv); /* with_server.c calls it */

/* Faults go on while the command runs: this thread owns the servers. */
struct faults {
    struct etcd_cluster *cluster;
    struct proxy *proxy;
    const char *seed;
};

static void stop_member(void *server)
{
    struct etcd_cluster *cluster = server;
    size_t member = below((unsigned)cluster->count);

    etcd_pause(cluster, member);
    trouble_lasts();
    etcd_continue(cluster, member);
}

static void kill_member(void *server)
{
    struct etcd_cluster *cluster = server;
    size_t member = below((unsigned)cluster->count);

    etcd_kill(cluster, member);
    trouble_lasts();
    etcd_restart(cluster, member);
}

static void meanwhile(pid_t child, void *arg)
{
    static const struct trouble_kind kinds[] = { { "stopped", stop_member },
                                                 { "killed", kill_member },
                                                 { NULL, NULL } };
    const struct faults *faults = arg;

    if (faults->seed)
        trouble(kinds, faults->cluster, faults->proxy, faults->proxy ? 150 : 600,
                strtoull(faults->seed, NULL, 10), child);
}

int with_etcd(int argc, char **argv)
{
    struct faults faults = { NULL, NULL, NULL };
    const char *query = "";
    char url[1024];
    struct etcd_cluster *cluster;
    unsigned flags = 0;
    size_t count = 1;
    char port[16];
    int option, status;

    while ((option = getopt(argc, argv, "+pt3f:q:")) != -1) {
        switch (option) {
        case 'p':
            flags |= ETCD_AUTH;
            break;
        case 't':
            flags |= ETCD_TLS;
            break;
        case '3':
            count = 3;
            break;
        case 'f':
            faults.seed = optarg;
            break;
        case 'q':
            query = optarg;
            break;
        default:
            return 64;
        }
    }
    if (optind >= argc)
        give_up("usage: with_server etcd [-p] [-t] [-3] [-f SEED] [-q QUERY] COMMAND...");
    cluster = faults.cluster = etcd_start(count, flags);
    snprintf(port, sizeof port, "%u", (unsigned)cluster->members[0].port);
    setenv("HOLDFAST_TEST_PORT", port, 1);
    snprintf(url, sizeof url, "%s", etcd_url(cluster, -1, query));
    if (faults.seed && count == 1) {
        faults.proxy = proxy_start(cluster->members[0].port);
        snprintf(url, sizeof url, "etcd://127.0.0.1:%u/hf/{id}?%s",
                 (unsigned)proxy_port(faults.proxy), query);
    }
    setenv("HOLDFAST_TEST_URL", url, 1);
    status = run_command(argv + optind, meanwhile, &faults);
    proxy_stop(faults.proxy);
    etcd_free(cluster);
    return status;
}
