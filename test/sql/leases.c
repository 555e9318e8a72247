/* SPDX-License-Identifier: MIT */
/* mode=lease: first use, rows and locks, settings of others, clean-up; see leases.h. */
#include "leases.h"
#include "calls.h"
#include "holdfast/primitives.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct db *leases_db;

/* ---- tools ------------------------------------------------------------------------------------------ */

const char *leases_url(const char *id, const char *more)
{
    static _Thread_local char urls[4][1200];
    static _Thread_local unsigned turn;
    char *url = urls[turn++ % 4];
    const char *from = db_url(leases_db, more), *at = strstr(from, "{id}");

    snprintf(url, sizeof urls[0], "%.*s%s%s", (int)(at - from), from, id, at + 4);
    return url;
}

hf_store *leases_open(const char *more)
{
    hf_store *store = NULL;

    EXPECT(HF_OK, hf_open(leases_url("l", more), NULL, &store, &contract_error));
    return store;
}

hf_store *leases_open_behind(struct proxy *proxy, const char *more)
{
    uint16_t port = leases_db->port;
    hf_store *store;

    leases_db->port = proxy_port(proxy);
    store = leases_open(more);
    leases_db->port = port;
    return store;
}

void leases_close(hf_store *store)
{
    (void)hf_close(store, HF_CLOSE_FLAG_RELEASE);
}

void leases_end_sessions(void)
{
    char ids[4096], *id, *rest = ids;

    if (leases_db->kind == DB_POSTGRES) {
        db_do(leases_db, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE "
                         "datname = 'test' AND usename = 'app'");
        return;
    }
    db_text(leases_db, ids, sizeof ids,
            "SELECT group_concat(id) FROM information_schema.processlist WHERE user = 'app'");
    while ((id = strsep(&rest, ",")) && *id)
        db_do(leases_db, "KILL CONNECTION %s", id);
}

void leases_gets_free(const char *name)
{
    hf_store *store = leases_open("");
    hf_acquire_request request = waiting_request(name);

    give(take(store, &request));
    close_store(store);
}

static bool is_postgres(void)
{
    return leases_db->kind == DB_POSTGRES;
}

/* ---- first use ------------------------------------------------------------------------------------------ */

#define CROWD 16

static int newcomer(const char *url, int start)
{
    hf_acquire_request request = mutex_request("first");
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_store *store = NULL;
    hf_lease *lease = NULL;
    hf_error err;
    char byte;

    options.open_wait_ms = LIMIT_MS; /* one makes the tables, and all the others wait for it */
    request.wait_ms = LIMIT_MS;
    if (read(start, &byte, 1) != 0) /* all at once: when the other end is closed */
        return 2;
    if (hf_open(url, &options, &store, &err) != HF_OK ||
        hf_acquire(store, &request, &lease, &err) != HF_OK || hf_release(lease, &err) != HF_OK ||
        hf_close(store, 0) != HF_OK) {
        fprintf(stderr, "newcomer: %s\n", err.text);
        return 1;
    }
    return 0;
}

/* Many clients come to a database without tables at the same moment. */
static void first_use_by_many(void **state)
{
    char url[1200];
    pid_t pids[CROWD];
    int start[2], status;

    (void)state;
    snprintf(url, sizeof url, "%s", leases_url("crowd", ""));
    CHECK(pipe(start) == 0);
    for (int i = 0; i < CROWD; i++) {
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0) {
            close(start[1]);
            _exit(newcomer(url, start[0]));
        }
    }
    close(start[0]);
    close(start[1]);
    for (int i = 0; i < CROWD; i++) {
        CHECK(waitpid(pids[i], &status, 0) == pids[i]);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void without_the_tables(void **state)
{
    hf_store *store = NULL;

    (void)state;
    EXPECT(HF_CONFIG, hf_open(leases_url("none", "&create=off"), NULL, &store, &contract_error));
    CHECK(strstr(contract_error.text, "doctor --sql") != NULL);
}

/* Somebody takes the tables away under an open store: they are made again. */
static void tables_taken_away(void **state)
{
    static const char *const tables[] = { "names", "clients", "cells" };
    hf_store *store = NULL;
    hf_acquire_request request = mutex_request("n");

    (void)state;
    EXPECT(HF_OK, hf_open(leases_url("gone", ""), NULL, &store, &contract_error));
    give(take(store, &request));
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (is_postgres())
            db_do(leases_db, "SET client_min_messages = error; DROP TABLE hfgone_%s CASCADE",
                  tables[i]);
        else
            db_do(leases_db, "DROP TABLE hfgone_%s", tables[i]);
        give(take(store, &request));
    }
    if (!is_postgres()) {
        db_do(leases_db, "DROP PROCEDURE hfgone_settle");
        request.kind = HF_KIND_SHARED;
        give(take(store, &request));
    }
    EXPECT(HF_OK, call_cell_set(store, "n", HF_CSTRING, "x", 1, 0, NULL,
                                &contract_error)); /* locks need no cells */
    close_store(store);
    EXPECT(HF_OK, hf_open(leases_url("gone", "&create=off"), NULL, &store, &contract_error));
    close_store(store);
}

