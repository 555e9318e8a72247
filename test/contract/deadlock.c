/* SPDX-License-Identifier: MIT */
/*
 * Deadlock detection: circles across threads, processes, names and kinds are found, one
 * of each gives up and the rest goes on; and what is no circle is left alone.
 *
 * Checks run every 20 ms here instead of every second. That nobody is stuck is seen by
 * hf_deadlocks(), which looks at once, and not by waiting.
 */
#include "peer.h"

#include <poll.h>
#include <string.h>

#define NEEDED (HF_CAP_WAITERS | HF_CAP_TOKEN)

static int setup(void **state)
{
    int result = contract_setup(state);

    contract_param("deadlock_check=20ms");
    return result;
}

static int setup_off(void **state)
{
    int result = contract_setup(state);

    contract_param("deadlock_check=0s");
    return result;
}

#define FOUND(function) cmocka_unit_test_setup_teardown(function, setup, contract_teardown)
#define OFF(function)   cmocka_unit_test_setup_teardown(function, setup_off, contract_teardown)

static void count_circle(const hf_deadlock_link *links, size_t count, void *arg)
{
    size_t *circles = arg;

    (void)links;
    CHECK(count > 0);
    (*circles)++;
}

static size_t circles(hf_store *store)
{
    size_t count = 0;

    EXPECT(HF_OK, hf_deadlocks(store, count_circle, &count, &contract_error));
    return count;
}

/* ---- sessions that are threads ------------------------------------------------------ */

#define RING_MAX 3

/* A thread that takes one thing, meets the others, and takes a second one. */
struct party {
    hf_store *store;
    hf_request first, second;
    pthread_barrier_t *ready;
    hf_status status;
    hf_error err;
    _Atomic bool ended;
    pthread_t thread;
};

static void *party_run(void *arg)
{
    struct party *party = arg;
    hf_lease *first = take(party->store, &party->first), *second = NULL;

    pthread_barrier_wait(party->ready);
    party->status = hf_acquire(party->store, &party->second, &second, &party->err);
    if (party->status == HF_OK)
        give(second);
    give(first);
    party->ended = true;
    return NULL;
}

static void party_start(struct party *party)
{
    CHECK(pthread_create(&party->thread, NULL, party_run, party) == 0);
}

/* Of parties that wait in a circle, one gives up and the others get what they want. */
static void expect_one_victim(struct party *parties, int count)
{
    int victims = 0;

    for (int i = 0; i < count; i++)
        party_start(&parties[i]);
    for (int i = 0; i < count; i++) {
        CHECK(pthread_join(parties[i].thread, NULL) == 0);
        if (parties[i].status == HF_DEADLOCK) {
            victims++;
            CHECK(parties[i].err.status == HF_DEADLOCK);
            CHECK(strstr(parties[i].err.text, "which we hold (token ") != NULL);
            CHECK(strstr(parties[i].err.text, parties[i].first.name) != NULL);
            CHECK(strstr(parties[i].err.text, parties[i].second.name) != NULL);
        } else {
            EXPECT(HF_OK, parties[i].status);
        }
    }
    CHECK(victims == 1);
}

/* Through one store, where they meet in the local queue; and through two. */
static void two_threads(void **state)
{
    hf_store *stores[2];

    (void)state;
    NEEDS(NEEDED);
    stores[0] = open_store();
    stores[1] = open_store();
    for (int round = 0; round < 4; round++) {
        pthread_barrier_t ready;
        struct party parties[2] = {
            { .store = stores[0], .first = waiting_request("a"), .second = waiting_request("b") },
            { .store = stores[round % 2],
              .first = waiting_request("b"),
              .second = waiting_request("a") }
        };

        pthread_barrier_init(&ready, NULL, 2);
        for (int i = 0; i < 2; i++) {
            parties[i].ready = &ready;
            if (round >= 2)
                parties[i].second.wait_ms = HF_FOREVER;
        }
        expect_one_victim(parties, 2);
        pthread_barrier_destroy(&ready);
    }
    CHECK(circles(stores[0]) == 0);
    close_store(stores[1]);
    close_store(stores[0]);
}

