/* SPDX-License-Identifier: MIT */
/*
 * A cluster in motion: slots that move while a name in them is held, waited for, renewed and handed
 * over; and a master that is lost. See src/engine/redis/cluster.c for what each redirection means.
 */
#include "both_scripts.h"
#include "liar.h"
#include "proxy.h"
#include "redis_bed.h"
#include "set.h"
#include "storm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cluster *cluster;
static char url[512];

/* One for all that leave it whole. */
static int setup(void **state)
{
    (void)state;
    if (!cluster)
        cluster = cluster_start(NULL);
    snprintf(url, sizeof url, "%s", cluster_url(cluster, "?op_timeout=20s&ping=200ms"));
    aim(url);
    return 0;
}

static int drop_cluster(void **state)
{
    contract_teardown(state);
    cluster_free(cluster);
    cluster = NULL;
    return 0;
}

/* Where a name is, and where it is to go. */
struct place {
    unsigned slot;
    size_t from, to;
};

static struct place place_of(const char *name)
{
    struct place place;
    char key[64];

    snprintf(key, sizeof key, "hf:{%s}", name);
    place.from = cluster_owner(cluster, key, &place.slot);
    place.to = (place.from + 1) % CLUSTER_NODES;
    return place;
}

static long long exists(size_t node, const char *key)
{
    redisReply *reply = server_ask(cluster->nodes[node], "EXISTS %s", key);
    long long there = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;

    freeReplyObject(reply);
    return there;
}

/* It is renewed: the validity that is left grows. */
static void await_renewal(hf_lease *lease)
{
    int64_t left_ms = hf_lease_remaining_ms(lease);

    AWAIT(hf_lease_remaining_ms(lease) > left_ms ||
          (left_ms = hf_lease_remaining_ms(lease), false));
    CHECK(hf_lease_state(lease) != HF_STATE_LOST);
}

static void begin_waiting(struct peer *peers, size_t count, hf_store *store,
                          const hf_acquire_request *request)
{
    for (size_t i = 0; i < count; i++) {
        peer_start(&peers[i]);
        peer_begin(&peers[i], 0, request);
        AWAIT(count_waiters(store, request->name) == i + 1);
    }
}

static uint64_t joins(struct peer *peer, uint64_t after)
{
    uint64_t token;

    EXPECT(HF_OK, peer_join(peer, 0, &token));
    CHECK(token > after);
    return token;
}

/* ---- resharding ------------------------------------------------------------------------------ */

/* Renewals and a hand-off at every stage of a move: before the keys go, between (ASK), after. */
static void hand_over_goes_on_through_a_move(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = with_ttl(waiting_request("job"), 6000);
    hf_lease *lease = take(store, &request);
    uint64_t token = hf_lease_token(lease);
    struct place place = place_of("job");
    struct peer peers[4];

    (void)state;
    begin_waiting(peers, 4, store, &request);

    cluster_move_begin(cluster, place.slot, place.from, place.to);
    await_renewal(lease);
    give(lease);
    token = joins(&peers[0], token);

    cluster_move_keys(cluster, place.slot, place.from, place.to);
    CHECK(exists(place.from, "hf:{job}") != 1);
    EXPECT(HF_OK, peer_release(&peers[0], 0)); /* by ASK */
    token = joins(&peers[1], token);
    AWAIT(count_waiters(store, "job") == 2);
    EXPECT(HF_OK, peer_release(&peers[1], 0));
    token = joins(&peers[2], token);

    cluster_move_end(cluster, place.slot, place.to);
    EXPECT(HF_OK, peer_release(&peers[2], 0)); /* by MOVED */
    token = joins(&peers[3], token);
    EXPECT(HF_OK, peer_release(&peers[3], 0));
    CHECK(exists(place.to, "hf:{job}") == 1);
    for (size_t i = 0; i < 4; i++)
        peer_stop(&peers[i]);
    gets_free(store, "job", token);
    close_store(store);
}

/* A lease without waiters is one key: it is renewed although the slot is open, and for longer than
 * it would live without. */
static void renewal_goes_on_by_asking(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = with_ttl(mutex_request("job"), 3000);
    hf_lease *lease = take(store, &request);
    struct place place = place_of("job");

    (void)state;
    cluster_move_begin(cluster, place.slot, place.from, place.to);
    cluster_move_keys(cluster, place.slot, place.from, place.to);
    for (int i = 0; i < 4; i++)
        await_renewal(lease);
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    cluster_move_end(cluster, place.slot, place.to);
    give(lease);
    close_store(store);
}

