/* SPDX-License-Identifier: MIT */
/*
 * The doctor, on servers that have something: a clock that is wrong, replicas that do not keep up, a disk that
 * is full, a network that is slow or breaks. It must find it, and must come to an end in any case.
 */
#include "calls.h"
#include "redis_bed.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define HOUR_MS      (INT64_C(3600) * 1000)
#define FINDINGS_MAX 64

/* What it said. */
static struct finding {
    hf_check_level level;
    char topic[32], text[600];
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

static hf_check_level examine(hf_store *store)
{
    hf_check_level worst = HF_CHECK_LEVEL_OK;

    finding_count = 0;
    EXPECT(HF_OK, call_store_check(store, note, NULL, &contract_error));
    CHECK(finding_count > 0);
    for (size_t i = 0; i < finding_count; i++)
        worst = findings[i].level > worst ? findings[i].level : worst;
    return worst;
}

/* Did it say this about that? */
static bool found(hf_check_level level, const char *topic, const char *words)
{
    for (size_t i = 0; i < finding_count; i++)
        if (findings[i].level == level && strcmp(findings[i].topic, topic) == 0 &&
            strstr(findings[i].text, words))
            return true;
    for (size_t i = 0; i < finding_count; i++)
        fprintf(stderr, "%d %s: %s\n", (int)findings[i].level, findings[i].topic, findings[i].text);
    return false;
}

static void clocks(void **state)
{
    hf_store *store = open_direct();

    (void)state;
    examine(store);
    CHECK(found(HF_CHECK_LEVEL_OK, "clock", "ours"));
    clock_jump_ms(server, HOUR_MS);
    examine(store);
    CHECK(found(HF_CHECK_LEVEL_WARNING, "clock", "ahead of ours"));
    clock_jump_ms(server, -2 * HOUR_MS);
    examine(store);
    CHECK(found(HF_CHECK_LEVEL_WARNING, "clock", "behind ours"));
    close_store(store);
}

static void slow_network(void **state)
{
    hf_store *store = open_through();

    (void)state;
    proxy_delay(proxy, PROXY_UP, 400);
    examine(store);
    CHECK(found(HF_CHECK_LEVEL_WARNING, "round trip", "ttl"));
    CHECK(found(HF_CHECK_LEVEL_OK, "clock", "ours"));
    proxy_heal(proxy);
    close_store(store);
}

static void replicas(void **state)
{
    const char *of_it[] = { "--replicaof", "127.0.0.1", NULL, NULL };
    char port[8];
    struct server *replica;
    hf_store *store;
    hf_error err;
    hf_store *none = NULL;

    (void)state;
    snprintf(port, sizeof port, "%u", (unsigned)server->port);
    of_it[2] = port;
    replica = server_start(of_it);
    AWAIT(server_do(server, "WAIT 1 1000") == 1);

    store = open_direct();
    examine(store);
    CHECK(found(HF_CHECK_LEVEL_WARNING, "replication", "granted twice"));
    close_store(store);
    store = open_at(server_url(server, "?sync=1"));
    examine(store);
    CHECK(found(HF_CHECK_LEVEL_OK, "replication", "1 replicas keep up"));
    close_store(store);
    store = open_at(server_url(server, "?sync=2"));
    CHECK(examine(store) == HF_CHECK_LEVEL_BAD);
    CHECK(found(HF_CHECK_LEVEL_BAD, "replication", "no lock will be granted"));
    close_store(store);

    /* A replica itself is no store. */
    EXPECT(HF_UNAVAILABLE, hf_open(server_url(replica, ""), NULL, &none, &err));
    CHECK(strstr(err.text, "replica") != NULL);

    server_free(replica);
    AWAIT(server_do(server, "WAIT 1 1") == 0);
    store = open_at(server_url(server, "?sync=1"));
    CHECK(examine(store) == HF_CHECK_LEVEL_BAD);
    close_store(store);
}

static void a_disk_that_fails(void **state)
{
    hf_store *store = open_direct();

    (void)state;
    /* A directory is in the way of the snapshot. */
    {
        char path[2 * SERVER_PATH_ROOM];

        snprintf(path, sizeof path, "%s/dump.rdb", server->dir);
        CHECK(mkdir(path, 0700) == 0);
        snprintf(path, sizeof path, "%s/dump.rdb/in-the-way", server->dir);
        CHECK(mkdir(path, 0700) == 0);
    }
    server_do(server, "SET x y");
    server_do(server, "BGSAVE");
    AWAIT(examine(store) == HF_CHECK_LEVEL_BAD);
    CHECK(found(HF_CHECK_LEVEL_BAD, "persistence", "the last snapshot failed"));
    close_store(store);
}

/* Its own connection is cut after any number of bytes: it says so, and comes to an end; the store goes on. */
static void cut_anywhere(void **state)
{
    hf_store *store = open_through();
    hf_acquire_request request = mutex_request("n");
    hf_lease *lease;
    int64_t bytes = proxy_bytes(proxy, PROXY_DOWN), all, step;
    hf_check_level worst;
    unsigned cuts = 0;

    (void)state;
    examine(store);
    all = proxy_bytes(proxy, PROXY_DOWN) - bytes;
    step = all / 40 + 1;
    for (int64_t at = 0; at < all; at += step) {
        proxy_cut_after(proxy, PROXY_DOWN, at);
        worst = examine(store);
        cuts += proxy_has_cut(proxy);
        if (proxy_has_cut(proxy) &&
            worst != HF_CHECK_LEVEL_BAD) /* what it may do without: ACL WHOAMI, SCAN */
            CHECK(found(HF_CHECK_LEVEL_OK, "clock", ""));
        proxy_heal(proxy);
    }
    CHECK(cuts > 30);
    AWAIT(hf_acquire(store, &request, &lease, &contract_error) == HF_OK);
    give(lease);
    close_store(store);
}

/* While others wait in the same store, and are handed the lease meanwhile. */
static void beside_a_waiter(void **state)
{
    hf_store *store = open_direct(), *other = open_direct();
    hf_acquire_request request = mutex_request("n");
    hf_lease *lease = take(other, &request);
    struct attempt attempt;
    hf_acquire_request waiting = waiting_request("n");

    (void)state;
    attempt_start(&attempt, store, &waiting);
    attempt_settled(&attempt);
    examine(store);
    CHECK(found(HF_CHECK_LEVEL_OK, "rights", "all that locks need"));
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_store(store);
    close_store(other);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST_CLOCK(clocks),      TEST(slow_network), TEST(replicas),
        TEST(a_disk_that_fails), TEST(cut_anywhere), TEST(beside_a_waiter),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
