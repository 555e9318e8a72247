/* SPDX-License-Identifier: MIT */
/*
 * hf_guard_claim_sql(), on a real PostgreSQL and a real MariaDB, on connections and in transactions of users
 * (user.h): which claims succeed, wait or are refused, and that a holder which was paused past its
 * lease changes nothing. One server for all cases; each has a name of its own.
 */
#include "calls.h"
#include "contract.h"
#include "holdfast/primitives.h"
#include "user.h"

#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_LIMIT (UINT64_C(1) << 53)

static struct db *db;

/* ---- tools ------------------------------------------------------------------------------------------ */

static hf_sql_dialect dialect(void)
{
    return db->kind == DB_POSTGRES ? HF_SQL_DIALECT_POSTGRESQL : HF_SQL_DIALECT_MYSQL;
}

static hf_status claim_in(struct user *user, const char *table, const char *name, uint64_t token)
{
    contract_error.text[0] = 0;
    return call_guard_claim_sql(dialect(), table, name, HF_CSTRING, token, user_run, user,
                                &contract_error);
}

static hf_status claim(struct user *user, const char *name, uint64_t token)
{
    return claim_in(user, NULL, name, token);
}

/* A whole transaction: committed if the claim is granted. */
static hf_status claim_once(struct user *user, const char *name, uint64_t token)
{
    hf_status status;

    user_do(user, "BEGIN");
    status = claim(user, name, token);
    user_do(user, status == HF_OK ? "COMMIT" : "ROLLBACK");
    return status;
}

/* A claim on a thread and a connection of its own, whose transaction stays open. */
struct claimer {
    struct user *user;
    const char *name;
    uint64_t token;
    hf_status status;
    pthread_t thread;
};

static void *claimer_main(void *arg)
{
    struct claimer *claimer = arg;

    user_do(claimer->user, "BEGIN");
    claimer->status = claim(claimer->user, claimer->name, claimer->token);
    if (db->kind == DB_MARIADB)
        mysql_thread_end();
    return NULL;
}

/* Begin one that has to wait; returns once it does. */
static void claimer_start(struct claimer *claimer, const char *name, uint64_t token)
{
    *claimer = (struct claimer){ .user = user_open(db, false), .name = name, .token = token };
    CHECK(pthread_create(&claimer->thread, NULL, claimer_main, claimer) == 0);
    AWAIT(user_waits(claimer->user));
}

static hf_status claimer_join(struct claimer *claimer)
{
    pthread_join(claimer->thread, NULL);
    return claimer->status;
}

static void claimer_end(struct claimer *claimer, const char *how)
{
    user_do(claimer->user, how);
    user_close(claimer->user);
}

/* ---- who may claim ------------------------------------------------------------------------------------ */

static void tokens_in_order(struct user *one, struct user *other, const char *name)
{
    EXPECT(HF_OK, claim_once(one, name, 5));
    EXPECT(HF_FENCED, claim_once(other, name, 4));
    CHECK(strstr(contract_error.text, "token 4 is refused: 5 ") != NULL);
    EXPECT(HF_FENCED, claim_once(other, name, 1));
    EXPECT(HF_OK, claim_once(other, name, 5));
    EXPECT(HF_OK, claim_once(one, name, 9));
    EXPECT(HF_FENCED, claim_once(one, name, 5));
    EXPECT(HF_FENCED, claim_once(other, name, 8));
    EXPECT(HF_OK, claim_once(other, name, TOKEN_LIMIT - 1));
    EXPECT(HF_FENCED, claim_once(other, name, TOKEN_LIMIT - 2));
}

static void an_older_token_is_refused(void **state)
{
    struct user *one = user_open(db, false), *other = user_open(db, false);

    (void)state;
    tokens_in_order(one, other, "order");
    EXPECT(HF_OK, claim_once(one, "another name", 1));
    user_close(one);
    user_close(other);
}

/* A connection which tells of rows found and not of rows changed is no different. */
static void found_rows(void **state)
{
    struct user *one = user_open(db, true), *other = user_open(db, false);

    (void)state;
    tokens_in_order(one, other, "found rows");
    user_close(one);
    user_close(other);
}

