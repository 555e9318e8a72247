/* SPDX-License-Identifier: MIT */
/*
 * mode=lease on PostgreSQL: a connection that naps is woken by whoever grants, and nothing else is (sql/22_ring.sql). Each race has a
 * case: a wake-up before the nap, before the commit, without a letter, of a pid of the past, of a bell whose predecessor hangs, and a
 * client that has no right to wake another.
 *
 * The window of the stores here is so long that no heartbeat finds what a nap missed.
 */
#include "calls.h"
#include "leases.h"

#include "util/clock.h"

#include <dirent.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_BEATS "&window=300s"
#define LONG_NAP "60000"

static bool is_postgres(void)
{
    return leases_db->kind == DB_POSTGRES;
}

/* ---- a session of the administrator's own, beside db_do()'s ---- */

static void note_info(void *arg, const PGresult *result)
{
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

    snprintf(arg, 64, "%s", text ? text : "");
}

static PGconn *session(char info[64])
{
    char where[256];
    PGconn *pg;

    snprintf(where, sizeof where, "host=%s port=%u user=postgres dbname=test", leases_db->socket,
             (unsigned)leases_db->port);
    pg = PQconnectdb(where);
    CHECK(PQstatus(pg) == CONNECTION_OK);
    PQsetNoticeReceiver(pg, note_info, info);
    return pg;
}

static void ask(PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);

    CHECK(PQresultStatus(result) == PGRES_TUPLES_OK || PQresultStatus(result) == PGRES_COMMAND_OK);
    PQclear(result);
}

static bool busy(PGconn *pg)
{
    CHECK(PQconsumeInput(pg));
    return PQisBusy(pg);
}

/* The answer of a statement that was sent: its only value. */
static long long answer(PGconn *pg)
{
    PGresult *result = PQgetResult(pg);
    long long number;

    CHECK(PQresultStatus(result) == PGRES_TUPLES_OK);
    number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    CHECK(!PQgetResult(pg));
    return number;
}

/* ---- a store that waits for "n", held by another, and naps ---- */

struct nap {
    hf_store *holder, *store;
    hf_lease *lease;
    struct attempt waiter;
    long long pid, client;
};

static bool sleeps(long long pid)
{
    return db_do(
               leases_db,
               "SELECT count(*) FROM pg_stat_activity WHERE pid = %lld AND wait_event = 'PgSleep'",
               pid) == 1;
}

/* It looks, and waits for a transaction that is telling it something. */
static bool at_the_gate(long long pid)
{
    return db_do(leases_db,
                 "SELECT count(*) FROM pg_locks WHERE pid = %lld AND locktype = 'advisory' AND NOT "
                 "granted",
                 pid) == 1;
}

static void find_bell(struct nap *nap)
{
    nap->client = db_do(leases_db, "SELECT client FROM hfl_waiters WHERE name = 'n'");
    nap->pid = db_do(leases_db, "SELECT pid FROM hfl_clients WHERE client = %lld", nap->client);
}

static void nap_begin(struct nap *nap)
{
    hf_acquire_request request = waiting_request("n");

    nap->holder = leases_open(NO_BEATS);
    nap->store = leases_open(NO_BEATS);
    nap->lease = take(nap->holder, &request);
    attempt_start(&nap->waiter, nap->store, &request);
    AWAIT(count_waiters(nap->holder, "n") == 1);
    find_bell(nap);
    AWAIT(sleeps(nap->pid));
}

static void nap_end(struct nap *nap)
{
    EXPECT(HF_OK, attempt_join(&nap->waiter));
    give(nap->waiter.lease);
    close_store(nap->store);
    close_store(nap->holder);
}

/* The holder's lease is given back by another session, whose transaction is still open. */
static void release_in_transaction(struct nap *nap, const char *role)
{
    db_do(leases_db, "BEGIN");
    if (role)
        db_do(leases_db, "SET LOCAL ROLE %s", role);
    db_do(leases_db, "SELECT hfl_release_1('n', (SELECT owner FROM hfl_names WHERE name = 'n'))");
    CHECK(!nap->waiter.ended);
}

/* ---- the cases ---- */

