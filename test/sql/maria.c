/* SPDX-License-Identifier: MIT */
/*
 * mode=lease on MariaDB: what is this server's own. Rows and locks, errors that are tried again, the listener, rights,
 * settings of others, URLs. One server for all cases but one; a case that changes it leaves it whole.
 */
#include "contract.h"
#include "db.h"
#include "proxy.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct db *db;

/* ---- tools ------------------------------------------------------------------------------------------ */

static const char *fill_in(const char *from)
{
    static _Thread_local char urls[4][1200];
    static _Thread_local unsigned turn;
    char *url = urls[turn++ % 4];
    const char *at = strstr(from, "{id}");

    snprintf(url, sizeof urls[0], "%.*sm%s", (int)(at - from), from, at + 4);
    return url;
}

static hf_status try_open(const char *url, hf_store **ret_store)
{
    contract_error.text[0] = 0;
    return hf_open(url, NULL, ret_store, &contract_error);
}

/* Without trying again until op_timeout. */
static hf_status try_once(const char *url, hf_store **ret_store)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;

    options.flags = HF_OPEN_FLAG_ONCE;
    contract_error.text[0] = 0;
    return hf_open(url, &options, ret_store, &contract_error);
}

static hf_store *open_with(const char *more)
{
    hf_store *store = NULL;

    EXPECT(HF_OK, try_open(fill_in(db_url(db, more)), &store));
    return store;
}

/* The same server, and another user. */
static const char *url_of(const char *user, const char *more)
{
    static char url[1200];

    snprintf(url, sizeof url, "mariadb://%s@127.0.0.1:%u/test?prefix=hfm_%s", user,
             (unsigned)db->port, more);
    return url;
}

/* ---- rows and locks ---------------------------------------------------------------------------------- */

/* Somebody sits on the row of one name. Names that sort right before and behind it, known and new, of every kind,
 * have nothing to do with it: there are no locks of gaps. */
static void neighbours_do_not_wait(void **state)
{
    static const char *const names[] = { "m", "ma", "mb", "ma\x01", "m\xff" };
    hf_store *store = open_with("&op_timeout=5s"), *second = open_with("");
    hf_acquire_request sat_on = mutex_request("ma");

    (void)state;
    give(take(store, &sat_on));
    for (int known = 0; known < 2; known++) {
        db_do(db, "START TRANSACTION");
        db_do(db, "SELECT 1 FROM hfm_names WHERE name = 'ma' FOR UPDATE");
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            hf_acquire_request request = mutex_request(names[i]);
            hf_lease *lease;
            struct attempt next;

            if (strcmp(names[i], "ma") == 0)
                continue;
            request.kind = i % 2 ? HF_KIND_SHARED : HF_KIND_MUTEX;
            lease = take(store, &request);
            request = waiting_request(names[i]);
            request.kind = i % 2 ? HF_KIND_EXCLUSIVE : HF_KIND_MUTEX;
            attempt_start(&next, second, &request);
            AWAIT(count_waiters(store, names[i]) == 1);
            give(lease);
            EXPECT(HF_OK, attempt_join(&next));
            give(next.lease);
        }
        db_do(db, "ROLLBACK");
    }
    give(take(store, &sat_on));
    close_store(second);
    close_store(store);
}

/* Who waits for a row is not refused by it: it is told in time, and nothing of it happens later. */
static void a_row_that_stays_locked(void **state)
{
    hf_store *store = open_with("&op_timeout=700ms");
    hf_acquire_request request = mutex_request("stuck");
    int64_t begin_ms = now_ms();
    hf_status status;

    (void)state;
    give(take(store, &request));
    db_do(db, "START TRANSACTION");
    db_do(db, "SELECT 1 FROM hfm_names WHERE name = 'stuck' FOR UPDATE");
    status = probe(store, &request);
    CHECK(status == HF_UNAVAILABLE || status == HF_UNKNOWN);
    CHECK(now_ms() - begin_ms < LIMIT_MS);
    db_do(db, "ROLLBACK");
    request.wait_ms = LIMIT_MS / 4; /* half of the ttl that a late grant would have had */
    give(take(store, &request));
    close_store(store);
}

/* The next three updates of a name fail. Not by InnoDB: what is counted is not rolled back. */
static void three_conflicts(void)
{
    db_do(db, "UPDATE tries SET n = 0");
}

