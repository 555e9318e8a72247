/* SPDX-License-Identifier: MIT */
/*
 * What nobody uses any more is removed by those who made it, so that a store needs no cron job and its size follows its use. A sweep looks at
 * the next rows of the server: a mark there moves round. How often: a client that finds much sweeps more often, up to eight rows for each release,
 * and one that finds nothing (its names are used again and again) seldom. Whoever closes its store has released less than that, and sweeps for it.
 * Any thread; the caller's statement has been answered.
 */
#include "engine/sql/listener.h"

#include "util/clock.h"
#include "util/random.h"

#define SWEEP_BLOCKS  32 /* of PostgreSQL; about eight names each, as MariaDB counts */
#define EVERY_MIN     32 /* releases */
#define EVERY_MAX     1024
#define SWEEP_WAIT_MS 1000
#define CLOSE_ONE_IN  4 /* of the stores that have released little */
#define CLOSE_SWEEPS  8

/* Returns how many rows were removed; -1: the server does not answer. */
static int64_t sweep(struct sql_store *store, int64_t deadline_ms)
{
    struct sql_value blocks = sql_int_of(SWEEP_BLOCKS);
    struct sql_request r = {
        .call = SQL_SWEEP, .params = &blocks, .count = 1, .deadline_ms = deadline_ms
    };
    int64_t removed;

    if (sql_call(store, &r) != HF_OK)
        return -1;
    removed = sql_int(&r.rows, 0, 0);
    sql_rows_free(&r.rows);
    return removed;
}

/* How many releases from one sweep to the next, after one that removed so many rows. */
static uint32_t next_every(uint32_t every, int64_t removed)
{
    if (removed >= every / 2)
        every /= 2;
    else if (removed < every / 8)
        every *= 2;
    return every < EVERY_MIN ? EVERY_MIN : every > EVERY_MAX ? EVERY_MAX : every;
}

void sql_sweep_released(struct sql_store *store)
{
    uint32_t every = atomic_load(&store->sweep_every), count = atomic_fetch_add(&store->unswept, 1);

    if (every == 0)
        every = 2 * EVERY_MIN;
    /* One of the threads that come here at the same time sweeps. */
    if (++count < every || !atomic_compare_exchange_strong(&store->unswept, &count, 0))
        return;
    atomic_store(&store->sweep_every,
                 next_every(every, sweep(store, hfi_now_ms() + SWEEP_WAIT_MS)));
}

void sql_sweep_closing(struct sql_store *store, bool known)
{
    int64_t until_ms = hfi_now_ms() + SWEEP_WAIT_MS, left = atomic_load(&store->unswept);
    struct sql_value client = sql_int_of(store->client);
    struct sql_request r = {
        .call = SQL_LEAVE, .params = &client, .count = 1, .deadline_ms = until_ms
    };
    unsigned in_vain = 0;

    if (known) {
        if (sql_call(store, &r) != HF_OK)
            return; /* a sweep of another client finds it */
        sql_rows_free(&r.rows);
    }
    if (store->host->existing || (left < EVERY_MIN / 2 && hfi_random_u64() % CLOSE_ONE_IN != 0))
        return;
    left++;
    for (unsigned i = 0; i < CLOSE_SWEEPS && in_vain < 2 && left > 0; i++) {
        int64_t removed = sweep(store, until_ms);

        left -= removed > EVERY_MIN ? removed : EVERY_MIN;
        in_vain = removed < EVERY_MIN / 2 ? in_vain + 1 : 0;
    }
}