/* A wake-up may come before the nap has begun, while it looks, and while it sleeps: what there is to tell is told, at once. */
static void told_whenever_it_comes(void **state)
{
    char info[64] = "";
    hf_store *store;
    PGconn *pg;

    (void)state;
    if (!is_postgres())
        return;
    store = leases_open("");
    pg = session(info);
    db_do(leases_db, "INSERT INTO hfl_mail (client, words) VALUES (77, 'before')");
    CHECK(PQsendQuery(pg, "SELECT rings FROM hfl_nap_1(77, 0, " LONG_NAP ")"));
    AWAIT(busy(pg) && strstr(info, " before"));
    AWAIT(sleeps(PQbackendPID(pg)));
    db_do(leases_db, "BEGIN");
    db_do(leases_db, "SELECT pg_advisory_xact_lock_shared(-77)");
    db_do(leases_db, "INSERT INTO hfl_mail (client, words) VALUES (77, 'asleep')");
    db_do(leases_db, "SELECT pg_cancel_backend(%d)", PQbackendPID(pg));
    AWAIT(at_the_gate(PQbackendPID(pg)));
    db_do(leases_db, "SELECT pg_cancel_backend(%d)", PQbackendPID(pg)); /* while it looks */
    AWAIT(at_the_gate(PQbackendPID(pg)));
    CHECK(busy(pg) && strstr(info, " before"));
    db_do(leases_db, "COMMIT");
    AWAIT(busy(pg) && strstr(info, " asleep"));
    AWAIT(sleeps(PQbackendPID(pg)));
    db_do(leases_db, "SELECT pg_cancel_backend(%d)", PQbackendPID(pg));
    CHECK(answer(pg) > 0); /* nothing to tell: a notification waits for the end of the statement */
    PQfinish(pg);
    close_store(store);
}

/* The nap ends when the grant is under way: the look waits for its commit, or for its end without one. */
static void woken_before_the_commit(void **state)
{
    struct nap nap;

    (void)state;
    if (!is_postgres())
        return;
    nap_begin(&nap);
    release_in_transaction(&nap, NULL);
    AWAIT(at_the_gate(nap.pid));
    db_do(leases_db, "ROLLBACK");
    AWAIT(sleeps(nap.pid));
    CHECK(!nap.waiter.ended);
    release_in_transaction(&nap, NULL);
    AWAIT(at_the_gate(nap.pid));
    db_do(leases_db, "COMMIT");
    EXPECT(HF_LOST, hf_release(nap.lease, &contract_error));
    nap_end(&nap);
}

/* A lease that is broken, while its client naps for another one: the nap ends for the notification. */
static void broken_while_it_naps(void **state)
{
    hf_acquire_request request = mutex_request("other");
    hf_lease *lease;
    struct nap nap;

    (void)state;
    if (!is_postgres())
        return;
    nap_begin(&nap);
    lease = take(nap.store, &request);
    db_do(leases_db, "BEGIN");
    db_do(leases_db, "SELECT hfl_break_1('other', %llu)",
          (unsigned long long)hf_lease_token(lease));
    AWAIT(at_the_gate(nap.pid));
    db_do(leases_db, "COMMIT");
    AWAIT(hf_lease_state(lease) == HF_STATE_LOST);
    hf_release(lease, &contract_error);
    give(nap.lease);
    nap_end(&nap);
}

/* The row of a client whose bell is gone names a pid that another session has now: that one is not touched. */
static void pid_of_the_past(void **state)
{
    char info[64] = "";
    struct nap nap;
    PGconn *pg;

    (void)state;
    if (!is_postgres())
        return;
    pg = session(info);
    nap_begin(&nap);
    CHECK(PQsendQuery(pg, "SELECT 7 FROM pg_sleep(60)"));
    AWAIT(sleeps(PQbackendPID(pg)));
    db_do(leases_db, "UPDATE hfl_clients SET pid = %d, bell = 4711 WHERE client = %lld",
          PQbackendPID(pg), nap.client);
    give(nap.lease);
    CHECK(db_do(leases_db, "SELECT count(*) FROM hfl_waiters WHERE name = 'n'") == 0); /* dead */
    nap_ms(200);
    CHECK(busy(pg) && sleeps(PQbackendPID(pg)));
    db_do(leases_db, "SELECT pg_terminate_backend(%lld)",
          nap.pid); /* it finds out, and asks anew */
    nap_end(&nap);
    PQfinish(pg);
}

/* A former bell hangs: it has its locks still. The next one is rung all the same. */
static void former_bell_hangs(void **state)
{
    char info[64] = "", sql[128];
    struct nap nap;
    long long former, bell;
    PGconn *pg;

    (void)state;
    if (!is_postgres())
        return;
    pg = session(info);
    nap_begin(&nap);
    former = nap.pid;
    bell = db_do(leases_db, "SELECT bell FROM hfl_clients WHERE client = %lld", nap.client);
    snprintf(sql, sizeof sql, "SELECT pg_advisory_lock_shared(%lld), pg_advisory_lock_shared(%lld)",
             nap.client, bell);
    ask(pg, sql);
    db_do(leases_db, "SELECT pg_terminate_backend(%lld)", former);
    AWAIT((find_bell(&nap), nap.pid != former) && sleeps(nap.pid));
    give(nap.lease);
    nap_end(&nap);
    PQfinish(pg);
}

