/* SPDX-License-Identifier: MIT */
/* See etcd_server.h. */
#include "etcd_server.h"

#include "etcd_raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES    5
#define START_S  20.0
#define LOOK_S   0.02
#define NOT_HERE 127

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

static void become_server(const struct etcd_server *server, uint16_t peer_port, pid_t parent)
{
    char data[128], client[128], advertise[128], peer[128], own[128], cluster[128];
    const char *argv[] = { "etcd", data,    client,         advertise,           peer,
                           own,    cluster, "--logger=zap", "--log-level=error", NULL };
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    setsid(); /* as servers do: the kernel shares the CPUs out between sessions first */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_INTERNAL);
    snprintf(data, sizeof data, "--data-dir=%s", server->dir);
    snprintf(client, sizeof client, "--listen-client-urls=%s", server->base);
    snprintf(advertise, sizeof advertise, "--advertise-client-urls=%s", server->base);
    snprintf(peer, sizeof peer, "--listen-peer-urls=http://127.0.0.1:%u", peer_port);
    snprintf(own, sizeof own, "--initial-advertise-peer-urls=http://127.0.0.1:%u", peer_port);
    snprintf(cluster, sizeof cluster, "--initial-cluster=default=http://127.0.0.1:%u", peer_port);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    execvp("etcd", (char *const *)(uintptr_t)argv);
    _exit(NOT_HERE);
}

/* False: it ended, most likely because a port was taken. */
static bool start_once(const struct bench *bench, struct etcd_server *server)
{
    int64_t end = bench_ns() + (int64_t)(START_S * 1e9);
    uint16_t peer_port = free_port();
    pid_t parent = getpid();
    struct etcd_raw *raw;
    int status;

    server->port = free_port();
    snprintf(server->base, sizeof server->base, "http://127.0.0.1:%u", server->port);
    server->pid = fork();
    if (server->pid < 0)
        bench_die("fork: %s", strerror(errno));
    if (server->pid == 0)
        become_server(server, peer_port, parent);
    raw = etcd_raw_open(server->base);
    while (!strstr(etcd_raw_try(raw, "/v3/kv/range", "{\"key\":\"YQ==\"}"), "revision")) {
        if (waitpid(server->pid, &status, WNOHANG) != 0) {
            if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE)
                bench_skip(bench, "etcd is not installed");
            etcd_raw_close(raw);
            return false;
        }
        if (bench_ns() > end)
            bench_die("our etcd does not answer");
        bench_sleep(LOOK_S);
    }
    etcd_raw_close(raw);
    return true;
}

struct etcd_server *etcd_server_start(const struct bench *bench)
{
    struct etcd_server *server = calloc(1, sizeof *server);
    int tries = 0;

    if (!server)
        bench_die("out of memory");
    snprintf(server->dir, sizeof server->dir, "/dev/shm/holdfast-bench-XXXXXX");
    if (!mkdtemp(server->dir))
        snprintf(server->dir, sizeof server->dir, "%.60s", bench->dir);
    while (!start_once(bench, server))
        if (++tries == TRIES)
            bench_die("etcd does not start");
    snprintf(server->url, sizeof server->url, "etcd://127.0.0.1:%u", server->port);
    return server;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

void etcd_server_stop(struct etcd_server *server)
{
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    if (strncmp(server->dir, "/dev/shm/", 9) == 0)
        nftw(server->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(server);
}

/* Lines like grpc_server_started_total{grpc_method="Txn",...} 12 */
double etcd_server_calls(const struct etcd_server *server)
{
    static const char head[] = "grpc_server_started_total{";
    struct etcd_raw *raw = etcd_raw_open(server->base);
    const char *text = etcd_raw_get(raw, "/metrics");
    double calls = 0;

    for (const char *line = text; (line = strstr(line, head)); line++) {
        const char *end = strstr(line, "} ");

        if (end)
            calls += strtod(end + 2, NULL);
    }
    etcd_raw_close(raw);
    return calls;
}