/* Whose session reads backslashes in its own way means the same name. */
static void odd_session(void **state)
{
    struct user *one = user_open(db, false), *other = user_open(db, false);

    (void)state;
    user_do(one, db->kind == DB_POSTGRES
                     ? "SET standard_conforming_strings = off; SET bytea_output = 'escape'"
                     : "SET sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES'");
    tokens_in_order(one, other, "odd session");
    user_close(one);
    user_close(other);
}

static void the_same_token_again(void **state)
{
    struct user *user = user_open(db, false);

    (void)state;
    user_do(user, "BEGIN");
    EXPECT(HF_OK, claim(user, "again", 7));
    EXPECT(HF_OK, claim(user, "again", 7));
    EXPECT(HF_OK, claim(user, "and another", 3));
    user_do(user, "COMMIT");
    EXPECT(HF_OK, claim_once(user, "again", 7));
    EXPECT(HF_FENCED, claim_once(user, "again", 6));
    user_close(user);
}

static void a_rollback_takes_it_back(void **state)
{
    struct user *user = user_open(db, false);

    (void)state;
    user_do(user, "BEGIN");
    EXPECT(HF_OK, claim(user, "back", 20));
    user_do(user, "ROLLBACK");
    EXPECT(HF_OK, claim_once(user, "back", 10)); /* the first that stays */
    user_do(user, "BEGIN");
    EXPECT(HF_OK, claim(user, "back", 20));
    user_do(user, "ROLLBACK");
    EXPECT(HF_OK, claim_once(user, "back", 11));
    EXPECT(HF_FENCED, claim_once(user, "back", 10));
    user_close(user);
}

/* Any bytes; and tables with a schema before them, which are the same here. */
static void names_and_tables(void **state)
{
    static const char bytes[] = "a'\\\0\xff\";--";
    const char *own = db->kind == DB_POSTGRES ? "public.holdfast_guard" : "test.holdfast_guard";
    struct user *user = user_open(db, false);
    char longest[HF_NAME_MAX];

    (void)state;
    memset(longest, 0xfe, sizeof longest);
    for (int i = 0; i < 2; i++) {
        hf_status want = i == 0 ? HF_OK : HF_FENCED;

        EXPECT(want, call_guard_claim_sql(dialect(), NULL, bytes, sizeof bytes - 1, 3 - (uint64_t)i,
                                          user_run, user, &contract_error));
        EXPECT(want, call_guard_claim_sql(dialect(), NULL, longest, sizeof longest, 3 - (uint64_t)i,
                                          user_run, user, &contract_error));
    }
    EXPECT(HF_OK,
           call_guard_claim_sql(dialect(), NULL, bytes, 3, 1, user_run, user, &contract_error));
    EXPECT(HF_OK, claim_in(user, own, "schema", 5));
    EXPECT(HF_FENCED, claim(user, "schema", 4));
    user_do(user, db->kind == DB_POSTGRES
                      ? "CREATE TABLE Fence_2 (name bytea PRIMARY KEY, token bigint NOT NULL)"
                      : "CREATE TABLE Fence_2 (name VARBINARY(512) PRIMARY KEY, token BIGINT NOT "
                        "NULL) ENGINE=InnoDB");
    EXPECT(HF_OK, claim_in(user, "Fence_2", "schema", 1));
    EXPECT(HF_FENCED, claim(user, "schema", 4));
    user_close(user);
}

/* ---- at the same time ----------------------------------------------------------------------------------- */

