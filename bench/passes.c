/* SPDX-License-Identifier: MIT */
/*
 * Sixteen threads of one process want one name, all the time: the lease is passed on between them
 * without the store. Against the same ticket lock, between threads.
 */
#include "crew.h"
#include "measures.h"
#include "ours.h"
#include "rounds.h"
#include "ticket.h"

#define THREADS 16
#define ROUND_S 0.2

struct common {
    hf_store *store;
    hf_acquire_request passing, strict;
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
    ours_release(ours_acquire(common->store, &common->passing));
}

static void step_strict(void *self, int64_t hold_ns)
{
    struct common *common = self;

    (void)hold_ns;
    ours_release(ours_acquire(common->store, &common->strict));
}

static void step_ticket(void *self, int64_t hold_ns)
{
    struct common *common = self;

    (void)hold_ns;
    ticket_release(&common->ticket, ticket_acquire(&common->ticket));
}

void measure_passes(struct bench *bench)
{
    enum { PASSING, TICKET, STRICT, COUNT };
    static struct rounds rounds;
    static struct common common;
    static struct team teams[COUNT] = { { .step = step_passing },
                                        { .step = step_ticket },
                                        { .step = step_strict } };
    struct contender contenders[COUNT];
    struct crew *crew;
    struct row *row;

    common.store = ours_open(bench->dir, "store");
    common.passing = ours_request(OURS_NAME, 0);
    common.strict = ours_request("bench-name-strict", HF_FLAG_STRICT);
    ticket_init(&common.ticket, 0);
    crew = crew_start(CREW_THREADS, THREADS, enter, &common);
    for (int i = 0; i < COUNT; i++) {
        teams[i].crew = crew;
        contenders[i] = (struct contender){ team_round, &teams[i] };
    }

    rounds_run(bench, 1, ROUND_S, contenders, COUNT, &rounds);
    rounds_rates(bench, &rounds, PASSING, "local passes", TICKET, "ticket lock on private futexes",
                 (struct target){ AT_LEAST, 0.5, 0, false });
    rounds_rates(bench, &rounds, STRICT, "through the store each time (HF_FLAG_STRICT)", TICKET,
                 "ticket lock on private futexes", (struct target){ 0 });
    row = bench_row(bench, UNIT_PLAIN, "fairness (Jain) of local passes", "ticket lock");
    row->measured = team_jain(&teams[PASSING]);
    row->baseline = team_jain(&teams[TICKET]);
    row->rounds = rounds.count;
    crew_end(crew);
    ours_close(common.store);
}