static void conflicts_were_met(void)
{
    CHECK(db_do(db, "SELECT n FROM tries") > 3);
}

/* A deadlock that the server resolves against us, and a lock wait timeout, are not reported as
 * failures. */
static void conflicts_are_tried_again(void **state)
{
    static const int numbers[] = { 1213, 1205, 1020 };
    hf_store *store = open_with(""), *second = open_with("");
    hf_acquire_request request = mutex_request("again"), wait = waiting_request("again");
    struct attempt next;
    hf_lease *lease;

    (void)state;
    give(take(store, &request));
    db_do(db, "CREATE TABLE tries ENGINE = MyISAM SELECT 0 AS n");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        db_do(db,
              "CREATE TRIGGER conflict BEFORE UPDATE ON hfm_names FOR EACH ROW BEGIN UPDATE tries "
              "SET n = n + 1; IF (SELECT n FROM tries) <= 3 THEN SIGNAL SQLSTATE '40001' SET "
              "MYSQL_ERRNO = %d; END IF; END",
              numbers[i]);
        three_conflicts();
        lease = take(store, &request);
        conflicts_were_met();
        three_conflicts();
        attempt_start(&next, second, &wait);
        AWAIT(count_waiters(store, "again") == 1);
        conflicts_were_met();
        three_conflicts();
        give(lease); /* and hand over */
        EXPECT(HF_OK, attempt_join(&next));
        conflicts_were_met();
        three_conflicts();
        give(next.lease);
        conflicts_were_met();
        db_do(db, "DROP TRIGGER conflict");
    }
    db_do(db, "DROP TABLE tries");
    close_store(second);
    close_store(store);
}

/* A disk that is full: no grant, none that is left behind, and room again means locks again. */
static void full_disk(void **state)
{
    hf_store *store = open_with("");
    hf_acquire_request request = mutex_request("full");

    (void)state;
    give(take(store, &request));
    db_do(db, "CREATE TRIGGER full_disk BEFORE UPDATE ON hfm_names FOR EACH ROW SIGNAL SQLSTATE "
              "'HY000' SET MYSQL_ERRNO = 1114");
    EXPECT(HF_FULL, probe(store, &request));
    db_do(db, "DROP TRIGGER full_disk");
    CHECK(count_holders(store, "full") == 0);
    give(take(store, &request));
    close_store(store);
}

/* A token is never 2^53 or more: refused, whatever way it is asked for. */
static void no_token_is_left(void **state)
{
    hf_store *store = open_with("");
    hf_acquire_request request = mutex_request("tokens"), wait = waiting_request("tokens");

    (void)state;
    give(take(store, &request));
    db_do(db, "UPDATE hfm_names SET token = 9007199254740991 WHERE name = 'tokens'");
    EXPECT(HF_FULL, probe(store, &request));
    EXPECT(HF_FULL, probe(store, &wait));
    request.kind = HF_KIND_SHARED;
    EXPECT(HF_FULL, probe(store, &request));
    db_do(db, "UPDATE hfm_names SET token = 9007199254740989 WHERE name = 'tokens'");
    request.kind = HF_KIND_MUTEX;
    give(take(store, &request));
    close_store(store);
}

/* ---- calls, one by one ------------------------------------------------------------------------------------- */

#define OWNER(n) "X'0000000000000000000000000000000" n "'"

/* The verdict of one procedure. */
static char call(const char *words)
{
    char text[64];

    db_text(db, text, sizeof text, "CALL hfm_%s", words);
    return text[0];
}

static char acquire(const char *name, const char *owner, int capacity, int ttl_ms, int window_ms)
{
    char words[256];

    snprintf(words, sizeof words, "acquire('%s', %s, %d, %d, 1, 0, %d, 0, 1, 1, %d, 77, 'test')",
             name, owner, capacity > 1 ? 2 : 0, capacity, ttl_ms, window_ms);
    return call(words);
}

