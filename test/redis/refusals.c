/* SPDX-License-Identifier: MIT */
/*
 * A real server that will not do what it is asked, in every way it has: each is a typed status
 * whose text has the server's own word for it, nothing is held after it, and when the cause is
 * gone the same store goes on.
 */
#include "liar.h"
#include "redis_bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hf_store *store;

static int setup(void **state)
{
    hf_acquire_request request = mutex_request("n");

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
    hf_acquire_request request = mutex_request("n");
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
    hf_acquire_request request = with_ttl(mutex_request("held"), 30000);
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
    /* The file cannot be put in place: there is a directory of that name. */
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
    hf_acquire_request trying = mutex_request("old"), waiting = waiting_request("old");
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

/* ---- one name among many ----------------------------------------------------------------------- */

/*
 * Renewals and heartbeats of many names travel in one command. A name that cannot be renewed
 * affects only its own lease: the others stay HELD, and are never even AT_RISK.
 */
#define GOOD 3 /* leases in addition to the one whose key is damaged */

static hf_lease *hold_for(const char *name, int64_t ttl_ms)
{
    hf_acquire_request request = with_ttl(mutex_request(name), ttl_ms);

    return take(store, &request);
}

/* Spoil the key of "bad" while it is held together with others: it alone is lost, and not before its time. */
static void spoils_one(void (*spoil)(void), hf_status said, const char *word)
{
    static const char *const names[GOOD] = { "a", "b", "c" };
    hf_lease *good[GOOD], *bad = hold_for("bad", 2000);
    bool was_at_risk = false;
    int64_t from_ms = now_ms(), lost_ms;

    for (int i = 0; i < GOOD; i++)
        good[i] = hold_for(names[i], 2000);
    spoil();
    EXPECT(said, hf_renew(bad, 0, &contract_error));
    if (!strstr(contract_error.text, word))
        fail_msg("no %s in: %s", word, contract_error.text);
    while (hf_lease_state(bad) != HF_STATE_LOST) {
        was_at_risk |= hf_lease_state(bad) == HF_STATE_AT_RISK;
        nap_ms(5);
    }
    lost_ms = now_ms();
    CHECK(was_at_risk);
    CHECK(lost_ms - from_ms > 1500); /* what its last renewal gave it */
    /* One more of their ttls: without renewals they would be lost by then. */
    while (now_ms() < lost_ms + 2500) {
        for (int i = 0; i < GOOD; i++)
            if (hf_lease_state(good[i]) != HF_STATE_HELD)
                fail_msg("%s: lost together with another", names[i]);
        nap_ms(5);
    }
    EXPECT(HF_LOST, hf_release(bad, &contract_error));
    for (int i = 0; i < GOOD; i++)
        give(good[i]);
}

static void overwrite(void)
{
    server_do(server, "SET hf:{bad} stray");
}

static void one_key_of_another_kind(void **state)
{
    (void)state;
    spoils_one(overwrite, HF_MISMATCH, "WRONGTYPE");
}

/* The state of a name is its field m, whose first byte is the version. A version that rewrites it leaves nothing of ours. */
static void write_state(const char *name, unsigned char version, size_t len)
{
    unsigned char state[128] = { version };

    CHECK(len <= sizeof state);
    server_do(server, "DEL hf:{%s}", name);
    server_do(server, "HSET hf:{%s} m %b", name, (const void *)state, len);
}

static void upgrade(void)
{
    write_state("bad", 8, 105);
}

/* Another version of Holdfast has rewritten it. */
static void one_of_another_version(void **state)
{
    (void)state;
    spoils_one(upgrade, HF_VERSION, "another version");
}

static void forbid(void)
{
    server_do(server, "ACL SETUSER app resetkeys ~hf:{a}* ~hf:{b}* ~hf:{c}*");
}

/* The rights of our user to one key are taken away. */
static int setup_user(void **state)
{
    char url[128];

    bed_setup(state);
    server_do(server, "ACL SETUSER app on >sesame +@all ~* &*");
    snprintf(url, sizeof url, "redis://app:sesame@127.0.0.1:%u", (unsigned)server->port);
    store = open_at(url);
    return 0;
}

static void one_without_rights(void **state)
{
    (void)state;
    spoils_one(forbid, HF_DENIED, "NOPERM");
}

static void one_foreign_without_rights(void **state)
{
    hf_store *native = store;
    char url[128];

    (void)state;
    snprintf(url, sizeof url, "redis://app:sesame@127.0.0.1:%u?wire=plain", (unsigned)server->port);
    store = open_at(url);
    server_do(server, "ACL SETUSER app resetkeys ~a ~b ~c ~bad");
    {
        hf_lease *bad = hold_for("bad", 2000), *good = hold_for("a", 2000);
        int64_t until_ms;

        server_do(server, "ACL SETUSER app resetkeys ~a ~b ~c");
        await_lost(bad);
        for (until_ms = now_ms() + 2500; now_ms() < until_ms; nap_ms(5))
            CHECK(hf_lease_state(good) == HF_STATE_HELD);
        EXPECT(HF_LOST, hf_release(bad, &contract_error));
        give(good);
    }
    close_hard(store);
    store = native;
}

/* ---- waiters: the same ------------------------------------------------------------------------- */

/* A waiter whose name cannot be read any more does not take the places of others from them. */
static void spoils_one_waiter(void (*spoil)(void))
{
    hf_store *holders = open_direct();
    hf_acquire_request bad = with_ttl(waiting_request("bad"), 1000),
                       good = with_ttl(waiting_request("a"), 1000);
    hf_lease *held[2];
    struct attempt waits[2];
    int64_t from_ms;

    bad.ttl_ms = 60000;
    held[0] = take(holders, &bad);
    good.ttl_ms = 60000;
    held[1] = take(holders, &good);
    bad.ttl_ms = good.ttl_ms = 1000;
    bad.wait_ms = HF_FOREVER; /* and yet it ends */
    attempt_start(&waits[1], store, &good);
    AWAIT(count_waiters(holders, "a") == 1);
    attempt_start(&waits[0], store, &bad); /* the newest is the first of a heartbeat */
    AWAIT(count_waiters(holders, "bad") == 1);
    spoil();
    /* Beyond its window (3 s) a waiter without heartbeats has lost its place. */
    for (from_ms = now_ms(); now_ms() < from_ms + 5500; nap_ms(50))
        if (count_waiters(holders, "a") != 1)
            fail_msg("its place is lost after %lld ms", (long long)(now_ms() - from_ms));
    give(held[1]);
    EXPECT(HF_OK, attempt_join(&waits[1]));
    give(waits[1].lease);
    AWAIT(waits[0].ended);
    EXPECT(HF_UNKNOWN, attempt_join(&waits[0])); /* it may have been granted */
    hf_release(held[0], NULL);
    close_hard(holders);
}

static void one_waiter_of_another_kind(void **state)
{
    (void)state;
    spoils_one_waiter(overwrite);
}

static void one_waiter_of_another_version(void **state)
{
    (void)state;
    spoils_one_waiter(upgrade);
}

static void one_waiter_without_rights(void **state)
{
    (void)state;
    spoils_one_waiter(forbid);
}

/* ---- another version ----------------------------------------------------------------------------- */

/* However long the state is that another version has left: no call takes it for ours, or for damage. */
static void names_of_another_version(void **state)
{
    static const struct {
        unsigned char version;
        size_t len;
    } forms[] = { { 1, 105 }, { 2, 64 }, { 8, 62 }, { 9, 17 }, { 0, 105 } };
    hf_acquire_request request = mutex_request("n");
    hf_lease *lease;
    hf_view *view;

    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        for (int wait = 0; wait < 2; wait++) {
            server_do(server, "DEL hf:{n}");
            write_state("n", forms[i].version, forms[i].len);
            request.wait_ms = wait ? LIMIT_MS : 0;
            EXPECT(HF_VERSION, hf_acquire(store, &request, &lease, &contract_error));
            CHECK(strstr(contract_error.text, "another version of Holdfast"));
        }
        EXPECT(HF_VERSION, hf_store_inspect(store, "n", 1, 0, &view, &contract_error));
        EXPECT(HF_VERSION, hf_lease_break(store, "n", 1, 1, &contract_error));
        /* And a lease of ours whose name was rewritten under us. */
        server_do(server, "DEL hf:{n}");
        request.wait_ms = 0;
        lease = take(store, &request);
        write_state("n", forms[i].version, forms[i].len);
        EXPECT(HF_VERSION, hf_renew(lease, 0, &contract_error));
        CHECK(hf_lease_state(lease) != HF_STATE_LOST);
        EXPECT(HF_VERSION, hf_release(lease, &contract_error));
    }
    server_do(server, "DEL hf:{n}");
}

