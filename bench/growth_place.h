/* SPDX-License-Identifier: MIT */
/* The engines whose growth is measured: a fresh server for each point, its memory and its CPU time. */
#ifndef BENCH_GROWTH_PLACE_H
#define BENCH_GROWTH_PLACE_H

#include "bench.h"

#include <limits.h>
#include <sys/types.h>

struct growth_place {
    const struct growth_engine *engine;
    pid_t pid; /* of the server; 0: there is none */
    void *server;
    char url[PATH_MAX];
};

struct growth_engine {
    const char *name;
    unsigned names_max, renew_max, waiters_max, clients_max;
    unsigned client_processes; /* that clients are spread over; 0: each is a process */
    double names_a_second;     /* that one store takes, about */
    void (*start)(const struct bench *bench, struct growth_place *place, unsigned clients);
    void (*stop)(struct growth_place *place);
    /* Bytes that names and waiters take, where the server keeps them. */
    double (*bytes)(struct growth_place *place);
    /* Bytes that connections take; NULL: the same. */
    double (*memory)(struct growth_place *place);
};

extern const struct growth_engine growth_embedded, growth_redis, growth_postgres;

/* CPU seconds so far of a process and of its children that live; 0 for pid 0. */
double growth_cpu(pid_t pid);
/* Anonymous memory of both. */
double growth_anon(pid_t pid);

#endif
