/* SPDX-License-Identifier: MIT */
/*
 * mode=lease: a server that is killed and comes back, or is stopped, and an administrator who ends
 * sessions. Holders are told, waiters continue, and nothing stays held that nobody can release.
 */
#include "calls.h"
#include "leases.h"

#include <stdio.h>

#define IMPATIENT "&op_timeout=900ms"

static bool was_refused(hf_status status)
{
    return status == HF_UNAVAILABLE || status == HF_UNKNOWN;
}

static hf_acquire_request with_ttl(hf_acquire_request request, int64_t ttl_ms)
{
    request.ttl_ms = ttl_ms;
    return request;
}

/* Deadlines are kept although the server is silent. What was sent to a stopped server is executed
 * when it continues, and must not keep the name for its ttl: nobody knows of that grant. */
static void server_stands_still(void **state)
{
    hf_acquire_request request = with_ttl(mutex_request("still"), 10 * LIMIT_MS);
    hf_store *store = leases_open(IMPATIENT);
    int64_t begin_ms;

    (void)state;
    give(take(store, &request));
    db_pause(leases_db);
    begin_ms = now_ms();
    CHECK(was_refused(probe(store, &request)));
    CHECK(now_ms() - begin_ms < LIMIT_MS);
    request.wait_ms = 1000;
    begin_ms = now_ms();
    CHECK(probe(store, &request) != HF_OK);
    CHECK(now_ms() - begin_ms < LIMIT_MS);
    db_continue(leases_db);
    leases_gets_free("still");
    AWAIT(count_holders(store, "still") == 0);
    leases_close(store);
}

/* A statement that we gave up is held back on the server, and comes to its row long after we were told that it is
 * gone: it must have been ended before. */
static void late_statement(void **state)
{
    hf_acquire_request request = with_ttl(mutex_request("late"), 10 * LIMIT_MS);
    hf_store *store;

    (void)state;
    if (leases_db->kind != DB_POSTGRES)
        return;
    store = leases_open(IMPATIENT);
    give(take(store, &request));
    db_do(leases_db, "CREATE SEQUENCE public.turn; GRANT ALL ON public.turn TO public");
    db_do(leases_db, "SELECT pg_advisory_lock(77)");
    db_do(leases_db,
          "CREATE FUNCTION public.hold_back() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN "
          "IF nextval(''public.turn'') = 1 THEN PERFORM pg_advisory_xact_lock(77); END IF; "
          "RETURN new; END'");
    db_do(leases_db, "CREATE TRIGGER hold_back BEFORE UPDATE ON hfl_names FOR EACH STATEMENT "
                     "EXECUTE FUNCTION public.hold_back()");
    CHECK(was_refused(probe(store, &request)));
    /* core goes on trying to give it back, until it is sure */
    AWAIT(db_do(leases_db, "SELECT last_value FROM public.turn") > 1);
    AWAIT(hf_close(store, 0) == HF_OK);
    db_do(leases_db, "SELECT pg_advisory_unlock(77)");
    AWAIT(db_do(leases_db,
                "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app' AND state = "
                "'active'") == 0);
    db_do(leases_db, "DROP TRIGGER hold_back ON hfl_names; DROP FUNCTION public.hold_back(); "
                     "DROP SEQUENCE public.turn");
    leases_gets_free("late");
}

/* A holder is told before its lease ends, also while the server is silent. */
static void holder_is_told_of_silence(void **state)
{
    hf_acquire_request request = with_ttl(mutex_request("told"), 3000);
    hf_store *store = leases_open(IMPATIENT);
    hf_lease *lease = take(store, &request);
    int64_t stopped_ms;

    (void)state;
    db_pause(leases_db);
    stopped_ms = now_ms();
    for (hf_state now = HF_STATE_HELD; now != HF_STATE_LOST; nap_ms(5)) {
        int64_t at_ms = now_ms();

        now = hf_lease_state(lease);
        CHECK(at_ms < stopped_ms + 3000 || now == HF_STATE_LOST);
    }
    db_continue(leases_db);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    leases_gets_free("told");
    leases_close(store);
}

