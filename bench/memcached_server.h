/* SPDX-License-Identifier: MIT */
/* A memcached of the bench's own, on a free port of the loopback, and a raw connection to it: one blocking
 * socket. It ends with the measurement, whatever happens. */
#ifndef BENCH_MEMCACHED_SERVER_H
#define BENCH_MEMCACHED_SERVER_H

#include "contest.h"

#include <sys/types.h>

#define MEMCACHED_LINE 64

struct memcached_server {
    pid_t pid;
    uint16_t port;
    char url[64]; /* memcached://127.0.0.1:PORT */
    int control;
};

/* Before any thread. bench_skip() if none is installed. */
struct memcached_server *memcached_server_start(const struct bench *bench);
void memcached_server_stop(struct memcached_server *server);
struct contest_server memcached_server_counted(struct memcached_server *server);

int memcached_connect(uint16_t port); /* -1: nobody listens */
/* Send, and wait for the one line that answers. */
void memcached_ask(int fd, const char *bytes, size_t len, char ret_line[MEMCACHED_LINE]);

#endif
