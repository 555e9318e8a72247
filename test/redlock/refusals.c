/* SPDX-License-Identifier: MIT */
/* What a Redlock store does not take: too few nodes, an even number, one node twice, too long a ttl. */
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
    hf_request request = with_ttl(mutex_request("name"), 2500);
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
    hf_request request = with_ttl(mutex_request("name"), 6000);

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
    EXPECT(HF_UNSUPPORTED, hf_guard_write(store, "thing", 0, 1, "x", 1, &contract_error));
    close_store(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NODES_TEST(too_few_or_even),         NODES_TEST(one_node_twice),
        NODES_TEST(longer_than_max_ttl),     NODES_TEST(renewed_for_too_long),
        NODES_TEST(another_number_of_nodes), NODES_TEST(no_cells),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