static hf_request semaphore(const char *name, uint32_t capacity, uint32_t permits)
{
    hf_request request = waiting_request(name);

    request.kind = HF_SEMAPHORE;
    request.capacity = capacity;
    request.permits = permits;
    return request;
}

/* Two of two permits with threads that wait for what the third has. */
static void semaphore_knot(void **state)
{
    pthread_barrier_t ready;
    hf_store *store;
    struct party parties[3];

    (void)state;
    NEEDS(NEEDED | HF_CAP_SEMAPHORE);
    store = open_store();
    pthread_barrier_init(&ready, NULL, 3);
    for (int i = 0; i < 3; i++)
        parties[i] = (struct party){ .store = store,
                                     .ready = &ready,
                                     .first = i ? semaphore("s", 2, 1) : waiting_request("m"),
                                     .second = i ? waiting_request("m") : semaphore("s", 2, 1) };
    expect_one_victim(parties, 3);
    pthread_barrier_destroy(&ready);
    close_store(store);
}

/* As long as one permit is with somebody who does not wait, nobody is stuck. */
static void semaphore_with_a_way_out(void **state)
{
    hf_request one = semaphore("s", 2, 1);
    struct party parties[2];
    pthread_barrier_t ready;
    hf_store *store;
    hf_lease *way_out;

    (void)state;
    NEEDS(NEEDED | HF_CAP_SEMAPHORE);
    store = open_store();
    way_out = take(store, &one);
    pthread_barrier_init(&ready, NULL, 2);
    for (int i = 0; i < 2; i++) {
        parties[i] = (struct party){ .store = store,
                                     .ready = &ready,
                                     .first = i ? one : waiting_request("m"),
                                     .second = i ? waiting_request("m") : one };
        party_start(&parties[i]);
    }
    AWAIT(count_waiters(store, "m") == 1 && count_waiters(store, "s") == 1);
    for (int i = 0; i < 5; i++)
        CHECK(circles(store) == 0);
    CHECK(!parties[0].ended && !parties[1].ended);
    give(way_out);
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(parties[i].thread, NULL) == 0);
        EXPECT(HF_OK, parties[i].status);
    }
    pthread_barrier_destroy(&ready);
    close_store(store);
}

/* ---- readers and writers ---------------------------------------------------------------- */

static hf_request kind_of(const char *name, hf_kind kind)
{
    hf_request request = waiting_request(name);

    request.kind = kind;
    return request;
}

static void upgrade(void **state)
{
    hf_request read = kind_of("rw", HF_SHARED), write = kind_of("rw", HF_EXCLUSIVE);
    hf_store *store;
    hf_lease *lease, *none = NULL;

    (void)state;
    NEEDS(NEEDED | HF_CAP_SHARED);
    store = open_store();
    lease = take(store, &read);
    EXPECT(HF_DEADLOCK, hf_acquire(store, &write, &none, &contract_error));
    CHECK(strstr(contract_error.text, "cannot become the writer") != NULL);
    write.flags = read.flags = HF_REENTRANT;
    EXPECT(HF_DEADLOCK, hf_acquire(store, &write, &none, &contract_error));
    write.flags = 0;
    write.wait_ms = 0;
    EXPECT(HF_BUSY, hf_acquire(store, &write, &none, &contract_error));
    CHECK(count_waiters(store, "rw") == 0 && count_holders(store, "rw") == 1);
    give(lease);
    write.wait_ms = LIMIT_MS;
    give(take(store, &write)); /* what has been released is in nobody's way */
    close_store(store);
}

static void *write_once(void *arg)
{
    hf_store *store = arg;
    hf_request write = kind_of("rw", HF_EXCLUSIVE);

    give(take(store, &write));
    return NULL;
}

