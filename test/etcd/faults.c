/* SPDX-License-Identifier: MIT */
/*
 * A server that dies, comes back, is stopped, ends leases or compacts its history; and a network
 * that cuts, delays and delivers late: holders are told, waiters continue, and nothing stays held
 * that nobody can release.
 */
#include "etcd_bed.h"

#include <stdio.h>
#include <string.h>

/* Nothing is sent but what the test asks for. */
#define SILENT "connect_timeout=500ms&op_timeout=900ms&ping=10m"

static bool was_refused(hf_status status)
{
    return status == HF_UNAVAILABLE || status == HF_UNKNOWN;
}

/* ---- killed, stopped, restarted ------------------------------------------------------------------ */

/* From its deadline on nothing says "held"; before that the risk is told. */
static void told_in_time(bool stopped)
{
    hf_acquire_request request = with_ttl(mutex_request("n"), 4000);
    hf_store *store = open_with(IMPATIENT);
    struct loss loss = { 0 };
    hf_lease *lease;
    bool risk = false;
    int64_t dead_ms;

    request.on_event = note_loss;
    request.on_event_arg = &loss;
    lease = take(store, &request);
    if (stopped)
        etcd_pause(etcd, 0);
    else
        etcd_kill(etcd, 0);
    dead_ms = now_ms();
    for (hf_state now = HF_STATE_HELD; now != HF_STATE_LOST; nap_ms(5)) {
        int64_t at_ms = now_ms();

        now = hf_lease_state(lease);
        risk = risk || now == HF_STATE_AT_RISK;
        CHECK(at_ms < dead_ms + 4000 || now == HF_STATE_LOST);
        CHECK(at_ms < dead_ms + LIMIT_MS);
    }
    CHECK(risk);
    AWAIT(loss.calls == 1);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    close_hard(store);
}

static void holder_is_told_of_death(void **state)
{
    (void)state;
    told_in_time(false);
}

static void holder_is_told_of_silence(void **state)
{
    (void)state;
    told_in_time(true);
}

/* Deadlines hold although nobody answers; and afterwards nothing is left behind. */
static void bounded_wait_ends(void **state)
{
    hf_store *holders = open_with(""), *waiters = open_with(IMPATIENT);
    hf_acquire_request request = mutex_request("n");
    hf_lease *lease = take(holders, &request);
    struct attempt attempt;
    int64_t begin_ms;

    (void)state;
    request = with_wait(mutex_request("n"), 1000);
    attempt_start(&attempt, waiters, &request);
    AWAIT(count_waiters(holders, "n") == 1);
    begin_ms = now_ms();
    etcd_pause(etcd, 0);
    attempt_join(&attempt);
    CHECK(attempt.status == HF_TIMEOUT || was_refused(attempt.status));
    CHECK(now_ms() - begin_ms < 30000);
    attempt.status = probe(
        waiters, &request); /* TIMEOUT: not even the connection was there, so nothing was sent */
    CHECK(attempt.status == HF_TIMEOUT || was_refused(attempt.status));
    etcd_continue(etcd, 0);
    AWAIT(count_waiters(holders, "n") == 0);
    give(lease);
    gets_free(waiters, "n", 0);
    close_hard(waiters);
    close_hard(holders);
}

/* Its data is durable: waiters and holders survive a restart. */
static void all_go_on_after_restart(void **state)
{
    hf_store *holders = open_with(IMPATIENT), *waiters = open_with(IMPATIENT);
    hf_acquire_request request = with_ttl(mutex_request("n"), 20000);
    hf_lease *lease = take(holders, &request);
    struct attempt attempt;
    uint64_t token = hf_lease_token(lease);

    (void)state;
    request = waiting_request("n");
    attempt_start(&attempt, waiters, &request);
    AWAIT(count_waiters(holders, "n") == 1);
    etcd_kill(etcd, 0);
    nap_ms(300);
    etcd_restart(etcd, 0);
    EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    CHECK(!attempt.ended);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(hf_lease_token(attempt.lease) > token);
    give(attempt.lease);
    close_hard(waiters);
    close_hard(holders);
}