/* What core never asks for, because its own clock was earlier. */
static void what_is_over_is_over(void **state)
{
    long long token;

    (void)state;
    close_store(open_with(""));                                 /* the tables */
    CHECK(db_do(db, "SELECT GET_LOCK('holdfast.4d', 0)") == 1); /* client 77 listens */
    CHECK(acquire("x", OWNER("1"), 1, 1, 1000) == 'G' &&
          acquire("s", OWNER("1"), 2, 1, 1000) == 'G');
    nap_ms(5);
    CHECK(call("renew(CONCAT(X'000173', " OWNER("1") ", X'0000000000007530'))") == '0');
    CHECK(call("renew(CONCAT(X'000178', " OWNER("1") ", X'0000000000007530'))") == '0');
    CHECK(call("release('x', " OWNER("1") ")") == 'L' &&
          call("release('s', " OWNER("1") ")") == 'L');

    CHECK(acquire("x", OWNER("2"), 1, 60000, 1000) == 'G');
    token = db_do(db, "SELECT token FROM hfm_names WHERE name = 'x'");
    CHECK(acquire("x", OWNER("2"), 1, 60000, 1000) == 'G'); /* the same again, no second grant */
    CHECK(db_do(db, "SELECT token FROM hfm_names WHERE name = 'x'") == token);
    CHECK(call("renew(CONCAT(X'000178', " OWNER("2") ", X'0000000000007530'))") == '1');

    CHECK(acquire("x", OWNER("3"), 1, 60000, 1) == 'Q'); /* nobody beats for it */
    CHECK(acquire("x", OWNER("4"), 1, 60000, 60000) == 'Q');
    nap_ms(5);
    CHECK(call("release('x', " OWNER("2") ")") == 'R');
    CHECK(db_do(db, "SELECT COUNT(*) FROM hfm_claims WHERE owner = " OWNER("3")) == 0);
    CHECK(call("cancel('x', " OWNER("4") ")") == 'G' &&
          call("release('x', " OWNER("4") ")") == 'R');
    CHECK(db_do(db, "SELECT RELEASE_LOCK('holdfast.4d')") == 1);
}

/* An acquire that was cut off arrives long after its release was answered: by then its connection is gone. */
static void late_acquire(void **state)
{
    struct proxy *proxy = proxy_start(db->port);
    hf_store *direct = open_with(""), *store = NULL;
    hf_acquire_request request = mutex_request("late");
    char url[256];
    hf_status status;

    (void)state;
    snprintf(url, sizeof url, "mariadb://app@127.0.0.1:%u/test?prefix=hfm_&op_timeout=300ms",
             (unsigned)proxy_port(proxy));
    EXPECT(HF_OK, try_open(url, &store));
    give(take(store, &request));
    proxy_block(proxy, PROXY_UP, true);
    status = probe(store, &request);
    CHECK(status == HF_UNAVAILABLE || status == HF_UNKNOWN);
    proxy_cut_late(proxy);
    proxy_heal(proxy);
    (void)hf_close(store, HF_CLOSE_FLAG_RELEASE); /* waits until it is settled */
    proxy_deliver(proxy);
    EXPECT(HF_OK, probe(direct, &request));
    close_store(direct);
    proxy_stop(proxy);
}

/* A pair that nobody else wants is two round trips, also if each name is a new one. */
static void two_round_trips(void **state)
{
    enum { PAIRS = 50 };
    static const char asked[] = "SELECT variable_value FROM information_schema.global_status WHERE "
                                "variable_name = 'Questions'";
    hf_store *store = open_with("");
    long long before = 0;

    (void)state;
    for (int i = 0; i <= PAIRS; i++) {
        char name[16];
        hf_acquire_request request;

        snprintf(name, sizeof name, "trip%d", i);
        request = mutex_request(name);
        give(take(store, &request));
        if (i == 0)
            before = db_do(db, asked);
    }
    CHECK(db_do(db, asked) - before < 2 * PAIRS + PAIRS / 2); /* some for a sweep, and ourselves */
    close_store(store);
}

/* ---- the listener ------------------------------------------------------------------------------------------- */

static long long questions(void)
{
    return db_do(db, "SELECT variable_value FROM information_schema.global_status WHERE "
                     "variable_name = 'Com_call_procedure'");
}

/* With a window this long no heartbeat comes in time: only the listener can report the grant. And
 * waiters send nothing meanwhile, however many there are. */
