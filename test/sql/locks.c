/* SPDX-License-Identifier: MIT */
/* mode=row and mode=session: names, connections, tokens, poolers; see holds.h. */
#include "locks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct db *locks_db;

/* ---- tools ------------------------------------------------------------------------------------------ */

const char *locks_url(const char *mode, const char *more)
{
    static _Thread_local char url[1200];
    char words[256];
    const char *from, *id;

    snprintf(words, sizeof words, "&mode=%s%s", mode, more);
    from = db_url(locks_db, words);
    id = strstr(from, "{id}");
    snprintf(url, sizeof url, "%.*sm%s", (int)(id - from), from, id + 4);
    return url;
}

hf_status locks_try_open(const char *url, hf_store **ret_store)
{
    return hf_open(url, NULL, ret_store, &contract_error);
}

hf_store *locks_open(const char *mode, const char *more)
{
    hf_store *store = NULL;

    EXPECT(HF_OK, locks_try_open(locks_url(mode, more), &store));
    return store;
}

/* Others' sessions than the administrator's. */
#define PG_OURS \
    "FROM pg_stat_activity WHERE datname = 'test' AND pid <> pg_backend_pid() AND usename = 'app'"
#define MA_OURS "FROM information_schema.processlist WHERE user = 'app'"

long long locks_sessions(void)
{
    return locks_db->kind == DB_POSTGRES ? db_do(locks_db, "SELECT count(*) " PG_OURS)
                                         : db_do(locks_db, "SELECT count(*) " MA_OURS);
}

long long locks_waiting(void)
{
    if (locks_db->kind == DB_POSTGRES)
        return db_do(locks_db, "SELECT count(*) " PG_OURS " AND wait_event_type = 'Lock'");
    /* innodb_trx shows what was some time ago */
    return db_do(locks_db, "SELECT count(*) " MA_OURS
                           " AND (state = 'User lock' OR (state = 'Statistics' AND info LIKE "
                           "'%%FOR UPDATE'))");
}

void locks_end_sessions(void)
{
    char ids[4096], *id, *rest = ids;

    if (locks_db->kind == DB_POSTGRES) {
        db_do(locks_db, "SELECT count(pg_terminate_backend(pid)) " PG_OURS);
        return;
    }
    db_text(locks_db, ids, sizeof ids, "SELECT group_concat(id) " MA_OURS);
    while ((id = strsep(&rest, ",")) && *id) /* one may be gone by then, which is an error */
        db_do(locks_db,
              "BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR 1094 BEGIN END; KILL CONNECTION %s; "
              "END",
              id);
}

/* ---- what they promise ---------------------------------------------------------------------------------- */

static void says(const char *mode)
{
    hf_store *store = locks_open(mode, "");
    hf_store_info info = HF_STORE_INFO_INIT;
    hf_acquire_request request = mutex_request("says");
    bool shared = locks_db->kind == DB_POSTGRES && strstr(mode, "session") != NULL;
    hf_lease *lease = NULL;

    EXPECT(HF_OK, hf_store_get(store, &info));
    CHECK((info.caps & HF_CAP_PROCESS) && (info.caps & HF_CAP_WAIT));
    CHECK(!(info.caps & (HF_CAP_TTL | HF_CAP_TOKEN | HF_CAP_SEMAPHORE)));
    CHECK(!(info.caps & HF_CAP_SHARED) == !shared);
    CHECK(info.tokens == HF_TOKEN_STRENGTH_NONE && info.default_ttl_ms == 0);
    CHECK(strstr(info.location, DB_SECRET) == NULL);
    CHECK(strstr(info.location, mode) != NULL); /* other locks than those of another mode */
    request.ttl_ms = 5000;
    EXPECT(HF_UNSUPPORTED, hf_acquire(store, &request, &lease, &contract_error));
    request.ttl_ms = 0;
    request.kind = HF_KIND_SHARED;
    EXPECT(shared ? HF_OK : HF_UNSUPPORTED, probe(store, &request));
    request.kind = HF_KIND_MUTEX;
    lease = take(store, &request);
    CHECK(hf_lease_token(lease) == 0 && hf_lease_remaining_ms(lease) == INT64_MAX);
    give(lease);
    close_store(store);
}

