/* SPDX-License-Identifier: MIT */
/*
 * The statements of mode=row and mode=session for MariaDB and MySQL.
 *
 * A row is locked by SELECT ... FOR UPDATE in a transaction that stays open, in READ COMMITTED: a
 * missing row must not lock the gap in which others insert theirs. Without autocommit: the
 * statement itself begins the transaction, and is answered in one piece.
 *
 * A user-level lock has a name of at most 64 characters, in which case does not count, and belongs to the server and
 * the session: so its name is a hash in hexadecimal. It is not replicated.
 *
 * In a transaction of others (hf_sql_lock()) the same row is locked. Making it locks a row that is there after all as its user
 * wants it: ON DUPLICATE KEY UPDATE for one alone, INSERT IGNORE shared.
 */
#include "engine/mariadb/internal.h"

#include "engine/sql/native_lock.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* MariaDB-only settings are in comments that only MariaDB executes. */
#define PREPARE                                                                                   \
    "SET SESSION autocommit = 0, SESSION wait_timeout = 31536000, SESSION interactive_timeout = " \
    "31536000,"                                                                                   \
    " SESSION innodb_lock_wait_timeout = 100000000, SESSION lock_wait_timeout = 31536000"         \
    "/*M!100300 , SESSION idle_transaction_timeout = 0, SESSION max_statement_time = 0,"          \
    " SESSION idle_write_transaction_timeout = 0, SESSION idle_readonly_transaction_timeout = 0 " \
    "*/;"                                                                                         \
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"

/* The key includes the database: user-level locks are shared by the whole server. */
static void key(const uint64_t hash[2], char ret_key[SQL_KEY_ROOM])
{
    snprintf(ret_key, SQL_KEY_ROOM,
             "CONCAT('hf', SHA1(CONCAT(DATABASE(), '/%016" PRIx64 "%016" PRIx64 "')))", hash[0],
             hash[1]);
}

static void table(const char *schema, const char *prefix, const char *name,
                  char ret_table[SQL_TABLE_ROOM])
{
    (void)schema; /* the database of the connection */
    snprintf(ret_table, SQL_TABLE_ROOM, "`%s%s`", prefix, name);
}

/* One value of one row of a statement, as text; "" if there is none. */
static hf_status look(struct sql_connection *connection, const char *sql, uint32_t column,
                      int64_t deadline_ms, char ret_text[64], hf_error *err)
{
    struct sql_trouble trouble = { .status = HF_OK };
    struct sql_rows rows = { 0 };
    const struct sql_value *value;
    hf_status status = sql_text(connection, sql, deadline_ms, &rows, &trouble);

    if (status == HF_UNKNOWN)
        status = trouble.status == HF_NO_MEMORY ? HF_NO_MEMORY : HF_UNAVAILABLE;
    if (status != HF_OK)
        return hfi_error_set(err, status, trouble.error.native, "%s", trouble.error.text);
    value = rows.count > 0 && rows.columns > column ? sql_at(&rows, 0, column) : NULL;
    ret_text[0] = 0;
    if (value && value->type == SQL_INT)
        snprintf(ret_text, 64, "%" PRId64, value->number);
    else if (value && value->len < 64)
        snprintf(ret_text, 64, "%.*s", (int)value->len, (const char *)value->bytes);
    sql_rows_free(&rows);
    return HF_OK;
}

/*
 * A proxy may share one session of the server between clients. And nodes of a Galera cluster do not
 * see each other's user locks or row locks.
 */
static hf_status verify(struct sql_connection *connection, enum sql_mode mode, int64_t deadline_ms,
                        hf_error *err)
{
    struct maria_connection *native = connection->native;
    char text[64], own[64];
    hf_status status = look(connection, "SELECT CONNECTION_ID()", 0, deadline_ms, text, err);

    if (status != HF_OK)
        return status;
    snprintf(own, sizeof own, "%lu", mysql_thread_id(&native->mysql));
    if (!connection->store->conf.pooled && strcmp(text, own) != 0)
        return hfi_error_set(err, HF_CONFIG, 0,
                             "a proxy is between us and the server: a session there is not ours to "
                             "keep. Connect to the server itself; or if it pools by session, say "
                             "pooler=session");
    if (mode == SQL_MODE_LEASE)
        return HF_OK;
    status = look(connection, "SHOW VARIABLES LIKE 'wsrep_on'", 1, deadline_ms, text, err);
    if (status == HF_OK && strcmp(text, "ON") == 0)
        status = hfi_error_set(err, HF_CONFIG, 0,
                               "the server is a node of a Galera cluster, whose nodes do not know "
                               "each other's locks: use mode=lease");
    return status;
}

