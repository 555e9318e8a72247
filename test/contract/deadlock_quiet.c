/* SPDX-License-Identifier: MIT */
/* No false positives: with detection off, or with long intervals; under load; after a lease was
 * passed on. */
#include "deadlock.h"
#include "peer.h"

#include <string.h>

/* ---- looking ---------------------------------------------------------------------------------- */

struct seen {
    size_t circles, links;
    bool tokens;
    uint64_t sessions[2];
};

static hf_status list(hf_store *store, struct seen *seen)
{
    hf_deadlocks *deadlocks = NULL;
    hf_status status = hf_deadlock_list(store, &deadlocks, &contract_error);

    seen->circles = hf_deadlock_count(deadlocks);
    for (size_t i = 0; i < seen->circles; i++) {
        const hf_deadlock *deadlock = hf_deadlock_item(deadlocks, i);

        seen->links = deadlock->waiter_count;
        seen->tokens = true;
        for (size_t k = 0; k < 2 && k < seen->links; k++) {
            const hf_deadlock_waiter *waiter = hf_deadlock_get_waiter(deadlock, k);

            seen->sessions[k] = waiter->session;
            seen->tokens &= waiter->token > 0;
            CHECK(waiter->name_len == 1 && strcmp(waiter->label, "contract") == 0);
        }
        CHECK(hf_deadlock_get_waiter(deadlock, seen->links) == NULL);
    }
    hf_free(deadlocks);
    return status;
}

static int setup_off(void **state)
{
    int result = contract_setup(state);

    contract_param("deadlock_check=0s");
    return result;
}

/* With detection off they wait, and can be seen to. */
static void shown(void **state)
{
    pthread_barrier_t ready;
    struct seen seen = { .circles = 0 };
    struct party parties[2];
    hf_cancel *cancel;
    hf_view *view = NULL;
    hf_store *store = open_store();

    (void)state;
    if (!has(NEEDED)) {
        EXPECT(HF_UNSUPPORTED, list(store, &seen));
        close_store(store);
        return;
    }
    EXPECT(HF_INVALID, hf_deadlock_list(store, NULL, &contract_error));
    EXPECT(HF_INVALID, list(NULL, &seen));
    EXPECT(HF_OK, hf_cancel_open(&cancel));
    close_store(store);
    store = open_store();
    pthread_barrier_init(&ready, NULL, 2);
    for (int i = 0; i < 2; i++) {
        parties[i] = (struct party){ .store = store,
                                     .ready = &ready,
                                     .first = waiting_request(i ? "b" : "a"),
                                     .second = waiting_request(i ? "a" : "b") };
        parties[i].second.flags = HF_FLAG_STRICT; /* seen by all at once */
        parties[i].second.cancel = cancel;
        party_start(&parties[i]);
    }
    AWAIT(count_waiters(store, "a") == 1 && count_waiters(store, "b") == 1);
    CHECK(circles(store) == 0); /* switched off: no session reports what it holds */
    EXPECT(HF_OK, hf_cancel_fire(cancel));
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(parties[i].thread, NULL) == 0);
        CHECK(parties[i].status == HF_CANCELLED || parties[i].status == HF_OK); /* it was let in */
    }
    EXPECT(HF_OK, hf_cancel_close(cancel));
    close_store(store);

    /* The interval is so long that no check happens. */
    contract_setup(NULL);
    contract_param("deadlock_check=1h");
    store = open_store();
    EXPECT(HF_OK, hf_cancel_open(&cancel));
    for (int i = 0; i < 2; i++) {
        parties[i].store = store;
        parties[i].second.cancel = cancel;
        party_start(&parties[i]);
    }
    AWAIT(count_waiters(store, "a") == 1 && count_waiters(store, "b") == 1);
    EXPECT(HF_OK, list(store, &seen));
    CHECK(seen.circles == 1 && seen.links == 2 && seen.tokens);
    CHECK(seen.sessions[0] && seen.sessions[1] && seen.sessions[0] != seen.sessions[1]);
    EXPECT(HF_OK,
           hf_store_inspect(store, NULL, 0, HF_INSPECT_FLAG_PATTERN, &view, &contract_error));
    CHECK(hf_view_count(view) == 2);
    for (int i = 0; i < 2; i++) { /* the labels are for people */
        const hf_entry *entry = hf_view_entry(view, (size_t)i);

        CHECK(strcmp(hf_entry_waiter(entry, 0)->label, "contract") == 0);
        CHECK(hf_entry_waiter(entry, 0)->session ==
              hf_entry_holder(hf_view_entry(view, (size_t)(1 - i)), 0)->session);
        CHECK(hf_entry_waiter(entry, 0)->session != hf_entry_holder(entry, 0)->session);
    }
    hf_free(view);
    EXPECT(HF_OK, hf_cancel_fire(cancel));
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(parties[i].thread, NULL) == 0);
    EXPECT(HF_OK, hf_cancel_close(cancel));
    pthread_barrier_destroy(&ready);
    close_store(store);
}

