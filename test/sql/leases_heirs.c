/* SPDX-License-Identifier: MIT */
/*
 * mode=lease: the next waiter. It may be dead, or its connection may be, or the message may come
 * after its window has ended.
 */
#include "calls.h"
#include "leases.h"
#include "proxy.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* The client that waits for "warm" has just sent a heartbeat: the next one is a third of a window away. */
static void await_heartbeat(void)
{
    const char *until = leases_db->kind == DB_POSTGRES
                            ? "SELECT c.until FROM hfl_clients c JOIN hfl_waiters w ON "
                              "w.client = c.client WHERE w.name = 'warm' ORDER BY w.seq"
                            : "SELECT c.until FROM hfl_clients c JOIN hfl_claims w ON "
                              "w.client = c.client WHERE w.name = 'warm' ORDER BY w.ticket";
    long long last = db_do(leases_db, "%s", until);

    AWAIT(db_do(leases_db, "%s", until) != last);
}

/* With those of clients that have not been heard of for a window. */
static long long rows_of_waiters(const char *name)
{
    if (leases_db->kind == DB_POSTGRES)
        return db_do(leases_db, "SELECT count(*) FROM hfl_waiters WHERE name = '%s'", name);
    return db_do(leases_db, "SELECT count(*) FROM hfl_claims WHERE name = '%s' AND state = 'W'",
                 name);
}

/*
 * A grant lapses before its message arrives, the name goes to another, and a late copy of the acquire queues the waiter
 * once more. Its heartbeat is then answered "still waiting", and so the message looks as if it were newer than that. It
 * must not be taken for a grant: two would hold.
 */
static void message_of_a_lapsed_grant(void **state)
{
    struct proxy *proxy = proxy_start(leases_db->port);
    hf_store *direct = leases_open(""), *next = leases_open("");
    hf_store *store = leases_open_behind(proxy, "&window=5s&op_timeout=30s&connections=1");
    hf_acquire_request request = mutex_request("lapsed"), warm = mutex_request("warm");
    hf_acquire_request short_one;
    hf_lease *lease, *other = take(direct, &warm);
    struct attempt keeper, late, heir;
    uint64_t token;

    (void)state;
    request.ttl_ms = LIMIT_MS;
    lease = take(direct, &request);
    warm.wait_ms = request.wait_ms = LIMIT_MS;
    attempt_start(&keeper, store, &warm); /* the listener listens: an acquire asks to be queued */
    AWAIT(count_waiters(direct, "warm") == 1);
    await_heartbeat();
    proxy_block(proxy, PROXY_UP, true);
    short_one = request;
    short_one.ttl_ms = 5000; /* as the window: no renewal confirms what is granted */
    attempt_start(&late, store, &short_one);
    AWAIT(proxy_held(proxy, PROXY_UP) > 0);
    attempt_settled(&late);
    proxy_cut_late(proxy);
    proxy_heal(proxy);
    AWAIT(count_waiters(direct, "lapsed") == 1);
    attempt_start(&heir, next, &request);
    AWAIT(count_waiters(direct, "lapsed") == 2);

    await_heartbeat();
    nap_ms(300); /* until it has its answer; the next beat is still far away */
    proxy_block(proxy, PROXY_UP, true);
    proxy_block(proxy, PROXY_DOWN, true);
    give(lease); /* to `late`, which does not hear of it */
    EXPECT(HF_OK, attempt_join(&heir));
    CHECK(!late.ended && count_waiters(direct, "lapsed") == 0);
    proxy_deliver(proxy);
    AWAIT(rows_of_waiters("lapsed") == 1); /* again */
    proxy_heal(proxy);
    AWAIT(proxy_held(proxy, PROXY_UP) == 0 && proxy_held(proxy, PROXY_DOWN) == 0);
    await_heartbeat(); /* what came before it has been heard */
    CHECK(hf_lease_state(heir.lease) == HF_STATE_HELD);
    CHECK(!late.ended);
    token = hf_lease_token(heir.lease);
    give(heir.lease);
    EXPECT(HF_OK, attempt_join(&late)); /* and a new message is heard */
    CHECK(hf_lease_token(late.lease) > token);
    give(late.lease);
    give(other);
    EXPECT(HF_OK, attempt_join(&keeper));
    give(keeper.lease);
    close_store(store);
    close_store(next);
    close_store(direct);
    proxy_stop(proxy);
}

