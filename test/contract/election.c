/* SPDX-License-Identifier: MIT */
/* Elections: one leads, observers see it, and no former leader covers the words of a later one. */
#include "both.h"

#include "agree.h"
#include "calls.h"
#include "holdfast/primitives.h"

#include <string.h>

static hf_status campaign(hf_store *store, const char *value, hf_lease **ret_leader)
{
    hf_acquire_request request = waiting_request("chair");

    request.label = value;
    return hf_election_campaign(store, &request, value, strlen(value), ret_leader, &contract_error);
}

static hf_lease *lead(hf_store *store, const char *value)
{
    hf_lease *leader = NULL;

    EXPECT(HF_OK, campaign(store, value, &leader));
    CHECK(leader);
    return leader;
}

static hf_status observe(hf_store *store, const hf_leader *last, int64_t wait_ms,
                         hf_leader **ret_leader)
{
    return call_election_wait(store, "chair", 5, last, wait_ms, NULL, ret_leader, &contract_error);
}

/* Wait for the next leader after *seen, and replace *seen. value NULL: nobody leads. */
static void sees(hf_store *store, hf_leader **seen, const char *value)
{
    hf_leader *next = NULL;

    EXPECT(HF_OK, observe(store, *seen, LIMIT_MS, &next));
    CHECK(next && (next->leads != 0) == (value != NULL));
    CHECK(strcmp(next->value, value ? value : "") == 0 && next->value_len == strlen(next->value));
    CHECK(value || next->label[0] == 0);
    hf_free(*seen);
    *seen = next;
}

static void needs_cells(void **state)
{
    hf_acquire_request request = mutex_request("chair");
    hf_store *store = open_store();
    hf_leader *seen = NULL;
    hf_lease *leader;

    (void)state;
    if (!has(HF_CAP_CELLS)) {
        EXPECT(HF_UNSUPPORTED, campaign(store, "x", &leader));
        EXPECT(HF_UNSUPPORTED, observe(store, NULL, 0, &seen));
        leader = take(store, &request);
        EXPECT(HF_UNSUPPORTED, hf_election_set(leader, "x", 1, &contract_error));
        give(leader);
        close_store(store);
        return;
    }
    EXPECT(HF_INVALID, hf_election_campaign(store, NULL, "x", 1, &leader, &contract_error));
    EXPECT(HF_INVALID, hf_election_campaign(store, &request, NULL, 1, &leader, &contract_error));
    EXPECT(HF_INVALID, hf_election_campaign(store, &request, "x", HF_ELECTION_MAX + 1, &leader,
                                            &contract_error));
    request.kind = HF_KIND_SHARED;
    EXPECT(HF_INVALID, hf_election_campaign(store, &request, "x", 1, &leader, &contract_error));
    EXPECT(HF_INVALID, observe(store, NULL, -7, &seen));
    CHECK(strstr(contract_error.text, "not HF_FOREVER")); /* which is negative too */
    sees(store, &seen, NULL);
    EXPECT(HF_TIMEOUT, observe(store, seen, 0, &(hf_leader *){ NULL }));
    hf_free(seen);
    hf_free(NULL);
    close_store(store);
}

static void observers_follow(void **state)
{
    hf_store *store, *other;
    hf_leader *seen = NULL;
    hf_lease *leader;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    other = open_store();
    leader = lead(store, "ada");
    sees(other, &seen, "ada");
    CHECK(seen->token == hf_lease_token(leader) && strcmp(seen->label, "ada") == 0);
    EXPECT(HF_TIMEOUT, observe(other, seen, 0, &(hf_leader *){ NULL }));
    CHECK(!strstr(contract_error.text, "granted")); /* nothing is granted here */
    EXPECT(HF_OK, hf_election_set(leader, "ada again", 9, &contract_error));
    sees(other, &seen, "ada again");
    EXPECT(HF_OK, hf_election_set(leader, "", 0, &contract_error));
    sees(other, &seen, ""); /* it leads, and has nothing to say */
    EXPECT(HF_OK, hf_election_resign(leader, &contract_error));
    sees(other, &seen, NULL);
    EXPECT(HF_INVALID, hf_election_set(leader, "x", 1, &contract_error));
    leader = lead(other, "bob");
    sees(store, &seen, "bob");
    give(leader); /* without a word */
    if (has(HF_CAP_INSPECT))
        sees(store, &seen, NULL);
    hf_free(seen);
    close_store(store);
    close_store(other);
}

struct observer {
    hf_store *store;
    hf_leader *seen;
    hf_cancel *cancel;
    hf_status status;
    _Atomic int tid;
    _Atomic bool ended;
    pthread_t thread;
};

