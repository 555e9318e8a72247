/* SPDX-License-Identifier: MIT */
/* Late copies of requests and late messages, which arrive when their sender has given up or moved
 * on. */
#include "network.h"

#include <string.h>

/* Begin something whose bytes stay on the way; then the connection is lost, for us. */
static void lose_on_the_way(struct attempt *attempt, const hf_acquire_request *request)
{
    proxy_block(proxy, PROXY_UP, true);
    attempt_start(attempt, store, request);
    AWAIT(proxy_held(proxy, PROXY_UP) > 0);
    proxy_cut_late(proxy);
    proxy_heal(proxy);
}

/* A request that was given up, and settled, is executed after that. */
static void late_acquire(void **state)
{
    hf_acquire_request request = with_ttl(mutex_request("n"), LONG_MS), trying = mutex_request("n");
    struct attempt attempt;

    (void)state;
    lose_on_the_way(&attempt, &request);
    attempt_join(&attempt);
    if (attempt.status == HF_OK)
        give(attempt.lease); /* asked again, which is as good */
    else
        CHECK(is_settled_later(attempt.status));
    settle(); /* so that what it does in the background is done before, too */
    nap_ms(300);
    proxy_deliver(proxy);
    AWAIT(count_holders(other, "n") == 0);
    EXPECT(HF_OK, probe(other, &trying));
}

/* The same while another client holds it: then the late request must not be queued either. */
static void late_wait(void **state)
{
    hf_acquire_request request = with_wait(mutex_request("n"), 1500), trying = mutex_request("n");
    hf_lease *lease = take(other, &trying);
    struct attempt attempt;

    (void)state;
    lose_on_the_way(&attempt, &request);
    attempt_join(&attempt);
    CHECK(attempt.status == HF_TIMEOUT || is_settled_later(attempt.status));
    settle();
    nap_ms(300);
    proxy_deliver(proxy);
    AWAIT(count_waiters(other, "n") == 0);
    give(lease);
    AWAIT(count_holders(other, "n") == 0);
    EXPECT(HF_OK, probe(other, &trying));
}

/* A renewal that comes when another client holds the name neither disturbs that lease nor revives
 * the old one. */
static void late_renewal(void **state)
{
    hf_acquire_request request = with_ttl(mutex_request("n"), 1000), waiting = waiting_request("n");
    hf_lease *lease = take(store, &request), *his;

    (void)state;
    proxy_block(proxy, PROXY_UP, true);
    AWAIT(proxy_held(proxy, PROXY_UP) > 0); /* the keeper renews */
    proxy_cut_late(proxy);
    proxy_refuse(proxy, true);
    his = take(other, &waiting);
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    proxy_deliver(proxy);
    CHECK(count_holders(other, "n") == 1);
    proxy_heal(proxy);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    CHECK(count_holders(other, "n") == 1);
    EXPECT(HF_OK, hf_renew(his, 0, &contract_error));
    give(his);
    is_free_again("n", 0);
}

struct releasing {
    hf_lease *lease;
    hf_status status;
};

static void *release_it(void *arg)
{
    struct releasing *r = arg;

    r->status = hf_release(r->lease, &contract_error);
    return NULL;
}

/* A release that comes after the name went on to others frees nothing of theirs. */
static void late_release(void **state)
{
    hf_acquire_request request = with_ttl(mutex_request("n"), LONG_MS),
                       waiting = waiting_request("n");
    struct releasing releasing = { .lease = take(store, &request) };
    pthread_t thread;
    hf_lease *his;

    (void)state;
    proxy_block(proxy, PROXY_UP, true);
    pthread_create(&thread, NULL, release_it, &releasing);
    AWAIT(proxy_held(proxy, PROXY_UP) > 0);
    proxy_cut_late(proxy);
    proxy_heal(proxy);
    his = take(other, &waiting); /* by a second release, of another connection */
    pthread_join(thread, NULL);
    CHECK(releasing.status == HF_OK || is_settled_later(releasing.status));
    proxy_deliver(proxy);
    CHECK(count_holders(other, "n") == 1);
    EXPECT(HF_OK, hf_renew(his, 0, &contract_error));
    give(his);
    is_free_again("n", 0);
}

/* A grant to the first copy of an acquire expires unnoticed; the second copy queues again; and then
 * the old message comes. It is no grant. */
static void old_message(void **state)
{
    hf_acquire_request request = with_ttl(waiting_request("n"), 1000),
                       trying = with_ttl(mutex_request("n"), LONG_MS),
                       waiting = waiting_request("n");
    hf_store *deaf = open_at(proxy_url(proxy, "?op_timeout=1s&connect_timeout=1s&ping=1m"));
    hf_lease *lease = take(other, &trying), *his;
    struct attempt attempt;

    (void)state;
    waiting.ttl_ms = LONG_MS;
    proxy_choose(proxy, PROXY_PUSH);
    proxy_block(proxy, PROXY_DOWN, true);
    proxy_choose(proxy, PROXY_CALLS);
    proxy_block(proxy, PROXY_DOWN, true);
    attempt_start(&attempt, deaf, &request);
    AWAIT(count_waiters(other, "n") == 1);
    give(lease);                 /* it is granted to the waiter, which does not hear of it ... */
    his = take(other, &waiting); /* ... and is passed over after its window */
    proxy_choose(proxy, PROXY_CALLS);
    proxy_block(proxy, PROXY_DOWN, false);
    AWAIT(count_waiters(other, "n") == 1); /* the second copy */
    nap_ms(300);
    proxy_choose(proxy, PROXY_PUSH);
    proxy_block(proxy, PROXY_DOWN, false); /* now the message */
    nap_ms(700);
    CHECK(hf_lease_state(his) == HF_STATE_HELD);
    CHECK(count_holders(other, "n") == 1);
    if (count_waiters(other, "n") != 1 || attempt.lease)
        fail_msg("two hold it: %s",
                 attempt.lease ? "the waiter was granted it by an old message" : "?");
    give(his);
    EXPECT(HF_OK, attempt_join(&attempt));
    hf_release(attempt.lease, NULL);
    close_hard(deaf);
}

