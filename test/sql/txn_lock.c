/* SPDX-License-Identifier: MIT */
/*
 * hf_sql_lock(), on a real PostgreSQL and a real MariaDB, on connections and in transactions of users (user.h): who is let in, who
 * waits and who is refused; among each other, and against leases of mode=session and mode=row in both directions; through a
 * pgbouncer that pools transactions; with names that are hostile to SQL. One server for all cases.
 */
#include "contract.h"
#include "holdfast/primitives.h"
#include "user.h"

#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct db *db;
static const char *mode; /* of the case that runs */

/* ---- tools ------------------------------------------------------------------------------------------ */

static const char *url_of(const char *with)
{
    static _Thread_local char url[1200];
    char more[64];
    const char *from, *id;

    snprintf(more, sizeof more, "&mode=%s", with);
    from = db_url(db, more);
    id = strstr(from, "{id}");
    snprintf(url, sizeof url, "%.*st%s", (int)(id - from), from, id + 4);
    return url;
}

static hf_sql_lock_request request_of(struct user *user, const void *name, size_t len, hf_kind kind,
                                      int64_t wait_ms)
{
    hf_sql_lock_request request = HF_SQL_LOCK_REQUEST_INIT;

    request.url = url_of(mode);
    request.name = name;
    request.name_len = len;
    request.kind = kind;
    request.wait_ms = wait_ms;
    request.run = user_run;
    request.run_arg = user;
    return request;
}

static hf_status lock(struct user *user, const char *name, hf_kind kind, int64_t wait_ms)
{
    hf_sql_lock_request request = request_of(user, name, HF_CSTRING, kind, wait_ms);

    contract_error.text[0] = 0;
    return hf_sql_lock(&request, &contract_error);
}

static hf_status try(struct user *user, const char *name, hf_kind kind)
{
    return lock(user, name, kind, 0);
}

/* In a transaction of its own, which ends at once; a row that it made stays. */
static hf_status try_once(struct user *user, const char *name, hf_kind kind)
{
    hf_status status;

    user_do(user, "BEGIN");
    status = try(user, name, kind);
    user_do(user, "COMMIT");
    return status;
}

static hf_store *open_direct(void)
{
    hf_store *store = NULL;

    EXPECT(HF_OK, hf_open(url_of(mode), NULL, &store, &contract_error));
    return store;
}

/* A lock that waits, on a thread and a connection of its own; its transaction stays open. */
struct waiter {
    struct user *user;
    const char *name;
    hf_kind kind;
    hf_status status;
    pthread_t thread;
};

static void *waiter_main(void *arg)
{
    struct waiter *waiter = arg;

    user_do(waiter->user, "BEGIN");
    waiter->status = lock(waiter->user, waiter->name, waiter->kind, HF_FOREVER);
    if (db->kind == DB_MARIADB)
        mysql_thread_end();
    return NULL;
}

/* Returns once the server says that it waits. */
static void waiter_start(struct waiter *waiter, const char *name, hf_kind kind)
{
    *waiter = (struct waiter){ .user = user_open(db, false), .name = name, .kind = kind };
    CHECK(pthread_create(&waiter->thread, NULL, waiter_main, waiter) == 0);
    AWAIT(user_waits(waiter->user));
}

static void waiter_end(struct waiter *waiter, hf_status want)
{
    pthread_join(waiter->thread, NULL);
    EXPECT(want, waiter->status);
    user_do(waiter->user, "COMMIT");
    user_close(waiter->user);
}

/* Every case, in each mode that this server has. */
#define IN_EACH_MODE(body)                                          \
    do {                                                            \
        for (int each = db->kind == DB_MARIADB; each < 2; each++) { \
            mode = each ? "row" : "session";                        \
            body;                                                   \
        }                                                           \
    } while (0)

/* ---- among each other --------------------------------------------------------------------------------- */

static void one_alone(struct user *a, struct user *b)
{
    struct waiter late;

    for (int known = 0; known < 2; known++) { /* the second time its row is there */
        user_do(a, "BEGIN");
        EXPECT(HF_OK, lock(a, "alone", HF_KIND_MUTEX, HF_FOREVER));
        EXPECT(HF_OK, try(a, "alone", HF_KIND_MUTEX)); /* it is ours */
        EXPECT(HF_OK, try_once(b, "another", HF_KIND_MUTEX));
        if (known) {
            EXPECT(HF_BUSY, try_once(b, "alone", HF_KIND_MUTEX));
            EXPECT(HF_BUSY, try_once(b, "alone", HF_KIND_EXCLUSIVE));
            EXPECT(HF_BUSY, try_once(b, "alone", HF_KIND_SHARED));
        }
        waiter_start(&late, "alone", HF_KIND_EXCLUSIVE);
        user_do(a, "COMMIT");
        waiter_end(&late, HF_OK);
        EXPECT(HF_OK, try_once(b, "alone", HF_KIND_MUTEX));
    }
}