static void what_they_say(void **state)
{
    (void)state;
    BOTH_MODES(says);
}

/* ---- names -------------------------------------------------------------------------------------------- */

/* Names that differ in case, in a trailing blank, in their last of 512 bytes, in bytes that are not text. */
static void no_two_names(const char *mode)
{
    static unsigned char names[8][HF_NAME_MAX];
    const size_t lens[8] = { 3, 3, 4, HF_NAME_MAX, HF_NAME_MAX, 2, 2, 3 };
    hf_store *store = locks_open(mode, ""), *second = locks_open(mode, "");
    hf_lease *leases[8];

    memcpy(names[0], "job", 3);
    memcpy(names[1], "JOB", 3);
    memcpy(names[2], "job ", 4);
    memset(names[3], 'x', HF_NAME_MAX);
    memset(names[4], 'x', HF_NAME_MAX - 1);
    names[4][HF_NAME_MAX - 1] = 'y';
    memcpy(names[5], "\0'", 2);
    memcpy(names[6], "\xff\\", 2);
    memcpy(names[7], "jo\xe4", 3);
    for (int i = 0; i < 8; i++) {
        hf_acquire_request request = { .size = sizeof request,
                                       .name = names[i],
                                       .name_len = lens[i] };

        leases[i] = take(i % 2 ? store : second, &request);
        EXPECT(HF_BUSY, probe(i % 2 ? second : store, &request));
    }
    for (int i = 0; i < 8; i++)
        give(leases[i]);
    close_store(second);
    close_store(store);
}

static void names_are_kept_apart(void **state)
{
    (void)state;
    BOTH_MODES(no_two_names);
}

/* While a name is waited for, others come and go, also those that nobody has used before. */
static void others_go_on(const char *mode)
{
    hf_store *store = locks_open(mode, ""), *second = locks_open(mode, "");
    hf_acquire_request request = mutex_request("stuck"), wait = waiting_request("stuck"), fresh;
    hf_lease *lease = take(store, &request);
    struct attempt attempt;
    char name[32];

    attempt_start(&attempt, second, &wait);
    AWAIT(locks_waiting() == 1);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "%s-fresh-%d", mode, i);
        fresh = mutex_request(name);
        EXPECT(HF_OK, probe(i % 2 ? second : store, &fresh));
        fresh.wait_ms = LIMIT_MS;
        EXPECT(HF_OK, probe(i % 2 ? store : second, &fresh));
    }
    CHECK(locks_waiting() == 1);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_store(second);
    close_store(store);
}

static void names_do_not_block_each_other(void **state)
{
    (void)state;
    BOTH_MODES(others_go_on);
}

/* Somebody has given the lock's number to another name; somebody has removed rows. */
static void tables_that_were_changed(void **state)
{
    const char *key = locks_db->kind == DB_POSTGRES ? "lock" : "lock_name";
    const char *hex =
        locks_db->kind == DB_POSTGRES ? "name = '\\x6f64646c79'::bytea" : "name = 'oddly'";
    hf_acquire_request request = mutex_request("oddly");
    hf_store *store = locks_open("session", "");
    hf_lease *lease;

    (void)state;
    EXPECT(HF_OK, probe(store, &request));
    close_store(store); /* a store remembers what it has found */
    CHECK(db_do(locks_db, "SELECT count(%s) FROM hfm_lock_names WHERE %s", key, hex) == 1);
    db_do(locks_db, "UPDATE hfm_lock_names SET name = 'evenly' WHERE %s", hex);
    store = locks_open("session", "");
    EXPECT(HF_CONFIG, probe(store, &request));
    CHECK(strstr(contract_error.text, "prefix=") != NULL);
    close_store(store);

    store = locks_open("row", "");
    EXPECT(HF_OK, probe(store, &request));
    db_do(locks_db, "DELETE FROM hfm_lock_rows");
    EXPECT(HF_OK, probe(store, &request));
    db_do(locks_db, "DELETE FROM hfm_lock_rows");
    request.wait_ms = LIMIT_MS;
    lease = take(store, &request);
    request.wait_ms = 0;
    EXPECT(HF_BUSY, probe(store, &request));
    give(lease);
    close_store(store);
}

