/* SPDX-License-Identifier: MIT */
/*
 * Eight processes want one name, all the time. Every release hands it to another process. Against
 * a ticket lock, first with no hold time, where only the hand-off counts, then with 1 ms, which is
 * still short for a lock between processes.
 */
#include "crew.h"
#include "measures.h"
#include "ours.h"
#include "rounds.h"
#include "ticket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#define PROCESSES    8
#define HOLD_NS      1000000
#define BARE_ROUND_S 0.2
#define HOLD_ROUND_S 0.25 /* long enough for some thirty turns of each */
#define BARE_SHARE   0.35

struct common {
    const char *dir;
    struct ticket_lock *ticket;
};

struct worker {
    hf_store *store;
    hf_acquire_request request;
    struct ticket_lock *ticket;
    int fd;
};

static void *enter(size_t index, void *arg)
{
    struct common *common = arg;
    struct worker *worker = calloc(1, sizeof *worker);
    char path[PATH_MAX];

    (void)index;
    if (!worker)
        bench_die("out of memory");
    worker->store = ours_open(common->dir, "store");
    worker->request = ours_request(OURS_NAME, HF_FLAG_STRICT);
    worker->ticket = common->ticket;
    snprintf(path, sizeof path, "%s/flock", common->dir);
    worker->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (worker->fd < 0)
        bench_die("%s: %s", path, strerror(errno));
    return worker;
}

static void step_ours(void *self, int64_t hold_ns)
{
    struct worker *worker = self;
    hf_lease *lease = ours_acquire(worker->store, &worker->request);

    crew_hold(hold_ns);
    ours_release(lease);
}

static void step_ticket(void *self, int64_t hold_ns)
{
    struct worker *worker = self;
    uint32_t ticket = ticket_acquire(worker->ticket);

    crew_hold(hold_ns);
    ticket_release(worker->ticket, ticket);
}

static void step_flock(void *self, int64_t hold_ns)
{
    struct worker *worker = self;

    if (flock(worker->fd, LOCK_EX) != 0)
        bench_die("flock: %s", strerror(errno));
    crew_hold(hold_ns);
    flock(worker->fd, LOCK_UN);
}

enum { OURS, TICKET, FLOCK, COUNT };

static void report_jain(struct bench *bench, const struct team *teams, const char *what)
{
    struct row *row = bench_row(bench, UNIT_PLAIN, what, "flock(2)");

    row->measured = team_jain(&teams[OURS]);
    row->baseline = team_jain(&teams[FLOCK]);
    row->rounds = (unsigned)teams[OURS].rounds - 1;
    row->target = (struct target){ AT_LEAST, 0.99, 0, true };
}

static void compare(struct bench *bench, struct crew *crew, int64_t hold_ns, double share,
                    double round_s, struct team teams[COUNT], struct rounds *ret)
{
    struct contender contenders[COUNT];
    static crew_step_fn *const steps[COUNT] = { step_ours, step_ticket, step_flock };

    for (int i = 0; i < COUNT; i++) {
        teams[i].crew = crew;
        teams[i].step = steps[i];
        teams[i].hold_ns = hold_ns;
        contenders[i] = (struct contender){ team_round, &teams[i] };
    }
    rounds_run(bench, share, round_s, contenders, COUNT, ret);
}

void measure_handoff(struct bench *bench)
{
    static struct rounds rounds;
    static struct team bare[COUNT], held[COUNT];
    struct common common = { bench->dir, crew_shared(sizeof(struct ticket_lock)) };
    struct crew *crew;

    ticket_init(common.ticket, 1);
    crew = crew_start(CREW_PROCESSES, PROCESSES, enter, &common);

    compare(bench, crew, 0, BARE_SHARE, BARE_ROUND_S, bare, &rounds);
    rounds_rates(bench, &rounds, OURS, "hand-offs, no hold time", TICKET,
                 "ticket lock on shared futexes", (struct target){ AT_LEAST, 0.5, 0, false });
    rounds_rates(bench, &rounds, OURS, "hand-offs, no hold time", FLOCK, "flock(2)",
                 (struct target){ 0 });

    compare(bench, crew, HOLD_NS, 1 - BARE_SHARE, HOLD_ROUND_S, held, &rounds);
    rounds_rates(bench, &rounds, OURS, "hand-offs, held 1 ms each", TICKET,
                 "ticket lock on shared futexes", (struct target){ AT_LEAST, 0.95, 0, false });
    rounds_rates(bench, &rounds, OURS, "hand-offs, held 1 ms each", FLOCK, "flock(2)",
                 (struct target){ 0 });
    report_jain(bench, held, "fairness (Jain), held 1 ms each");
    report_jain(bench, bare, "fairness (Jain), no hold time");
    crew_end(crew);
}
