/* SPDX-License-Identifier: MIT */
/*
 * with_server zookeeper [OPTION...] COMMAND...: see test/lib/with_server.c.
 *
 *   -n N      an ensemble of N servers
 *   -t MS     their tick (2000 is the default: session timeouts of 2 to 20 of them)
 *   -q QUERY  more of the URL (timeout=4s)
 *   -r ROOT   instead of "/{id}"
 *   -a        with a user and a password
 */
#include "zk_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int with_zookeeper(int argc, char **argv); /* with_server.c calls it */

int with_zookeeper(int argc, char **argv)
{
    int servers = 1, tick_ms = 2000, option, status;
    const char *query = "", *user = "", *root = "/{id}";
    char rest[256], url[600];
    struct ensemble *ensemble;

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
        give_up(
            "usage: with_server zookeeper [-n SERVERS] [-t TICK_MS] [-q QUERY] [-a] COMMAND...");
    ensemble = ensemble_start(servers, tick_ms, 5, false);
    snprintf(rest, sizeof rest, "%s%s%s", root, query[0] ? "?" : "", query);
    snprintf(url, sizeof url, "zk://%s%s", user, ensemble_url(ensemble, rest) + strlen("zk://"));
    setenv("HOLDFAST_TEST_URL", url, 1);
    status = run_command(argv + optind, NULL, NULL);
    ensemble_free(ensemble);
    return status;
}