/* A release on a thread of its own. */
struct giving {
    hf_lease *lease;
    hf_status status;
    _Atomic bool ended;
    pthread_t thread;
};

static void *run_giving(void *arg)
{
    struct giving *giving = arg;

    giving->status = hf_release(giving->lease, NULL);
    giving->ended = true;
    return NULL;
}

/* Some keys here, some there: TRYAGAIN, until they are together again. */
static void a_name_in_two_places_waits(void **state)
{
    hf_store *store = open_store(), *other = open_store();
    hf_acquire_request request = with_ttl(waiting_request("job"), 60000);
    struct giving giving = { .lease = take(store, &request) };
    struct place place = place_of("job");
    struct peer peer;
    struct attempt attempt;

    (void)state;
    begin_waiting(&peer, 1, store, &request);
    cluster_move_begin(cluster, place.slot, place.from, place.to);
    cluster_move_key(cluster, place.from, place.to, "hf:{job}");
    attempt_start(&attempt, other, &request);
    CHECK(pthread_create(&giving.thread, NULL, run_giving, &giving) == 0);
    nap_ms(300); /* for a few refusals */
    CHECK(!attempt.ended && !giving.ended);
    cluster_move_keys(cluster, place.slot, place.from, place.to);
    cluster_move_end(cluster, place.slot, place.to);
    pthread_join(giving.thread, NULL);
    EXPECT(HF_OK, giving.status);
    joins(&peer, 0);
    EXPECT(HF_OK, peer_release(&peer, 0));
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    peer_stop(&peer);
    close_store(other);
    close_store(store);
}

/* A move loses nothing: never two at once. */
static void turns_go_on_through_moves(void **state)
{
    struct storm *storm = storm_start(url, "storm");
    struct place place = place_of("storm");

    (void)state;
    for (int i = 0; i < 6; i++) {
        storm_await(storm, 5);
        cluster_move_begin(cluster, place.slot, place.from, place.to);
        nap_ms(20);
        cluster_move_keys(cluster, place.slot, place.from, place.to);
        nap_ms(20);
        cluster_move_keys(cluster, place.slot, place.from, place.to);
        cluster_move_end(cluster, place.slot, place.to);
        place.from = place.to;
        place.to = (place.to + 1) % CLUSTER_NODES;
    }
    storm_await(storm, 5);
    storm_end(storm, 0);
}

/* Many names in many slots, renewed in batches while one of the slots moves. */
static void batches_go_on(void **state)
{
    enum { NAMES = 300 };
    hf_store *store = open_store();
    int64_t until_ms;
    hf_lease *leases[NAMES];
    char name[32];
    struct place place = place_of("many7");
    hf_acquire_request readers = with_ttl(mutex_request("shared"), 3000);

    (void)state;
    readers.kind = HF_KIND_SHARED; /* many leases of one slot go in one command */
    for (int i = 0; i < NAMES; i++) {
        hf_acquire_request request;

        snprintf(name, sizeof name, "many%d", i);
        request = with_ttl(mutex_request(name), 3000);
        leases[i] = take(store, i % 3 ? &request : &readers);
    }
    cluster_move_begin(cluster, place.slot, place.from, place.to);
    await_renewal(leases[0]);
    cluster_move_keys(cluster, place.slot, place.from, place.to);
    await_renewal(leases[0]);
    cluster_move_end(cluster, place.slot, place.to);
    until_ms = now_ms() + 3000; /* nobody lives until then without a renewal */
    while (now_ms() < until_ms)
        await_renewal(leases[0]);
    for (int i = 0; i < NAMES; i++)
        CHECK(hf_lease_state(leases[i]) == HF_STATE_HELD);
    for (int i = 0; i < NAMES; i++)
        give(leases[i]);
    close_store(store);
}

/* ---- losing a master ----------------------------------------------------------------------------- */

/* Any write will do: the replica then has all that came before it. */
static void replicate(const struct place *place)
{
    server_do(cluster->nodes[place->from], "SET {job}barrier 1");
    CHECK(server_do(cluster->nodes[place->from], "WAIT 1 %d", SERVER_LIMIT_MS) == 1);
}

/* A name that the same server has. */
static void neighbour_of(const struct place *place, char ret_name[32])
{
    for (int i = 0;; i++) {
        snprintf(ret_name, 32, "storm%d", i);
        if (place_of(ret_name).from == place->from)
            return;
    }
}

