/* SPDX-License-Identifier: MIT */
/*
 * How cost grows: with the names that are held, the waiters for one name, and the clients that are
 * connected. At each point, on a fresh server: what an uncontended pair and a hand-over cost, what a lease
 * costs to be renewed, and the memory of server and clients for each of what grows.
 *
 * Costs are CPU time of all processes together, the server's included, less what they use while nothing
 * is asked of them: other work on the machine does not change it. The time by the clock is beside it.
 */
#include "growth_actor.h"
#include "growth_place.h"
#include "measures.h"
#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CROWD_MAX 1000
#define PROBE_S   0.2
#define IDLE_S    1.0
#define SETTLE_S  1.0 /* for what a new load begins in the background */
#define PROBES    5
#define SHARE     (1.0 / 3) /* of the work, for each axis */
#define LONG_MS   3600000   /* a ttl within which nothing is renewed */

/* One point: a server, a process that probes, and those that make the load. */
struct point {
    struct bench *bench;
    const struct growth_engine *engine;
    const char *axis;
    unsigned at;
    struct growth_place place;
    struct actor probe;
    struct actor crowd[CROWD_MAX];
    size_t crowd_size;
};

/* ---- beginning and ending --------------------------------------------------------------------------- */

static void begin(struct point *point, const char *axis, unsigned at, size_t crowd,
                  unsigned clients)
{
    point->axis = axis;
    point->at = at;
    point->place = (struct growth_place){ .engine = point->engine };
    point->engine->start(point->bench, &point->place, clients);
    point->probe = actor_start(point->place.url, 9999);
    point->crowd_size = crowd;
    for (size_t i = 0; i < crowd; i++)
        point->crowd[i] = actor_start(point->place.url, (unsigned)i);
    actor_do(&point->probe, &(struct actor_work){ .order = ACTOR_PAIR, .seconds = 0.05 });
}

static void end(struct point *point)
{
    actor_kill(&point->probe);
    for (size_t i = 0; i < point->crowd_size; i++)
        actor_kill(&point->crowd[i]);
    point->engine->stop(&point->place);
}

static double cpu(const struct point *point)
{
    double total = growth_cpu(point->place.pid) + growth_cpu(point->probe.pid);

    for (size_t i = 0; i < point->crowd_size; i++)
        total += growth_cpu(point->crowd[i].pid);
    return total;
}

static void put(const struct point *point, enum unit unit, const char *what, double value)
{
    struct row *row;

    if (isnan(value))
        return;
    row = bench_row(point->bench, unit, what, "");
    row->measured = value;
    row->axis = point->axis;
    row->at = point->at;
}

/* ---- what is measured ---------------------------------------------------------------------------------- */

/* CPU a second while nobody asks for anything. */
static double idle_rate(const struct point *point)
{
    double before = cpu(point), start = (double)bench_ns();

    bench_sleep(IDLE_S);
    return (cpu(point) - before) / (((double)bench_ns() - start) / 1e9);
}

/* Let `actor` do `order` some times; the medians of its cost, by CPU and by the clock. */
static void cost(const struct point *point, const struct actor *actor, enum actor_order order,
                 const char *by_cpu, const char *by_clock)
{
    const struct actor_work work = { .order = order, .seconds = PROBE_S };
    double idle = idle_rate(point), cpus[PROBES], clocks[PROBES];
    size_t probes = 0;

    for (int i = 0; i < PROBES; i++) {
        double before = cpu(point), spent;
        struct actor_done done = actor_do(actor, &work);

        spent = cpu(point) - before - idle * done.wall_s;
        if (done.operations == 0)
            continue;
        cpus[probes] = 1e6 * spent / done.operations;
        clocks[probes++] = 1e6 * done.wall_s / done.operations;
    }
    put(point, UNIT_MICROSECONDS, by_cpu, stats_median(cpus, probes));
    put(point, UNIT_MICROSECONDS, by_clock, stats_median(clocks, probes));
}

static void cost_pair(const struct point *point)
{
    bench_sleep(SETTLE_S);
    cost(point, &point->probe, ACTOR_PAIR, "pair, CPU", "pair, by the clock");
}

static void cost_hand_over(const struct point *point, const struct actor *actor)
{
    cost(point, actor, ACTOR_PASS, "hand-over, CPU", "hand-over, by the clock");
}

static void memory(const struct point *point, double server, double client)
{
    put(point, UNIT_BYTES, "server's memory, each", server / point->at);
    put(point, UNIT_BYTES, "client's memory, each", client / point->at);
}

/* ---- names that are held ---------------------------------------------------------------------------------- */

/* In a window as long as the time between two renewals every lease is renewed once. */
static void cost_renewal(const struct point *point, double every_s)
{
    double before = cpu(point);

    bench_sleep(every_s);
    put(point, UNIT_MICROSECONDS, "renewal of a lease, CPU",
        1e6 * (cpu(point) - before) / point->at);
}

