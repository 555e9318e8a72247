/* SPDX-License-Identifier: MIT */
/*
 * Holdfast as a peer of bench/peers, and the clients by hand beside which all are measured. One task.
 *
 *     peer_ours WAY WHERE
 *
 * WAY: holdfast (WHERE is a URL), raw-redis (a port), raw-redlock (ports; queues on the first), raw-advisory
 * (a URL for libpq), raw-zk (host:port). Orders and answers: README.md.
 */
#include "../ours.h"
#include "../bench.h"
#include "../crew.h"
#include "../raw_limit.h"
#include "../raw_queue.h"
#include "../raw_zk.h"
#include "../redlock_nodes.h"

#include <inttypes.h>
#include <postgresql/libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WAITS_MAX 100000

/* What there is of a way; the rest is NULL. */
struct self {
    hf_store *store;
    hf_acquire_request request;
    hf_lease *lease;
    struct raw_redis *redis;
    struct raw_pair pair;
    struct raw_queue *queue;
    struct raw_redlock *redlock;
    PGconn *db;
    struct raw_zk *zk;
};

struct way {
    const char *name;
    void (*open)(struct self *self, const char *where);
    void (*pair)(struct self *self); /* NULL: acquire and release */
    void (*acquire)(struct self *self);
    void (*release)(struct self *self);
};

/* ---- the ways ---------------------------------------------------------------------------------- */

static void open_holdfast(struct self *self, const char *where)
{
    self->store = ours_open_url(where);
    self->request = ours_request(OURS_NAME, HF_FLAG_STRICT);
}

static void acquire_holdfast(struct self *self)
{
    self->lease = ours_acquire(self->store, &self->request);
}

static void release_holdfast(struct self *self)
{
    ours_release(self->lease);
}

static void open_redis(struct self *self, const char *where)
{
    uint16_t port = (uint16_t)strtoul(where, NULL, 10);

    self->redis = raw_redis_open(port);
    raw_limit_init(&self->pair, self->redis, "raw-name", 0);
    self->queue = raw_queue_open(port, (size_t)getpid());
}

static void pair_redis(struct self *self)
{
    raw_limit_do(&self->pair, self->redis);
}

static void acquire_queue(struct self *self)
{
    raw_queue_acquire(self->queue);
}

static void release_queue(struct self *self)
{
    raw_queue_release(self->queue);
}

static void open_redlock(struct self *self, const char *where)
{
    static struct redis_server servers[REDLOCK_NODES];
    struct redlock_nodes nodes = { 0 };
    char *rest;

    for (int i = 0; i < REDLOCK_NODES; i++, where = rest + (*rest == ',')) {
        servers[i].port = (uint16_t)strtoul(where, &rest, 10);
        nodes.servers[i] = &servers[i];
    }
    self->redlock = raw_redlock_open(&nodes, "raw-name");
    self->queue = raw_queue_open(servers[0].port, (size_t)getpid());
}

static void pair_redlock(struct self *self)
{
    raw_redlock_pair(self->redlock);
}

static void open_advisory(struct self *self, const char *where)
{
    self->db = PQconnectdb(where);
    if (PQstatus(self->db) != CONNECTION_OK)
        bench_die("PostgreSQL: %s", PQerrorMessage(self->db));
    PQclear(PQprepare(self->db, "lock", "SELECT pg_advisory_lock(4711)", 0, NULL));
    PQclear(PQprepare(self->db, "unlock", "SELECT pg_advisory_unlock(4711)", 0, NULL));
}

static void run(struct self *self, const char *statement)
{
    PGresult *result = PQexecPrepared(self->db, statement, 0, NULL, NULL, NULL, 0);

    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        bench_die("PostgreSQL: %s", PQerrorMessage(self->db));
    PQclear(result);
}

static void acquire_advisory(struct self *self)
{
    run(self, "lock");
}

static void release_advisory(struct self *self)
{
    run(self, "unlock");
}

static void open_zk(struct self *self, const char *where)
{
    self->zk = raw_zk_open(where);
}

static void pair_zk(struct self *self)
{
    raw_zk_pair(self->zk);
}

static void acquire_zk(struct self *self)
{
    raw_zk_lock(self->zk);
}

static void release_zk(struct self *self)
{
    raw_zk_unlock(self->zk);
}

static const struct way ways[] = {
    { "holdfast", open_holdfast, NULL, acquire_holdfast, release_holdfast },
    { "raw-redis", open_redis, pair_redis, acquire_queue, release_queue },
    { "raw-redlock", open_redlock, pair_redlock, acquire_queue, release_queue },
    { "raw-advisory", open_advisory, NULL, acquire_advisory, release_advisory },
    { "raw-zk", open_zk, pair_zk, acquire_zk, release_zk },
};

/* ---- orders --------------------------------------------------------------------------------------- */

/* An acquisition: how long it took, and when it was, by the clock that all processes share. */
struct wait {
    double us, at_us;
};

static void list(const char *name, const struct wait *waits, size_t waited, bool at)
{
    printf(",\"%s\":[", name);
    for (size_t i = 0; i < waited; i++)
        printf("%s%.0f", i ? "," : "", at ? waits[i].at_us : waits[i].us);
    putchar(']');
}

static void answer(double took, uint64_t count, const struct wait *waits, size_t waited)
{
    printf("{\"took\":%.6f,\"counts\":[%" PRIu64 "]", took, count);
    list("waits", waits, waited, false);
    list("at", waits, waited, true);
    puts("}");
    fflush(stdout);
}

static double wall_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void pair(const struct way *way, struct self *self, double seconds)
{
    int64_t start = bench_ns(), end = start + (int64_t)(seconds * 1e9);
    uint64_t count = 0;

    for (; bench_ns() < end; count++)
        if (way->pair) {
            way->pair(self);
        } else {
            way->acquire(self);
            way->release(self);
        }
    answer((double)(bench_ns() - start) / 1e9, count, NULL, 0);
}

static void queue(const struct way *way, struct self *self, double seconds, int64_t hold_ns)
{
    static struct wait waits[WAITS_MAX];
    int64_t start = bench_ns(), end = start + (int64_t)(seconds * 1e9), now = start;
    size_t waited = 0;
    uint64_t count = 0;

    while (now < end) {
        int64_t since = now;

        way->acquire(self);
        now = bench_ns();
        if (now < end) {
            count++;
            if (waited < WAITS_MAX)
                waits[waited++] = (struct wait){ (double)(now - since) / 1e3, wall_us() };
        }
        crew_hold(hold_ns);
        way->release(self);
        now = bench_ns();
    }
    answer(seconds, count, waits, waited);
}

int main(int argc, char **argv)
{
    const struct way *way = ways;
    struct self self = { 0 };
    double seconds, hold_us;
    char *rest;
    char line[128];

    if (argc < 3)
        return 64;
    while (way < ways + sizeof ways / sizeof *ways && strcmp(way->name, argv[1]) != 0)
        way++;
    if (way == ways + sizeof ways / sizeof *ways)
        return 64;
    way->open(&self, argv[2]);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        if (strncmp(line, "pair ", 5) == 0) {
            pair(way, &self, strtod(line + 5, NULL));
        } else if (strncmp(line, "queue ", 6) == 0) {
            seconds = strtod(line + 6, &rest);
            hold_us = strtod(rest, NULL);
            queue(way, &self, seconds, (int64_t)(hold_us * 1e3));
        }
    return 0;
}
