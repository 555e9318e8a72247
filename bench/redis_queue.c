/* SPDX-License-Identifier: MIT */
/*
 * Workers that all want one name on a Redis server, again and again; against a raw queue on the same
 * server. redis-queue: 16 and 64 processes with the name held for 1 ms, and 16 with no hold time, where
 * only the hand-off counts. redis-groups: 4 processes of 16 threads, in strict order and as it is by
 * default, where a name is passed on within a process. redis-semaphore: 16 processes and 4 permits.
 */
#include "contest.h"
#include "measures.h"
#include "raw_queue.h"
#include "redis_server.h"

#define FEW           16
#define MANY          64
#define GROUPS        4
#define PERMITS       4
#define HOLD_NS       1000000
#define HOLD_ROUND_S  0.5 /* some thirty turns of each of few */
#define MANY_ROUND_S  1.0
#define GROUP_ROUND_S 2.0 /* each process gets it several times */
#define BARE_ROUND_S  0.25
#define QUICK_ROUND_S 0.1

/* ---- by hand -------------------------------------------------------------------------------- */

static void *open_raw(size_t index, void *arg)
{
    return raw_queue_open(((const struct redis_server *)arg)->port, index);
}

static void *open_raw_permits(size_t index, void *arg)
{
    return raw_permits_open(((const struct redis_server *)arg)->port, index);
}

static void acquire_raw(void *self)
{
    raw_queue_acquire(self);
}

static void release_raw(void *self)
{
    raw_queue_release(self);
}

struct contest_side redis_raw_queue(struct redis_server *server)
{
    return (struct contest_side){ "raw queue", open_raw, acquire_raw, release_raw, server };
}

/* ---- redis-queue ------------------------------------------------------------------------------ */

enum { OURS, RAW };

static struct contest *start(struct redis_server *server, const struct contest_server *counted,
                             size_t processes)
{
    const struct contest_side sides[] = { contest_ours("", server->url, 0),
                                          redis_raw_queue(server) };

    return contest_start(processes, 1, counted, sides, 2);
}

static double round_s(const struct bench *bench, double seconds)
{
    return bench->quick ? QUICK_ROUND_S : seconds;
}

void measure_redis_queue(struct bench *bench)
{
    const struct contest_targets bare = { .rate = 0.7, .jain = 0.99, .commands = 2.5 },
                                 held = { .rate = 0.95, .jain = 0.99, .p99 = 1.2, .commands = 2.5 };
    struct redis_server *server = redis_server_start(bench);
    const struct contest_server counted = redis_server_counted(server);
    struct contest *few = start(server, &counted, FEW), *many;
    double commands;

    contest_run(bench, few, 0, false, 0.2, round_s(bench, BARE_ROUND_S));
    contest_rows(bench, few, OURS, RAW, "16 processes, no hold", &bare);
    contest_run(bench, few, HOLD_NS, false, 0.4, round_s(bench, HOLD_ROUND_S));
    contest_rows(bench, few, OURS, RAW, "16 processes, 1 ms", &held);
    commands = contest_commands(few, OURS);
    contest_end(few);
    if (!bench->quick) {
        many = start(server, &counted, MANY);
        contest_run(bench, many, HOLD_NS, false, 0.4, MANY_ROUND_S);
        contest_rows(bench, many, OURS, RAW, "64 processes, 1 ms", &held);
        contest_growth(bench, &counted, "64 processes", contest_commands(many, OURS),
                       "16 processes", commands, 1.05);
        contest_end(many);
    }
    redis_server_stop(server);
}

/* ---- redis-groups ------------------------------------------------------------------------------ */

void measure_redis_groups(struct bench *bench)
{
    enum { STRICT, PASSING, BY_HAND, COUNT };
    struct redis_server *server = redis_server_start(bench);
    const struct contest_server counted = redis_server_counted(server);
    const struct contest_side sides[COUNT] = { contest_ours("strict", server->url, HF_FLAG_STRICT),
                                               contest_ours("default", server->url, 0),
                                               redis_raw_queue(server) };
    struct contest *contest = contest_start(GROUPS, MANY / GROUPS, &counted, sides, COUNT);

    contest_run(bench, contest, HOLD_NS, false, 1, round_s(bench, GROUP_ROUND_S));
    contest_rows(bench, contest, STRICT, BY_HAND, "4 x 16 threads, 1 ms",
                 &(struct contest_targets){ .rate = 0.93, .jain = 0.99 });
    contest_rows(bench, contest, PASSING, BY_HAND, "4 x 16 threads, 1 ms",
                 &(struct contest_targets){ .rate = 1.0, .jain = 0.95 });
    contest_compare(bench, contest, PASSING, STRICT, "4 x 16 threads, 1 ms",
                    &(struct contest_targets){ .p99 = 1.3 });
    contest_end(contest);
    redis_server_stop(server);
}

/* ---- redis-semaphore ------------------------------------------------------------------------------ */

/* A holder sleeps: four that are busy would want four CPUs. */
void measure_redis_semaphore(struct bench *bench)
{
    struct redis_server *server = redis_server_start(bench);
    const struct contest_server counted = redis_server_counted(server);
    hf_acquire_request request = ours_request(OURS_NAME, 0);
    struct contest_side sides[2] = { [RAW] = { "raw queue with a count", open_raw_permits,
                                               acquire_raw, release_raw, server } };
    struct contest *contest;

    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = PERMITS;
    sides[OURS] = contest_ours_as("", server->url, &request);
    contest = contest_start(FEW, 1, &counted, sides, 2);
    contest_run(bench, contest, HOLD_NS, true, 1, round_s(bench, HOLD_ROUND_S));
    contest_rows(bench, contest, OURS, RAW, "16 processes, 4 permits, 1 ms",
                 &(struct contest_targets){ .rate = 0.9, .jain = 0.99, .commands = 2.5 });
    contest_end(contest);
    redis_server_stop(server);
}
