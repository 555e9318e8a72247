/* SPDX-License-Identifier: MIT */
/* Barriers: all proceed together, again and again; a participant that is gone breaks its generation
 * for all. */
#include "both.h"

#include "agree.h"
#include "calls.h"
#include "holdfast/primitives.h"
#include "loop.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define PARTIES 3
#define ROUNDS  4

struct party {
    hf_store *store;
    const char *who;
    uint32_t parties;
    bool twice;
    int64_t wait_ms;
    hf_cancel *cancel;
    _Atomic int *here; /* how many have come, in all rounds */
    hf_lease *lease;
    hf_status status;
    char text[HF_ERROR_TEXT_MAX];
    _Atomic int tid;
    _Atomic bool ended;
    pthread_t thread;
};

static hf_status come(struct party *party)
{
    if (party->twice)
        return call_barrier_enter(party->store, "ring", HF_CSTRING, party->parties, party->who,
                                  party->wait_ms, party->cancel, &party->lease, &contract_error);
    return call_barrier_wait(party->store, "ring", HF_CSTRING, party->parties, party->who,
                             party->wait_ms, party->cancel, &contract_error);
}

static void *come_there(void *arg)
{
    struct party *party = arg;

    party->tid = thread_id();
    party->status = come(party);
    memcpy(party->text, contract_error.text, sizeof party->text);
    party->ended = true;
    return NULL;
}

static struct party party_of(hf_store *store, const char *who)
{
    return (
        struct party){ .store = store, .who = who, .parties = 2, .wait_ms = 2 * (int64_t)LIMIT_MS };
}

static void start(struct party *party)
{
    party->ended = false;
    party->tid = 0;
    CHECK(pthread_create(&party->thread, NULL, come_there, party) == 0);
    thread_settled(&party->tid, &party->ended);
}

static hf_status end(struct party *party)
{
    CHECK(pthread_join(party->thread, NULL) == 0);
    return party->status;
}

static void needs_cells(void **state)
{
    hf_store *store = open_store();
    struct party party = party_of(store, "a");
    hf_acquire_request request = mutex_request("no party");
    hf_lease *lease;

    (void)state;
    if (!has(HF_CAP_CELLS)) {
        EXPECT(HF_UNSUPPORTED, come(&party));
        party.twice = true;
        EXPECT(HF_UNSUPPORTED, come(&party));
        close_store(store);
        return;
    }
    party.parties = 0;
    EXPECT(HF_INVALID, come(&party));
    party.parties = HF_PARTICIPANTS_MAX + 1;
    EXPECT(HF_INVALID, come(&party));
    party.parties = 1;
    party.wait_ms = 0;
    EXPECT(HF_OK, come(&party)); /* all of one are here */
    party.who = NULL;
    EXPECT(HF_OK, come(&party));
    party.wait_ms = -5;
    EXPECT(HF_INVALID, come(&party));
    lease = take(store, &request);
    EXPECT(HF_INVALID, hf_barrier_leave(lease, 0, NULL, &contract_error));
    give(lease); /* it was left alone */
    close_store(store);
}

static void *go_round(void *arg)
{
    struct party *party = arg;

    for (int round = 1; round <= ROUNDS; round++) {
        (*party->here)++;
        EXPECT(HF_OK, come(party));
        CHECK(*party->here >= round * PARTIES); /* all of this round had come */
        if (party->twice)
            EXPECT(HF_OK, hf_barrier_leave(party->lease, LIMIT_MS, NULL, &contract_error));
    }
    return NULL;
}

static void all_go_on_together(void **state)
{
    static const char *const names[PARTIES] = { "a", "b", NULL };

    (void)state;
    NEEDS(HF_CAP_CELLS);
    for (int twice = 0; twice < 2; twice++) {
        struct party parties[PARTIES];
        _Atomic int here = 0;

        for (int i = 0; i < PARTIES; i++) {
            parties[i] = party_of(i == 1 ? parties[0].store : open_store(), names[i]);
            parties[i].parties = PARTIES;
            parties[i].twice = twice;
            parties[i].here = &here;
            CHECK(pthread_create(&parties[i].thread, NULL, go_round, &parties[i]) == 0);
        }
        for (int i = 0; i < PARTIES; i++)
            CHECK(pthread_join(parties[i].thread, NULL) == 0);
        CHECK(here == ROUNDS * PARTIES);
        close_store(parties[0].store);
        close_store(parties[2].store);
    }
}

