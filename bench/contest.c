/* SPDX-License-Identifier: MIT */
/* See contest.h. This file runs the rounds; contest_rows.c reports them, contest_ours.c is our side. */
#include "contest_run.h"

#include "crew.h"
#include "wire.h"

#include <math.h>
#include <stdlib.h>

/* What a worker is. */
struct worker {
    struct contest *contest;
    size_t index;
    void *selves[CONTEST_SIDES_MAX];
};

/* ---- workers ------------------------------------------------------------------------------- */

static void *enter(size_t index, void *arg)
{
    struct contest *contest = arg;
    struct worker *worker = calloc(1, sizeof *worker);

    if (!worker)
        bench_die("out of memory");
    worker->contest = contest;
    worker->index = index;
    for (size_t i = 0; i < contest->count; i++)
        worker->selves[i] = contest->sides[i].open(index, contest->sides[i].arg);
    return worker;
}

/* By the holder: how long it waited, and whether another process had it before. */
static void note(struct worker *worker, int64_t since)
{
    struct contest_shared *shared = worker->contest->shared;
    struct contest_waits *waits = &shared->waits[worker->index];
    size_t process = worker->index / worker->contest->threads;

    if (waits->count < CONTEST_WAITS)
        waits->us[waits->count++] = (float)(bench_ns() - since) / 1e3f;
    if (atomic_exchange(&shared->last, process) != process)
        atomic_fetch_add(&shared->changes, 1);
}

static void step(void *self, int64_t hold_ns)
{
    struct worker *worker = self;
    const struct contest_shared *shared = worker->contest->shared;
    size_t which = shared->side;
    const struct contest_side *side = &worker->contest->sides[which];
    int64_t since = bench_ns();

    side->acquire(worker->selves[which]);
    note(worker, since);
    if (shared->sleeps)
        bench_sleep((double)hold_ns / 1e9);
    else
        crew_hold(hold_ns);
    side->release(worker->selves[which]);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static int shorter(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static void look_at_waits(const struct contest *contest, struct contest_result *result, size_t at)
{
    static float all[CREW_MAX * CONTEST_WAITS];
    size_t count = 0;

    for (size_t i = 0; i < contest->workers; i++)
        for (size_t k = 0; k < contest->shared->waits[i].count; k++)
            all[count++] = contest->shared->waits[i].us[k];
    if (count == 0)
        bench_die("nobody got the name in a round");
    qsort(all, count, sizeof *all, shorter);
    result->p50[at] = (double)all[count / 2];
    result->p99[at] = (double)all[count * 99 / 100];
}

static double all_bytes(const struct contest *contest)
{
    const struct contest_server *server = &contest->server;
    double sum = server->ports[0] ? 0 : NAN;

    for (size_t i = 0; i < sizeof server->ports / sizeof *server->ports && server->ports[i]; i++)
        sum += wire_bytes(server->ports[i]);
    return sum;
}

static double all_commands(const struct contest *contest)
{
    return contest->server.commands ? contest->server.commands(contest->server.server) : NAN;
}

/* The bytes of the question for the commands are not between their two readings. */
static double side_round(void *arg, double seconds)
{
    struct contest_result *result = arg;
    struct contest *contest = result->contest;
    struct contest_shared *shared = contest->shared;
    double commands = all_commands(contest), bytes = all_bytes(contest), rate, steps;
    uint64_t before = crew_steps(contest->crew), changes = shared->changes;
    struct crew_share share;
    size_t at = result->rounds;

    shared->side = (size_t)(result - contest->results);
    for (size_t i = 0; i < contest->workers; i++)
        shared->waits[i].count = 0;
    rate = crew_round(contest->crew, step, contest->hold_ns, seconds, &share);
    if (at > STATS_MAX)
        return rate;
    steps = (double)(crew_steps(contest->crew) - before);
    result->bytes[at] = (all_bytes(contest) - bytes) / steps;
    result->commands[at] = (all_commands(contest) - commands) / steps;
    result->changes[at] = rate * (double)(shared->changes - changes) / steps;
    result->jain[at] = share.jain;
    result->starved[at] = share.starved;
    look_at_waits(contest, result, at);
    result->rounds++;
    return rate;
}

/* ---- entry points ------------------------------------------------------------------------------ */

struct contest *contest_start(size_t processes, size_t threads, const struct contest_server *server,
                              const struct contest_side *sides, size_t count)
{
    struct contest *contest = calloc(1, sizeof *contest);

    if (!contest)
        bench_die("out of memory");
    contest->workers = processes * threads;
    contest->threads = threads;
    contest->server = *server;
    contest->count = count;
    for (size_t i = 0; i < count; i++)
        contest->sides[i] = sides[i];
    contest->shared = crew_shared(sizeof *contest->shared);
    contest->crew = crew_start_groups(processes, threads, enter, contest);
    return contest;
}

void contest_run(struct bench *bench, struct contest *contest, int64_t hold_ns, bool sleeps,
                 double share, double round_s)
{
    struct contender contenders[CONTEST_SIDES_MAX];

    contest->hold_ns = hold_ns;
    contest->shared->sleeps = sleeps;
    for (size_t i = 0; i < contest->count; i++) {
        contest->results[i] = (struct contest_result){ .contest = contest, .counted = NAN };
        contenders[i] = (struct contender){ side_round, &contest->results[i] };
    }
    rounds_run(bench, share, round_s, contenders, contest->count, &contest->rates);
}

uint64_t contest_count(struct contest *contest, size_t side, int64_t hold_ns, double seconds)
{
    uint64_t before = crew_steps(contest->crew);
    struct crew_share share;

    contest->shared->side = side;
    crew_round(contest->crew, step, hold_ns, seconds, &share);
    return crew_steps(contest->crew) - before;
}

void contest_end(struct contest *contest)
{
    crew_end(contest->crew);
    munmap(contest->shared, sizeof *contest->shared);
    free(contest);
}