/* Who claims while another's transaction is open waits for its end; then it goes by the tokens. */
static void a_claim_waits(void **state)
{
    static const struct {
        uint64_t open, then;
        const char *end;
        hf_status want;
    } turns[] = {
        { 12, 13, "COMMIT", HF_OK },     /* the usual: the old one ends, the new one goes on */
        { 21, 20, "COMMIT", HF_FENCED }, /* the old one comes late */
        { 32, 31, "ROLLBACK", HF_OK },   /* what was never there refuses nobody */
        { 41, 41, "COMMIT", HF_OK },     /* two connections of one holder */
    };
    struct user *user = user_open(db, false);

    (void)state;
    for (int known = 0; known < 2; known++)
        for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
            struct claimer late;
            char name[32];

            snprintf(name, sizeof name, "waits %d %zu", known, i);
            if (known)
                EXPECT(HF_OK, claim_once(user, name, 2));
            user_do(user, "BEGIN");
            EXPECT(HF_OK, claim(user, name, turns[i].open));
            claimer_start(&late, name, turns[i].then);
            user_do(user, turns[i].end);
            EXPECT(turns[i].want, claimer_join(&late));
            claimer_end(&late, "ROLLBACK");
        }
    user_close(user);
}

/* What a transaction sees may be older than its claim. The claim may not. */
static void an_old_snapshot(void **state)
{
    struct user *old = user_open(db, false), *new = user_open(db, false);

    (void)state;
    EXPECT(HF_OK, claim_once(old, "snapshot", 40));
    if (db->kind == DB_POSTGRES) {
        user_do(old, "BEGIN ISOLATION LEVEL REPEATABLE READ");
        CHECK(user_do(old, "SELECT count(*) FROM holdfast_guard") > 0);
    } else { /* from version 11.6 on: else that is refused, as PostgreSQL does */
        int64_t number;

        (void)user_run("SET innodb_snapshot_isolation = OFF", &number, old);
        user_do(old, "START TRANSACTION WITH CONSISTENT SNAPSHOT");
    }
    EXPECT(HF_OK, claim_once(new, "snapshot", 41));
    EXPECT(db->kind == DB_POSTGRES ? HF_UNAVAILABLE : HF_FENCED, claim(old, "snapshot", 40));
    user_do(old, "ROLLBACK");
    user_close(old);
    user_close(new);
}

/* ---- many at once ----------------------------------------------------------------------------------------- */

#define MANY 8

struct one_of_many {
    uint64_t token;
    hf_status status;
    pthread_t thread;
    pthread_barrier_t *start;
};

/* Claims, and notes it in the same transaction. A conflict that the server resolves against us (which
 * InnoDB may do with rows that are new) is no refusal: again. */
static void *one_of_many(void *arg)
{
    struct one_of_many *one = arg;
    struct user *user = user_open(db, false);
    char sql[96];

    snprintf(sql, sizeof sql, "INSERT INTO claims (token) VALUES (%u)", (unsigned)one->token);
    pthread_barrier_wait(one->start);
    do {
        user_do(user, "BEGIN");
        one->status = claim(user, "many", one->token);
        if (one->status == HF_OK)
            user_do(user, sql);
        user_do(user, one->status == HF_OK ? "COMMIT" : "ROLLBACK");
    } while (one->status == HF_UNAVAILABLE);
    user_close(user);
    if (db->kind == DB_MARIADB)
        mysql_thread_end();
    return NULL;
}

/* The first claim of a name, by many at once: they go one after the other, and tokens only rise. */
static void many_at_once(void **state)
{
    struct one_of_many all[MANY];
    pthread_barrier_t start;
    long long granted = 0;

    (void)state;
    pthread_barrier_init(&start, NULL, MANY);
    for (unsigned i = 0; i < MANY; i++) {
        all[i] = (struct one_of_many){ .token = 1 + (i * 5) % MANY, .start = &start };
        CHECK(pthread_create(&all[i].thread, NULL, one_of_many, &all[i]) == 0);
    }
    for (unsigned i = 0; i < MANY; i++) {
        pthread_join(all[i].thread, NULL);
        CHECK(all[i].status == HF_OK || all[i].status == HF_FENCED);
        CHECK(all[i].token < MANY || all[i].status == HF_OK);
        granted += all[i].status == HF_OK;
    }
    pthread_barrier_destroy(&start);
    CHECK(db_do(db, "SELECT count(*) FROM claims") == granted);
    CHECK(db_do(db, "SELECT count(*) FROM claims a JOIN claims b ON a.id < b.id AND a.token >= "
                    "b.token") == 0);
}