static void *watch(void *arg)
{
    struct observer *observer = arg;
    hf_leader *next = NULL;

    observer->tid = thread_id();
    observer->status = call_election_wait(observer->store, "chair", HF_CSTRING, observer->seen,
                                          HF_FOREVER, observer->cancel, &next, &contract_error);
    observer->ended = true;
    hf_free(observer->seen);
    observer->seen = next;
    return NULL;
}

static void begin_to_watch(struct observer *observer)
{
    observer->ended = false;
    observer->tid = 0;
    CHECK(pthread_create(&observer->thread, NULL, watch, observer) == 0);
    thread_settled(&observer->tid, &observer->ended);
}

static void waiting_observers_are_told(void **state)
{
    struct observer observer = { .cancel = NULL };
    hf_store *store;
    hf_lease *leader;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    observer.store = open_store();
    sees(observer.store, &observer.seen, NULL);
    begin_to_watch(&observer);
    leader = lead(store, "ada");
    CHECK(pthread_join(observer.thread, NULL) == 0);
    EXPECT(HF_OK, observer.status);
    CHECK(observer.seen->leads && strcmp(observer.seen->value, "ada") == 0);

    CHECK(hf_cancel_open(&observer.cancel) == HF_OK);
    begin_to_watch(&observer);
    CHECK(!observer.ended);
    CHECK(hf_cancel_fire(observer.cancel) == HF_OK);
    CHECK(pthread_join(observer.thread, NULL) == 0);
    EXPECT(HF_CANCELLED, observer.status);
    CHECK(hf_cancel_close(observer.cancel) == HF_OK);
    EXPECT(HF_OK, hf_election_resign(leader, &contract_error));
    close_store(observer.store);
    close_store(store);
}

static void a_former_leader_covers_nothing(void **state)
{
    hf_store *store, *other;
    hf_lease *former, *leader;
    hf_leader *seen = NULL;

    (void)state;
    NEEDS(HF_CAP_CELLS | HF_CAP_BREAK);
    store = open_store();
    other = open_store();
    former = lead(store, "ada");
    EXPECT(HF_OK,
           hf_lease_break(other, "chair", HF_CSTRING, hf_lease_token(former), &contract_error));
    await_lost(former);
    EXPECT(HF_LOST, hf_election_set(former, "ada, late", 9, &contract_error));
    leader = lead(other, "bob");
    EXPECT(has(HF_CAP_TOKEN) ? HF_FENCED : HF_LOST,
           hf_election_set(former, "ada, later", 10, &contract_error));
    EXPECT(HF_LOST, hf_election_resign(former, &contract_error));
    sees(store, &seen, "bob");
    EXPECT(HF_OK, hf_election_resign(leader, &contract_error));
    hf_free(seen);
    close_store(store);
    close_store(other);
}

#define CANDIDATES 4
#define TERMS      4

struct candidate {
    hf_store *store, *other;
    int unseen;
    pthread_t thread;
};

/* Lead, and check from another store that it is seen. */
static void *stand_for_it(void *arg)
{
    struct candidate *candidate = arg;
    hf_acquire_request request = waiting_request("chair");

    for (int i = 0; i < TERMS; i++) {
        hf_leader *seen = NULL;
        hf_lease *leader = NULL;

        if (hf_election_campaign(candidate->store, &request, "x", 1, &leader, NULL) != HF_OK ||
            call_election_wait(candidate->other, "chair", HF_CSTRING, NULL, 0, NULL, &seen, NULL) !=
                HF_OK ||
            !seen->leads || seen->token != hf_lease_token(leader))
            candidate->unseen++;
        hf_free(seen);
        if (leader)
            (void)hf_election_resign(leader, NULL);
    }
    return NULL;
}

/* Threads of one process pass the lease on to each other, which the store is told later. */
static void a_leader_by_a_local_pass_is_seen(void **state)
{
    struct candidate candidates[CANDIDATES];
    hf_store *store, *other;

    (void)state;
    NEEDS(HF_CAP_CELLS | HF_CAP_PASS);
    store = open_store();
    other = open_store();
    for (int i = 0; i < CANDIDATES; i++) {
        candidates[i] = (struct candidate){ .store = store, .other = other };
        CHECK(pthread_create(&candidates[i].thread, NULL, stand_for_it, &candidates[i]) == 0);
    }
    for (int i = 0; i < CANDIDATES; i++) {
        CHECK(pthread_join(candidates[i].thread, NULL) == 0);
        CHECK(candidates[i].unseen == 0);
    }
    close_store(store);
    close_store(other);
}

int agree_election(void)
{
    const struct CMUnitTest cases[] = {
        CASE(needs_cells),
        CASE(observers_follow),
        CASE(waiting_observers_are_told),
        CASE(a_former_leader_covers_nothing),
        CASE(a_leader_by_a_local_pass_is_seen),
    };

    return cmocka_run_group_tests_name("election", cases, NULL, NULL);
}