static void woken_by_the_listener(void **state)
{
    enum { WAITERS = 8 };
    hf_store *store = open_with("&window=10m"), *stores[WAITERS];
    hf_acquire_request request = mutex_request("bell"), wait = waiting_request("bell");
    struct attempt attempts[WAITERS];
    hf_lease *lease = take(store, &request);
    int64_t until_ms = now_ms() + LIMIT_MS;
    long long before;

    (void)state;
    for (int i = 0; i < WAITERS; i++) {
        stores[i] = open_with("&window=10m");
        attempt_start(&attempts[i], stores[i], &wait);
        AWAIT(count_waiters(store, "bell") == (size_t)i + 1);
    }
    do { /* once all listeners sleep, nobody asks for anything */
        before = questions();
        nap_ms(300);
        CHECK(now_ms() < until_ms);
    } while (questions() != before);
    give(lease);
    for (int i = 0; i < WAITERS; i++) {
        EXPECT(HF_OK, attempt_join(&attempts[i]));
        give(attempts[i].lease);
    }
    /* A hand-over: the release with what it calls, and the listener, which goes to sleep again. */
    CHECK(questions() - before < 8 * WAITERS);
    for (int i = 0; i < WAITERS; i++)
        close_store(stores[i]);
    close_store(store);
}

/* The listener sleeps by waiting for a lock of another of our links. When that one is ended (by an administrator) while
 * nobody uses it, the listener finds another: it does not ask and ask. */
static void an_idle_link_is_ended(void **state)
{
    enum { BURST = 6 };
    hf_store *store = open_with("&window=10m"), *other = open_with("");
    hf_acquire_request request = mutex_request("bell"), wait = waiting_request("bell");
    struct attempt attempts[BURST], next;
    hf_lease *lease;
    int64_t until_ms = now_ms() + LIMIT_MS;
    long long oldest, before;
    char names[BURST][8];

    (void)state;
    oldest = db_do(
        db, "SELECT id FROM information_schema.processlist WHERE user = 'app' ORDER BY id LIMIT 1");
    do { /* until the oldest link is not the one that is used first */
        for (int i = 0; i < BURST; i++) {
            hf_acquire_request burst;

            snprintf(names[i], sizeof names[i], "b%d", i);
            burst = mutex_request(names[i]);
            attempt_start(&attempts[i], store, &burst);
        }
        for (int i = 0; i < BURST; i++) {
            EXPECT(HF_OK, attempt_join(&attempts[i]));
            give(attempts[i].lease);
        }
        nap_ms(50);
        CHECK(now_ms() < until_ms);
    } while (
        db_do(
            db,
            "SELECT id FROM information_schema.processlist WHERE user = 'app' AND command = 'Sleep'"
            " ORDER BY time_ms LIMIT 1") == oldest);
    lease = take(other, &request);
    attempt_start(&next, store, &wait);
    AWAIT(count_waiters(other, "bell") == 1);
    db_do(db, "KILL CONNECTION %lld", oldest);
    do {
        before = questions();
        nap_ms(300);
        CHECK(now_ms() < until_ms);
    } while (questions() != before);
    give(lease);
    EXPECT(HF_OK, attempt_join(&next));
    give(next.lease);
    close_store(other);
    close_store(store);
}

/* ---- rights ---------------------------------------------------------------------------------------------- */

/* What the manual asks for is enough; and a waiter that may not be notified by another account has its turn with its next heartbeat. */
static void few_rights(void **state)
{
    hf_store *store = open_with("&window=3s"), *few = NULL;
    hf_acquire_request request = mutex_request("few"), wait = waiting_request("few");
    struct attempt attempt;
    hf_lease *lease;
    char user[64];

    (void)state;
    db_text(db, user, sizeof user,
            "SELECT CONCAT('''few''@''', host, '''') FROM mysql.user WHERE user = 'few' LIMIT 1");
    EXPECT(HF_DENIED, try_open(url_of("few", ""), &few));
    db_do(db, "GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON test.* TO %s", user);
    EXPECT(HF_OK, try_open(url_of("few", "&create=off&window=3s"), &few));
    lease = take(store, &request);
    attempt_start(&attempt, few, &wait);
    AWAIT(count_waiters(few, "few") == 1);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    EXPECT(HF_BUSY, probe(store, &request));
    give(attempt.lease);
    request.kind = HF_KIND_SHARED;
    give(take(few, &request));
    close_store(few);
    db_do(db, "REVOKE ALL PRIVILEGES, GRANT OPTION FROM %s", user);
    close_store(store);
}

/* ---- the printed SQL ------------------------------------------------------------------------------------- */

/* The SQL that is printed for an administrator is enough for a user without rights to create
 * tables; and the server's own client program accepts it. */