static void names(struct point *point, unsigned count)
{
    bool renewed = count <= point->engine->renew_max;
    double every_s = 3 + 1.5 * count / point->engine->names_a_second, server;
    struct actor_work work = { .order = ACTOR_HOLD, .count = 1 };
    struct actor_done none, all;

    work.ttl_ms = renewed ? (int64_t)(3000 * every_s) : LONG_MS;
    begin(point, "names", count, 1, 1);
    none = actor_do(&point->crowd[0], &work);
    actor_do(&point->probe, &(struct actor_work){ .order = ACTOR_WAIT, .count = 1 });
    server = point->engine->bytes(&point->place);
    work.count = count - 1;
    all = actor_do(&point->crowd[0], &work);
    memory(point, point->engine->bytes(&point->place) - server, all.heap - none.heap);
    put(point, UNIT_PER_SECOND, "names taken", work.count / all.wall_s);
    cost_pair(point);
    cost_hand_over(point, &point->probe);
    if (renewed)
        cost_renewal(point, every_s);
    end(point);
}

/* ---- waiters ------------------------------------------------------------------------------------------------ */

static void waiters(struct point *point, unsigned count)
{
    const struct actor *crowd = &point->crowd[0];
    struct actor_done none, all;
    double server;

    begin(point, "waiters", count, 1, 1);
    none = actor_do(crowd, &(struct actor_work){ .order = ACTOR_PAIR, .seconds = 0.05 });
    server = point->engine->bytes(&point->place);
    all = actor_do(crowd, &(struct actor_work){ .order = ACTOR_WAIT, .count = count });
    memory(point, point->engine->bytes(&point->place) - server, all.heap - none.heap);
    cost_pair(point);
    cost_hand_over(point, crowd);
    end(point);
}

/* ---- clients -------------------------------------------------------------------------------------------------- */

/* Of a client the memory of its processes counts, and of the server's; not what is stored. */
static double crowd_anon(const struct point *point)
{
    double total = 0;

    for (size_t i = 0; i < point->crowd_size; i++)
        total += growth_anon(point->crowd[i].pid);
    return total;
}

static double server_memory(struct point *point)
{
    if (point->engine->memory)
        return point->engine->memory(&point->place);
    return point->engine->bytes(&point->place);
}

static void clients(struct point *point, unsigned count)
{
    unsigned most = point->engine->client_processes;
    size_t processes = most == 0 || count < most ? count : most;
    double server, client;

    begin(point, "clients", count, processes, count);
    actor_do(&point->probe, &(struct actor_work){ .order = ACTOR_WAIT, .count = 1 });
    server = server_memory(point);
    client = crowd_anon(point);
    for (size_t i = 0; i < processes; i++)
        actor_send(&point->crowd[i],
                   &(struct actor_work){ .order = ACTOR_OPEN,
                                         .count = (unsigned)((count + i) / processes),
                                         .ttl_ms = LONG_MS });
    for (size_t i = 0; i < processes; i++)
        actor_wait(&point->crowd[i]);
    memory(point, server_memory(point) - server, crowd_anon(point) - client);
    cost_pair(point);
    cost_hand_over(point, &point->probe);
    end(point);
}

/* ---- the axes ---------------------------------------------------------------------------------------------------- */

static void grow(struct point *point, void (*at)(struct point *, unsigned), const unsigned *counts,
                 unsigned most)
{
    size_t points = 0;

    while (counts[points] && counts[points] <= most)
        points++;
    for (size_t i = 0; i < points; i++) {
        at(point, counts[i]);
        bench_done(point->bench, SHARE / (double)points);
    }
}

/* What the caller said, else what the engine can reach on a small machine. */
static unsigned at_most(const struct bench *bench, unsigned most, unsigned quick)
{
    if (bench->most > 0)
        return bench->most;
    return bench->quick && most > quick ? quick : most;
}

static void measure(struct bench *bench, const struct growth_engine *engine)
{
    static const unsigned name_counts[] = { 10, 100, 1000, 10000, 100000, 1000000, 0 };
    static const unsigned waiter_counts[] = { 1, 10, 100, 1000, 10000, 0 };
    static const unsigned client_counts[] = { 1, 10, 100, 500, 1000, 2000, 5000, 0 };
    static struct point point;

    point.bench = bench;
    point.engine = engine;
    grow(&point, names, name_counts, at_most(bench, engine->names_max, 1000));
    grow(&point, waiters, waiter_counts, at_most(bench, engine->waiters_max, 1000));
    grow(&point, clients, client_counts, at_most(bench, engine->clients_max, 100));
}

void measure_growth_embedded(struct bench *bench)
{
    measure(bench, &growth_embedded);
}

void measure_growth_redis(struct bench *bench)
{
    measure(bench, &growth_redis);
}

void measure_growth_postgres(struct bench *bench)
{
    measure(bench, &growth_postgres);
}
