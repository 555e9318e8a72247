/* SPDX-License-Identifier: MIT */
/* An etcd of the bench's own: on free ports of the loopback, its data in memory if there is such a
 * directory (it syncs every write). It ends with the measurement, whatever happens. */
#ifndef BENCH_ETCD_SERVER_H
#define BENCH_ETCD_SERVER_H

#include "bench.h"

#include <sys/types.h>

struct etcd_server {
    pid_t pid;
    uint16_t port;
    char url[64];  /* etcd://127.0.0.1:PORT */
    char base[64]; /* http://127.0.0.1:PORT */
    char dir[64];
};

/* Before any thread. bench_skip() if none is installed. */
struct etcd_server *etcd_server_start(const struct bench *bench);
void etcd_server_stop(struct etcd_server *server);
/* How many calls it has begun to serve so far, streams included. */
double etcd_server_calls(const struct etcd_server *server);

#endif