static void note_wake_up(hf_check_level level, const char *topic, const char *text, void *arg)
{
    (void)text;
    if (strcmp(topic, "wake-up") == 0)
        *(hf_check_level *)arg = level;
}

static hf_check_level checked(hf_store *store)
{
    hf_check_level level = HF_CHECK_LEVEL_BAD;

    EXPECT(HF_OK, call_store_check(store, note_wake_up, &level, &contract_error));
    return level;
}

/* The granting role may not cancel: it notifies, and the client stops asking to be rung. */
static void without_the_right(void **state)
{
    hf_acquire_request request = waiting_request("n");
    hf_lease *lease;
    struct nap nap;

    (void)state;
    if (!is_postgres())
        return;
    nap_begin(&nap);
    CHECK(db_do(leases_db, "SELECT flags & 8 FROM hfl_waiters WHERE name = 'n'") == 8);
    db_do(leases_db, "GRANT ALL ON ALL TABLES IN SCHEMA public TO few");
    release_in_transaction(&nap, "few");
    db_do(leases_db, "COMMIT");
    EXPECT(HF_LOST, hf_release(nap.lease, &contract_error));
    EXPECT(HF_OK, attempt_join(&nap.waiter));
    give(nap.waiter.lease);
    lease = take(nap.holder, &request);
    attempt_start(&nap.waiter, nap.store, &request);
    AWAIT(count_waiters(nap.holder, "n") == 1);
    CHECK(db_do(leases_db, "SELECT flags & 8 FROM hfl_waiters WHERE name = 'n'") == 0);
    give(lease);
    CHECK(checked(nap.store) == HF_CHECK_LEVEL_OK);
    db_do(leases_db, "INSERT INTO hfl_clients VALUES (6, 0, 1, 1, 'postgres')");
    CHECK(checked(nap.store) == HF_CHECK_LEVEL_WARNING);
    db_do(leases_db, "DELETE FROM hfl_clients WHERE client = 6");
    nap_end(&nap);
}

/* Nothing is waited for: it does not nap, which would keep dead rows. */
static void naps_only_while_it_waits(void **state)
{
    struct nap nap;

    (void)state;
    if (!is_postgres())
        return;
    nap_begin(&nap);
    give(nap.lease);
    EXPECT(HF_OK, attempt_join(&nap.waiter));
    AWAIT(db_do(leases_db,
                "SELECT count(*) FROM pg_stat_activity WHERE pid = %lld AND state = 'idle'",
                nap.pid) == 1);
    nap_ms(300);
    CHECK(db_do(leases_db,
                "SELECT count(*) FROM pg_stat_activity WHERE pid = %lld AND state = 'idle'",
                nap.pid) == 1);
    give(nap.waiter.lease);
    close_store(nap.store);
    close_store(nap.holder);
}

/* ---- threads of the client: both servers ---- */

/* How often the library's threads have slept so far. */
static long slept(void)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *task;
    long sum = 0;

    CHECK(tasks != NULL);
    while ((task = readdir(tasks))) {
        char path[320], line[128];
        bool ours = false;
        FILE *file;

        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file)) {
            if (strncmp(line, "Name:\thf-", 9) == 0)
                ours = true;
            if (ours && strncmp(line, "voluntary_ctxt_switches:", 24) == 0)
                sum += strtol(line + 24, NULL, 10);
        }
        if (file)
            fclose(file);
    }
    closedir(tasks);
    return sum;
}

/* Short locks, one after the other, wake no thread for each: only their own, now and then. The limit is by the clock, so it holds on a
 * slow machine too. */
static void pairs_wake_nobody(void **state)
{
    hf_acquire_request request = mutex_request("quiet");
    hf_store *store = NULL;
    int64_t begin_ms;
    long before;

    (void)state;
    EXPECT(HF_OK, hf_open(leases_url("quiet", ""), NULL, &store, &contract_error));
    for (int i = 0; i < 20; i++)
        give(take(store, &request));
    begin_ms = hfi_now_ms();
    before = slept();
    for (int i = 0; i < 500; i++)
        give(take(store, &request));
    CHECK(slept() - before <= 20 + (hfi_now_ms() - begin_ms) / 25);
    close_store(store);
}

const struct CMUnitTest leases_wake_cases[] = {
    cmocka_unit_test(told_whenever_it_comes),   cmocka_unit_test(woken_before_the_commit),
    cmocka_unit_test(broken_while_it_naps),     cmocka_unit_test(pid_of_the_past),
    cmocka_unit_test(former_bell_hangs),        cmocka_unit_test(without_the_right),
    cmocka_unit_test(naps_only_while_it_waits), cmocka_unit_test(pairs_wake_nobody),
};
const size_t leases_wake_count = sizeof leases_wake_cases / sizeof *leases_wake_cases;
