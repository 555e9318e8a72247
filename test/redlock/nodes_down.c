/* SPDX-License-Identifier: MIT */
/*
 * Nodes that are dead, stopped, cut off or empty, one case each: they cost their vote and nothing
 * else; what they missed reaches them later; what they forgot they do not grant again.
 */
#include "nodes.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SHORT_TTL "?max_ttl=3s"

static void a_dead_and_a_stopped_node_cost_their_votes(void **state)
{
    hf_store *store = open_at(nodes_url(""));
    hf_acquire_request request = mutex_request("name");
    int64_t begun_ms;

    (void)state;
    settle(store, ALL);
    server_kill(nodes[1]);
    server_pause(nodes[4]);
    begun_ms = now_ms();
    for (int i = 0; i < 30; i++)
        EXPECT(HF_OK, probe(store, &request)); /* without any waiting */
    print_message("30 pairs with two nodes of five: %lld ms\n", (long long)(now_ms() - begun_ms));

    server_kill(nodes[2]);
    EXPECT(HF_UNAVAILABLE, probe(store, &request)); /* two of five are no majority */
    server_continue(nodes[4]);
    AWAIT(probe(store, &request) == HF_OK);
    node_restart(1, true);
    node_restart(2, true);
    AWAIT(probe(store, &request) == HF_OK);
    close_hard(store);
}

/* Who gives up has left the queue only if a majority says so. */
static void giving_up_needs_a_majority_too(void **state)
{
    hf_store *holder = open_at(nodes_url("")), *store = open_at(nodes_url(""));
    hf_acquire_request request = mutex_request("name"), patient = request;
    struct attempt attempt;
    hf_cancel *cancel;
    hf_lease *lease;

    (void)state;
    settle(holder, ALL);
    settle(store, ALL);
    lease = take(holder, &request);
    EXPECT(HF_OK, hf_cancel_open(&cancel));
    patient.wait_ms = HF_FOREVER;
    patient.cancel = cancel;
    attempt_start(&attempt, store, &patient);
    AWAIT(count_waiters(holder, "name") == 1);
    for (int i = 0; i < 3; i++)
        server_pause(nodes[i]);
    EXPECT(HF_OK, hf_cancel_fire(cancel));
    EXPECT(HF_UNKNOWN, attempt_join(&attempt));
    for (int i = 0; i < 3; i++)
        server_continue(nodes[i]);
    AWAIT(count_waiters(holder, "name") == 0); /* core went on giving it back */
    give(lease);
    close_hard(store);
    close_hard(holder);
    EXPECT(HF_OK, hf_cancel_close(cancel));
}

/* A node has told a holder that others wait, and cannot tell any more that they have left. */
static void a_dead_node_wants_nothing(void **state)
{
    hf_store *holder = open_at(nodes_url("")), *store = open_at(nodes_url(""));
    hf_acquire_request request = mutex_request("name"), patient = request;
    struct attempt attempt;
    hf_cancel *cancel;
    hf_lease *lease;

    (void)state;
    settle(holder, ALL);
    settle(store, ALL);
    request.flags = HF_FLAG_WATCH;
    lease = take(holder, &request);
    EXPECT(HF_OK, hf_cancel_open(&cancel));
    patient.wait_ms = HF_FOREVER;
    patient.cancel = cancel;
    attempt_start(&attempt, store, &patient);
    AWAIT(hf_lease_wanted(lease));
    nap_ms(500); /* by now most of them have told it, and one that has not is no danger */
    server_kill(nodes[1]);
    AWAIT(hf_lease_wanted(lease));
    EXPECT(HF_OK, hf_cancel_fire(cancel));
    EXPECT(HF_CANCELLED, attempt_join(&attempt));
    AWAIT(!hf_lease_wanted(lease));
    give(lease);
    close_hard(store);
    close_hard(holder);
    EXPECT(HF_OK, hf_cancel_close(cancel));
}

/* Its bytes are kept somewhere until the release has come by another way. */
static void a_late_acquire_finds_a_tombstone(void **state)
{
    struct client client;
    hf_acquire_request request = with_ttl(mutex_request("name"), LIMIT_MS);
    hf_lease *lease;

    (void)state;
    client_open(&client, "");
    proxy_block(client.lines[2], PROXY_UP, true);
    lease = take(client.store, &request);
    AWAIT(proxy_held(client.lines[2], PROXY_UP) > 0);
    AWAIT(nodes_holding("name") == NODES - 1);
    proxy_cut_late(client.lines[2]);
    proxy_block(client.lines[2], PROXY_UP, false);
    give(lease);
    AWAIT(server_do(nodes[2], "EXISTS hf:rl:{name}") == 1); /* the release has left its tombstone */
    AWAIT(nodes_holding("name") == 0);
    proxy_deliver(client.lines[2]);
    CHECK(nodes_holding("name") == 0);
    EXPECT(HF_OK, probe(client.store, &request));
    client_close(&client);
}

