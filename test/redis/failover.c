/* SPDX-License-Identifier: MIT */
/*
 * A master is lost, and sentinels make a replica the new one: waiting, hand-off and renewal go on
 * through it, not only the connection. What its loss may cost is told.
 */
#include "liar.h"
#include "proxy.h"
#include "redis_bed.h"
#include "set.h"
#include "storm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOWN_MS 1500

static struct sentinel_set *set;
static char url[512];

/* One for all that leave it whole. */
static int setup(void **state)
{
    (void)state;
    if (!set)
        set = sentinel_start(2, DOWN_MS, NULL);
    snprintf(url, sizeof url, "%s", sentinel_url(set, "?op_timeout=20s&ping=200ms"));
    aim(url);
    return 0;
}

static int drop_set(void **state)
{
    contract_teardown(state);
    sentinel_free(set);
    set = NULL;
    return 0;
}

/* The replicas have all that the master has. */
static void replicate(struct server *master)
{
    server_do(master, "SET barrier 1");
    CHECK(server_do(master, "WAIT 2 %d", SERVER_LIMIT_MS) == 2);
}

static struct server *lose_master(int64_t *ret_lost_ms)
{
    struct server *master = sentinel_master(set);

    replicate(master);
    *ret_lost_ms = now_ms();
    server_kill(master);
    return sentinel_await_other(set, master);
}

/* What is left of a lease when some of it has gone: more than this has it only after a renewal. */
static int64_t left_after_a_while(hf_lease *lease)
{
    nap_ms(1000);
    return hf_lease_remaining_ms(lease);
}

/* How many stores are subscribed there. */
static size_t inboxes(struct server *one)
{
    redisReply *reply = server_ask(one, "PUBSUB CHANNELS hf:inbox:*");
    size_t count = reply->elements;

    freeReplyObject(reply);
    return count;
}

/* By hand; refused while the sentinel has not heard from the replicas. */
static bool fails_over(void)
{
    redisReply *reply = server_ask(set->sentinels[0], "SENTINEL FAILOVER mymaster");
    bool ok = reply->type == REDIS_REPLY_STATUS;

    freeReplyObject(reply);
    return ok;
}

/* ---- it goes on ----------------------------------------------------------------------------- */

static void waiting_and_renewal_go_on(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request held_request = with_ttl(mutex_request("held"), 60000);
    hf_acquire_request request = with_ttl(waiting_request("queue"), 60000);
    hf_lease *held = take(store, &held_request), *first = take(store, &request);
    uint64_t token = hf_lease_token(first), next;
    struct peer peers[3];
    struct server *master;
    int64_t left_ms, lost_ms;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        peer_start(&peers[i]);
        peer_begin(&peers[i], 0, &request);
        AWAIT(count_waiters(store, "queue") == i + 1);
    }
    left_ms = left_after_a_while(held);
    master = lose_master(&lost_ms);

    AWAIT(inboxes(master) == 4);
    AWAIT(hf_lease_state(held) == HF_STATE_HELD && hf_lease_remaining_ms(held) > left_ms);
    CHECK(hf_lease_state(first) == HF_STATE_HELD || hf_lease_state(first) == HF_STATE_AT_RISK);
    AWAIT(count_waiters(store, "queue") == 3);
    give(first);
    for (size_t i = 0; i < 3; i++) { /* in the order in which they came */
        EXPECT(HF_OK, peer_join(&peers[i], 0, &next));
        CHECK(next > token);
        token = next;
        EXPECT(HF_OK, peer_release(&peers[i], 0));
        peer_stop(&peers[i]);
    }
    CHECK(gets_free(store, "queue", token) > token);
    give(held);
    close_store(store);
}

static void turns_go_on(void **state)
{
    struct storm *storm = storm_start(url, "storm");
    int64_t lost_ms;

    (void)state;
    storm_await(storm, 20);
    lose_master(&lost_ms);
    storm_await(storm, 20);
    storm_end(storm, lost_ms);
}

/* A failover by hand: the old master lives on as a replica, and says READONLY. */
static void a_demoted_master_is_left(void **state)
{
    hf_store *store = open_store();
    struct server *old = sentinel_master(set), *master;
    hf_acquire_request request = with_ttl(mutex_request("held"), 60000);
    hf_lease *held = take(store, &request);
    int64_t left_ms;

    (void)state;
    replicate(old);
    left_ms = left_after_a_while(held);
    AWAIT(fails_over());
    master = sentinel_await_other(set, old);
    AWAIT(hf_lease_state(held) == HF_STATE_HELD && hf_lease_remaining_ms(held) > left_ms);
    gets_free(store, "other", 0);
    AWAIT(server_do(master, "EXISTS hf:{other}") == 1);
    give(held);
    close_store(store);
}

