/* SPDX-License-Identifier: MIT */
/* A redis-server of the bench's own: on a free port of the loopback, in a measurement's directory, with
 * nothing written to disk. It ends with the measurement, whatever happens. */
#ifndef BENCH_REDIS_SERVER_H
#define BENCH_REDIS_SERVER_H

#include "bench.h"
#include "contest.h"
#include "raw_redis.h"

#include <sys/types.h>

struct redis_server {
    pid_t pid;
    uint16_t port;
    char url[64]; /* redis://127.0.0.1:PORT */
    struct raw_redis *control;
};

/* Before any thread. bench_skip() if none is installed. */
struct redis_server *redis_server_start(const struct bench *bench);
void redis_server_stop(struct redis_server *server);

/* What it has done so far. */
struct redis_work {
    /* that clients sent; those that scripts call, and our own INFO, do not count */
    double commands;
    double scripts; /* of them: script calls */
    double hdels;   /* by clients and by scripts: not among `commands` */
    double cpu_s;
};
struct redis_work redis_server_work(struct redis_server *server);
/* The commands of uncontended pairs, whose releases are HDEL: no script deletes a field then. */
double redis_server_pairs(void *server);
/* As a contest counts it. */
struct contest_server redis_server_counted(struct redis_server *server);
/* redis_queue.c: the raw queue there, as a side of a contest. */
struct contest_side redis_raw_queue(struct redis_server *server);

#endif