static void waiting_and_renewal_survive_a_master(void **state)
{
    hf_store *store = open_store();
    struct place place = place_of("job");
    struct server *replica = cluster_replica(cluster, place.from, 2000);
    hf_acquire_request request = with_ttl(waiting_request("job"), 60000);
    hf_lease *lease = take(store, &request);
    uint64_t token = hf_lease_token(lease);
    struct storm *storm;
    struct peer peers[2];
    int64_t left_ms, lost_ms;
    char name[32];

    (void)state;
    begin_waiting(peers, 2, store, &request);
    neighbour_of(&place, name);
    storm = storm_start(url, name);
    storm_await(storm, 5);
    replicate(&place);
    nap_ms(1000); /* more than what is left then it has only after a renewal */
    left_ms = hf_lease_remaining_ms(lease);
    lost_ms = now_ms();
    server_kill(cluster->nodes[place.from]);

    AWAIT(hf_lease_state(lease) == HF_STATE_HELD && hf_lease_remaining_ms(lease) > left_ms);
    give(lease);
    for (size_t i = 0; i < 2; i++) {
        token = joins(&peers[i], token);
        EXPECT(HF_OK, peer_release(&peers[i], 0));
        peer_stop(&peers[i]);
    }
    storm_await(storm, 5);
    storm_end(storm, lost_ms);
    close_store(store);
    server_free(replica);
}

static void a_forgotten_lease_is_lost(void **state)
{
    hf_store *store = open_store();
    struct place place = place_of("job");
    struct server *replica = cluster_replica(cluster, place.from, 2000);
    hf_acquire_request request = with_ttl(mutex_request("job"), 600000);
    hf_lease *lease;
    uint64_t token;

    (void)state;
    server_pause(replica);
    server_do(cluster->nodes[place.from], "CLIENT KILL TYPE replica");
    request.flags = HF_FLAG_NO_RENEW;
    lease = take(store, &request);
    token = hf_lease_token(lease);
    server_kill(cluster->nodes[place.from]);
    server_continue(replica);

    gets_free(store, "job", token);
    await_lost(lease);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    close_store(store);
    server_free(replica);
}

/* ---- redirections without end -------------------------------------------------------------------- */

/* A try against a server that answers always the same. How many commands it cost. */
static unsigned costs(const char *error, const char *query, const char *words)
{
    struct liar *liar = liar_start(error);
    hf_acquire_request request = mutex_request("job");
    hf_lease *lease;
    hf_store *store;
    char at[128];
    unsigned count;

    snprintf(at, sizeof at, "redis+cluster://127.0.0.1:%u%s", (unsigned)liar_port(liar), query);
    store = open_at(at);
    EXPECT(HF_UNAVAILABLE, hf_acquire(store, &request, &lease, &contract_error));
    if (!strstr(contract_error.text, words))
        fail_msg("'%s' is not in '%s'", words, contract_error.text);
    count = liar_scripts(liar);
    EXPECT(HF_OK, hf_close(store, HF_CLOSE_FLAG_RELEASE));
    liar_stop(liar);
    return count;
}

static void redirections_are_bounded(void **state)
{
    unsigned count;

    (void)state;
    CHECK(costs("MOVED 1 127.0.0.1:%u", "", "redirected 8 times") == 9);
    CHECK(costs("MOVED 1 :%u", "", "redirected 8 times") == 9);
    CHECK(costs("ASK 1 127.0.0.1:%u", "", "redirected 8 times") == 9);
    CHECK(costs("MOVED 1 nonsense", "", "MOVED") == 1);
    CHECK(costs("MOVED 99999 127.0.0.1:%u", "", "MOVED") == 1);

    /* No redirection, but later: with pauses, for as long as an operation may last. */
    count = costs("CLUSTERDOWN not now", "?op_timeout=1s", "CLUSTERDOWN");
    CHECK(count >= 2 && count < 200);
    count = costs("TRYAGAIN not now", "?op_timeout=1s", "TRYAGAIN");
    CHECK(count >= 2 && count < 200);
}

/* ---- messages ------------------------------------------------------------------------------------- */

/* How many stores are subscribed. */
static size_t inboxes(void)
{
    size_t count = 0;

    for (size_t i = 0; i < CLUSTER_NODES; i++) {
        redisReply *reply = server_ask(cluster->nodes[i], "PUBSUB CHANNELS hf:inbox:*");

        count += reply->elements;
        freeReplyObject(reply);
    }
    return count;
}

/* Wherever the inbox is, its connection breaks: it is subscribed again, and what was published to
 * nobody is found by asking. */