/* ---- connections ----------------------------------------------------------------------------------------- */

#define NAMES 100

/* 100 names of each of two clients, on one connection each (and one that made the tables and records names). */
static void names_share_a_connection(void **state)
{
    hf_store *stores[2] = { locks_open("session", ""), locks_open("session", "") };
    hf_lease *leases[2][NAMES];
    hf_acquire_request request;
    char name[32];

    (void)state;
    for (int i = 0; i < NAMES; i++)
        for (int s = 0; s < 2; s++) {
            snprintf(name, sizeof name, "share-%d-%d", s, i);
            request = mutex_request(name);
            leases[s][i] = take(stores[s], &request);
        }
    CHECK(locks_sessions() <= 4);
    for (int i = 0; i < NAMES; i += 9) {
        snprintf(name, sizeof name, "share-0-%d", i);
        request = mutex_request(name);
        EXPECT(HF_BUSY, probe(stores[1], &request));
        EXPECT(HF_BUSY, probe(stores[0], &request)); /* not let in again by its own session */
    }
    for (int i = 0; i < NAMES; i++)
        for (int s = 0; s < 2; s++)
            give(leases[s][i]);
    EXPECT(HF_OK, probe(stores[1], &request));
    close_store(stores[0]);
    close_store(stores[1]);
}

/* connections=3: two leases; a third one is refused, or waits for its connection. */
static void connections_are_bounded(void **state)
{
    hf_store *store = locks_open("row", "&connections=3");
    hf_acquire_request a = mutex_request("bound-a"), b = mutex_request("bound-b"),
                       c = mutex_request("bound-c");
    struct attempt attempt;
    hf_lease *first = take(store, &a), *second = take(store, &b), *third = NULL;

    (void)state;
    EXPECT(HF_FULL, probe(store, &c));
    CHECK(strstr(contract_error.text, "connections=") != NULL);
    c.wait_ms = 50;
    EXPECT(HF_TIMEOUT, hf_acquire(store, &c, &third, &contract_error));
    CHECK(strstr(contract_error.text, "connections=") != NULL);
    c.wait_ms = LIMIT_MS;
    attempt_start(&attempt, store, &c);
    attempt_settled(&attempt);
    CHECK(locks_sessions() <= 3);
    give(first);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    give(second);
    close_store(store);
    EXPECT(HF_CONFIG, locks_try_open(locks_url("row", "&connections=1"), &store));
    EXPECT(HF_CONFIG, locks_try_open(locks_url("session", "&connections=1"), &store));
}

/* ---- tokens=on --------------------------------------------------------------------------------------------- */

static void tokens_rise(const char *mode)
{
    hf_store *stores[2] = { locks_open(mode, "&tokens=on"), locks_open(mode, "&tokens=on") };
    hf_store_info info = HF_STORE_INFO_INIT;
    hf_acquire_request request = waiting_request("tokens");
    uint64_t last = 0;

    EXPECT(HF_OK, hf_store_get(stores[0], &info));
    CHECK((info.caps & HF_CAP_TOKEN) && info.tokens == HF_TOKEN_STRENGTH_WHILE_DURABLE);
    for (int i = 0; i < 6; i++) {
        hf_lease *lease = take(stores[i % 2], &request);

        CHECK(hf_lease_token(lease) > last);
        last = hf_lease_token(lease);
        give(lease);
    }
    close_store(stores[0]);
    close_store(stores[1]);
}

static void tokens_on(void **state)
{
    (void)state;
    BOTH_MODES(tokens_rise);
}

/* ---- rights ------------------------------------------------------------------------------------------ */