/* When the only waiter for "n" last spoke, by the server's clock. A waiter sends a heartbeat only after
 * everything before it was answered. */
static double last_beat(void)
{
    redisReply *reply = server_ask(server, "HVALS hf:{n}:w");
    double at_ms = 0;

    CHECK(reply->type == REDIS_REPLY_ARRAY && reply->elements == 1);
    memcpy(&at_ms, reply->element[0]->str, sizeof at_ms);
    freeReplyObject(reply);
    return at_ms;
}

static void await_beats(int count)
{
    for (double at_ms = last_beat(); count > 0; count--, at_ms = last_beat())
        AWAIT(last_beat() > at_ms);
}

/* A copy of the acquire arrives when its waiter has long been queued, granted unnoticed, and passed
 * over: it queues the waiter again, whose heartbeats are answered as before. Then the message of
 * the expired grant comes: by its number it is the newest, but it is no grant. */
static void message_behind_a_late_copy(void **state)
{
    hf_acquire_request request = with_ttl(waiting_request("n"), 1000),
                       trying = with_ttl(mutex_request("n"), LONG_MS),
                       waiting = with_ttl(waiting_request("n"), LONG_MS);
    hf_store *deaf = open_at(proxy_url(proxy, "?op_timeout=1m&connect_timeout=10s&ping=1m"));
    hf_lease *lease, *his;
    struct attempt attempt;

    (void)state;
    EXPECT(HF_OK, probe(deaf, &trying)); /* the scripts are there */
    lease = take(other, &trying);
    proxy_block(proxy, PROXY_UP, true);
    attempt_start(&attempt, deaf, &request);
    AWAIT(proxy_held(proxy, PROXY_UP) > 0);
    proxy_cut_late(proxy); /* the first copy is kept ... */
    proxy_heal(proxy);
    AWAIT(count_waiters(other, "n") == 1); /* ... and another one queued */
    await_beats(1);
    proxy_block(proxy, PROXY_UP, true);
    proxy_choose(proxy, PROXY_PUSH);
    proxy_block(proxy, PROXY_DOWN, true);
    proxy_choose(proxy, PROXY_CALLS);
    give(lease);
    his = take(other, &waiting); /* after the window of the waiter, which got no message */
    proxy_deliver(proxy);
    CHECK(count_waiters(other, "n") == 1); /* the late copy */
    proxy_block(proxy, PROXY_UP, false);
    await_beats(3); /* the first was sent long ago, and the third after the answer to the second */
    proxy_choose(proxy, PROXY_PUSH);
    CHECK(proxy_held(proxy, PROXY_DOWN) > 0);
    proxy_block(proxy, PROXY_DOWN, false); /* now the message */
    nap_ms(700);
    if (attempt.lease)
        fail_msg("two hold it: tokens %llu and, by an old message, %llu",
                 (unsigned long long)hf_lease_token(his),
                 (unsigned long long)hf_lease_token(attempt.lease));
    CHECK(hf_lease_state(his) == HF_STATE_HELD);
    CHECK(count_holders(other, "n") == 1);
    give(his);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_hard(deaf);
}

/* A grant comes as a message while a second copy of the acquire is on its way; that copy comes
 * after the release, and is refused. */
static void late_copy_after_a_message(void **state)
{
    hf_acquire_request request = with_ttl(waiting_request("n"), LONG_MS),
                       trying = mutex_request("n");
    hf_lease *lease = take(other, &trying);
    struct attempt attempt;
    int64_t bytes;

    (void)state;
    proxy_block(proxy, PROXY_DOWN, true);
    attempt_start(&attempt, store, &request);
    AWAIT(count_waiters(other, "n") == 1); /* the first copy, and no answer to it */
    bytes = proxy_bytes(proxy, PROXY_UP);
    proxy_delay(proxy, PROXY_UP, 200);
    proxy_cut(proxy);
    proxy_block(proxy, PROXY_DOWN, false);
    AWAIT(proxy_bytes(proxy, PROXY_UP) >
          bytes + 5000); /* the greeting, and the second with its script */
    proxy_block(proxy, PROXY_UP, true);
    give(lease); /* the message */
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(proxy_held(proxy, PROXY_UP) > 5000);
    proxy_cut_late(proxy);
    proxy_heal(proxy);
    give(attempt.lease);
    proxy_deliver(proxy);
    CHECK(count_holders(other, "n") == 0);
    EXPECT(HF_OK, probe(other, &trying));
}

int network_late(void)
{
    const struct CMUnitTest tests[] = {
        NET(late_acquire),
        NET(late_wait),
        NET(late_renewal),
        NET(late_release),
        NET(old_message),
        NET(message_behind_a_late_copy),
        NET(late_copy_after_a_message),
    };

    return BED_RUN(tests);
}
