/* SPDX-License-Identifier: MIT */
/*
 * with_zookeeper [-n SERVERS] [-t TICK_MS] [-q QUERY] [-r ROOT] [-a] COMMAND...: run COMMAND with a ZooKeeper of its
 * own, whose URL is in HOLDFAST_TEST_URL; its status is ours. Whatever ends us, the servers end too.
 *
 *   -n N      an ensemble of N servers
 *   -t MS     their tick (2000 is the default: session timeouts of 2 to 20 of them)
 *   -q QUERY  more of the URL (timeout=4s)
 *   -r ROOT   instead of "/{id}"
 *   -a        with a user and a password
 *
 * {id} in the URL is for the contract suite, which gives every case a root of its own.
 */
#include "zk_server.h"

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

int main(int argc, char **argv)
{
    int servers = 1, tick_ms = 2000, option, status;
    const char *query = "", *user = "", *root = "/{id}";
    char rest[256], url[600];
    struct ensemble *ensemble;
    pid_t parent = getpid();

    while ((option = getopt(argc, argv, "+n:t:q:r:a")) != -1) {
        if (option == 'n')
            servers = atoi(optarg);
        else if (option == 't')
            tick_ms = atoi(optarg);
        else if (option == 'q')
            query = optarg;
        else if (option == 'r')
            root = optarg;
        else if (option == 'a')
            user = "tester:s%40same@";
        else
            return 64;
    }
    if (optind >= argc)
        give_up("usage: with_zookeeper [-n SERVERS] [-t TICK_MS] [-q QUERY] [-a] COMMAND...");
    ensemble = ensemble_start(servers, tick_ms, 5, false);
    snprintf(rest, sizeof rest, "%s%s%s", root, query[0] ? "?" : "", query);
    snprintf(url, sizeof url, "zk://%s%s", user, ensemble_url(ensemble, rest) + strlen("zk://"));
    setenv("HOLDFAST_TEST_URL", url, 1);
    signal(SIGTERM, pass_on);
    signal(SIGINT, pass_on);
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        signal(SIGTERM, SIG_DFL);
        signal(SIGINT, SIG_DFL);
        execvp(argv[optind], argv + optind);
        perror(argv[optind]);
        _exit(127);
    }
    while (waitpid((pid_t)child, &status, 0) < 0 && errno == EINTR)
        ;
    ensemble_free(ensemble);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