/* It does not die but hangs: its connections stay, and nobody answers. Later it goes on where it was
 * stopped, with all that it was sent. */
static void a_master_that_hangs_is_left(void **state)
{
    struct storm *storm = storm_start(url, "storm");
    hf_store *store = open_store();
    struct server *old = sentinel_master(set);
    hf_acquire_request request = with_ttl(mutex_request("held"), 60000);
    hf_lease *held = take(store, &request);
    int64_t left_ms, lost_ms;

    (void)state;
    storm_await(storm, 10);
    replicate(old);
    left_ms = left_after_a_while(held);
    lost_ms = now_ms();
    server_pause(old);
    AWAIT(hf_lease_state(held) == HF_STATE_HELD && hf_lease_remaining_ms(held) > left_ms);
    storm_await(storm, 10);
    server_continue(old);
    storm_await(storm, 10);
    storm_end(storm, lost_ms);
    give(held);
    close_store(store);
}

/* The only sentinel of the URL is gone for good: it has told us of the others. */
static void other_sentinels_are_learnt(void **state)
{
    char at[256];
    hf_store *store;
    struct server *old = sentinel_master(set);

    (void)state;
    snprintf(at, sizeof at, "redis+sentinel://127.0.0.1:%u/mymaster?ping=200ms",
             (unsigned)set->sentinels[2]->port);
    store = open_at(at);
    server_kill(set->sentinels[2]);
    server_kill(old);
    gets_free(store, "job", 0);
    AWAIT(sentinel_master(set) != old);
    close_store(store);
}

/* ---- what is lost is told -------------------------------------------------------------------- */

/* Granted by a master that died before any replica had heard of it. Nobody renews it, and it has
 * ten minutes left: only doubt makes us ask. */
static void a_forgotten_lease_is_lost(void **state)
{
    hf_store *store = open_store();
    struct server *master = sentinel_master(set);
    hf_acquire_request request = with_ttl(mutex_request("ghost"), 600000);
    struct loss loss = { 0 };
    hf_lease *lease;
    uint64_t token;

    (void)state;
    for (size_t i = 0; i < set->server_count; i++)
        if (set->servers[i] != master)
            server_pause(set->servers[i]);
    server_do(master, "CLIENT KILL TYPE replica");
    request.flags = HF_FLAG_NO_RENEW;
    request.on_event = note_loss;
    request.on_event_arg = &loss;
    lease = take(store, &request);
    token = hf_lease_token(lease);
    server_kill(master);
    for (size_t i = 0; i < set->server_count; i++)
        if (set->servers[i] != master)
            server_continue(set->servers[i]);

    gets_free(store, "ghost", token);
    await_lost(lease);
    AWAIT(loss.calls == 1);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    close_store(store);
}

/* The same loss with sync=1: what no replica has is not granted, and what was granted is there
 * afterwards, although nobody waited for replication. */
static void with_sync_nothing_is_forgotten(void **state)
{
    enum { NAMES = 20 };
    hf_store *store = open_at(sentinel_url(set, "?op_timeout=20s&ping=200ms&sync=1"));
    struct server *master = sentinel_master(set);
    hf_lease *leases[NAMES], *ghost;
    hf_acquire_request request;
    hf_status status;
    char name[16];

    (void)state;
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "kept%d", i);
        request = with_ttl(mutex_request(name), 600000);
        request.flags = HF_FLAG_NO_RENEW;
        leases[i] = take(store, &request);
    }
    for (size_t i = 0; i < set->server_count; i++)
        if (set->servers[i] != master)
            server_pause(set->servers[i]);
    server_do(master, "CLIENT KILL TYPE replica");
    request = with_ttl(mutex_request("ghost"), 600000);
    status = hf_acquire(store, &request, &ghost, &contract_error);
    CHECK(status == HF_UNAVAILABLE || status == HF_UNKNOWN);
    server_kill(master);
    for (size_t i = 0; i < set->server_count; i++)
        if (set->servers[i] != master)
            server_continue(set->servers[i]);

    gets_free(store, "ghost", 0);
    for (int i = 0; i < NAMES; i++) {
        AWAIT(hf_lease_state(leases[i]) != HF_STATE_AT_RISK);
        CHECK(hf_lease_state(leases[i]) == HF_STATE_HELD);
        give(leases[i]);
    }
    close_store(store);
}

