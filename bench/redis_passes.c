/* SPDX-License-Identifier: MIT */
/*
 * Sixteen threads of one process want one name on a Redis server: passed on between them without the
 * server. A bare ticket lock shows what sixteen threads could do at most that take turns and sleep in between;
 * the pairs of one raw client, what they would get from the server.
 */
#include "crew.h"
#include "measures.h"
#include "ours.h"
#include "redis_server.h"
#include "rounds.h"
#include "ticket.h"

#define THREADS 16
#define ROUND_S 0.2
#define STRIDE  16

struct common {
    hf_store *store;
    hf_acquire_request request;
    struct raw_redis *redis;
    struct raw_pair raw;
    struct ticket_lock ticket;
};

static void *enter(size_t index, void *arg)
{
    (void)index;
    return arg;
}

static void step_passing(void *self, int64_t hold_ns)
{
    struct common *common = self;

    (void)hold_ns;
    ours_release(ours_acquire(common->store, &common->request));
}

static void step_ticket(void *self, int64_t hold_ns)
{
    struct common *common = self;

    (void)hold_ns;
    ticket_release(&common->ticket, ticket_acquire(&common->ticket));
}

static void step_raw(void *arg)
{
    struct common *common = arg;

    raw_pair_do(&common->raw, common->redis);
}

static double round_raw(void *arg, double seconds)
{
    return rounds_loop(step_raw, arg, seconds, STRIDE);
}

void measure_redis_passes(struct bench *bench)
{
    enum { PASSING, TICKET, RAW, COUNT };
    static struct rounds rounds;
    static struct common common;
    static struct team team = { .step = step_passing }, ticket = { .step = step_ticket };
    const struct contender contenders[COUNT] = { { team_round, &team },
                                                 { team_round, &ticket },
                                                 { round_raw, &common } };
    struct redis_server *server = redis_server_start(bench);
    struct row *row;

    common.store = ours_open_url(server->url);
    common.request = ours_request(OURS_NAME, 0);
    common.redis = raw_redis_open(server->port);
    raw_pair_init(&common.raw, common.redis, "bench-name-raw00");
    ticket_init(&common.ticket, 0);
    team.crew = ticket.crew = crew_start(CREW_THREADS, THREADS, enter, &common);

    rounds_run(bench, 1, ROUND_S, contenders, COUNT, &rounds);
    rounds_rates(bench, &rounds, PASSING, "local passes", TICKET, "ticket lock on private futexes",
                 (struct target){ AT_LEAST, 0.6, 0, false });
    rounds_rates(bench, &rounds, PASSING, "local passes", RAW, "raw pairs of one client",
                 (struct target){ 0 });
    rounds_rates(bench, &rounds, TICKET, "a ticket lock", RAW, "raw pairs of one client",
                 (struct target){ 0 });
    row = bench_row(bench, UNIT_PLAIN, "fairness (Jain) of local passes", "");
    row->measured = team_jain(&team);
    row->rounds = rounds.count;
    crew_end(team.crew);
    ours_close(common.store);
    raw_redis_close(common.redis);
    redis_server_stop(server);
}