/* Giving up takes the arrival back: the others still wait for another participant. */
static void who_gives_up_has_not_come(void **state)
{
    struct party a, b, c;
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    a = party_of(store, "a");
    b = party_of(store, "b");
    c = party_of(store, "c");
    a.wait_ms = 20;
    EXPECT(HF_TIMEOUT, come(&a));
    CHECK(!strstr(contract_error.text, "granted")); /* nothing is granted here */
    start(&b);
    CHECK(!b.ended);
    a.wait_ms = LIMIT_MS;
    a.parties = 3;
    EXPECT(HF_MISMATCH, come(&a));
    a.parties = 2;
    a.twice = true;
    EXPECT(HF_MISMATCH, come(&a));
    CHECK(hf_cancel_open(&c.cancel) == HF_OK);
    CHECK(hf_cancel_fire(b.cancel = c.cancel) == HF_OK);
    EXPECT(HF_CANCELLED, come(&c));
    CHECK(!b.ended);
    c.cancel = NULL;
    EXPECT(HF_OK, come(&c));
    EXPECT(HF_OK, end(&b));
    CHECK(hf_cancel_close(b.cancel) == HF_OK);
    close_store(store);
}

/* The token of the lease of a participant; 0: it has none yet. */
static uint64_t party_token(hf_store *store, const char *name, size_t len)
{
    hf_view *view = NULL;
    uint64_t token = 0;

    EXPECT(HF_OK, hf_store_inspect(store, name, len, 0, &view, &contract_error));
    if (hf_view_count(view) == 1 && hf_view_entry(view, 0)->holder_count == 1)
        token = hf_entry_holder(hf_view_entry(view, 0), 0)->token;
    hf_free(view);
    return token;
}

/* End the lease of a waiting participant, as when its process dies. */
static void break_party(hf_store *store, const char *who)
{
    char name[16];
    size_t len = (size_t)snprintf(name, sizeof name, "ring.%s", who);
    uint64_t token;

    name[4] = 0;
    AWAIT((token = party_token(store, name, len)) != 0);
    EXPECT(HF_OK, hf_lease_break(store, name, len, token, &contract_error));
}

static void one_who_is_gone_breaks_it(void **state)
{
    struct party parties[PARTIES];
    hf_store *store, *other;

    (void)state;
    NEEDS(HF_CAP_CELLS | HF_CAP_INSPECT | HF_CAP_BREAK);
    store = open_store();
    other = open_store();
    for (int i = 0; i < 2; i++) {
        parties[i] = party_of(i ? other : store, i ? "b" : "a");
        parties[i].parties = PARTIES;
        start(&parties[i]);
    }
    break_party(store, "b");
    for (int i = 0; i < 2; i++) {
        EXPECT(HF_BROKEN, end(&parties[i]));
        CHECK(strstr(parties[i].text, "'b' is gone"));
    }

    /* Inside a double barrier: those who leave are told. */
    parties[0] = party_of(store, "a");
    parties[1] = party_of(other, "b");
    parties[0].twice = parties[1].twice = true;
    start(&parties[0]);
    EXPECT(HF_OK, come(&parties[1]));
    EXPECT(HF_OK, end(&parties[0]));
    break_party(store, "b");
    EXPECT(HF_BROKEN, hf_barrier_leave(parties[0].lease, HF_FOREVER, NULL, &contract_error));
    CHECK(strstr(contract_error.text, "'b' is gone"));
    EXPECT(HF_BROKEN, hf_barrier_leave(parties[1].lease, HF_FOREVER, NULL, &contract_error));
    EXPECT(HF_INVALID, hf_barrier_leave(parties[1].lease, 0, NULL, &contract_error));

    /* The next generation is as good as any. */
    start(&parties[0]);
    EXPECT(HF_OK, come(&parties[1]));
    EXPECT(HF_OK, end(&parties[0]));
    EXPECT(HF_TIMEOUT, hf_barrier_leave(parties[0].lease, 1, NULL, &contract_error));
    EXPECT(HF_OK, hf_barrier_leave(parties[1].lease, 0, NULL, &contract_error));
    close_store(store);
    close_store(other);
}

