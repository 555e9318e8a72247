/* SPDX-License-Identifier: MIT */
/* mode=lease: blocks of tokens for threads of one process, and what the server knows of their passes; see leases.h. */
#include "leases.h"

#include <pthread.h>

struct hammer {
    hf_store *store;
    int64_t until_ms;
    uint64_t turns, lowest, highest;
    pthread_t thread;
};

static void *hammer_run(void *arg)
{
    struct hammer *h = arg;
    hf_acquire_request request = waiting_request("hammer");

    while (now_ms() < h->until_ms) {
        hf_lease *lease = take(h->store, &request);
        uint64_t token = hf_lease_token(lease);

        h->turns++;
        h->lowest = !h->lowest || token < h->lowest ? token : h->lowest;
        h->highest = token > h->highest ? token : h->highest;
        give(lease);
    }
    return NULL;
}

/* A name whose tokens are ahead of the clock (its clock was set back, say): they go on one by one, and not by blocks, or they
 * would run further and further ahead; a standby that lacks the last grants then gives smaller ones. */
static void tokens_wait_for_the_clock(void **state)
{
    hf_store *stores[2] = { leases_open("&cohort=1000&cohort_time=0s"),
                            leases_open("&cohort=1000&cohort_time=0s") };
    uint64_t turns = 0, lowest = UINT64_MAX, highest = 0;
    hf_acquire_request request = mutex_request("hammer");
    struct hammer hammers[4];

    (void)state;
    EXPECT(HF_OK, probe(stores[0], &request));
    db_do(leases_db, "UPDATE hfl_names SET %s = %s + 3600000000 WHERE name = 'hammer'",
          (leases_db->kind == DB_POSTGRES) ? "last" : "token",
          (leases_db->kind == DB_POSTGRES) ? "last" : "token");
    for (int i = 0; i < 4; i++) {
        hammers[i] = (struct hammer){ .store = stores[i % 2], .until_ms = now_ms() + 1000 };
        pthread_create(&hammers[i].thread, NULL, hammer_run, &hammers[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(hammers[i].thread, NULL);
        turns += hammers[i].turns;
        lowest = hammers[i].lowest < lowest ? hammers[i].lowest : lowest;
        highest = hammers[i].highest > highest ? hammers[i].highest : highest;
    }
    if (highest - lowest > 2 * turns)
        fail_msg("%llu tokens for %llu turns", (unsigned long long)(highest - lowest),
                 (unsigned long long)turns);
    close_store(stores[0]);
    close_store(stores[1]);
}

static uint64_t token_shown(hf_store *store, const char *name)
{
    hf_view *view = NULL;
    uint64_t token = 0;

    if (hf_store_inspect(store, name, HF_CSTRING, 0, &view, NULL) == HF_OK &&
        hf_view_count(view) == 1 && hf_view_entry(view, 0)->holder_count == 1)
        token = hf_entry_holder(hf_view_entry(view, 0), 0)->token;
    hf_free(view);
    return token;
}

/* The session that notes a local pass is ended before the note is done: the pass becomes known all the same. */
static void a_note_is_lost(void **state)
{
    hf_store *store = leases_open("&cohort_time=0s"), *other;
    hf_acquire_request request = waiting_request("passed");
    struct attempt first, next;
    hf_lease *lease;
    uint64_t old, token;

    (void)state;
    request.ttl_ms = 300000;
    lease = take(store, &request);
    attempt_start(&first, store, &request);
    attempt_settled(&first);
    attempt_start(&next, store, &request);
    attempt_settled(&next);
    give(lease);
    EXPECT(HF_OK, attempt_join(&first));
    old = hf_lease_token(first.lease);
    db_do(leases_db, "BEGIN");
    db_do(leases_db, "SELECT 1 FROM hfl_names WHERE name = 'passed' FOR UPDATE");
    give(first.lease); /* here; the note of it waits for the row */
    EXPECT(HF_OK, attempt_join(&next));
    token = hf_lease_token(next.lease);
    CHECK(token == old + 1);
    nap_ms(500);
    leases_end_sessions();
    nap_ms(500);
    db_do(leases_db, "ROLLBACK");
    other = leases_open("");
    AWAIT(token_shown(other, "passed") == token);
    EXPECT(HF_NOT_FOUND, hf_lease_break(other, "passed", HF_CSTRING, old, &contract_error));
    EXPECT(HF_OK, hf_lease_break(other, "passed", HF_CSTRING, token, &contract_error));
    hf_release(next.lease, NULL);
    close_store(other);
    leases_close(store);
}

/* ---- released, or lost before? --------------------------------------------------------------- */

struct releasing {
    hf_lease *lease;
    _Atomic int tid;
    _Atomic bool ended;
    hf_status status;
};

static void *release_it(void *arg)
{
    struct releasing *r = arg;

    r->tid = thread_id();
    r->status = hf_release(r->lease, &contract_error);
    r->ended = true;
    return NULL;
}

/* The session of a release is ended, and it is sent again: the lease is gone. That may have been the first copy, or
 * somebody before it; nobody says OK. */
static void released_or_lost(void **state)
{
    hf_store *store = leases_open("");
    hf_acquire_request request = mutex_request("gone");
    struct releasing releasing = { .lease = NULL };
    pthread_t thread;

    (void)state;
    request.ttl_ms = 300000;
    releasing.lease = take(store, &request);
    db_do(leases_db, "BEGIN");
    db_do(leases_db, "SELECT 1 FROM hfl_names WHERE name = 'gone' FOR UPDATE");
    pthread_create(&thread, NULL, release_it, &releasing);
    thread_settled(&releasing.tid, &releasing.ended);
    nap_ms(300); /* it waits for the row */
    leases_end_sessions();
    db_do(leases_db,
          leases_db->kind == DB_POSTGRES
              ? "UPDATE hfl_names SET owner = NULL, taken = 0, holders = 0 WHERE name = 'gone'"
              : "UPDATE hfl_names SET x_owner = '', taken = 0, holders = 0 WHERE name = 'gone'");
    db_do(leases_db, "COMMIT");
    pthread_join(thread, NULL);
    EXPECT(HF_UNKNOWN, releasing.status);
    AWAIT(hf_close(store, 0) == HF_OK); /* it settles by itself */
}

const struct CMUnitTest leases_token_cases[] = {
    cmocka_unit_test(tokens_wait_for_the_clock),
    cmocka_unit_test(a_note_is_lost),
    cmocka_unit_test(released_or_lost),
};
const size_t leases_token_count = sizeof leases_token_cases / sizeof *leases_token_cases;
