/* SPDX-License-Identifier: MIT */
/* First come, first served: between peers, between threads, and over both. */
#include "peer.h"

#include <stdio.h>

#define PEERS 4

/* A peer begins to wait for "turn"; returns when it is in the queue. */
static void queue_peer(hf_store *store, struct peer *peer, int lease, size_t position)
{
    hf_acquire_request request = waiting_request("turn");
    char label[32];

    snprintf(label, sizeof label, "peer-%zu", position);
    request.label = label;
    request.flags = HF_FLAG_STRICT;
    peer_begin(peer, lease, &request);
    AWAIT(count_waiters(store, "turn") == position);
}

static void peers_in_order(void **state)
{
    struct peer peers[PEERS];
    uint64_t token, last_token;
    hf_store *store;
    hf_acquire_request request = mutex_request("turn");
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_FIFO | HF_CAP_WAITERS | HF_CAP_TOKEN);
    store = open_store();
    lease = take(store, &request);
    last_token = hf_lease_token(lease);
    for (int i = 0; i < PEERS; i++)
        peer_start(&peers[i]);
    for (int i = 0; i < 2 * PEERS; i++) /* each is there twice */
        queue_peer(store, &peers[i % PEERS], i / PEERS, (size_t)i + 1);

    give(lease);
    for (int i = 0; i < 2 * PEERS; i++) {
        EXPECT(HF_OK, peer_join(&peers[i % PEERS], i / PEERS, &token));
        CHECK(token > last_token);
        last_token = token;
        AWAIT(count_waiters(store, "turn") ==
              (size_t)(2 * PEERS - 1 - i)); /* a server of several may be late */
        EXPECT(HF_OK, peer_release(&peers[i % PEERS], i / PEERS));
    }
    for (int i = 0; i < PEERS; i++)
        peer_stop(&peers[i]);
    EXPECT(HF_OK, probe(store, &request));
    close_store(store);
}

/* With HF_FLAG_STRICT a thread of the holder's process has no advantage over a peer. */
static void strict_over_peers_and_threads(void **state)
{
    hf_acquire_request request = mutex_request("turn");
    struct attempt attempt;
    struct peer peer;
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_FIFO | HF_CAP_WAITERS);
    store = open_store();
    peer_start(&peer);
    request.flags = HF_FLAG_STRICT;
    lease = take(store, &request);
    queue_peer(store, &peer, 0, 1);
    request.wait_ms = LIMIT_MS;
    attempt_start(&attempt, store, &request);
    AWAIT(count_waiters(store, "turn") == 2);
    queue_peer(store, &peer, 1, 3);

    give(lease);
    EXPECT(HF_OK, peer_join(&peer, 0, NULL));
    CHECK(!attempt.ended);
    EXPECT(HF_OK, peer_release(&peer, 0));
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(count_waiters(store, "turn") == 1);
    give(attempt.lease);
    EXPECT(HF_OK, peer_join(&peer, 1, NULL));
    EXPECT(HF_OK, peer_release(&peer, 1));
    peer_stop(&peer);
    close_store(store);
}

static void threads_in_order(void **state)
{
    hf_acquire_request request = mutex_request("turn");
    struct attempt attempts[6];
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_FIFO);
    store = open_store();
    lease = take(store, &request);
    request.wait_ms = LIMIT_MS;
    for (int i = 0; i < 6; i++) {
        attempt_start(&attempts[i], store, &request);
        attempt_settled(&attempts[i]);
    }
    give(lease);
    for (int i = 0; i < 6; i++) {
        EXPECT(HF_OK, attempt_join(&attempts[i]));
        for (int j = i + 1; j < 6; j++)
            CHECK(!attempts[j].ended);
        give(attempts[i].lease);
    }
    close_store(store);
}

/* A try never overtakes: with a waiter in the queue the name is busy, even at the moment of
 * hand-over. */
static void try_does_not_overtake(void **state)
{
    hf_acquire_request request = mutex_request("turn"), shared;
    struct attempt attempt;
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_FIFO | HF_CAP_SHARED | HF_CAP_WAITERS);
    store = open_store();
    request.kind = HF_KIND_EXCLUSIVE;
    shared = request;
    shared.kind = HF_KIND_SHARED;
    lease = take(store, &shared);
    request.wait_ms = LIMIT_MS;
    attempt_start(&attempt, store, &request);
    AWAIT(count_waiters(store, "turn") == 1);
    EXPECT(HF_BUSY, probe(store, &shared));
    give(lease);
    EXPECT(HF_BUSY, probe(store, &shared));
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_store(store);
}

static void those_who_leave_are_skipped(void **state)
{
    hf_acquire_request request = mutex_request("turn");
    struct peer peers[3];
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_FIFO | HF_CAP_WAITERS);
    store = open_store();
    lease = take(store, &request);
    for (int i = 0; i < 3; i++) {
        peer_start(&peers[i]);
        queue_peer(store, &peers[i], 0, (size_t)i + 1);
    }
    peer_stop(&peers[1]); /* cancels first */
    AWAIT(count_waiters(store, "turn") == 2);
    if (contract_processes && has(HF_CAP_PROCESS)) {
        peer_kill(&peers[0]);
        give(lease);
    } else {
        give(lease);
        EXPECT(HF_OK, peer_join(&peers[0], 0, NULL));
        peer_stop(&peers[0]); /* releases */
    }
    EXPECT(HF_OK, peer_join(&peers[2], 0, NULL));
    EXPECT(HF_OK, peer_release(&peers[2], 0));
    peer_stop(&peers[2]);
    EXPECT(HF_OK, probe(store, &request));
    close_store(store);
}

int contract_fifo(void)
{
    const struct CMUnitTest cases[] = {
        CASE(peers_in_order),        CASE(strict_over_peers_and_threads), CASE(threads_in_order),
        CASE(try_does_not_overtake), CASE(those_who_leave_are_skipped),
    };

    return cmocka_run_group_tests_name("fifo", cases, NULL, NULL);
}
