/* SPDX-License-Identifier: MIT */
/* Run once: the mark, which holders may set it, and that of many concurrent callers one does the
 * work. */
#include "both.h"

#include "agree.h"
#include "holdfast/primitives.h"

#include <string.h>

#define RACERS 4

/* NULL: it has been done. */
static hf_lease *begin(hf_store *store, hf_once_mark *mark)
{
    hf_acquire_request request = waiting_request("job");
    hf_lease *lease = NULL;
    hf_status status;

    request.label = "ada";
    status = hf_once_begin(store, &request, 0, &lease, mark, &contract_error);
    CHECK(status == (lease ? HF_OK : HF_DONE) && contract_error.status == status);
    return lease;
}

static bool is_done(hf_store *store)
{
    hf_status status = hf_once_get(store, "job", 3, NULL, &contract_error);

    CHECK(status == HF_OK || status == HF_NOT_FOUND);
    return status == HF_OK;
}

static void needs_cells(void **state)
{
    hf_acquire_request request = mutex_request("job");
    hf_store *store = open_store();
    hf_lease *lease = NULL;

    (void)state;
    if (!has(HF_CAP_CELLS)) {
        EXPECT(HF_UNSUPPORTED, hf_once_begin(store, &request, 0, &lease, NULL, &contract_error));
        EXPECT(HF_UNSUPPORTED, hf_once_get(store, "job", HF_CSTRING, NULL, &contract_error));
        EXPECT(HF_UNSUPPORTED, hf_once_delete(store, "job", HF_CSTRING, &contract_error));
        lease = take(store, &request);
        EXPECT(HF_UNSUPPORTED, hf_once_claim(lease, 0, NULL, &contract_error));
        EXPECT(HF_UNSUPPORTED, hf_once_finish(lease, &contract_error));
        give(lease);
    } else {
        EXPECT(HF_INVALID, hf_once_begin(store, NULL, 0, &lease, NULL, &contract_error));
        request.kind = HF_KIND_SHARED;
        EXPECT(HF_INVALID, hf_once_begin(store, &request, 0, &lease, NULL, &contract_error));
        request.kind = HF_KIND_MUTEX;
        EXPECT(HF_INVALID,
               hf_once_begin(store, &request, HF_TTL_MIN_MS - 1, &lease, NULL, &contract_error));
        EXPECT(HF_NOT_FOUND, hf_once_delete(store, "job", HF_CSTRING, &contract_error));
        lease = take(store, &request);
        EXPECT(HF_INVALID, hf_once_finish(lease, &contract_error)); /* nobody began it */
        give(lease);
        EXPECT(HF_INVALID, hf_once_finish(lease, &contract_error));
        CHECK(!is_done(store));
    }
    close_store(store);
}

static void what_is_done_stays_done(void **state)
{
    hf_once_mark mark = HF_ONCE_MARK_INIT;
    hf_store *store, *other;
    hf_lease *lease;
    uint64_t token;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    other = open_store();
    give(begin(store, &mark)); /* released without a word: not done */
    CHECK(!is_done(other));
    lease = begin(other, &mark);
    CHECK(lease);
    token = hf_lease_token(lease);
    EXPECT(HF_OK, hf_once_finish(lease, &contract_error));
    EXPECT(HF_OK, hf_once_finish(lease, &contract_error)); /* as after an unknown outcome */
    CHECK(begin(store, &mark) == NULL);                    /* done, though the lock is still held */
    EXPECT(HF_DONE, hf_once_claim(lease, 0, &mark, &contract_error));
    CHECK(mark.token == token && strcmp(mark.label, "ada") == 0);
    CHECK(mark.at_ms > 0 && mark.ttl_ms == -1);
    give(lease);
    CHECK(is_done(store));

    EXPECT(HF_OK, hf_once_delete(store, "job", HF_CSTRING, &contract_error));
    lease = begin(store, NULL);
    CHECK(lease);
    give(lease);
    close_store(store);
    close_store(other);
}

/* A holder whose lease has ended without its knowledge. */
static hf_lease *lose(hf_store *store)
{
    hf_lease *lease = begin(store, NULL);

    CHECK(lease);
    EXPECT(HF_OK, hf_lease_break(store, "job", HF_CSTRING, hf_lease_token(lease), &contract_error));
    await_lost(lease);
    return lease;
}

