/* SPDX-License-Identifier: MIT */
/*
 * The schema: sql/ *.sql, `~` becoming the prefix. Each statement makes a table only if it is not there, and replaces a
 * procedure, so all of it may be run again; a user lock lets one client at a time make it. The row
 * with the version comes last: a client that finds it finds everything.
 *
 * Procedures of an older version are replaced, so that all clients, also those of the older version, call the same ones: their
 * parameters and answers are the same (MARIA_VERSION). Another row has the version of their
 * behaviour (MARIA_ROUTINES).
 */
#include "engine/mariadb/internal.h"

#include "util/alloc.h"
#include "util/error.h"

#include <stdio.h>
#include <string.h>

static bool emit_filled(struct sql_store *store, const char *text,
                        bool (*emit)(void *arg, const char *sql), void *arg)
{
    const char *prefix = store->conf.prefix;
    size_t size = strlen(text) + 1;
    char *sql, *to;
    bool ok;

    for (const char *at = text; *at; at++)
        size += *at == '~' ? strlen(prefix) : 0;
    sql = to = hfi_malloc(size);
    if (!sql)
        return false;
    for (const char *at = text; *at; at++) {
        if (*at != '~') {
            *to++ = *at;
            continue;
        }
        memcpy(to, prefix, strlen(prefix));
        to += strlen(prefix);
    }
    *to = 0;
    ok = emit(arg, sql);
    hfi_free(sql);
    return ok;
}

bool maria_schema(struct sql_store *store, bool (*emit)(void *arg, const char *sql), void *arg)
{
    for (size_t i = 0; maria_schema_text[i]; i++)
        if (!emit_filled(store, maria_schema_text[i], emit, arg))
            return false;
    return true;
}

/* Does everything exist, in transactional tables? And does SYSDATE() run during a statement?
 * (--sysdate-is-now freezes it while a statement waits for a lock; then a window would begin too
 * early.) */
hf_status maria_probe(struct sql_connection *connection, int64_t deadline_ms,
                      enum sql_found *ret_found, hf_error *err)
{
    struct sql_trouble trouble;
    struct sql_rows rows;
    const char *prefix = connection->store->conf.prefix;
    enum sql_outcome outcome;
    hf_status status = HF_OK;
    char sql[1280];

    *ret_found = SQL_FOUND_NONE;
    snprintf(
        sql, sizeof sql,
        "SELECT number, (SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = "
        "DATABASE()"
        " AND TABLE_NAME IN "
        "('%snames','%sclaims','%sclients','%scells','%swatches','%sletters','%sslots','%smeta')"
        " AND ENGINE <> 'InnoDB') + 0, (SYSDATE(6) = NOW(6)) + SLEEP(0.001) * 0"
        " + (SYSDATE(6) = NOW(6)),"
        " COALESCE((SELECT number FROM `%smeta` WHERE item = 'routines'), 1) + 0"
        " FROM `%smeta` WHERE item = 'schema'",
        prefix, prefix, prefix, prefix, prefix, prefix, prefix, prefix, prefix, prefix);
    outcome = maria_text(connection, sql, deadline_ms, &rows, &trouble);
    if (outcome == SQL_REFUSED && trouble.no_table)
        return HF_OK;
    if (outcome != SQL_DONE)
        return hfi_error_set(err, trouble.status, trouble.error.native, "%s", trouble.error.text);
    if (!sql_fits(&rows, "iiii", 0, 1))
        return sql_odd(connection, "are the tables there", &rows, err);
    if (rows.count == 0)
        ; /* another client is creating it, or has begun to */
    else if (sql_int(&rows, 0, 0) != MARIA_VERSION)
        status = hfi_error_set(err, HF_VERSION, 0,
                               "the tables are of version %lld, this library needs %d (another "
                               "prefix= keeps them apart)",
                               (long long)sql_int(&rows, 0, 0), MARIA_VERSION);
    else if (sql_int(&rows, 0, 1) > 0)
        status = hfi_error_set(err, HF_CONFIG, 0,
                               "a table of ours is not InnoDB: it has no transactions");
    else if (sql_int(&rows, 0, 2) == 2)
        status = hfi_error_set(err, HF_CONFIG, 0,
                               "the server runs with sysdate-is-now: SYSDATE() is no clock");
    else
        *ret_found = sql_int(&rows, 0, 3) < MARIA_ROUTINES ? SQL_FOUND_OLD : SQL_FOUND_ALL;
    sql_rows_free(&rows);
    return status;
}
