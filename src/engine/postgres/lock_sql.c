/* SPDX-License-Identifier: MIT */
/*
 * The statements of mode=row and mode=session for PostgreSQL.
 *
 * A row is locked by SELECT ... FOR UPDATE in a transaction that stays open. It changes nothing, so
 * it ends with ROLLBACK: the server need not write anything for it.
 *
 * An advisory lock has a 64-bit number and belongs to the database and the session. pg_advisory_unlock() of one
 * that is not held is a warning and false, so it may be used to make sure.
 *
 * In a transaction of others (hf_sql_lock()) it is the same number, by the functions whose locks end with the transaction. Nothing
 * is recorded there: two names with one number exclude each other, which does no harm.
 */
#include "engine/postgres/internal.h"

#include "engine/sql/native_lock.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>

/* By way of pg_settings: an older server does not know all of them. */
#define PREPARE                                                                             \
    "SELECT set_config(s.name, v.value, false) FROM (VALUES"                                \
    " ('idle_in_transaction_session_timeout', '0'), ('idle_session_timeout', '0'),"         \
    " ('statement_timeout', '0'), ('transaction_timeout', '0'), ('lock_timeout', '0'),"     \
    " ('client_connection_check_interval', '2000'),"                                        \
    " ('tcp_keepalives_idle', '" SQL_ALIVE_TEXT_IDLE "'),"                                  \
    " ('tcp_keepalives_interval', '" SQL_ALIVE_TEXT_INTERVAL "'),"                          \
    " ('tcp_keepalives_count', '" SQL_ALIVE_TEXT_COUNT "'), ('tcp_user_timeout', '40000'))" \
    " AS v(name, value) JOIN pg_settings s ON s.name = v.name"

/* In a session of others: no backslash. */
#define NAME "pg_catalog.decode('{H}', 'hex')"
#define MAKE "INSERT INTO {R} (name) VALUES (" NAME ") ON CONFLICT DO NOTHING"

static void key(const uint64_t hash[2], char ret_key[SQL_KEY_ROOM])
{
    /* The smallest number cannot be written as a literal: its digits alone are too large. */
    snprintf(ret_key, SQL_KEY_ROOM, "'%" PRId64 "'::int8", (int64_t)hash[0]);
}

static void table(const char *schema, const char *prefix, const char *name,
                  char ret_table[SQL_TABLE_ROOM])
{
    snprintf(ret_table, SQL_TABLE_ROOM, "\"%s\".\"%s%s\"", schema, prefix, name);
}

/*
 * A pooler may share one session of the server between clients, and reports a backend number of its
 * own.
 */
static hf_status verify(struct sql_connection *connection, enum sql_mode mode, int64_t deadline_ms,
                        hf_error *err)
{
    (void)mode;
    (void)deadline_ms;
    if (connection->store->conf.pooled ||
        PQbackendPID(connection->native) == (int)connection->server_id)
        return HF_OK;
    return hfi_error_set(
        err, HF_CONFIG, 0,
        "a pooler (pgbouncer) is between us and the server: a session there is not ours "
        "to keep. Connect to the server itself; or if it pools by session, say "
        "pooler=session");
}

const struct sql_lock_sql postgres_lock_sql = {
    .limits =
        "SELECT name, reset_val || coalesce(unit, '') FROM pg_settings WHERE name IN"
        " ('idle_in_transaction_session_timeout', 'idle_session_timeout', 'statement_timeout',"
        " 'transaction_timeout', 'lock_timeout') AND boot_val <> reset_val",
    .keepalive = "SELECT " SQL_ALIVE_TEXT_IDLE, /* set for each session */
    .prepare = PREPARE,
    .names = "lock_names",
    .rows = "lock_rows",
    .interrupted = "57014",
    .session_record = "INSERT INTO {T} (lock, name) VALUES ({K}, {N}) ON CONFLICT DO NOTHING;"
                      "SELECT name FROM {T} WHERE lock = {K}",
    .session_try = "SELECT pg_try_advisory_lock({K})::int",
    .session_wait = "SELECT pg_advisory_lock({K})",
    .session_free = "SELECT pg_advisory_unlock({K})::int",
    .shared_try = "SELECT pg_try_advisory_lock_shared({K})::int",
    .shared_wait = "SELECT pg_advisory_lock_shared({K})",
    .shared_free = "SELECT pg_advisory_unlock_shared({K})::int",
    .calls = true,
    .row_known = "SELECT 1 FROM {R} WHERE name = {N}",
    .row_add = "INSERT INTO {R} (name) VALUES ({N}) ON CONFLICT DO NOTHING",
    .row_try = "BEGIN; SELECT 1 FROM {R} WHERE name = {N} FOR UPDATE SKIP LOCKED",
    .row_wait = "BEGIN; SELECT 1 FROM {R} WHERE name = {N} FOR UPDATE",
    .row_free = "ROLLBACK",
    .advisory = { [HFI_SQL_LOCK] = "SELECT 1 FROM pg_catalog.pg_advisory_xact_lock({K})",
                  [HFI_SQL_LOCK_TRY] = "SELECT pg_catalog.pg_try_advisory_xact_lock({K})::int4",
                  [HFI_SQL_LOCK_SHARED] =
                      "SELECT 1 FROM pg_catalog.pg_advisory_xact_lock_shared({K})",
                  [HFI_SQL_LOCK_SHARED_TRY] =
                      "SELECT pg_catalog.pg_try_advisory_xact_lock_shared({K})::int4",
                  [HFI_SQL_ROW_KNOWN] = "",
                  [HFI_SQL_ROW_MAKE] = "",
                  [HFI_SQL_ROW_MAKE_SHARED] = "",
                  [HFI_SQL_ROW_MAKE_TRY] = "",
                  [HFI_SQL_ROW_MAKE_SHARED_TRY] = "" },
    /* NOLINTBEGIN(bugprone-suspicious-missing-comma): NAME stands between two parts */
    .row = { [HFI_SQL_LOCK] = "SELECT 1 FROM {R} WHERE name = " NAME " FOR UPDATE",
             [HFI_SQL_LOCK_TRY] = "SELECT 1 FROM {R} WHERE name = " NAME " FOR UPDATE SKIP LOCKED",
             [HFI_SQL_LOCK_SHARED] = "SELECT 1 FROM {R} WHERE name = " NAME " FOR SHARE",
             [HFI_SQL_LOCK_SHARED_TRY] =
                 "SELECT 1 FROM {R} WHERE name = " NAME " FOR SHARE SKIP LOCKED",
             [HFI_SQL_ROW_KNOWN] = "SELECT 1 FROM {R} WHERE name = " NAME,
             [HFI_SQL_ROW_MAKE] = MAKE,
             [HFI_SQL_ROW_MAKE_SHARED] = MAKE,
             [HFI_SQL_ROW_MAKE_TRY] = MAKE, /* which does not wait for a row that is locked */
             [HFI_SQL_ROW_MAKE_SHARED_TRY] = MAKE },
    /* NOLINTEND(bugprone-suspicious-missing-comma) */
    .waits_live = "SELECT pg_advisory_lock_shared({C})::text",
    .waits_sweep = "DELETE FROM {W} w WHERE NOT EXISTS (SELECT FROM pg_locks l, pg_database d WHERE"
                   " d.datname = current_database() AND l.database = d.oid AND l.granted AND"
                   " l.locktype = 'advisory' AND l.objsubid = 1 AND"
                   " (l.classid::int8 << 32 | l.objid::int8) = w.client)",
    .key = key,
    .table = table,
    .verify = verify,
};
