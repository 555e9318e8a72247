/* SPDX-License-Identifier: MIT */
/* What a Redlock store does not take: too few nodes, an even number, one node twice, too long a ttl. */
#include "holdfast/primitives.h"
#include "nodes.h"

#include <stdio.h>
#include <string.h>

static hf_status open_list(const char *format, ...)
{
    hf_store *store = NULL;
    char url[512];
    hf_status status;
    va_list args;

    va_start(args, format);
    vsnprintf(url, sizeof url, format, args);
    va_end(args);
    status = hf_open(url, NULL, &store, &contract_error);
    if (status == HF_OK)
        close_hard(store);
    return status;
}

static bool says(const char *word)
{
    if (strstr(contract_error.text, word))
        return true;
    print_error("'%s' is not in: %s\n", word, contract_error.text);
    return false;
}

static void too_few_or_even(void **state)
{
    (void)state;
    EXPECT(HF_CONFIG, open_list("redlock://127.0.0.1:%d", nodes[0]->port));
    CHECK(says("nodes"));
    EXPECT(HF_CONFIG,
           open_list("redlock://127.0.0.1:%d,127.0.0.1:%d", nodes[0]->port, nodes[1]->port));
    EXPECT(HF_CONFIG,
           open_list("redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d?prefix=e:",
                     nodes[0]->port, nodes[1]->port, nodes[2]->port, nodes[3]->port));
    CHECK(says("even"));
    EXPECT(HF_OK,
           open_list("redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d?prefix=e:"
                     "&even=yes",
                     nodes[0]->port, nodes[1]->port, nodes[2]->port, nodes[3]->port));
}

/* Asking for too much is a mistake; it is not the end of the lease, nor of its renewals. */
static void renewed_for_too_long(void **state)
{
    hf_store *store = open_at(nodes_url("?max_ttl=5s"));
    hf_acquire_request request = with_ttl(mutex_request("name"), 2500);
    hf_lease *lease;

    (void)state;
    request.lock_delay_ms = 2000;
    lease = take(store, &request);
    EXPECT(HF_INVALID, hf_renew(lease, 6000, &contract_error));
    CHECK(says("max_ttl"));
    EXPECT(HF_INVALID, hf_renew(lease, 4000, &contract_error)); /* with its lock delay */
    CHECK(says("lock_delay_ms"));
    CHECK(hf_lease_state(lease) != HF_STATE_LOST);
    EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    give(lease);
    close_store(store);
}

/* By the same name, and by two that lead to one server. */
static void one_node_twice(void **state)
{
    (void)state;
    EXPECT(HF_CONFIG, open_list("redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", nodes[0]->port,
                                nodes[1]->port, nodes[0]->port));
    CHECK(says("twice"));
    EXPECT(HF_CONFIG, open_list("redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", nodes[0]->port,
                                nodes[1]->port, proxy_port(lines[1])));
    CHECK(server_do(nodes[0], "EXISTS hf:rl:cluster") == 0); /* and nothing was begun */
}

static void longer_than_max_ttl(void **state)
{
    hf_store *store = open_at(nodes_url("?max_ttl=5s"));
    hf_acquire_request request = with_ttl(mutex_request("name"), 6000);

    (void)state;
    EXPECT(HF_INVALID, probe(store, &request));
    CHECK(says("max_ttl"));
    request.ttl_ms = 5000;
    EXPECT(HF_OK, probe(store, &request));
    request.ttl_ms = 3000;
    request.lock_delay_ms = 3000; /* together they are too long */
    EXPECT(HF_INVALID, probe(store, &request));
    CHECK(says("max_ttl"));
    close_store(store);

    /* What the cluster was made with counts, not what a later client would like. */
    store = open_at(nodes_url("?max_ttl=1h"));
    request.lock_delay_ms = 0;
    request.ttl_ms = 60000;
    EXPECT(HF_INVALID, probe(store, &request));
    close_store(store);
}

static void another_number_of_nodes(void **state)
{
    (void)state;
    close_store(open_at(nodes_url("")));
    EXPECT(HF_CONFIG, open_list("redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", nodes[0]->port,
                                nodes[1]->port, nodes[2]->port));
    CHECK(says("5"));
}

static void no_cells(void **state)
{
    hf_store *store = open_at(nodes_url(""));

    (void)state;
    EXPECT(HF_UNSUPPORTED, hf_guard_set(store, "thing", HF_CSTRING, 1, "x", 1, &contract_error));
    close_store(store);
}

/* ---- one name among many ------------------------------------------------------------------------- */

static hf_store *open_as_user(void)
{
    char url[256];

    for (unsigned i = 0; i < NODES; i++)
        server_do(nodes[i], "ACL SETUSER app on >sesame +@all ~* &*");
    snprintf(url, sizeof url, "redlock://app:sesame@%s", nodes_url("") + strlen("redlock://"));
    return open_at(url);
}

static void overwrite(struct server *node)
{
    server_do(node, "DEL hf:rl:{bad}");
    server_do(node, "SET hf:rl:{bad} stray");
}