/* A message of a grant that has ended does not end the wait, even if the window is as long as the
 * ttl. */
static void news_that_come_too_late(void **state)
{
    struct proxy *proxy = proxy_start(leases_db->port);
    hf_store *direct = leases_open(""), *next = leases_open("");
    hf_store *store = leases_open_behind(proxy, "&window=3s&op_timeout=30s&connections=1");
    hf_acquire_request request = waiting_request("warm"), patient;
    struct attempt late, heir;
    hf_lease *lease;

    (void)state;
    request.ttl_ms = 3000;
    patient = request;
    patient.ttl_ms = LIMIT_MS;
    lease = take(direct, &patient);
    attempt_start(&late, store, &request);
    AWAIT(count_waiters(direct, "warm") == 1);
    attempt_start(&heir, next, &patient);
    AWAIT(count_waiters(direct, "warm") == 2);
    proxy_block(proxy, PROXY_DOWN, true);
    await_heartbeat(); /* "still waiting", which it hears together with the grant */
    proxy_block(proxy, PROXY_UP, true);
    give(lease);
    EXPECT(HF_OK, attempt_join(&heir));
    proxy_heal(proxy);
    AWAIT(count_waiters(direct, "warm") == 1 || late.ended); /* it asks again */
    CHECK(!late.ended);
    give(heir.lease);
    EXPECT(HF_OK, attempt_join(&late));
    give(late.lease);
    close_store(store);
    close_store(next);
    close_store(direct);
    proxy_stop(proxy);
}

#define WINDOW_MS 60000
#define SPENT_MS  45000

/* Three quarters of the window of a grant pass, as the server sees it, and what would tell the winner of it is lost. */
static void let_time_pass(const char *name)
{
    db_do(leases_db, "UPDATE hfl_names SET soon = soon - %d000 WHERE name = '%s'", SPENT_MS, name);
    if (leases_db->kind == DB_POSTGRES)
        db_do(leases_db, "DELETE FROM hfl_mail");
    else
        db_do(leases_db,
              "UPDATE hfl_claims SET until = until - %d000, state = 'H' WHERE name = '%s'",
              SPENT_MS, name);
}

/* A waiter whose message is lost learns of its grant from its next heartbeat, or because it gives up. That tells what is left of
 * the window, and not how long it was: little is left, so it is renewed before the caller gets it. */
static void a_grant_that_is_nearly_over(void **state)
{
    struct proxy *proxy = proxy_start(leases_db->port);
    hf_store *direct = leases_open("");
    hf_store *store = leases_open_behind(proxy, "&window=60s&op_timeout=30s");
    hf_acquire_request request = mutex_request("brief");

    (void)state;
    request.ttl_ms = 2 * (int64_t)WINDOW_MS;
    for (int gives_up = 0; gives_up <= 1; gives_up++) {
        hf_acquire_request patient = request;
        hf_lease *lease = take(direct, &request);
        struct attempt waiter;

        patient.wait_ms = 2 * LIMIT_MS;
        EXPECT(HF_OK, hf_cancel_open(&patient.cancel));
        attempt_start(&waiter, store, &patient);
        AWAIT(count_waiters(direct, "brief") == 1);
        attempt_settled(&waiter);
        proxy_choose(proxy, PROXY_PUSH);
        proxy_block(proxy, PROXY_DOWN, true);
        give(lease);
        let_time_pass("brief");
        if (gives_up)
            EXPECT(HF_OK, hf_cancel_fire(patient.cancel));
        else
            proxy_cut(proxy); /* it sends a heartbeat when it listens again */
        proxy_heal(proxy);
        EXPECT(HF_OK, attempt_join(&waiter));
        CHECK(hf_lease_remaining_ms(waiter.lease) > WINDOW_MS - SPENT_MS);
        give(waiter.lease);
        EXPECT(HF_OK, hf_cancel_close(patient.cancel));
    }
    close_store(store);
    close_store(direct);
    proxy_stop(proxy);
}

/* ---- nobody listens --------------------------------------------------------------------------------- */

#define LONG_WINDOW \
    "&window=10m" /* a grant to nobody would keep the name for longer than LIMIT_MS */