static void printed_sql(void **state)
{
    const char *url = url_of("app", "");
    hf_acquire_request request = mutex_request("printed");
    hf_store *store = NULL;
    char *sql = NULL;
    char path[128], command[512], other[1200];
    FILE *file;

    (void)state;
    snprintf(other, sizeof other, "%.*sprinted_&create=off", (int)(strstr(url, "hfm_") - url), url);
    EXPECT(HF_CONFIG, try_open(other, &store));
    CHECK(strstr(contract_error.text, "--sql") != NULL);
    snprintf(path, sizeof path, "%s/tables.sql", db->dir);
    file = fopen(path, "w");
    CHECK(file != NULL);
    EXPECT(HF_OK, hf_sql_get_schema(other, &sql, &contract_error));
    fputs(sql, file);
    hf_free(sql);
    fclose(file);
    /* Under the mode of whoever runs it, in which an UPDATE would see the old values only. */
    snprintf(command, sizeof command,
             "mariadb --no-defaults --init-command=\"SET SESSION sql_mode = "
             "'SIMULTANEOUS_ASSIGNMENT,ANSI_QUOTES'\" -u root -S '%s' test <'%s'",
             db->socket, path);
    for (int i = 0; i < 2; i++)      /* also if an older version is there */
        CHECK(system(command) == 0); /* NOLINT(cert-env33-c): our own words */
    EXPECT(HF_OK, try_open(other, &store));
    give(take(store, &request));
    close_store(store);
    CHECK(db_do(db, "SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_NAME LIKE "
                    "'printed\\_%%' AND SQL_MODE LIKE '%%SIMULTANEOUS%%'") == 0);
}

/* ---- settings of others ------------------------------------------------------------------------------------ */

static void read_only_server(void **state)
{
    hf_store *store = open_with("");
    hf_acquire_request request = mutex_request("ro");

    (void)state;
    give(take(store, &request));
    db_do(db, "SET GLOBAL read_only = 1");
    EXPECT(HF_UNAVAILABLE, probe(store, &request));
    db_do(db, "SET GLOBAL read_only = 0");
    give(take(store, &request));
    close_store(store);
}

/* A warning on `topic` with these words? */
static bool doctor_says(hf_store *store, const char *topic, const char *words)
{
    hf_report *report = NULL;
    bool found = false;

    EXPECT(HF_OK, hf_store_check(store, &report, &contract_error));
    for (size_t i = 0; i < hf_report_count(report); i++) {
        const hf_finding *finding = hf_report_item(report, i);

        found = found || (finding->level == HF_CHECK_LEVEL_WARNING &&
                          strcmp(finding->topic, topic) == 0 && strstr(finding->text, words));
    }
    hf_free(report);
    return found;
}

/* An account with all rights passes read_only: a grant on a replica is one that the primary knows nothing of, and ends the
 * replication. Two servers: nothing is granted and nothing is written on the one that copies. */
static void a_replica_grants_nothing(void **state)
{
    static const struct db_wish wishes[] = {
        { .options = { "log-bin=bin", "server-id=11", "gtid-strict-mode=1" } },
        { .options = { "log-bin=bin", "server-id=12", "gtid-strict-mode=1", "read-only=1" } },
    };
    struct db *primary = db_start(DB_MARIADB, &wishes[0]),
              *replica = db_start(DB_MARIADB, &wishes[1]);
    hf_store *on_primary = NULL, *on_replica = NULL;
    hf_acquire_request request = mutex_request("copied"), other = mutex_request("other");
    static const char *const modes[] = { "", "&mode=row", "&mode=session" };
    char done[64];
    hf_lease *lease;

    (void)state;
    db_do(primary, "GRANT ALL ON *.* TO app WITH GRANT OPTION");
    db_do(primary, "CREATE USER copier IDENTIFIED BY '" DB_SECRET "'");
    db_do(primary, "GRANT REPLICATION SLAVE ON *.* TO copier");
    db_do(replica,
          "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %u, MASTER_USER = 'copier',"
          " MASTER_PASSWORD = '" DB_SECRET "', MASTER_USE_GTID = slave_pos",
          (unsigned)primary->port);
    db_do(replica, "START SLAVE");
    EXPECT(HF_OK, try_open(fill_in(db_url(primary, "")), &on_primary));
    lease = take(on_primary, &request);
    db_text(primary, done, sizeof done, "SELECT @@gtid_binlog_pos");
    CHECK(db_do(replica, "SELECT MASTER_GTID_WAIT('%s', 60)", done) == 0);

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        EXPECT(HF_UNAVAILABLE, try_once(fill_in(db_url(replica, modes[i])), &on_replica));
        CHECK(strstr(contract_error.text, "is a replica") != NULL);
    }
    CHECK(db_do(replica, "SELECT LOCATE('-12-', @@gtid_binlog_pos)") == 0);
    give(lease);
    give(take(on_primary, &other));
    CHECK(doctor_says(on_primary, "user", "may write to a replica"));
    db_text(primary, done, sizeof done, "SELECT @@gtid_binlog_pos");
    CHECK(db_do(replica, "SELECT MASTER_GTID_WAIT('%s', 60)", done) == 0);

    db_do(replica, "SET GLOBAL read_only = 0"); /* somebody forgot what it is */
    EXPECT(HF_OK, try_open(fill_in(db_url(replica, "")), &on_replica));
    CHECK(doctor_says(on_replica, "read_only", "copies another one"));
    close_store(on_replica);
    db_do(replica, "STOP SLAVE");
    EXPECT(HF_OK, try_open(fill_in(db_url(replica, "")), &on_replica)); /* it is promoted */
    CHECK(!doctor_says(on_replica, "read_only", "copies another one"));
    give(take(on_replica, &request));
    close_store(on_replica);
    close_store(on_primary);
    db_free(replica);
    db_free(primary);
}

