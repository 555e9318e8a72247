/* SPDX-License-Identifier: MIT */
/*
 * wire=plain: locks that are shared with other Redlocks. What a foreign client does is done here by hand, with the commands that
 * every Redlock sends; test/interop has real ones.
 */
#include "holdfast/redis.h"

#include "calls.h"
#include "nodes.h"

#include <stdio.h>
#include <string.h>

#define PLAIN      "?wire=plain"
#define FOREIGN_MS 600000

static unsigned keys(const char *name)
{
    unsigned count = 0;

    for (unsigned i = 0; i < NODES; i++)
        count += nodes[i]->pid && server_do(nodes[i], "EXISTS %s", name) == 1;
    return count;
}

/* A foreign client asks these nodes; how many grant. */
static unsigned foreign_takes(unsigned at, const char *name, long long ms)
{
    unsigned granted = 0;

    for (unsigned i = 0; i < NODES; i++) {
        redisReply *reply;

        if (!(at & NODE(i)))
            continue;
        reply = server_ask(nodes[i], "SET %s foreign NX PX %lld", name, ms);
        CHECK(reply && reply->type != REDIS_REPLY_ERROR);
        granted += reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
    }
    return granted;
}

static void foreign_frees(unsigned at, const char *name)
{
    for (unsigned i = 0; i < NODES; i++)
        if (at & NODE(i))
            server_do(nodes[i], "DEL %s", name);
}

static void a_lock_is_a_string_at_the_name(void **state)
{
    hf_store *store = open_at(nodes_url(PLAIN));
    hf_acquire_request request = with_ttl(mutex_request("name"), LIMIT_MS);
    hf_lease *lease = take(store, &request);
    char first[80] = "";

    (void)state;
    CHECK(hf_lease_token(lease) == 0);
    AWAIT(keys("name") == NODES);
    CHECK(foreign_takes(ALL, "name", FOREIGN_MS) == 0);
    for (unsigned i = 0; i < NODES; i++) {
        redisReply *value = server_ask(nodes[i], "GET name");
        long long left = server_do(nodes[i], "PTTL name");

        CHECK(value->type == REDIS_REPLY_STRING && value->len >= 32);
        if (i == 0)
            snprintf(first, sizeof first, "%s", value->str);
        CHECK(strcmp(first, value->str) == 0); /* one value everywhere */
        CHECK(left > 0 && left <= LIMIT_MS);
        freeReplyObject(value);
    }
    give(lease);
    AWAIT(keys("name") == 0);
    CHECK(server_do(nodes[0], "EXISTS hf:rl:cluster") == 0); /* and no state of ours */
    close_store(store);
}

static void a_foreign_majority_excludes(void **state)
{
    hf_store *store = open_at(nodes_url(PLAIN));
    hf_acquire_request request = with_ttl(mutex_request("name"), LIMIT_MS);

    (void)state;
    CHECK(foreign_takes(NODE(0) | NODE(1) | NODE(2), "name", FOREIGN_MS) == 3);
    EXPECT(HF_BUSY, probe(store, &request));
    AWAIT(keys("name") == 3); /* given back where it was granted, long before the ttl */
    foreign_frees(NODE(2), "name");
    EXPECT(HF_OK, probe(store, &request)); /* two of five are nobody's majority */
    AWAIT(keys("name") == 2);
    close_store(store);
}

/* Nobody tells a waiter: it tries again. */
static void a_waiter_gets_it_when_it_is_free(void **state)
{
    hf_store *store = open_at(nodes_url(PLAIN "&poll=20ms"));
    hf_acquire_request request = with_ttl(mutex_request("name"), LIMIT_MS);
    struct attempt attempt;
    hf_lease *lease;

    (void)state;
    request.wait_ms = LIMIT_MS;
    CHECK(foreign_takes(ALL, "name", FOREIGN_MS) == NODES);
    attempt_start(&attempt, store, &request);
    attempt_settled(&attempt);
    foreign_frees(ALL, "name");
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    AWAIT(keys("name") == 0);

    CHECK(foreign_takes(ALL, "name", 1000) == NODES); /* and nobody frees it */
    lease = take(store, &request);
    give(lease);
    close_store(store);
}