#define DEAD 3

static long long sessions(void)
{
    return db_do(leases_db,
                 leases_db->kind == DB_POSTGRES
                     ? "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'"
                     : "SELECT count(*) FROM information_schema.processlist WHERE user = 'app'");
}

static void wait_and_die(const char *url)
{
    hf_acquire_request request = waiting_request("dead heir");
    hf_store *store = NULL;
    hf_lease *lease = NULL;

    if (hf_open(url, NULL, &store, NULL) == HF_OK)
        IGNORE(hf_acquire(store, &request, &lease, NULL));
    _exit(1);
}

/* The first in the queue were killed a moment ago: the name goes past them at once, to the first that lives. */
static void dead_heirs_are_passed_over(void **state)
{
    char url[1200];
    pid_t pids[DEAD];
    hf_store *store, *second;
    hf_acquire_request request = mutex_request("dead heir");
    struct attempt attempt;
    long long before;
    hf_lease *lease;
    int status;

    (void)state;
    snprintf(url, sizeof url, "%s", leases_url("l", LONG_WINDOW));
    store = leases_open(LONG_WINDOW);
    lease = take(store, &request);
    for (int i = 0; i < DEAD; i++) {
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0)
            wait_and_die(url);
        AWAIT(count_waiters(store, "dead heir") == (size_t)i + 1);
    }
    second = leases_open(LONG_WINDOW);
    request.wait_ms = LIMIT_MS;
    attempt_start(&attempt, second, &request);
    AWAIT(count_waiters(store, "dead heir") == DEAD + 1);
    AWAIT(sessions() >= 2 * (DEAD + 2)); /* of each store one that calls, one that listens */
    before = sessions();
    for (int i = 0; i < DEAD; i++) {
        kill(pids[i], SIGKILL);
        CHECK(waitpid(pids[i], &status, 0) == pids[i] && WIFSIGNALED(status));
    }
    AWAIT(sessions() <= before - 2 * DEAD);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    CHECK(rows_of_waiters("dead heir") == 0);
    close_store(second);
    close_store(store);
}

/* The holder is dead, and so is the first waiter, which is not known yet: the next waiter that
 * finds the name overdue handles it. By the functions alone: such a wait would take a window, and
 * be no shorter than a test may expect. */
static void the_second_looks_after_an_overdue_name(void **state)
{
    static const char insert[] =
        "INSERT INTO hfl_waiters (owner, name, client, permits, tokens, span, ttl, delay, flags, "
        "since) VALUES ('%s', 'overdue', %d, 1, 1, 60000, 60000, 0, 0, 0)";
    static const char beat[] =
        "SELECT ms FROM hfl_beat_1(12, 60000, ARRAY['overdue'::bytea], ARRAY['second'::bytea])";
    hf_store *store;

    (void)state;
    if (leases_db->kind != DB_POSTGRES)
        return;
    store = leases_open("");
    db_do(leases_db, "INSERT INTO hfl_clients VALUES (11, hfl_us_1() + 60000000)");
    db_do(leases_db, "INSERT INTO hfl_names (name, capacity, taken, holders, waiters, owner, ttl, "
                     "soon) VALUES ('overdue', 1, 1, 1, 2, 'dead', 60000, hfl_us_1() + 50000000)");
    db_do(leases_db, insert, "first", 11);
    db_do(leases_db, insert, "second", 12);
    CHECK(db_do(leases_db, "%s", beat) == 0); /* the first does it */
    db_do(leases_db, "UPDATE hfl_names SET soon = hfl_us_1() - 1500000 WHERE name = 'overdue'");
    CHECK(db_do(leases_db, "%s", beat) > 0);
    db_do(leases_db, "DELETE FROM hfl_waiters WHERE name = 'overdue'");
    db_do(leases_db, "DELETE FROM hfl_names WHERE name = 'overdue'");
    db_do(leases_db, "DELETE FROM hfl_clients WHERE client IN (11, 12)");
    close_store(store);
}

/* The first in the queue lives, but its connections are gone when its turn comes: it loses its place, does not believe that
 * it holds, and asks again when the server can be reached. */
