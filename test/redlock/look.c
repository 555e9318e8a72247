/* SPDX-License-Identifier: MIT */
/* Inspect and break, when nodes know different things: a majority decides who holds, and a node
 * that missed something is told later. */
#include "nodes.h"

#include <stdio.h>
#include <string.h>

/* Of the name: who holds, who waits. */
struct seen {
    size_t holders, waiters;
    uint64_t token;
};

static struct seen look_at(hf_store *store, const char *name)
{
    struct seen seen = { 0 };
    hf_view *view = NULL;

    EXPECT(HF_OK, hf_store_inspect(store, name, strlen(name), 0, &view, &contract_error));
    if (hf_view_count(view)) {
        seen.holders = hf_view_entry(view, 0)->holder_count;
        seen.waiters = hf_view_entry(view, 0)->waiter_count;
        seen.token = seen.holders ? hf_entry_holder(hf_view_entry(view, 0), 0)->token : 0;
    }
    hf_free(view);
    return seen;
}

/* Who has records at fewer nodes than a majority does not hold, whatever those say. */
static void a_majority_decides(void **state)
{
    struct client client;
    hf_store *other = open_at(nodes_url(""));
    hf_acquire_request request = with_ttl(mutex_request("name"), LIMIT_MS);
    struct attempt waiter;
    struct seen seen;
    hf_lease *lease;

    (void)state;
    client_open(&client, "");
    client_reach(&client, NODE(0) | NODE(1) | NODE(2));
    settle(client.store, NODE(0) | NODE(1) | NODE(2));
    lease = take(client.store, &request);
    seen = look_at(other, "name");
    CHECK(seen.holders == 1 && seen.waiters == 0 && seen.token == hf_lease_token(lease));

    request.wait_ms = LIMIT_MS;
    attempt_start(&waiter, other, &request);
    AWAIT(look_at(other, "name").waiters == 1);
    seen = look_at(other, "name");
    CHECK(seen.holders == 1 && seen.token == hf_lease_token(lease));

    server_do(nodes[0], "DEL hf:rl:{name}"); /* one of its three nodes forgets it */
    AWAIT(look_at(other, "name").token != hf_lease_token(lease));
    EXPECT(HF_OK, attempt_join(&waiter)); /* so another majority is free */
    CHECK(hf_lease_token(waiter.lease) > hf_lease_token(lease));
    seen = look_at(other, "name");
    CHECK(seen.holders == 1 && seen.token == hf_lease_token(waiter.lease));
    CHECK(seen.waiters <= 1); /* the first, which two nodes still know */
    give(waiter.lease);
    hf_release(lease, NULL);
    close_hard(other);
    client_close(&client);
}

static void a_pattern_finds_what_any_node_knows(void **state)
{
    struct client left, right;
    hf_store *other = open_at(nodes_url(""));
    hf_acquire_request a = with_ttl(mutex_request("job {a}%"), LIMIT_MS),
                       b = with_ttl(mutex_request("job b"), LIMIT_MS);
    hf_lease *first, *second;
    hf_view *view = NULL;

    (void)state;
    client_open(&left, "");
    client_open(&right, "");
    client_reach(&left, NODE(0) | NODE(1) | NODE(2));
    client_reach(&right, NODE(2) | NODE(3) | NODE(4));
    settle(left.store, NODE(0) | NODE(1) | NODE(2));
    settle(right.store, NODE(2) | NODE(3) | NODE(4));
    first = take(left.store, &a);
    second = take(right.store, &b);
    EXPECT(HF_OK,
           hf_store_inspect(other, "job*", 4, HF_INSPECT_FLAG_PATTERN, &view, &contract_error));
    CHECK(hf_view_count(view) == 2);
    CHECK(hf_view_entry(view, 0)->name_len == 5 &&
          memcmp(hf_view_entry(view, 0)->name, "job b", 5) == 0);
    CHECK(hf_view_entry(view, 1)->name_len == 8 &&
          memcmp(hf_view_entry(view, 1)->name, "job {a}%", 8) == 0);
    CHECK(hf_view_entry(view, 0)->holder_count == 1 && hf_view_entry(view, 1)->holder_count == 1);
    hf_free(view);
    give(first);
    give(second);
    close_hard(other);
    client_close(&right);
    client_close(&left);
}

static void break_reaches_nodes_that_were_away(void **state)
{
    struct client client;
    hf_store *holder = open_at(nodes_url(""));
    hf_acquire_request request = with_ttl(mutex_request("name"), LIMIT_MS);
    hf_lease *lease;

    (void)state;
    client_open(&client, "");
    settle(holder, ALL);
    lease = take(holder, &request);
    AWAIT(nodes_holding("name") == NODES);
    client_reach(&client, NODE(0) | NODE(1) | NODE(2));
    settle(client.store, NODE(0) | NODE(1) | NODE(2));
    EXPECT(HF_NOT_FOUND,
           hf_lease_break(client.store, "name", 4, hf_lease_token(lease) + 1, &contract_error));
    CHECK(nodes_holding("name") == NODES);
    EXPECT(HF_OK, hf_lease_break(client.store, "name", 4, hf_lease_token(lease), &contract_error));
    EXPECT(HF_OK, probe(client.store, &request));
    AWAIT(hf_lease_state(lease) == HF_STATE_LOST); /* it is told */
    EXPECT(HF_NOT_FOUND,
           hf_lease_break(client.store, "name", 4, hf_lease_token(lease), &contract_error));
    client_reach(&client, ALL);
    AWAIT(nodes_holding("name") == 0); /* long before the ttl */
    hf_release(lease, NULL);
    close_hard(holder);
    client_close(&client);
}

static void too_few_nodes_know_nothing(void **state)
{
    hf_store *store = open_at(nodes_url(""));
    hf_acquire_request request = with_ttl(mutex_request("name"), LIMIT_MS);
    hf_lease *lease = take(store, &request);
    hf_view *view = NULL;

    (void)state;
    server_kill(nodes[0]);
    server_kill(nodes[1]);
    AWAIT(hf_store_inspect(store, "name", 4, 0, &view, &contract_error) == HF_OK);
    CHECK(hf_view_count(view) == 1);
    hf_free(view);
    server_kill(nodes[2]);
    AWAIT(hf_store_inspect(store, "name", 4, 0, &view, &contract_error) == HF_UNAVAILABLE);
    EXPECT(HF_UNAVAILABLE,
           hf_store_inspect(store, "*", 1, HF_INSPECT_FLAG_PATTERN, &view, &contract_error));
    EXPECT(HF_UNAVAILABLE,
           hf_lease_break(store, "name", 4, hf_lease_token(lease), &contract_error));
    hf_release(lease, NULL);
    close_hard(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NODES_TEST(a_majority_decides),
        NODES_TEST(a_pattern_finds_what_any_node_knows),
        NODES_TEST(break_reaches_nodes_that_were_away),
        NODES_TEST(too_few_nodes_know_nothing),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