/* ---- old masters ------------------------------------------------------------------------------- */

/* The old master is back, empty, and calls itself a master; and the only sentinel that answers has
 * not heard of the failover. */
static void an_old_master_is_not_trusted(void **state)
{
    struct server *old = sentinel_master(set), *master;
    struct liar *liar = liar_sentinel(old->port, 0);
    hf_store *store;
    char at[512];

    (void)state;
    snprintf(at, sizeof at,
             "redis+sentinel://127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u/mymaster"
             "?op_timeout=1s&connect_timeout=1s&ping=100ms",
             (unsigned)set->sentinels[0]->port, (unsigned)set->sentinels[1]->port,
             (unsigned)liar_port(liar));
    store = open_at(at);
    server_kill(old);
    master = sentinel_await_other(set, old);
    gets_free(store, "before", 0);
    for (size_t i = 0; i < SENTINELS; i++)
        server_pause(set->sentinels[i]); /* before they make it a replica */
    server_restart(old);

    /* Now it has all the time to make the mistake. */
    nap_ms(2500);
    gets_free(store, "after", 0);
    CHECK(server_do(master, "EXISTS hf:{after}") == 1);
    CHECK(server_do(old, "EXISTS hf:{after}") == 0);
    close_store(store);
    for (size_t i = 0; i < SENTINELS; i++)
        server_continue(set->sentinels[i]);
    liar_stop(liar);
}

/* ---- opening --------------------------------------------------------------------------------------- */

static void refuses(const char *at, hf_status status, const char *words)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_store *store;

    options.open_wait_ms = 1500;
    EXPECT(status, hf_open(at, &options, &store, &contract_error));
    if (!strstr(contract_error.text, words))
        fail_msg("'%s' is not in '%s'", words, contract_error.text);
}

/* A sentinel names a server that is a replica: it is asked again until it knows better. */
static void a_replica_is_not_taken_for_a_master(void **state)
{
    struct server *master = sentinel_master(set);
    struct liar *liar = liar_sentinel(set->servers[1]->port, 0);
    hf_store *store;
    char at[256];

    (void)state;
    refuses(server_url(set->servers[1], ""), HF_UNAVAILABLE, "it is a replica");
    snprintf(at, sizeof at, "redis+sentinel://127.0.0.1:%u/mymaster?ping=200ms",
             (unsigned)liar_port(liar));
    refuses(at, HF_UNAVAILABLE, "it is a replica");
    liar_names(liar, master->port);
    store = open_at(at);
    gets_free(store, "job", 0);
    CHECK(server_do(master, "EXISTS hf:{job}") == 1);
    close_store(store);
    liar_stop(liar);
}

/* READONLY is not an answer while somebody may become master soon. */
static void a_moment_without_a_master_passes(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request held_request = with_ttl(mutex_request("held"), 60000);
    hf_acquire_request request = mutex_request("job"); /* tries once */
    hf_lease *held = take(store, &held_request);
    struct server *master = sentinel_master(set);
    struct attempt attempt;

    (void)state;
    server_do(master, "REPLICAOF 127.0.0.1 %u", (unsigned)free_port());
    attempt_start(&attempt, store, &request);
    nap_ms(300);
    CHECK(!attempt.ended);
    server_do(master, "REPLICAOF NO ONE");
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    give(held);
    close_store(store);
}