/* A table without transactions is refused before anybody trusts it. */
static void not_innodb(void **state)
{
    hf_store *store = open_with(""), *second = NULL;

    (void)state;
    close_store(store);
    db_do(db, "ALTER TABLE hfm_cells ENGINE = MyISAM");
    EXPECT(HF_CONFIG, try_open(fill_in(db_url(db, "")), &second));
    CHECK(strstr(contract_error.text, "InnoDB") != NULL);
    db_do(db, "ALTER TABLE hfm_cells ENGINE = InnoDB");
    db_do(db, "UPDATE hfm_meta SET number = 2 WHERE item = 'schema'");
    EXPECT(HF_VERSION, try_open(fill_in(db_url(db, "")), &second));
    db_do(db, "UPDATE hfm_meta SET number = 1 WHERE item = 'schema'");
    close_store(open_with(""));
}

/* Defaults that would break us, if we let them: a waiter outlives every time limit of theirs. */
static void odd_defaults(void **state)
{
    struct db_wish odd = {
        .options = { "autocommit=0", "transaction-isolation=SERIALIZABLE",
                     "sql-mode=ANSI,ORACLE,NO_BACKSLASH_ESCAPES,ONLY_FULL_GROUP_BY",
                     "wait-timeout=1", "max-statement-time=1", "innodb-lock-wait-timeout=1",
                     "lock-wait-timeout=1", "default-time-zone=+05:30", "completion-type=CHAIN",
                     "sql-safe-updates=1", "log-bin=bin", "server-id=7",
                     "default-storage-engine=MyISAM", NULL }
    };
    struct db_wish frozen = { .options = { "sysdate-is-now", NULL } };
    struct db *usual = db;
    hf_store *store, *second;
    hf_acquire_request request = mutex_request("odd"), wait = waiting_request("odd");
    struct attempt attempt;
    hf_lease *lease;

    (void)state;
    db = db_start(DB_MARIADB, &odd);
    store = open_with("");
    second = open_with("");
    lease = take(store, &request);
    attempt_start(&attempt, second, &wait);
    AWAIT(count_waiters(store, "odd") == 1);
    nap_ms(1500);
    CHECK(count_waiters(store, "odd") == 1);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_store(second);
    db_do(db, "SET GLOBAL binlog_format = 'STATEMENT'");
    second = open_with("");
    EXPECT(HF_CONFIG, probe(second, &request));
    CHECK(strstr(contract_error.text, "binlog_format") != NULL);
    close_store(second);
    close_store(store);
    db_free(db);

    db = db_start(DB_MARIADB, &frozen);
    store = NULL;
    for (int i = 0; i < 2; i++) { /* also the one that creates the tables */
        EXPECT(HF_CONFIG, try_open(fill_in(db_url(db, "")), &store));
        CHECK(strstr(contract_error.text, "sysdate-is-now") != NULL);
    }
    db_free(db);
    db = usual;
}

/* ---- URLs -------------------------------------------------------------------------------------------------- */