/* A request made while the server is away waits for it. */
static void asked_while_away(void **state)
{
    hf_store *store = open_with(IMPATIENT);
    hf_acquire_request request = waiting_request("n");
    struct attempt attempt;

    (void)state;
    etcd_kill(etcd, 0);
    attempt_start(&attempt, store, &request);
    nap_ms(1500); /* more than op_timeout */
    CHECK(!attempt.ended);
    etcd_restart(etcd, 0);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_hard(store);
}

/* ---- leases that others end ------------------------------------------------------------------------ */

static void revoke_all(void)
{
    int64_t ids[32];
    size_t count = list_leases(ids, 32);

    for (size_t i = 0; i < count && i < 32; i++)
        revoke_lease(ids[i]);
}

static void revoked_is_lost(void **state)
{
    hf_store *store = open_with("");
    hf_acquire_request request = with_ttl(mutex_request("n"), 3000);
    hf_lease *lease = take(store, &request);

    (void)state;
    revoke_all();
    await_lost(lease);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    gets_free(store, "n", hf_lease_token(lease));
    close_hard(store);
}

/* A waiter whose place is gone takes a new one. */
static void revoked_waiter_queues_again(void **state)
{
    hf_store *holders = open_with(""), *waiters = open_with("");
    hf_acquire_request request = with_ttl(mutex_request("n"), 600000);
    int64_t ids[32];
    struct attempt attempt;
    hf_lease *lease = take(holders, &request);

    (void)state;
    list_leases(ids, 32);
    request = with_ttl(waiting_request("n"), 3000);
    attempt_start(&attempt, waiters, &request);
    AWAIT(count_waiters(holders, "n") == 1);
    {
        int64_t now[32];
        size_t count = list_leases(now, 32);

        for (size_t i = 0; i < count; i++)
            if (now[i] != ids[0])
                revoke_lease(now[i]);
    }
    AWAIT(count_waiters(holders, "n") == 0);
    AWAIT(count_waiters(holders, "n") == 1); /* it noticed */
    CHECK(!attempt.ended && hf_lease_state(lease) == HF_STATE_HELD);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_hard(waiters);
    close_hard(holders);
}

/* One claim is not renewed, others of the store with the same ttl are: only it ends. */
static void only_the_neglected_ends(void **state)
{
    hf_store *store = open_with(""), *other = open_with("");
    hf_acquire_request kept = with_ttl(mutex_request("kept"), 3000);
    hf_acquire_request neglected = with_ttl(mutex_request("neglected"), 3000), wait;
    hf_lease *one, *two, *next;

    (void)state;
    neglected.flags = HF_FLAG_NO_RENEW;
    one = take(store, &kept);
    two = take_short(store, &neglected);
    CHECK(list_leases(NULL, 0) == 1); /* they share it */
    wait = waiting_request("neglected");
    next = take(other, &wait);
    CHECK(hf_lease_state(two) == HF_STATE_LOST);
    CHECK(hf_lease_state(one) == HF_STATE_HELD);
    EXPECT(HF_LOST, hf_release(two, &contract_error));
    CHECK(hf_lease_state(next) == HF_STATE_HELD);
    give(next);
    give(one);
    close_hard(other);
    close_hard(store);
}

/* What closing leaves behind: no key, no lease. */
static void nothing_is_left(void **state)
{
    hf_store *store = open_with("");
    hf_acquire_request request = mutex_request("n"), other = with_ttl(mutex_request("m"), 5000);

    (void)state;
    give(take(store, &request));
    give(take(store, &other));
    (void)take(store, &request);
    close_hard(store);
    CHECK(count_keys("locks") == 0);
    AWAIT(list_leases(NULL, 0) == 0);
}

/* ---- the past is forgotten --------------------------------------------------------------------------- */

static void compacted_while_waiting(void **state)
{
    hf_store *holders = open_with(""), *waiters = open_through(IMPATIENT);
    hf_acquire_request request = mutex_request("n");
    hf_lease *lease = take(holders, &request);
    struct attempt attempt;

    (void)state;
    request = waiting_request("n");
    attempt_start(&attempt, waiters, &request);
    AWAIT(count_waiters(holders, "n") == 1);
    for (int i = 0; i < 3; i++) {
        hf_acquire_request noise = mutex_request("noise");

        give(take(holders, &noise));
        compact();
        proxy_cut(proxy); /* the watch must be made again, after its past is gone */
        nap_ms(100);
    }
    CHECK(!attempt.ended);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_hard(waiters);
    close_hard(holders);
}

