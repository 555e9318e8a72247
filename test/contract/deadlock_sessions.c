/* SPDX-License-Identifier: MIT */
/* Sessions that are no threads: of other processes, scopes of an event loop, and one handed on as text. */
#include "deadlock.h"
#include "loop.h"
#include "peer.h"

#include <string.h>

struct member {
    struct peer *peer;
    hf_acquire_request first, second;
    pthread_barrier_t ready; /* it continues with the second one when another thread arrives here */
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
static void member_start(struct member *member, struct peer *peer, const hf_acquire_request *first,
                         const hf_acquire_request *second)
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
        hf_acquire_request first = waiting_request(names[i]),
                           second = waiting_request(names[(i + 1) % 3]);

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

static void on_done(const hf_result *result, void *arg)
{
    struct heard *heard = arg;

    *heard = (struct heard){ .done = true, .status = result->status, .lease = result->lease };
    memcpy(heard->text, result->error->text, sizeof heard->text);
}

/* An event loop: scope 5 is a task of it. A peer is the other half. */
static void tasks_of_a_loop(void **state)
{
    hf_acquire_request a = waiting_request("a"), b = waiting_request("b");
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
    LOOP_UNTIL(store, first.done);
    EXPECT(HF_OK, first.status);
    member_start(&member, &peer, &b, &a);
    AWAIT(count_holders(store, "b") == 1);
    EXPECT(HF_OK, hf_acquire_async(store, &b, on_done, &second, NULL, &contract_error));
    pthread_barrier_wait(&member.ready);
    LOOP_UNTIL(store, second.done);
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
    hf_acquire_request requests[2] = { waiting_request("a"), waiting_request("b") };
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
        LOOP_UNTIL(store, first[i].done);
        EXPECT(HF_OK, first[i].status);
    }
    for (unsigned i = 0; i < 2; i++) {
        requests[1 - i].scope = 5 + i;
        EXPECT(HF_OK, hf_acquire_async(store, &requests[1 - i], on_done, &second[i], NULL,
                                       &contract_error));
    }
    AWAIT((EXPECT(HF_OK, hf_store_process(store)), second[0].done || second[1].done));
    victim = second[0].done ? 0 : 1;
    EXPECT(HF_DEADLOCK, second[victim].status);
    CHECK(!second[1 - victim].done);
    give(first[victim].lease);
    LOOP_UNTIL(store, second[1 - victim].done);
    EXPECT(HF_OK, second[1 - victim].status);
    give(second[1 - victim].lease);
    give(first[1 - victim].lease);
    close_store(store);
}

/* Who works for us waits with what we hold in its hands. */
static void session_of_another(void **state)
{
    hf_acquire_request a = waiting_request("a"), b = waiting_request("b");
    char text[HF_SESSION_TEXT_MAX], longer[HF_SESSION_TEXT_MAX];
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
    EXPECT(HF_OK, hf_session_get(lease, NULL, text, &contract_error));
    other = take(
        store, &(hf_acquire_request){ .size = sizeof a, .name = "other", .name_len = HF_CSTRING });
    EXPECT(HF_OK, hf_session_get(other, text, longer, &contract_error));
    CHECK(strncmp(longer, text, strlen(text)) == 0 && strlen(longer) > strlen(text));
    for (int i = 0; i < 20; i++) /* it never grows too long, and is never wrong */
        EXPECT(HF_OK, hf_session_get(other, longer, longer, &contract_error));
    EXPECT(HF_OK, hf_session_get(other, "nonsense", longer, &contract_error));
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

int deadlock_sessions(void)
{
    const struct CMUnitTest cases[] = {
        FOUND(ring_of_three),
        FOUND(tasks_of_a_loop),
        FOUND(tasks_of_one_loop),
        FOUND(session_of_another),
    };

    return cmocka_run_group_tests_name("deadlock_sessions", cases, NULL, NULL);
}