static void a_release_reaches_nodes_that_were_away(void **state)
{
    struct client client;
    hf_acquire_request request = with_ttl(mutex_request("name"), LIMIT_MS);
    hf_lease *lease;

    (void)state;
    client_open(&client, "");
    lease = take(client.store, &request);
    AWAIT(nodes_holding("name") == NODES);
    client_reach(&client, NODE(0) | NODE(1) | NODE(2));
    give(lease);
    AWAIT(nodes_holding("name") == 2);
    EXPECT(HF_OK, probe(client.store, &request)); /* a majority is free */
    client_reach(&client, ALL);
    AWAIT(nodes_holding("name") == 0); /* long before its ttl */
    client_close(&client);
}

static void minority_grants_go_at_once(void **state)
{
    struct client client;
    hf_store *other = open_at(nodes_url(""));
    hf_acquire_request request = with_ttl(mutex_request("name"), LIMIT_MS);
    hf_lease *lease;

    (void)state;
    client_open(&client, "");
    client_reach(&client, NODE(0) | NODE(1) | NODE(2));
    settle(client.store, NODE(0) | NODE(1) | NODE(2));
    lease = take(client.store, &request);
    for (int i = 0; i < 5; i++) {
        EXPECT(HF_BUSY, probe(other, &request)); /* two nodes had granted it */
        AWAIT(nodes_holding("name") == MAJORITY);
    }
    give(lease);
    EXPECT(HF_OK, probe(other, &request));
    close_store(other);
    client_close(&client);
}

/* One client reaches nodes 1, 2, 3 and another 3, 4, 5: they share a node, so they cannot both
 * hold. */
static void majorities_meet(void **state)
{
    struct client readers, writers;
    hf_acquire_request request = with_ttl(mutex_request("name"), LIMIT_MS);
    hf_lease *lease;

    (void)state;
    client_open(&readers, "");
    client_open(&writers, "");
    client_reach(&readers, NODE(0) | NODE(1) | NODE(2));
    client_reach(&writers, NODE(2) | NODE(3) | NODE(4));
    request.kind = HF_KIND_SHARED;
    lease = take(readers.store, &request);
    EXPECT(HF_OK, probe(writers.store, &request));
    request.kind = HF_KIND_EXCLUSIVE;
    EXPECT(HF_BUSY, probe(writers.store, &request));
    give(lease);
    lease = take(writers.store, &request);
    request.kind = HF_KIND_SHARED;
    EXPECT(HF_BUSY, probe(readers.store, &request));
    give(lease);
    EXPECT(HF_OK, probe(readers.store, &request));
    client_close(&writers);
    client_close(&readers);
}

/* Counted at each node, {1,2,3} {3,4,5} {1,2,4} would be three holders of a semaphore of two. */
static void a_semaphore_is_never_over_capacity(void **state)
{
    static const unsigned reach[] = { NODE(0) | NODE(1) | NODE(2), NODE(2) | NODE(3) | NODE(4),
                                      NODE(0) | NODE(1) | NODE(3) };
    struct client clients[3];
    hf_acquire_request request = with_ttl(semaphore_request("name", 2), LIMIT_MS);
    hf_lease *leases[3] = { 0 };
    unsigned held = 0;

    (void)state;
    for (int i = 0; i < 3; i++) {
        client_open(&clients[i], "");
        client_reach(&clients[i], reach[i]);
        settle(clients[i].store, reach[i]);
    }
    for (int i = 0; i < 3; i++) {
        hf_status status = hf_acquire(clients[i].store, &request, &leases[i], &contract_error);

        CHECK(status == HF_OK || status == HF_BUSY);
        held += status == HF_OK;
    }
    CHECK(held >= 1 && held <= 2);
    for (int i = 0; i < 3; i++) {
        client_reach(&clients[i], ALL);
        if (leases[i])
            give(leases[i]);
    }
    for (int i = 0; i < 3; i++)
        client_close(&clients[i]);
}