/* What was committed is there after a restart: holders and waiters go on. */
static void all_go_on_after_a_crash(void **state)
{
    hf_store *holders = leases_open(IMPATIENT), *waiters = leases_open(IMPATIENT);
    hf_acquire_request request = with_ttl(mutex_request("crash"), LIMIT_MS);
    hf_lease *lease = take(holders, &request);
    uint64_t token = hf_lease_token(lease);
    struct attempt attempt;

    (void)state;
    request.wait_ms = LIMIT_MS;
    attempt_start(&attempt, waiters, &request);
    AWAIT(count_waiters(holders, "crash") == 1);
    db_kill(leases_db);
    EXPECT(HF_UNAVAILABLE, hf_renew(lease, 0, &contract_error));
    db_restart(leases_db);
    AWAIT(hf_renew(lease, 0, &contract_error) == HF_OK);
    CHECK(hf_lease_state(lease) == HF_STATE_HELD && !attempt.ended);
    AWAIT(count_waiters(holders, "crash") == 1);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(hf_lease_token(attempt.lease) > token);
    give(attempt.lease);
    close_store(waiters);
    close_store(holders);
}

/* A server that comes back without the last commits, as a standby that takes over may: the holder is told, and long
 * before its next renewal. */
static void commits_are_lost(void **state)
{
    hf_acquire_request request = with_ttl(mutex_request("forgotten"), 10 * LIMIT_MS);
    hf_acquire_request other = waiting_request("other");
    hf_store *store;
    hf_lease *lease;

    (void)state;
    if (leases_db->kind != DB_POSTGRES)
        return;
    store = leases_open(IMPATIENT "&connections=1");
    lease = take(store, &request);
    db_kill(leases_db);
    db_restart(leases_db);
    db_do(leases_db, "DELETE FROM hfl_names WHERE name = 'forgotten'");
    give(take(store, &other));
    await_lost(lease);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    close_store(store);
}

/* A lease is not its connection's: an administrator may end all of them, also the one that listens. */
static void sessions_are_ended(void **state)
{
    hf_store *holders = leases_open(""), *waiters = leases_open("");
    hf_acquire_request request = with_ttl(mutex_request("ended"), LIMIT_MS);
    hf_lease *lease = take(holders, &request);
    struct attempt attempt;

    (void)state;
    request.wait_ms = LIMIT_MS;
    attempt_start(&attempt, waiters, &request);
    AWAIT(count_waiters(holders, "ended") == 1);
    leases_end_sessions();
    give(lease); /* perhaps while nobody listens: the message is lost */
    EXPECT(HF_OK, attempt_join(&attempt));
    leases_end_sessions();
    EXPECT(HF_OK, hf_renew(attempt.lease, 0, &contract_error));
    give(attempt.lease);
    close_store(waiters);
    close_store(holders);
}

/* Who waits for a server that is away gets the lock when it is back. */
static void asked_while_away(void **state)
{
    hf_store *store = leases_open(IMPATIENT);
    hf_acquire_request request = waiting_request("away");
    struct attempt attempt;

    (void)state;
    db_kill(leases_db);
    attempt_start(&attempt, store, &request);
    attempt_settled(&attempt);
    CHECK(!attempt.ended);
    db_restart(leases_db);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_store(store);
}

/* The second in a queue, whose listener had nothing to do when it came, is kept alive as well: it gets its turn
 * after more than a window, with a lease that is still good. */
static void the_second_is_kept_alive(void **state)
{
    hf_store *holder = leases_open(""), *first = leases_open(""), *second = leases_open("");
    hf_acquire_request request = with_ttl(mutex_request("long"), 3000),
                       warm = mutex_request("warm");
    hf_lease *lease = take(holder, &request), *other = take(second, &warm);
    struct attempt one, two;
    int64_t begin_ms;

    (void)state;
    request.wait_ms = LIMIT_MS;
    attempt_start(&one, first, &request);
    AWAIT(count_waiters(holder, "long") == 1);
    nap_ms(
        500); /* `other` has been held for so long that the listener listens, and has nothing to do */
    give(other);
    attempt_start(&two, second, &request);
    AWAIT(count_waiters(holder, "long") == 2);
    for (begin_ms = now_ms(); now_ms() < begin_ms + 3500; nap_ms(50)) /* a window and more */
        CHECK(count_waiters(holder, "long") == 2);
    give(lease);
    EXPECT(HF_OK, attempt_join(&one));
    give(one.lease);
    EXPECT(HF_OK, attempt_join(&two));
    give(two.lease);
    close_store(second);
    close_store(first);
    close_store(holder);
}

/* ---- waiters without a thread ------------------------------------------------------------------------ */

#define CROWD 24 /* more than there are workers */

struct crowd {
    char names[CROWD][16];
    struct both ends[CROWD];
    hf_op *ops[CROWD];
    hf_lease *leases[CROWD];
};

static void crowd_name(struct crowd *crowd, const char *word)
{
    for (int i = 0; i < CROWD; i++)
        snprintf(crowd->names[i], sizeof crowd->names[i], "%s%d", word, i);
}