static void exclusive(void **state)
{
    struct user *a = user_open(db, false), *b = user_open(db, false);

    (void)state;
    IN_EACH_MODE(one_alone(a, b));
    user_close(a);
    user_close(b);
}

static void readers_together(struct user *a, struct user *b)
{
    struct waiter writer;

    EXPECT(HF_OK, (user_do(a, "BEGIN"), try(a, "read", HF_KIND_SHARED)));
    user_do(a, "COMMIT"); /* a row is there now */
    user_do(a, "BEGIN");
    user_do(b, "BEGIN");
    EXPECT(HF_OK, try(a, "read", HF_KIND_SHARED));
    EXPECT(HF_OK, lock(b, "read", HF_KIND_SHARED, HF_FOREVER));
    waiter_start(&writer, "read", HF_KIND_EXCLUSIVE);
    user_do(a, "COMMIT");
    CHECK(user_waits(writer.user)); /* the other reader is still there */
    user_do(b, "ROLLBACK");
    pthread_join(writer.thread, NULL);
    EXPECT(HF_OK, writer.status);
    EXPECT(HF_BUSY, try_once(a, "read", HF_KIND_SHARED));
    user_do(writer.user, "COMMIT");
    user_close(writer.user);
    EXPECT(HF_OK, try_once(a, "read", HF_KIND_SHARED));
}

static void readers(void **state)
{
    struct user *a = user_open(db, false), *b = user_open(db, false);

    (void)state;
    IN_EACH_MODE(readers_together(a, b));
    user_close(a);
    user_close(b);
}

/* The lock of a transaction that dies ends with it. */
static void a_death(void **state)
{
    struct user *a, *b = user_open(db, false);

    (void)state;
    IN_EACH_MODE({
        EXPECT(HF_OK, try_once(b, "death", HF_KIND_MUTEX));
        a = user_open(db, false);
        user_do(a, "BEGIN");
        EXPECT(HF_OK, try(a, "death", HF_KIND_MUTEX));
        EXPECT(HF_BUSY, try_once(b, "death", HF_KIND_MUTEX));
        user_close(a);
        AWAIT(try_once(b, "death", HF_KIND_MUTEX) == HF_OK);
    });
    user_close(b);
}

/* ---- against leases ------------------------------------------------------------------------------------- */

static void both_ways(struct user *user, hf_store *store)
{
    hf_acquire_request now = mutex_request("both"), wait = waiting_request("both");
    struct attempt attempt;
    struct waiter late;
    hf_lease *lease = take(store, &now);

    EXPECT(HF_BUSY, try_once(user, "both", HF_KIND_MUTEX));
    EXPECT(HF_BUSY, try_once(user, "both", HF_KIND_SHARED));
    waiter_start(&late, "both", HF_KIND_MUTEX);
    give(lease);
    waiter_end(&late, HF_OK);

    user_do(user, "BEGIN");
    EXPECT(HF_OK, try(user, "both", HF_KIND_MUTEX));
    EXPECT(HF_BUSY, probe(store, &now));
    attempt_start(&attempt, store, &wait);
    attempt_settled(&attempt);
    CHECK(!attempt.ended);
    user_do(user, "COMMIT");
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    EXPECT(HF_OK, try_once(user, "both", HF_KIND_MUTEX));
}

static void against_leases(void **state)
{
    struct user *user = user_open(db, false);
    hf_store *store;

    (void)state;
    IN_EACH_MODE({
        store = open_direct();
        both_ways(user, store);
        close_store(store);
    });
    user_close(user);
}

