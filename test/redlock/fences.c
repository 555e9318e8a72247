/* SPDX-License-Identifier: MIT */
/*
 * Where Redlock lets two in, made to happen each time: the clocks of a majority jump, or the holder
 * is stopped past its ttl. Two holders read a counter, and both write it back. The plain counter is
 * seen to lose an update; the guarded one refuses the late holder, for the later one has the larger token.
 */
#include "nodes.h"

#include <signal.h>
#include <string.h>

#define HOUR_MS (INT64_C(3600) * 1000)

static struct vault vault;

static int setup(void **state)
{
    nodes_setup(state);
    vault_open(&vault, server_start(NULL));
    return 0;
}

static int teardown(void **state)
{
    vault_close(&vault);
    server_free(vault.server);
    return nodes_teardown(state);
}

/* `first` has read before `second` came, and writes after it. */
static void late_write(struct counting first, uint64_t second)
{
    struct counting counting;

    CHECK(second > first.token);
    EXPECT(HF_OK, first.status);
    counting = count_begin(&vault, second);
    EXPECT(HF_OK, counting.status);
    EXPECT(HF_OK, count_end(&vault, counting));
    EXPECT(HF_FENCED, count_end(&vault, first));
    CHECK(vault_plain(&vault) == 1);   /* raised twice: an update is lost */
    CHECK(vault_guarded(&vault) == 1); /* raised once, and the other one knows that it did not */
    print_message(
        "plain counter: 2 updates, 1 lost; guarded counter: 1 update, 1 refused, 0 lost\n");
}

static void clocks_of_a_majority_jump(void **state)
{
    hf_store *ours = open_at(nodes_url("")), *theirs = open_at(nodes_url(""));
    hf_acquire_request request = with_ttl(mutex_request("name"), LIMIT_MS);
    hf_lease *lease, *second;
    struct counting first;

    (void)state;
    settle(ours, ALL); /* so that no node is left out for being slow */
    settle(theirs, ALL);
    request.flags = HF_FLAG_NO_RENEW;
    lease = take(ours, &request);
    AWAIT(nodes_holding("name") == NODES);
    first = count_begin(&vault, hf_lease_token(lease));
    clock_jump_ms(nodes[0], HOUR_MS);
    clock_jump_ms(nodes[3], HOUR_MS);
    EXPECT(HF_BUSY, probe(theirs, &request)); /* two clocks are not enough */
    clock_jump_ms(nodes[4], HOUR_MS);
    second = take(theirs, &request);

    CHECK(hf_lease_remaining_ms(lease) > 0 && hf_lease_state(lease) != HF_STATE_LOST);
    CHECK(hf_lease_remaining_ms(second) > 0 && hf_lease_state(second) != HF_STATE_LOST);
    late_write(first, hf_lease_token(second));
    close_hard(theirs);
    close_hard(ours);
}

/* At how many nodes a grant has raised the counter of the name above the token of an earlier lease. */
static unsigned nodes_granted(const char *name, uint64_t token)
{
    unsigned count = 0;

    for (unsigned i = 0; i < NODES; i++) {
        redisReply *reply = server_ask(nodes[i], "HGET hf:rl:cluster n%s", name);
        double counter = 0;

        if (reply->type == REDIS_REPLY_STRING && reply->len >= sizeof counter)
            memcpy(&counter, reply->str, sizeof counter);
        count += counter > (double)token;
        freeReplyObject(reply);
    }
    return count;
}

static unsigned nodes_queueing(const char *name)
{
    unsigned count = 0;

    for (unsigned i = 0; i < NODES; i++)
        count += server_do(nodes[i], "HLEN hf:rl:{%s}:w", name) > 0;
    return count;
}

/*
 * The name is handed over to a waiter that sleeps through all of the time it is given: it goes back to the queue.
 * The counters tell that the name was handed over, however late they are read. If this process is so slow that
 * the waiter passes for dead before the release, nobody is given the name (false): this says nothing.
 */