static void crowd_take(struct crowd *crowd, hf_store *store)
{
    for (int i = 0; i < CROWD; i++) {
        hf_acquire_request request = with_ttl(mutex_request(crowd->names[i]), LIMIT_MS);

        crowd->leases[i] = take(store, &request);
    }
}

static void crowd_begin(struct crowd *crowd, hf_store *store, int64_t wait_ms)
{
    for (int i = 0; i < CROWD; i++) {
        hf_acquire_request request = with_ttl(mutex_request(crowd->names[i]), LIMIT_MS);

        request.wait_ms = wait_ms;
        crowd->ends[i] = (struct both){ .done = false };
        EXPECT(HF_OK, hf_acquire_async(store, &request, both_done, &crowd->ends[i], &crowd->ops[i],
                                       &contract_error));
    }
}

static size_t crowd_waits(struct crowd *crowd, hf_store *store)
{
    size_t count = 0;

    for (int i = 0; i < CROWD; i++)
        count += count_waiters(store, crowd->names[i]);
    return count;
}

static void crowd_granted(struct crowd *crowd, hf_store *store)
{
    for (int i = 0; i < CROWD; i++) {
        EXPECT(HF_OK, both_end(store, HF_OK, &crowd->ends[i], &contract_error));
        give(crowd->ends[i].result.lease);
    }
}

/* Queued, asked while the server was away, and waiting for a cell: all go on when it is back. */
static void a_crowd_goes_on_after_a_crash(void **state)
{
    hf_store *holders = leases_open(IMPATIENT), *waiters = leases_open(IMPATIENT);
    hf_cell_request cell = HF_CELL_REQUEST_INIT;
    static struct crowd queued, late;
    struct both changed = { .done = false }, seen = { .done = false };
    hf_error why;

    (void)state;
    crowd_name(&queued, "queued");
    crowd_name(&late, "late");
    crowd_take(&queued, holders);
    crowd_begin(&queued, waiters, LIMIT_MS);
    AWAIT(crowd_waits(&queued, holders) == CROWD);
    cell.name = "cell";
    cell.name_len = HF_CSTRING;
    cell.wait_ms = LIMIT_MS;
    EXPECT(HF_OK, hf_cell_wait_async(waiters, &cell, both_done, &changed, NULL, &contract_error));
    db_kill(leases_db);
    crowd_begin(&late, waiters, LIMIT_MS);
    cell.name = "seen";
    EXPECT(HF_OK, hf_cell_wait_async(waiters, &cell, both_done, &seen, NULL, &contract_error));
    nap_ms(1500); /* they have asked, more than once */
    EXPECT(HF_OK, hf_store_process(waiters));
    for (int i = 0; i < CROWD; i++)
        CHECK(!queued.ends[i].done && !late.ends[i].done);
    db_restart(leases_db);
    crowd_granted(&late, waiters);
    AWAIT(call_cell_set(holders, "cell", HF_CSTRING, "x", 1, 0, NULL, &why) == HF_OK);
    AWAIT(call_cell_set(holders, "seen", HF_CSTRING, "x", 1, 0, NULL, &why) == HF_OK);
    EXPECT(HF_OK, both_end(waiters, HF_OK, &changed, &contract_error));
    EXPECT(HF_OK, both_end(waiters, HF_OK, &seen, &contract_error));
    AWAIT(crowd_waits(&queued, holders) == CROWD);
    for (int i = CROWD - 1; i >= 0; i--)
        give(queued.leases[i]);
    crowd_granted(&queued, waiters);
    close_store(waiters);
    close_store(holders);
}

/* Each ends in time, although nobody answers, and nothing of it is left when the server goes on. */
static void a_crowd_ends_although_the_server_stands_still(void **state)
{
    hf_store *holders = leases_open(IMPATIENT), *waiters = leases_open(IMPATIENT);
    static struct crowd stopped, timed;
    hf_status status;

    (void)state;
    crowd_name(&stopped, "stopped");
    crowd_name(&timed, "timed");
    crowd_take(&stopped, holders);
    crowd_take(&timed, holders);
    crowd_begin(&stopped, waiters, HF_FOREVER);
    crowd_begin(&timed, waiters, 3000);
    AWAIT(crowd_waits(&stopped, holders) == CROWD);
    db_pause(leases_db);
    for (int i = 0; i < CROWD; i++)
        EXPECT(HF_OK, hf_op_cancel(stopped.ops[i]));
    for (int i = 0; i < CROWD; i++) {
        status = both_end(waiters, HF_OK, &stopped.ends[i], &contract_error);
        CHECK(status == HF_UNKNOWN || status == HF_CANCELLED);
        status = both_end(waiters, HF_OK, &timed.ends[i], &contract_error);
        CHECK(status == HF_UNKNOWN || status == HF_TIMEOUT);
    }
    db_continue(leases_db);
    for (int i = 0; i < CROWD; i++) {
        (void)hf_release(stopped.leases[i], NULL);
        (void)hf_release(timed.leases[i], NULL);
    }
    leases_close(waiters);
    leases_gets_free(stopped.names[CROWD - 1]);
    leases_gets_free(timed.names[CROWD - 1]);
    leases_close(holders);
}

