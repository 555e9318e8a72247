/* SPDX-License-Identifier: MIT */
/* See zk_server.h. */
#include "zk_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define JAVA    "/usr/bin/java"
#define JAR     "/usr/share/java/zookeeper.jar"
#define START_S 30.0
#define LOOK_S  0.02

static uint16_t free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        bench_die("no free port on the loopback: %s", strerror(errno));
    close(fd);
    return ntohs(address.sin_port);
}

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

static void become_server(const char *config, pid_t parent)
{
    const char *argv[] = { JAVA,   "-Xmx256m", "-XX:-UsePerfData",
                           "-cp",  JAR,        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                           config, NULL };
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_INTERNAL);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    execv(JAVA, (char *const *)(uintptr_t)argv);
    _exit(EXIT_INTERNAL);
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
    pid_t parent = getpid();

    if (!server)
        bench_die("out of memory");
    if (access(JAVA, X_OK) != 0 || access(JAR, R_OK) != 0)
        bench_skip(bench, "ZooKeeper (" JAR ") or Java is not installed");
    server->port = free_port();
    snprintf(config, sizeof config, "%s/zoo.cfg", bench->dir);
    write_config(bench, server->port, config);
    server->pid = fork();
    if (server->pid < 0)
        bench_die("fork: %s", strerror(errno));
    if (server->pid == 0)
        become_server(config, parent);
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
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    free(server);
}

double zk_server_requests(const struct zk_server *server)
{
    return ask(server, "Received: ");
}
