/* SPDX-License-Identifier: MIT */
/*
 * mode=lease: a database whose routines are of an older version. They are replaced, under the feet of clients that use them;
 * rows that they have written, and clients of that version, go on.
 */
#include "calls.h"
#include "leases.h"

#include <stdio.h>
#include <string.h>

static bool is_postgres(void)
{
    return leases_db->kind == DB_POSTGRES;
}

/* As version 1 would have left it: without a newer version mark. Its hand-over routine fails: a
 * client that calls it still uses an old routine. */
static void make_old(void)
{
    if (is_postgres()) {
        db_do(leases_db, "COMMENT ON FUNCTION hfold_token_1(bytea, int8) IS NULL");
        db_do(leases_db,
              "CREATE OR REPLACE FUNCTION hfold_turn_1(n hfold_names) RETURNS hfold_names "
              "LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''old''; END'");
        db_do(
            leases_db,
            "DROP FUNCTION IF EXISTS hfold_claim_1, hfold_slots_1, hfold_resize_1; " /* of version 9 and 10 */
            "ALTER TABLE hfold_waiters DROP COLUMN IF EXISTS replaces; "
            "ALTER TABLE hfold_holders DROP COLUMN IF EXISTS slots");
        return;
    }
    db_do(leases_db, "DELETE FROM hfold_meta WHERE item = 'routines'");
    db_do(leases_db, "DROP PROCEDURE IF EXISTS hfold_claim");  /* not before 7 */
    db_do(leases_db, "DROP PROCEDURE IF EXISTS hfold_resize"); /* nor the rest before 8 */
    db_do(leases_db, "DROP TABLE IF EXISTS hfold_slots");
    db_do(leases_db, "CREATE OR REPLACE PROCEDURE hfold_settle (IN p_name VARBINARY(512), INOUT "
                     "io_rings TEXT CHARACTER SET ascii) SIGNAL SQLSTATE '45000'");
}

static hf_store *open_old(void)
{
    hf_store *store = NULL;

    EXPECT(HF_OK, hf_open(leases_url("old", ""), NULL, &store, &contract_error));
    return store;
}

static void note_tables(hf_check_level level, const char *topic, const char *text, void *arg)
{
    if (strcmp(topic, "tables") == 0)
        *(bool *)arg = level == HF_CHECK_LEVEL_WARNING && strstr(text, "older version");
}

/* Whoever may not make anything is told what to do, and nothing is made. */
static void looks_only(void)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_store *store = NULL;
    hf_view *view = NULL;
    bool told = false;

    EXPECT(HF_CONFIG, hf_open(leases_url("old", "&create=off"), NULL, &store, &contract_error));
    CHECK(strstr(contract_error.text, "older version") != NULL);
    CHECK(strstr(contract_error.text, "doctor --sql") != NULL);
    options.flags = HF_OPEN_FLAG_EXISTING;
    EXPECT(HF_OK, hf_open(leases_url("old", ""), &options, &store, &contract_error));
    EXPECT(HF_VERSION, hf_store_inspect(store, "n", 1, 0, &view, &contract_error));
    CHECK(strstr(contract_error.text, "first lock") != NULL);
    EXPECT(HF_OK, call_store_check(store, note_tables, &told, &contract_error));
    CHECK(told);
    close_store(store);
}

/* Of a client that has waited since before, too: it sleeps in the server meanwhile. */
static void routines_are_replaced(void **state)
{
    hf_store *holder = open_old(), *old = open_old(), *store;
    hf_acquire_request request = waiting_request("n"), once = mutex_request("n");
    hf_acquire_request writer = waiting_request("rw");
    hf_lease *lease = take(holder, &request);
    struct attempt waiter;

    (void)state;
    writer.kind = HF_KIND_EXCLUSIVE;
    attempt_start(&waiter, old, &request);
    AWAIT(count_waiters(old, "n") == 1);
    make_old();
    looks_only();
    store = open_old();
    CHECK(count_waiters(store, "n") == 1);
    give(lease);
    EXPECT(HF_OK, attempt_join(&waiter));
    CHECK(hf_lease_state(waiter.lease) == HF_STATE_HELD);
    EXPECT(HF_BUSY, probe(store, &once));
    give(waiter.lease);
    give(take(store, &request));
    lease = take(old, &writer);
    EXPECT(HF_OK, hf_convert(&lease, HF_KIND_UPGRADEABLE, 0, &contract_error));
    EXPECT(HF_OK, hf_convert(&lease, HF_KIND_EXCLUSIVE, LIMIT_MS, &contract_error));
    give(lease);
    writer.kind = HF_KIND_SEMAPHORE;
    writer.name = "sem";
    writer.name_len = 3;
    writer.capacity = 3;
    writer.flags = HF_FLAG_NUMBERED;
    EXPECT(HF_OK, hf_semaphore_resize(old, "sem", 3, 2, &contract_error));
    lease = take(old, &writer);
    give(take(store, &writer));
    give(lease);
    close_store(store);
    EXPECT(HF_OK, hf_open(leases_url("old", "&create=off"), NULL, &store, &contract_error));
    close_store(store);
    close_store(old);
    close_store(holder);
}

/* Many find it old at the same moment, while others are at work. */
static void replaced_by_many(void **state)
{
    hf_store *stores[8];
    hf_acquire_request request = waiting_request("many");
    hf_store *busy = open_old();

    (void)state;
    for (int round = 0; round < 5; round++) {
        make_old();
        for (size_t i = 0; i < 8; i++)
            stores[i] = open_old();
        for (size_t i = 0; i < 8; i++) {
            give(take(stores[i], &request));
            give(take(busy, &request));
            close_store(stores[i]);
        }
    }
    close_store(busy);
}