/* ---- far more of them than workers ---------------------------------------------------------------------- */

#define MANY    300
#define SOON_MS 20000 /* one after the other, on all the workers, they would take at least 36 s */

static struct both many_ends[MANY];
static hf_op *many_ops[MANY];

static void many_begin(hf_store *store, const char *name)
{
    hf_acquire_request request = waiting_request(name);

    for (int i = 0; i < MANY; i++) {
        many_ends[i] = (struct both){ .done = false };
        EXPECT(HF_OK, hf_acquire_async(store, &request, both_done, &many_ends[i], &many_ops[i],
                                       &contract_error));
    }
}

static void many_end(hf_store *store)
{
    for (int i = 0; i < MANY; i++) {
        hf_status status = both_end(store, HF_OK, &many_ends[i], &contract_error);

        CHECK(status == HF_UNKNOWN || status == HF_CANCELLED);
    }
}

/* The time that each has to leave the queue passes for all of them together. */
static void many_leave_a_server_that_stands_still(void **state)
{
    hf_acquire_request request = with_ttl(mutex_request("many"), 10 * LIMIT_MS);
    hf_store *holder = leases_open(""), *waiters = leases_open("&cohort=0");
    hf_lease *lease = take(holder, &request);
    int64_t begin_ms;

    (void)state;
    many_begin(waiters, "many");
    AWAIT(count_waiters(holder, "many") == MANY);
    db_pause(leases_db);
    begin_ms = now_ms();
    for (int i = 0; i < MANY; i++)
        EXPECT(HF_OK, hf_op_cancel(many_ops[i]));
    many_end(waiters);
    CHECK(now_ms() - begin_ms < SOON_MS);
    db_continue(leases_db);
    give(lease);
    leases_close(waiters);
    leases_gets_free("many");
    close_store(holder);
}

/* All workers ask a server that says nothing. An acquire that has to wait for one can be cancelled. */
static void cancelled_before_it_has_a_worker(void **state)
{
    hf_store *store = leases_open("&cohort=0");
    int64_t begin_ms;

    (void)state;
    db_pause(leases_db);
    many_begin(store, "workers");
    begin_ms = now_ms();
    EXPECT(HF_OK, hf_op_cancel(many_ops[MANY - 1]));
    EXPECT(HF_CANCELLED, both_end(store, HF_OK, &many_ends[MANY - 1], &contract_error));
    CHECK(now_ms() - begin_ms < SOON_MS);
    for (int i = 0; i < MANY - 1; i++)
        EXPECT(HF_OK, hf_op_cancel(many_ops[i]));
    db_continue(leases_db);
    for (int i = 0; i < MANY - 1; i++) {
        hf_status status = both_end(store, HF_OK, &many_ends[i], &contract_error);

        CHECK(status == HF_OK || status == HF_UNKNOWN || status == HF_CANCELLED);
        if (status == HF_OK)
            give(many_ends[i].result.lease);
    }
    leases_close(store);
    leases_gets_free("workers");
}

const struct CMUnitTest leases_fault_cases[] = {
    cmocka_unit_test(many_leave_a_server_that_stands_still),
    cmocka_unit_test(cancelled_before_it_has_a_worker),
    cmocka_unit_test(a_crowd_goes_on_after_a_crash),
    cmocka_unit_test(a_crowd_ends_although_the_server_stands_still),
    cmocka_unit_test(server_stands_still),
    cmocka_unit_test(late_statement),
    cmocka_unit_test(holder_is_told_of_silence),
    cmocka_unit_test(all_go_on_after_a_crash),
    cmocka_unit_test(sessions_are_ended),
    cmocka_unit_test(asked_while_away),
    cmocka_unit_test(commits_are_lost),
    cmocka_unit_test(the_second_is_kept_alive),
};
const size_t leases_fault_count = sizeof leases_fault_cases / sizeof *leases_fault_cases;