/* ---- under load ----------------------------------------------------------------------------------- */

#define CLIMBERS 4
#define NAMES    5

struct climber {
    hf_store *store;
    int count;
    unsigned seed;
    hf_status status;
    pthread_t thread;
};

static void *climber_run(void *arg)
{
    struct climber *climber = arg;

    climber->status = climb(climber->store, NAMES, climber->count, climber->seed);
    return NULL;
}

static int setup_busy(void **state)
{
    int result = contract_setup(state);

    contract_param("deadlock_check=1ms");
    return result;
}

/* Every session holds a lease while it waits, leases are handed over all the time, and a thread
 * checks all the time: no deadlock is ever reported. */
static void nobody_is_accused(void **state)
{
    struct climber climbers[CLIMBERS];
    struct peer peers[2];
    hf_store *store;
    int count = contract_processes && strcmp(contract_info.engine, "lmdb") == 0 ? 400 : 30;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    for (unsigned i = 0; i < 2; i++) {
        peer_start(&peers[i]);
        peer_climb(&peers[i], NAMES, count, 100 + i);
    }
    for (unsigned i = 0; i < CLIMBERS; i++) {
        climbers[i] = (struct climber){ .store = store, .count = count, .seed = i };
        CHECK(pthread_create(&climbers[i].thread, NULL, climber_run, &climbers[i]) == 0);
    }
    for (int i = 0; i < 20; i++)
        CHECK(circles(store) == 0);
    for (int i = 0; i < CLIMBERS; i++) {
        CHECK(pthread_join(climbers[i].thread, NULL) == 0);
        EXPECT(HF_OK, climbers[i].status);
    }
    for (int i = 0; i < 2; i++) {
        peer_idle(&peers[i]);
        peer_stop(&peers[i]);
    }
    close_store(store);
}

/* ---- what is passed on ---------------------------------------------------------------- */

static int setup_slow(void **state)
{
    int result = contract_setup(state);

    contract_param("cohort_time=0s");
    contract_param("deadlock_check=600s"); /* no request moves from a local queue to the store's */
    return result;
}

/* Takes one thing, and a second one when it may, for which it waits for ever. */
struct nester {
    hf_store *store;
    hf_acquire_request first, second;
    hf_lease *held; /* of the first */
    hf_status status;
    _Atomic int tid;
    _Atomic bool has, go, ended;
    pthread_t thread;
};

static void *nester_run(void *arg)
{
    struct nester *nester = arg;
    hf_lease *lease;

    nester->tid = thread_id();
    nester->held = take(nester->store, &nester->first);
    nester->has = true;
    AWAIT(nester->go);
    nester->status = hf_acquire(nester->store, &nester->second, &lease, NULL);
    if (nester->status == HF_OK)
        give(lease);
    nester->ended = true;
    return NULL;
}

static void nester_start(struct nester *nester, hf_store *store, const char *first,
                         const char *second)
{
    *nester = (struct nester){ .store = store,
                               .first = waiting_request(first),
                               .second = waiting_request(second) };
    nester->second.wait_ms = HF_FOREVER;
    nester->second.flags = HF_FLAG_STRICT;
    CHECK(pthread_create(&nester->thread, NULL, nester_run, nester) == 0);
}

/* A thread that waits has told the store what it holds. That another thread releases that, and a third
 * one gets it locally, must not look as though the first one had it still. */
static void given_away_meanwhile(void **state)
{
    hf_acquire_request request = waiting_request("l");
    struct nester a, x;
    struct attempt b;
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    lease = take(store, &request);
    nester_start(&x, store, "m", "l");
    AWAIT(x.has);
    nester_start(&a, store, "l", "m");
    thread_settled(&a.tid, &a.ended);
    give(lease);
    AWAIT(a.has);
    a.go = true;
    AWAIT(count_waiters(store, "m") == 1);
    attempt_start(&b, store, &request);
    attempt_settled(&b);
    give(a.held);
    EXPECT(HF_OK, attempt_join(&b));
    x.go = true;
    AWAIT(count_waiters(store, "l") == 1);
    CHECK(circles(store) == 0);
    give(b.lease);
    CHECK(pthread_join(x.thread, NULL) == 0);
    EXPECT(HF_OK, x.status);
    give(x.held);
    CHECK(pthread_join(a.thread, NULL) == 0);
    EXPECT(HF_OK, a.status);
    close_store(store);
}

int deadlock_quiet(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(shown, setup_off, contract_teardown),
        cmocka_unit_test_setup_teardown(given_away_meanwhile, setup_slow, contract_teardown),
        cmocka_unit_test_setup_teardown(nobody_is_accused, setup_busy, contract_teardown),
    };

    return cmocka_run_group_tests_name("deadlock_quiet", cases, NULL, NULL);
}