/* We read and wait for `m`; its holder wants to read too, behind a writer who waits for us. */
static void reader_behind_writer(void **state)
{
    hf_request read = kind_of("rw", HF_SHARED);
    struct party parties[2];
    pthread_t writer;
    pthread_barrier_t ready;
    hf_store *store;
    int victims = 0;

    (void)state;
    NEEDS(NEEDED | HF_CAP_SHARED | HF_CAP_FIFO);
    store = open_store();
    pthread_barrier_init(&ready, NULL, 3);
    for (int i = 0; i < 2; i++) {
        parties[i] = (struct party){ .store = store,
                                     .ready = &ready,
                                     .first = i ? waiting_request("m") : read,
                                     .second = i ? read : waiting_request("m") };
        party_start(&parties[i]);
    }
    AWAIT(count_holders(store, "rw") == 1);
    CHECK(pthread_create(&writer, NULL, write_once, store) == 0);
    AWAIT(count_waiters(store, "rw") == 1);
    pthread_barrier_wait(&ready);
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(parties[i].thread, NULL) == 0);
        victims += parties[i].status == HF_DEADLOCK;
        CHECK(parties[i].status == HF_DEADLOCK || parties[i].status == HF_OK);
    }
    CHECK(victims == 1);
    CHECK(pthread_join(writer, NULL) == 0);
    pthread_barrier_destroy(&ready);
    close_store(store);
}

/* ---- alone ----------------------------------------------------------------------------------- */

static void *release_later(void *arg)
{
    struct attempt *helper = arg; /* `store` and `lease`; the waiter is whoever waits for "self" */

    AWAIT(count_waiters(helper->store, "self") == 1);
    for (int i = 0; i < 5; i++)
        CHECK(circles(helper->store) == 0);
    give(helper->lease);
    return NULL;
}

static void waiting_for_oneself(void **state)
{
    hf_request request = waiting_request("self");
    struct attempt helper = { .lease = NULL };
    hf_store *store, *second;
    hf_lease *none = NULL;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    second = open_store();
    helper.store = store;
    helper.lease = take(store, &request);
    request.wait_ms = HF_FOREVER;
    EXPECT(HF_DEADLOCK, hf_acquire(store, &request, &none, &contract_error));
    CHECK(strstr(contract_error.text, "we hold it ourselves") != NULL);
    EXPECT(HF_DEADLOCK, hf_acquire(second, &request, &none, &contract_error)); /* the same store */
    request.wait_ms = 100;
    EXPECT(HF_TIMEOUT, hf_acquire(store, &request, &none, &contract_error)); /* as it asked */
    give(helper.lease);

    /* A lease for another thread to release is not ours. */
    request.flags = HF_NO_SESSION;
    request.wait_ms = HF_FOREVER;
    helper.lease = take(store, &request);
    CHECK(pthread_create(&helper.thread, NULL, release_later, &helper) == 0);
    request.flags = HF_STRICT; /* where it is seen: in the store */
    give(take(store, &request));
    CHECK(pthread_join(helper.thread, NULL) == 0);
    close_store(second);
    close_store(store);
}

/* ---- scopes, processes, and sessions as text ---------------------------------------------------- */

struct member {
    struct peer *peer;
    hf_request first, second;
    pthread_barrier_t ready; /* it goes on to the second one when somebody else comes here */
    hf_status status;
    pthread_t thread;
};

static void *member_run(void *arg)
{
    struct member *member = arg;

    EXPECT(HF_OK, peer_acquire(member->peer, 0, &member->first));
    pthread_barrier_wait(&member->ready);
    member->status = peer_acquire(member->peer, 1, &member->second);
    if (member->status == HF_OK)
        EXPECT(HF_OK, peer_release(member->peer, 1));
    EXPECT(HF_OK, peer_release(member->peer, 0));
    return NULL;
}

/* Let a peer take `first`, and then, as one session, `second`; and give both back. */
static void member_start(struct member *member, struct peer *peer, const hf_request *first,
                         const hf_request *second)
{
    *member = (struct member){ .peer = peer, .first = *first, .second = *second };
    member->first.scope = member->second.scope = 1;
    member->second.wait_ms = HF_FOREVER;
    pthread_barrier_init(&member->ready, NULL, 2);
    CHECK(pthread_create(&member->thread, NULL, member_run, member) == 0);
}