/* ---- what is refused ---------------------------------------------------------------------------------------- */

#define REFUSED(field, call)                               \
    do {                                                   \
        EXPECT(HF_INVALID, call);                          \
        CHECK(strstr(contract_error.text, field) != NULL); \
    } while (0)

static void nonsense(void **state)
{
    struct user *user = user_open(db, false);
    hf_error *err = &contract_error;
    char longest[HF_NAME_MAX + 1];

    (void)state;
    memset(longest, 'x', sizeof longest);
    longest[HF_NAME_MAX] = 0;
    REFUSED("table", claim_in(user, "", "n", 1));
    REFUSED("table", claim_in(user, "a b", "n", 1));
    REFUSED("table", claim_in(user, "t; DROP TABLE claims", "n", 1));
    REFUSED("table", claim_in(user, "t\"", "n", 1));
    REFUSED("table", claim_in(user, "t--", "n", 1));
    REFUSED("table", claim_in(user, "t\xc3\xa4", "n", 1));
    REFUSED("table", claim_in(user, longest, "n", 1));
    REFUSED("token", claim(user, "n", 0));
    REFUSED("token", claim(user, "n", TOKEN_LIMIT));
    REFUSED("token", claim(user, "n", UINT64_MAX));
    REFUSED("run", call_guard_claim_sql(dialect(), NULL, "n", HF_CSTRING, 1, NULL, user, err));
    REFUSED("dialect",
            call_guard_claim_sql((hf_sql_dialect)9, NULL, "n", HF_CSTRING, 1, user_run, user, err));
    REFUSED("name",
            call_guard_claim_sql(dialect(), NULL, NULL, HF_CSTRING, 1, user_run, user, err));
    REFUSED("name", claim(user, "", 1));
    REFUSED("name",
            call_guard_claim_sql(dialect(), NULL, longest, sizeof longest, 1, user_run, user, err));
    CHECK(user->runs == 0);
    CHECK(hf_guard_sql_schema((hf_sql_dialect)9) == NULL);
    CHECK(call_guard_claim_sql(dialect(), NULL, "n", HF_CSTRING, 0, user_run, user, NULL) ==
          HF_INVALID);
    user_close(user);
}

/* It is done, and gives no row: what a `run` does that forgets to read it. */
static int forgets(const char *sql, int64_t *ret_number, void *user)
{
    int64_t forgotten = 0;

    (void)ret_number;
    return user_run(sql, &forgotten, user);
}

static void statements_that_fail(void **state)
{
    struct user *user = user_open(db, false);
    int statements = db->kind == DB_POSTGRES ? 1 : 2;

    (void)state;
    for (int i = 1; i <= statements; i++) {
        user_do(user, "BEGIN");
        user->runs = 0;
        user->fail_at = i;
        EXPECT(HF_UNAVAILABLE, claim(user, "fails", 9));
        user->fail_at = 0;
        user_do(user, "ROLLBACK");
    }
    user_do(user, "BEGIN");
    EXPECT(HF_UNAVAILABLE, claim_in(user, "nobody_made_it", "fails", 9));
    user_do(user, "ROLLBACK");
    user_do(user, "BEGIN");
    EXPECT(HF_UNAVAILABLE, call_guard_claim_sql(dialect(), NULL, "fails", HF_CSTRING, 9, forgets,
                                                user, &contract_error));
    user_do(user, "ROLLBACK");
    EXPECT(HF_OK, claim_once(user, "fails", 1)); /* nothing of these was there */
    user_close(user);
}

/* ---- the real use ------------------------------------------------------------------------------------------- */

static hf_store *open_here(void)
{
    const char *from = db_url(db, ""), *id = strstr(from, "{id}");
    char url[1200];
    hf_store *store = NULL;

    snprintf(url, sizeof url, "%.*sg%s", (int)(id - from), from, id + 4);
    EXPECT(HF_OK, hf_open(url, NULL, &store, &contract_error));
    return store;
}