/* ---- answers that no script of ours gives --------------------------------------------------------- */

#define TEXT(c) "$1\r\n" c "\r\n"

#define GRANTED "*4\r\n" TEXT("G") ":5\r\n:1\r\n:30000\r\n"

static hf_store *open_liar(const struct liar *liar)
{
    char at[128];

    snprintf(at, sizeof at, "redis+cluster://127.0.0.1:%u", (unsigned)liar_port(liar));
    return open_at(at);
}

static void close_liar(struct liar *liar, hf_store *theirs)
{
    liar_says(liar, NULL, ":1\r\n");
    close_hard(theirs);
    liar_stop(liar);
}

/* "Queued" in any other shape than `Q next last`: the outcome is unknown, and nobody waits on. */
static void odd_queues(void **state)
{
    static const char *const replies[] = {
        "*1\r\n" TEXT("Q"),
        "*2\r\n" TEXT("Q") ":0\r\n",
        "*3\r\n" TEXT("Q") ":0\r\n" TEXT("5"),
        "*3\r\n" TEXT("Q") TEXT("0") ":5\r\n",
        "*3\r\n" TEXT("Q") ":0\r\n*0\r\n",
        "*3\r\n" TEXT("Q") ":0\r\n$-1\r\n",
        "*3\r\n" TEXT("Q") ":0\r\n:-1\r\n",
        "*3\r\n" TEXT("Q") ":0\r\n-ERR\r\n",
    };
    struct liar *liar = liar_start("ERR");
    hf_acquire_request request =
        with_wait(mutex_request("n"), 3000); /* it ends before a heartbeat */
    hf_store *theirs = open_liar(liar);
    hf_lease *lease;

    (void)state;
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        liar_says(liar, replies[i], "*1\r\n" TEXT("N"));
        EXPECT(HF_UNKNOWN, hf_acquire(theirs, &request, &lease, &contract_error));
        if (!strstr(contract_error.text, "unexpected answer to a script"))
            fail_msg("reply %zu: %s", i, contract_error.text);
    }
    close_liar(liar, theirs);
}