/* Three peers, each a process of its own where the engine serves several. */
static void ring_of_three(void **state)
{
    static const char *const names[] = { "r0", "r1", "r2" };
    struct peer peers[3];
    struct member members[3];
    hf_store *store;
    int victims = 0;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    for (int i = 0; i < 3; i++)
        peer_start(&peers[i]);
    for (int i = 0; i < 3; i++) {
        hf_request first = waiting_request(names[i]), second = waiting_request(names[(i + 1) % 3]);

        member_start(&members[i], &peers[i], &first, &second);
        AWAIT(count_holders(store, names[i]) == 1);
    }
    for (int i = 0; i < 3; i++)
        pthread_barrier_wait(&members[i].ready);
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_join(members[i].thread, NULL) == 0);
        victims += members[i].status == HF_DEADLOCK;
        CHECK(members[i].status == HF_DEADLOCK || members[i].status == HF_OK);
    }
    CHECK(victims == 1);
    for (int i = 0; i < 3; i++)
        peer_stop(&peers[i]);
    close_store(store);
}

struct heard {
    bool done;
    hf_status status;
    hf_lease *lease;
    char text[HF_ERROR_TEXT_MAX];
};

static void on_done(hf_status status, hf_lease *lease, const hf_error *err, void *arg)
{
    struct heard *heard = arg;

    *heard = (struct heard){ .done = true, .status = status, .lease = lease };
    memcpy(heard->text, err->text, sizeof heard->text);
}

static void await_done(hf_store *store, struct heard *heard)
{
    int64_t until = now_ms() + LIMIT_MS;

    while (!heard->done) {
        struct pollfd fd = { .fd = hf_fd(store), .events = POLLIN };
        int limit = hf_timeout_ms(store);

        CHECK(now_ms() < until);
        poll(&fd, 1, limit < 0 || limit > 100 ? 100 : limit);
        EXPECT(HF_OK, hf_process(store));
    }
}

/* An event loop: scope 5 is a task of it. A peer is the other half. */
static void tasks_of_a_loop(void **state)
{
    hf_request a = waiting_request("a"), b = waiting_request("b");
    struct heard first = { .done = false }, second = first;
    struct member member;
    struct peer peer;
    hf_store *store;

    (void)state;
    NEEDS(NEEDED);
    peer_start(&peer);
    store = open_store();
    a.scope = b.scope = 5;
    EXPECT(HF_OK, hf_acquire_async(store, &a, on_done, &first, NULL, &contract_error));
    await_done(store, &first);
    EXPECT(HF_OK, first.status);
    member_start(&member, &peer, &b, &a);
    AWAIT(count_holders(store, "b") == 1);
    EXPECT(HF_OK, hf_acquire_async(store, &b, on_done, &second, NULL, &contract_error));
    pthread_barrier_wait(&member.ready);
    await_done(store, &second);
    if (second.status == HF_OK)
        give(second.lease);
    give(first.lease);
    CHECK(pthread_join(member.thread, NULL) == 0);
    CHECK((second.status == HF_DEADLOCK && member.status == HF_OK) ||
          (second.status == HF_OK && member.status == HF_DEADLOCK));
    if (second.status == HF_DEADLOCK) {
        CHECK(strstr(second.text, "'b' held by peer") != NULL);
        CHECK(strstr(second.text, "'a', which we hold") != NULL);
    }
    peer_stop(&peer);
    close_store(store);
}

