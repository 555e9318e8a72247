/* SPDX-License-Identifier: MIT */
/*
 * How long it takes from the call that releases until another process's waiting acquire has it; on
 * PostgreSQL against a raw commit with a NOTIFY until another connection hears of it, on MariaDB against
 * the server's own lock.
 */
#include "measures.h"
#include "ours.h"
#include "rounds.h"
#include "sql.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#define TURNS       400
#define QUICK_TURNS 40

/* Two threads that take turns: one releases, the other acquires. Each has a store of its own, so
 * nothing is passed locally. */
struct duel {
    const struct sql_kind *kind;
    hf_store *giver, *getter;
    hf_acquire_request request;
    struct sql_raw *raw_giver, *raw_getter;
    unsigned turns;
    sem_t go, done;
    int64_t got_ns;
    bool raw;
};

static void *get(void *arg)
{
    struct duel *duel = arg;

    for (unsigned i = 0; i < duel->turns; i++) {
        hf_lease *lease = NULL;

        sem_wait(&duel->go);
        if (!duel->raw)
            lease = ours_acquire(duel->getter, &duel->request);
        else if (duel->kind->hear)
            duel->kind->hear(duel->raw_getter);
        else
            duel->kind->session_lock(duel->raw_getter);
        duel->got_ns = bench_ns();
        if (!duel->raw)
            ours_release(lease);
        else if (!duel->kind->hear)
            duel->kind->session_unlock(duel->raw_getter);
        sem_post(&duel->done);
    }
    return NULL;
}

/* It is in the queue: from here on it is only woken. */
static void wait_for_waiter(hf_store *store)
{
    size_t waiters = 0;

    while (waiters == 0) {
        hf_view *view;
        hf_error err;

        if (hf_store_inspect(store, OURS_NAME, HF_CSTRING, 0, &view, &err) != HF_OK)
            bench_die("inspect: %s", err.text);
        waiters = hf_view_count(view) ? hf_view_entry(view, 0)->waiter_count : 0;
        hf_free(view);
    }
}

static double one_turn(struct duel *duel)
{
    hf_lease *lease = NULL;
    int64_t begin;

    if (!duel->raw)
        lease = ours_acquire(duel->giver, &duel->request);
    else if (!duel->kind->hear)
        duel->kind->session_lock(duel->raw_giver);
    sem_post(&duel->go);
    if (!duel->raw)
        wait_for_waiter(duel->giver);
    bench_sleep(0.001); /* until it sleeps; a raw one says nothing of it */
    begin = bench_ns();
    if (!duel->raw)
        ours_release(lease);
    else if (duel->kind->hear)
        duel->kind->ring(duel->raw_giver);
    else
        duel->kind->session_unlock(duel->raw_giver);
    sem_wait(&duel->done);
    return (double)(duel->got_ns - begin) / 1e3;
}

static void play(struct duel *duel, bool raw, double *ret_us)
{
    pthread_t thread;

    duel->raw = raw;
    if (pthread_create(&thread, NULL, get, duel) != 0)
        bench_die("no thread to be had");
    for (unsigned i = 0; i < duel->turns; i++)
        ret_us[i] = one_turn(duel);
    pthread_join(thread, NULL);
}

static void measure(struct bench *bench, const struct sql_kind *kind, const char *against,
                    struct target target)
{
    static double ours[TURNS], raw[TURNS];
    static struct duel duel;
    struct sql_server *server = sql_server_start(bench, kind);
    struct row *row;

    duel.kind = kind;
    duel.turns = bench->quick ? QUICK_TURNS : TURNS;
    sem_init(&duel.go, 0, 0);
    sem_init(&duel.done, 0, 0);
    duel.giver = ours_open_url(sql_url(server, "lease"));
    duel.getter = ours_open_url(sql_url(server, "lease"));
    duel.request = ours_request(OURS_NAME, 0);
    duel.raw_giver = sql_open(server);
    duel.raw_getter = sql_open(server);
    if (kind->listen)
        kind->listen(duel.raw_getter);
    play(&duel, true, raw);
    play(&duel, false, ours);
    row = bench_row(bench, UNIT_MICROSECONDS, "release until the waiter has it, p50", against);
    row->measured = stats_median(ours, duel.turns > STATS_MAX ? STATS_MAX : duel.turns);
    row->baseline = stats_median(raw, duel.turns > STATS_MAX ? STATS_MAX : duel.turns);
    row->ratio = row->measured / row->baseline;
    row->target = target;
    ours_close(duel.giver);
    ours_close(duel.getter);
    kind->close(duel.raw_giver);
    kind->close(duel.raw_getter);
    sql_server_stop(server);
}

void measure_postgres_wake(struct bench *bench)
{
    measure(bench, &sql_postgres, "commit + NOTIFY until heard",
            (struct target){ AT_MOST, 2, 0, false });
}

void measure_mariadb_wake(struct bench *bench)
{
    measure(bench, &sql_mariadb, "RELEASE_LOCK until GET_LOCK",
            (struct target){ NO_TARGET, 0, 0, false });
}