/* A list that is too short, things in it that are no answers, and errors in it. */
static void odd_renewals(void **state)
{
    static const struct {
        const char *reply;
        hf_status status;
    } cases[] = {
        { "*0\r\n", HF_UNKNOWN },
        { ":1\r\n", HF_UNKNOWN },
        { "$-1\r\n", HF_UNKNOWN },
        { "*-1\r\n", HF_UNKNOWN },
        { "*1\r\n" TEXT("1"), HF_UNKNOWN },
        { "*1\r\n*1\r\n:1\r\n", HF_UNKNOWN },
        { "*1\r\n$-1\r\n", HF_UNKNOWN },
        { "*1\r\n-WRONGTYPE no\r\n", HF_MISMATCH },
        { "*1\r\n-NOPERM no\r\n", HF_DENIED },
        { "*1\r\n-nonsense\r\n", HF_CORRUPT },
        { "*2\r\n:1\r\n:0\r\n", HF_OK },
        { "*1\r\n:7\r\n", HF_LOST },
    };
    struct liar *liar = liar_start("ERR");
    hf_acquire_request request = with_ttl(mutex_request("n"), 30000);
    hf_store *theirs = open_liar(liar);
    hf_lease *lease;

    (void)state;
    liar_says(liar, NULL, GRANTED);
    lease = take(theirs, &request);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hf_status status;

        liar_says(liar, NULL, cases[i].reply);
        status = hf_renew(lease, 0, &contract_error);
        if (status != cases[i].status)
            fail_msg("case %zu: %s and not %s (%s)", i, hf_status_name(status),
                     hf_status_name(cases[i].status), contract_error.text);
    }
    close_liar(liar, theirs);
}

#define REFUSAL(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define AS_USER(f) cmocka_unit_test_setup_teardown(f, setup_user, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        REFUSAL(out_of_memory),
        REFUSAL(out_of_memory_while_held),
        REFUSAL(too_few_replicas),
        REFUSAL(cannot_save),
        REFUSAL(became_a_replica),
        REFUSAL(key_of_another_kind),
        TEST(lock_without_an_end),
        REFUSAL(one_key_of_another_kind),
        REFUSAL(one_of_another_version),
        AS_USER(one_without_rights),
        AS_USER(one_foreign_without_rights),
        REFUSAL(one_waiter_of_another_kind),
        REFUSAL(one_waiter_of_another_version),
        AS_USER(one_waiter_without_rights),
        REFUSAL(names_of_another_version),
        TEST(odd_queues),
        TEST(odd_renewals),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