/* Two tasks of one loop, which meet in the local queue. */
static void tasks_of_one_loop(void **state)
{
    hf_request requests[2] = { waiting_request("a"), waiting_request("b") };
    struct heard first[2] = { { .done = false } }, second[2] = { { .done = false } };
    hf_store *store;
    int victim;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    for (unsigned i = 0; i < 2; i++) {
        requests[i].scope = 5 + i;
        EXPECT(HF_OK,
               hf_acquire_async(store, &requests[i], on_done, &first[i], NULL, &contract_error));
        await_done(store, &first[i]);
        EXPECT(HF_OK, first[i].status);
    }
    for (unsigned i = 0; i < 2; i++) {
        requests[1 - i].scope = 5 + i;
        EXPECT(HF_OK, hf_acquire_async(store, &requests[1 - i], on_done, &second[i], NULL,
                                       &contract_error));
    }
    AWAIT((EXPECT(HF_OK, hf_process(store)), second[0].done || second[1].done));
    victim = second[0].done ? 0 : 1;
    EXPECT(HF_DEADLOCK, second[victim].status);
    CHECK(!second[1 - victim].done);
    give(first[victim].lease);
    await_done(store, &second[1 - victim]);
    EXPECT(HF_OK, second[1 - victim].status);
    give(second[1 - victim].lease);
    give(first[1 - victim].lease);
    close_store(store);
}

/* Who works for us waits with what we hold in its hands. */
static void session_of_another(void **state)
{
    hf_request a = waiting_request("a"), b = waiting_request("b");
    char text[HF_SESSION_MAX], longer[HF_SESSION_MAX];
    struct peer peer;
    struct member member;
    struct attempt worker;
    hf_store *store;
    hf_lease *lease, *other;

    (void)state;
    NEEDS(NEEDED);
    peer_start(&peer);
    store = open_store();
    lease = take(store, &a);
    EXPECT(HF_OK, hf_session_text(lease, NULL, text, &contract_error));
    other = take(store, &(hf_request){ .size = sizeof a, .name = "other" });
    EXPECT(HF_OK, hf_session_text(other, text, longer, &contract_error));
    CHECK(strncmp(longer, text, strlen(text)) == 0 && strlen(longer) > strlen(text));
    for (int i = 0; i < 20; i++) /* it never grows too long, and is never wrong */
        EXPECT(HF_OK, hf_session_text(other, longer, longer, &contract_error));
    EXPECT(HF_OK, hf_session_text(other, "nonsense", longer, &contract_error));
    give(other);

    member_start(&member, &peer, &b, &a);
    AWAIT(count_holders(store, "b") == 1);
    b.session = text;
    attempt_start(&worker, store, &b);
    AWAIT(count_waiters(store, "b") == 1);
    pthread_barrier_wait(&member.ready);
    if (attempt_join(&worker) == HF_OK)
        give(worker.lease);
    give(lease);
    CHECK(pthread_join(member.thread, NULL) == 0);
    CHECK((worker.status == HF_DEADLOCK && member.status == HF_OK) ||
          (worker.status == HF_OK && member.status == HF_DEADLOCK));
    peer_stop(&peer);
    close_store(store);
}

/* ---- looking ---------------------------------------------------------------------------------- */

struct seen {
    size_t circles, links;
    char first[8], tokens;
    uint64_t sessions[2];
};

