/* SPDX-License-Identifier: MIT */
/*
 * wire=redisson: how often we hold a lock stands in its hash, as Redisson counts. What a client of Redisson does is done here by
 * hand, with its commands; test/interop has Redisson itself.
 */
#include "redis_bed.h"

#include "calls.h"

#include <stdlib.h>
#include <string.h>

#define WIRE     "wire=redisson"
#define SHORT_MS 1500

/* The number in the one field of the hash; 0: there is no such key. */
static long long count(void)
{
    redisReply *reply = server_ask(server, "HVALS name");
    long long number = 0;

    CHECK(reply->type == REDIS_REPLY_ARRAY && reply->elements <= 1);
    if (reply->elements == 1)
        number = atoll(reply->element[0]->str);
    freeReplyObject(reply);
    return number;
}

static hf_acquire_request reentrant(int64_t ttl_ms)
{
    hf_acquire_request request = with_ttl(mutex_request("name"), ttl_ms);

    request.flags |= HF_FLAG_REENTRANT;
    return request;
}

static uint32_t holds(hf_lease *lease)
{
    hf_lease_info info = { .size = sizeof info };

    EXPECT(HF_OK, hf_lease_get(lease, &info));
    return info.holds;
}

static void the_store_counts(void **state)
{
    hf_store *store = open_at(server_url(server, "?" WIRE));
    hf_acquire_request request = reentrant(LIMIT_MS);
    hf_lease *lease = take(store, &request), *again;

    (void)state;
    CHECK(count() == 1);
    for (uint32_t i = 2; i <= 5; i++) {
        again = take(store, &request);
        CHECK(again == lease && count() == i && holds(lease) == i);
    }
    for (uint32_t i = 4; i >= 1; i--) {
        EXPECT(HF_OK, hf_release(lease, &contract_error));
        CHECK(count() == i && holds(lease) == i);
    }
    give(lease);
    CHECK(count() == 0);
    close_store(store);
}

static void every_entry_sets_the_expiry(void **state)
{
    hf_store *store = open_at(server_url(server, "?" WIRE));
    hf_acquire_request request = reentrant(LIMIT_MS);
    hf_lease *lease = take(store, &request);

    (void)state;
    server_do(server, "PEXPIRE name %d", LIMIT_MS / 2);
    lease = take(store, &request);
    CHECK(server_do(server, "PTTL name") > LIMIT_MS / 2);
    server_do(server, "PEXPIRE name %d", 3 * LIMIT_MS); /* and never shortens it */
    EXPECT(HF_OK, hf_release(lease, &contract_error));
    CHECK(server_do(server, "PTTL name") > LIMIT_MS && count() == 1);
    give(lease);
    close_store(store);
}

/* What was counted in vain, or is changed by others, is put right by the next renewal. */
static void a_renewal_says_the_number(void **state)
{
    hf_store *store = open_at(server_url(server, "?" WIRE));
    hf_acquire_request request = reentrant(SHORT_MS);
    hf_lease *lease = take(store, &request);

    (void)state;
    lease = take(store, &request);
    server_do(server, "EVAL %s 1 name",
              "return redis.call('HINCRBY', KEYS[1], redis.call('HKEYS', KEYS[1])[1], 5)");
    CHECK(count() != 2 || holds(lease) == 2); /* it may have been renewed since */
    AWAIT(count() == 2);
    EXPECT(HF_OK, hf_release(lease, &contract_error));
    give(lease);
    close_store(store);
}

/* A number in the hash with which nothing can be calculated: it costs no lease, neither this one nor one that is renewed with it. */
static void a_count_that_is_none(void **state)
{
    static const char *const counts[] = { "9223372036854775807", "-9223372036854775808", "many",
                                          "" };
    hf_store *store = open_at(server_url(server, "?" WIRE));
    hf_acquire_request request = reentrant(LIMIT_MS),
                       other = with_ttl(mutex_request("other"), SHORT_MS);
    hf_lease *lease = take(store, &request), *beside = take(store, &other);

    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        server_do(server, "EVAL %s 1 name %s",
                  "return redis.call('HSET', KEYS[1], redis.call('HKEYS', KEYS[1])[1], ARGV[1])",
                  counts[i]);
        EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
        CHECK(take(store, &request) == lease);
        EXPECT(HF_OK, hf_release(lease, &contract_error));
    }
    CHECK(hf_lease_state(beside) != HF_STATE_LOST);
    give(beside);
    give(lease);
    CHECK(count() == 0);
    close_store(store);
}

