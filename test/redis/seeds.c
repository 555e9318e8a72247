/* SPDX-License-Identifier: MIT */
/*
 * What goes wrong with the locks that people build on one Redis server by hand, each shown
 * to go wrong on a real server, and the same situation with Holdfast.
 *
 * Nothing here is left to luck: the steps of the naive way are interleaved by hand, as two
 * clients' commands may always be; with Holdfast the same order of events is forced (by a
 * network that holds bytes back, a process that is killed, a clock that is wrong).
 */
#include "redis_bed.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- clients of the naive kind ---------------------------------------------------------- */

/* Two of them, with a connection each. */
static redisContext *alice, *bob;

static int naive_setup(void **state)
{
    (void)state;
    server = server_start(NULL);
    alice = server_connect(server);
    bob = server_connect(server);
    return alice->err || bob->err;
}

static int naive_teardown(void **state)
{
    if (alice)
        redisFree(alice);
    if (bob)
        redisFree(bob);
    alice = bob = NULL;
    (void)state;
    server_free(server);
    return 0;
}

/* One command: 1 for OK, the integer of an integer; 0 for nil. */
static long long does(redisContext *who, const char *command)
{
    redisReply *reply = redisCommand(who, command);
    long long result = -1;

    if (!reply || reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", command, reply ? reply->str : who->errstr);
    if (reply->type == REDIS_REPLY_INTEGER)
        result = reply->integer;
    else if (reply->type == REDIS_REPLY_STATUS)
        result = 1;
    else if (reply->type == REDIS_REPLY_NIL)
        result = 0;
    freeReplyObject(reply);
    return result;
}

static bool reads(redisContext *who, const char *key, const char *want)
{
    redisReply *reply = redisCommand(who, "GET %s", key);
    bool same = reply && reply->str && strcmp(reply->str, want) == 0;

    freeReplyObject(reply);
    return same;
}

static void dies(redisContext **who)
{
    redisFree(*who);
    *who = NULL;
}

/* Its time is over: not by waiting for it, so that it cannot happen before its turn. */
static void expires(const char *key)
{
    server_do(server, "PEXPIRE %s 1", key);
    while (server_do(server, "EXISTS %s", key))
        sleep_ms(5);
}

/* ---- no expiry: the holder dies, and the lock is held for ever ------------------------------- */

static void naive_no_expiry(void **state)
{
    (void)state;
    assert_int_equal(does(alice, "SETNX lock alice"), 1);
    dies(&alice);
    assert_int_equal(does(bob, "SETNX lock bob"), 0);
    assert_int_equal(server_do(server, "PTTL lock"), -1); /* and so it will stay */
}

static void holder_dies(void **state)
{
    hf_acquire_request request = with_ttl(mutex_request("lock"), 1000);
    hf_store *store = open_direct();
    struct peer holder;
    uint64_t token;

    (void)state;
    peer_start(&holder);
    peer_begin(&holder, 0, &request);
    EXPECT(HF_OK, peer_join(&holder, 0, &token));
    EXPECT(HF_BUSY, probe(store, &request));
    peer_kill(&holder);
    gets_free(store, "lock", token);
    close_store(store);
}

/* ---- SETNX, then EXPIRE: it dies in between ----------------------------------------------------- */

static void naive_expiry_gap(void **state)
{
    (void)state;
    assert_int_equal(does(alice, "SETNX lock alice"), 1);
    dies(&alice); /* before its EXPIRE lock 10 */
    assert_int_equal(does(bob, "SETNX lock bob"), 0);
    assert_int_equal(server_do(server, "PTTL lock"), -1);
}

/* Wherever its bytes end, the server has a whole request or none, and a grant has its end in it. */
static void no_gap(void **state)
{
    hf_acquire_request request = with_ttl(mutex_request("lock"), 1000),
                       another = mutex_request("another");
    hf_store *other = open_direct();
    uint64_t last = 0;
    int64_t whole;

    (void)state;
    {
        hf_store *store = open_through();

        give(take(store, &request)); /* the scripts are there */
        whole = proxy_bytes(proxy, PROXY_UP);
        hf_lease *lease = take(store, &request);
        whole = proxy_bytes(proxy, PROXY_UP) - whole;
        give(lease);
        close_store(store);
    }
    for (int64_t bytes = 0; bytes <= whole; bytes += whole / 10) {
        struct peer holder;

        aim(proxy_url(proxy, ""));
        peer_start(&holder);
        EXPECT(HF_OK, peer_acquire(&holder, 1, &another));
        EXPECT(HF_OK, peer_release(&holder, 1));
        proxy_choose(proxy, PROXY_CALLS);
        proxy_cut_after(proxy, PROXY_UP, bytes);
        peer_begin(&holder, 0, &request);
        AWAIT(proxy_has_cut(proxy) || bytes >= whole);
        proxy_refuse(proxy, true);
        peer_kill(&holder); /* it settles nothing any more */
        proxy_heal(proxy);
        last = gets_free(other, "lock", last);
    }
    close_store(other);
}

/* ---- freed by a stranger -------------------------------------------------------------------------- */

static void naive_freed_by_a_stranger(void **state)
{
    (void)state;
    assert_int_equal(does(alice, "SET lock 1 NX PX 60000"), 1);
    expires("lock"); /* her work takes longer */
    assert_int_equal(does(bob, "SET lock 1 NX PX 60000"), 1);
    assert_int_equal(does(alice, "DEL lock"), 1);               /* she is done: and frees his */
    assert_int_equal(does(alice, "SET lock 1 NX PX 60000"), 1); /* while he works */
}

/* Looking before is no help: what was hers when she looked may be his when she deletes. */
static void naive_freed_after_a_look(void **state)
{
    (void)state;
    assert_int_equal(does(alice, "SET lock alice NX PX 60000"), 1);
    assert_true(reads(alice, "lock", "alice"));
    expires("lock");
    assert_int_equal(does(bob, "SET lock bob NX PX 60000"), 1);
    assert_int_equal(does(alice, "DEL lock"), 1);
    assert_int_equal(does(alice, "SET lock alice NX PX 60000"), 1);
}

static void stranger_frees_nothing(void **state)
{
    hf_store *alices = open_direct(), *bobs = open_direct();
    hf_acquire_request short_one = with_ttl(mutex_request("lock"), 1000);
    hf_acquire_request waiting = waiting_request("lock"), trying = mutex_request("lock");
    hf_lease *hers, *his;

    (void)state;
    short_one.flags = HF_FLAG_NO_RENEW;
    hers = take(alices, &short_one);
    his = take(bobs, &waiting); /* once hers has expired */
    EXPECT(HF_LOST, hf_release(hers, &contract_error));
    EXPECT(HF_BUSY, probe(alices, &trying));
    CHECK(hf_lease_state(his) == HF_STATE_HELD);
    give(his);
    close_store(alices);
    close_store(bobs);
}

/* ---- expired under the holder ------------------------------------------------------------------------ */

static void naive_expired_under_the_holder(void **state)
{
    (void)state;
    assert_int_equal(does(alice, "SET lock alice NX PX 60000"), 1);
    expires("lock");
    /* Nobody has told her; she still writes when he is in. */
    assert_int_equal(does(bob, "SET lock bob NX PX 60000"), 1);
    assert_int_equal(does(alice, "SET data by-alice"), 1);
    assert_int_equal(does(bob, "SET data by-bob"), 1);
}

static void work_may_take_longer(void **state)
{
    hf_store *alices = open_direct(), *bobs = open_direct();
    hf_acquire_request request = with_ttl(mutex_request("lock"), 3000),
                       trying = mutex_request("lock");
    hf_lease *hers = take(alices, &request);
    int64_t at_ms = now_ms(), until_ms = at_ms + 7500, stalled_ms = 0;

    (void)state;
    while (at_ms < until_ms) {
        hf_status his = probe(bobs, &trying);
        int64_t before_ms = at_ms;

        CHECK(his == HF_BUSY || hf_lease_state(hers) == HF_STATE_LOST);
        nap_ms(50);
        at_ms = now_ms();
        if (at_ms - before_ms > stalled_ms)
            stalled_ms = at_ms - before_ms;
    }
    /* Lost only if this machine did not let her keeper run either, from a third of the ttl to its end. */
    CHECK(hf_release(hers, &contract_error) == HF_OK || stalled_ms > 1000);
    close_store(alices);
    close_store(bobs);
}

/* She cannot reach the server: then she hears that it is lost before he gets it. */
static void loss_is_told_before_another_gets_it(void **state)
{
    hf_store *alices = open_through(), *bobs = open_direct();
    hf_acquire_request request = with_ttl(mutex_request("lock"), 1000),
                       waiting = waiting_request("lock");
    struct loss loss = { 0 };
    hf_lease *hers, *his;
    uint64_t token;

    (void)state;
    request.on_event = note_loss;
    request.on_event_arg = &loss;
    hers = take(alices, &request);
    token = hf_lease_token(hers);
    proxy_block(proxy, PROXY_UP, true);
    his = take(bobs, &waiting);
    /* By what she asks the library, not by when its callback's thread got to run. */
    CHECK(hf_lease_remaining_ms(hers) == 0);
    CHECK(hf_lease_state(hers) == HF_STATE_LOST);
    CHECK(hf_lease_token(his) > token);
    AWAIT(loss.calls == 1);
    proxy_heal(proxy);
    EXPECT(HF_LOST, hf_release(hers, &contract_error));
    CHECK(hf_lease_state(his) == HF_STATE_HELD);
    give(his);
    close_store(alices);
    close_store(bobs);
}

/* ---- a semaphore stolen by a skewed clock ------------------------------------------------------------- */

/* Clients' times are scores; whoever is within the first N has a permit. */
static void naive_stolen_by_a_slow_clock(void **state)
{
    (void)state;
    /* One permit. Alice's clock is ten seconds fast. */
    assert_int_equal(does(alice, "ZADD sem 1000010 alice"), 1);
    assert_int_equal(does(alice, "ZRANK sem alice"), 0); /* hers */
    assert_int_equal(does(bob, "ZADD sem 1000000 bob"), 1);
    assert_int_equal(does(bob, "ZRANK sem bob"), 0); /* his, and nobody told her */
}

/* The fast clock takes the other one's permit for expired. */
static void naive_swept_by_a_fast_clock(void **state)
{
    (void)state;
    assert_int_equal(does(alice, "ZADD sem 1000000 alice"), 1);
    assert_int_equal(does(bob, "ZREMRANGEBYSCORE sem -inf 1000050"), 1); /* "older than 10 s" */
    assert_int_equal(does(bob, "ZADD sem 1000060 bob"), 1);
    assert_int_equal(does(bob, "ZRANK sem bob"), 0);
}

/* This process's wall clock: every call of the library below comes here. */
static _Atomic int64_t skew_s;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    if (syscall(SYS_clock_gettime, clock, t) != 0)
        return -1;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        t->tv_sec += skew_s;
    return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *ret)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (ret)
        *ret = now.tv_sec;
    return now.tv_sec;
}