/* mode=session of PostgreSQL has readers too. */
static void readers_against_leases(void **state)
{
    hf_acquire_request reader = mutex_request("rw"), writer = mutex_request("rw"), wait;
    struct user *user = user_open(db, false);
    struct attempt attempt;
    struct waiter late;
    hf_lease *lease, *other;
    hf_store *store;

    (void)state;
    mode = db->kind == DB_MARIADB ? "row" : "session";
    store = open_direct();
    reader.kind = HF_KIND_SHARED;
    writer.kind = HF_KIND_EXCLUSIVE;
    if (db->kind == DB_MARIADB) {
        EXPECT(HF_UNSUPPORTED, probe(store, &reader));
    } else {
        lease = take(store, &reader);
        other = take(store, &reader);
        EXPECT(HF_OK, try_once(user, "rw", HF_KIND_SHARED));
        EXPECT(HF_BUSY, try_once(user, "rw", HF_KIND_EXCLUSIVE));
        EXPECT(HF_BUSY, probe(store, &writer));
        waiter_start(&late, "rw", HF_KIND_EXCLUSIVE);
        give(other);
        CHECK(user_waits(late.user));
        give(lease);
        waiter_end(&late, HF_OK);

        user_do(user, "BEGIN");
        EXPECT(HF_OK, try(user, "rw", HF_KIND_SHARED));
        EXPECT(HF_OK, probe(store, &reader));
        EXPECT(HF_BUSY, probe(store, &writer));
        wait = writer;
        wait.wait_ms = LIMIT_MS;
        attempt_start(&attempt, store, &wait);
        attempt_settled(&attempt);
        CHECK(!attempt.ended);
        user_do(user, "COMMIT");
        EXPECT(HF_OK, attempt_join(&attempt));
        EXPECT(HF_BUSY, try_once(user, "rw", HF_KIND_SHARED));
        give(attempt.lease);
    }
    close_store(store);
    user_close(user);
}

/* Another prefix is another store: its names are others. */
static void another_place(void **state)
{
    struct user *a = user_open(db, false), *b = user_open(db, false);
    hf_sql_lock_request other;
    char url[1200];

    (void)state;
    mode = db->kind == DB_MARIADB ? "row" : "session";
    if (db->kind == DB_POSTGRES) {
        user_do(a, "BEGIN");
        EXPECT(HF_OK, try(a, "place", HF_KIND_MUTEX));
        user_do(b, "BEGIN");
        other = request_of(b, "place", HF_CSTRING, HF_KIND_MUTEX, 0);
        snprintf(url, sizeof url, "%s&schema=elsewhere", other.url);
        other.url = url;
        EXPECT(HF_OK, hf_sql_lock(&other, &contract_error));
        user_do(b, "COMMIT");
        user_do(a, "COMMIT");
    }
    user_close(a);
    user_close(b);
}

/* ---- through a pooler of transactions --------------------------------------------------------------------- */

#define THREADS 4
#define TIMES   25

static void *counts(void *arg)
{
    struct user *user = arg;

    for (int i = 0; i < TIMES;) {
        char sql[64];

        user_do(user, "BEGIN");
        if (lock(user, "count", HF_KIND_MUTEX, HF_FOREVER) != HF_OK) { /* the first use of a row */
            user_do(user, "ROLLBACK");
            continue;
        }
        snprintf(sql, sizeof sql, "UPDATE amounts SET n = %lld",
                 (long long)user_do(user, "SELECT n FROM amounts") + 1);
        user_do(user, sql);
        user_do(user, "COMMIT");
        i++;
    }
    if (db->kind == DB_MARIADB)
        mysql_thread_end();
    return NULL;
}