/* Version 1 wrote the ttl beside the end of a window that may be longer, and no delay beside the end of one: what it has
 * granted is not cut as if the clock had been set back. */
static void what_was_granted_before(void **state)
{
    hf_store *store = open_old();
    hf_acquire_request request = mutex_request("sole"), shared = mutex_request("shared");
    hf_acquire_request closed = mutex_request("closed");
    long long before;

    (void)state;
    close_store(store);
    make_old();
    if (is_postgres()) {
        db_do(leases_db,
              "INSERT INTO hfold_names (name, capacity, taken, holders, owner, ttl, soon) "
              "VALUES ('sole', 1, 1, 1, 'they', 100, hfold_us_1() + 60000000)");
        db_do(leases_db,
              "INSERT INTO hfold_names (name, mode, capacity, taken, holders, ttl, soon) "
              "VALUES ('shared', 1, 1048576, 1, 1, 0, 5)");
        db_do(leases_db,
              "INSERT INTO hfold_holders (name, owner, client, permits, until, token, "
              "tokens, current, ttl, delay, flags, since) VALUES ('shared', 'they', 1, 1, "
              "hfold_us_1() + 60000000, 1, 1, 1, 100, 0, 0, 0)");
        db_do(leases_db, "INSERT INTO hfold_names (name, capacity, closed) VALUES ('closed', 1, "
                         "hfold_us_1() + 60000000)");
    } else {
        db_do(leases_db, "INSERT INTO hfold_names (name, closed) VALUES ('closed', "
                         "UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 + 60000000)");
    }
    before =
        db_do(leases_db, "SELECT sum(soon) + sum(closed) FROM hfold_names WHERE name <> 'shared'");
    store = open_old();
    EXPECT(HF_BUSY, probe(store, &closed));
    if (is_postgres()) {
        EXPECT(HF_BUSY, probe(store, &request));
        EXPECT(HF_MISMATCH, probe(store, &shared)); /* after a look at those who share it */
        CHECK(db_do(leases_db, "SELECT until FROM hfold_holders WHERE owner = 'they'") >
              db_do(leases_db, "SELECT hfold_us_1() + 1000000"));
    }
    CHECK(db_do(leases_db,
                "SELECT sum(soon) + sum(closed) FROM hfold_names WHERE name <> 'shared'") ==
          before);
    close_store(store);
}

/* PostgreSQL: a waiter of version 1, whose client has no lock that says that it listens, gets its turn. */
static void a_waiter_of_before(void **state)
{
    hf_store *store;
    hf_acquire_request request = mutex_request("turn");
    hf_lease *lease;

    (void)state;
    if (!is_postgres())
        return;
    store = open_old();
    lease = take(store, &request);
    db_do(leases_db, "INSERT INTO hfold_clients VALUES (5, hfold_us_1() + 60000000)");
    db_do(leases_db, "INSERT INTO hfold_waiters (owner, name, client, permits, tokens, span, ttl, "
                     "delay, flags, since) VALUES ('they', 'turn', 5, 1, 1, 60000, 1000, 0, 0, 0)");
    db_do(leases_db, "UPDATE hfold_names SET waiters = 1 WHERE name = 'turn'");
    give(lease);
    CHECK(db_do(leases_db, "SELECT count(*) FROM hfold_names WHERE name = 'turn' AND owner = "
                           "'they'") == 1);
    close_store(store);
}

/* PostgreSQL: a table that a newer version adds has the rights of those before it: a user with few rights goes on. */
static void rights_of_a_new_table(void **state)
{
    hf_store *store;

    (void)state;
    if (!is_postgres())
        return;
    close_store(open_old());
    db_do(leases_db, "CREATE ROLE few_rights; CREATE ROLE no_rights");
    db_do(leases_db, "GRANT SELECT, INSERT, UPDATE, DELETE ON hfold_names TO few_rights");
    db_do(leases_db, "DROP TABLE hfold_mail");
    make_old();
    store = open_old();
    CHECK(db_do(leases_db, "SELECT (has_table_privilege('few_rights', 'hfold_mail', 'SELECT') AND "
                           "has_table_privilege('few_rights', 'hfold_mail', 'INSERT') AND "
                           "has_table_privilege('few_rights', 'hfold_mail', 'UPDATE') AND "
                           "has_table_privilege('few_rights', 'hfold_mail', 'DELETE'))::int") == 1);
    CHECK(db_do(leases_db,
                "SELECT (has_table_privilege('no_rights', 'hfold_mail', 'SELECT') OR "
                "has_table_privilege('few_rights', 'hfold_mail', 'TRUNCATE'))::int") == 0);
    close_store(store);
    db_do(leases_db, "DROP OWNED BY few_rights");
    db_do(leases_db, "DROP ROLE few_rights; DROP ROLE no_rights");
}

const struct CMUnitTest leases_upgrade_cases[] = {
    cmocka_unit_test(routines_are_replaced),   cmocka_unit_test(replaced_by_many),
    cmocka_unit_test(what_was_granted_before), cmocka_unit_test(a_waiter_of_before),
    cmocka_unit_test(rights_of_a_new_table),
};
const size_t leases_upgrade_count = sizeof leases_upgrade_cases / sizeof *leases_upgrade_cases;