static void a_late_holder_cannot_mark(void **state)
{
    hf_store *store, *other;
    hf_lease *late, *lease;

    (void)state;
    NEEDS(HF_CAP_CELLS | HF_CAP_BREAK | HF_CAP_TOKEN);
    store = open_store();
    other = open_store();
    late = lose(store);
    EXPECT(HF_LOST, hf_once_claim(late, 0, NULL, &contract_error));
    lease = begin(other, NULL);
    CHECK(lease);
    EXPECT(HF_FENCED, hf_once_claim(late, 0, NULL, &contract_error));
    EXPECT(HF_FENCED, hf_once_finish(late, &contract_error));
    CHECK(!is_done(store));
    EXPECT(HF_OK, hf_once_finish(lease, &contract_error));
    EXPECT(HF_FENCED, hf_once_finish(late, &contract_error));
    give(lease);
    EXPECT(HF_LOST, hf_release(late, &contract_error));
    close_store(store);
    close_store(other);
}

/* The work has been done, and by nobody else: then the mark may be set. */
static void lost_but_nobody_came(void **state)
{
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_CELLS | HF_CAP_BREAK | HF_CAP_TOKEN);
    store = open_store();
    lease = lose(store);
    EXPECT(HF_OK, hf_once_finish(lease, &contract_error));
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    CHECK(begin(store, NULL) == NULL);
    close_store(store);
}

/* That cells with a ttl end is the cells' test. */
static void a_mark_may_end(void **state)
{
    hf_once_mark mark = HF_ONCE_MARK_INIT;
    hf_acquire_request request = mutex_request("job");
    hf_store *store;
    hf_lease *lease = NULL;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    if (!has(HF_CAP_CELL_TTL)) {
        EXPECT(HF_UNSUPPORTED,
               hf_once_begin(store, &request, 2 * LIMIT_MS, &lease, NULL, &contract_error));
        EXPECT(HF_OK, probe(store, &request));
    } else {
        EXPECT(HF_OK, hf_once_begin(store, &request, 2 * LIMIT_MS, &lease, NULL, &contract_error));
        EXPECT(HF_NOT_FOUND, hf_once_get(store, "job", HF_CSTRING, &mark, &contract_error));
        EXPECT(HF_OK, hf_once_finish(lease, &contract_error));
        give(lease);
        EXPECT(HF_OK, hf_once_get(store, "job", HF_CSTRING, &mark, &contract_error));
        CHECK(mark.ttl_ms > 0 && mark.ttl_ms <= 3 * LIMIT_MS);
    }
    close_store(store);
}

struct racer {
    hf_store *store;
    _Atomic int *did;
    pthread_t thread;
};

static void *race(void *arg)
{
    struct racer *racer = arg;
    hf_lease *lease = begin(racer->store, NULL);

    if (lease) {
        atomic_fetch_add(racer->did, 1);
        EXPECT(HF_OK, hf_once_finish(lease, &contract_error));
        give(lease);
    }
    return NULL;
}

static void one_of_many_does_it(void **state)
{
    struct racer racers[RACERS];
    _Atomic int did = 0;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    for (int i = 0; i < RACERS; i++) {
        racers[i] =
            (struct racer){ .store = i % 2 ? racers[i - 1].store : open_store(), .did = &did };
        CHECK(pthread_create(&racers[i].thread, NULL, race, &racers[i]) == 0);
    }
    for (int i = 0; i < RACERS; i++)
        CHECK(pthread_join(racers[i].thread, NULL) == 0);
    CHECK(did == 1);
    for (int i = 0; i < RACERS; i += 2)
        close_store(racers[i].store);
}

int agree_once(void)
{
    const struct CMUnitTest cases[] = {
        CASE(needs_cells),          CASE(what_is_done_stays_done), CASE(a_late_holder_cannot_mark),
        CASE(lost_but_nobody_came), CASE(a_mark_may_end),          CASE(one_of_many_does_it),
    };

    return cmocka_run_group_tests_name("once", cases, NULL, NULL);
}