/* What the inbox would have told was forgotten: renewals find it. */
static void compacted_break_is_found(void **state)
{
    hf_store *holders = open_through(IMPATIENT), *other = open_with("");
    hf_acquire_request request = with_ttl(mutex_request("n"), 600000);
    hf_lease *lease = take(holders, &request);

    (void)state;
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    EXPECT(HF_OK, hf_lease_break(other, "n", 1, hf_lease_token(lease), &contract_error));
    gets_free(other, "n", hf_lease_token(lease));
    compact();
    compact();
    proxy_refuse(proxy, false);
    await_lost(lease); /* long before a third of its ttl */
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    close_hard(other);
    close_hard(holders);
}

/* ---- waiting for any change ----------------------------------------------------------------------------- */

struct change_waiter {
    hf_store *store;
    uint64_t seq;
    hf_status status;
    hf_error err;
    _Atomic int tid;
    _Atomic bool ended;
    pthread_t thread;
};

static void *change_waiter_run(void *arg)
{
    struct change_waiter *waiter = arg;

    waiter->tid = thread_id();
    waiter->status = hf_store_wait(waiter->store, &waiter->seq, HF_FOREVER, NULL, &waiter->err);
    waiter->ended = true;
    return NULL;
}

static void change_waiter_start(struct change_waiter *waiter)
{
    waiter->tid = 0;
    waiter->ended = false;
    CHECK(pthread_create(&waiter->thread, NULL, change_waiter_run, waiter) == 0);
    thread_settled(&waiter->tid, &waiter->ended);
}

static hf_status change_waiter_join(struct change_waiter *waiter)
{
    CHECK(pthread_join(waiter->thread, NULL) == 0);
    return waiter->status;
}

/* Its connection is cut again and again, and changes of others come: only ours ends it. */
static void change_is_told_after_cuts(void **state)
{
    hf_store *store = open_through("op_timeout=60s&ping=300ms"), *other = open_with("");
    struct change_waiter waiter = { .store = store };
    hf_acquire_request request = mutex_request("n");
    uint64_t before;

    (void)state;
    EXPECT(HF_TIMEOUT, hf_store_wait(store, &waiter.seq, 0, NULL, &contract_error));
    CHECK(waiter.seq > 0);
    before = waiter.seq;
    change_waiter_start(&waiter);
    for (int i = 0; i < 3; i++) {
        proxy_cut(proxy);
        nap_ms(50);
        compact();
    }
    CHECK(!waiter.ended);
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    give(take(other, &request));
    proxy_refuse(proxy, false);
    EXPECT(HF_OK, change_waiter_join(&waiter));
    CHECK(waiter.seq > before);
    close_hard(other);
    close_hard(store);
}

/* What has changed since is not known any more, but that something has is. */
static void compacted_change_is_told(void **state)
{
    hf_store *store = open_with(IMPATIENT);
    hf_acquire_request request = mutex_request("n");
    uint64_t seq = 0;

    (void)state;
    EXPECT(HF_TIMEOUT, hf_store_wait(store, &seq, 0, NULL, &contract_error));
    give(take(store, &request));
    compact();
    compact();
    EXPECT(HF_OK, hf_store_wait(store, &seq, 0, NULL, &contract_error));
    close_hard(store);
}

static void change_wait_ends_without_a_server(void **state)
{
    struct change_waiter waiter = { .store = open_with(IMPATIENT) };
    uint64_t none = 0;

    (void)state;
    EXPECT(HF_TIMEOUT, hf_store_wait(waiter.store, &waiter.seq, 0, NULL, &contract_error));
    change_waiter_start(&waiter);
    etcd_kill(etcd, 0);
    EXPECT(HF_UNAVAILABLE, change_waiter_join(&waiter));
    /* The number is known: nothing is missed if it is asked about again. And if it is not known: */
    EXPECT(HF_TIMEOUT, hf_store_wait(waiter.store, &waiter.seq, 0, NULL, &contract_error));
    EXPECT(HF_UNAVAILABLE, hf_store_wait(waiter.store, &none, 0, NULL, &contract_error));
    close_hard(waiter.store);
}