/* The answer to a reentry does not come: the caller gets no hold, and none is left in the store. */
static void an_unknown_reentry_is_put_right(void **state)
{
    hf_store *store = open_at(proxy_url(proxy, "?" WIRE "&op_timeout=200ms"));
    hf_acquire_request request = reentrant(20000);
    hf_lease *lease = take(store, &request), *again = NULL;
    hf_status status;

    (void)state;
    proxy_block(proxy, PROXY_DOWN, true);
    status = hf_acquire(store, &request, &again, &contract_error);
    CHECK(status == HF_UNKNOWN || status == HF_UNAVAILABLE);
    CHECK(again == NULL && holds(lease) == 1);
    AWAIT(count() == 2); /* it has been counted */
    proxy_heal(proxy);
    AWAIT(hf_renew(lease, 0, &contract_error) == HF_OK);
    CHECK(count() == 1);

    proxy_block(proxy, PROXY_DOWN, true); /* and once more, up to the last release */
    status = hf_acquire(store, &request, &again, &contract_error);
    CHECK(status == HF_UNKNOWN || status == HF_UNAVAILABLE);
    AWAIT(count() == 2);
    proxy_heal(proxy);
    AWAIT(hf_renew(lease, 0, &contract_error) == HF_OK || hf_lease_state(lease) == HF_STATE_LOST);
    server_do(server, "EVAL %s 1 name",
              "return redis.call('HINCRBY', KEYS[1], redis.call('HKEYS', KEYS[1])[1], 1)");
    give(lease);
    CHECK(count() == 0); /* whatever the number is */
    close_hard(store);
}

/* The answer to the release of an inner hold does not come: that hold has ended all the same. */
static void an_unknown_release_is_put_right(void **state)
{
    hf_store *store = open_at(proxy_url(proxy, "?" WIRE "&op_timeout=200ms"));
    hf_acquire_request request = reentrant(20000);
    hf_lease *lease = take(store, &request);
    hf_status status;

    (void)state;
    lease = take(store, &request);
    proxy_block(proxy, PROXY_UP, true);
    status = hf_release(lease, &contract_error);
    CHECK(status == HF_UNKNOWN || status == HF_UNAVAILABLE);
    CHECK(holds(lease) == 1 && count() == 2);
    proxy_cut(proxy);
    proxy_heal(proxy);
    AWAIT(hf_renew(lease, 0, &contract_error) == HF_OK);
    CHECK(count() == 1);
    give(lease);
    CHECK(count() == 0);
    close_hard(store);
}

/* Somebody has deleted it by force. A reentry finds out: the outer hold is lost, and the request is a new one. */
static void a_reentry_finds_a_loss(void **state)
{
    hf_store *store = open_at(server_url(server, "?" WIRE));
    hf_acquire_request request = reentrant(LIMIT_MS);
    hf_lease *lease = take(store, &request), *fresh, *none = NULL;

    (void)state;
    server_do(server, "DEL name");
    fresh = take(store, &request);
    CHECK(fresh != lease && hf_lease_state(lease) == HF_STATE_LOST);
    CHECK(hf_lease_state(fresh) == HF_STATE_HELD && holds(fresh) == 1 && count() == 1);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    CHECK(count() == 1);

    server_do(server, "DEL name");
    server_do(server, "HSET name other:1 2");
    EXPECT(HF_BUSY, hf_acquire(store, &request, &none, &contract_error));
    CHECK(hf_lease_state(fresh) == HF_STATE_LOST && count() == 2);
    EXPECT(HF_LOST, hf_release(fresh, &contract_error));
    CHECK(count() == 2); /* of another */
    close_store(store);
}

static void an_inner_release_finds_a_loss(void **state)
{
    hf_store *store = open_at(server_url(server, "?" WIRE));
    hf_acquire_request request = reentrant(LIMIT_MS);
    hf_lease *lease = take(store, &request);

    (void)state;
    lease = take(store, &request);
    server_do(server, "DEL name");
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    CHECK(hf_lease_state(lease) == HF_STATE_LOST && count() == 0);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    close_store(store);
}