static void clocks_do_not_matter(void **state)
{
    const int64_t skews[] = { 3600, -3600, 10, -10 };
    hf_acquire_request trying = semaphore_request("sem", 1), waiting;

    (void)state;
    waiting = with_wait(trying, LIMIT_MS);
    for (size_t i = 0; i < sizeof skews / sizeof *skews; i++) {
        hf_store *alices, *bobs;
        struct attempt his;
        hf_lease *hers;

        skew_s = -skews[i];
        alices = open_direct();
        hers = take(alices, &trying);
        skew_s = skews[i];
        bobs = open_direct();
        EXPECT(HF_BUSY, probe(bobs, &trying)); /* neither stolen nor swept */
        attempt_start(&his, bobs, &waiting);   /* nor is he starved */
        AWAIT(count_waiters(bobs, "sem") == 1);
        CHECK(hf_lease_state(hers) == HF_STATE_HELD);
        give(hers);
        EXPECT(HF_OK, attempt_join(&his));
        give(his.lease);
        close_store(alices);
        close_store(bobs);
    }
    skew_s = 0;
}

/* ---- one permit too many, by a race -------------------------------------------------------------------- */

static void naive_check_then_add(void **state)
{
    (void)state;
    /* One permit. Both look, then both go in. */
    assert_int_equal(does(alice, "ZCARD sem"), 0);
    assert_int_equal(does(bob, "ZCARD sem"), 0);
    assert_int_equal(does(alice, "ZADD sem 1 alice"), 1);
    assert_int_equal(does(bob, "ZADD sem 2 bob"), 1);
    assert_int_equal(server_do(server, "ZCARD sem"), 2);
}