/* Who comes while others are inside is not one of them, and waits until they have left. */
static void newcomers_wait_until_all_have_left(void **state)
{
    struct party a, b, c;
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    a = party_of(store, "a");
    b = party_of(store, "b");
    c = party_of(store, "c");
    a.twice = b.twice = c.twice = true;
    start(&a);
    EXPECT(HF_OK, come(&b));
    EXPECT(HF_OK, end(&a));
    c.wait_ms = 20;
    EXPECT(HF_TIMEOUT, come(&c));
    c.wait_ms = HF_FOREVER;
    start(&c);
    EXPECT(HF_TIMEOUT, hf_barrier_leave(a.lease, 1, NULL, &contract_error));
    CHECK(!c.ended);
    EXPECT(HF_OK, hf_barrier_leave(b.lease, LIMIT_MS, NULL, &contract_error));
    EXPECT(HF_OK, come(&a));
    EXPECT(HF_OK, end(&c));
    EXPECT(HF_TIMEOUT, hf_barrier_leave(a.lease, 0, NULL, &contract_error));
    EXPECT(HF_OK, hf_barrier_leave(c.lease, 0, NULL, &contract_error));
    close_store(store);
}

/* The ttl of a participant's lease is chosen, for it is how long others take to notice a death. */
static void ttl_of_a_participant(void **state)
{
    hf_party_request request = HF_PARTY_REQUEST_INIT;
    hf_lease *lease = NULL;
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_CELLS | HF_CAP_TTL);
    store = open_store();
    request.name = "barrier";
    request.name_len = HF_CSTRING;
    request.who = "a";
    request.parties = 1;
    request.wait_ms = LIMIT_MS;
    request.ttl_ms = 1;
    EXPECT(HF_INVALID, both_barrier_enter(store, &request, &lease, &contract_error));
    CHECK(strstr(contract_error.text, "ttl_ms") && lease == NULL);
    request.ttl_ms = -1;
    EXPECT(HF_INVALID, both_barrier_wait(store, &request, &contract_error));
    EXPECT(HF_INVALID, both_latch_join(store, &request, &lease, &contract_error));
    CHECK(strstr(contract_error.text, "ttl_ms") && lease == NULL);

    request.ttl_ms = 6000;
    EXPECT(HF_OK, both_barrier_enter(store, &request, &lease, &contract_error));
    CHECK(hf_lease_remaining_ms(lease) <= 6000);
    EXPECT(HF_OK, hf_barrier_leave(lease, LIMIT_MS, NULL, &contract_error));
    request.name = "latch";
    EXPECT(HF_OK, hf_latch_create(store, "latch", HF_CSTRING, 1, &contract_error));
    EXPECT(HF_OK, both_latch_join(store, &request, &lease, &contract_error));
    CHECK(hf_lease_remaining_ms(lease) <= 6000);
    EXPECT(HF_OK, hf_release(lease, &contract_error));
    close_store(store);
}

/* hf_close() ends the waiting, and the arrival with it. */
static void closing_ends_the_wait(void **state)
{
    struct party a, b;
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    a = party_of(open_store(), "a");
    a.wait_ms = HF_FOREVER;
    start(&a);
    EXPECT(HF_OK, hf_close(a.store, HF_CLOSE_FLAG_RELEASE));
    EXPECT(HF_CANCELLED, end(&a));
    store = open_store();
    b = party_of(store, "b");
    b.parties = 1; /* no participant for two parties is here */
    EXPECT(HF_OK, come(&b));
    close_store(store);
}

#define MANY 20

/* Twenty in one process, and this thread: each call is begun, and none has a thread of its own to wait with. */
static void many_need_no_threads(void **state)
{
    struct both calls[MANY];
    char who[MANY][16];
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    for (int round = 0; round < 2; round++) {
        memset(calls, 0, sizeof calls);
        for (int i = 0; i < MANY; i++) {
            hf_party_request request = HF_PARTY_REQUEST_INIT;

            snprintf(who[i], sizeof who[i], "p%d", i);
            request.name = "crowd";
            request.name_len = HF_CSTRING;
            request.who = who[i];
            request.parties = MANY;
            request.wait_ms = 2 * (int64_t)LIMIT_MS;
            EXPECT(HF_OK, hf_barrier_wait_async(store, &request, both_done, &calls[i], NULL,
                                                &contract_error));
            memset(who[i], 'x', sizeof who[i] - 1); /* inputs are copied */
        }
        for (int i = 0; i < MANY; i++)
            EXPECT(HF_OK, both_end(store, HF_OK, &calls[i], &contract_error));
    }
    close_store(store);
}

