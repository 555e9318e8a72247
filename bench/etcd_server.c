/* SPDX-License-Identifier: MIT */
/* See etcd_server.h. */
#include "etcd_server.h"

#include "../test/lib/server.h"
#include "etcd_raw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define TRIES   5
#define START_S 20.0
#define LOOK_S  0.02

static pid_t begin(const struct etcd_server *server, uint16_t peer_port)
{
    char data[128], client[128], advertise[128], peer[128], own[128], cluster[128];
    const char *args[] = { "etcd", data,    client,         advertise,           peer,
                           own,    cluster, "--logger=zap", "--log-level=error", NULL };

    snprintf(data, sizeof data, "--data-dir=%s", server->dir);
    snprintf(client, sizeof client, "--listen-client-urls=%s", server->base);
    snprintf(advertise, sizeof advertise, "--advertise-client-urls=%s", server->base);
    snprintf(peer, sizeof peer, "--listen-peer-urls=http://127.0.0.1:%u", peer_port);
    snprintf(own, sizeof own, "--initial-advertise-peer-urls=http://127.0.0.1:%u", peer_port);
    snprintf(cluster, sizeof cluster, "--initial-cluster=default=http://127.0.0.1:%u", peer_port);
    return launch(args, &(struct launch){ .session = true });
}

/* False: it ended, most likely because a port was taken. */
static bool start_once(struct etcd_server *server)
{
    int64_t end = bench_ns() + (int64_t)(START_S * 1e9);
    uint16_t peer_port = free_port();

    server->port = free_port();
    snprintf(server->base, sizeof server->base, "http://127.0.0.1:%u", server->port);
    server->pid = begin(server, peer_port);
    for (;;) {
        struct etcd_raw *raw = etcd_raw_try_open(server->port);
        bool answers = raw && etcd_raw_answers(raw);

        etcd_raw_close(raw);
        if (answers)
            return true;
        if (waitpid(server->pid, NULL, WNOHANG) != 0)
            return false;
        if (bench_ns() > end)
            bench_die("our etcd does not answer");
        bench_sleep(LOOK_S);
    }
}

struct etcd_server *etcd_server_start(const struct bench *bench)
{
    struct etcd_server *server = calloc(1, sizeof *server);
    int tries = 0;

    if (!server)
        bench_die("out of memory");
    make_dir(server->dir, sizeof server->dir, "bench", true);
    if (!is_installed("etcd"))
        bench_skip(bench, "etcd is not installed");
    while (!start_once(server))
        if (++tries == TRIES)
            bench_die("etcd does not start");
    snprintf(server->url, sizeof server->url, "etcd://127.0.0.1:%u", server->port);
    return server;
}

void etcd_server_stop(struct etcd_server *server)
{
    end_process(&server->pid);
    remove_dir(server->dir);
    free(server);
}

/* Lines like grpc_server_started_total{grpc_method="Txn",...} 12 */
double etcd_server_calls(const struct etcd_server *server)
{
    static const char head[] = "grpc_server_started_total{";
    char *text = etcd_raw_metrics(server->port);
    double calls = 0;

    for (const char *line = text; (line = strstr(line, head)); line++) {
        const char *end = strstr(line, "} ");

        if (end)
            calls += strtod(end + 2, NULL);
    }
    free(text);
    return calls;
}
