/* SPDX-License-Identifier: MIT */
/* A ZooKeeper server of the bench's own: on a free port of the loopback, its log in a measurement's
 * directory, synced as by default. It ends with the measurement, whatever happens. */
#ifndef BENCH_ZK_SERVER_H
#define BENCH_ZK_SERVER_H

#include "bench.h"

#include <sys/types.h>

struct zk_server {
    pid_t pid;
    uint16_t port;
    char url[64];  /* zk://127.0.0.1:PORT/bench */
    char host[32]; /* 127.0.0.1:PORT */
};

/* Before any thread. bench_skip() if Java or the server is not installed. */
struct zk_server *zk_server_start(const struct bench *bench);
void zk_server_stop(struct zk_server *server);
/* Requests that it has received so far; our own question is not one of them. */
double zk_server_requests(const struct zk_server *server);

#endif