static void restarted_nodes_keep_a_lease(void **state)
{
    hf_store *store = open_at(nodes_url("")), *other = open_at(nodes_url(""));
    hf_acquire_request request = with_ttl(mutex_request("name"), LIMIT_MS);
    hf_lease *lease;

    (void)state;
    settle(store, ALL);
    lease = take(store, &request);
    for (unsigned i = 0; i < MAJORITY; i++)
        node_restart(i, true);
    AWAIT(probe(other, &request) == HF_BUSY);
    AWAIT(hf_renew(lease, 0, &contract_error) == HF_OK);
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    give(lease);
    gets_free(other, "name", 0);
    close_hard(other);
    close_hard(store);
}

/*
 * The holder has three nodes, and one of them loses its data. With the two that never knew of the
 * lease that one would be a majority for another client, if it voted. It votes only when everything
 * that it forgot has ended.
 */
static void an_empty_node_does_not_vote(void **state)
{
    struct client client;
    hf_store *other;
    hf_acquire_request request = with_ttl(mutex_request("name"), 3000);
    hf_lease *lease, *second;
    uint64_t token;

    (void)state;
    client_open(&client, SHORT_TTL);
    other = open_at(nodes_url(SHORT_TTL));
    client_reach(&client, NODE(0) | NODE(1) | NODE(2));
    settle(client.store, NODE(0) | NODE(1) | NODE(2));
    lease = take(client.store, &request);
    token = hf_lease_token(lease);
    node_restart(0, false);
    CHECK(!node_votes(0));
    CHECK(probe(other, &request) != HF_OK);

    request.wait_ms = LIMIT_MS;
    second = take(other, &request);
    CHECK(hf_lease_remaining_ms(lease) == 0 && hf_lease_state(lease) == HF_STATE_LOST);
    CHECK(hf_lease_token(second) > token);
    await_whole();
    give(second);
    close_hard(other);
    client_close(&client);
}

/* Three of five have lost what they knew: nobody may guess. */
static void without_an_intact_majority_it_is_refused(void **state)
{
    hf_store *store = open_at(nodes_url(SHORT_TTL)), *late = NULL;
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_acquire_request request = with_ttl(mutex_request("name"), 3000);

    (void)state;
    settle(store, ALL);
    for (unsigned i = 0; i < MAJORITY; i++)
        node_restart(i, false);
    CHECK(probe(store, &request) != HF_OK);
    options.open_wait_ms = 4000; /* longer than max_ttl: it does not heal by itself */
    EXPECT(HF_CORRUPT, hf_open(nodes_url(SHORT_TTL), &options, &late, &contract_error));
    print_message("%s\n", contract_error.text);
    CHECK(strstr(contract_error.text, "holdfast redlock") != NULL); /* the text says who can decide,
                                                                     * and how */
    CHECK(probe(store, &request) != HF_OK);
    for (unsigned i = 0; i < MAJORITY; i++)
        CHECK(!node_votes(i));
    close_hard(store);
}

/* A waiter that was killed does not keep the name idle for its claim window (10 s here). */
static void a_dead_heir_is_passed_over(void **state)
{
    hf_store *store = open_at(nodes_url("")), *other = open_at(nodes_url(""));
    hf_acquire_request request = with_ttl(mutex_request("name"), LIMIT_MS),
                       waiting = waiting_request("name");
    hf_lease *lease = take(store, &request);
    struct attempt attempt;
    struct peer peer;
    int64_t given_ms;

    (void)state;
    aim(nodes_url(""));
    peer_start(&peer);
    peer_begin(&peer, 0, &waiting);
    AWAIT(count_waiters(store, "name") == 1);
    attempt_start(&attempt, other, &waiting);
    AWAIT(count_waiters(store, "name") == 2);
    peer_kill(&peer);
    nap_ms(
        500); /* the servers see its connections end, and do not check clients that sent something
               * just now */
    given_ms = now_ms();
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(now_ms() - given_ms < 9000); /* less than the claim window of 10 s */
    give(attempt.lease);
    close_store(store);
    close_store(other);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NODES_TEST(a_dead_and_a_stopped_node_cost_their_votes),
        NODES_TEST(giving_up_needs_a_majority_too),
        NODES_TEST(a_dead_node_wants_nothing),
        NODES_TEST(a_late_acquire_finds_a_tombstone),
        NODES_TEST(a_release_reaches_nodes_that_were_away),
        NODES_TEST(minority_grants_go_at_once),
        NODES_TEST(a_dead_heir_is_passed_over),
        NODES_TEST(majorities_meet),
        NODES_TEST(a_semaphore_is_never_over_capacity),
        NODES_TEST(restarted_nodes_keep_a_lease),
        NODES_TEST(an_empty_node_does_not_vote),
        NODES_TEST(without_an_intact_majority_it_is_refused),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
