/* SPDX-License-Identifier: MIT */
/*
 * A real server that will not do what it is asked, in every way it has: each is a typed status
 * whose text has the server's own word for it, nothing is held after it, and when the cause is
 * gone the same store goes on.
 */
#include "bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hf_store *store;

static int setup(void **state)
{
    hf_request request = mutex_request("n");

    bed_setup(state);
    store = open_at(server_url(server, "?op_timeout=2s"));
    EXPECT(HF_OK, probe(store, &request));
    return 0;
}

static int teardown(void **state)
{
    close_hard(store);
    return bed_teardown(state);
}

/* A try is refused with that status, by that word; after `cure` it is not, and nothing was left. */
static void is_refused(hf_status want, const char *word, const char *cure)
{
    hf_request request = mutex_request("n");
    hf_lease *lease;

    EXPECT(want, hf_acquire(store, &request, &lease, &contract_error));
    if (!strstr(contract_error.text, word))
        fail_msg("no %s in: %s", word, contract_error.text);
    server_do(server, cure);
    AWAIT(hf_acquire(store, &request, &lease, &contract_error) == HF_OK);
    CHECK(count_holders(store, "n") == 1);
    give(lease);
}

static void out_of_memory(void **state)
{
    (void)state;
    server_do(server, "CONFIG SET maxmemory 1");
    is_refused(HF_FULL, "OOM", "CONFIG SET maxmemory 0");
}

/* Who holds can renew and let go even then: neither needs more memory. */
static void out_of_memory_while_held(void **state)
{
    hf_request request = with_ttl(mutex_request("held"), 30000);
    hf_lease *lease = take(store, &request);

    (void)state;
    server_do(server, "CONFIG SET maxmemory 1");
    EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
    EXPECT(HF_OK, hf_release(lease, &contract_error));
    server_do(server, "CONFIG SET maxmemory 0");
    CHECK(count_holders(store, "held") == 0);
}

static void too_few_replicas(void **state)
{
    (void)state;
    server_do(server, "CONFIG SET min-replicas-to-write 1");
    is_refused(HF_UNAVAILABLE, "NOREPLICAS", "CONFIG SET min-replicas-to-write 0");
}

/* Its data cannot be saved, and it is told not to take any then. */
static void cannot_save(void **state)
{
    char path[2 * SERVER_PATH_ROOM];
    redisReply *reply;

    (void)state;
    server_do(server, "CONFIG SET save %s", "3600 1");
    /* The file cannot be put in place: a directory is in the way. */
    snprintf(path, sizeof path, "mkdir -p %s/dump.rdb/in-the-way", server->dir);
    CHECK(system(path) == 0);
    for (bool failed = false; !failed; nap_ms(10)) {
        freeReplyObject(server_ask(server, "BGSAVE"));
        reply = server_ask(server, "INFO persistence");
        failed = strstr(reply->str, "rdb_last_bgsave_status:err");
        freeReplyObject(reply);
    }
    is_refused(HF_UNAVAILABLE, "MISCONF", "CONFIG SET stop-writes-on-bgsave-error no");
}

/* It became somebody's replica. */
static void became_a_replica(void **state)
{
    (void)state;
    server_do(server, "REPLICAOF 127.0.0.1 1");
    is_refused(HF_UNAVAILABLE, "READONLY", "REPLICAOF NO ONE");
}

/* A key of another kind is where the name should be. */
static void key_of_another_kind(void **state)
{
    (void)state;
    server_do(server, "SET hf:{n} stray");
    is_refused(HF_MISMATCH, "WRONGTYPE", "DEL hf:{n}");
}

/* ---- a foreign lock without an end ---------------------------------------------------------- */

/* The gap between SETNX and EXPIRE, left by a client of another kind: only with repair_expiry= is such
 * a key given an end; without it, it is somebody's lock, and stays. */
static void lock_without_an_end(void **state)
{
    hf_store *strict = open_at(server_url(server, "?wire=plain"));
    hf_store *repairing = open_at(server_url(server, "?wire=plain&repair_expiry=1s"));
    hf_request trying = mutex_request("old"), waiting = waiting_request("old");
    hf_lease *lease;

    (void)state;
    server_do(server, "SETNX old stranger");
    EXPECT(HF_BUSY, probe(strict, &trying));
    CHECK(server_do(server, "PTTL old") == -1);
    lease = take(repairing, &waiting);
    EXPECT(HF_BUSY, probe(strict, &trying));
    CHECK(server_do(server, "PTTL old") > 0);
    give(lease);
    /* A lock that has an end is left alone, however long it is. */
    server_do(server, "SET old stranger NX PX 1000000");
    EXPECT(HF_BUSY, probe(repairing, &trying));
    CHECK(server_do(server, "PTTL old") > 500000);
    close_store(strict);
    close_store(repairing);
}

#define REFUSAL(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        REFUSAL(out_of_memory),    REFUSAL(out_of_memory_while_held), REFUSAL(too_few_replicas),
        REFUSAL(cannot_save),      REFUSAL(became_a_replica),         REFUSAL(key_of_another_kind),
        TEST(lock_without_an_end),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