/* ---- rows and locks ---------------------------------------------------------------------------------------- */

/* Another session locks the row of one name: other names, also new ones, are not delayed; a request
 * for that name times out in time, and succeeds when the row is free. */
static void names_do_not_block_each_other(void **state)
{
    hf_store *store = leases_open("&op_timeout=900ms");
    hf_acquire_request a = mutex_request("a"), b = mutex_request("b"),
                       fresh = mutex_request("fresh");

    (void)state;
    give(take(store, &a));
    give(take(store, &b));
    db_do(leases_db, "BEGIN");
    db_do(leases_db, "SELECT 1 FROM hfl_names WHERE name = '%s' FOR UPDATE",
          is_postgres() ? "\\x61" : "a");
    give(take(store, &b));
    give(take(store, &fresh));
    CHECK(probe(store, &a) != HF_OK);
    db_do(leases_db, "COMMIT");
    a.wait_ms = LIMIT_MS;
    give(take(store, &a));
    close_store(store);
}

/* Nor is the lease of another name lost because somebody sits on the row of one: those that can be renewed are. */
static void renewals_do_not_wait_for_each_other(void **state)
{
    hf_store *store = leases_open("&op_timeout=900ms");
    hf_acquire_request a = mutex_request("a"), b = mutex_request("b"), c = mutex_request("c");
    bool kept = false;

    (void)state;
    a.ttl_ms = b.ttl_ms = c.ttl_ms = 3000;
    b.kind = HF_KIND_SHARED;
    a.wait_ms = LIMIT_MS;
    for (int round = 0; round < 3 && !kept; round++) {
        hf_lease *first = take(store, &a), *others[2] = { take(store, &b), take(store, &c) };

        db_do(leases_db, "BEGIN");
        db_do(leases_db, "SELECT 1 FROM hfl_names WHERE name = '%s' FOR UPDATE",
              is_postgres() ? "\\x61" : "a");
        nap_ms(4500);
        kept = hf_lease_state(others[0]) != HF_STATE_LOST &&
               hf_lease_state(others[1]) != HF_STATE_LOST;
        db_do(leases_db, "COMMIT");
        (void)hf_release(first, NULL);
        (void)hf_release(others[0], NULL);
        (void)hf_release(others[1], NULL);
    }
    CHECK(kept);
    close_store(store);
}

/* Nor is the hand-over of another name delayed, when something of the first has expired and its row
 * is locked. */
static void hand_over_does_not_wait_for_another(void **state)
{
    hf_store *store = leases_open(""), *second = leases_open("&op_timeout=60s&window=3s");
    hf_acquire_request a = mutex_request("a"), b = mutex_request("b");
    struct attempt first, other;
    hf_lease *stuck, *lease;

    (void)state;
    a.ttl_ms = 2000;
    stuck = take(store, &a);
    lease = take(store, &b);
    a.wait_ms = b.wait_ms = LIMIT_MS;
    attempt_start(&first, second, &a);
    attempt_start(&other, second, &b);
    AWAIT(count_waiters(store, "a") == 1 && count_waiters(store, "b") == 1);
    db_do(leases_db, "BEGIN");
    db_do(leases_db, "SELECT 1 FROM hfl_names WHERE name = '%s' FOR UPDATE",
          is_postgres() ? "\\x61" : "a");
    await_lost(stuck);
    nap_ms(1000); /* its waiters find it expired now */
    give(lease);
    EXPECT(HF_OK, attempt_join(&other));
    give(other.lease);
    db_do(leases_db, "COMMIT");
    EXPECT(HF_OK, attempt_join(&first));
    give(first.lease);
    (void)hf_release(stuck, NULL);
    close_store(second);
    close_store(store);
}