static uint64_t token_of(hf_lease *lease)
{
    uint64_t token = 0;

    EXPECT(HF_OK, hf_lease_fence(lease, &token, &contract_error));
    return token;
}

static void set_balance(struct user *user, int64_t balance)
{
    char sql[64];

    snprintf(sql, sizeof sql, "UPDATE balance SET amount = %lld", (long long)balance);
    user_do(user, sql);
}

/* Two holders of one lock add to one balance: read, think, write. The first is paused, past the end of its lease:
 * before its transaction, and then it is refused; or in the middle of it, and then the second waits for
 * its end and works on what it wrote. */
static void a_paused_holder(void **state)
{
    hf_store *store = open_here();
    struct user *old = user_open(db, false), *new = user_open(db, false);
    hf_acquire_request request = waiting_request("balance");
    struct claimer late;
    uint64_t tokens[3];
    int64_t seen;
    hf_lease *lease;

    (void)state;
    request.ttl_ms = HF_TTL_MIN_MS;
    request.flags = HF_FLAG_NO_RENEW;
    lease = take_short(store, &request);
    tokens[0] = token_of(lease);
    await_lost(lease);
    hf_release(lease, NULL);
    for (int i = 1; i < 3; i++) {
        request = waiting_request("balance");
        lease = take(store, &request);
        tokens[i] = token_of(lease);
        CHECK(tokens[i] > tokens[i - 1]);
        give(lease);
    }

    /* The second works while the first sleeps. */
    user_do(new, "BEGIN");
    EXPECT(HF_OK, claim(new, "balance", tokens[1]));
    set_balance(new, user_do(new, "SELECT amount FROM balance") + 100);
    user_do(new, "COMMIT");
    user_do(old, "BEGIN");
    EXPECT(HF_FENCED, claim(old, "balance", tokens[0]));
    user_do(old, "ROLLBACK");
    CHECK(db_do(db, "SELECT amount FROM balance") == 100);

    /* The second sleeps within its transaction, and the third comes. */
    user_do(new, "BEGIN");
    EXPECT(HF_OK, claim(new, "balance", tokens[1]));
    seen = user_do(new, "SELECT amount FROM balance");
    claimer_start(&late, "balance", tokens[2]);
    set_balance(new, seen + 10);
    user_do(new, "COMMIT");
    EXPECT(HF_OK, claimer_join(&late));
    set_balance(late.user, user_do(late.user, "SELECT amount FROM balance") + 1);
    claimer_end(&late, "COMMIT");
    EXPECT(HF_FENCED, claim_once(new, "balance", tokens[1]));
    CHECK(db_do(db, "SELECT amount FROM balance") == 111);
    user_close(old);
    user_close(new);
    close_store(store);
}

static void make_tables(void)
{
    struct user *user = user_open(db, false);

    user_do(user, hf_guard_sql_schema(dialect()));
    user_do(user, "CREATE TABLE balance (amount integer NOT NULL)");
    user_do(user, "INSERT INTO balance VALUES (0)");
    user_do(user, db->kind == DB_POSTGRES
                      ? "CREATE TABLE claims (id serial PRIMARY KEY, token bigint)"
                      : "CREATE TABLE claims (id SERIAL, token BIGINT) ENGINE=InnoDB");
    user_close(user);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(an_older_token_is_refused),
        cmocka_unit_test(found_rows),
        cmocka_unit_test(odd_session),
        cmocka_unit_test(the_same_token_again),
        cmocka_unit_test(a_rollback_takes_it_back),
        cmocka_unit_test(names_and_tables),
        cmocka_unit_test(a_claim_waits),
        cmocka_unit_test(an_old_snapshot),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(nonsense),
        cmocka_unit_test(statements_that_fail),
        cmocka_unit_test(a_paused_holder),
    };
    int failed;

    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    db = db_start(argc > 1 && strcmp(argv[1], "mariadb") == 0 ? DB_MARIADB : DB_POSTGRES, NULL);
    make_tables();
    failed = cmocka_run_group_tests_name("guard", cases, NULL, NULL);
    db_free(db);
    return failed;
}