static bool sleeps_through_its_turn(hf_store *store, struct peer *peer)
{
    hf_acquire_request request = mutex_request("name");
    hf_acquire_request wait =
        with_ttl(waiting_request("name"), 3000); /* as long as it is handed over for */
    hf_lease *lease = take(store, &request);
    uint64_t first = hf_lease_token(lease), token;
    bool granted;

    peer_begin(peer, 0, &wait);
    AWAIT(nodes_queueing("name") ==
          NODES); /* stopped halfway, it would wait at some of them only */
    peer_signal(peer, SIGSTOP);
    give(lease);
    AWAIT(nodes_queueing("name") <= NODES - MAJORITY); /* handed over, or dead */
    granted = nodes_granted("name", first) >= MAJORITY;
    AWAIT(count_holders(store, "name") == 0); /* by the nodes' clocks */
    peer_signal(peer, SIGCONT);
    EXPECT(HF_OK, peer_join(peer, 0, &token));
    CHECK(token > first);
    EXPECT(HF_OK, peer_release(peer, 0));
    return granted;
}

static void the_waiter_is_stopped(void **state)
{
    hf_store *store = open_at(nodes_url(""));
    struct peer peer;
    int attempts = 1;

    (void)state;
    aim(nodes_url(""));
    peer_start(&peer);
    while (!sleeps_through_its_turn(store, &peer))
        CHECK(attempts++ < 5);
    peer_stop(&peer);
    close_store(store);
}

static void the_holder_is_stopped(void **state)
{
    hf_store *store = open_at(nodes_url(""));
    hf_acquire_request request = with_ttl(mutex_request("name"), contract_info.min_ttl_ms);
    hf_acquire_request wait = waiting_request("name");
    struct counting first;
    struct peer peer;
    hf_lease *lease;
    uint64_t token;

    (void)state;
    aim(nodes_url(""));
    peer_start(&peer);
    peer_begin(&peer, 0, &request);
    EXPECT(HF_OK, peer_join(&peer, 0, &token));
    first = count_begin(&vault, token); /* what it read and will write, when it wakes up */
    peer_signal(&peer, SIGSTOP);
    lease = take(store, &wait);
    late_write(first, hf_lease_token(lease));
    peer_signal(&peer, SIGCONT);
    CHECK(peer_state(&peer, 0) == HF_STATE_LOST); /* a call that asks gets LOST */
    peer_stop(&peer);
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    give(lease);
    close_store(store);
}

/* Tokens rise although all clocks went back by an hour, and forth again. */
static void tokens_do_not_follow_clocks(void **state)
{
    hf_store *store = open_at(nodes_url(""));
    uint64_t token = gets_free(store, "name", 0);

    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        clock_jump_ms(nodes[i], -HOUR_MS);
    for (int i = 0; i < 3; i++)
        token = gets_free(store, "name", token);
    for (unsigned i = 0; i < NODES; i++) {
        clock_jump_ms(nodes[i], 2 * HOUR_MS);
        token = gets_free(store, "name", token);
    }
    close_store(store);
}

/*
 * Nodes whose clocks are an hour behind do not take what clients propose, so their counters are small.
 * Whoever meets one large counter and two small ones must raise the small ones before it is through: the
 * next meets only these.
 */
static void a_token_is_written_back(void **state)
{
    struct client first, second;
    hf_acquire_request request = mutex_request("name");
    uint64_t tokens[2] = { 0 };

    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        clock_jump_ms(nodes[i], i == 2 ? 0 : -HOUR_MS);
    client_open(&first, "");
    client_open(&second, "");
    client_reach(&first, NODE(2) | NODE(3) | NODE(4));
    client_reach(&second, NODE(0) | NODE(3) | NODE(4));
    settle(first.store, NODE(2) | NODE(3) | NODE(4));
    settle(second.store, NODE(0) | NODE(3) | NODE(4));
    for (int i = 0; i < 6; i++) {
        hf_lease *lease = take((i % 2 ? &second : &first)->store, &request);

        CHECK(hf_lease_token(lease) > tokens[1]);
        tokens[1] = hf_lease_token(lease);
        if (i == 0)
            tokens[0] = tokens[1];
        give(lease);
        AWAIT(nodes_holding("name") == 0); /* the other one must not find it held still */
    }
    CHECK(tokens[0] >
          UINT64_C(1000000)); /* the clock's, so that there was something to write back */
    client_close(&second);
    client_close(&first);
}

#define FENCE_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FENCE_TEST(clocks_of_a_majority_jump), FENCE_TEST(the_holder_is_stopped),
        FENCE_TEST(the_waiter_is_stopped),     FENCE_TEST(tokens_do_not_follow_clocks),
        FENCE_TEST(a_token_is_written_back),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
