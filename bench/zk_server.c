/* SPDX-License-Identifier: MIT */
/* See zk_server.h. */
#include "zk_server.h"

#include "../test/lib/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define JAVA    "/usr/bin/java"
#define JAR     "/usr/share/java/zookeeper.jar"
#define START_S 30.0
#define LOOK_S  0.02

static void write_config(const struct bench *bench, uint16_t port, const char *path)
{
    FILE *file = fopen(path, "we");

    if (!file ||
        fprintf(file,
                "dataDir=%s/zk\nclientPort=%u\nclientPortAddress=127.0.0.1\ntickTime=2000\n"
                "admin.enableServer=false\nmaxClientCnxns=0\n",
                bench->dir, (unsigned)port) < 0 ||
        fclose(file) != 0)
        bench_die("%s: %s", path, strerror(errno));
}

static pid_t begin(const char *config)
{
    const char *args[] = { JAVA,   "-Xmx256m", "-XX:-UsePerfData",
                           "-cp",  JAR,        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                           config, NULL };

    return launch(args, &(struct launch){ .session = true });
}

/* The number behind `key` in what the server says to "srvr"; -1: it says nothing. */
static double ask(const struct zk_server *server, const char *key)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(server->port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = { .tv_sec = 2 }; /* while it starts, a question may get lost */
    char answer[2048];
    size_t used = 0;
    ssize_t got;
    const char *at;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
        send(fd, "srvr", 4, MSG_NOSIGNAL) == 4)
        while (used < sizeof answer - 1 &&
               (got = recv(fd, answer + used, sizeof answer - 1 - used, 0)) > 0)
            used += (size_t)got;
    answer[used] = 0;
    close(fd);
    at = strstr(answer, key);
    return at ? strtod(at + strlen(key), NULL) : -1;
}

struct zk_server *zk_server_start(const struct bench *bench)
{
    struct zk_server *server = calloc(1, sizeof *server);
    int64_t end = bench_ns() + (int64_t)(START_S * 1e9);
    char config[PATH_MAX];

    if (!server)
        bench_die("out of memory");
    if (access(JAVA, X_OK) != 0 || access(JAR, R_OK) != 0)
        bench_skip(bench, "ZooKeeper (" JAR ") or Java is not installed");
    server->port = free_port();
    snprintf(config, sizeof config, "%s/zoo.cfg", bench->dir);
    write_config(bench, server->port, config);
    server->pid = begin(config);
    while (ask(server, "Received: ") < 0) {
        if (waitpid(server->pid, NULL, WNOHANG) != 0)
            bench_die("our ZooKeeper does not start");
        if (bench_ns() > end)
            bench_die("our ZooKeeper does not serve");
        bench_sleep(LOOK_S);
    }
    snprintf(server->host, sizeof server->host, "127.0.0.1:%u", (unsigned)server->port);
    snprintf(server->url, sizeof server->url, "zk://%s/bench", server->host);
    return server;
}

void zk_server_stop(struct zk_server *server)
{
    end_process(&server->pid);
    free(server);
}

double zk_server_requests(const struct zk_server *server)
{
    return ask(server, "Received: ");
}
