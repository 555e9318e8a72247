/* SPDX-License-Identifier: MIT */
/* The doctor on Redlock: each thing that a promise hangs on, seen in a server that has it. */
#include "calls.h"
#include "nodes.h"

#include <stdio.h>
#include <string.h>

#define FINDINGS_MAX 96

static struct finding {
    hf_check_level level;
    char topic[32], text[640];
} findings[FINDINGS_MAX];
static size_t finding_count;

static void note(hf_check_level level, const char *topic, const char *text, void *arg)
{
    (void)arg;
    CHECK(finding_count < FINDINGS_MAX && strlen(topic) > 0 && strlen(text) > 0);
    findings[finding_count].level = level;
    snprintf(findings[finding_count].topic, sizeof findings[0].topic, "%s", topic);
    snprintf(findings[finding_count].text, sizeof findings[0].text, "%s", text);
    finding_count++;
}

static void examine(hf_store *store)
{
    finding_count = 0;
    EXPECT(HF_OK, call_store_check(store, note, NULL, &contract_error));
}

/* Did it say this about that node (-1: about all)? */
static bool found(hf_check_level level, const char *topic, int node, const char *words)
{
    char where[32] = "";

    if (node >= 0)
        snprintf(where, sizeof where, "127.0.0.1:%u: ", (unsigned)nodes[node]->port);
    for (size_t i = 0; i < finding_count; i++)
        if (findings[i].level == level && strcmp(findings[i].topic, topic) == 0 &&
            strncmp(findings[i].text, where, strlen(where)) == 0 && strstr(findings[i].text, words))
            return true;
    for (size_t i = 0; i < finding_count; i++)
        print_error("%d %s: %s\n", (int)findings[i].level, findings[i].topic, findings[i].text);
    return false;
}

static void set_all(const char *parameter, const char *value)
{
    for (unsigned i = 0; i < NODES; i++)
        server_do(nodes[i], "CONFIG SET %s %s", parameter, value);
}

static void what_tokens_hang_on(void **state)
{
    hf_store *store = open_at(nodes_url("?max_ttl=3s"));

    (void)state;
    set_all("appendfsync", "always");
    AWAIT(node_votes(0) && node_votes(1) && node_votes(2) && node_votes(3) && node_votes(4));
    examine(store);
    CHECK(found(HF_CHECK_LEVEL_OK, "persistence", 0, "always") &&
          found(HF_CHECK_LEVEL_OK, "tokens", -1, "strict"));
    CHECK(found(HF_CHECK_LEVEL_OK, "cluster", -1, "5 of 5 nodes vote") &&
          found(HF_CHECK_LEVEL_OK, "epoch", 4, "1"));
    CHECK(found(HF_CHECK_LEVEL_OK, "memory", 2, "noeviction") &&
          found(HF_CHECK_LEVEL_OK, "clock", -1, "differ"));
    CHECK(found(HF_CHECK_LEVEL_WARNING, "places", -1, "one host"));

    server_do(nodes[1], "CONFIG SET appendfsync everysec");
    server_do(nodes[2], "CONFIG SET no-appendfsync-on-rewrite yes");
    server_do(nodes[3], "CONFIG SET appendonly no");
    server_do(nodes[3], "CONFIG SET save %s", "3600 1");
    server_do(nodes[4], "CONFIG SET appendonly no");
    server_do(nodes[4], "CONFIG SET save %s", "");
    server_do(nodes[0], "CONFIG SET maxmemory-policy allkeys-lru");
    clock_jump_ms(nodes[0], 5000);
    examine(store);
    CHECK(found(HF_CHECK_LEVEL_WARNING, "persistence", 1, "everysec"));
    CHECK(found(HF_CHECK_LEVEL_WARNING, "persistence", 2, "no-appendfsync-on-rewrite"));
    CHECK(found(HF_CHECK_LEVEL_BAD, "persistence", 3, "snapshots only"));
    CHECK(found(HF_CHECK_LEVEL_WARNING, "persistence", 4, "none"));
    CHECK(found(HF_CHECK_LEVEL_WARNING, "memory", 0, "allkeys-lru"));
    CHECK(found(HF_CHECK_LEVEL_WARNING, "tokens", -1, "strict only while"));
    CHECK(found(HF_CHECK_LEVEL_WARNING, "clock", -1, "set right"));
    server_do(nodes[0], "CONFIG SET maxmemory 100mb");
    clock_jump_ms(nodes[0], -120000); /* now ours is ahead of it */
    examine(store);
    CHECK(found(HF_CHECK_LEVEL_BAD, "memory", 0, "allkeys-lru") &&
          found(HF_CHECK_LEVEL_WARNING, "clock", -1, "propose"));
    close_hard(store);
}

static void nodes_that_do_not_vote(void **state)
{
    hf_store *store = open_at(nodes_url("?max_ttl=1h"));

    (void)state;
    await_whole();
    server_do(nodes[0], "FLUSHALL");
    server_kill(nodes[1]);
    examine(store);
    CHECK(found(HF_CHECK_LEVEL_WARNING, "epoch", 0, "has no vote"));
    CHECK(found(HF_CHECK_LEVEL_WARNING, "connection", 1, "costs its vote"));
    CHECK(found(HF_CHECK_LEVEL_WARNING, "cluster", -1, "3 of 5 nodes vote"));

    server_do(nodes[0], "REPLICAOF 127.0.0.1 %d", (int)nodes[2]->port);
    server_do(nodes[3], "FLUSHALL");
    examine(store);
    CHECK(found(HF_CHECK_LEVEL_BAD, "role", 0, "replica"));
    CHECK(found(HF_CHECK_LEVEL_BAD, "cluster", -1, "are needed, but do not answer"));
    server_do(nodes[0], "REPLICAOF NO ONE");
    server_do(nodes[0], "FLUSHALL");
    examine(store);
    CHECK(
        found(HF_CHECK_LEVEL_BAD, "cluster", -1, "do not answer")); /* node 1 could be the third */
    close_hard(store);
}

static void what_we_may_not_know(void **state)
{
    hf_store *store;

    (void)state;
    store = open_at(nodes_url("?max_ttl=3s"));
    for (unsigned i = 0; i < NODES; i++)
        server_do(nodes[i], "ACL SETUSER default -config");
    examine(store);
    CHECK(found(HF_CHECK_LEVEL_WARNING, "persistence", 3, "no right to know"));
    CHECK(found(HF_CHECK_LEVEL_WARNING, "tokens", -1, "strict only while"));
    close_hard(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NODES_TEST(what_tokens_hang_on),
        NODES_TEST(nodes_that_do_not_vote),
        NODES_TEST(what_we_may_not_know),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