static void a_dead_and_a_stopped_node_cost_their_votes(void **state)
{
    hf_store *store = open_at(nodes_url(PLAIN));
    hf_acquire_request request = with_ttl(mutex_request("name"), LIMIT_MS);
    hf_lease *lease;

    (void)state;
    server_kill(nodes[1]);
    server_pause(nodes[4]);
    for (int i = 0; i < 10; i++)
        EXPECT(HF_OK, probe(store, &request));
    lease = take(store, &request);
    CHECK(foreign_takes(NODE(0) | NODE(2) | NODE(3), "name", FOREIGN_MS) == 0);
    server_kill(nodes[2]);
    CHECK(hf_renew(lease, 0, &contract_error) != HF_OK); /* two of five do not extend it */
    CHECK(probe(store, &request) != HF_OK);
    server_continue(nodes[4]);
    node_restart(2, true);
    AWAIT(hf_renew(lease, 0, &contract_error) == HF_OK); /* its append-only file had the lock */
    give(lease);
    AWAIT(probe(store, &request) == HF_OK);
    close_hard(store);
}

static void a_majority_extends(void **state)
{
    hf_store *store = open_at(nodes_url(PLAIN));
    hf_acquire_request request = with_ttl(mutex_request("name"), LIMIT_MS);
    hf_lease *lease = take(store, &request);

    (void)state;
    AWAIT(keys("name") == NODES);
    foreign_frees(NODE(0) | NODE(1), "name");
    EXPECT(HF_OK, hf_renew(lease, 2 * LIMIT_MS, &contract_error));
    CHECK(keys("name") == 3); /* what is gone is not made again */
    CHECK(server_do(nodes[4], "PTTL name") > LIMIT_MS);
    foreign_frees(NODE(2), "name");
    EXPECT(HF_LOST, hf_renew(lease, 0, &contract_error));
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    CHECK(hf_release(lease, &contract_error) == HF_LOST);
    AWAIT(keys("name") == 0); /* everywhere, although it was lost */
    close_store(store);
}

/* What another has at a majority, and we at the rest, our release leaves alone. */
static void frees_nothing_of_others(void **state)
{
    hf_store *store = open_at(nodes_url(PLAIN));
    hf_acquire_request request = with_ttl(mutex_request("name"), LIMIT_MS);
    hf_lease *lease = take(store, &request);

    (void)state;
    AWAIT(keys("name") == NODES);
    foreign_frees(NODE(0) | NODE(1) | NODE(2), "name");
    CHECK(foreign_takes(NODE(0) | NODE(1) | NODE(2), "name", FOREIGN_MS) == 3);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    AWAIT(keys("name") == 3);
    EXPECT(HF_BUSY, probe(store, &request));
    close_store(store);
}

/* The SETs arrive and their answers do not. Nobody can use that grant, and it is given back. */
static void unanswered_grants_are_given_back(void **state)
{
    hf_store *store = open_at(lines_url(PLAIN "&op_timeout=1s"));
    hf_acquire_request request = with_ttl(mutex_request("name"), LIMIT_MS);
    hf_lease *lease = NULL;
    hf_status status;

    (void)state;
    for (unsigned i = 0; i < MAJORITY; i++)
        proxy_block(lines[i], PROXY_DOWN, true);
    status = hf_acquire(store, &request, &lease, &contract_error);
    CHECK(status == HF_UNKNOWN || status == HF_UNAVAILABLE);
    for (unsigned i = 0; i < MAJORITY; i++)
        proxy_heal(lines[i]);
    AWAIT(keys("name") == 0);
    EXPECT(HF_OK, probe(store, &request));
    close_hard(store);
}

/*
 * A waiter gives its part back. That release lies about somewhere, until the waiter has won with a later attempt: it must not take
 * away a vote of that.
 */
static void a_late_release_is_of_its_attempt_only(void **state)
{
    hf_store *store = open_at(lines_url(PLAIN "&poll=20ms"));
    hf_acquire_request request = with_ttl(mutex_request("name"), LIMIT_MS);
    struct attempt attempt;
    int64_t bytes;

    (void)state;
    CHECK(foreign_takes(NODE(0) | NODE(1) | NODE(2), "name", FOREIGN_MS) == 3);
    for (unsigned i = 0; i < MAJORITY; i++)
        server_pause(nodes[i]);
    request.wait_ms = LIMIT_MS;
    attempt_start(&attempt, store, &request);
    AWAIT(server_do(nodes[4], "EXISTS name") == 1);
    proxy_block(lines[4], PROXY_UP, true);
    for (unsigned i = 0; i < MAJORITY; i++)
        server_continue(nodes[i]);
    AWAIT(proxy_held(lines[4], PROXY_UP) > 0); /* the release, and what follows it */
    proxy_cut_late(lines[4]);
    proxy_block(lines[4], PROXY_UP, false);
    bytes = proxy_bytes(lines[4], PROXY_UP);
    AWAIT(proxy_bytes(lines[4], PROXY_UP) >
          bytes + 5000);                                /* connected again, and several attempts */
    foreign_frees(NODE(0) | NODE(1) | NODE(2), "name"); /* the others have votes of the waiter */
    EXPECT(HF_OK, attempt_join(&attempt));
    AWAIT(server_do(nodes[4], "EXISTS name") == 1);
    EXPECT(HF_OK, hf_renew(attempt.lease, 2 * LIMIT_MS, &contract_error));
    AWAIT(server_do(nodes[4], "PTTL name") > LIMIT_MS);
    proxy_deliver(lines[4]);
    CHECK(server_do(nodes[4], "PTTL name") > LIMIT_MS); /* neither gone, nor made again */
    give(attempt.lease);
    close_hard(store);
}