static void with_few_rights(const char *mode)
{
    hf_store *store = locks_open(mode, "&create=off"), *second = locks_open(mode, "&create=off");
    hf_acquire_request request = mutex_request("few"), wait = waiting_request("few");
    hf_lease *lease = take(store, &request);

    EXPECT(HF_BUSY, probe(second, &request));
    wait.wait_ms = 50;
    EXPECT(HF_TIMEOUT, probe(second, &wait)); /* ending one's own statement needs none */
    give(lease);
    EXPECT(HF_OK, probe(second, &request));
    close_store(second);
    close_store(store);
}

/* A user with what the manual says is needed, and no more. */
static void few_rights(void **state)
{
    hf_store *store = locks_open("row", ""); /* makes the tables */

    (void)state;
    close_store(store);
    if (locks_db->kind == DB_POSTGRES)
        db_do(locks_db, "GRANT SELECT, INSERT ON hfm_lock_names TO few;"
                        "GRANT SELECT, INSERT, UPDATE ON hfm_lock_rows TO few");
    else
        db_do(locks_db, "GRANT SELECT ON test.hfm_meta TO few@'%%';"
                        "GRANT SELECT, INSERT ON test.hfm_lock_names TO few@'%%';"
                        "GRANT SELECT, INSERT, UPDATE ON test.hfm_lock_rows TO few@'%%'");
    locks_db->wish.few = true;
    BOTH_MODES(with_few_rights);
    locks_db->wish.few = false;
}

/* ---- poolers ---------------------------------------------------------------------------------------------- */

static void pooled(const char *mode)
{
    hf_acquire_request request = waiting_request("pooled"), try = mutex_request("pooled");
    hf_store *store = NULL, *second;
    hf_lease *lease;

    EXPECT(HF_CONFIG,
           locks_try_open(locks_url("lease", ""), &store)); /* no notification would reach it */
    EXPECT(HF_CONFIG, locks_try_open(locks_url(mode, ""), &store));
    CHECK(strstr(contract_error.text, "pooler=session") != NULL);
    pooler_stop(locks_db);
    locks_db->wish.pooling = "session";
    pooler_start(locks_db);
    store = locks_open(mode, "&pooler=session");
    second = locks_open(mode, "&pooler=session");
    lease = take(store, &request);
    EXPECT(HF_BUSY, probe(second, &try));
    request.wait_ms = 50;
    EXPECT(HF_TIMEOUT, probe(second, &request));
    give(lease);
    EXPECT(HF_OK, probe(second, &try));
    close_store(second);
    close_store(store);
}

static void behind_a_pooler(const char *mode)
{
    locks_db->wish.pooling = "transaction";
    pooler_start(locks_db);
    pooled(mode);
    pooler_stop(locks_db);
    locks_db->wish.pooling = NULL;
    locks_db->pooler_port = 0;
}

static void refused_behind_a_pooler(void **state)
{
    (void)state;
    if (locks_db->kind == DB_POSTGRES)
        BOTH_MODES(behind_a_pooler);
}

int main(int argc, char **argv)
{
    static struct CMUnitTest cases[32] = {
        cmocka_unit_test(what_they_say),
        cmocka_unit_test(names_are_kept_apart),
        cmocka_unit_test(names_do_not_block_each_other),
        cmocka_unit_test(tables_that_were_changed),
        cmocka_unit_test(names_share_a_connection),
        cmocka_unit_test(connections_are_bounded),
        cmocka_unit_test(tokens_on),
        cmocka_unit_test(refused_behind_a_pooler),
        cmocka_unit_test(few_rights),
    };
    size_t count = 9;
    int failed;

    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    locks_db =
        db_start(argc > 1 && strcmp(argv[1], "mariadb") == 0 ? DB_MARIADB : DB_POSTGRES, NULL);
    memcpy(cases + count, locks_wait_cases, locks_wait_count * sizeof *cases);
    count += locks_wait_count;
    memcpy(cases + count, locks_circle_cases, locks_circle_count * sizeof *cases);
    count += locks_circle_count;
    memcpy(cases + count, locks_loss_cases, locks_loss_count * sizeof *cases);
    count += locks_loss_count;
    failed = _cmocka_run_group_tests("holds", cases, count, NULL, NULL);
    db_free(locks_db);
    return failed;
}
