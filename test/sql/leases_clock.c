/* SPDX-License-Identifier: MIT */
/* mode=lease: the server's wall clock jumps. Leases are counted by it, tokens are not only by it. */
#include "calls.h"
#include "clock.h"
#include "holdfast/primitives.h"
#include "leases.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOUR_MS INT64_C(3600000)

static _Atomic int64_t *offset_us; /* which the server has mapped too: test/lib/clock_shim.c */
static char clock_dir[SERVER_PATH_ROOM];

void leases_clock_begin(void)
{
    char path[SERVER_PATH_ROOM + 8];

    make_dir(clock_dir, sizeof clock_dir, "clock", true);
    offset_us = clock_make(clock_dir);
    snprintf(path, sizeof path, "%s/clock", clock_dir);
    if (chmod(clock_dir, 0755) != 0 || chmod(path, 0644) != 0)
        give_up("%s: %s", path, strerror(errno));
    setenv(CLOCK_VARIABLE, path, 1);
    setenv("LD_PRELOAD", clock_copy_shim(), 1); /* for what we start, not for us */
}

void leases_clock_end(void)
{
    remove_dir(clock_dir);
}

static void jump(int64_t ms)
{
    atomic_fetch_add(offset_us, ms * 1000);
}

void leases_clock_jump(int64_t ms)
{
    jump(ms);
}

/* Forward: leases end early; the next one has a larger token, and the old holder is told. */
static void clock_jumps_forward(void **state)
{
    hf_store *store = leases_open(""), *second = leases_open("");
    hf_acquire_request request = mutex_request("forward"), wait = waiting_request("forward");
    hf_acquire_request alone = mutex_request("alone");
    hf_lease *lease, *next, *over;
    struct attempt attempt;

    (void)state;
    request.ttl_ms = alone.ttl_ms = 10 * LIMIT_MS;
    lease = take(store, &request);
    over = take(store, &alone);
    attempt_start(&attempt, second, &wait);
    AWAIT(count_waiters(store, "forward") == 1);
    nap_ms(500); /* the listener has looked at what is held, and does not do it again */
    jump(HOUR_MS);
    EXPECT(HF_OK, attempt_join(&attempt)); /* found by its next heartbeat */
    next = attempt.lease;
    CHECK(hf_lease_token(next) > hf_lease_token(lease));
    EXPECT(HF_LOST, hf_renew(lease, 0, &contract_error));
    EXPECT(HF_LOST, hf_renew(over, 0, &contract_error)); /* nobody has taken it, and still */
    EXPECT(HF_LOST, hf_release(over, &contract_error));
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    EXPECT(HF_BUSY, probe(store, &request));
    give(next);
    jump(-HOUR_MS);
    close_store(second);
    close_store(store);
}

/* Back: tokens go on from the highest there was, nobody gets what is held, hand-over works. */
static void clock_jumps_back(void **state)
{
    hf_store *store = leases_open(""), *second = leases_open("");
    hf_acquire_request request = mutex_request("back"), wait = waiting_request("back");
    hf_lease *lease = take(store, &request);
    uint64_t token = hf_lease_token(lease);
    struct attempt attempt;

    (void)state;
    jump(-HOUR_MS);
    EXPECT(HF_BUSY, probe(second, &request));
    EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
    attempt_start(&attempt, second, &wait);
    AWAIT(count_waiters(store, "back") == 1);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(hf_lease_token(attempt.lease) > token);
    token = hf_lease_token(attempt.lease);
    give(attempt.lease);
    lease = take(store, &request);
    CHECK(hf_lease_token(lease) > token);
    give(lease);
    jump(HOUR_MS);
    close_store(second);
    close_store(store);
}

static hf_acquire_request dead_request(const char *name, hf_kind kind)
{
    hf_acquire_request request = waiting_request(name);

    request.kind = kind;
    request.capacity = kind == HF_KIND_SEMAPHORE ? 2 : 0;
    request.flags = HF_FLAG_DETACHED; /* nobody renews it once its store is closed */
    request.ttl_ms = 2000;
    return request;
}

/* Leases of processes that died before the clock went back by an hour end within their ttl after
 * the next check, and not an hour later: granted at once, by hand-over, beside a holder that lives,
 * with a lock delay, with a waiter that was there before. */