static void keys_that_are_no_locks(void **state)
{
    hf_store *store = open_at(nodes_url(PLAIN "&repair_expiry=1s"));
    hf_acquire_request request = with_ttl(mutex_request("list"), LIMIT_MS);

    (void)state;
    for (unsigned i = 0; i < MAJORITY; i++)
        server_do(nodes[i], "RPUSH list a");
    EXPECT(HF_MISMATCH, probe(store, &request));
    AWAIT(keys("list") == 3);
    for (unsigned i = 0; i < NODES; i++) /* its owner died between SETNX and EXPIRE */
        server_do(nodes[i], "SET dead foreign");
    request = with_ttl(mutex_request("dead"), LIMIT_MS);
    request.wait_ms = LIMIT_MS;
    EXPECT(HF_OK, probe(store, &request));
    close_store(store);
}

static hf_status opens(const char *rest, const char *word)
{
    hf_store *store = NULL;
    hf_status status = hf_open(nodes_url(rest), NULL, &store, &contract_error);

    if (status == HF_OK)
        close_hard(store);
    else if (!strstr(contract_error.text, word)) {
        print_error("'%s' is not in: %s\n", word, contract_error.text);
        return HF_OK;
    }
    return status;
}

static void what_has_no_meaning_is_refused(void **state)
{
    hf_store *store = open_at(nodes_url(PLAIN));
    hf_acquire_request request = semaphore_request("name", 2);
    hf_redlock_status *cluster = NULL;

    (void)state;
    EXPECT(HF_CONFIG, opens(PLAIN "&max_ttl=1m", "max_ttl"));
    EXPECT(HF_CONFIG, opens("?poll=1s", "poll"));
    EXPECT(HF_CONFIG, opens("?repair_expiry=1s", "repair_expiry"));
    EXPECT(HF_CONFIG, opens("?wire=redisson", "wire"));
    EXPECT(HF_CONFIG, opens(PLAIN "&sync=1", "sync"));
    EXPECT(HF_UNSUPPORTED, probe(store, &request));
    EXPECT(HF_UNSUPPORTED, hf_redlock_get_status(nodes_url(PLAIN), &cluster, &contract_error));
    CHECK(strstr(contract_error.text, "epochs"));
    close_store(store);
}

static unsigned bad, none_of_tokens, votes;

static void note(hf_check_level level, const char *topic, const char *text, void *arg)
{
    (void)arg;
    bad += level == HF_CHECK_LEVEL_BAD;
    none_of_tokens += strcmp(topic, "tokens") == 0 && strncmp(text, "none", 4) == 0;
    votes += strcmp(topic, "nodes") == 0 && strstr(text, "4 of 5 nodes vote");
}

static void the_doctor_knows_the_wire(void **state)
{
    hf_store *store = open_at(nodes_url(PLAIN));

    (void)state;
    server_kill(nodes[3]);
    bad = none_of_tokens = votes = 0;
    EXPECT(HF_OK, call_store_check(store, note, NULL, &contract_error));
    CHECK(bad == 0 && none_of_tokens == 1 && votes == 1);
    close_hard(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NODES_TEST(a_lock_is_a_string_at_the_name),
        NODES_TEST(a_foreign_majority_excludes),
        NODES_TEST(a_waiter_gets_it_when_it_is_free),
        NODES_TEST(a_dead_and_a_stopped_node_cost_their_votes),
        NODES_TEST(a_majority_extends),
        NODES_TEST(frees_nothing_of_others),
        NODES_TEST(unanswered_grants_are_given_back),
        NODES_TEST(a_late_release_is_of_its_attempt_only),
        NODES_TEST(keys_that_are_no_locks),
        NODES_TEST(what_has_no_meaning_is_refused),
        NODES_TEST(the_doctor_knows_the_wire),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