static void an_inbox_that_breaks_is_made_again(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = with_ttl(waiting_request("job"), 60000);
    hf_lease *lease = take(store, &request);
    struct peer peers[2];

    (void)state;
    begin_waiting(peers, 2, store, &request);
    for (size_t i = 0; i < CLUSTER_NODES; i++)
        server_do(cluster->nodes[i], "CLIENT KILL TYPE pubsub");
    AWAIT(inboxes() == 3);
    give(lease);
    for (size_t i = 0; i < 2; i++) {
        joins(&peers[i], 0);
        EXPECT(HF_OK, peer_release(&peers[i], 0));
        peer_stop(&peers[i]);
    }
    close_store(store);
}

/* ---- opening -------------------------------------------------------------------------------------- */

static void refuses(const char *at, hf_status status, const char *words)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_store *store;

    options.open_wait_ms = 1500;
    EXPECT(status, hf_open(at, &options, &store, &contract_error));
    if (!strstr(contract_error.text, words))
        fail_msg("'%s' is not in '%s'", words, contract_error.text);
}

/* What a user of a cluster needs besides (acl.c has the rest), through an ASK. */
static void a_user_needs_these_rights(void **state)
{
    hf_acquire_request request = with_ttl(waiting_request("job"), 60000);
    struct place place = place_of("job");
    struct attempt attempt;
    hf_store *store, *other;
    hf_lease *lease;
    char at[128];

    (void)state;
    snprintf(at, sizeof at, "redis+cluster://app:sesame@127.0.0.1:%u",
             (unsigned)cluster->nodes[0]->port);
    for (size_t i = 0; i < CLUSTER_NODES; i++)
        server_do(cluster->nodes[i],
                  "ACL SETUSER app reset on >sesame ~hf:* &hf:* +@all -cluster -asking");
    refuses(at, HF_DENIED, "CLUSTER SLOTS: NOPERM");
    for (size_t i = 0; i < CLUSTER_NODES; i++)
        server_do(cluster->nodes[i], "ACL SETUSER app +cluster|slots +asking");
    store = open_at(at);
    other = open_at(at);
    lease = take(store, &request);
    attempt_start(&attempt, other, &request);
    AWAIT(count_waiters(store, "job") == 1);
    cluster_move_begin(cluster, place.slot, place.from, place.to);
    cluster_move_keys(cluster, place.slot, place.from, place.to);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    cluster_move_end(cluster, place.slot, place.to);
    give(attempt.lease);
    close_store(other);
    close_store(store);
}

static void opening_says_what_is_wrong(void **state)
{
    struct server *single = server_start(NULL);
    uint16_t nobody = free_port();
    char text[512];

    (void)state;
    snprintf(text, sizeof text, "redis+cluster://127.0.0.1:%u", (unsigned)single->port);
    refuses(text, HF_CONFIG, "no node of a cluster");
    snprintf(text, sizeof text, "redis+cluster://127.0.0.1:%u", (unsigned)nobody);
    refuses(text, HF_UNAVAILABLE, "127.0.0.1:");
    snprintf(text, sizeof text, "redis+cluster://127.0.0.1:%u/1",
             (unsigned)cluster->nodes[0]->port);
    refuses(text, HF_CONFIG, "database");
    snprintf(text, sizeof text, "redis+cluster://127.0.0.1:%u?db=1",
             (unsigned)cluster->nodes[0]->port);
    refuses(text, HF_CONFIG, "db");

    /* One that answers is enough; and by a name that the map does not have. */
    snprintf(text, sizeof text, "redis+cluster://127.0.0.1:%u,localhost:%u", (unsigned)nobody,
             (unsigned)cluster->nodes[1]->port);
    close_store(open_at(text));
    server_free(single);
}

static hf_status run_at(hf_store *store, const char *const *keys, size_t count)
{
    hf_script_request script = HF_SCRIPT_REQUEST_INIT;

    script.text = "return redis.call('INCR', KEYS[1])";
    script.text_len = HF_CSTRING;
    script.keys = keys;
    script.key_count = count;
    return both_script_run(store, &script, NULL, &contract_error);
}

/* Every master gets it; one that has lost it is enough for "no". */
static void load_everywhere(hf_store *store, const char *text, const char *const *keys)
{
    hf_script_request script = HF_SCRIPT_REQUEST_INIT;
    char sha1[HF_SCRIPT_SHA1_LEN + 1];
    const char *const texts[] = { "return 0", sha1, text };
    bool there[3] = { true };

    EXPECT(HF_OK, both_script_load(store, text, HF_CSTRING, sha1, &contract_error));
    EXPECT(HF_OK, both_script_exists_each(store, texts, NULL, 3, there, &contract_error));
    CHECK(!there[0] && there[1] && there[2]);
    script.sha1 = sha1;
    script.key_count = 1;
    for (size_t i = 0; i < CLUSTER_NODES; i++) {
        script.keys = &keys[i];
        EXPECT(HF_OK, both_script_run(store, &script, NULL, &contract_error));
        CHECK(server_do(cluster->nodes[i], "INCRBY %s 0", keys[i]) == 2);
    }
    server_do(cluster->nodes[1], "SCRIPT FLUSH");
    EXPECT(HF_OK, both_script_exists_each(store, texts, NULL, 3, there, &contract_error));
    CHECK(!there[0] && !there[1] && !there[2]);
    script.keys = &keys[1];
    EXPECT(HF_NOT_FOUND, both_script_run(store, &script, NULL, &contract_error));
    script.keys = &keys[0];
    EXPECT(HF_OK, both_script_run(store, &script, NULL, &contract_error));
}