static void opening_says_what_is_wrong(void **state)
{
    uint16_t nobody = free_port();
    char text[512];
    hf_store *store;

    (void)state;
    snprintf(text, sizeof text, "redis+sentinel://127.0.0.1:%u,127.0.0.1:%u/stranger",
             (unsigned)set->sentinels[0]->port, (unsigned)set->sentinels[1]->port);
    refuses(text, HF_CONFIG, "knows no master called 'stranger'");
    snprintf(text, sizeof text, "redis+sentinel://127.0.0.1:%u/mymaster", (unsigned)nobody);
    refuses(text, HF_UNAVAILABLE, "sentinel 127.0.0.1:");

    /* One that answers is enough. */
    snprintf(text, sizeof text, "redis+sentinel://127.0.0.1:%u,127.0.0.1:%u/mymaster",
             (unsigned)nobody, (unsigned)set->sentinels[1]->port);
    close_store(open_at(text));

    /* A password that only the sentinel wants. */
    server_do(set->sentinels[0], "ACL SETUSER default resetpass >sesame");
    snprintf(text, sizeof text, "redis+sentinel://127.0.0.1:%u/mymaster",
             (unsigned)set->sentinels[0]->port);
    refuses(text, HF_DENIED, "NOAUTH");
    setenv("SENTINEL_SECRET", "wrong", 1);
    snprintf(text, sizeof text,
             "redis+sentinel://127.0.0.1:%u/mymaster?sentinel_password_env=SENTINEL_SECRET",
             (unsigned)set->sentinels[0]->port);
    refuses(text, HF_DENIED, "WRONGPASS");
    setenv("SENTINEL_SECRET", "sesame", 1);
    EXPECT(HF_OK, hf_open(text, NULL, &store, &contract_error));
    close_store(store);

    /* A user with exactly the rights that the manual names. */
    server_do(set->sentinels[1], "ACL SETUSER app reset on >sesame +info "
                                 "+sentinel|get-master-addr-by-name +sentinel|master "
                                 "+sentinel|sentinels");
    snprintf(text, sizeof text,
             "redis+sentinel://127.0.0.1:%u/mymaster"
             "?sentinel_user=app&sentinel_password_env=SENTINEL_SECRET",
             (unsigned)set->sentinels[1]->port);
    close_store(open_at(text));
    server_do(set->sentinels[1], "ACL SETUSER app -sentinel|get-master-addr-by-name");
    refuses(text, HF_DENIED, "NOPERM");
}

/* Opened without waiting, before any sentinel answers. */
static void opened_before_it_is_there(void **state)
{
    struct proxy *seed = proxy_start(set->sentinels[0]->port);
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_acquire_request request = waiting_request("late");
    struct attempt attempt;
    hf_store *store;
    char text[512];

    (void)state;
    proxy_refuse(seed, true);
    options.flags = HF_OPEN_FLAG_NO_WAIT;
    snprintf(text, sizeof text, "redis+sentinel://127.0.0.1:%u/mymaster?op_timeout=1s",
             (unsigned)proxy_port(seed));
    EXPECT(HF_OK, hf_open(text, &options, &store, &contract_error));
    attempt_start(&attempt, store, &request);
    nap_ms(1500); /* more than op_timeout */
    CHECK(!attempt.ended);
    proxy_refuse(seed, false);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_store(store);
    proxy_stop(seed);

    /* What will not pass is said by the calls. */
    snprintf(text, sizeof text, "redis+sentinel://127.0.0.1:%u/stranger?op_timeout=1s",
             (unsigned)set->sentinels[0]->port);
    EXPECT(HF_OK, hf_open(text, &options, &store, &contract_error));
    attempt_start(&attempt, store, &request);
    EXPECT(HF_CONFIG, attempt_join(&attempt));
    close_store(store);
}

/* Without an argument: what goes on. "told": what is refused or lost, and said. Else: those whose names
 * match. */
int main(int argc, char **argv)
{
#define TEST_WHOLE(f) cmocka_unit_test_setup_teardown(f, setup, contract_teardown)
#define TEST_LOSS(f)  cmocka_unit_test_setup_teardown(f, setup, drop_set)
    const struct CMUnitTest goes_on[] = {
        TEST_WHOLE(a_moment_without_a_master_passes), TEST_WHOLE(opened_before_it_is_there),
        TEST_LOSS(waiting_and_renewal_go_on),         TEST_LOSS(turns_go_on),
        TEST_LOSS(a_demoted_master_is_left),          TEST_LOSS(a_master_that_hangs_is_left),
        TEST_LOSS(other_sentinels_are_learnt),
    };
    const struct CMUnitTest told[] = {
        TEST_WHOLE(a_replica_is_not_taken_for_a_master),
        TEST_LOSS(opening_says_what_is_wrong),
        TEST_LOSS(a_forgotten_lease_is_lost),
        TEST_LOSS(with_sync_nothing_is_forgotten),
        TEST_LOSS(an_old_master_is_not_trusted),
    };
    bool only_told = argc == 2 && strcmp(argv[1], "told") == 0;
    int failed = 0;

    bed_main(only_told ? 1 : argc, argv);
    if (!only_told)
        failed += BED_RUN(goes_on);
    if (only_told || argc > 1)
        failed += BED_RUN(told);
    sentinel_free(set);
    return failed;
}