static void dead_holders_end_after_a_jump_back(void **state)
{
    static const char *const names[] = { "at once", "handed", "beside", "delayed", "before" };
    enum { HANDED = 1, BESIDE, DELAYED, BEFORE, NAMES };
    hf_store *dead = leases_open(""), *living = leases_open(""), *second = leases_open("");
    hf_acquire_request request = mutex_request("alive"), next = waiting_request("alive");
    hf_acquire_request beside = dead_request("beside", HF_KIND_SEMAPHORE);
    struct attempt attempts[NAMES], alive, heir;
    hf_lease *lease, *other;
    char handle[HF_LEASE_TEXT_MAX];

    (void)state;
    request.ttl_ms = beside.ttl_ms = 5000;
    beside.flags = 0;
    lease = take(living, &request);
    other = take(living, &beside);
    for (int i = 0; i < NAMES; i++) {
        hf_acquire_request mine =
            dead_request(names[i], i == BESIDE ? HF_KIND_SEMAPHORE : HF_KIND_MUTEX);

        mine.lock_delay_ms = i == DELAYED ? 1000 : 0;
        if (i == HANDED) {
            hf_acquire_request first = mutex_request(names[i]);
            hf_lease *before = take(living, &first);

            attempt_start(&heir, dead, &mine);
            AWAIT(count_waiters(living, names[i]) == 1);
            give(before);
            EXPECT(HF_OK, attempt_join(&heir));
        } else {
            heir.lease = take(dead, &mine);
        }
        EXPECT(HF_OK, hf_lease_export(heir.lease, handle)); /* so the store can be closed */
        attempts[i].request = dead_request(names[i], mine.kind);
        attempts[i].request.flags = 0;
    }
    attempt_start(&attempts[BEFORE], second, &attempts[BEFORE].request);
    AWAIT(count_waiters(living, names[BEFORE]) == 1);
    EXPECT(HF_OK, hf_close(dead, 0));
    jump(-HOUR_MS);
    attempt_start(&alive, second, &next);
    for (int i = 0; i < BEFORE; i++)
        attempt_start(&attempts[i], second, &attempts[i].request);
    for (int i = 0; i < NAMES; i++) {
        EXPECT(HF_OK, attempt_join(&attempts[i]));
        give(attempts[i].lease);
    }
    CHECK(hf_lease_state(lease) == HF_STATE_HELD && hf_lease_state(other) == HF_STATE_HELD);
    CHECK(!alive.ended); /* a live lease is not shortened */
    give(lease);
    give(other);
    EXPECT(HF_OK, attempt_join(&alive));
    give(alive.lease);
    jump(HOUR_MS);
    close_store(second);
    close_store(living);
}

struct late_swap {
    hf_store *store;
    uint64_t version;
    hf_status status;
};

static void *swap_late(void *arg)
{
    struct late_swap *swap = arg;

    swap->status =
        call_cell_swap(swap->store, "late", HF_CSTRING, swap->version, "new", 3, 0, NULL, NULL);
    return NULL;
}

/* Who waited for a cell's row finds the cell over if its time ended meanwhile. */
static void cell_ends_under_a_swap(void **state)
{
    struct late_swap swap = { .store = leases_open("") };
    pthread_t thread;

    (void)state;
    EXPECT(HF_OK, call_cell_set(swap.store, "late", HF_CSTRING, "old", 3, 60000, &swap.version,
                                &contract_error));
    db_do(leases_db, "BEGIN");
    db_do(leases_db, "SELECT 1 FROM hfl_cells WHERE name = '%s' FOR UPDATE",
          leases_db->kind == DB_POSTGRES ? "\\x6c617465" : "late");
    CHECK(pthread_create(&thread, NULL, swap_late, &swap) == 0);
    nap_ms(300); /* until it waits; if it does not yet, it comes too late anyway */
    jump(HOUR_MS);
    db_do(leases_db, "COMMIT");
    CHECK(pthread_join(thread, NULL) == 0);
    EXPECT(HF_CHANGED, swap.status);
    jump(-HOUR_MS);
    close_store(swap.store);
}

const struct CMUnitTest leases_clock_cases[] = {
    cmocka_unit_test(clock_jumps_forward), cmocka_unit_test(clock_jumps_back),
    cmocka_unit_test(dead_holders_end_after_a_jump_back), cmocka_unit_test(cell_ends_under_a_swap)
};
const size_t leases_clock_count = sizeof leases_clock_cases / sizeof *leases_clock_cases;
