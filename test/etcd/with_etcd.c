/* SPDX-License-Identifier: MIT */
/*
 * with_etcd [OPTION...] COMMAND...: run COMMAND with an etcd of its own, whose URL is in
 * HOLDFAST_TEST_URL; its status is ours. Whatever ends us, the servers end too.
 *
 *   -p         as a user with rights on its prefix only
 *   -t         TLS, with a client certificate
 *   -3         a cluster of three
 *   -f SEED    while random faults happen (trouble.h): to the server and its network, or with -3 to
 *              the members
 *   -q QUERY   more of the URL (op_timeout=1s)
 *
 * {id} in the URL is for the contract suite, which gives every case a prefix of its own.
 * HOLDFAST_TEST_PORT is the first member's port.
 */
#include "cluster.h"

#include "proxy.h"
#include "server.h"
#include "trouble.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t child;

static void pass_on(int number)
{
    if (child > 0)
        kill((pid_t)child, number);
}

/* Faults go on until it ends: this thread owns the servers. */
static int run(char **command, struct etcd_cluster *cluster, struct proxy *proxy, const char *seed)
{
    const int passed[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };
    struct sigaction action = { .sa_handler = pass_on };
    pid_t parent = getpid(), pid = fork();
    int status;

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        execvp(command[0], command);
        fprintf(stderr, "with_etcd: %s: %s\n", command[0], strerror(errno));
        _exit(127);
    }
    if (pid < 0)
        give_up("with_etcd: fork: %s", strerror(errno));
    child = (sig_atomic_t)pid;
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        sigaction(passed[i], &action, NULL);
    if (seed)
        trouble(cluster, proxy, strtoull(seed, NULL, 10), pid);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            give_up("with_etcd: %s", strerror(errno));
    child = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    const char *query = "", *seed = NULL;
    struct proxy *proxy = NULL;
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
            seed = optarg;
            break;
        case 'q':
            query = optarg;
            break;
        default:
            return 64;
        }
    }
    if (optind >= argc)
        give_up("usage: with_etcd [-p] [-t] [-3] [-f SEED] [-q QUERY] COMMAND...");
    cluster = etcd_start(count, flags);
    snprintf(port, sizeof port, "%u", (unsigned)cluster->members[0].port);
    setenv("HOLDFAST_TEST_PORT", port, 1);
    snprintf(url, sizeof url, "%s", etcd_url(cluster, -1, query));
    if (seed && count == 1) {
        proxy = proxy_start(cluster->members[0].port);
        snprintf(url, sizeof url, "etcd://127.0.0.1:%u/hf/{id}?%s", (unsigned)proxy_port(proxy),
                 query);
    }
    setenv("HOLDFAST_TEST_URL", url, 1);
    status = run(argv + optind, cluster, proxy, seed);
    proxy_stop(proxy);
    etcd_free(cluster);
    return status;
}