/* A name becomes a row before it is locked: two requests for a new name at the same time do not
 * both get it. */
static void a_new_name_is_a_row(void **state)
{
    hf_store *stores[4];
    struct attempt attempts[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        stores[i] = leases_open("");
    for (int round = 0; round < 10; round++) {
        char name[16];
        hf_acquire_request request;
        int got = 0;

        snprintf(name, sizeof name, "new%d", round);
        request = mutex_request(name);
        for (int i = 0; i < 4; i++)
            attempt_start(&attempts[i], stores[i], &request);
        for (int i = 0; i < 4; i++) {
            hf_status status = attempt_join(&attempts[i]);

            CHECK(status == HF_OK || status == HF_BUSY);
            got += status == HF_OK;
        }
        CHECK(got == 1);
        for (int i = 0; i < 4; i++)
            if (attempts[i].status == HF_OK)
                give(attempts[i].lease);
    }
    for (int i = 0; i < 4; i++)
        close_store(stores[i]);
}

/* What the server asks to be tried again is tried again: nobody hears of it. */
static void conflicts_are_tried_again(void **state)
{
    static const char *const states[] = { "40P01", "40001", "55P03" };
    hf_store *store = leases_open("");
    hf_acquire_request request = mutex_request("again");

    (void)state;
    if (!is_postgres()) {
        close_store(store);
        return;
    }
    give(take(store, &request));
    db_do(leases_db, "CREATE SEQUENCE public.tries; GRANT ALL ON public.tries TO public");
    for (int i = 0; i < 3; i++) {
        db_do(leases_db,
              "CREATE OR REPLACE FUNCTION public.conflict() RETURNS trigger LANGUAGE plpgsql AS "
              "'BEGIN IF nextval(''public.tries'') < 4 THEN RAISE EXCEPTION ''conflict'' USING "
              "ERRCODE = ''%s''; END IF; RETURN new; END'; SELECT setval('public.tries', 1, false)",
              states[i]);
        db_do(leases_db, "CREATE TRIGGER conflict BEFORE UPDATE ON hfl_names FOR EACH ROW EXECUTE "
                         "FUNCTION public.conflict()");
        give(take(store, &request));
        CHECK(db_do(leases_db, "SELECT last_value FROM public.tries") >= 4);
        db_do(leases_db, "DROP TRIGGER conflict ON hfl_names");
    }
    db_do(leases_db, "DROP FUNCTION public.conflict(); DROP SEQUENCE public.tries");
    close_store(store);
}

/* A commit that fails is no grant, and leaves none; nor does a disk that is full. */
static void commit_fails(void **state)
{
    hf_store *store = leases_open("");
    hf_acquire_request request = mutex_request("commit");

    (void)state;
    if (!is_postgres()) {
        close_store(store);
        return;
    }
    give(take(store, &request));
    db_do(leases_db, "CREATE FUNCTION public.full_disk() RETURNS trigger LANGUAGE plpgsql AS "
                     "'BEGIN RAISE EXCEPTION ''no space'' USING ERRCODE = ''53100''; END'");
    db_do(leases_db, "CREATE CONSTRAINT TRIGGER full_disk AFTER UPDATE ON hfl_names DEFERRABLE "
                     "INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.full_disk()");
    EXPECT(HF_FULL, probe(store, &request));
    db_do(leases_db, "DROP TRIGGER full_disk ON hfl_names; DROP FUNCTION public.full_disk()");
    CHECK(count_holders(store, "commit") == 0);
    give(take(store, &request));
    close_store(store);
}

/* ---- settings of others ------------------------------------------------------------------------------------ */

/* Defaults of a role that would break us, if we let them. */
static void others_defaults(void **state)
{
    static const char *const settings[] = { "default_transaction_isolation = 'serializable'",
                                            "default_transaction_read_only = on",
                                            "statement_timeout = 1",
                                            "lock_timeout = 1",
                                            "search_path = ''",
                                            "bytea_output = 'escape'",
                                            "standard_conforming_strings = off" };
    hf_store *first, *second;
    hf_acquire_request request = mutex_request("set");
    struct attempt attempt;
    hf_lease *lease;

    (void)state;
    if (!is_postgres())
        return;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        db_do(leases_db, "ALTER ROLE app SET %s", settings[i]);
    first = leases_open("");
    second = leases_open("");
    lease = take(first, &request);
    request.wait_ms = LIMIT_MS;
    attempt_start(&attempt, second, &request);
    AWAIT(count_waiters(first, "set") == 1);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_store(second);
    close_store(first);
    db_do(leases_db, "ALTER ROLE app RESET ALL");
}

/* Connections are bounded: many threads share a few, and all of them get their turn. */
static void few_connections(void **state)
{
    hf_store *store = leases_open("&connections=2");
    struct attempt attempts[12];
    char names[12][8];

    (void)state;
    for (int i = 0; i < 12; i++) {
        hf_acquire_request request;

        snprintf(names[i], sizeof names[i], "c%d", i);
        request = mutex_request(names[i]);
        attempt_start(&attempts[i], store, &request);
    }
    for (int i = 0; i < 12; i++) {
        EXPECT(HF_OK, attempt_join(&attempts[i]));
        give(attempts[i].lease);
    }
    if (is_postgres()) /* and one that listens */
        CHECK(db_do(leases_db, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'") <= 3);
    close_store(store);
}

/* ---- clean-up ------------------------------------------------------------------------------------------------ */

/* Rows that were idle for long are removed when any store is closed; rows that are held or were
 * used lately stay. */
static void idle_rows_go(void **state)
{
    hf_store *store = leases_open("");
    hf_acquire_request request = mutex_request("idle"), held = mutex_request("held");
    const char *token = is_postgres() ? "last" : "token";
    hf_lease *lease;

    (void)state;
    give(take(store, &request));
    lease = take(store, &held);
    db_do(leases_db, "UPDATE hfl_names SET %s = 1", token);
    leases_gets_free("other");
    AWAIT((leases_gets_free("other"),
           db_do(leases_db, "SELECT count(*) FROM hfl_names WHERE %s = 1", token) == 1));
    CHECK(db_do(leases_db, "SELECT count(*) FROM hfl_names WHERE name = '%s'",
                is_postgres() ? "\\x6f74686572" : "other") == 1);
    CHECK(count_holders(store, "held") == 1);
    give(lease);
    close_store(store);
}

/* ---- cost and URLs ------------------------------------------------------------------------------------------- */

#define PAIRS 40

static long long counted(const char *what)
{
    return db_do(leases_db, "SELECT %s FROM pg_stat_user_tables WHERE relname = 'hfcost_names'",
                 what);
}

static long long commits(void)
{
    return db_do(leases_db, "SELECT xact_commit FROM pg_stat_database WHERE datname = 'test'");
}

/* How many transactions the pairs take, and those of all others meanwhile: our own looks at the counters, a vacuum, sessions of
 * earlier cases that tell late what they have counted. */
static long long cost_of_pairs(const hf_acquire_request *request)
{
    long long before = commits(), updates = counted("n_tup_upd"), hot = counted("n_tup_hot_upd");
    hf_store *store = NULL;

    EXPECT(HF_OK, hf_open(leases_url("cost", "&connections=1"), NULL, &store, &contract_error));
    for (int i = 0; i < PAIRS; i++)
        give(take(store, request));
    close_store(store);
    AWAIT(counted("n_tup_upd") >= updates + 2 * PAIRS);
    CHECK(counted("n_tup_upd") <= updates + 2 * PAIRS + 1);
    CHECK(counted("n_tup_hot_upd") >= hot + 2 * PAIRS - 1 && counted("n_tup_ins") == 1);
    return commits() - before;
}

/* An acquire that nobody contends is one transaction and one update of one row, and so is its release; no index is
 * touched. */
static void a_pair_is_two_statements(void **state)
{
    hf_acquire_request request = mutex_request("cost");
    hf_store *store = NULL;
    long long cost;

    (void)state;
    if (!is_postgres())
        return;
    EXPECT(HF_OK, hf_open(leases_url("cost", "&connections=1"), NULL, &store, &contract_error));
    give(take(store, &request));
    close_store(store); /* what it has counted is told at the end of a session */
    AWAIT(counted("n_tup_ins") == 1 && counted("n_tup_upd") >= 1);
    AWAIT((cost = cost_of_pairs(&request)) < 3 * PAIRS);
    CHECK(cost >= 2 * PAIRS);
}

static void try_url(hf_status want, const char *url, const char *word)
{
    hf_store *store = NULL;

    EXPECT(want, hf_open(url, NULL, &store, &contract_error));
    CHECK(strstr(contract_error.text, word) != NULL);
    CHECK(strstr(contract_error.text, "hunter2") == NULL);
}

/* What is wrong is named, by its parameter; no password is ever shown. */
static void urls(void **state)
{
    char url[1200];

    (void)state;
    if (!is_postgres())
        return;
    try_url(HF_CONFIG, leases_url("u", "&nosuch=1&password=hunter2"), "nosuch");
    try_url(HF_CONFIG, leases_url("u", "&mode=odd&sslpassword=hunter2"), "mode");
    try_url(HF_CONFIG, leases_url("u", "&connections=0"), "connections");
    try_url(HF_CONFIG, leases_url("u", "&schema=a%22b"), "schema");
    try_url(HF_CONFIG, leases_url("u", "&tokens=on"), "tokens");
    try_url(HF_CONFIG, "postgresql://me:hunter2@%zz/x", "bad %XX");
    snprintf(url, sizeof url, "postgresql://nobody:hunter2@127.0.0.1:%u/test",
             (unsigned)leases_db->port);
    try_url(HF_DENIED, url, "nobody");
    snprintf(url, sizeof url, "postgresql://app:hunter2@127.0.0.1:%u/nosuch?sslmode=require",
             (unsigned)leases_db->port);
    try_url(HF_DENIED, url, "SSL");
    setenv("LEASES_SECRET", "hunter2", 1);
    snprintf(url, sizeof url, "postgresql://nobody@127.0.0.1:%u/test?password_env=LEASES_SECRET",
             (unsigned)leases_db->port);
    try_url(HF_DENIED, url, "nobody");
    try_url(HF_CONFIG, "postgresql://me:hunter2@h/x?password_env=LEASES_SECRET", "password_env");
    try_url(HF_DENIED, "postgresql://me@h/x?password_file=/nosuch/file", "password_file");
    /* the first of two hosts does not answer */
    snprintf(url, sizeof url, "postgresql://app@127.0.0.1:1,127.0.0.1:%u/test?prefix=hfu_",
             (unsigned)leases_db->port);
    {
        hf_store *store = NULL;

        EXPECT(HF_OK, hf_open(url, NULL, &store, &contract_error));
        close_store(store);
    }
}

/* ---- rights --------------------------------------------------------------------------------------------------- */

/* The rights that holdfast-engines(7) lists for a user when the tables exist already. */
static const char *const rights[] = {
    "GRANT USAGE ON SCHEMA public TO few",
    ("GRANT SELECT, INSERT, UPDATE, DELETE ON hfright_names, hfright_holders, hfright_waiters, "
     "hfright_clients, hfright_mail, hfright_cells, hfright_watchers TO few"),
    "GRANT SELECT, INSERT ON hfright_lock_names TO few",
    "GRANT SELECT, INSERT, UPDATE ON hfright_lock_rows TO few",
    "GRANT SELECT, INSERT, DELETE ON hfright_lock_waits TO few",
    "GRANT USAGE ON SEQUENCE hfright_versions TO few",
};

static void least_rights(void **state)
{
    hf_acquire_request request = mutex_request("right");
    char *sql = NULL;
    hf_store *store = NULL, *second = NULL;
    struct attempt attempt;
    char url[1200], with_mode[1300];
    const char *from = leases_url("right", "&create=off"), *app = strstr(from, "app");
    static const char *const modes[] = { "row", "session", "row&tokens=on", "session&tokens=on" };
    hf_lease *lease;

    (void)state;
    if (!is_postgres())
        return;
    snprintf(url, sizeof url, "%.*sfew%s", (int)(app - from), from, app + 3);
    EXPECT(HF_OK, hf_sql_get_schema(url, &sql, &contract_error));
    db_do(leases_db, "%s", sql);
    hf_free(sql);
    EXPECT(HF_OK, hf_open(url, NULL, &store, &contract_error));
    EXPECT(HF_DENIED, probe(store, &request));
    CHECK(strstr(contract_error.text, "hfright_names") != NULL);
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++)
        db_do(leases_db, "%s", rights[i]);
    EXPECT(HF_OK, hf_open(url, NULL, &second, &contract_error));
    lease = take(store, &request);
    request.wait_ms = LIMIT_MS;
    attempt_start(&attempt, second, &request);
    AWAIT(count_waiters(store, "right") == 1);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    EXPECT(HF_OK,
           hf_lease_break(store, "right", 5, hf_lease_token(attempt.lease), &contract_error));
    await_lost(attempt.lease);
    EXPECT(HF_LOST, hf_release(attempt.lease, &contract_error));
    request = mutex_request("size");
    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = 3;
    request.flags = HF_FLAG_NUMBERED;
    EXPECT(HF_OK, hf_semaphore_resize(store, "size", 4, 2, &contract_error));
    give(take(store, &request));
    close_store(second);
    close_store(store);
    /* The same rights are enough for the locks of the server. */
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        snprintf(with_mode, sizeof with_mode, "%s&mode=%s", url, modes[i]);
        EXPECT(HF_OK, hf_open(with_mode, NULL, &store, &contract_error));
        request = mutex_request("right");
        give(take(store, &request));
        close_store(store);
    }
}

int main(int argc, char **argv)
{
    static struct CMUnitTest cases[96] = {
        cmocka_unit_test(first_use_by_many),
        cmocka_unit_test(without_the_tables),
        cmocka_unit_test(tables_taken_away),
        cmocka_unit_test(names_do_not_block_each_other),
        cmocka_unit_test(renewals_do_not_wait_for_each_other),
        cmocka_unit_test(hand_over_does_not_wait_for_another),
        cmocka_unit_test(a_new_name_is_a_row),
        cmocka_unit_test(conflicts_are_tried_again),
        cmocka_unit_test(commit_fails),
        cmocka_unit_test(others_defaults),
        cmocka_unit_test(few_connections),
        cmocka_unit_test(idle_rows_go),
        cmocka_unit_test(least_rights),
        cmocka_unit_test(a_pair_is_two_statements),
        cmocka_unit_test(urls),
    };
    size_t count = 15;
    int failed;

    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    leases_clock_begin();
    leases_db =
        db_start(argc > 1 && strcmp(argv[1], "mariadb") == 0 ? DB_MARIADB : DB_POSTGRES, NULL);
    memcpy(cases + count, leases_fault_cases, leases_fault_count * sizeof *cases);
    count += leases_fault_count;
    memcpy(cases + count, leases_heir_cases, leases_heir_count * sizeof *cases);
    count += leases_heir_count;
    memcpy(cases + count, leases_clock_cases, leases_clock_count * sizeof *cases);
    count += leases_clock_count;
    memcpy(cases + count, leases_token_cases, leases_token_count * sizeof *cases);
    count += leases_token_count;
    memcpy(cases + count, leases_upgrade_cases, leases_upgrade_count * sizeof *cases);
    count += leases_upgrade_count;
    memcpy(cases + count, leases_wake_cases, leases_wake_count * sizeof *cases);
    count += leases_wake_count;
    memcpy(cases + count, leases_linger_cases, leases_linger_count * sizeof *cases);
    count += leases_linger_count;
    memcpy(cases + count, leases_convert_cases, leases_convert_count * sizeof *cases);
    count += leases_convert_count;
    memcpy(cases + count, leases_size_cases, leases_size_count * sizeof *cases);
    count += leases_size_count;
    memcpy(cases + count, leases_churn_cases, leases_churn_count * sizeof *cases);
    count += leases_churn_count;
    failed = _cmocka_run_group_tests("leases", cases, count, NULL, NULL);
    db_free(leases_db);
    leases_clock_end();
    return failed;
}