static void note_circle(const hf_deadlock_link *links, size_t count, void *arg)
{
    struct seen *seen = arg;

    seen->circles++;
    seen->links = count;
    seen->tokens = count == 2 && links[0].token > 0 && links[1].token > 0;
    for (size_t i = 0; i < 2 && i < count; i++) {
        seen->sessions[i] = links[i].session;
        CHECK(links[i].name_len == 1 && strcmp(links[i].label, "contract") == 0);
    }
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
        EXPECT(HF_UNSUPPORTED, hf_deadlocks(store, note_circle, &seen, &contract_error));
        close_store(store);
        return;
    }
    EXPECT(HF_INVALID, hf_deadlocks(store, NULL, NULL, &contract_error));
    EXPECT(HF_INVALID, hf_deadlocks(NULL, note_circle, &seen, &contract_error));
    EXPECT(HF_OK, hf_cancel_new(&cancel));
    close_store(store);
    store = open_store();
    pthread_barrier_init(&ready, NULL, 2);
    for (int i = 0; i < 2; i++) {
        parties[i] = (struct party){ .store = store,
                                     .ready = &ready,
                                     .first = waiting_request(i ? "b" : "a"),
                                     .second = waiting_request(i ? "a" : "b") };
        parties[i].second.flags = HF_STRICT; /* seen by all at once */
        parties[i].second.cancel = cancel;
        party_start(&parties[i]);
    }
    AWAIT(count_waiters(store, "a") == 1 && count_waiters(store, "b") == 1);
    CHECK(circles(store) == 0); /* switched off: nobody says what it holds */
    EXPECT(HF_OK, hf_cancel_fire(cancel));
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(parties[i].thread, NULL) == 0);
        CHECK(parties[i].status == HF_CANCELLED || parties[i].status == HF_OK); /* it was let in */
    }
    EXPECT(HF_OK, hf_cancel_free(cancel));
    close_store(store);

    /* So long between checks that nobody comes to it. */
    contract_setup(NULL);
    contract_param("deadlock_check=1h");
    store = open_store();
    EXPECT(HF_OK, hf_cancel_new(&cancel));
    for (int i = 0; i < 2; i++) {
        parties[i].store = store;
        parties[i].second.cancel = cancel;
        party_start(&parties[i]);
    }
    AWAIT(count_waiters(store, "a") == 1 && count_waiters(store, "b") == 1);
    EXPECT(HF_OK, hf_deadlocks(store, note_circle, &seen, &contract_error));
    CHECK(seen.circles == 1 && seen.links == 2 && seen.tokens);
    CHECK(seen.sessions[0] && seen.sessions[1] && seen.sessions[0] != seen.sessions[1]);
    EXPECT(HF_OK, hf_inspect(store, NULL, 0, HF_INSPECT_GLOB, &view, &contract_error));
    CHECK(view->count == 2);
    for (int i = 0; i < 2; i++) { /* the labels are for people */
        const hf_entry *entry = &view->entries[i];

        CHECK(strcmp(entry->waiters[0].label, "contract") == 0);
        CHECK(entry->waiters[0].session == view->entries[1 - i].holders[0].session);
        CHECK(entry->waiters[0].session != entry->holders[0].session);
    }
    hf_view_free(view);
    EXPECT(HF_OK, hf_cancel_fire(cancel));
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(parties[i].thread, NULL) == 0);
    EXPECT(HF_OK, hf_cancel_free(cancel));
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

/* Everybody waits with something in his hands, leases go from one to the next all the time, and somebody
 * looks all the time: nobody is ever told that it is stuck. */
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

    contract_param("deadlock_check=600s"); /* nobody leaves a local queue for the store's */
    return result;
}

/* Takes one thing, and a second one when it may, for which it waits for ever. */
struct nester {
    hf_store *store;
    hf_request first, second;
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
    nester->second.flags = HF_STRICT;
    CHECK(pthread_create(&nester->thread, NULL, nester_run, nester) == 0);
}

/* A thread that waits has told the store what it holds. That another thread releases that, and a third
 * one gets it locally, must not look as though the first one had it still. */
static void given_away_meanwhile(void **state)
{
    hf_request request = waiting_request("l");
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

int contract_deadlock(void)
{
    const struct CMUnitTest cases[] = {
        FOUND(two_threads),
        FOUND(semaphore_knot),
        FOUND(semaphore_with_a_way_out),
        FOUND(upgrade),
        FOUND(reader_behind_writer),
        FOUND(waiting_for_oneself),
        FOUND(ring_of_three),
        FOUND(tasks_of_a_loop),
        FOUND(tasks_of_one_loop),
        FOUND(session_of_another),
        OFF(shown),
        cmocka_unit_test_setup_teardown(given_away_meanwhile, setup_slow, contract_teardown),
        cmocka_unit_test_setup_teardown(nobody_is_accused, setup_busy, contract_teardown),
    };

    return cmocka_run_group_tests_name("deadlock", cases, NULL, NULL);
}