#define SHARED_TRY "/*M! LOCK IN SHARE MODE SKIP LOCKED *//*!80000 FOR SHARE SKIP LOCKED */"

/* An INSERT waits for the lock of a row that exists, even if it would change nothing. So: lock it without waiting; then see whether it is there
 * at all, by a plain read, which comes behind a lock that was granted (prim/sql_lock.c says why); and only then make it. */
#define MAKE_TRY(how)                                                 \
    "SELECT 1 INTO @holdfast FROM {R} WHERE name = X'{H}' " how ";\n" \
    "SELECT COUNT(*) INTO @holdfast FROM {R} WHERE name = X'{H}';\n"  \
    "INSERT IGNORE INTO {R} (name) SELECT X'{H}' FROM DUAL WHERE @holdfast = 0"

const struct sql_lock_sql maria_lock_sql = {
    .limits = "SHOW GLOBAL VARIABLES WHERE variable_name IN ('wait_timeout', 'interactive_timeout',"
              " 'idle_transaction_timeout', 'idle_write_transaction_timeout',"
              " 'idle_readonly_transaction_timeout', 'max_statement_time') AND value + 0 <> 0",
    .keepalive = "SELECT 0 /*M!100300 + @@GLOBAL.tcp_keepalive_time */",
    .prepare = PREPARE,
    .names = "lock_names",
    .rows = "lock_rows",
    .interrupted = "1317",
    .session_record = "INSERT IGNORE INTO {T} (lock_name, name) VALUES ({K}, {N});"
                      "SELECT name, lock_name FROM {T} WHERE lock_name = {K}",
    .session_try = "SELECT GET_LOCK({K}, 0) l", /* or the answer has the whole expression in it */
    .session_wait = "SELECT GET_LOCK({K}, 31536000) l",
    .session_free = "SELECT RELEASE_LOCK({K}) l",
    .row_known = "SELECT 1 FROM {R} WHERE name = {N}",
    .row_add = "INSERT IGNORE INTO {R} (name) VALUES ({N})",
    .row_try = "SELECT 1 FROM {R} WHERE name = {N} FOR UPDATE SKIP LOCKED",
    .row_wait = "SELECT 1 FROM {R} WHERE name = {N} FOR UPDATE",
    .row_free = "ROLLBACK",
    /* NOLINTBEGIN(bugprone-suspicious-missing-comma): long ones are written in two parts */
    .row = { [HFI_SQL_LOCK] = "SELECT 1 FROM {R} WHERE name = X'{H}' FOR UPDATE",
             [HFI_SQL_LOCK_TRY] = "SELECT 1 FROM {R} WHERE name = X'{H}' FOR UPDATE SKIP LOCKED",
             [HFI_SQL_LOCK_SHARED] = "SELECT 1 FROM {R} WHERE name = X'{H}' LOCK IN SHARE MODE",
             [HFI_SQL_LOCK_SHARED_TRY] = "SELECT 1 FROM {R} WHERE name = X'{H}' " SHARED_TRY,
             [HFI_SQL_ROW_KNOWN] = "SELECT 1 FROM {R} WHERE name = X'{H}'",
             [HFI_SQL_ROW_MAKE] = "INSERT INTO {R} (name) VALUES (X'{H}')"
                                  " ON DUPLICATE KEY UPDATE name = VALUES(name)",
             [HFI_SQL_ROW_MAKE_SHARED] = "INSERT IGNORE INTO {R} (name) VALUES (X'{H}')",
             [HFI_SQL_ROW_MAKE_TRY] = MAKE_TRY("FOR UPDATE SKIP LOCKED"),
             [HFI_SQL_ROW_MAKE_SHARED_TRY] = MAKE_TRY(SHARED_TRY) },
    /* NOLINTEND(bugprone-suspicious-missing-comma) */
    .waits_live = "SELECT GET_LOCK(CONCAT('holdfast.', LOWER(HEX({C}))), 0)",
    .waits_sweep = "DELETE FROM {W} WHERE IS_USED_LOCK(CONCAT('holdfast.', LOWER(HEX(client))))"
                   " IS NULL",
    .key = key,
    .table = table,
    .verify = verify,
};