static void upgrade(struct server *node)
{
    server_do(node, "DEL hf:rl:{bad}");
    server_do(node, "HSET hf:rl:{bad} m %b", "\4 of another version", (size_t)20);
}

static void forbid(struct server *node)
{
    server_do(node, "ACL SETUSER app resetkeys ~hf:rl:cluster ~hf:rl:{a}* ~hf:rl:{b}*");
}

/* Leases that are renewed in one command with one whose key was spoilt, everywhere: that one alone is lost. */
static void spoils_one(void (*spoil)(struct server *node), hf_status said)
{
    hf_store *store = open_as_user();
    hf_acquire_request bad = with_ttl(mutex_request("bad"), 2000),
                       a = with_ttl(mutex_request("a"), 2000),
                       b = with_ttl(mutex_request("b"), 2000);
    hf_lease *leases[3];
    int64_t until_ms;

    bad.lock_delay_ms = a.lock_delay_ms = b.lock_delay_ms = 1; /* so that each has a key */
    leases[0] = take(store, &bad);
    leases[1] = take(store, &a);
    leases[2] = take(store, &b);
    for (unsigned i = 0; i < NODES; i++)
        spoil(nodes[i]);
    EXPECT(said, hf_renew(leases[0], 0, &contract_error));
    await_lost(leases[0]);
    for (until_ms = now_ms() + 2500; now_ms() < until_ms; nap_ms(5))
        if (hf_lease_state(leases[1]) != HF_STATE_HELD ||
            hf_lease_state(leases[2]) != HF_STATE_HELD)
            fail_msg("lost together with another");
    give(leases[1]);
    give(leases[2]);
    hf_release(leases[0], NULL);
    close_hard(store);
}

static void one_of_another_kind(void **state)
{
    (void)state;
    spoils_one(overwrite, HF_MISMATCH);
}

static void one_of_another_version(void **state)
{
    (void)state;
    spoils_one(upgrade, HF_VERSION);
}

static void one_without_rights(void **state)
{
    (void)state;
    spoils_one(forbid, HF_DENIED);
}

/* ---- blocks of tokens --------------------------------------------------------------------------- */

struct hammer {
    hf_store *store;
    int64_t until_ms;
    uint64_t turns, lowest, highest;
    pthread_t thread;
};

static void *hammer_run(void *arg)
{
    struct hammer *h = arg;
    hf_acquire_request request = waiting_request("n");

    while (now_ms() < h->until_ms) {
        hf_lease *lease = take(h->store, &request);
        uint64_t token = hf_lease_token(lease);

        h->turns++;
        h->lowest = !h->lowest || token < h->lowest ? token : h->lowest;
        h->highest = token > h->highest ? token : h->highest;
        give(lease);
    }
    return NULL;
}

/* A name whose tokens are far ahead of the clock: they go on one by one, and not by blocks. */
static void tokens_wait_for_the_clock(void **state)
{
    hf_store *stores[2] = { open_at(nodes_url("?cohort=1000&cohort_time=0s")),
                            open_at(nodes_url("?cohort=1000&cohort_time=0s")) };
    hf_acquire_request request = mutex_request("n");
    struct hammer hammers[4];
    uint64_t turns = 0, lowest = UINT64_MAX, highest = 0;
    double first;

    (void)state;
    EXPECT(HF_OK, probe(stores[0], &request));
    first = (double)gets_free(stores[0], "n", 0) + 1e9; /* a quarter of an hour */
    for (unsigned i = 0; i < NODES; i++)
        server_do(nodes[i], "EVAL %s 1 hf:rl:cluster %b",
                  "local m = redis.call('HGET', KEYS[1], 'm') redis.call('HSET', KEYS[1], 'nn', "
                  "ARGV[1], 'm', string.sub(m, 1, 57) .. ARGV[1] .. string.sub(m, 66)) return 1",
                  (void *)&first, sizeof first);
    for (int i = 0; i < 4; i++) {
        hammers[i] = (struct hammer){ .store = stores[i % 2], .until_ms = now_ms() + 1500 };
        pthread_create(&hammers[i].thread, NULL, hammer_run, &hammers[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(hammers[i].thread, NULL);
        turns += hammers[i].turns;
        lowest = hammers[i].lowest < lowest ? hammers[i].lowest : lowest;
        highest = hammers[i].highest > highest ? hammers[i].highest : highest;
    }
    CHECK(lowest > (uint64_t)first);
    /* An attempt that finds another ahead of it may take one and give it back. */
    if (highest - lowest > 10 * turns + 2 * 1001)
        fail_msg("%llu tokens for %llu turns", (unsigned long long)(highest - lowest),
                 (unsigned long long)turns);
    close_store(stores[0]);
    close_store(stores[1]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NODES_TEST(too_few_or_even),         NODES_TEST(one_node_twice),
        NODES_TEST(longer_than_max_ttl),     NODES_TEST(renewed_for_too_long),
        NODES_TEST(another_number_of_nodes), NODES_TEST(no_cells),
        NODES_TEST(one_of_another_kind),     NODES_TEST(one_of_another_version),
        NODES_TEST(one_without_rights),      NODES_TEST(tokens_wait_for_the_clock),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