/* hf_op_cancel() ends the waiting, and what was begun is undone: nobody is counted, no lease is left. */
static void a_cancelled_call_has_not_come(void **state)
{
    hf_party_request request = HF_PARTY_REQUEST_INIT;
    struct both call;
    hf_store *store;
    hf_op *op;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    request.name = "ring";
    request.name_len = HF_CSTRING;
    request.who = "a";
    request.parties = 2;
    request.wait_ms = HF_FOREVER;
    for (int pumps = 0; pumps < 12; pumps++) {
        memset(&call, 0, sizeof call);
        EXPECT(HF_OK,
               hf_barrier_wait_async(store, &request, both_done, &call, &op, &contract_error));
        for (int i = 0; i < pumps; i++) {
            hf_store_process(store);
            nap_ms(1);
        }
        CHECK(hf_op_cancel(op) == HF_OK);
        EXPECT(HF_CANCELLED, both_end(store, HF_OK, &call, &contract_error));
    }
    close_store(store);
}

struct told {
    _Atomic int lost;
    hf_lease *lease;
};

static void on_event(hf_lease *lease, hf_event event, const char *why, void *arg)
{
    struct told *told = arg;

    CHECK(event == HF_EVENT_LOST && why && why[0]);
    told->lease = lease;
    told->lost++;
}

/* A participant is called back when its lease is lost; a call that returns no lease takes no callback. */
static void a_party_is_told(void **state)
{
    hf_party_request request = HF_PARTY_REQUEST_INIT;
    struct told told[2] = { { .lost = 0 } };
    hf_lease *leases[2] = { NULL, NULL };
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_CELLS | HF_CAP_INSPECT | HF_CAP_BREAK | HF_CAP_TOKEN);
    store = open_store();
    EXPECT(HF_OK, hf_latch_create(store, "ring", HF_CSTRING, 1, &contract_error));
    request.name = "ring";
    request.name_len = HF_CSTRING;
    request.who = "a";
    request.on_event = on_event;
    request.on_event_arg = &told[0];
    EXPECT(HF_OK, hf_latch_join(store, &request, &leases[0], &contract_error));
    EXPECT(HF_INVALID, hf_latch_wait(store, &request, &contract_error));
    CHECK(strstr(contract_error.text, "on_event"));
    break_party(store, "a");
    LOOP_UNTIL(store, told[0].lost == 1);
    CHECK(told[0].lease == leases[0]);
    EXPECT(HF_LOST, hf_release(leases[0], &contract_error));
    EXPECT(HF_OK, hf_latch_delete(store, "ring", HF_CSTRING, &contract_error));

    request.who = "b";
    request.parties = 1;
    request.on_event_arg = &told[1];
    EXPECT(HF_INVALID, hf_barrier_wait(store, &request, &contract_error));
    CHECK(strstr(contract_error.text, "on_event"));
    EXPECT(HF_OK, hf_barrier_enter(store, &request, &leases[1], &contract_error));
    break_party(store, "b");
    LOOP_UNTIL(store, told[1].lost == 1);
    CHECK(told[1].lease == leases[1] && told[0].lost == 1);
    EXPECT(HF_LOST, hf_release(leases[1], &contract_error));
    close_store(store);
}

int agree_barrier(void)
{
    const struct CMUnitTest cases[] = {
        CASE(needs_cells),
        CASE(all_go_on_together),
        CASE(who_gives_up_has_not_come),
        CASE(one_who_is_gone_breaks_it),
        CASE(newcomers_wait_until_all_have_left),
        CASE(ttl_of_a_participant),
        CASE(closing_ends_the_wait),
        CASE(many_need_no_threads),
        CASE(a_cancelled_call_has_not_come),
        CASE(a_party_is_told),
    };

    return cmocka_run_group_tests_name("barrier", cases, NULL, NULL);
}