static void count_together(uint16_t port)
{
    struct user *users[THREADS];
    pthread_t threads[THREADS];

    db_do(db, "UPDATE amounts SET n = 0");
    for (int i = 0; i < THREADS; i++) {
        users[i] = user_open_at(db, port);
        CHECK(pthread_create(&threads[i], NULL, counts, users[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        user_close(users[i]);
    }
    CHECK(db_do(db, "SELECT n FROM amounts") == THREADS * TIMES);
}

/* Reads after the lock see what the last holder wrote. */
static void nothing_is_lost(void **state)
{
    (void)state;
    IN_EACH_MODE(count_together(db->port));
}

static void through_a_pooler(void **state)
{
    struct user *a, *b;
    hf_store *store;
    uint16_t port;

    (void)state;
    if (db->kind == DB_MARIADB)
        return;
    db->wish.pooling = "transaction";
    pooler_start(db);
    port = db->pooler_port;
    db->pooler_port = 0; /* the URLs of stores go to the server itself */
    a = user_open_at(db, port);
    b = user_open_at(db, port);
    IN_EACH_MODE({
        one_alone(a, b);
        readers_together(a, b);
        store = open_direct();
        both_ways(a, store);
        close_store(store);
        count_together(port);
    });
    user_close(a);
    user_close(b);
    pooler_stop(db);
    db->wish.pooling = NULL;
}

/* ---- hostile names ------------------------------------------------------------------------------------------ */

static void hostile(struct user *a, struct user *b, const void *name, size_t len)
{
    hf_sql_lock_request one = request_of(a, name, len, HF_KIND_MUTEX, HF_FOREVER);
    hf_sql_lock_request two;
    char kept[1200];

    snprintf(kept, sizeof kept, "%s", one.url);
    one.url = kept;
    user_do(a, "BEGIN"); /* its row, if it has one, is there before */
    EXPECT(HF_OK, hf_sql_lock(&one, &contract_error));
    user_do(a, "COMMIT");
    user_do(a, "BEGIN");
    EXPECT(HF_OK, hf_sql_lock(&one, &contract_error));
    two = request_of(b, name, len, HF_KIND_MUTEX, 0);
    user_do(b, "BEGIN");
    EXPECT(HF_BUSY, hf_sql_lock(&two, &contract_error));
    user_do(b, "ROLLBACK");
    user_do(a, "COMMIT");
}

static void hostile_names(void **state)
{
    static const char *const names[] = { "'",
                                         "\\",
                                         "\\'",
                                         "''",
                                         "\"",
                                         "`",
                                         ";",
                                         "--",
                                         "/*",
                                         "{K}",
                                         "{N}",
                                         "%s%n",
                                         "'); DROP TABLE amounts; --",
                                         "\\x00",
                                         "$$",
                                         "\xff\xfe",
                                         "n\n--",
                                         "' OR '1'='1" };
    struct user *a = user_open(db, false), *b = user_open(db, false);
    char longest[HF_NAME_MAX], zero[] = { 'a', 0, '\'', 0 };

    (void)state;
    memset(longest, 0xff, sizeof longest);
    user_do(b, db->kind == DB_POSTGRES
                   ? "SET standard_conforming_strings = off; SET bytea_output = 'escape'"
                   : "SET sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES'");
    IN_EACH_MODE({
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            hostile(a, b, names[i], strlen(names[i]));
        hostile(a, b, longest, sizeof longest);
        hostile(a, b, zero, sizeof zero);
    });
    CHECK(db_do(db, "SELECT count(*) FROM amounts") == 1);
    user_close(a);
    user_close(b);
}

/* ---- what is refused ------------------------------------------------------------------------------------------ */

static int fails(const char *sql, int64_t *ret_number, void *arg)
{
    (void)sql, (void)ret_number, (void)arg;
    return 1;
}

static int forgets(const char *sql, int64_t *ret_number, void *user)
{
    int64_t forgotten = 0;

    (void)ret_number;
    return user_run(sql, &forgotten, user);
}

static void refused(hf_sql_lock_request *request, struct user *user, hf_status want,
                    const char *field)
{
    EXPECT(want, hf_sql_lock(request, &contract_error));
    if (!strstr(contract_error.text, field))
        fail_msg("no '%s' in: %s", field, contract_error.text);
    *request = request_of(user, "n", HF_CSTRING, HF_KIND_MUTEX, 0);
}

#define REFUSED(want, field) refused(&request, user, want, field)

static void refusals(void **state)
{
    struct user *user = user_open(db, false);
    hf_sql_lock_request request;
    char longest[HF_NAME_MAX + 1], *sql = NULL;

    (void)state;
    mode = "row";
    memset(longest, 'x', sizeof longest);
    request = request_of(user, "n", HF_CSTRING, HF_KIND_MUTEX, 0);
    request.size = 3, REFUSED(HF_INVALID, "size");
    request.name = NULL, REFUSED(HF_INVALID, "name");
    request.name = "", REFUSED(HF_INVALID, "name");
    request.name = longest, request.name_len = sizeof longest, REFUSED(HF_INVALID, "name");
    request.kind = HF_KIND_SEMAPHORE, REFUSED(HF_INVALID, "kind");
    request.kind = (hf_kind)17, REFUSED(HF_INVALID, "kind");
    request.wait_ms = 5, REFUSED(HF_INVALID, "wait_ms");
    request.url = NULL, REFUSED(HF_INVALID, "url");
    request.url = "nosuch://x", REFUSED(HF_CONFIG, "nosuch");
    request.url = "file:/nowhere", REFUSED(HF_UNSUPPORTED, "");
    request.run = NULL, REFUSED(HF_INVALID, "run");
    request.url =
        db->kind == DB_POSTGRES ? "postgresql://h/d?prefix=a%27b" : "mysql://h/d?prefix=a%27b";
    REFUSED(HF_CONFIG, "prefix");
    request.url = "mysql://h/d?mode=session", REFUSED(HF_UNSUPPORTED, "mode=row");
    CHECK(user->runs == 0);
    EXPECT(HF_INVALID, hf_sql_lock(NULL, &contract_error));
    EXPECT(HF_INVALID, hf_sql_get_lock(&request, NULL, &contract_error));
    request.kind = HF_KIND_SEMAPHORE;
    EXPECT(HF_INVALID, hf_sql_get_lock(&request, &sql, &contract_error));
    CHECK(!sql);

    request = request_of(user, "n", HF_CSTRING, HF_KIND_MUTEX, HF_FOREVER);
    request.run = fails;
    EXPECT(HF_UNAVAILABLE, hf_sql_lock(&request, &contract_error));
    user_do(user, "BEGIN");
    request.run = forgets;
    EXPECT(HF_UNAVAILABLE, hf_sql_lock(&request, &contract_error));
    user_do(user, "ROLLBACK");
    user_close(user);
}

/* What the last statement of the text gives. */
static int64_t run_text(struct user *user, const char *name, hf_kind kind, int64_t wait_ms)
{
    hf_sql_lock_request request = request_of(user, name, HF_CSTRING, kind, wait_ms);
    char *sql = NULL, *next;
    int64_t last = 0;

    EXPECT(HF_OK, hf_sql_get_lock(&request, &sql, &contract_error));
    CHECK(strlen(sql) > 2 && strcmp(sql + strlen(sql) - 2, ";\n") == 0);
    for (char *at = sql; *at; at = next) {
        char one[4096];

        next = strstr(at, ";\n") + 2;
        snprintf(one, sizeof one, "%.*s", (int)(next - at - 2), at);
        last = user_do(user, one);
    }
    hf_free(sql);
    return last;
}

/* The text does the same as the call. */
static void the_text(void **state)
{
    struct user *a = user_open(db, false), *b = user_open(db, false);

    (void)state;
    IN_EACH_MODE({
        for (int committed = 0; committed < 2; committed++) {
            user_do(a, "BEGIN");
            CHECK(run_text(a, "te'xt", HF_KIND_MUTEX, HF_FOREVER) == 1);
            if (committed)
                EXPECT(HF_BUSY, try_once(b, "te'xt", HF_KIND_MUTEX));
            user_do(a, "COMMIT");
        }
    });
    user_close(a);
    user_close(b);
}

/* The text of a try does not wait for the holder: here this thread itself would have to free it. */
static void the_text_of_a_try(void **state)
{
    struct user *a = user_open(db, false), *b = user_open(db, false);
    char longest[HF_NAME_MAX + 1];

    (void)state;
    memset(longest, '~', HF_NAME_MAX);
    longest[HF_NAME_MAX] = 0;
    IN_EACH_MODE({
        for (int reader = 0; reader < 2; reader++) {
            hf_kind kind = reader ? HF_KIND_SHARED : HF_KIND_MUTEX;
            const char *name = reader ? longest : "try-w";

            for (int committed = 0; committed < 2; committed++) {
                user_do(a, "BEGIN");
                CHECK(run_text(a, name, kind, 0) == 1);
                user_do(a, "COMMIT");
            }
            user_do(a, "BEGIN");
            CHECK(run_text(a, name, HF_KIND_MUTEX, 0) == 1);
            user_do(b, "BEGIN");
            CHECK(run_text(b, name, kind, 0) != 1);
            user_do(b, "COMMIT");
            user_do(a, "COMMIT");
            user_do(b, "BEGIN");
            CHECK(run_text(b, name, kind, 0) == 1);
            user_do(b, "COMMIT");
        }
    });
    user_close(a);
    user_close(b);
}

static void make_tables(void)
{
    struct user *user = user_open(db, false);

    mode = "row";
    close_store(open_direct()); /* nothing is made before the first acquire */
    {
        hf_store *store = open_direct();
        hf_acquire_request request = mutex_request("first");

        EXPECT(HF_OK, probe(store, &request));
        close_store(store);
    }
    user_do(user, "CREATE TABLE amounts (n integer NOT NULL)");
    user_do(user, "INSERT INTO amounts VALUES (0)");
    user_close(user);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(exclusive),
        cmocka_unit_test(readers),
        cmocka_unit_test(a_death),
        cmocka_unit_test(against_leases),
        cmocka_unit_test(readers_against_leases),
        cmocka_unit_test(another_place),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(through_a_pooler),
        cmocka_unit_test(hostile_names),
        cmocka_unit_test(refusals),
        cmocka_unit_test(the_text),
        cmocka_unit_test(the_text_of_a_try),
    };
    int failed;

    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    db = db_start(argc > 1 && strcmp(argv[1], "mariadb") == 0 ? DB_MARIADB : DB_POSTGRES, NULL);
    make_tables();
    failed = cmocka_run_group_tests_name("txn_lock", cases, NULL, NULL);
    db_free(db);
    return failed;
}