/* The "fair" one with a counter: who has the lower number may come later with it. */
static void naive_counter_race(void **state)
{
    (void)state;
    assert_int_equal(does(alice, "INCR counter"), 1);
    assert_int_equal(does(bob, "INCR counter"), 2);
    assert_int_equal(does(bob, "ZADD owners 2 bob"), 1);
    assert_int_equal(does(bob, "ZRANK owners bob"), 0); /* the one permit is his */
    assert_int_equal(does(alice, "ZADD owners 1 alice"), 1);
    assert_int_equal(does(alice, "ZRANK owners alice"), 0); /* and hers */
}

/* Her request is on its way when he asks: the one that the server has first gets it. */
static void never_one_too_many(void **state)
{
    hf_store *alices = open_through(), *bobs = open_direct();
    hf_acquire_request request = semaphore_request("sem", 2);
    struct attempt hers;
    hf_lease *his[2];

    (void)state;
    give(take(alices, &request)); /* all that comes before the first request is done */
    proxy_choose(proxy, PROXY_CALLS);
    proxy_block(proxy, PROXY_UP, true);
    attempt_start(&hers, alices, &request);
    AWAIT(proxy_held(proxy, PROXY_UP) > 0);
    his[0] = take(bobs, &request);
    his[1] = take(bobs, &request);
    proxy_block(proxy, PROXY_UP, false);
    EXPECT(HF_BUSY, attempt_join(&hers));
    CHECK(count_holders(bobs, "sem") == 2);
    give(his[0]);
    EXPECT(HF_OK, probe(alices, &request));
    give(his[1]);
    close_store(alices);
    close_store(bobs);
}