static void an_heir_that_reconnects(void **state)
{
    struct proxy *proxy = proxy_start(leases_db->port);
    hf_store *direct = leases_open(LONG_WINDOW), *next = leases_open(LONG_WINDOW);
    hf_store *store = leases_open_behind(proxy, LONG_WINDOW);
    hf_acquire_request request = mutex_request("cut heir");
    hf_lease *lease = take(direct, &request);
    struct attempt first, second;
    long long before;
    uint64_t token;

    (void)state;
    request.wait_ms = LIMIT_MS;
    attempt_start(&first, store, &request);
    AWAIT(count_waiters(direct, "cut heir") == 1);
    attempt_start(&second, next, &request);
    AWAIT(count_waiters(direct, "cut heir") == 2);
    AWAIT(sessions() >= 2 * 3);
    before = sessions();
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    AWAIT(sessions() <= before - 2);
    give(lease);
    EXPECT(HF_OK, attempt_join(&second));
    proxy_heal(proxy);
    AWAIT(count_waiters(direct, "cut heir") == 1); /* again */
    CHECK(!first.ended && hf_lease_state(second.lease) == HF_STATE_HELD);
    token = hf_lease_token(second.lease);
    give(second.lease);
    EXPECT(HF_OK, attempt_join(&first));
    CHECK(hf_lease_token(first.lease) > token);
    give(first.lease);
    close_store(store);
    close_store(next);
    close_store(direct);
    proxy_stop(proxy);
}

static hf_acquire_request watched_request(const char *name)
{
    hf_acquire_request request = mutex_request(name);

    request.flags = HF_FLAG_WATCH;
    request.ttl_ms = 4 * LIMIT_MS;
    return request;
}

/* A try has got its lease, and somebody waits for that already; its own answer comes after the message that says so. The windows are so long that no
 * heartbeat repeats it. The line of the messages is in order: when "told" is not wanted any more, the one about "early" was heard. */
static void wanted_before_it_is_granted(void **state)
{
    struct proxy *proxy = proxy_start(leases_db->port);
    hf_store *store = leases_open_behind(proxy, "&op_timeout=30s&connections=1");
    hf_store *other = leases_open("&window=300s");
    hf_acquire_request told = watched_request("told"), early = watched_request("early");
    hf_acquire_request wait_told = waiting_request("told"), wait_early = waiting_request("early");
    hf_lease *lease = take(store, &told);
    struct attempt teller, try, waiter;

    (void)state;
    for (int i = 0; i < 20; i++) /* from now on an acquire of it is one statement */
        give(take(store, &early));
    EXPECT(HF_OK, hf_cancel_open(&wait_told.cancel));
    attempt_start(&teller, other, &wait_told);
    AWAIT(hf_lease_wanted(lease));
    proxy_choose(proxy, PROXY_CALLS);
    proxy_block(proxy, PROXY_DOWN, true);
    attempt_start(&try, store, &early);
    AWAIT(count_holders(other, "early") == 1);
    attempt_start(&waiter, other, &wait_early);
    AWAIT(rows_of_waiters("early") == 1);
    EXPECT(HF_OK, hf_cancel_fire(wait_told.cancel));
    EXPECT(HF_CANCELLED, attempt_join(&teller));
    EXPECT(HF_OK, hf_cancel_close(wait_told.cancel));
    AWAIT(!hf_lease_wanted(lease));
    proxy_heal(proxy);
    EXPECT(HF_OK, attempt_join(&try));
    CHECK(hf_lease_wanted(try.lease));
    give(try.lease);
    EXPECT(HF_OK, attempt_join(&waiter));
    give(waiter.lease);
    give(lease);
    close_store(other);
    close_store(store);
    proxy_stop(proxy);
}

const struct CMUnitTest leases_heir_cases[] = {
    cmocka_unit_test(message_of_a_lapsed_grant),
    cmocka_unit_test(news_that_come_too_late),
    cmocka_unit_test(a_grant_that_is_nearly_over),
    cmocka_unit_test(dead_heirs_are_passed_over),
    cmocka_unit_test(the_second_looks_after_an_overdue_name),
    cmocka_unit_test(an_heir_that_reconnects),
    cmocka_unit_test(wanted_before_it_is_granted),
};
const size_t leases_heir_count = sizeof leases_heir_cases / sizeof *leases_heir_cases;