static void urls_that_are_none(void **state)
{
    static const char *const bad[] = {
        "mysql:test",
        "mysql://u:sesame@h",
        "mysql://u:sesame@h/",
        "mysql://u:sesame@h/a/b",
        "mysql://u:sesame@h:0/t",
        "mysql://u:sesame@h:65536/t",
        "mysql://u:sesame@h:12x/t",
        "mysql://u:sesame@[::1/t",
        "mysql://u:sesame@[::1]x/t",
        "mysql://u:sesame%zz@h/t",
        "mysql://u:sesame@h/t?socket=/x",
        "mysql://u:sesame@h/t?tls=maybe",
        "mysql://u:sesame@h/t?verify=maybe",
        "mysql://u:sesame@h/t?tls=off&ca=/x",
        "mysql://u:sesame@h/t?schema=x",
        "mysql://u:sesame@h/t?mode=maybe",
        "mysql://u:sesame@h/t?mode=lease&tokens=on",
        "mysql://u:sesame@h/t?prefix=a'b",
        "mysql://u:sesame@h/t?prefix=a$$b",
        "mysql://u:sesame@h/t?unheard=of",
    };
    hf_store *store = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        EXPECT(HF_CONFIG, try_open(bad[i], &store));
        CHECK(strstr(contract_error.text, DB_SECRET) == NULL);
    }
}

/* From an option file, a file, the environment; what is wrong is said without the password. */
static void passwords(void **state)
{
    hf_store *store = NULL;
    hf_acquire_request request = mutex_request("file");
    char path[128], url[256];
    FILE *file;

    (void)state;
    snprintf(path, sizeof path, "%s/client.cnf", db->dir);
    file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file, "[locks]\nuser=locked\npassword=%s\nhost=127.0.0.1\nport=%u\n", DB_SECRET,
            (unsigned)db->port);
    fclose(file);
    snprintf(url, sizeof url, "mysql:///test?prefix=hfm_&option_file=%s&option_group=locks", path);
    EXPECT(HF_OK, try_open(url, &store));
    give(take(store, &request));
    close_store(store);
    snprintf(path, sizeof path, "%s/secret", db->dir);
    file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file, "%s\nmore\n", DB_SECRET);
    fclose(file);
    snprintf(url, sizeof url, "&password_file=%s", path);
    EXPECT(HF_OK, try_open(url_of("locked", url), &store));
    close_store(store);
    setenv("HOLDFAST_TEST_SECRET", DB_SECRET, 1);
    EXPECT(HF_OK, try_open(url_of("locked", "&password_env=HOLDFAST_TEST_SECRET"), &store));
    close_store(store);
    EXPECT(HF_DENIED, try_open(url_of("locked", "&password_file=/nowhere"), &store));
    EXPECT(HF_CONFIG, try_open(url_of("locked", "&password_env=NOT_THERE_AT_ALL"), &store));
    EXPECT(HF_CONFIG, try_open(url_of("locked:" DB_SECRET, url), &store));
    EXPECT(HF_DENIED, try_open(url_of("locked:open-" DB_SECRET, ""), &store));
    CHECK(strstr(contract_error.text, DB_SECRET) == NULL);
    EXPECT(HF_CONFIG, try_open(fill_in("mysql://locked:" DB_SECRET "@h/t?x={id}"), &store));
    CHECK(strstr(contract_error.text, DB_SECRET) == NULL);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest cases[] = {
        cmocka_unit_test(neighbours_do_not_wait),
        cmocka_unit_test(a_row_that_stays_locked),
        cmocka_unit_test(conflicts_are_tried_again),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(no_token_is_left),
        cmocka_unit_test(two_round_trips),
        cmocka_unit_test(woken_by_the_listener),
        cmocka_unit_test(what_is_over_is_over),
        cmocka_unit_test(late_acquire),
        cmocka_unit_test(an_idle_link_is_ended),
        cmocka_unit_test(few_rights),
        cmocka_unit_test(printed_sql),
        cmocka_unit_test(read_only_server),
        cmocka_unit_test(a_replica_grants_nothing),
        cmocka_unit_test(not_innodb),
        cmocka_unit_test(urls_that_are_none),
        cmocka_unit_test(passwords),
        cmocka_unit_test(odd_defaults),
    };
    int failed;

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    db = db_start(DB_MARIADB, NULL);
    failed = cmocka_run_group_tests_name("maria", cases, NULL, NULL);
    db_free(db);
    return failed;
}