/* A script runs where its keys are; each server has its own, and all are asked and told. */
static void find_script_servers(void)
{
    static const char text[] = "return redis.call('INCR', KEYS[1])";
    hf_store *store = open_store();
    char names[CLUSTER_NODES][16];
    const char *keys[CLUSTER_NODES];
    unsigned slot;
    bool there = false;

    EXPECT(HF_OK, both_script_flush(store, &contract_error));
    for (size_t i = 0, found = 0; found < CLUSTER_NODES; i++) { /* a key at each of them */
        snprintf(names[found], sizeof names[found], "k%zu", i);
        if (cluster_owner(cluster, names[found], &slot) == found) {
            keys[found] = names[found];
            found++;
        }
    }
    EXPECT(HF_INVALID, run_at(store, keys, 2));
    CHECK(strstr(contract_error.text, "one slot")); /* before it was sent */
    for (size_t i = 0; i < CLUSTER_NODES; i++) {
        EXPECT(HF_OK, both_script_exists(store, text, HF_CSTRING, &there, &contract_error));
        CHECK(!there);
        EXPECT(HF_OK, run_at(store, &keys[i], 1));
        CHECK(server_do(cluster->nodes[i], "INCRBY %s 0", keys[i]) == 1);
    }
    EXPECT(HF_OK, both_script_exists(store, text, HF_CSTRING, &there, &contract_error));
    CHECK(there);
    EXPECT(HF_OK, both_script_flush(store, &contract_error));
    load_everywhere(store, text, keys);
    for (size_t i = 0; i < CLUSTER_NODES; i++) {
        EXPECT(HF_OK, run_at(store, &keys[i], 1));
        CHECK(server_do(cluster->nodes[i], "DEL %s", keys[i]) == 1);
    }
    EXPECT(HF_NOT_FOUND, both_script_kill(store, cluster_url(cluster, ""), 0, &contract_error));
    close_store(store);
}

static void scripts_find_their_servers(void **state)
{
    (void)state;
    find_script_servers();
    contract_pumped = true;
    find_script_servers();
    contract_pumped = false;
}

/* Opened without waiting, before any node answers. */
static void opened_before_it_is_there(void **state)
{
    struct proxy *seed = proxy_start(cluster->nodes[0]->port);
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_acquire_request request = waiting_request("late");
    struct attempt attempt;
    hf_store *store;
    char text[512];

    (void)state;
    proxy_refuse(seed, true);
    options.flags = HF_OPEN_FLAG_NO_WAIT;
    snprintf(text, sizeof text, "redis+cluster://127.0.0.1:%u?op_timeout=1s",
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
}

int main(int argc, char **argv)
{
#define TEST_WHOLE(f) cmocka_unit_test_setup_teardown(f, setup, contract_teardown)
#define TEST_LOSS(f)  cmocka_unit_test_setup_teardown(f, setup, drop_cluster)
    const struct CMUnitTest tests[] = {
        TEST_WHOLE(hand_over_goes_on_through_a_move),
        TEST_WHOLE(renewal_goes_on_by_asking),
        TEST_WHOLE(a_name_in_two_places_waits),
        TEST_WHOLE(turns_go_on_through_moves),
        TEST_WHOLE(batches_go_on),
        TEST_WHOLE(opened_before_it_is_there),
        TEST_WHOLE(an_inbox_that_breaks_is_made_again),
        TEST_WHOLE(opening_says_what_is_wrong),
        TEST_WHOLE(a_user_needs_these_rights),
        TEST_WHOLE(scripts_find_their_servers),
        TEST_LOSS(waiting_and_renewal_survive_a_master),
        TEST_LOSS(a_forgotten_lease_is_lost),
        cmocka_unit_test(redirections_are_bounded),
    };
    int failed;

    bed_main(argc, argv);
    failed = BED_RUN(tests);
    cluster_free(cluster);
    return failed;
}