static void break_is_told_after_a_cut(void **state)
{
    hf_store *holders = open_through(IMPATIENT), *other = open_with("");
    hf_acquire_request request = with_ttl(mutex_request("n"), 600000);
    hf_lease *lease = take(holders, &request);

    (void)state;
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    EXPECT(HF_OK, hf_lease_break(other, "n", 1, hf_lease_token(lease), &contract_error));
    proxy_refuse(proxy, false);
    await_lost(lease);
    AWAIT(count_keys("told") == 0); /* the note is taken away */
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    close_hard(other);
    close_hard(holders);
}

/* ---- the network ---------------------------------------------------------------------------------------- */

/* Cut after a number of bytes, up or down, in the middle of acquire and release: at most one holds,
 * and in the end nobody. */
static void cut_anywhere(void **state)
{
    hf_store *store = open_through(IMPATIENT), *other = open_with("");
    hf_acquire_request request = with_ttl(mutex_request("n"), 2000), wait = waiting_request("n");
    uint64_t last = 0;

    (void)state;
    for (int64_t bytes = 0; bytes < 1500; bytes = bytes * 5 / 4 + 40)
        for (int way = 0; way < 2; way++) {
            hf_lease *lease = NULL, *next;
            hf_status status;

            request.wait_ms = bytes % 3 ? LIMIT_MS : 0;
            proxy_cut_after(proxy, way ? PROXY_UP : PROXY_DOWN, bytes);
            status = hf_acquire(store, &request, &lease, &contract_error);
            if (status == HF_OK) {
                hf_acquire_request try = mutex_request("n");

                CHECK(hf_lease_token(lease) > last);
                last = hf_lease_token(lease);
                if (hf_lease_state(lease) == HF_STATE_HELD) {
                    hf_status probed = probe(other, &try);

                    CHECK(probed == HF_BUSY || hf_lease_state(lease) != HF_STATE_HELD ||
                          hf_lease_remaining_ms(lease) == 0);
                }
                status = hf_release(lease, &contract_error);
                CHECK(status == HF_OK || status == HF_LOST || was_refused(status));
            } else {
                CHECK(was_refused(status) || status == HF_BUSY);
            }
            proxy_heal(proxy);
            next = take(other, &wait);
            CHECK(hf_lease_token(next) > last);
            last = hf_lease_token(next);
            give(next);
        }
    close_hard(store);
    AWAIT(count_keys("locks") == 0);
    close_hard(other);
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

/* The answer to a release is cut off, and it is sent again: the lease is gone. That was the first copy, or somebody
 * before it; nobody says OK. */
static void released_or_lost(void **state)
{
    hf_store *store = open_through("");
    hf_acquire_request request = with_ttl(mutex_request("n"), 60000);
    struct releasing releasing = { .lease = take(store, &request) };
    pthread_t thread;

    (void)state;
    proxy_block(proxy, PROXY_DOWN, true);
    pthread_create(&thread, NULL, release_it, &releasing);
    AWAIT(count_keys("locks") == 0);
    proxy_cut(proxy);
    proxy_heal(proxy);
    pthread_join(thread, NULL);
    EXPECT(HF_UNKNOWN, releasing.status);
    AWAIT(hf_close(store, 0) == HF_OK); /* it settles by itself */
}

static void vanish(enum proxy_way way)
{
    hf_store *store = open_through(IMPATIENT), *other = open_with("");
    hf_acquire_request request = with_wait(mutex_request("n"), 1000);
    hf_lease *lease = NULL;
    hf_status status;

    proxy_block(proxy, way, true);
    status = hf_acquire(store, &request, &lease, &contract_error);
    CHECK(was_refused(status) || status == HF_TIMEOUT);
    proxy_heal(proxy);
    gets_free(other, "n", 0);
    AWAIT(count_keys("locks") == 0);
    gets_free(store, "n", 0);
    close_hard(store);
    close_hard(other);
}

static void requests_vanish(void **state)
{
    (void)state;
    vanish(PROXY_UP);
}

static void replies_vanish(void **state)
{
    (void)state;
    vanish(PROXY_DOWN);
}

/*
 * An acquire is executed long after it was asked again, granted and released. Its key carries the
 * lease that another claim of the store keeps alive: it must end all the same, within a ttl.
 */
static void late_acquire(void **state)
{
    hf_store *store = open_through(SILENT), *other = open_with("");
    hf_acquire_request kept = with_ttl(mutex_request("kept"), 6000);
    hf_acquire_request request = with_ttl(waiting_request("n"), 6000);
    hf_lease *keeps = take(store, &kept);
    struct attempt attempt;

    (void)state;
    AWAIT(proxy_connections(proxy) == 1); /* for everything, its inbox too */
    nap_ms(300);
    proxy_block(proxy, PROXY_UP, true);
    attempt_start(&attempt, store, &request);
    AWAIT(proxy_held(proxy, PROXY_UP) > 0);
    proxy_cut_late(proxy);
    proxy_heal(proxy);
    EXPECT(HF_OK, attempt_join(&attempt)); /* asked again */
    give(attempt.lease);
    proxy_deliver(proxy);
    nap_ms(500); /* if it is executed at all */
    AWAIT(count_holders(other, "n") == 0);
    gets_free(other, "n", 0);
    CHECK(hf_lease_state(keeps) == HF_STATE_HELD); /* it moved to another lease */
    EXPECT(HF_OK, hf_renew(keeps, 0, &contract_error));
    give(keeps);
    close_hard(store);
    close_hard(other);
}

/* The same, while a waiter uses the lease: it keeps its place when it moves to another lease. */
static void late_acquire_and_a_waiter(void **state)
{
    hf_store *store = open_through(SILENT), *other = open_with("");
    hf_acquire_request held = with_ttl(mutex_request("w"), 600000);
    hf_acquire_request waits = with_ttl(waiting_request("w"), 6000);
    hf_acquire_request request = with_ttl(waiting_request("n"), 6000);
    hf_lease *lease = take(other, &held);
    struct attempt attempt, waiting;

    (void)state;
    attempt_start(&waiting, store, &waits);
    AWAIT(count_waiters(other, "w") == 1);
    attempt_settled(&waiting);
    proxy_block(proxy, PROXY_UP, true);
    attempt_start(&attempt, store, &request);
    AWAIT(proxy_held(proxy, PROXY_UP) > 0);
    proxy_cut_late(proxy);
    proxy_heal(proxy);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    proxy_deliver(proxy);
    nap_ms(500); /* if it is executed at all */
    AWAIT(count_holders(other, "n") == 0);
    CHECK(!waiting.ended && count_waiters(other, "w") == 1);
    give(lease);
    EXPECT(HF_OK, attempt_join(&waiting));
    give(waiting.lease);
    close_hard(store);
    close_hard(other);
}

/* ---- others write there too -------------------------------------------------------------------------------- */

/* A key that is not one of ours: it blocks, like one that came first. */
static void strange_keys(void **state)
{
    static const char key[] = "hf/bed/locks/n/m/zz";
    hf_store *store = open_with("");
    hf_acquire_request try = mutex_request("n"), wait = waiting_request("n");
    struct attempt attempt;

    (void)state;
    put_value(key, "?", 1);
    EXPECT(HF_BUSY, probe(store, &try));
    attempt_start(&attempt, store, &wait);
    AWAIT(count_keys("locks") == 2);
    attempt_settled(&attempt);
    CHECK(!attempt.ended);
    delete_key(key);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_hard(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(holder_is_told_of_death),
        TEST(holder_is_told_of_silence),
        TEST(bounded_wait_ends),
        TEST(all_go_on_after_restart),
        TEST(asked_while_away),
        TEST(revoked_is_lost),
        TEST(revoked_waiter_queues_again),
        TEST(only_the_neglected_ends),
        TEST(nothing_is_left),
        TEST(compacted_while_waiting),
        TEST(compacted_break_is_found),
        TEST(break_is_told_after_a_cut),
        TEST(change_is_told_after_cuts),
        TEST(compacted_change_is_told),
        TEST(change_wait_ends_without_a_server),
        TEST(released_or_lost),
        TEST(cut_anywhere),
        TEST(requests_vanish),
        TEST(replies_vanish),
        TEST(late_acquire),
        TEST(late_acquire_and_a_waiter),
        TEST(strange_keys),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