/* And by brute force: many at once, and never more inside than there are permits. */
#define CROWD   6
#define PERMITS 2
#define ROUNDS  40

struct crowd {
    _Atomic int inside, most;
};

static void *crowd_member(void *arg)
{
    struct crowd *crowd = arg;
    hf_store *store = open_direct();
    hf_acquire_request request = with_wait(semaphore_request("sem", PERMITS), LIMIT_MS);

    for (int i = 0; i < ROUNDS; i++) {
        hf_lease *lease = take(store, &request);
        int inside = ++crowd->inside, most = crowd->most;

        while (inside > most && !atomic_compare_exchange_weak(&crowd->most, &most, inside))
            ;
        CHECK(inside <= PERMITS);
        crowd->inside--;
        give(lease);
    }
    close_store(store);
    return NULL;
}

static void crowd_is_let_in_by_turns(void **state)
{
    struct crowd crowd = { 0 };
    pthread_t threads[CROWD];

    (void)state;
    for (int i = 0; i < CROWD; i++)
        CHECK(pthread_create(&threads[i], NULL, crowd_member, &crowd) == 0);
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    CHECK(crowd.most <= PERMITS && crowd.inside == 0);
}

#define NAIVE(f) cmocka_unit_test_setup_teardown(f, naive_setup, naive_teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NAIVE(naive_no_expiry),
        TEST(holder_dies),
        NAIVE(naive_expiry_gap),
        TEST(no_gap),
        NAIVE(naive_freed_by_a_stranger),
        NAIVE(naive_freed_after_a_look),
        TEST(stranger_frees_nothing),
        NAIVE(naive_expired_under_the_holder),
        TEST(work_may_take_longer),
        TEST(loss_is_told_before_another_gets_it),
        NAIVE(naive_stolen_by_a_slow_clock),
        NAIVE(naive_swept_by_a_fast_clock),
        TEST(clocks_do_not_matter),
        NAIVE(naive_check_then_add),
        NAIVE(naive_counter_race),
        TEST(never_one_too_many),
        TEST(crowd_is_let_in_by_turns),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