/* A foreign holder that counts keeps us out until its last unlock. */
static void a_foreign_count_excludes(void **state)
{
    hf_store *store = open_at(server_url(server, "?" WIRE));
    hf_acquire_request request = reentrant(LIMIT_MS);

    (void)state;
    server_do(server, "HSET name other:1 2");
    EXPECT(HF_BUSY, probe(store, &request));
    server_do(server, "HINCRBY name other:1 -1");
    EXPECT(HF_BUSY, probe(store, &request));
    CHECK(count() == 1);
    server_do(server, "DEL name");
    EXPECT(HF_OK, probe(store, &request));
    close_store(store);
}

struct scoped {
    hf_store *store;
    uint64_t scope;
    pthread_t thread;
};

static void *enter_often(void *arg)
{
    struct scoped *scoped = arg;
    hf_acquire_request request = reentrant(LIMIT_MS);
    hf_lease *lease;

    request.scope = scoped->scope;
    request.wait_ms = LIMIT_MS;
    for (int i = 0; i < 100; i++) {
        lease = take(scoped->store, &request);
        EXPECT(HF_OK, hf_release(lease, &contract_error));
    }
    return NULL;
}

/* Threads of one scope enter and leave at once: the number is right when they are through. */
static void threads_of_one_scope(void **state)
{
    hf_store *store = open_at(server_url(server, "?" WIRE));
    hf_acquire_request request = reentrant(LIMIT_MS);
    struct scoped scoped[4];
    hf_lease *lease;

    (void)state;
    request.scope = 7;
    lease = take(store, &request);
    for (int i = 0; i < 4; i++) {
        scoped[i] = (struct scoped){ .store = store, .scope = 7 };
        CHECK(pthread_create(&scoped[i].thread, NULL, enter_often, &scoped[i]) == 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(scoped[i].thread, NULL);
    CHECK(holds(lease) == 1 && count() == 1);
    give(lease);
    CHECK(count() == 0);
    close_store(store);
}

struct ended {
    bool over;
    hf_status status;
    hf_lease *lease;
};

static void note_end(const hf_result *result, void *arg)
{
    *(struct ended *)arg = (struct ended){ true, result->status, result->lease };
}

static hf_status process_until(hf_store *store, const struct ended *ended)
{
    AWAIT(hf_store_process(store) == HF_OK && ended->over);
    return ended->status;
}

static hf_status acquire_async(hf_store *store, const hf_acquire_request *request,
                               hf_lease **ret_lease)
{
    struct ended ended = { .over = false };

    EXPECT(HF_OK, hf_acquire_async(store, request, note_end, &ended, NULL, &contract_error));
    IGNORE(process_until(store, &ended));
    *ret_lease = ended.lease;
    return ended.status;
}

static hf_status release_async(hf_store *store, hf_lease *lease)
{
    struct ended ended = { .over = false };

    EXPECT(HF_OK, hf_release_async(lease, note_end, &ended, NULL, &contract_error));
    return process_until(store, &ended);
}

static void the_asynchronous_forms_count_too(void **state)
{
    hf_store *store = open_at(server_url(server, "?" WIRE));
    hf_acquire_request request = reentrant(LIMIT_MS);
    hf_lease *lease = NULL, *again = NULL;

    (void)state;
    request.scope = 3;
    EXPECT(HF_OK, acquire_async(store, &request, &lease));
    EXPECT(HF_OK, acquire_async(store, &request, &again));
    CHECK(again == lease && count() == 2);
    EXPECT(HF_OK, release_async(store, lease));
    CHECK(count() == 1);
    server_do(server, "DEL name");
    EXPECT(HF_OK, acquire_async(store, &request, &again));
    CHECK(again != lease && hf_lease_state(lease) == HF_STATE_LOST && count() == 1);
    EXPECT(HF_LOST, release_async(store, lease));
    EXPECT(HF_OK, release_async(store, again));
    CHECK(count() == 0);
    close_store(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(the_store_counts),
        TEST(every_entry_sets_the_expiry),
        TEST(a_renewal_says_the_number),
        TEST(a_count_that_is_none),
        TEST(an_unknown_reentry_is_put_right),
        TEST(an_unknown_release_is_put_right),
        TEST(a_reentry_finds_a_loss),
        TEST(an_inner_release_finds_a_loss),
        TEST(a_foreign_count_excludes),
        TEST(threads_of_one_scope),
        TEST(the_asynchronous_forms_count_too),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
